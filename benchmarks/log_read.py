"""What one read costs the log: from an offset to a range of a file, no byte of a record touched.

    .venv/bin/python benchmarks/log_read.py [--directory DIR] [--count N]

Reads at random offsets, at the end, and one after the other; the same batches in 1 to 1,000 segments. Microseconds per
call, the best of many short rounds. The cost must be flat. Also what it takes to find a timestamp, and to open the log.
"""

from __future__ import annotations

import argparse
import random
import tempfile
import time
from collections.abc import Callable, Iterable

from barnabas.config.broker import BrokerConfig
from barnabas.config.topic import TopicConfig
from barnabas.log.log import Log
from barnabas.protocol.record_batch import Record, encode_batch
from barnabas.runtime.system.disk import SystemDisk

NOW_MS = 1_700_000_000_000
ROUND_CALLS = 500
BATCHES = 200_000
FETCH_BYTES = 65_536


def filled(directory: str, segments: int) -> Log:
    config = TopicConfig({}, BrokerConfig({}))
    log = Log.open(SystemDisk(), f"{directory}/topic-{segments}", config, NOW_MS)
    for number in range(BATCHES):
        if number % (BATCHES // segments) == 0:
            log.roll(NOW_MS)
        data = encode_batch([Record(0, NOW_MS + number, None, bytes(100))])
        log.append_as_leader(memoryview(data), 0, NOW_MS + number)
    log.high_watermark = log.log_end_offset
    return log


def best_microseconds(call: Callable[[int], object], arguments: Iterable[int]) -> float:
    values = list(arguments)
    best = float("inf")
    size = min(ROUND_CALLS, len(values))
    for start in range(0, len(values) - size + 1, size):
        part = values[start : start + size]
        began = time.perf_counter()
        for value in part:
            call(value)
        best = min(best, (time.perf_counter() - began) / size * 1e6)
    return best


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--directory", help="where the logs are written; by default a temporary directory")
    arguments.add_argument("--count", type=int, default=20_000, help="reads a round")
    options = arguments.parse_args()
    chance = random.Random(1)
    with tempfile.TemporaryDirectory(dir=options.directory) as directory:
        print(f"{'segments':>8} {'random':>8} {'at end':>8} {'in order':>9} {'by time':>8} {'clean open, ms':>15}")
        for segments in (1, 10, 100, 1000):
            log = filled(directory, segments)
            end = log.log_end_offset

            def read(offset: int, log: Log = log, end: int = end) -> None:
                assert log.read(offset, FETCH_BYTES, end) is not None

            anywhere = best_microseconds(read, (chance.randrange(end) for _ in range(options.count)))
            at_end = best_microseconds(read, (end - 1 - n % 20 for n in range(options.count)))
            in_order = best_microseconds(read, (n % end for n in range(options.count)))
            moments = (NOW_MS + chance.randrange(end) for _ in range(options.count // 5))

            def search(moment: int, log: Log = log) -> None:
                candidate = log.times.first_at_or_after(moment, 0)
                assert candidate is not None
                assert candidate.search() is not None

            by_time = best_microseconds(search, moments)
            log.close()
            began = time.perf_counter()
            Log.open(SystemDisk(), log.directory, log.config, NOW_MS, clean_shutdown=True)
            opened_ms = (time.perf_counter() - began) * 1e3
            print(f"{segments:8} {anywhere:8.1f} {at_end:8.1f} {in_order:9.1f} {by_time:8.1f} {opened_ms:15.1f}")


if __name__ == "__main__":
    main()

"""What one append costs the log: check, patch, write, index, bookkeeping.

    .venv/bin/python benchmarks/log_append.py [--directory DIR] [--count N]

Each line is one kind of batch; times are microseconds per batch, the system call included: the best of many short
rounds, which is the least disturbed one. The last lines show that the cost does not grow with the number of
partitions, or of segments already there.
"""

from __future__ import annotations

import argparse
import itertools
import tempfile
import time
from collections.abc import Callable

from barnabas.config.broker import BrokerConfig
from barnabas.config.topic import TopicConfig
from barnabas.log.log import Log
from barnabas.protocol.compression import Codec
from barnabas.protocol.record_batch import Record, encode_batch
from barnabas.runtime.system.disk import SystemDisk

NOW_MS = 1_700_000_000_000
ROUNDS = 5
ROUND_BATCHES = 500


def config(**settings: object) -> TopicConfig:
    return TopicConfig({name.replace("_", "."): str(value) for name, value in settings.items()}, BrokerConfig({}))


def batch(records: int, size: int, producer_id: int = -1, sequence: int = -1, codec: Codec = Codec.NONE) -> bytearray:
    content = [Record(n, NOW_MS, None, bytes(size)) for n in range(records)]
    epoch = -1 if producer_id < 0 else 0
    return encode_batch(content, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence, codec=codec)


def microseconds(append: Callable[[memoryview], object], batches: list[memoryview]) -> float:
    best = float("inf")
    size = min(ROUND_BATCHES, len(batches))
    for start in range(0, len(batches) - size + 1, size):
        part = batches[start : start + size]
        began = time.perf_counter()
        for data in part:
            append(data)
        best = min(best, (time.perf_counter() - began) / size * 1e6)
    return best


def measure(directory: str, count: int, records: int, size: int, producer_id: int = -1, **settings: object) -> float:
    """The best round, in a new log each time."""
    best = float("inf")
    for number in range(ROUNDS):
        log = Log.open(SystemDisk(), f"{directory}/topic-{number}", config(**settings), NOW_MS)
        batches = [memoryview(batch(records, size, producer_id, n * records)) for n in range(count)]
        best = min(best, microseconds(lambda data, log=log: log.append_as_leader(data, 0, NOW_MS), batches))  # type: ignore[misc]
        assert log.log_end_offset == count * records
        log.abandon()
        SystemDisk().remove_directory(log.directory)
    return best


def measure_partitions(directory: str, partitions: int, count: int) -> float:
    """Round robin over many partitions."""
    disk = SystemDisk()
    logs = [Log.open(disk, f"{directory}/many-{n}", config(), NOW_MS) for n in range(partitions)]
    turn = itertools.cycle(logs)
    batches = [memoryview(batch(1, 100)) for _ in range(count)]
    for data in batches[:partitions]:
        next(turn).append_as_leader(data, 0, NOW_MS)
    best = microseconds(lambda data: next(turn).append_as_leader(data, 0, NOW_MS), batches[partitions:])
    for log in logs:
        log.abandon()
        disk.remove_directory(log.directory)
    return best


def measure_segments(directory: str, segments: int, count: int) -> float:
    """Behind a number of finished segments."""
    disk = SystemDisk()
    log = Log.open(disk, f"{directory}/long-0", config(), NOW_MS)
    for _ in range(segments):
        log.append_as_leader(memoryview(batch(1, 100)), 0, NOW_MS)
        log.roll(NOW_MS)
    batches = [memoryview(batch(1, 100)) for _ in range(count)]
    best = microseconds(lambda data: log.append_as_leader(data, 0, NOW_MS), batches)
    log.abandon()
    disk.remove_directory(log.directory)
    return best


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--directory", help="where the logs are written; by default a temporary directory")
    arguments.add_argument("--count", type=int, default=10_000, help="batches a round")
    options = arguments.parse_args()
    with tempfile.TemporaryDirectory(dir=options.directory) as directory:
        count = options.count
        print(f"{'batch':44} µs")
        print(f"{'1 record of 100 bytes':44} {measure(directory, count, 1, 100):.1f}")
        print(f"{'1 record of 100 bytes, idempotent':44} {measure(directory, count, 1, 100, 5):.1f}")
        stamped = measure(directory, count, 1, 100, message_timestamp_type="LogAppendTime")
        print(f"{'1 record of 100 bytes, LogAppendTime':44} {stamped:.1f}")
        print(f"{'150 records of 100 bytes (16 KiB)':44} {measure(directory, count // 5, 150, 100):.1f}")
        print(f"{'1000 records of 1000 bytes (1 MB)':44} {measure(directory, 50, 1000, 1000):.1f}")
        for partitions in (1, 10, 100, 1000):
            label = f"1 record of 100 bytes, {partitions} partitions"
            print(f"{label:44} {measure_partitions(directory, partitions, count):.1f}")
        for segments in (1, 10, 100, 1000):
            label = f"1 record of 100 bytes, behind {segments} segments"
            print(f"{label:44} {measure_segments(directory, segments, count):.1f}")


if __name__ == "__main__":
    main()

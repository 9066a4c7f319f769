"""How long a small write takes while somebody reads data that is not in the page cache. One broker.

One topic holds `bulk_bytes` and is evicted (`posix_fadvise(DONTNEED)`) before each pass; a librdkafka consumer reads
all of it. Meanwhile one record at a time is produced to another topic over a raw socket, RATE times a second, acks=all.
A latency counts from the moment at which the record was due, so that a stall costs all the records that it held up.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from end_to_end import flatness, side
from wire import Wire, batch, create_topic, produce

RATE = 200  # records a second
VALUE_BYTES = 1_024
FETCHED = 10_000  # records that the consumer takes at once: it waits for so many
BULK_BYTES, QUICK_BULK_BYTES = 3_000_000_000, 100_000_000
PASSES = 3  # of the reader, in each round
ALONE_SECONDS = 5.0


def measure(open_broker: Callable[[Path], side.Broker], bulk_bytes: int, say: Callable[[str], None]) -> side.Figures:
    records = bulk_bytes // VALUE_BYTES // FETCHED * FETCHED
    with (
        tempfile.TemporaryDirectory(prefix="barnabas-bench-") as directory,
        open_broker(Path(directory)) as broker,
        Wire(broker.address) as wire,
    ):
        create_topic(wire, "bulk", side.PARTITIONS)
        create_topic(wire, "quiet", 1)
        flatness.wait_for(wire, "bulk", side.PARTITIONS)
        flatness.wait_for(wire, "quiet", 1)
        subprocess.run(command("produce", broker.address, records), stdout=subprocess.DEVNULL, check=True)
        say("filled")
        end = time.monotonic() + ALONE_SECONDS
        alone = write_until(wire, lambda: time.monotonic() > end)
        beside: list[float] = []
        read_seconds = 0.0
        for _ in range(PASSES):
            evict(Path(directory))
            began = time.monotonic()
            with subprocess.Popen(command("consume", broker.address, records), stdout=subprocess.DEVNULL) as reader:
                beside += write_until(wire, lambda reader=reader: reader.poll() is not None)
            read_seconds += time.monotonic() - began
            if reader.returncode:
                raise RuntimeError(f"the reader ended with {reader.returncode}")
    say(f"{len(beside)} records beside {PASSES} passes")
    return {
        "cold_alone_99": percentile(alone, 99),
        "cold_alone_999": percentile(alone, 99.9),
        "cold_50": percentile(beside, 50),
        "cold_99": percentile(beside, 99),
        "cold_999": percentile(beside, 99.9),
        "cold_rate": PASSES * bulk_bytes / 1e6 / read_seconds,
    }


def write_until(wire: Wire, is_over: Callable[[], bool]) -> list[float]:
    """Milliseconds of each record."""
    latencies = []
    value = b"v" * 100
    due = time.monotonic()
    while not is_over():
        wait = due - time.monotonic()
        if wait > 0:
            time.sleep(wait)
        answer = produce(wire, "quiet", {0: batch(value)})[0]
        if answer.error_code:
            raise RuntimeError(f"a record was refused: {answer.error_code}")
        latencies.append((time.monotonic() - due) * 1000)
        due += 1 / RATE
    return latencies


def percentile(values: list[float], percent: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * percent / 100))]


def evict(directory: Path) -> None:
    for path in directory.rglob("*"):
        if path.is_file():
            descriptor = os.open(path, os.O_RDONLY)
            try:
                os.fsync(descriptor)
                os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            finally:
                os.close(descriptor)


def command(action: str, address: str, records: int) -> list[str]:
    return [sys.executable, str(side.LIBRDKAFKA), action, address, "bulk", str(records), str(VALUE_BYTES)]

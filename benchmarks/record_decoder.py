"""What one record costs the consumer, from bytes to tuples and to columns: `python benchmarks/record_decoder.py`.

Batches as producers make them: values of one size, values of many sizes, and keys with headers. The best of many short
rounds counts, for a busy machine can only be slower.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from barnabas.client.consuming.fetched_records import FetchedRecords
from barnabas.protocol.record_batch import Record, encode_batch
from barnabas.types import TopicPartition

PARTITION = TopicPartition("letters", 0)
BASE_MS = 1_700_000_000_000
RECORDS = 600  # 64 KiB of 100 bytes
ROUNDS = 300


def batches() -> dict[str, bytes]:
    alike = [Record(number, BASE_MS + number // 99, None, b"v" * 100) for number in range(RECORDS)]
    mixed = [Record(number, BASE_MS + number // 99, None, b"v" * (80 + number * 7 % 40)) for number in range(RECORDS)]
    keyed = [
        Record(number, BASE_MS + number // 99, b"key-%d" % number, b"v" * (80 + number * 7 % 40), [("a", b"1")])
        for number in range(RECORDS)
    ]
    return {name: bytes(encode_batch(each)) for name, each in (("alike", alike), ("mixed", mixed), ("keyed", keyed))}


def by_records(view: memoryview) -> int:
    return len(FetchedRecords(PARTITION, view, offset=0).take(RECORDS))


def by_columns(view: memoryview) -> int:
    fetched = FetchedRecords(PARTITION, view, offset=0)
    count = 0
    while (batch := fetched.take_batch()) is not None:
        count += len(batch.values)
    return count


def microseconds(work: Callable[[memoryview], int], view: memoryview) -> float:
    best = float("inf")
    for _ in range(ROUNDS):
        began = time.perf_counter()
        count = work(view)
        best = min(best, time.perf_counter() - began)
    return best / count * 1e6


def main() -> None:
    print(f"{'µs per record':14}{'records':>10}{'columns':>10}")
    for name, data in batches().items():
        view = memoryview(data)
        print(f"{name:14}{microseconds(by_records, view):10.3f}{microseconds(by_columns, view):10.3f}")


if __name__ == "__main__":
    main()

"""What decoding costs a Spark task: bytes of a log to Arrow batches, records a second on one core.

    .venv/bin/python benchmarks/arrow_decoding.py [--count N]

Equal and varied sizes, small and large batches, plain and compressed; the best of several rounds.
"""

from __future__ import annotations

import argparse
import random
import time

from barnabas.protocol.compression import Codec
from barnabas.protocol.record_batch import Record, encode_batch
from barnabas.spark import schema
from barnabas.spark.arrow.decoder import RecordDecoder
from barnabas.spark.workers import settle

ROUNDS = 5
NOW_MS = 1_700_000_000_000
CASES = {
    "100 B, 150 a batch": (150, (100, 100), Codec.NONE),
    "100 B, 10,000 a batch": (10_000, (100, 100), Codec.NONE),
    "80 to 120 B, 150 a batch": (150, (80, 120), Codec.NONE),
    "80 to 120 B, 10,000 a batch": (10_000, (80, 120), Codec.NONE),
    "100 B, 1,000 a batch, lz4": (1000, (100, 100), Codec.LZ4),
    "100 B, 1,000 a batch, zstd": (1000, (100, 100), Codec.ZSTD),
    "1 KiB, 15 a batch": (15, (1024, 1024), Codec.NONE),
}


def written(count: int, batch_count: int, sizes: tuple[int, int], codec: Codec) -> bytes:
    chance = random.Random(1)
    out = bytearray()
    for base_offset in range(0, count, batch_count):
        records = [
            Record(base_offset + number, NOW_MS + number // 10, None, chance.randbytes(chance.randint(*sizes)))
            for number in range(batch_count)
        ]
        out += encode_batch(records, base_offset=base_offset, codec=codec)
    return bytes(out)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--count", type=int, default=100_000, help="records")
    count = arguments.parse_args().count
    columns = [name for name in schema.ARROW_TYPES if name != schema.HEADERS]
    settle()
    for name, case in CASES.items():
        data = written(count, *case)
        decoder = RecordDecoder(topic="topic", partition=0, columns=columns)
        best = float("inf")
        for _ in range(ROUNDS):
            began = time.perf_counter()
            rows = sum(batch.num_rows for batch in decoder.decode(data, first_offset=0, end_offset=count))
            best = min(best, time.perf_counter() - began)
        print(f"{name:30} {rows / best / 1e6:6.2f} M records/s {len(data) / best / 1e6:7.0f} MB/s")


if __name__ == "__main__":
    main()

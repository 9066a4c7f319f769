"""Which partition each row goes to: the one that it names, the one that its key hashes to, or one of our choice.

Keys are hashed with murmur2 as Kafka's clients do, so that rows meet what others wrote under the same key. Rows without
a key stay with one partition for a batch's worth of bytes and then go to the next one.
Always holds: the answer depends on the rows, the number of partitions and where the sender stands, on nothing else.
Does not know: brokers, batches.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from barnabas.spark.arrow.encoder import UnfitRows

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Numbers = NDArray[np.int64]

SEED = 0x9747B28C
MIX = 0x5BD1E995
POSITIVE = 0x7FFFFFFF
# Keys longer than this are hashed one by one: rare, and a round over all rows for each of their words would cost more.
LONG_KEY_BYTES = 512


class UnknownPartition(UnfitRows):
    """A row names one that its topic does not have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """`slots[row]` is an index into `targets`."""

    slots: Numbers
    targets: Sequence[tuple[str, int]]


class Partitioner:
    """Remembers, for each topic, where rows without a key go next."""

    def __init__(self, partition_counts: Mapping[str, int], batch_bytes: int, first: int = 0) -> None:
        self.partition_counts = dict(partition_counts)  # of every topic that rows may name
        self._batch_bytes = batch_bytes
        self._first = first  # so that tasks begin with different partitions
        self._keyless_bytes: dict[str, int] = {}  # how much went without a key so far

    def place(self, batch: pa.RecordBatch, topic: str | None, key: pa.Array | None, sizes: Numbers) -> Placement:
        """`topic` goes before the column of that name."""
        names, codes = _topics(batch, topic)
        counts = np.asarray([self.partition_counts[name] for name in names], np.int64)
        base = np.concatenate([[0], np.cumsum(counts)])
        count_of_row = counts[codes]
        partitions = np.full(batch.num_rows, -1, np.int64)
        open_rows = self._named(batch, partitions, count_of_row, names, codes)
        if key is not None:
            has_key = open_rows & key.is_valid().to_numpy(zero_copy_only=False)
            if has_key.any():
                hashed = murmur2(key).astype(np.int64) & POSITIVE
                partitions[has_key] = (hashed % count_of_row)[has_key]
            open_rows &= ~has_key
        for code, name in enumerate(names):
            mine = open_rows if len(names) == 1 else open_rows & (codes == code)
            if mine.any():
                partitions[mine] = self._keyless(name, sizes[mine])
        targets = [(name, partition) for name, count in zip(names, counts, strict=True) for partition in range(count)]
        return Placement(slots=base[codes] + partitions, targets=targets)

    def _named(
        self, batch: pa.RecordBatch, partitions: Numbers, counts: Numbers, names: Sequence[str], codes: Numbers
    ) -> NDArray[np.bool_]:
        """Rows that name their partition get it; gives the others."""
        if "partition" not in batch.schema.names:
            return np.ones(batch.num_rows, np.bool_)
        column = batch.column("partition")
        open_rows: NDArray[np.bool_] = column.is_null().to_numpy(zero_copy_only=False)
        given = pc.fill_null(column, 0).to_numpy(zero_copy_only=False).astype(np.int64)
        wrong = np.flatnonzero(~open_rows & ((given < 0) | (given >= counts)))
        if len(wrong):
            row = int(wrong[0])
            raise UnknownPartition(
                f"column partition: {int(given[row])} is no partition of topic {names[int(codes[row])]!r}, "
                f"which has {int(counts[row])}"
            )
        partitions[~open_rows] = given[~open_rows]
        return open_rows

    def _keyless(self, topic: str, sizes: Numbers) -> Numbers:
        before = self._keyless_bytes.get(topic, 0)
        ends = before + np.cumsum(sizes)
        self._keyless_bytes[topic] = int(ends[-1])
        chosen: Numbers = (self._first + (ends - sizes) // self._batch_bytes) % self.partition_counts[topic]
        return chosen


def _topics(batch: pa.RecordBatch, topic: str | None) -> tuple[list[str], Numbers]:
    if topic is not None:
        return [topic], np.zeros(batch.num_rows, np.int64)
    column = batch.column("topic")
    if column.null_count:
        raise UnfitRows("column topic: a row without a topic, and there is no option topic that would give it one")
    encoded = column.dictionary_encode()
    return encoded.dictionary.to_pylist(), encoded.indices.to_numpy().astype(np.int64)


def topics_of(batch: pa.RecordBatch) -> list[str]:
    """The topics that the rows name."""
    return [name for name in pc.unique(batch.column("topic")).to_pylist() if name is not None]


def murmur2(keys: pa.Array) -> NDArray[np.uint32]:
    """The hash of each key, as Kafka's clients compute it; anything for null."""
    offsets = np.frombuffer(keys.buffers()[1], np.int32, len(keys) + 1, 4 * keys.offset).astype(np.int64)
    data = np.zeros(int(offsets[-1]) + 4, np.uint8)  # four more, so that a word may be read at the last byte
    if offsets[-1]:
        data[:-4] = np.frombuffer(keys.buffers()[2], np.uint8, int(offsets[-1]))
    starts, lengths = offsets[:-1], np.diff(offsets)
    hashes = (np.uint32(SEED) ^ lengths.astype(np.uint32)).astype(np.uint32)
    is_long = lengths > LONG_KEY_BYTES
    _mix(data, hashes, starts, np.where(is_long, 0, lengths))
    for row in np.flatnonzero(is_long).tolist():
        hashes[row] = murmur2_of(data[starts[row] : starts[row] + lengths[row]].tobytes())
    return hashes


def _mix(data: NDArray[np.uint8], hashes: NDArray[np.uint32], starts: Numbers, lengths: Numbers) -> None:
    # A word at every byte: what is read there need not be aligned.
    words = np.ndarray((len(data) - 3,), np.dtype("<u4"), buffer=data.data, strides=(1,))
    mix = np.uint32(MIX)
    for index in range(int(lengths.max(initial=0)) // 4):
        rows = np.flatnonzero(lengths >= 4 * (index + 1))
        word = words[starts[rows] + 4 * index] * mix
        word ^= word >> np.uint32(24)
        hashes[rows] = (hashes[rows] * mix) ^ (word * mix)
    tails = np.flatnonzero(lengths % 4)
    left = lengths[tails] % 4
    last = words[starts[tails] + lengths[tails] - left]
    masks = np.asarray([0, 0xFF, 0xFFFF, 0xFFFFFF], np.uint32)[left]
    hashes[tails] = (hashes[tails] ^ (last & masks)) * mix
    hashes ^= hashes >> np.uint32(13)
    hashes *= mix
    hashes ^= hashes >> np.uint32(15)


def murmur2_of(key: bytes) -> int:
    """The same for one key."""
    length = len(key)
    mask = 0xFFFFFFFF
    hashed = SEED ^ length
    for position in range(0, length - length % 4, 4):
        word = int.from_bytes(key[position : position + 4], "little") * MIX & mask
        word ^= word >> 24
        hashed = (hashed * MIX & mask) ^ (word * MIX & mask)
    left = length % 4
    if left:
        hashed = (hashed ^ int.from_bytes(key[-left:], "little")) * MIX & mask
    hashed ^= hashed >> 13
    hashed = hashed * MIX & mask
    return hashed ^ hashed >> 15

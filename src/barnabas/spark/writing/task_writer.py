"""One task's rows on their way: Arrow batches gathered to chunks, encoded, sealed, handed to the sender.

Encoding runs in the task's thread and sending in that of the client's loop, so that the two overlap.
Always holds: when `write` returns, every row is acknowledged; when it raises, some may be there. Memory is bounded by
one chunk and the sender's buffer. Does not know: Spark, who ends a transaction.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from barnabas.client.cluster import Cluster
from barnabas.client.errors import UnknownTopicError
from barnabas.errors import ErrorCode
from barnabas.spark.arrow.encoder import CHUNK_BYTES_MAX, Rows, batch_starts, encode, record_bytes, rows_of, seal
from barnabas.spark.connections import Connections
from barnabas.spark.writing.offset_syncs import Run, Segments, extend, runs
from barnabas.spark.writing.partitioning import Partitioner, Placement, UnknownPartition, topics_of
from barnabas.spark.writing.sender import BatchSender, Sealed
from barnabas.spark.writing.write_options import WriteOptions

if TYPE_CHECKING:
    from barnabas.spark.writing.partitioning import Numbers

CHUNK_BYTES = 4 << 20  # enough for full batches of several partitions, and small beside the buffer of the sender
TOPIC_WAIT_MS = 5_000  # a topic that was just created becomes known within this time
SLOTS_SORTED_FAST_MAX = 32_767  # numpy sorts numbers of 16 bits in linear time


class TaskWriter:
    def __init__(
        self,
        *,
        connections: Connections,
        cluster: Cluster,
        sender: BatchSender,
        options: WriteOptions,
        is_transactional: bool,
        task: int,
    ) -> None:
        self.row_count = 0
        self.byte_count = 0
        self._connections = connections
        self._cluster = cluster
        self._sender = sender
        self._options = options
        self._is_transactional = is_transactional
        self._partitioner = Partitioner({}, options.config.batch_size or 1, first=task)
        self.segments: Segments = {}  # where rows of other partitions came to lie, if that is asked for

    def write(self, batches: Iterable[pa.RecordBatch]) -> None:
        for chunk in chunks(batches):
            self._connections.run(self._sender.submit(self._sealed(chunk)))
        self._connections.run(self._sender.finish())

    def _sealed(self, chunk: pa.RecordBatch) -> list[Sealed]:
        options = self._options
        self._learn_topics(chunk)
        rows = rows_of(chunk, int(time.time() * 1000))
        sizes = record_bytes(rows)
        placed = self._placed(chunk, rows, sizes)
        slots = placed.slots
        offsets = chunk.column("offset").to_numpy() if options.sync_topic is not None else None
        if (np.diff(slots) < 0).any():
            order = np.argsort(
                slots.astype(np.int16) if len(placed.targets) <= SLOTS_SORTED_FAST_MAX else slots, kind="stable"
            )
            rows, sizes, slots = rows.take(order), sizes[order], slots[order]
            offsets = None if offsets is None else offsets[order]
        starts = batch_starts(sizes, slots, options.config.batch_size)
        self.row_count += len(rows)
        found = []
        for records, start in zip(encode(rows, starts), starts, strict=True):
            topic, partition = placed.targets[int(slots[start])]
            batch = seal(records, codec=options.codec, level=options.level, transactional=self._is_transactional)
            self.byte_count += len(batch)
            on_written = None
            if offsets is not None:
                on_written = self._noting(topic, partition, runs(offsets[start : start + records.count]))
            found.append(
                Sealed(
                    topic=topic,
                    partition=partition,
                    records=batch,
                    record_count=records.count,
                    on_written=on_written,
                )
            )
        return found

    def _placed(self, chunk: pa.RecordBatch, rows: Rows, sizes: Numbers) -> Placement:
        try:
            return self._partitioner.place(chunk, self._options.topic, rows.key, sizes)
        except UnknownPartition:  # perhaps it was added after this process had asked
            named = list(self._partitioner.partition_counts)
            self._connections.run(self._cluster.refresh(named))
            self._learn(named)
            return self._partitioner.place(chunk, self._options.topic, rows.key, sizes)

    def _noting(self, topic: str, partition: int, found: list[Run]) -> Callable[[int], None]:
        known = self.segments.setdefault((topic, partition), [])
        return lambda base_offset: extend(known, found, base_offset)

    def _learn_topics(self, chunk: pa.RecordBatch) -> None:
        named = topics_of(chunk) if self._options.topic is None else [self._options.topic]
        known = self._partitioner.partition_counts
        unknown = [name for name in named if name not in known]
        if unknown:
            self._learn(unknown)

    def _learn(self, topics: list[str]) -> None:
        self._partitioner.partition_counts.update(self._connections.run(partition_counts(self._cluster, topics)))


async def partition_counts(cluster: Cluster, topics: list[str]) -> dict[str, int]:
    """UnknownTopicError, by name, where there is none."""
    if (
        any(cluster.topic(name) is None for name in topics)
        or cluster.metadata_age_ms > cluster.config.metadata_max_age_ms
    ):
        try:
            await cluster.topics(topics, timeout_ms=TOPIC_WAIT_MS)
        except UnknownTopicError:
            gone = ", ".join(repr(name) for name in topics if cluster.topic(name) is None)
            raise UnknownTopicError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {gone}; create it first, for writes do not"
            ) from None
    found = {name: cluster.topic(name) for name in topics}
    return {name: topic.partition_count for name, topic in found.items() if topic is not None}


def chunks(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same rows in pieces of about CHUNK_BYTES, none of them empty or larger than can be encoded at once."""
    gathered: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        if batch.num_rows == 0:
            continue
        gathered.append(batch)
        size += batch.nbytes
        if size >= CHUNK_BYTES:
            yield from _combined(gathered)
            gathered, size = [], 0
    yield from _combined(gathered)


def _combined(batches: list[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    if len(batches) > 1:
        batches = pa.Table.from_batches(batches).combine_chunks().to_batches()
    for batch in batches:
        yield from _cut(batch)


def _cut(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    if batch.nbytes <= CHUNK_BYTES_MAX or batch.num_rows == 1:
        yield batch
        return
    half = batch.num_rows // 2
    yield from _cut(batch.slice(0, half))
    yield from _cut(batch.slice(half))

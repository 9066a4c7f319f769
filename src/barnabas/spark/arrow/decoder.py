"""Record batches as they lie in segments and fetch answers → Arrow record batches, without Python for single records.

Batches are collected up to a limit of bytes and records, unpacked into one buffer (bytes that are not compressed are
used where they lie), and decoded together. Control batches never become rows; under read_committed neither do batches
of aborted transactions, which the caller names as Kafka's fetch answers do.
Always holds: a batch whose CRC differs, or that is malformed, raises InvalidRecordBatch; rows are in the order of the
log, within the offsets asked for; memory is bounded by the limits here and the largest batch. Does not know: files,
brokers, partitions' ends.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from barnabas.protocol.checksum import Buffer
from barnabas.protocol.control_records import ControlRecordKind, decode_control_key
from barnabas.protocol.record_batch import (
    HEADER_BYTES,
    RECORDS_BYTES_MAX,
    BatchHeader,
    InvalidRecordBatch,
    crc_matches,
    decode_records,
    read_header,
    unpacked_records,
)
from barnabas.spark import schema
from barnabas.spark.arrow.binary_columns import constant_text, number_array
from barnabas.spark.arrow.record_fields import PlacedFields
from barnabas.spark.arrow.record_places import Piece
from barnabas.spark.arrow.record_runs import RunFields, find_runs
from barnabas.spark.arrow.varints import Int64s
from barnabas.types import Offset, ProducerId

ROWS_ENOUGH = 20_000  # of one Arrow batch: enough for Spark, and little enough for the caches of a processor
UNPACKED_BYTES_MAX = 4 << 20  # collected before they are decoded; one batch may be larger


class AbortedTransaction(NamedTuple):
    """Records of this producer from this offset on, up to its next marker, count as never written."""

    producer_id: ProducerId
    first_offset: Offset


class BadBatch(InvalidRecordBatch):
    """A batch that cannot be decoded, and where it lies in the bytes given."""

    def __init__(self, position: int, problem: str) -> None:
        super().__init__(problem)
        self.position = position


class RecordDecoder:
    """Decodes the bytes of one partition, piece by piece."""

    def __init__(
        self, *, topic: str, partition: int, columns: Sequence[str], size_max: int = RECORDS_BYTES_MAX
    ) -> None:
        self.next_offset: Offset = 0  # behind the last batch that was seen, whether it became rows or not
        self.position = 0  # behind the last whole batch of the bytes given last
        self.is_finished = False  # whether a batch at or behind the end was seen
        self._topic = topic
        self._partition = partition
        self._columns = tuple(columns)
        self._schema = schema.arrow_schema(columns)
        self._size_max = size_max
        self._constants: dict[str, pa.Array] = {}  # columns that say the same in each row; cut to length at use

    def decode(
        self,
        data: Buffer,
        *,
        first_offset: Offset,
        end_offset: Offset,
        aborted: Iterable[AbortedTransaction] = (),
    ) -> Iterator[pa.RecordBatch]:
        """Rows with `first_offset <= offset < end_offset`. A batch that is cut short at the end is left out.

        `aborted` is empty where uncommitted records are wanted as well.
        """
        whole = data if isinstance(data, bytes) else bytes(data)
        view = memoryview(whole)
        filter_ = _AbortedFilter(aborted)
        self.position = 0
        self.next_offset = max(self.next_offset, first_offset)
        group: list[tuple[int, BatchHeader]] = []
        unpacked_bytes = rows = 0
        for position, header in _whole_batches(view):
            if header.base_offset >= end_offset:
                self.is_finished = True
                break
            if not crc_matches(view, position, header):
                raise BadBatch(position, f"the checksum of the batch at offset {header.base_offset} is wrong")
            self.position = position + header.size_bytes
            hidden = filter_.hides(view, position, header)
            self.next_offset = max(self.next_offset, min(header.next_offset, end_offset))
            if hidden or header.next_offset <= first_offset or header.record_count == 0:
                continue
            group.append((position, header))
            # What a compressed batch unpacks to is not known yet; that its records are at least so large is.
            unpacked_bytes += header.size_bytes * (4 if header.codec else 1)
            rows += header.record_count
            if unpacked_bytes >= UNPACKED_BYTES_MAX or rows >= ROWS_ENOUGH:
                yield from self._rows(whole, view, group, first_offset, end_offset)
                group, unpacked_bytes, rows = [], 0, 0
        if group:
            yield from self._rows(whole, view, group, first_offset, end_offset)

    def _rows(
        self,
        whole: bytes,
        view: memoryview,
        group: list[tuple[int, BatchHeader]],
        first_offset: Offset,
        end_offset: Offset,
    ) -> Iterator[pa.RecordBatch]:
        try:
            found, offsets = self._decoded(whole, view, group)
        except InvalidRecordBatch:
            self._blame(whole, view, group)
            raise
        if offsets.min() < first_offset or offsets.max() >= end_offset:
            kept = np.flatnonzero((offsets >= first_offset) & (offsets < end_offset))
            if not len(kept):
                return
            if kept[-1] - kept[0] + 1 == len(kept):
                found = found.slice(int(kept[0]), len(kept))
            else:
                found = found.take(number_array(kept, pa.int64()))
        parts = max(1, found.num_rows // ROWS_ENOUGH)
        size = -(-found.num_rows // parts)
        for start in range(0, found.num_rows, size):
            yield found.slice(start, size)

    def _blame(self, whole: bytes, view: memoryview, group: list[tuple[int, BatchHeader]]) -> None:
        """Finds the batch of a group that cannot be decoded, one by one."""
        for position, header in group:
            try:
                self._decoded(whole, view, [(position, header)])
            except InvalidRecordBatch as problem:
                raise BadBatch(position, str(problem)) from None

    def _decoded(
        self, whole: bytes, view: memoryview, group: list[tuple[int, BatchHeader]]
    ) -> tuple[pa.RecordBatch, Int64s]:
        """All records of these batches, and their offsets."""
        data, pieces = _unpacked(whole, view, group, self._size_max)
        runs = find_runs(data, pieces)
        fields = PlacedFields(data, pieces) if runs is None else RunFields(data, runs)
        arrays = [self._column(name, fields) for name in self._columns]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema), fields.offsets

    def _column(self, name: str, fields: PlacedFields | RunFields) -> pa.Array:
        match name:
            case schema.KEY:
                return fields.keys()
            case schema.VALUE:
                return fields.values()
            case schema.OFFSET:
                return number_array(fields.offsets, pa.int64())
            case schema.TIMESTAMP:
                return fields.timestamps()
            case schema.TIMESTAMP_TYPE:
                return fields.timestamp_types()
            case schema.HEADERS:
                return fields.headers()
            case _:
                return self._constant(name, len(fields.offsets))

    def _constant(self, name: str, row_count: int) -> pa.Array:
        kept = self._constants.get(name)
        if kept is None or len(kept) < row_count:
            if name == schema.TOPIC:
                kept = constant_text(self._topic, row_count)
            else:
                kept = number_array(np.full(row_count, self._partition, np.int32), pa.int32())
            self._constants[name] = kept
        return kept.slice(0, row_count)


def _whole_batches(view: memoryview) -> Iterator[tuple[int, BatchHeader]]:
    position, limit = 0, len(view)
    while position + HEADER_BYTES <= limit:
        try:
            header = read_header(view, position)
        except InvalidRecordBatch as problem:
            raise BadBatch(position, str(problem)) from None
        if header.size_bytes > limit - position:
            return
        yield position, header
        position += header.size_bytes


def _unpacked(
    whole: bytes, view: memoryview, group: list[tuple[int, BatchHeader]], size_max: int
) -> tuple[bytes, list[Piece]]:
    """One buffer that holds the records of all these batches, and where each batch's lie."""
    if not any(header.codec for _, header in group):
        return whole, [Piece(header, at + HEADER_BYTES, at + header.size_bytes) for at, header in group]
    parts: list[bytes] = []
    pieces: list[Piece] = []
    size = 0
    for position, header in group:
        parts.append(unpacked_records(view, position, header, size_max))
        pieces.append(Piece(header, size, size + len(parts[-1])))
        size += len(parts[-1])
    return b"".join(parts), pieces


class _AbortedFilter:
    """Which batches of a fetch answer are none of a reader's business. Batches must come in order."""

    def __init__(self, aborted: Iterable[AbortedTransaction]) -> None:
        self._ahead = sorted(aborted, key=lambda each: each.first_offset, reverse=True)
        self._open: set[ProducerId] = set()

    def hides(self, view: memoryview, position: int, header: BatchHeader) -> bool:
        while self._ahead and self._ahead[-1].first_offset <= header.last_offset:
            self._open.add(self._ahead.pop().producer_id)
        if header.is_control:
            if header.producer_id in self._open and _ends_aborted(view, position):
                self._open.discard(header.producer_id)
            return True
        return header.is_transactional and header.producer_id in self._open


def _ends_aborted(view: memoryview, position: int) -> bool:
    """Also a marker whose record compaction took: no transaction of its producer goes on behind it."""
    records = decode_records(view, position)
    return not records or decode_control_key(records[0].key) is ControlRecordKind.ABORT

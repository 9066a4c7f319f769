"""Rows of Arrow batches become Kafka's record batches, a column at a time: no Python per record.

Each record is (protocol/record_batch.py has the header around them)
    length | attributes 0 | timestamp delta | offset delta | key length | key | value length | value | header count |
    (key length | key | value length | value)*
where numbers are zigzag varints. numpy computes all numbers of one column at once and lays neighbouring ones side by
side; Arrow then joins them with keys, values and headers, element by element, into one buffer that is cut into batches.

Always holds: what is encoded here is byte for byte what `protocol.record_batch.encode_batch` makes of the same records.
Does not know: producers, sequences before `seal`, brokers, options.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from barnabas.protocol.compression import Codec, compress
from barnabas.protocol.record_batch import BODY, HEADER_BYTES, TRANSACTIONAL_BIT, finish_batch
from barnabas.types import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Numbers = NDArray[np.int64]

# More than any record's own numbers take: five varints of 32 bits, one of 64, and the attributes.
RECORD_OVERHEAD_BYTES_MAX = 36
HEADER_OVERHEAD_BYTES_MAX = 10
# Arrow's binary arrays address 2 GiB. Chunks stay far below, and so does the memory that they take.
CHUNK_BYTES_MAX = 256 << 20


class UnfitRows(ValueError):
    """The rows cannot become records; the message names the column."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """What becomes records, in the order in which they will be in their partitions."""

    key: pa.Array | None  # binary; None: all null
    value: pa.Array  # binary
    headers: pa.Array | None  # list<struct<key, value>>; None: no record has any
    timestamps_ms: Numbers

    def __len__(self) -> int:
        return len(self.value)

    def take(self, order: Numbers) -> Rows:
        indices = pa.array(order)
        return Rows(
            key=None if self.key is None else self.key.take(indices),
            value=self.value.take(indices),
            headers=None if self.headers is None else self.headers.take(indices),
            timestamps_ms=self.timestamps_ms[order],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class EncodedRecords:
    """The records of one batch, not yet packed and without a header."""

    data: memoryview
    count: int
    base_timestamp_ms: int
    max_timestamp_ms: int


def rows_of(batch: pa.RecordBatch, now_ms: int) -> Rows:
    """Takes the columns key, value, headers and timestamp; records without a timestamp get `now_ms`."""
    names = batch.schema.names
    key = _binary(batch.column("key")) if "key" in names else None
    headers = batch.column("headers") if "headers" in names else None
    return Rows(
        key=None if key is None or key.null_count == len(key) else key,
        value=_binary(batch.column("value")),
        headers=None if headers is None or headers.null_count == len(headers) else headers,
        timestamps_ms=_timestamps_ms(batch, now_ms),
    )


def _binary(column: pa.Array) -> pa.Array:
    return column if column.type == pa.binary() else column.cast(pa.binary())


def _timestamps_ms(batch: pa.RecordBatch, now_ms: int) -> Numbers:
    if "timestamp" not in batch.schema.names:
        return np.full(batch.num_rows, now_ms, np.int64)
    column = batch.column("timestamp")
    # Kafka's timestamps are whole milliseconds; what is finer is cut, as Spark's own cast does.
    zoned = column.cast(pa.timestamp("us", tz=column.type.tz)).cast(pa.int64())
    filled = pc.fill_null(zoned, now_ms * 1000).to_numpy(zero_copy_only=False)
    milliseconds: Numbers = np.floor_divide(filled, 1000)
    return milliseconds


def record_bytes(rows: Rows) -> Numbers:
    """At most how many bytes each record takes."""
    total: Numbers = _lengths(rows.value).clip(min=0) + RECORD_OVERHEAD_BYTES_MAX
    if rows.key is not None:
        total += _lengths(rows.key).clip(min=0)
    if rows.headers is not None:
        sizes = _header_sizes(rows.headers)
        total += sizes
    return total


def _header_sizes(headers: pa.Array) -> Numbers:
    counts = _counts(headers)
    key, value = _header_fields(headers)
    each = _lengths(key) + _lengths(value).clip(min=0) + HEADER_OVERHEAD_BYTES_MAX
    ends = np.concatenate([[0], np.cumsum(each)])
    last = np.cumsum(counts)
    total: Numbers = ends[last] - ends[last - counts]
    return total


def encode(rows: Rows, starts: Sequence[int]) -> list[EncodedRecords]:
    """One batch for each start, which reaches to the next one; the first start is 0."""
    count = len(rows)
    if count == 0:
        return []
    sizes = np.diff([*starts, count])
    first = np.repeat(np.asarray(starts, np.int64), sizes)
    offset_deltas = np.arange(count, dtype=np.int64) - first
    timestamps = rows.timestamps_ms
    columns: list[Varints | pa.Array] = [constant(0, count), varints(timestamps - timestamps[first])]
    columns.append(varints(offset_deltas))
    columns += [constant(-1, count)] if rows.key is None else [varints(_lengths(rows.key)), rows.key]
    columns += [varints(_lengths(rows.value)), rows.value]
    if rows.headers is None:
        columns.append(constant(0, count))
    else:
        columns += [varints(_counts(rows.headers)), _headers(rows.headers)]
    data, ends = _joined([varints(_body_sizes(columns)), *columns])
    edges = [0, *(int(ends[start - 1]) for start in starts[1:]), int(ends[-1])]
    latest = np.maximum.reduceat(timestamps, np.asarray(starts))
    return [
        EncodedRecords(
            data=data[edges[index] : edges[index + 1]],
            count=int(sizes[index]),
            base_timestamp_ms=int(timestamps[start]),
            max_timestamp_ms=int(latest[index]),
        )
        for index, start in enumerate(starts)
    ]


def seal(
    records: EncodedRecords,
    *,
    codec: Codec,
    level: int | None = None,
    transactional: bool = False,
) -> bytearray:
    """A whole batch that belongs to no producer yet."""
    body = BODY.pack(
        int(codec) | (TRANSACTIONAL_BIT if transactional else 0),
        records.count - 1,
        records.base_timestamp_ms,
        records.max_timestamp_ms,
        NO_PRODUCER_ID,
        NO_PRODUCER_EPOCH,
        NO_SEQUENCE,
        records.count,
    )
    packed = compress(codec, records.data, level) if codec else records.data
    return finish_batch(0, -1, body, packed)


def batch_starts(sizes: Numbers, slots: Numbers | None, batch_bytes: int) -> list[int]:
    """Where to cut: a batch holds rows of one slot, and at most `batch_bytes` unless a single row is larger."""
    ends = np.cumsum(sizes)
    count = len(sizes)
    changes = [0] if slots is None else [0, *(np.flatnonzero(np.diff(slots)) + 1).tolist()]
    room = batch_bytes - HEADER_BYTES
    starts = []
    for start, stop in zip(changes, [*changes[1:], count], strict=True):
        while start < stop:
            starts.append(start)
            before = int(ends[start - 1]) if start else 0
            start = min(stop, max(start + 1, int(np.searchsorted(ends, before + room, side="right"))))
    return starts


def _lengths(array: pa.Array) -> Numbers:
    """-1 for null, as it stands in a record."""
    lengths = np.diff(_offsets(array)).astype(np.int64)
    if array.null_count:
        lengths[array.is_null().to_numpy(zero_copy_only=False)] = -1
    return lengths


def _offsets(array: pa.Array) -> NDArray[np.int32]:
    return np.frombuffer(array.buffers()[1], np.int32, len(array) + 1, 4 * array.offset)


def _counts(headers: pa.Array) -> Numbers:
    counts = pc.fill_null(pc.list_value_length(headers), 0).to_numpy(zero_copy_only=False)
    converted: Numbers = counts.astype(np.int64)
    return converted


def _header_fields(headers: pa.Array) -> tuple[pa.Array, pa.Array]:
    entries = headers.flatten()
    key, value = entries.flatten()
    if entries.null_count or key.null_count:
        raise UnfitRows("column headers: a header without a key; Kafka has no such thing")
    return _binary(key), _binary(value)


def _headers(headers: pa.Array) -> pa.Array:
    """All headers of one record as one element."""
    key, value = _header_fields(headers)
    last = np.concatenate([[0], np.cumsum(_counts(headers))])
    if not len(key):
        return _binary_array(np.zeros(len(headers) + 1, np.int32), np.empty(0, np.uint8))
    data, ends = _joined([varints(_lengths(key)), key, varints(_lengths(value)), value])
    offsets = np.concatenate([[0], ends]).astype(np.int32)[last]
    return _binary_array(offsets, data)


def _binary_array(offsets: NDArray[np.int32], data: Any) -> pa.Array:
    return pa.Array.from_buffers(pa.binary(), len(offsets) - 1, [None, pa.py_buffer(offsets), pa.py_buffer(data)])


class Varints(NamedTuple):
    """One number of each row, as it will be written."""

    zigzag: NDArray[np.uint64]
    widths: Numbers  # in bytes
    widest: int


def varints(numbers: Numbers) -> Varints:
    zigzag = ((numbers << 1) ^ (numbers >> 63)).view(np.uint64)
    largest = int(zigzag.max()) if len(zigzag) else 0
    widths = np.ones(len(zigzag), np.int64)
    shift = 7
    while largest >> shift:
        widths += zigzag >= np.uint64(1 << shift)
        shift += 7
    return Varints(zigzag, widths, shift // 7)


def constant(number: int, count: int) -> Varints:
    """The same small number for all."""
    return Varints(np.full(count, number << 1 ^ number >> 63, np.uint64), np.ones(count, np.int64), 1)


def _body_sizes(columns: Sequence[Varints | pa.Array]) -> Numbers:
    total: Numbers = np.zeros(0, np.int64)
    for column in columns:
        each = column.widths if isinstance(column, Varints) else _lengths(column).clip(min=0)
        total = each + total if len(total) else each.copy()
    return total


def _joined(columns: Sequence[Varints | pa.Array]) -> tuple[memoryview, Numbers]:
    """All columns, row by row, in one buffer, and where each row ends in it."""
    parts: list[pa.Array] = []
    numbers: list[Varints] = []
    for column in columns:
        if isinstance(column, Varints):
            numbers.append(column)
            continue
        parts += [_side_by_side(numbers), column] if numbers else [column]
        numbers = []
    if numbers:
        parts.append(_side_by_side(numbers))
    nothing = pa.scalar(b"", pa.binary())
    joined = pc.binary_join_element_wise(*parts, nothing, null_handling="replace", null_replacement="")
    assert isinstance(joined, pa.Array), "a chunk is small enough for one array"
    offsets = _offsets(joined)
    data = memoryview(joined.buffers()[2])[int(offsets[0]) : int(offsets[-1])]
    return data, offsets[1:].astype(np.int64) - int(offsets[0])


def _side_by_side(columns: Sequence[Varints]) -> pa.Array:
    """One element a row: the varints of these columns, one after the other."""
    offsets = np.zeros(len(columns[0].zigzag) + 1, np.int64)
    np.cumsum(sum((each.widths for each in columns[1:]), columns[0].widths), out=offsets[1:])
    data = np.empty(int(offsets[-1]), np.uint8)
    positions = offsets[:-1].copy()
    for each in columns:
        _place(data, positions, each)
        positions += each.widths
    return _binary_array(offsets.astype(np.int32), data)


def _place(data: NDArray[np.uint8], positions: Numbers, column: Varints) -> None:
    numbers, widths = column.zigzag, column.widths
    if column.widest == 1:
        data[positions] = numbers
        return
    seven = np.uint64(7)
    while len(numbers):
        more = widths > 1
        data[positions] = (numbers & np.uint64(0x7F)) | (more.astype(np.uint64) << seven)
        if not more.all():
            positions, numbers, widths = positions[more], numbers[more], widths[more]
        positions, numbers, widths = positions + 1, numbers >> seven, widths - 1

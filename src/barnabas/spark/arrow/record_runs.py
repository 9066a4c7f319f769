"""Records that follow each other and are laid out alike, as those of one size are: a field is then a stride of bytes,
read at once without looking for it.

    record: length varint | attributes | timestamp delta | offset delta | key | value | header count

Alike means that all bytes between the fields agree with the first record's: lengths wholly, numbers in how many bytes
they take. What is not made of a few long runs of well-formed records without headers is left to `record_places`.
Always holds: a run that is found is as good as one that was walked. Does not know: what is wrong with other bytes.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from barnabas.protocol.record_batch import BatchHeader, InvalidRecordBatch, read_varint
from barnabas.spark import schema
from barnabas.spark.arrow.binary_columns import StridedBytes, strided_binary_array
from barnabas.spark.arrow.record_fields import BatchNumbers
from barnabas.spark.arrow.record_places import Piece
from barnabas.spark.arrow.varints import Int64s

RUN_RECORDS_MIN = 100  # on average; below, what a run costs is more than what it saves
RUNS_TRIED_MIN = 4  # before the average counts: the first run of a batch is short
WORD_BYTES = 8
LAYOUTS_KEPT_MAX = 64

Words = npt.NDArray[np.uint64]


class Field(NamedTuple):
    """Where a field lies in a record, from its first byte on."""

    start: int
    length: int  # -1: null


class Layout(NamedTuple):
    size_bytes: int  # of a whole record
    timestamp_delta: Field
    offset_delta: Field
    key: Field
    value: Field


class Run(NamedTuple):
    header: BatchHeader
    position: int
    record_count: int
    layout: Layout
    words: Words  # the bytes from the timestamp delta on, of each record


def find_runs(data: bytes, pieces: Sequence[Piece]) -> list[Run] | None:
    """None where there are many runs, or anything else that needs a closer look."""
    runs: list[Run] = []
    seen = 0
    for piece in pieces:
        position, left = piece.start, piece.header.record_count
        while left > 0:
            if len(runs) >= RUNS_TRIED_MIN + seen // RUN_RECORDS_MIN:
                return None
            found = _layout(data, position, piece.end)
            if found is None:
                return None
            layout, count_max = found
            run = _run(data, piece.header, position, layout, min(count_max, left))
            position += run.record_count * layout.size_bytes
            if data[position - 1] != 0:
                return None  # the last one has headers
            runs.append(run)
            seen += run.record_count
            left -= run.record_count
        if position != piece.end:
            return None
    return runs


def _layout(data: bytes, position: int, limit: int) -> tuple[Layout, int] | None:
    """Of the record at this position, and how many records from here on there is room for, and can have offset deltas
    as short. None unless it is well formed; whether it has headers is not looked at."""
    try:
        size, body = read_varint(data, position)
        _, offset_delta = read_varint(data, timestamp_delta := body + 1)
        delta, key_length = read_varint(data, offset_delta)
        key_bytes, key = read_varint(data, key_length)
        value_bytes, value = read_varint(data, key + max(key_bytes, 0))
    except (IndexError, InvalidRecordBatch):
        return None
    end = body + size
    is_fine = (
        min(key_bytes, value_bytes) >= -1
        and value + max(value_bytes, 0) + 1 == end <= limit
        and end - timestamp_delta >= WORD_BYTES
        and key - timestamp_delta <= WORD_BYTES
    )
    if not is_fine:
        return None
    layout = Layout(
        end - position,
        Field(timestamp_delta - position, offset_delta - timestamp_delta),
        Field(offset_delta - position, key_length - offset_delta),
        Field(key - position, key_bytes),
        Field(value - position, value_bytes),
    )
    as_short = max(1, (1 << 7 * layout.offset_delta.length - 1) - delta)
    return layout, min(as_short, (limit - position) // layout.size_bytes)


def _run(data: bytes, header: BatchHeader, position: int, layout: Layout, count: int) -> Run:
    """The records from here on that are laid out like the first, of so many at most; the last of them may have headers
    nevertheless."""
    stride = layout.size_bytes
    masks = _masks(layout)
    words = _words(data, position + layout.timestamp_delta.start, stride, count)
    count = _alike(words, int(words[0]), masks.numbers)
    if masks.value_length:
        lengths = _words(data, position + layout.value.start - WORD_BYTES, stride, count)
        count = _alike(lengths, int(lengths[0]), masks.value_length)
    if count > 1:
        length = data[position : position + layout.timestamp_delta.start - 1]
        seams = _words(data, position + stride - 1, stride, count - 1)
        count = 1 + _alike(seams, int.from_bytes(length, "little") << 8, masks.seam)
    return Run(header, position, count, layout, words[:count])


def _words(data: bytes, position: int, stride: int, count: int) -> Words:
    return np.ndarray((count,), "<u8", data, position, (stride,)).copy()


def _alike(words: Words, like: int, mask: int) -> int:
    """How many of them, from the first on, have these bits."""
    if ((int(np.bitwise_or.reduce(words)) ^ like) | (int(np.bitwise_and.reduce(words)) ^ like)) & mask == 0:
        return len(words)
    return int(((words ^ np.uint64(like)) & np.uint64(mask) != 0).argmax())


class Masks(NamedTuple):
    """Which bits of its words must be alike in all records of a run."""

    numbers: int  # from the timestamp delta on
    value_length: int  # up to the value; 0 where the word above reaches as far
    seam: int  # where a record ends and the next begins: the count of headers, and the length


@lru_cache(LAYOUTS_KEPT_MAX)
def _masks(layout: Layout) -> Masks:
    first = layout.timestamp_delta.start
    numbers_end = layout.offset_delta.start + layout.offset_delta.length
    key, value = layout.key, layout.value
    numbers = dict.fromkeys(range(first, numbers_end), 0x80)
    key_length = dict.fromkeys(range(numbers_end, key.start), 0xFF)
    value_length = dict.fromkeys(range(key.start + max(key.length, 0), value.start), 0xFF)
    is_near = value.start <= first + WORD_BYTES
    return Masks(
        _mask(first, numbers | key_length | (value_length if is_near else {})),
        0 if is_near else _mask(value.start - WORD_BYTES, value_length),
        (1 << 8 * first) - 1,
    )


def _mask(first: int, columns: Mapping[int, int]) -> int:
    return sum(bits << 8 * (column - first) for column, bits in columns.items())


def _unzigzagged(raw: Words, bytes_max: int) -> Int64s:
    """Varints of up to so many bytes, which are all that is in `raw`."""
    number = raw & np.uint64(0x7F)
    for place in range(1, bytes_max):
        number |= raw >> np.uint64(place) & np.uint64(0x7F << 7 * place)
    signed = number.view(np.int64)
    return (signed >> 1) ^ -(signed & 1)


class RunFields:
    """The fields of all records of some runs."""

    def __init__(self, data: bytes, runs: Sequence[Run]) -> None:
        self._data = data
        self._runs = runs
        self._numbers = BatchNumbers([run.header for run in runs], [run.record_count for run in runs])
        self.offsets = self._numbers.offsets(self._deltas([run.layout.offset_delta for run in runs]))

    def _deltas(self, fields: Sequence[Field]) -> Int64s:
        raw = [
            run.words >> np.uint64(8 * (field.start - run.layout.timestamp_delta.start))
            & np.uint64((1 << 8 * field.length) - 1)
            for run, field in zip(self._runs, fields, strict=True)
        ]
        return _unzigzagged(np.concatenate(raw), max(field.length for field in fields))

    def keys(self) -> pa.Array:
        return self._contents([run.layout.key for run in self._runs])

    def values(self) -> pa.Array:
        return self._contents([run.layout.value for run in self._runs])

    def _contents(self, fields: Sequence[Field]) -> pa.Array:
        pieces = [
            StridedBytes(run.position + field.start, field.length, run.layout.size_bytes, run.record_count)
            for run, field in zip(self._runs, fields, strict=True)
        ]
        return strided_binary_array(self._data, pieces)

    def timestamps(self) -> pa.Array:
        return self._numbers.timestamps(self._deltas([run.layout.timestamp_delta for run in self._runs]))

    def timestamp_types(self) -> pa.Array:
        return self._numbers.timestamp_types()

    def headers(self) -> pa.Array:
        return pa.nulls(len(self.offsets), schema.HEADERS_TYPE)

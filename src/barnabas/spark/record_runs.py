"""Records that follow each other and are laid out alike, as those of one size are: a field is then a stride of bytes,
read at once without looking for it.

    record: length varint | attributes | timestamp delta | offset delta | key | value | header count

Alike means that all bytes between the fields agree with the first record's: lengths wholly, numbers in how many bytes
they take. What is not made of a few long runs of well-formed records without headers is left to `record_places`.
Always holds: a run that is found is as good as one that was walked. Does not know: what is wrong with other bytes.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from barnabas.protocol.record_batch import InvalidRecordBatch, read_varint
from barnabas.spark import schema
from barnabas.spark.binary_columns import StridedBytes, strided_binary_array
from barnabas.spark.record_fields import BatchNumbers
from barnabas.spark.record_places import Int64s, Piece

RUN_RECORDS_MIN = 256  # on average; below, what a run costs is more than what it saves
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
    piece_number: int
    position: int
    record_count: int
    layout: Layout
    words: Words  # the bytes from the timestamp delta on, of each record


def find_runs(data: bytes, pieces: Sequence[Piece]) -> list[Run] | None:
    """None where there are many runs, or anything else that needs a closer look."""
    runs: list[Run] = []
    runs_max = sum(piece.header.record_count for piece in pieces) // RUN_RECORDS_MIN
    for number, piece in enumerate(pieces):
        position, left = piece.start, piece.header.record_count
        while left > 0:
            if len(runs) == runs_max or (found := _layout(data, position, piece.end)) is None:
                return None
            layout, count_max = found
            count_max = min(count_max, left, (piece.end - position) // layout.size_bytes)
            run = _run(data, number, position, layout, count_max)
            runs.append(run)
            position += run.record_count * layout.size_bytes
            left -= run.record_count
        if position != piece.end:
            return None
    return runs


def _layout(data: bytes, position: int, limit: int) -> tuple[Layout, int] | None:
    """Of the record at this position, and how many records from here on can have offset deltas as short. None unless
    it is well formed and has no headers."""
    try:
        size, body = read_varint(data, position)
        _, offset_delta = read_varint(data, timestamp_delta := body + 1)
        delta, key_length = read_varint(data, offset_delta)
        key_bytes, key = read_varint(data, key_length)
        value_bytes, value = read_varint(data, key + max(key_bytes, 0))
        header_count = data[value + max(value_bytes, 0)]
    except (IndexError, InvalidRecordBatch):
        return None
    end = body + size
    is_fine = (
        min(key_bytes, value_bytes) >= -1
        and header_count == 0
        and value + max(value_bytes, 0) + 1 == end <= limit
        and end - timestamp_delta >= WORD_BYTES
        and key_length - timestamp_delta <= WORD_BYTES
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
    return layout, max(1, (1 << 7 * layout.offset_delta.length - 1) - delta)


def _run(data: bytes, piece_number: int, position: int, layout: Layout, count: int) -> Run:
    """The records from here on that are laid out like the first, of so many at most."""
    read: list[Words] = []
    for start, mask in _masks(layout):
        words = np.ndarray((count,), "<u8", data, position + start, (layout.size_bytes,)).copy()
        differ = (words ^ words[0]) & mask
        if differ.any():
            count = int((differ != 0).argmax())
        read.append(words)
    return Run(piece_number, position, count, layout, read[0][:count])


@lru_cache(LAYOUTS_KEPT_MAX)
def _masks(layout: Layout) -> list[tuple[int, np.uint64]]:
    """Words that cover all bytes outside of key and value, those of the numbers first, and which bits must agree."""
    key, value = layout.key, layout.value
    must = dict.fromkeys(range(layout.timestamp_delta.start, key.start), 0xFF)
    for number in (layout.timestamp_delta, layout.offset_delta):
        must |= dict.fromkeys(range(number.start, number.start + number.length), 0x80)
    must |= dict.fromkeys(range(key.start + max(key.length, 0), value.start), 0xFF)
    must[layout.size_bytes - 1] = 0xFF  # the count of headers
    must |= dict.fromkeys(range(layout.timestamp_delta.start - 1), 0xFF)  # the length; the attributes say nothing
    found: list[tuple[int, np.uint64]] = []
    covered: set[int] = set()
    for column in must:
        if column not in covered:
            word = range(start := min(column, layout.size_bytes - WORD_BYTES), start + WORD_BYTES)
            covered.update(word)
            found.append((start, np.uint64(sum(must.get(each, 0) << 8 * (each - start) for each in word))))
    return found


def _unzigzagged(raw: Words, bytes_max: int) -> Int64s:
    """Varints of up to so many bytes, which are all that is in `raw`."""
    number = raw & np.uint64(0x7F)
    for place in range(1, bytes_max):
        number |= (raw >> np.uint64(place)) & np.uint64(0x7F << 7 * place)
    signed = number.view(np.int64)
    return (signed >> 1) ^ -(signed & 1)


class RunFields:
    """The fields of all records of some runs."""

    def __init__(self, data: bytes, runs: Sequence[Run], numbers: BatchNumbers) -> None:
        self._data = data
        self._runs = runs
        self._numbers = numbers
        self._counts = [run.record_count for run in runs]
        self._batches = self._of_each([run.piece_number for run in runs], np.int64)
        self._words = np.concatenate([run.words for run in runs])
        timestamp_bits = self._of_each([8 * run.layout.timestamp_delta.length for run in runs], np.uint64)
        deltas = self._deltas(self._words >> timestamp_bits, [run.layout.offset_delta for run in runs])
        self.offsets = numbers.offsets(self._batches, deltas)

    def _of_each(self, numbers: Sequence[int], dtype: npt.DTypeLike) -> "np.ndarray[Any, Any]":
        """A number of each run, for each of its records."""
        return np.repeat(np.array(numbers, dtype), self._counts)

    def _deltas(self, words: Words, fields: Sequence[Field]) -> Int64s:
        masks = self._of_each([(1 << 8 * field.length) - 1 for field in fields], np.uint64)
        return _unzigzagged(words & masks, max(field.length for field in fields))

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
        deltas_ms = self._deltas(self._words, [run.layout.timestamp_delta for run in self._runs])
        return self._numbers.timestamps(self._batches, deltas_ms)

    def timestamp_types(self) -> pa.Array:
        return self._numbers.timestamp_types(self._batches)

    def headers(self) -> pa.Array:
        return pa.nulls(len(self.offsets), schema.HEADERS_TYPE)

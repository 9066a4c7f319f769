"""Records that follow each other and are laid out alike, as those of one size are: a field is then a stride of bytes,
read at once without looking for it.

    record: length varint | attributes | timestamp delta | offset delta | key | value | header count

Alike means that all bytes between the fields agree with the first record's: lengths wholly, numbers in how many bytes
they take. What is not made of a few long runs of well-formed records without headers is left to `record_places`.
Always holds: a run that is found is as good as one that was walked. Does not know: what is wrong with other bytes.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from barnabas.protocol.record_batch import BatchHeader, InvalidRecordBatch, read_varint
from barnabas.spark import schema
from barnabas.spark.arrow.binary_columns import StridedBytes, strided_binary_array
from barnabas.spark.arrow.record_fields import BatchNumbers, Integers
from barnabas.spark.arrow.record_places import Piece

RUN_RECORDS_MIN = 100  # on average; below, what a run costs is more than what it saves
RUNS_TRIED_MIN = 4  # before the average counts: the first run of a batch is short
WORD_BYTES = 8
HALF_BYTES = 4

Words = npt.NDArray[np.uint64]
Bits = npt.NDArray[np.unsignedinteger[Any]]

_or = np.bitwise_or.reduce
_and = np.bitwise_and.reduce


class Field(NamedTuple):
    """Where a field lies in a record, from its first byte on."""

    start: int
    length: int  # -1: null


class Pattern(NamedTuple):
    """What a word says in each record of a run."""

    bits: int
    mask: int  # the other bits may be anything


class Layout(NamedTuple):
    size_bytes: int  # of a whole record
    length: bytes  # which a record begins with
    timestamp_delta: Field
    offset_delta: Field
    key: Field
    value: Field
    numbers: Pattern  # from the timestamp delta on
    value_length: Pattern | None  # up to the value; None where the word above reaches as far
    seam: Pattern  # where a record ends and the next begins: the count of headers, and the length


class Run(NamedTuple):
    header: BatchHeader
    position: int
    record_count: int
    layout: Layout
    words: Words  # the bytes from the timestamp delta on, of each record


def find_runs(data: bytes, pieces: Sequence[Piece]) -> list[Run] | None:
    """None where there are many runs, or anything else that needs a closer look.  # benchmarks/arrow_decoding.py"""
    runs: list[Run] = []
    seen = 0
    known: list[Layout] = []  # of the runs of a batch, in their order; those of the next one are often the same
    for piece in pieces:
        position, left, number = piece.start, piece.header.record_count, 0
        while left > 0:
            if len(runs) >= RUNS_TRIED_MIN + seen // RUN_RECORDS_MIN:
                return None
            if number == len(known) or not _is_laid_out(data, position, piece.end, known[number]):
                found = _layout(data, position, piece.end)
                if found is None:
                    return None
                known[number:] = [found]
            layout = known[number]
            room = min(left, (piece.end - position) // layout.size_bytes)
            run = _run(data, piece.header, position, layout, room)
            position += run.record_count * layout.size_bytes
            if data[position - 1] != 0:
                return None  # the last one has headers
            runs.append(run)
            seen += run.record_count
            left -= run.record_count
            number += 1
        if position != piece.end:
            return None
    return runs


def _is_laid_out(data: bytes, position: int, limit: int, layout: Layout) -> bool:
    """Whether the record at this position is like others that were seen."""
    if position + layout.size_bytes > limit or not data.startswith(layout.length, position):
        return False
    bits, mask = layout.numbers
    if _word(data, position + layout.timestamp_delta.start) & mask != bits:
        return False
    if layout.value_length is None:
        return True
    bits, mask = layout.value_length
    return _word(data, position + layout.value.start - WORD_BYTES) & mask == bits


def _layout(data: bytes, position: int, limit: int) -> Layout | None:
    """Of the record at this position. None unless it is well formed; whether it has headers is not looked at."""
    try:
        size, body = read_varint(data, position)
        _, offset_delta = read_varint(data, timestamp_delta := body + 1)
        _, key_length = read_varint(data, offset_delta)
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
    numbers = dict.fromkeys(range(timestamp_delta, key_length), 0x80) | dict.fromkeys(range(key_length, key), 0xFF)
    value_length = dict.fromkeys(range(key + max(key_bytes, 0), value), 0xFF)
    is_near = value <= timestamp_delta + WORD_BYTES
    length = data[position:body]
    return Layout(
        end - position,
        length,
        Field(timestamp_delta - position, offset_delta - timestamp_delta),
        Field(offset_delta - position, key_length - offset_delta),
        Field(key - position, key_bytes),
        Field(value - position, value_bytes),
        _pattern(data, timestamp_delta, numbers | (value_length if is_near else {})),
        None if is_near else _pattern(data, value - WORD_BYTES, value_length),
        Pattern(int.from_bytes(length, "little") << 8, (1 << 8 * (len(length) + 1)) - 1),
    )


def _pattern(data: bytes, first: int, masks: Mapping[int, int]) -> Pattern:
    """Of the word that begins at a position, with the mask of each byte that counts."""
    mask = sum(bits << 8 * (position - first) for position, bits in masks.items())
    return Pattern(_word(data, first) & mask, mask)


def _word(data: bytes, position: int) -> int:
    return int.from_bytes(data[position : position + WORD_BYTES], "little")


def _run(data: bytes, header: BatchHeader, position: int, layout: Layout, room: int) -> Run:
    """The records from here on that are laid out like the first, of so many at most; the last of them may have headers
    nevertheless."""
    stride = layout.size_bytes
    delta, _ = read_varint(data, position + layout.offset_delta.start)
    as_short = (1 << 7 * layout.offset_delta.length - 1) - delta  # how many can have offset deltas of so many bytes
    words = _words(data, position + layout.timestamp_delta.start, stride, min(room, max(as_short, 1)))
    count = _alike(words, layout.numbers)
    if layout.value_length is not None:
        count = _alike(_words(data, position + layout.value.start - WORD_BYTES, stride, count), layout.value_length)
    if count > 1:
        count = 1 + _alike(_words(data, position + stride - 1, stride, count - 1), layout.seam)
    return Run(header, position, count, layout, words[:count])


def _words(data: bytes, position: int, stride: int, count: int) -> Words:
    return np.ndarray((count,), "<u8", data, position, (stride,)).copy()


def _alike(words: Words, pattern: Pattern) -> int:
    """How many of them, from the first on, are as the pattern says."""
    bits, mask = pattern
    if ((int(_or(words)) ^ bits) | (int(_and(words)) ^ bits)) & mask == 0:
        return len(words)
    return int(((words ^ np.uint64(bits)) & np.uint64(mask) != 0).argmax())


def _unzigzagged(raw: Bits, bytes_max: int) -> Integers:
    """The varints of up to so many bytes in the low bytes of `raw`."""
    number = raw & 0x7F
    for place in range(1, bytes_max):
        number |= raw >> place & 0x7F << 7 * place
    signed: Integers = number.view(f"i{number.itemsize}")
    return (signed >> 1) ^ -(signed & 1)


class RunFields:
    """The fields of all records of some runs."""

    def __init__(self, data: bytes, runs: Sequence[Run]) -> None:
        self._data = data
        self._runs = runs
        self._numbers = BatchNumbers([run.header for run in runs], [run.record_count for run in runs])
        self.offsets = self._numbers.offsets(self._deltas([run.layout.offset_delta for run in runs]))

    def _deltas(self, fields: Sequence[Field]) -> Integers:
        bytes_max = max(field.length for field in fields)
        pairs = zip(self._runs, fields, strict=True)
        return _unzigzagged(np.concatenate([_field_bits(run, field, bytes_max) for run, field in pairs]), bytes_max)

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


def _field_bits(run: Run, field: Field, bytes_max: int) -> Bits:
    """What the words of a run say from a field on: halves of words, with which numpy is faster, where these are enough
    for fields of so many bytes. Behind a field that is shorter there is nothing."""
    place = field.start - run.layout.timestamp_delta.start
    if max(place, bytes_max) <= WORD_BYTES - HALF_BYTES:
        found: Bits = np.ndarray((run.record_count,), "<u4", run.words, place, (WORD_BYTES,))
    else:
        found = run.words >> np.uint64(8 * place)
    if field.length < bytes_max:
        found = found & found.dtype.type((1 << 8 * field.length) - 1)
    return found

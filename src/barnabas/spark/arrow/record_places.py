"""Where records and their fields lie in unpacked bytes, found for many batches at once.

    record: length varint | attributes | timestamp delta | offset delta | key | value | header count | headers

Records are a chain of lengths. Where small ones begin is guessed (`record_guesses`); else the chain is walked: side by
side, the first record of all batches, then the second, where there are many batches; by runs of records of one length,
which show as equal bytes a stride apart; or step by step in Python. Nothing of this checks anything: afterwards each
length is read again, for all records at once, and must lead to the next record.
Always holds: malformed bytes raise InvalidRecordBatch, naming the offset of the batch. Does not know: Arrow.
"""

from collections.abc import Iterator, Sequence
from itertools import repeat
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from barnabas.protocol.record_batch import RECORD_BYTES_MIN, BatchHeader, InvalidRecordBatch, read_varint
from barnabas.spark.arrow.record_guesses import guess_starts
from barnabas.spark.arrow.varints import Bytes, Int64s, read_varints

LANES_MIN = 64  # batches for which a round of numpy over one record of each is cheaper than their single steps
RUN_MIN = 32  # records left in a batch for which looking for a run is worth it; a look costs as much as this many steps
RUN_PAUSE_MIN, RUN_PAUSE_MAX = 256, 2048  # after a vain look, so many records are stepped over before the next


class Piece(NamedTuple):
    """The unpacked records of one batch, from `start` to `end` of a buffer."""

    header: BatchHeader
    start: int
    end: int


class Places(NamedTuple):
    """One entry for each record."""

    bodies: Int64s  # where the attributes lie, behind the length
    ends: Int64s


def find_records(data: bytes, view: Bytes, pieces: Sequence[Piece]) -> Places:
    """`view` shows the same bytes as `data`.  # benchmarks/arrow_decoding.py"""
    for piece in pieces:
        if not 0 < piece.header.record_count * RECORD_BYTES_MIN <= piece.end - piece.start:
            raise malformed(
                piece.header, f"{piece.header.record_count} records cannot lie in {piece.end - piece.start} bytes"
            )
    counts = np.array([piece.header.record_count for piece in pieces], np.int64)
    firsts = np.cumsum(counts) - counts  # of each batch, among all records
    begins = np.array([piece.start for piece in pieces], np.int64)
    limits = np.array([piece.end for piece in pieces], np.int64)
    if (starts := guess_starts(view, counts, begins, limits)) is not None:
        places, lengths = _places(view, starts, firsts + counts - 1, limits)
        if not _lead_astray(places, lengths).any():
            return places
    starts = np.empty(int(counts.sum()), np.int64)
    walked = np.zeros(len(pieces), np.int64)
    if len(pieces) >= LANES_MIN:
        _walk_side_by_side(view, counts, firsts, begins, walked, starts)
    for number in np.flatnonzero(walked < counts).tolist():
        done, first = int(walked[number]), int(firsts[number])
        _walk(data, view, int(begins[number]), pieces[number], starts[first + done : first + int(counts[number])])
    places, lengths = _places(view, starts, firsts + counts - 1, limits)
    wrong = _lead_astray(places, lengths)
    if wrong.any():
        record = int(wrong.argmax())
        piece = pieces[int(np.searchsorted(firsts, record, "right")) - 1]
        raise malformed(piece.header, f"a record of {int(lengths[record])} bytes does not end where the next begins")
    return places


def _places(view: Bytes, starts: Int64s, lasts: Int64s, limits: Int64s) -> tuple[Places, Int64s]:
    """Of records that begin here, and their lengths. `lasts` are the last ones of batches, which end at `limits`."""
    lengths, bodies = read_varints(view, starts)
    ends = np.empty_like(starts)
    ends[:-1] = starts[1:]
    ends[lasts] = limits
    return Places(bodies, ends), lengths


def _lead_astray(places: Places, lengths: Int64s) -> npt.NDArray[np.bool_]:
    """Which records do not end where the next begins."""
    wrong: npt.NDArray[np.bool_] = (lengths != places.ends - places.bodies) | (lengths < RECORD_BYTES_MIN - 1)
    return wrong


def _walk_side_by_side(
    view: Bytes, counts: Int64s, firsts: Int64s, begins: Int64s, walked: Int64s, starts: Int64s
) -> None:
    """Steps over all batches at once, until few of them are left. `begins` and `walked` then say how far each is."""
    lanes = np.arange(len(counts))
    position = begins.copy()
    number = 0
    while len(lanes) >= LANES_MIN:
        starts[firsts[lanes] + number] = position
        first = view.take(position, mode="clip").astype(np.int64)
        second = view.take(position + 1, mode="clip").astype(np.int64)
        goes_on = first >> 7
        if (goes_on & (second >> 7)).any():
            length, following = read_varints(view, position)
            position = following + np.maximum(length, 0)
        else:
            position = position + 1 + goes_on + (((first & 0x7F) | (second << 7) * goes_on) >> 1)
        number += 1
        going = counts[lanes] > number
        if not going.all():
            walked[lanes[~going]] = number
            lanes, position = lanes[going], position[going]
    walked[lanes] = number
    begins[lanes] = position


def _walk(data: bytes, view: Bytes, position: int, piece: Piece, starts: Int64s) -> None:
    """Fills in where the records of one batch begin, from a position on."""
    limit, count, done = piece.end, len(starts), 0
    pause = RUN_PAUSE_MIN
    while count - done >= RUN_MIN:
        try:
            size, body = read_varint(data, position)
        except IndexError:
            raise malformed(piece.header, "the batch ends within a record") from None
        stride = body + size - position
        if size < RECORD_BYTES_MIN - 1 or position + stride > limit:
            raise malformed(piece.header, f"a record of {size} bytes where {limit - body} are left")
        run = _run(view, position, body - position, stride, min(count - done, (limit - position) // stride))
        starts[done : done + run] = np.arange(position, position + run * stride, stride)
        position += run * stride
        done += run
        if run < RUN_MIN:
            position, done = _step(data, position, piece, starts, done, min(pause, count - done))
            pause = min(pause * 2, RUN_PAUSE_MAX)
        else:
            pause = RUN_PAUSE_MIN
    _step(data, position, piece, starts, done, count - done)


def _step(data: bytes, position: int, piece: Piece, starts: Int64s, done: int, count: int) -> tuple[int, int]:
    if count:
        try:
            starts[done : done + count] = np.fromiter(_chain(data, position, count), np.int64, count)
            size, body = read_varint(data, int(starts[done + count - 1]))
        except IndexError:
            raise malformed(piece.header, "the batch ends within a record") from None
        position = body + size
    return position, done + count


def _chain(data: bytes, position: int, count: int) -> Iterator[int]:
    """Record by record; lengths of one and two bytes, which most are, are taken in line."""
    for _ in repeat(None, count):
        yield position
        number = data[position]
        if number < 0x80:
            position += 1 + (number >> 1)
        elif (second := data[position + 1]) < 0x80:
            position += 2 + ((number & 0x7F | second << 7) >> 1)
        else:
            size, position = read_varint(data, position)
            position += max(size, 0)


def _run(view: Bytes, position: int, length_bytes: int, stride: int, most: int) -> int:
    """How many records from here on have the same length; at least 1. Exact: as long as each length is the stride, the
    next record begins a stride further."""
    few = min(most, RUN_MIN)
    found = _alike(view, position, length_bytes, stride, few)
    return found if found < few else _alike(view, position, length_bytes, stride, most)


def _alike(view: Bytes, position: int, length_bytes: int, stride: int, most: int) -> int:
    same = view[position : position + (most - 1) * stride + 1 : stride] == view[position]
    for first in range(position + 1, position + length_bytes):
        same &= view[first : first + (most - 1) * stride + 1 : stride] == view[first]
    broken = int(same.argmin())
    return most if same[broken] else broken


def malformed(header: BatchHeader, problem: str) -> InvalidRecordBatch:
    return InvalidRecordBatch(f"{problem} (the batch at offset {header.base_offset})")

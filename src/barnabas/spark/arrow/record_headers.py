"""The headers of records as a column of lists.

    header: key length varint | key | value length varint, -1 is null | value

The first header of all records is read at once, then the second, and so on; a few records with very many headers are
finished one by one, lest each of their headers cost a round over one record.
Always holds: a record without headers has null, as with Spark's own connector; keys that are not UTF-8 have the
replacement character, as in Java. Does not know: batches.
"""

import numpy as np
import pyarrow as pa

from barnabas.protocol.record_batch import InvalidRecordBatch, read_varint
from barnabas.spark.arrow.binary_columns import binary_array, validity
from barnabas.spark.arrow.varints import Bytes, Int64s, read_varints

ROUND_RECORDS_MIN = 8  # for fewer records a step in Python is cheaper than a round of numpy


def decode_headers(data: bytes, view: Bytes, counts: Int64s, positions: Int64s, ends: Int64s) -> pa.Array:
    """`positions` are where the first header of each record begins, `ends` where the records do end."""
    if bool(((counts < 0) | (counts > (ends - positions) // 2)).any()):
        raise InvalidRecordBatch("a count of headers that its record cannot hold")
    at = positions.copy()
    firsts = np.concatenate(([0], np.cumsum(counts)))  # of each record, in the list of all headers
    total = int(firsts[-1])
    spots = tuple(np.empty(total, np.int64) for _ in range(4))
    active = np.flatnonzero(counts > 0)
    round_ = 0
    while len(active) >= ROUND_RECORDS_MIN:
        key_lengths, keys = read_varints(view, at[active])
        _check(key_lengths, keys, ends[active], least=0)
        value_lengths, values = read_varints(view, keys + key_lengths)
        _check(value_lengths, values, ends[active], least=-1)
        target = firsts[active] + round_
        for spot, found in zip(spots, (keys, key_lengths, values, value_lengths), strict=True):
            spot[target] = found
        at[active] = values + np.maximum(value_lengths, 0)
        round_ += 1
        active = active[counts[active] > round_]
    for record in active.tolist():
        at[record] = _one_by_one(
            data, int(at[record]), int(ends[record]), spots, int(firsts[record]) + round_, int(firsts[record + 1])
        )
    if not np.array_equal(at, ends):
        raise InvalidRecordBatch("a record does not end where its length says")
    keys, key_lengths, values, value_lengths = spots
    return _lists(
        counts, firsts, _texts(binary_array(data, keys, key_lengths)), binary_array(data, values, value_lengths)
    )


def _check(lengths: Int64s, positions: Int64s, ends: Int64s, *, least: int) -> None:
    if bool(((lengths < least) | (lengths > ends - positions)).any()):
        raise InvalidRecordBatch("a header that its record cannot hold")


def _one_by_one(data: bytes, position: int, end: int, spots: tuple[Int64s, ...], first: int, limit: int) -> int:
    for target in range(first, limit):
        for spot, length_spot, least in ((spots[0], spots[1], 0), (spots[2], spots[3], -1)):
            try:
                length, position = read_varint(data, position)
            except IndexError:
                raise InvalidRecordBatch("the batch ends within a header") from None
            if not least <= length <= end - position:
                raise InvalidRecordBatch("a header that its record cannot hold")
            spot[target], length_spot[target] = position, length
            position += max(length, 0)
    return position


def _texts(keys: pa.Array) -> pa.Array:
    try:
        return keys.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([key.decode("utf-8", "replace") for key in keys.to_pylist()], pa.string())


def _lists(counts: Int64s, firsts: Int64s, keys: pa.Array, values: pa.Array) -> pa.Array:
    from barnabas.spark.schema import HEADERS_TYPE

    pairs = pa.StructArray.from_arrays([keys, values], fields=list(HEADERS_TYPE.value_type))
    bounds = pa.py_buffer(firsts.astype(np.int32))
    nulls = int(np.count_nonzero(counts == 0))
    buffers = [validity(counts > 0), bounds]
    return pa.Array.from_buffers(HEADERS_TYPE, len(counts), buffers, null_count=nulls, children=[pairs])

"""Arrow's columns out of numpy's arrays, and binary ones out of places in a buffer.

Each field is copied once, in C. Fields of one length, a stride apart, are opaque entries that numpy moves; for others,
an array whose offsets alternate between a field and the gap behind it lies over the raw buffer, and its even entries
are taken. Those must come in the order of the buffer, which those of a log do.
Always holds: a length of -1 is null. Does not know: what the bytes are.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from barnabas.spark.arrow.varints import Int64s


def number_array(numbers: "np.ndarray[Any, Any]", arrow_type: pa.DataType) -> pa.Array:
    """A column without nulls over these numbers, which it does not copy.

    `pa.array` would do, but looks for pandas first, and importing that takes a worker half a second.
    """
    assert numbers.flags.c_contiguous
    return pa.Array.from_buffers(arrow_type, len(numbers), [None, pa.py_buffer(numbers)], null_count=0)


def validity(is_there: "npt.NDArray[np.bool_]") -> pa.Buffer:
    """Which entries of a column are not null, as Arrow says it."""
    return pa.py_buffer(np.packbits(is_there, bitorder="little"))


def constant_text(text: str, count: int) -> pa.Array:
    """A column that says the same in each row."""
    data = text.encode()
    bounds = np.arange(0, (count + 1) * len(data), len(data), dtype=np.int32)
    return pa.Array.from_buffers(pa.string(), count, [None, pa.py_buffer(bounds), pa.py_buffer(data * count)])


def binary_array(data: bytes, positions: Int64s, lengths: Int64s) -> pa.Array:
    """One entry for each position, in ascending order; null where its length is -1."""
    count = len(positions)
    is_null = lengths < 0
    nulls = int(np.count_nonzero(is_null))
    if nulls == count:
        return pa.nulls(count, pa.binary())
    ends = positions + lengths
    if nulls:
        ends += is_null  # as if they had no bytes
    bounds = np.empty(2 * count, np.int32)
    bounds[0::2] = positions
    bounds[1::2] = ends
    fields_and_gaps = pa.Array.from_buffers(
        pa.binary(), 2 * count - 1, [None, pa.py_buffer(bounds), pa.py_buffer(data)], null_count=0
    )
    found = fields_and_gaps.take(number_array(np.arange(0, 2 * count, 2, dtype=np.int32), pa.int32()))
    if not nulls:
        return found
    _, offsets, values = found.buffers()
    return pa.Array.from_buffers(pa.binary(), count, [validity(~is_null), offsets, values], null_count=nulls)


class StridedBytes(NamedTuple):
    """Fields of one length, a stride apart."""

    position: int
    length: int
    stride: int
    row_count: int


def strided_binary_array(data: bytes, fields: Sequence[StridedBytes]) -> pa.Array:
    """All these fields, one after the other; null where the length is -1."""
    count = sum(each.row_count for each in fields)
    nulls = sum(each.row_count for each in fields if each.length < 0)
    if nulls == count:
        return pa.nulls(count, pa.binary())
    row_counts = [each.row_count for each in fields]
    bounds = np.zeros(count + 1, np.int32)
    lengths = np.array([max(each.length, 0) for each in fields], np.int32)
    np.cumsum(np.repeat(lengths, row_counts), out=bounds[1:])
    content = np.empty(int(bounds[-1]), np.uint8)
    at = 0
    for position, length, stride, rows in fields:
        if length > 0:
            target = content[at : at + rows * length].view(f"V{length}")
            target[...] = np.ndarray((rows,), target.dtype, data, position, (stride,))
            at += rows * length
    valid = validity(np.repeat([each.length >= 0 for each in fields], row_counts)) if nulls else None
    return pa.Array.from_buffers(
        pa.binary(), count, [valid, pa.py_buffer(bounds), pa.py_buffer(content)], null_count=nulls
    )

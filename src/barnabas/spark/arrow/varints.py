"""Numbers of varying length, for many positions of a buffer at once.

Always holds: what the buffer cuts off ends beyond it. Does not know: what the numbers count.
"""

import numpy as np
import numpy.typing as npt

from barnabas.protocol.record_batch import InvalidRecordBatch

Int64s = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]

VARINT_BYTES_MAX = 10


def read_varints(view: Bytes, positions: Int64s) -> tuple[Int64s, Int64s]:
    """The zigzag varint at each position, and what follows it.

    One and two bytes, which most are, are read for all positions at once, in numbers no wider than they need; what is
    longer is read again. A varint that the buffer cuts off is read as if its last byte were repeated: its end then
    lies beyond the buffer.
    """
    first = view.take(positions, mode="clip")
    if not len(first) or int(first.max()) < 0x80:
        number = first.astype(np.int16)
        return ((number >> 1) ^ -(number & 1)).astype(np.int64), positions + 1
    following = positions + 1
    second = view.take(following, mode="clip")
    goes_on = first >> 7
    number = (first & 0x7F).astype(np.int16) | (second & 0x7F).astype(np.int16) * goes_on << 7
    values = ((number >> 1) ^ -(number & 1)).astype(np.int64)
    following += goes_on
    longer = np.flatnonzero(goes_on & (second >> 7))
    if len(longer):
        values[longer], following[longer] = _read_long_varints(view, positions[longer])
    return values, following


def _read_long_varints(view: Bytes, positions: Int64s) -> tuple[Int64s, Int64s]:
    """Those of three bytes and more."""
    number = np.zeros(len(positions), np.uint64)
    following = positions.copy()
    going = np.arange(len(positions))
    for place in range(VARINT_BYTES_MAX):
        byte = view.take(following[going], mode="clip")
        number[going] |= (byte & 0x7F).astype(np.uint64) << np.uint64(7 * place)
        following[going] += 1
        going = going[byte >= 0x80]
        if not len(going):
            return (number >> np.uint64(1)).view(np.int64) ^ -(number & np.uint64(1)).view(np.int64), following
    raise InvalidRecordBatch("a variable-length number of more than ten bytes")

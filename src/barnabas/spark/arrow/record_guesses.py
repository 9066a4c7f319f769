"""Where small records begin, by the look of them: behind a zero, the count of headers of the one before, and with a
zero behind the length, the attributes. What looks like that is followed: what nothing leads to is none.

Always holds: nothing; whoever asks must see whether each record leads to the next. Does not know: what is in records.
"""

import numpy as np

from barnabas.protocol.record_batch import RECORD_BYTES_MIN
from barnabas.spark.arrow.varints import Bytes, Int64s, read_varints

RECORDS_MIN = 64  # fewer are walked as fast
RECORD_BYTES_MAX = 256  # on average; every byte is looked at, so larger ones are walked as fast
LIKELY_MAX = 2  # for each record; where more look like one, values are full of zeros
ROUNDS_MAX = 4  # first what nothing leads to is taken away, then what only that led to


def guess_starts(view: Bytes, counts: Int64s, begins: Int64s, limits: Int64s) -> Int64s | None:
    """Of batches with so many records each, which lie from `begins` to `limits`. None where a look does not help."""
    low, size, count = int(begins[0]), int(limits[-1] - begins[0]), int(counts.sum())
    if count < RECORDS_MIN or size > RECORD_BYTES_MAX * count:
        return None
    lengths, bodies = read_varints(view, begins)
    if view.take(bodies + lengths - 1, mode="clip").any():
        return None  # the first ones of batches have headers, so others may as well
    is_zero = view[low : low + size] == 0
    looks = np.zeros(size + 1, np.bool_)
    np.bitwise_and(is_zero[:-3], is_zero[2:-1] | is_zero[3:], out=looks[1 : size - 2])
    for limit, begin in zip(limits[:-1].tolist(), begins[1:].tolist(), strict=True):
        looks[limit - low : begin - low] = False  # what lies between batches
    looks[begins - low] = True
    likely = np.flatnonzero(looks)
    if not count <= len(likely) <= LIKELY_MAX * count:
        return None
    lengths, bodies = read_varints(view, likely + low)
    nexts = np.where(lengths < RECORD_BYTES_MIN - 1, size, np.clip(bodies + lengths - low, 0, size))
    for _ in range(ROUNDS_MAX):
        is_reached = np.zeros(size + 1, np.bool_)
        is_reached[begins - low] = True
        is_reached[nexts] = True
        kept = is_reached[likely]
        likely, nexts = likely[kept], nexts[kept]
        if len(likely) == count:
            return likely + low
    return None

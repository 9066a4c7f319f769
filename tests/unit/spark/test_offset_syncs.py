"""Offsets of copies: exact where originals have no gaps, and never behind what was not yet read."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from barnabas.spark.writing.offset_syncs import Segment, decode_syncs, extend, runs, sync_records, translated


@given(
    st.lists(st.tuples(st.integers(1, 3), st.booleans()), min_size=1, max_size=40),
    st.integers(0, 50),
    st.integers(1, 9),
    st.integers(0, 60),
)
def test_translated(steps: list[tuple[int, bool]], first_target: int, batch_size: int, asked: int) -> None:
    """`steps` are the distances between offsets of the original, and whether a marker stands before it in the copy."""
    source = np.cumsum([step for step, _marker in steps])
    target: list[int] = []
    segments: list[Segment] = []
    place = first_target
    for start in range(0, len(source), batch_size):
        part = source[start : start + batch_size]
        place += steps[start][1]
        extend(segments, runs(part), place)
        target += range(place, place + len(part))
        place += len(part)
    found = translated(asked, segments)
    unread = [there for there, here in zip(target, source.tolist(), strict=True) if here >= asked]
    read = [there for there, here in zip(target, source.tolist(), strict=True) if here < asked]
    if found is None:
        assert asked < source[0]
        return
    assert all(there >= found for there in unread), "nothing is missed"
    assert all(there < found for there in read), "and nothing is met twice"


def test_records_and_back() -> None:
    found = {("t", 0): [Segment(0, 5, 2), Segment(9, 7, 1)], ("t", 1): [Segment(3, 0, 4)]}
    records = dict(sync_records("sink", 70, found))
    assert decode_syncs("sink", records) == found
    assert decode_syncs("another", records) == {}
    later = dict(sync_records("sink", 70 + 64, {("t", 0): [Segment(10, 8, 1)]}))
    assert decode_syncs("sink", {**records, **later})["t", 0] == [Segment(10, 8, 1)]

"""Which offset of a copy is which offset of its original, kept by the sink that copies.

A segment is a run of records that follow each other without a gap on both sides: (first offset there, first offset
here, size). A batch's segments of one partition are one record of a compacted topic, under a key that comes round
every HISTORY batches; so the last HISTORY batches are known.
Always holds: a translated offset never lies behind a record that the original offset still had before it: whoever goes
on there misses nothing, and within a segment meets nothing twice. Does not know: groups, clusters.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

HISTORY = 64
SEGMENTS_MAX = 1000  # of one partition in a batch; where the original has more gaps, some are met twice


class Segment(NamedTuple):
    source_offset: int
    target_offset: int
    size: int  # in records


class Run(NamedTuple):
    """Records of one batch that follow each other at the source, and the place of the first in the batch."""

    source_offset: int
    place: int
    size: int


Segments = dict[tuple[str, int], list[Segment]]


def runs(offsets: NDArray[np.int64]) -> list[Run]:
    starts = [0, *(np.flatnonzero(np.diff(offsets) != 1) + 1).tolist()]
    ends = [*starts[1:], len(offsets)]
    return [Run(int(offsets[start]), start, end - start) for start, end in zip(starts, ends, strict=True)]


def extend(known: list[Segment], found: Iterable[Run], base_offset: int) -> None:
    """Adds the runs of a batch that was written at this offset."""
    for each in found:
        target = base_offset + each.place
        last = known[-1] if known else None
        if last is not None and (last.source_offset + last.size, last.target_offset + last.size) == (
            each.source_offset,
            target,
        ):
            known[-1] = Segment(last.source_offset, last.target_offset, last.size + each.size)
        elif len(known) < SEGMENTS_MAX:
            known.append(Segment(each.source_offset, target, each.size))


def translated(offset: int, segments: Sequence[Segment]) -> int | None:
    """Where to go on in the copy; None where that lies before all that is known. Segments ascend."""
    place = bisect_right(segments, offset, key=lambda each: each.source_offset) - 1
    if place < 0:
        return None
    segment = segments[place]
    return segment.target_offset + min(offset - segment.source_offset, segment.size)


def sync_records(
    sink: str, batch_id: int, found: Mapping[tuple[str, int], Sequence[Segment]]
) -> list[tuple[bytes, bytes]]:
    return [
        (
            json.dumps([sink, topic, partition, batch_id % HISTORY]).encode(),
            json.dumps([list(segment) for segment in segments]).encode(),
        )
        for (topic, partition), segments in sorted(found.items())
    ]


def decode_syncs(sink: str, records: Mapping[bytes, bytes]) -> Segments:
    found: Segments = {}
    for key, value in records.items():
        name, topic, partition, _slot = json.loads(key)
        if name == sink:
            found.setdefault((topic, partition), []).extend(Segment(*each) for each in json.loads(value))
    return {key: sorted(segments) for key, segments in found.items()}

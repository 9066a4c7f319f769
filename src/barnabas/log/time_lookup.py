"""Which offset belongs to a moment: what ListOffsets asks.

Finds the segment by the largest timestamps of all, the place in it by its time index, then looks into the one batch
that decides, record by record.
Always holds: the answer is the first record, by offset, that is at least as late as the moment asked for. The cost
does not grow with the number of segments, but for the first lookup after some were deleted.
"""

from bisect import bisect_left
from typing import NamedTuple

from barnabas.log.scan import SEEK_CHUNK_BYTES, headers_from
from barnabas.log.segment import Segment
from barnabas.log.segments import Segments
from barnabas.protocol.record_batch import BatchHeader, decode_records
from barnabas.types import NO_TIMESTAMP_MS, LeaderEpoch, Offset, Position


class TimestampOffset(NamedTuple):
    timestamp_ms: int
    offset: Offset
    leader_epoch: LeaderEpoch  # -1 where the batch has none


class TimeLookup:
    __slots__ = ("_deletions", "_latest_ms", "_segments")

    def __init__(self, segments: Segments) -> None:
        self._segments = segments
        # The largest timestamp up to and with each finished segment: it ascends, where those of segments may not. One
        # whose time index lost its entries counts by the time of its file, and is then searched batch by batch.
        self._latest_ms: list[int] = []
        self._deletions = segments.deletions  # as of the list above

    def _latest_so_far_ms(self) -> list[int]:
        segments = self._segments
        latest_ms = self._latest_ms
        if self._deletions != segments.deletions:
            self._deletions = segments.deletions
            latest_ms.clear()
        for number in range(len(latest_ms), len(segments) - 1):
            segment = segments[number]
            own_ms = segment.retention_timestamp_ms() if segment.size_bytes else NO_TIMESTAMP_MS
            latest_ms.append(max(own_ms, latest_ms[-1]) if latest_ms else own_ms)
        return latest_ms

    def first_at_or_after(self, timestamp_ms: int, first_offset: Offset) -> TimestampOffset | None:
        """The first record not before a moment; records before `first_offset` do not count."""
        segments = self._segments
        for number in range(bisect_left(self._latest_so_far_ms(), timestamp_ms), len(segments)):
            segment = segments[number]
            if segment.size_bytes and segment.retention_timestamp_ms() >= timestamp_ms:
                segments.used(segment)
                found = _first_in_segment(segment, timestamp_ms, first_offset)
                if found is not None:
                    return found  # otherwise the late record lies before `first_offset`
        return None

    def latest(self) -> TimestampOffset | None:
        """The first record that has the largest timestamp of all; None where no record has one."""
        finished_ms = self._latest_so_far_ms()
        chosen = self._segments.active
        if finished_ms and finished_ms[-1] >= chosen.latest().timestamp_ms:
            chosen = self._segments[bisect_left(finished_ms, finished_ms[-1])]
        timestamp_ms, last_offset = chosen.latest()
        if timestamp_ms < 0:
            return None
        self._segments.used(chosen)
        position = chosen.offset_index.lookup(last_offset)
        for found, header in headers_from(chosen.file(), position, chosen.size_bytes, SEEK_CHUNK_BYTES):
            if header.max_timestamp_ms == timestamp_ms:
                return _first_in_batch(chosen, found, header, timestamp_ms, header.base_offset)
        return None


def _first_in_segment(segment: Segment, timestamp_ms: int, first_offset: Offset) -> TimestampOffset | None:
    start_offset = max(segment.time_index.lookup(timestamp_ms), first_offset)
    position = segment.offset_index.lookup(start_offset)
    for found, header in headers_from(segment.file(), position, segment.size_bytes, SEEK_CHUNK_BYTES):
        if header.max_timestamp_ms >= timestamp_ms and header.last_offset >= first_offset:
            answer = _first_in_batch(segment, found, header, timestamp_ms, first_offset)
            if answer is not None:
                return answer
    return None


def _first_in_batch(
    segment: Segment, position: Position, header: BatchHeader, timestamp_ms: int, first_offset: Offset
) -> TimestampOffset | None:
    for record in decode_records(segment.file().read(position, header.size_bytes)):
        if record.timestamp_ms >= timestamp_ms and record.offset >= first_offset:
            return TimestampOffset(record.timestamp_ms, record.offset, header.leader_epoch)
    return None

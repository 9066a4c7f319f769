"""Which offset belongs to a moment: what ListOffsets asks.

Finds the segment by the largest timestamps of all, the place in it by its time index, and there the one batch that
decides, as a `TimeCandidate`: to look into it, record by record, is for its caller, who may do that on another thread.
Always holds: the answer is the first record, by offset, that is at least as late as the moment asked for, as far as the
headers of the batches tell the latest of their records. The cost does not grow with the number of segments, but for the
first lookup after some were deleted.
"""

from bisect import bisect_left
from typing import NamedTuple

from barnabas.log.scan import SEEK_CHUNK_BYTES, headers_from
from barnabas.log.segment import Segment
from barnabas.log.segments import Segments
from barnabas.protocol.record_batch import BatchHeader
from barnabas.protocol.record_scan import scan
from barnabas.types import NO_TIMESTAMP_MS, LeaderEpoch, Offset, Position


class TimestampOffset(NamedTuple):
    timestamp_ms: int
    offset: Offset
    leader_epoch: LeaderEpoch  # -1 where the batch has none


class TimeCandidate(NamedTuple):
    """A batch that may hold the record that is looked for."""

    batch: bytes
    header: BatchHeader
    timestamp_ms: int  # the record has at least this
    first_offset: Offset  # and this

    def search(self) -> TimestampOffset | None:
        """The first such record. InvalidRecordBatch where the records cannot be read."""
        header = self.header
        base_offset, base_timestamp_ms = header.base_offset, header.base_timestamp_ms
        append_time_ms = header.max_timestamp_ms if header.is_log_append_time else None
        for offset_delta, timestamp_delta_ms, _ in scan(self.batch, header):
            timestamp_ms = base_timestamp_ms + timestamp_delta_ms if append_time_ms is None else append_time_ms
            if timestamp_ms >= self.timestamp_ms and base_offset + offset_delta >= self.first_offset:
                return TimestampOffset(timestamp_ms, base_offset + offset_delta, header.leader_epoch)
        return None


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

    def first_at_or_after(self, timestamp_ms: int, first_offset: Offset) -> TimeCandidate | None:
        """The first batch from `first_offset` on that claims a record not before a moment."""
        segments = self._segments
        for number in range(bisect_left(self._latest_so_far_ms(), timestamp_ms), len(segments)):
            segment = segments[number]
            if segment.size_bytes and segment.retention_timestamp_ms() >= timestamp_ms:
                segments.used(segment)
                found = _first_in_segment(segment, timestamp_ms, first_offset)
                if found is not None:
                    return found  # otherwise the late record lies before `first_offset`
        return None

    def latest(self) -> TimeCandidate | None:
        """The first batch that has the largest timestamp of all; None where no record has one."""
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
                return _candidate(chosen, found, header, timestamp_ms, header.base_offset)
        return None


def _first_in_segment(segment: Segment, timestamp_ms: int, first_offset: Offset) -> TimeCandidate | None:
    start_offset = max(segment.time_index.lookup(timestamp_ms), first_offset)
    position = segment.offset_index.lookup(start_offset)
    for found, header in headers_from(segment.file(), position, segment.size_bytes, SEEK_CHUNK_BYTES):
        if header.max_timestamp_ms >= timestamp_ms and header.last_offset >= first_offset:
            return _candidate(segment, found, header, timestamp_ms, first_offset)
    return None


def _candidate(
    segment: Segment, position: Position, header: BatchHeader, timestamp_ms: int, first_offset: Offset
) -> TimeCandidate:
    return TimeCandidate(segment.file().read(position, header.size_bytes), header, timestamp_ms, first_offset)

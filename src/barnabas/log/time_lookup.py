"""Which offset belongs to a moment: what ListOffsets asks.

Finds segment and place by the time index, then looks into the one batch that decides, record by record.
Always holds: the answer is the first record, by offset, that is at least as late as the moment asked for.
"""

from collections.abc import Sequence
from typing import NamedTuple

from barnabas.log.scan import SEEK_CHUNK_BYTES, headers_from
from barnabas.log.segment import Segment
from barnabas.protocol.record_batch import BatchHeader, decode_records
from barnabas.types import LeaderEpoch, Offset, Position


class TimestampOffset(NamedTuple):
    timestamp_ms: int
    offset: Offset
    leader_epoch: LeaderEpoch  # -1 where the batch has none


def first_at_or_after(segments: Sequence[Segment], timestamp_ms: int, first_offset: Offset) -> TimestampOffset | None:
    """The first record not before a moment; records before `first_offset` do not count."""
    for segment in segments:
        if segment.size_bytes and segment.retention_timestamp_ms() >= timestamp_ms:
            found = _first_in_segment(segment, timestamp_ms, first_offset)
            if found is not None:
                return found  # otherwise the late record lies before `first_offset`
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


def latest(segments: Sequence[Segment]) -> TimestampOffset | None:
    """The first record that has the largest timestamp of all; None where no record has one."""
    chosen = max(segments, key=lambda segment: segment.latest().timestamp_ms)
    timestamp_ms, last_offset = chosen.latest()
    if timestamp_ms < 0:
        return None
    position = chosen.offset_index.lookup(last_offset)
    for found, header in headers_from(chosen.file(), position, chosen.size_bytes, SEEK_CHUNK_BYTES):
        if header.max_timestamp_ms == timestamp_ms:
            return _first_in_batch(chosen, found, header, timestamp_ms, header.base_offset)
    return None

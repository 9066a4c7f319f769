"""From offsets to a range of a file.

Always holds: a range lies in one segment, begins with the batch that holds the offset asked for, and ends below the
limit. No byte of a batch passes through here but, at times, the twelve that tell its size.
Does not know: which offsets may be read; the log checks that first.
"""

from barnabas.log.file_range import FileRange
from barnabas.log.segment import Segment
from barnabas.log.segments import Segments
from barnabas.log.transaction_index import AbortedTransaction
from barnabas.protocol.record_batch import LOG_OVERHEAD_BYTES
from barnabas.types import Offset, Position


class Reader:
    __slots__ = ("_limit_offset", "_limit_position", "_limit_segment", "_segments")

    def __init__(self, segments: Segments) -> None:
        self._segments = segments
        # Where the last limit lies: every reader of a partition has the same one, until the watermark moves.
        self._limit_offset: Offset = -1
        self._limit_segment: Segment | None = None
        self._limit_position: Position = 0

    def forget(self) -> None:
        """The log was truncated: positions may mean something else now."""
        self._limit_segment = None

    def read(
        self, offset: Offset, size_bytes_max: int, end_offset: Offset | None, at_least_one: bool
    ) -> FileRange | None:
        """`end_offset` is None where everything may be read.  # benchmarks/log_read.py"""
        segments = self._segments
        number = segments.number_of(offset)
        segment = segments[number]
        position = segment.position_of(offset)
        while position == segment.size_bytes:  # compaction may have left nothing at the end of a segment
            number += 1
            if number == len(segments):
                return None
            segment = segments[number]
            position = segment.position_of(offset)
        segments.used(segment)
        end = segment.size_bytes if end_offset is None else self._end_position(segment, number, end_offset)
        size_bytes = end - position
        if size_bytes > size_bytes_max:
            first_bytes = first_batch_bytes(segment, position)
            if first_bytes <= size_bytes_max:
                size_bytes = size_bytes_max
            else:
                # Never the beginning of a batch alone: Java's consumer takes it for a record that is too large.
                size_bytes = first_bytes if at_least_one else 0
        if size_bytes <= 0:
            return None
        return FileRange(segment.file(), position, size_bytes, segment.base_offset)

    def _end_position(self, segment: Segment, number: int, end_offset: Offset) -> Position:
        if number + 1 < len(self._segments) and end_offset >= self._segments[number + 1].base_offset:
            return segment.size_bytes
        if self._limit_segment is not segment or self._limit_offset != end_offset:
            self._limit_position = segment.position_of(end_offset)
            self._limit_offset = end_offset
            self._limit_segment = segment
        return self._limit_position

    def aborted_transactions(
        self, offset: Offset, found: FileRange, log_end_offset: Offset
    ) -> list[AbortedTransaction]:
        """Those with records in a range that was read from `offset` on."""
        segments = self._segments
        number = segments.number_of(found.segment_base_offset)
        if number < 0 or segments[number].base_offset != found.segment_base_offset:
            return []  # deleted meanwhile
        end_offset = segments[number].offset_index.offset_beyond(found.position + found.size_bytes)
        if end_offset is None:
            end_offset = log_end_offset if number + 1 == len(segments) else segments[number + 1].base_offset
        aborted: list[AbortedTransaction] = []
        for segment in segments.all[number:]:
            more, is_complete = segment.transaction_index.overlapping(offset, end_offset)
            aborted += more
            if is_complete:
                break
        return aborted


def first_batch_bytes(segment: Segment, position: Position) -> int:
    overhead = segment.file().read(position, LOG_OVERHEAD_BYTES)
    return LOG_OVERHEAD_BYTES + int.from_bytes(overhead[8:12], "big")

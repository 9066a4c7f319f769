"""What compaction may touch, when it is due, and which segments become one.

    0 … clean … first_dirty_offset … cleanable … end_offset … too young, or undecided … active segment

Always holds: nothing at or above the last stable offset, and no active segment, is cleaned. The clean part is rewritten
too, because newer keys of the dirty part make its records obsolete.
Does not know: records, files, who does it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from barnabas.config.topic import TopicConfig
from barnabas.log.offset_index import RELATIVE_OFFSET_MAX
from barnabas.log.segment import Segment
from barnabas.types import Offset


@dataclass(frozen=True, slots=True, kw_only=True)
class Cleanable:
    """What of a log may be compacted now. `end_offset` is where a segment begins that must stay as it is."""

    first_dirty_offset: Offset
    end_offset: Offset
    clean_bytes: int
    dirty_bytes: int
    is_overdue: bool  # a record is older than `max.compaction.lag.ms`

    @property
    def dirty_ratio(self) -> float:
        total = self.clean_bytes + self.dirty_bytes
        return self.dirty_bytes / total if total else 0.0

    def is_due(self, config: TopicConfig) -> bool:
        if self.dirty_bytes == 0:
            return False
        return self.is_overdue or self.dirty_ratio > config.min_cleanable_dirty_ratio


def first_dirty_offset(cleaned_offset: Offset, log_start_offset: Offset, log_end_offset: Offset) -> Offset:
    """Where the dirty part begins; all of the log where what was written down cannot be right."""
    return cleaned_offset if log_start_offset <= cleaned_offset <= log_end_offset else log_start_offset


def cleanable(
    segments: Sequence[Segment],
    config: TopicConfig,
    now_ms: int,
    *,
    first_dirty_offset: Offset,
    last_stable_offset: Offset,
) -> Cleanable:
    limit = min(last_stable_offset, segments[-1].base_offset)
    dirty = segments[_number_of(segments, first_dirty_offset) : -1]
    if config.min_compaction_lag_ms > 0:
        young_ms = now_ms - config.min_compaction_lag_ms
        young = (segment.base_offset for segment in dirty if segment.retention_timestamp_ms() > young_ms)
        limit = min(limit, next(young, limit))
    limit = max(limit, first_dirty_offset)
    end_offset = segments[_number_of(segments, limit)].base_offset  # segments are cleaned whole or not at all
    dirty = [segment for segment in dirty if segment.base_offset < end_offset]
    return Cleanable(
        first_dirty_offset=first_dirty_offset,
        end_offset=end_offset,
        clean_bytes=sum(segment.size_bytes for segment in segments if segment.base_offset < first_dirty_offset),
        dirty_bytes=sum(segment.size_bytes for segment in dirty),
        is_overdue=_is_overdue(dirty, config, now_ms),
    )


def _number_of(segments: Sequence[Segment], offset: Offset) -> int:
    """The last segment that begins at this offset or before; the first where none does."""
    number = len(segments) - 1
    while number and segments[number].base_offset > offset:
        number -= 1
    return number


def _is_overdue(dirty: Sequence[Segment], config: TopicConfig, now_ms: int) -> bool:
    overdue_ms = now_ms - config.max_compaction_lag_ms
    if overdue_ms <= 0:
        return False
    return any(0 < segment.begin_timestamp_ms() < overdue_ms for segment in dirty if segment.size_bytes)


class SegmentSize(NamedTuple):
    """One segment, as far as grouping and another process need to know it."""

    base_offset: Offset
    size_bytes: int
    index_bytes: int
    time_index_bytes: int

    @classmethod
    def of(cls, segment: Segment) -> "SegmentSize":
        return cls(segment.base_offset, segment.size_bytes, *segment.index_bytes())


def group_segments(
    segments: Sequence[SegmentSize], end_offset: Offset, *, segment_bytes: int, segment_index_bytes: int
) -> list[list[SegmentSize]]:
    """Neighbours that are together no larger than one segment may be; each group becomes one segment."""
    groups: list[list[SegmentSize]] = []
    log_bytes = index_bytes = time_index_bytes = 0
    for number, segment in enumerate(segments):
        following = segments[number + 1].base_offset if number + 1 < len(segments) else end_offset
        log_bytes += segment.size_bytes
        index_bytes += segment.index_bytes
        time_index_bytes += segment.time_index_bytes
        fits = (
            bool(groups)
            and log_bytes <= segment_bytes
            and index_bytes <= segment_index_bytes
            and time_index_bytes <= segment_index_bytes
            and (segment.size_bytes == 0 or following - 1 - groups[-1][0].base_offset <= RELATIVE_OFFSET_MAX)
        )
        if fits:
            groups[-1].append(segment)
        else:
            groups.append([segment])
            log_bytes, index_bytes, time_index_bytes = segment[1:]
    return groups

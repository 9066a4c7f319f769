"""Which of the oldest segments must go: by log start, by size, by age.

Always holds: what may go is a prefix of the log, wholly below the high watermark; an empty active segment stays.
Does not know: how segments are deleted.
"""

from collections.abc import Callable, Sequence

from barnabas.config.topic import TopicConfig
from barnabas.log.segment import Segment
from barnabas.types import Offset


def expired_count(
    segments: Sequence[Segment],
    config: TopicConfig,
    now_ms: int,
    *,
    log_start_offset: Offset,
    high_watermark: Offset,
    log_end_offset: Offset,
) -> int:
    """How many of the oldest segments to delete."""
    deletable = _below(segments, high_watermark, log_end_offset)
    ends = [segment.base_offset for segment in segments[1:]]  # the active segment has no next one to compare with

    def before_start(number: int) -> bool:
        return number < len(ends) and ends[number] <= log_start_offset

    count = _leading(0, deletable, before_start)
    if "delete" not in config.cleanup_policy:
        return count
    count = _over_size(segments, config.retention_bytes, count, deletable)
    if config.retention_ms >= 0:
        count = _leading(
            count,
            deletable,
            lambda number: now_ms - segments[number].retention_timestamp_ms() > config.retention_ms,
        )
    return count


def _below(segments: Sequence[Segment], high_watermark: Offset, log_end_offset: Offset) -> int:
    """How many segments lie wholly below the high watermark, an empty active one apart."""
    count = 0
    while count < len(segments):
        is_last = count + 1 == len(segments)
        end_offset = log_end_offset if is_last else segments[count + 1].base_offset
        if high_watermark < end_offset or (is_last and segments[count].size_bytes == 0):
            break
        count += 1
    return count


def _leading(start: int, end: int, breached: Callable[[int], bool]) -> int:
    count = start
    while count < end and breached(count):
        count += 1
    return count


def _over_size(segments: Sequence[Segment], retention_bytes: int, start: int, end: int) -> int:
    if retention_bytes < 0:
        return start
    surplus = sum(segment.size_bytes for segment in segments[start:]) - retention_bytes
    count = start
    while count < end and surplus >= segments[count].size_bytes:
        surplus -= segments[count].size_bytes
        count += 1
    return count

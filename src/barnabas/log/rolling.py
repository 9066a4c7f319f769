"""When a segment has no room for another batch: by its size, its age, the reach of its offsets, or its indexes.

Does not know: which segment is active, or how the next one is begun.
"""

from barnabas.log.append import AppendRules
from barnabas.log.segment import Segment
from barnabas.protocol.record_batch import INT32_MAX
from barnabas.types import Offset


def has_room(segment: Segment, rules: AppendRules, size_bytes: int, last_offset: Offset, age_ms: int) -> bool:
    return (
        segment.size_bytes + size_bytes <= rules.segment_bytes
        and age_ms <= rules.segment_ms - segment.roll_jitter_ms
        and last_offset - segment.base_offset <= INT32_MAX
        and segment.has_index_room(size_bytes)
    )

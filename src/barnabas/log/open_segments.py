"""How many old segments may be open at once, over all logs of a broker.

Active segments stay open while they are written; a read of an older one opens it, and the one that was read longest
ago is let go. Always holds: at most `count_max` old segments hold descriptors through here. Ranges in flight keep
theirs. Does not know: which log a segment belongs to.
"""

from barnabas.log.segment import Segment

# Each takes up to four descriptors: log, offset index, time index, transaction index.
OPEN_SEGMENTS_MAX = 1_000


class OpenSegments:
    __slots__ = ("_segments", "count_max")

    def __init__(self, count_max: int = OPEN_SEGMENTS_MAX) -> None:
        assert count_max > 0
        self.count_max = count_max
        self._segments: dict[Segment, None] = {}  # the one read longest ago comes first

    def __len__(self) -> int:
        return len(self._segments)

    def used(self, segment: Segment) -> None:
        segments = self._segments
        if segment in segments:
            del segments[segment]
        elif len(segments) >= self.count_max:
            oldest = next(iter(segments))
            del segments[oldest]
            oldest.release()
        segments[segment] = None

    def forget(self, segment: Segment) -> None:
        """The segment is active again, or gone."""
        self._segments.pop(segment, None)

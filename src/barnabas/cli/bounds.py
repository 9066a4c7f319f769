"""From where to where records are read, as people write it, and which offsets that means.

    beginning, end                              the first record, behind the last one
    4711                                        this offset
    -10                                         ten before the end
    2026-01-31T12:00, @1767225600000            the first record since that moment
    2h, PT30M                                   the first record of the last two hours, of the last 30 minutes

`Bound` is pure; `offsets` asks brokers. ValueError, with what is allowed, on anything else.
"""

import re
import time
from collections.abc import Mapping
from dataclasses import dataclass

from barnabas.cli.moments import moment_before_ms, moment_ms
from barnabas.client.consuming.consumer import Consumer
from barnabas.types import Offset, TopicPartition

WORDS = {"beginning": "beginning", "earliest": "beginning", "end": "end", "latest": "end"}
_STRETCH = re.compile(r"P.*|(\d+(\.\d+)?(ms|w|d|h|m|s))+", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """Exactly one of these."""

    word: str | None = None
    offset: Offset | None = None
    before_end: int | None = None
    timestamp_ms: int | None = None

    def within(self, start: Offset, end: Offset, since: Offset | None) -> Offset:
        """The offset in a partition; `since` is that of the first record at the moment, None where there is none."""
        if self.word is not None:
            return start if self.word == "beginning" else end
        if self.timestamp_ms is not None:
            return end if since is None else since
        return self.offset if self.offset is not None else max(end - (self.before_end or 0), start)


def parsed(text: str) -> Bound:
    if text in WORDS:
        return Bound(word=WORDS[text])
    if text.isdigit():
        return Bound(offset=int(text))
    if text.startswith("-") and text[1:].isdigit():
        return Bound(before_end=int(text[1:]))
    if _STRETCH.fullmatch(text):
        return Bound(timestamp_ms=moment_before_ms(int(time.time() * 1000), text))
    try:
        return Bound(timestamp_ms=moment_ms(text))
    except ValueError:
        words = "beginning, end, an offset, -10, 2026-01-31T12:00, @ and milliseconds, or 2h are wanted"
        raise ValueError(f"{text!r} says not where: {words}") from None


async def offsets(
    consumer: Consumer, bound: Bound, starts: Mapping[TopicPartition, Offset], ends: Mapping[TopicPartition, Offset]
) -> dict[TopicPartition, Offset]:
    since = {}
    if bound.timestamp_ms is not None:
        moments = dict.fromkeys(ends, bound.timestamp_ms)
        found = await consumer.offsets_for_times(moments)
        since = {key: each.offset for key, each in found.items() if each is not None}
    return {key: bound.within(starts[key], ends[key], since.get(key)) for key in ends}

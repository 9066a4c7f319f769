"""How far groups have read, and where a reset would put them.

`Reset` says what is wanted; `settled` decides for one partition and is pure. Offsets that do not exist become the
nearest one that does, as in Kafka's tool. Does not know: how it is shown, whether it is carried out.
"""

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Self

from barnabas.cli.moments import moment_before_ms, moment_ms
from barnabas.cli.text import CommandFailed, Exit
from barnabas.client.admin import Admin
from barnabas.client.admin.groups import GroupDescription
from barnabas.client.admin.offsets import OffsetSpec
from barnabas.client.offsets import OffsetAndMetadata
from barnabas.types import Offset, TopicPartition

CHOICES = "--to-earliest, --to-latest, --to-current, --to-offset, --shift-by, --to-datetime or --by-duration"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reset:
    """Exactly one of these is wanted."""

    earliest: bool = False
    latest: bool = False
    current: bool = False
    offset: Offset | None = None
    shift: int | None = None
    timestamp_ms: int | None = None

    @classmethod
    def of(cls, *, moment: str | None = None, duration: str | None = None, **given: Any) -> Self:
        """CommandFailed where not exactly one is given, or where a time cannot be read."""
        if sum(value is not None and value is not False for value in (moment, duration, *given.values())) != 1:
            raise CommandFailed(f"say where to, by one of {CHOICES}", Exit.USAGE)
        try:
            if moment is not None:
                return cls(timestamp_ms=moment_ms(moment))
            if duration is not None:
                return cls(timestamp_ms=moment_before_ms(int(time.time() * 1000), duration))
        except ValueError as error:
            raise CommandFailed(str(error), Exit.USAGE) from None
        return cls(**given)


def settled(reset: Reset, current: Offset | None, start: Offset, end: Offset, since: Offset) -> Offset:
    """`since` is the first record at the reset's moment, or -1 where all are earlier."""
    if reset.earliest:
        return start
    if reset.latest:
        return end
    if reset.timestamp_ms is not None:
        return since if since >= 0 else end
    wanted = reset.offset if reset.offset is not None else (end if current is None else current) + (reset.shift or 0)
    return min(max(wanted, start), end)


async def new_offsets(
    admin: Admin,
    reset: Reset,
    partitions: Iterable[TopicPartition],
    committed: Mapping[TopicPartition, OffsetAndMetadata | None],
) -> list[dict[str, Any]]:
    keys = list(partitions)
    if reset.shift is not None and (unknown := [str(key) for key in keys if committed.get(key) is None]):
        raise CommandFailed(f"there is no offset to shift for {', '.join(unknown)}", Exit.NOT_FOUND)
    starts = (await admin.list_offsets(dict.fromkeys(keys, OffsetSpec.EARLIEST))).unwrap()
    ends = (await admin.list_offsets(dict.fromkeys(keys, OffsetSpec.LATEST))).unwrap()
    since = {}
    if reset.timestamp_ms is not None:
        since = (await admin.list_offsets(dict.fromkeys(keys, reset.timestamp_ms))).unwrap()
    rows = []
    for key in keys:
        known = committed.get(key)
        current = None if known is None else known.offset
        first = since[key].offset if key in since else -1
        rows.append(
            {
                "topic": key.topic,
                "partition": key.partition,
                "current_offset": current,
                "new_offset": settled(reset, current, starts[key].offset, ends[key].offset, first),
            }
        )
    return rows


async def lags(admin: Admin, group: GroupDescription) -> list[dict[str, Any]]:
    """Each partition that the group has an offset of, or that a member reads, in order."""
    committed = await admin.list_consumer_group_offsets(group.group_id)
    readers = {key: member for member in group.members for key in member.assignment}
    keys = sorted({*committed, *readers})
    ends = await admin.list_offsets(dict.fromkeys(keys, OffsetSpec.LATEST)) if keys else None
    rows = []
    for key in keys:
        known, member = committed.get(key), readers.get(key)
        end = ends.done[key].offset if ends is not None and key in ends.done else None  # its topic may be gone
        current = None if known is None else known.offset
        rows.append(
            {
                "topic": key.topic,
                "partition": key.partition,
                "current_offset": current,
                "end_offset": end,
                "lag": None if current is None or end is None else max(end - current, 0),
                "metadata": "" if known is None else known.metadata,
                "member_id": None if member is None else member.member_id,
                "host": None if member is None else member.host,
                "client_id": None if member is None else member.client_id,
            }
        )
    return rows

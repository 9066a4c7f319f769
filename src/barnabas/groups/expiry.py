"""Offsets that nobody needs any more, and groups that hold nothing.

An offset ages from the moment at which its group lost its last member, or from its commit where nobody is subscribed
to its topic (KIP-211, KIP-496). What a member is subscribed to never ages. A group without members and offsets goes.

Always holds: a round looks at each group once, a slice at a time, so that a shard of many thousands does not stop the
broker.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.groups.group import Group
from barnabas.groups.offsets import NO_EXPIRY, CommittedOffset, tombstone
from barnabas.groups.outcome import Moment, Outcome
from barnabas.groups.records import GroupRecord
from barnabas.groups.timers import TimerKey, TimerKind

if TYPE_CHECKING:
    from barnabas.groups.shard import GroupShard

SLICE_GROUPS = 200  # about a millisecond of work
_TIMER = TimerKey(TimerKind.EXPIRY)


class Expiry:
    def __init__(self, shard: GroupShard) -> None:
        self._shard = shard
        self._remaining: list[str] = []  # groups that this round has yet to look at, the next one last

    def schedule(self, now: Moment) -> None:
        surroundings = self._shard.surroundings
        delay_ms = surroundings.settings.offsets_retention_check_interval_ms
        surroundings.timers.set(_TIMER, now.monotonic_ms + delay_ms)

    def run(self, now: Moment) -> Outcome:
        if not self._remaining:
            self._remaining = list(reversed(self._shard.groups))
        records: list[GroupRecord] = []
        for _ in range(min(SLICE_GROUPS, len(self._remaining))):
            group = self._shard.groups.get(self._remaining.pop())
            if group is not None:
                records += self._expired(group, now.wall_ms)
        if self._remaining:
            self._shard.surroundings.timers.set(_TIMER, now.monotonic_ms)
        else:
            self.schedule(now)
        return Outcome(records, atomic=False)

    def _expired(self, group: Group, wall_ms: int) -> list[GroupRecord]:
        offsets = self._shard.offsets
        records = []
        remain = offsets.has_open_transaction(group.group_id)
        for topic, partitions in offsets.of_group(group.group_id).items():
            for partition, committed in partitions.items():
                if self._is_expired(group, topic, partition, committed, wall_ms):
                    records.append(tombstone(group.group_id, topic, partition))
                else:
                    remain = True
        if group.is_empty and not remain:
            records += group.tombstones()
        return records

    def _is_expired(self, group: Group, topic: str, partition: int, committed: CommittedOffset, wall_ms: int) -> bool:
        age_from_ms = group.offsets_age_from_ms(committed.commit_timestamp_ms)
        if age_from_ms is None or group.is_subscribed(topic):
            return False
        if committed.expire_timestamp_ms != NO_EXPIRY:
            old_enough = wall_ms >= committed.expire_timestamp_ms
        else:
            old_enough = wall_ms - age_from_ms >= self._shard.surroundings.settings.offsets_retention_ms
        return old_enough and not self._shard.offsets.is_unstable(group.group_id, topic, partition)

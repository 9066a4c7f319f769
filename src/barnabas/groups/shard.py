"""All groups of one partition of `__consumer_offsets`, and their committed offsets.

    outcome = shard.join(request, client, pending, now)       decides
    append outcome.records; shard.apply(record, offset) each  changes
    give outcome.answers once that is committed               answers

Always holds: between a decision and its `apply` there is no other decision. Replay is `apply` of the whole log, then
`loaded`. Groups and offsets are in the order of their making.
Does not know: the log, whether it is committed, who listens.
"""

from collections.abc import Callable, Sequence

from barnabas.errors import ErrorCode
from barnabas.groups.group import Group, Surroundings
from barnabas.groups.outcome import NOTHING, Moment, Outcome, Pending
from barnabas.groups.records import GroupRecord
from barnabas.groups.timers import TimerKey

Applier = Callable[["GroupShard", GroupRecord], None]


class GroupShard:
    def __init__(self, surroundings: Surroundings) -> None:
        self.surroundings = surroundings
        self.groups: dict[str, Group] = {}

    # Changing

    def apply(self, record: GroupRecord, offset: int, producer_id: int = -1) -> None:
        """The only way in which anything durable changes."""

    def loaded(self, now: Moment) -> Sequence[Outcome]:
        return [outcome for group in self.groups.values() if (outcome := group.loaded(now)) is not NOTHING]

    def unload(self) -> Sequence[Pending]:
        """Who waits here and must go elsewhere."""
        return [pending for group in self.groups.values() for pending in group.unload()]

    def append_failed(self, outcome: Outcome, error: ErrorCode, now: Moment) -> Outcome:
        group = None if outcome.group_id is None else self.groups.get(outcome.group_id)
        return NOTHING if group is None else group.append_failed(outcome, error, now)

    # Time

    def next_deadline_ms(self) -> int | None:
        """On the monotonic clock."""
        return self.surroundings.timers.next_deadline_ms()

    def tick(self, now: Moment) -> Outcome | None:
        """What one timer that is due brings about; None where none is due. Ask until then."""
        timer = self.surroundings.timers.due(now.monotonic_ms)
        return None if timer is None else self._expired(timer, now)

    def _expired(self, timer: TimerKey, now: Moment) -> Outcome:
        group = self.groups.get(timer.group_id)
        return NOTHING if group is None else group.expired(timer, now)

"""A consumer group (KIP-848): its members send heartbeats, and the coordinator assigns.

    Empty ──member joins──▶ Assigning ──target assignment made──▶ Reconciling ──all members have it──▶ Stable

The state follows from the epochs in `consumer_state`; nothing moves it. Requests are decided elsewhere: heartbeats in
`consumer_heartbeat`, departures in `consumer_departure`, members that still speak the classic protocol in
`classic_in_consumer`, the change of protocol in `migration`.

Always holds: what is durable is in `state` and changes in `apply` alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from barnabas.errors import ErrorCode
from barnabas.groups import classic_in_consumer, consumer_departure, consumer_records, expression_refresh
from barnabas.groups.consumer_member import LEFT, NO_PARTITIONS, ConsumerMember
from barnabas.groups.consumer_round import gives_up_late
from barnabas.groups.consumer_settings import ConsumerSettings
from barnabas.groups.consumer_state import NO_EPOCH, ConsumerState, ResolvedExpression
from barnabas.groups.expression_search import ExpressionSearch
from barnabas.groups.group import Group, GroupType, Surroundings
from barnabas.groups.outcome import NOTHING, Client, Moment, Outcome, Pending
from barnabas.groups.records import (
    CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT,
    CONSUMER_GROUP_MEMBER_METADATA,
    CONSUMER_GROUP_METADATA,
    CONSUMER_GROUP_PARTITION_METADATA,
    CONSUMER_GROUP_REGULAR_EXPRESSION,
    CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER,
    CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA,
    GroupRecord,
)
from barnabas.groups.timers import TimerKey, TimerKind
from barnabas.protocol.messages.heartbeat import HeartbeatRequest
from barnabas.protocol.messages.join_group import JoinGroupRequest
from barnabas.protocol.messages.leave_group import LeaveGroupRequest
from barnabas.protocol.messages.sync_group import SyncGroupRequest
from barnabas.types import Uuid

if TYPE_CHECKING:
    from barnabas.groups.shard import GroupShard

PROTOCOL_TYPE = "consumer"
MEMBER_EPOCH_COMMIT_VERSION = 9  # of OffsetCommit: the first that consumer groups can use
NEVER_MS = -(1 << 62)
RETRY_MS = 1_000  # after which a timer runs again whose records could not be written
MEMBER_TIMERS = (TimerKind.SESSION, TimerKind.REBALANCE, TimerKind.JOIN, TimerKind.SYNC)


class ConsumerGroup(Group):
    __slots__ = ("metadata_stale", "search", "search_again", "searched_ms", "sessions_started", "state")
    TYPE = GroupType.CONSUMER

    def __init__(self, group_id: str, surroundings: Surroundings) -> None:
        super().__init__(group_id, surroundings)
        self.state = ConsumerState()
        self.metadata_stale = True  # a subscribed topic may look different from what the metadata hash says
        self.sessions_started = False  # until every member has a deadline: false after a change of protocol
        self.search: ExpressionSearch | None = None  # under way
        self.search_again = False  # when that one is over
        self.searched_ms = NEVER_MS  # when the last one was over, on the monotonic clock

    # What it is

    @property
    def settings(self) -> ConsumerSettings:
        return self.surroundings.consumer_settings(self.group_id)

    @property
    def state_name(self) -> str:
        state = self.state
        if not state.members:
            return "Empty"
        if state.group_epoch > state.assignment_epoch:
            return "Assigning"
        reconciled = all(member.is_reconciled_to(state.assignment_epoch) for member in state.members.values())
        return "Stable" if reconciled else "Reconciling"

    @property
    def protocol_type(self) -> str:
        return PROTOCOL_TYPE

    @property
    def is_empty(self) -> bool:
        return not self.state.members

    def describe(self) -> ErrorCode:
        return ErrorCode.GROUP_ID_NOT_FOUND

    # Requests of the classic protocol

    def join(self, request: JoinGroupRequest, client: Client, pending: Pending, now: Moment) -> Outcome:
        return classic_in_consumer.join(self, request, client, pending, now)

    def sync(self, request: SyncGroupRequest, client: Client, pending: Pending, now: Moment) -> Outcome:
        return classic_in_consumer.sync(self, request, pending, now)

    def heartbeat(self, request: HeartbeatRequest, client: Client, pending: Pending, now: Moment) -> Outcome:
        return classic_in_consumer.heartbeat(self, request, pending, now)

    def leave(self, request: LeaveGroupRequest, client: Client, pending: Pending, now: Moment) -> Outcome:
        return classic_in_consumer.leave(self, request, pending, now)

    # Committed offsets

    def check_offset_commit(
        self, *, member_id: str, instance_id: str | None, epoch: int, transactional: bool, api_version: int
    ) -> ErrorCode:
        if epoch < 0 and self.is_empty:
            return ErrorCode.NONE  # an administrator, or someone who only keeps offsets here
        if transactional and epoch == -1 and not member_id and instance_id is None:
            return ErrorCode.NONE  # a producer that does not say for whom it commits
        member = self.state.members.get(member_id)
        if member is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if not transactional and member.classic is None and api_version < MEMBER_EPOCH_COMMIT_VERSION:
            return ErrorCode.UNSUPPORTED_VERSION
        is_behind_or_equal = epoch == member.member_epoch or 0 <= epoch < member.member_epoch
        return ErrorCode.NONE if is_behind_or_equal else _stale(member)

    def check_partition_commit(self, *, member_id: str, epoch: int, topic_id: Uuid, partition: int) -> ErrorCode:
        """A member that is behind may commit what it has had since then or longer: nobody else can (KIP-1251)."""
        member = self.state.members.get(member_id)
        if member is None or epoch == member.member_epoch:
            return ErrorCode.NONE
        since = member.assigned.get(topic_id, {}).get(partition)
        if since is None:
            since = member.revoking.get(topic_id, {}).get(partition)
        return _stale(member) if since is None or epoch < since else ErrorCode.NONE

    def offsets_committed(self, member_id: str, now: Moment) -> None:
        """Only heartbeats keep a session of this kind of group."""

    def check_offset_fetch(self, *, member_id: str | None, epoch: int) -> ErrorCode:
        if member_id is None and epoch < 0:
            return ErrorCode.NONE
        member = self.state.members.get(member_id or "")
        if member is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        return ErrorCode.NONE if epoch == member.member_epoch else _stale(member)

    def check_offset_delete(self) -> ErrorCode:
        return ErrorCode.NONE

    def is_subscribed(self, topic: str) -> bool:
        return topic in self.state.topic_counts

    def offsets_age_from_ms(self, commit_timestamp_ms: int) -> int | None:
        return commit_timestamp_ms

    # The end

    def check_delete(self) -> ErrorCode:
        return ErrorCode.NONE if self.is_empty else ErrorCode.NON_EMPTY_GROUP

    def tombstones(self) -> Sequence[GroupRecord]:
        return consumer_records.removed_group(self.group_id, self.state.members, self.state.resolved)

    # Time

    def keep_session(self, member: ConsumerMember, now: Moment) -> None:
        classic = member.classic
        timeout_ms = self.settings.session_timeout_ms if classic is None else classic.session_timeout_ms
        self.set_timer(TimerKind.SESSION, member.member_id, timeout_ms, now)

    def watch_revocation(self, member: ConsumerMember, now: Moment) -> None:
        if gives_up_late(member):
            self.set_timer(TimerKind.REBALANCE, member.member_id, member.rebalance_timeout_ms, now)
        else:
            self.cancel_timer(TimerKind.REBALANCE, member.member_id)

    def start_sessions(self, now: Moment) -> None:
        """Of all members that have none yet."""
        if self.sessions_started:
            return
        self.sessions_started = True
        for member in self.state.members.values():
            if self.surroundings.timers.deadline_ms(self.timer(TimerKind.SESSION, member.member_id)) is None:
                self.keep_session(member, now)
            if gives_up_late(member):
                self.watch_revocation(member, now)

    def topics_changed(self, names: Sequence[str], *, names_changed: bool, now: Moment) -> None:
        """Topics were changed, created or deleted; in the last two cases expressions may match others than before."""
        if any(name in self.state.topic_counts for name in names):
            self.metadata_stale = True
        if names_changed and self.state.expressions:
            expression_refresh.schedule(self, now)

    def timer(self, kind: TimerKind, member_id: str = "") -> TimerKey:
        return TimerKey(kind, self.group_id, member_id)

    def set_timer(self, kind: TimerKind, member_id: str, delay_ms: int, now: Moment) -> None:
        self.surroundings.timers.set(self.timer(kind, member_id), now.monotonic_ms + delay_ms)

    def set_timer_once(self, kind: TimerKind, member_id: str, delay_ms: int, now: Moment) -> None:
        if self.surroundings.timers.deadline_ms(self.timer(kind, member_id)) is None:
            self.set_timer(kind, member_id, delay_ms, now)

    def cancel_timer(self, kind: TimerKind, member_id: str) -> None:
        self.surroundings.timers.cancel(self.timer(kind, member_id))

    def expired(self, timer: TimerKey, now: Moment) -> Outcome:
        if timer.kind is TimerKind.REFRESH:
            return expression_refresh.run(self, now)
        member = self.state.members.get(timer.member_id)
        if member is None or (timer.kind is TimerKind.REBALANCE and not gives_up_late(member)):
            return NOTHING
        return consumer_departure.fence(self, [member], now)

    def loaded(self, now: Moment) -> Outcome:
        self.start_sessions(now)
        if self.state.expressions:
            expression_refresh.schedule(self, now)
        return NOTHING

    def unload(self) -> Sequence[Pending]:
        for member_id in self.state.members:
            self._cancel_timers(member_id)
        self.cancel_timer(TimerKind.REFRESH, "")
        self.search = None
        return ()

    def append_failed(self, outcome: Outcome, error: ErrorCode, now: Moment) -> Outcome:
        """What was decided did not happen. Members ask again by themselves; a timer that is over is tried again."""
        self.metadata_stale = True
        for member in self.state.members.values():
            self.set_timer_once(TimerKind.SESSION, member.member_id, RETRY_MS, now)
            if gives_up_late(member):
                self.set_timer_once(TimerKind.REBALANCE, member.member_id, RETRY_MS, now)
        if self.state.expressions:
            expression_refresh.schedule(self, now)
        return NOTHING

    def _cancel_timers(self, member_id: str) -> None:
        for kind in MEMBER_TIMERS:
            self.cancel_timer(kind, member_id)

    # The log

    def apply(self, record: GroupRecord) -> None:
        key: Any = record.key
        value: Any = record.value
        state = self.state
        match record.type:
            case t if t == CONSUMER_GROUP_METADATA:
                state.group_epoch, state.metadata_hash = value.epoch, value.metadata_hash
            case t if t == CONSUMER_GROUP_PARTITION_METADATA:
                state.has_partition_metadata = value is not None
            case t if t == CONSUMER_GROUP_MEMBER_METADATA:
                self._apply_member(key.member_id, value)
            case t if t == CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA:
                state.assignment_epoch = NO_EPOCH if value is None else value.assignment_epoch
                state.assignment_timestamp_ms = 0 if value is None else value.assignment_timestamp
            case t if t == CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER:
                if value is None:
                    state.targets.pop(key.member_id, None)
                else:
                    partitions = {each.topic_id: tuple(sorted(each.partitions)) for each in value.topic_partitions}
                    state.targets[key.member_id] = partitions
            case t if t == CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT:
                self._apply_current(key.member_id, value)
            case t if t == CONSUMER_GROUP_REGULAR_EXPRESSION:
                resolved = None if value is None else ResolvedExpression(frozenset(value.topics), *_moment(value))
                state.resolve(key.regular_expression, resolved)

    def _apply_member(self, member_id: str, value: Any) -> None:
        if value is not None:
            member = self.state.members.get(member_id) or ConsumerMember(member_id)
            self.state.put_member(member.with_metadata(value))
        else:
            self.state.remove_member(member_id)
            self._cancel_timers(member_id)

    def _apply_current(self, member_id: str, value: Any) -> None:
        member = self.state.members.get(member_id)
        if value is not None:
            self.state.put_member((member or ConsumerMember(member_id)).with_current(value))
        elif member is not None:
            self.state.put_member(
                member._replace(
                    member_epoch=LEFT, previous_member_epoch=LEFT, assigned=NO_PARTITIONS, revoking=NO_PARTITIONS
                )
            )


def apply(shard: GroupShard, record: GroupRecord) -> None:
    group_id: str = record.key.group_id  # type: ignore[attr-defined]
    group = shard.groups.get(group_id)
    if not isinstance(group, ConsumerGroup):
        if record.value is None:
            return  # of a group that is gone, or that is a classic one now
        group = ConsumerGroup(group_id, shard.surroundings)
        shard.put(group)
    if record.type == CONSUMER_GROUP_METADATA and record.value is None:
        shard.remove(group)
    else:
        group.apply(record)


def _moment(value: Any) -> tuple[int, int]:
    return value.version, value.timestamp


def _stale(member: ConsumerMember) -> ErrorCode:
    return ErrorCode.STALE_MEMBER_EPOCH if member.classic is None else ErrorCode.ILLEGAL_GENERATION

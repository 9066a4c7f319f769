"""A group of the classic protocol: members join, the leader assigns, everyone fetches its part.

    Empty ──join──▶ PreparingRebalance ──all joined, or time is up──▶ CompletingRebalance
      ▲                 ▲    │ nobody left                                    │ the leader's SyncGroup
      └─────────────────│────┘                                                ▼
                        └───────── join, leave, silence ──────────────────  Stable

Always holds: at most one rebalance is under way; a generation has one leader, one protocol that all its members
follow, and, once stable, one assignment, which is in the log before anyone hears of it. Generations rise.
What members, protocols and assignments mean is the business of clients: for Connect as for consumers.
Durable is what the log says (`adopt`): the last stable generation. A rebalance under way is lost with the coordinator,
and members begin it anew. Decisions about JoinGroup are in `classic_join`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from barnabas.errors import ErrorCode
from barnabas.groups import classic_join
from barnabas.groups.classic_member import ClassicMember
from barnabas.groups.classic_state import (
    COMPLETING_REBALANCE,
    EMPTY,
    NO_MEMBER_ID,
    PREPARING_REBALANCE,
    STABLE,
    ClassicState,
    join_failed,
)
from barnabas.groups.group import Group, GroupType, Surroundings
from barnabas.groups.membership import Membership
from barnabas.groups.outcome import Client, Draft, Moment, Outcome, Pending, answer
from barnabas.groups.records import GroupRecord
from barnabas.groups.subscription import subscribed_topics
from barnabas.groups.timers import TimerKey, TimerKind
from barnabas.protocol.messages.describe_groups import DescribedGroup
from barnabas.protocol.messages.group_metadata_key import GroupMetadataKey
from barnabas.protocol.messages.group_metadata_value import GroupMetadataValue
from barnabas.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from barnabas.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse, JoinGroupResponseMember
from barnabas.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity, MemberResponse
from barnabas.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse

if TYPE_CHECKING:
    from barnabas.groups.shard import GroupShard

CONSUMER_PROTOCOL_TYPE = "consumer"
VALUE_VERSION = 3  # what Kafka 4.3 writes


class ClassicGroup(Group):
    __slots__ = (
        "_initial",
        "_initial_delay_ms",
        "_initial_remaining_ms",
        "_subscribed",
        "generation",
        "grew",
        "members",
        "protocol",
        "state",
        "state_since_ms",
        "type_name",
    )
    TYPE = GroupType.CLASSIC

    def __init__(self, group_id: str, surroundings: Surroundings) -> None:
        super().__init__(group_id, surroundings)
        self.state = EMPTY
        self.state_since_ms: int | None = None  # wall clock; None where the log does not say
        self.generation = 0
        self.type_name: str | None = None  # the protocol type; None where nobody has ever joined
        self.protocol: str | None = None  # of this generation
        self.members = Membership()
        self.grew = False  # since the initial delay began
        self._initial = False  # the rebalance under way began with an empty group: it ends by its delay alone
        self._initial_delay_ms = 0
        self._initial_remaining_ms = 0  # by which the delay may still be extended
        self._subscribed: frozenset[str] | None = None  # topics; None: not known yet, or they cannot be known

    # What it is

    @property
    def state_name(self) -> str:
        return self.state.value

    @property
    def protocol_type(self) -> str:
        return self.type_name or ""

    @property
    def is_empty(self) -> bool:
        return self.state is EMPTY

    @property
    def uses_consumer_protocol(self) -> bool:
        return self.type_name == CONSUMER_PROTOCOL_TYPE

    def describe(self) -> DescribedGroup:
        protocol = self.protocol if self.state is STABLE else None
        return DescribedGroup(
            group_id=self.group_id,
            group_state=self.state_name,
            protocol_type=self.protocol_type,
            protocol_data=protocol or "",
            members=[member.describe(protocol) for member in self.members],
        )

    def supports(self, protocol_type: str, names: Sequence[str]) -> bool:
        """Whether someone with these protocols may join those who are there."""
        if self.state is EMPTY:
            return bool(protocol_type) and bool(names)
        return self.type_name == protocol_type and self.members.share_one_of(names)

    # Members

    def remove(self, member_id: str) -> None:
        self.members.remove(member_id)
        self.cancel_session(member_id)

    def _discard(self, member: ClassicMember, draft: Draft) -> None:
        """Whoever still waits under the id must come back without it."""
        self.members.answer_join(member, join_failed(NO_MEMBER_ID, ErrorCode.UNKNOWN_MEMBER_ID), draft)
        if member.syncing is not None:
            draft.answer(member.syncing, SyncGroupResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID))
            member.syncing = None
        self.remove(member.member_id)

    def keep_session(self, member: ClassicMember, now: Moment, timeout_ms: int | None = None) -> None:
        timeout_ms = member.session_timeout_ms if timeout_ms is None else timeout_ms
        self._set_timer(TimerKind.SESSION, now, timeout_ms, member.member_id)

    def cancel_session(self, member_id: str) -> None:
        self.surroundings.timers.cancel(self._timer(TimerKind.SESSION, member_id))

    def expect(self, member_id: str, session_timeout_ms: int, now: Moment) -> None:
        self.members.expected[member_id] = None
        self._set_timer(TimerKind.SESSION, now, session_timeout_ms, member_id)

    # The rebalance

    def rebalance_or_complete(self, draft: Draft, now: Moment) -> None:
        if self.state is PREPARING_REBALANCE:
            self.maybe_complete_join(draft, now)
        else:
            self.prepare_rebalance(draft, now)

    def prepare_rebalance(self, draft: Draft, now: Moment) -> None:
        if self.state is COMPLETING_REBALANCE:
            self._answer_syncs(draft, SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS), now)
            for member in self.members:
                member.assignment = b""
        self.members.unsynced.clear()
        self._cancel(TimerKind.SYNC)
        self._initial = self.state is EMPTY
        self._move(PREPARING_REBALANCE, now)
        if self._initial:
            # More members are probably on their way: one rebalance for all of them is cheaper than one each.
            self._initial_delay_ms = self.surroundings.settings.initial_rebalance_delay_ms
            self._initial_remaining_ms = max(self.members.rebalance_timeout_ms - self._initial_delay_ms, 0)
            self.grew = False
            self._set_timer(TimerKind.JOIN, now, self._initial_delay_ms)
        elif self.members.all_joined:
            self._complete_join(draft, now)
        else:
            self._set_timer(TimerKind.JOIN, now, self.members.rebalance_timeout_ms)

    def maybe_complete_join(self, draft: Draft, now: Moment) -> None:
        if self.state is PREPARING_REBALANCE and not self._initial and self.members.all_joined:
            self._complete_join(draft, now)

    def _initial_delay_over(self, draft: Draft, now: Moment) -> None:
        if not self.grew or self._initial_remaining_ms == 0:
            self._complete_join(draft, now)
            return
        self.grew = False
        delay_ms = min(self.surroundings.settings.initial_rebalance_delay_ms, self._initial_remaining_ms)
        self._initial_remaining_ms = max(self._initial_remaining_ms - self._initial_delay_ms, 0)
        self._initial_delay_ms = delay_ms
        self._set_timer(TimerKind.JOIN, now, delay_ms)

    def _complete_join(self, draft: Draft, now: Moment) -> None:
        """The next generation begins, of those who have joined. Static members belong to it though they be away."""
        self._cancel(TimerKind.JOIN)
        for member in [each for each in self.members if each.joining is None and not each.is_static]:
            self._discard(member, draft)
        if not self.members:
            self._become_empty(draft, now)
        elif self.members.elect_joined_leader():
            self._begin_generation(draft, now)
        else:
            # Only static members are left and none of them is here: their sessions will end one by one.
            self._set_timer(TimerKind.JOIN, now, self.members.rebalance_timeout_ms)

    def _become_empty(self, draft: Draft, now: Moment) -> None:
        self.generation += 1
        self.protocol = None
        self._initial = False
        self._subscribed = None
        self._move(EMPTY, now)
        draft.records.append(self.record({}))

    def _begin_generation(self, draft: Draft, now: Moment) -> None:
        self.generation += 1
        self.protocol = self.members.select_protocol()
        self._initial = False
        self._subscribed = None
        self._move(COMPLETING_REBALANCE, now)
        for member in self.members:
            self.members.answer_join(member, self.joined(member), draft)
            member.is_new = False
            self.keep_session(member, now)
            self.members.unsynced[member.member_id] = None
        self._set_timer(TimerKind.SYNC, now, self.members.rebalance_timeout_ms)

    def joined(
        self,
        member: ClassicMember,
        members: Iterable[ClassicMember] | None = None,
        leader: str | None = None,
        *,
        skip_assignment: bool = False,
    ) -> JoinGroupResponse:
        """The answer of this generation, of these members if they are given. Only the leader is told of the others."""
        leader = leader or self.members.leader or ""
        is_leader = member.member_id == leader
        return JoinGroupResponse(
            generation_id=self.generation,
            protocol_type=self.type_name,
            protocol_name=self.protocol,
            leader=leader,
            member_id=member.member_id,
            members=self._member_list(self.members if members is None else members) if is_leader else [],
            skip_assignment=skip_assignment and is_leader,
        )

    def _member_list(self, members: Iterable[ClassicMember]) -> list[JoinGroupResponseMember]:
        protocol = self.protocol
        assert protocol is not None
        return [
            JoinGroupResponseMember(
                member_id=member.member_id, group_instance_id=member.instance_id, metadata=member.metadata(protocol)
            )
            for member in members
        ]

    # Requests

    def join(self, request: JoinGroupRequest, client: Client, pending: Pending, now: Moment) -> Outcome:
        return classic_join.decide(self, request, client, pending, now)

    def sync(self, request: SyncGroupRequest, client: Client, pending: Pending, now: Moment) -> Outcome:
        error = self._check_sync(request)
        if error != ErrorCode.NONE:
            return answer(pending, SyncGroupResponse(error_code=error))
        member = self.members[request.member_id]
        self.members.unsynced.pop(member.member_id, None)
        if not self.members.unsynced:
            self._cancel(TimerKind.SYNC)
        if self.state is STABLE:
            return answer(pending, self._synced(member.assignment))
        draft = Draft()
        if member.syncing is not None:
            draft.answer(member.syncing, SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS))
        member.syncing = pending
        if member.member_id == self.members.leader:
            self._assign({each.member_id: each.assignment for each in request.assignments}, draft, now)
        return draft.outcome(self.group_id)

    def _check_sync(self, request: SyncGroupRequest) -> ErrorCode:
        if self.state is EMPTY:
            return ErrorCode.UNKNOWN_MEMBER_ID
        error = self.members.check(request.member_id, request.group_instance_id)
        if error != ErrorCode.NONE:
            return error
        if request.generation_id != self.generation:
            return ErrorCode.ILLEGAL_GENERATION
        if request.protocol_type not in (None, self.type_name) or request.protocol_name not in (None, self.protocol):
            return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        return ErrorCode.REBALANCE_IN_PROGRESS if self.state is PREPARING_REBALANCE else ErrorCode.NONE

    def _assign(self, assignments: Mapping[str, bytes], draft: Draft, now: Moment) -> None:
        """The leader has spoken. The record makes the group stable; whom it leaves out gets nothing."""
        draft.records.append(self.record(assignments))
        for member in self.members:
            if member.syncing is not None:
                draft.answer(member.syncing, self._synced(assignments.get(member.member_id, b"")))
                member.syncing = None
                self.keep_session(member, now)

    def _synced(self, assignment: bytes) -> SyncGroupResponse:
        return SyncGroupResponse(protocol_type=self.type_name, protocol_name=self.protocol, assignment=assignment)

    def _answer_syncs(self, draft: Draft, response: SyncGroupResponse, now: Moment) -> None:
        for member in self.members:
            if member.syncing is not None:
                draft.answer(member.syncing, response)
                member.syncing = None
                self.keep_session(member, now)

    def heartbeat(self, request: HeartbeatRequest, client: Client, pending: Pending, now: Moment) -> Outcome:
        error = self.members.check(request.member_id, request.group_instance_id)
        if error == ErrorCode.NONE and request.generation_id != self.generation:
            error = ErrorCode.ILLEGAL_GENERATION
        if error == ErrorCode.NONE:
            self.keep_session(self.members[request.member_id], now)
            if self.state is PREPARING_REBALANCE:
                error = ErrorCode.REBALANCE_IN_PROGRESS
        return answer(pending, HeartbeatResponse(error_code=error))

    def leave(self, request: LeaveGroupRequest, client: Client, pending: Pending, now: Moment) -> Outcome:
        draft = Draft()
        responses = []
        count = len(self.members)
        for identity in request.members:
            error = self._leave(identity, draft)
            responses.append(
                MemberResponse(
                    member_id=identity.member_id, group_instance_id=identity.group_instance_id, error_code=error
                )
            )
        if self.state is PREPARING_REBALANCE:
            self.maybe_complete_join(draft, now)
        elif len(self.members) < count:
            self.prepare_rebalance(draft, now)
        draft.answer(pending, LeaveGroupResponse(members=responses))
        return draft.outcome(self.group_id)

    def _leave(self, identity: MemberIdentity, draft: Draft) -> ErrorCode:
        """An administrator names static members by their instance id alone."""
        member_id = identity.member_id
        if member_id == NO_MEMBER_ID:
            known = None if identity.group_instance_id is None else self.members.static_id(identity.group_instance_id)
            if known is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            member_id = known
        elif member_id in self.members.expected:
            self.remove(member_id)
            return ErrorCode.NONE
        else:
            error = self.members.check(member_id, identity.group_instance_id)
            if error != ErrorCode.NONE:
                return error
        self._discard(self.members[member_id], draft)
        return ErrorCode.NONE

    # Committed offsets

    def check_offset_commit(
        self, *, member_id: str, instance_id: str | None, epoch: int, transactional: bool, api_version: int
    ) -> ErrorCode:
        if epoch < 0 and self.state is EMPTY:
            return ErrorCode.NONE  # someone who assigns partitions by himself and only keeps his offsets here
        if epoch >= 0 or member_id or instance_id is not None:
            error = self.members.check(member_id, instance_id)
            if error != ErrorCode.NONE:
                return error
            if epoch != self.generation:
                return ErrorCode.ILLEGAL_GENERATION
        elif not transactional:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if self.state is COMPLETING_REBALANCE and not transactional:
            return ErrorCode.REBALANCE_IN_PROGRESS
        return ErrorCode.NONE

    def offsets_committed(self, member_id: str, now: Moment) -> None:
        member = self.members.get(member_id)
        if member is not None and self.state in (STABLE, PREPARING_REBALANCE):
            self.keep_session(member, now)

    def check_offset_fetch(self, *, member_id: str | None, epoch: int) -> ErrorCode:
        return ErrorCode.NONE

    def check_offset_delete(self) -> ErrorCode:
        if self.state is EMPTY or self.uses_consumer_protocol:
            return ErrorCode.NONE
        return ErrorCode.NON_EMPTY_GROUP  # what its members are subscribed to, only they know

    def is_subscribed(self, topic: str) -> bool:
        if not self.uses_consumer_protocol:
            return False
        topics = self._subscribed_topics()
        return topics is None or topic in topics

    def _subscribed_topics(self) -> frozenset[str] | None:
        """None where a member's metadata cannot be read: then any topic may be meant."""
        if not self.members:
            return frozenset()
        if self._subscribed is None and self.protocol is not None:
            self._subscribed = subscribed_topics(member.metadata(self.protocol) for member in self.members)
        return self._subscribed

    def offsets_age_from_ms(self, commit_timestamp_ms: int) -> int | None:
        if self.type_name is None:
            return commit_timestamp_ms
        if self.state is EMPTY:
            return commit_timestamp_ms if self.state_since_ms is None else self.state_since_ms
        if self.uses_consumer_protocol and self.state is STABLE and self._subscribed_topics() is not None:
            return commit_timestamp_ms
        return None

    # The end

    def check_delete(self) -> ErrorCode:
        return ErrorCode.NONE if self.state is EMPTY else ErrorCode.NON_EMPTY_GROUP

    def tombstones(self) -> Sequence[GroupRecord]:
        return [GroupRecord(GroupMetadataKey(group=self.group_id), None)]

    # Time

    def expired(self, timer: TimerKey, now: Moment) -> Outcome:
        draft = Draft()
        match timer.kind:
            case TimerKind.SESSION:
                self._session_expired(timer.member_id, draft, now)
            case TimerKind.JOIN if self.state is PREPARING_REBALANCE:
                (self._initial_delay_over if self._initial else self._complete_join)(draft, now)
            case TimerKind.SYNC if self.members.unsynced:
                for member_id in list(self.members.unsynced):
                    self._discard(self.members[member_id], draft)
                self.prepare_rebalance(draft, now)
        return draft.outcome(self.group_id)

    def _session_expired(self, member_id: str, draft: Draft, now: Moment) -> None:
        member = self.members.get(member_id)
        if member is None:
            self.members.expected.pop(member_id, None)
        elif member.is_waiting:
            return  # it has its session again when it gets its answer
        else:
            self._discard(member, draft)
            if self.state in (STABLE, COMPLETING_REBALANCE):
                self.prepare_rebalance(draft, now)
                return
        if self.state is PREPARING_REBALANCE and self.members.all_joined:
            self._complete_join(draft, now)

    def _timer(self, kind: TimerKind, member_id: str = "") -> TimerKey:
        return TimerKey(kind, self.group_id, member_id)

    def _set_timer(self, kind: TimerKind, now: Moment, delay_ms: int, member_id: str = "") -> None:
        self.surroundings.timers.set(self._timer(kind, member_id), now.monotonic_ms + delay_ms)

    def _cancel(self, kind: TimerKind) -> None:
        self.surroundings.timers.cancel(self._timer(kind))

    def _move(self, state: ClassicState, now: Moment) -> None:
        self.state = state
        self.state_since_ms = now.wall_ms

    # The log

    def record(
        self,
        assignments: Mapping[str, bytes],
        members: Iterable[ClassicMember] | None = None,
        leader: str | None = None,
    ) -> GroupRecord:
        """What the group is; with `members` and `leader`, what it will be."""
        protocol = self.protocol
        value = GroupMetadataValue(
            protocol_type=self.protocol_type,
            generation=self.generation,
            protocol=protocol,
            leader=leader or self.members.leader,
            current_state_timestamp=-1 if self.state_since_ms is None else self.state_since_ms,
        )
        if protocol is not None:
            value.members = [
                member.record(protocol, assignments.get(member.member_id, b""))
                for member in (self.members if members is None else members)
            ]
        return GroupRecord(GroupMetadataKey(group=self.group_id), value, VALUE_VERSION)

    def assignments(self) -> dict[str, bytes]:
        return {member.member_id: member.assignment for member in self.members}

    def adopt(self, value: GroupMetadataValue) -> None:
        """Becomes what the record says. Live, that is the end of a rebalance; at replay it is all there is."""
        self.generation = value.generation
        self.type_name = value.protocol_type or None
        self.protocol = value.protocol
        self.state_since_ms = None if value.current_state_timestamp == -1 else value.current_state_timestamp
        kept = {member.member_id for member in value.members}
        for member_id in self.members.ids():
            if member_id not in kept:
                self.remove(member_id)
        for each in value.members:
            member = self.members.get(each.member_id)
            if member is None:
                self.members.add(ClassicMember.of_record(each, value.protocol))
            else:
                self.members.count_protocols(member, -1)
                member.adopt(each, value.protocol)
                self.members.count_protocols(member, 1)
        self.members.leader = value.leader
        self.state = STABLE if self.members else EMPTY
        self._subscribed = None

    def loaded(self, now: Moment) -> Outcome:
        draft = Draft()
        for member in self.members:
            self.keep_session(member, now)
        if len(self.members) > self.surroundings.settings.size_max:
            self.prepare_rebalance(draft, now)  # the limit was lowered: who comes back last stays outside
        return draft.outcome(self.group_id)

    def unload(self) -> Sequence[Pending]:
        self._cancel(TimerKind.JOIN)
        self._cancel(TimerKind.SYNC)
        for member_id in (*self.members.ids(), *self.members.expected):
            self.cancel_session(member_id)
        waiting = []
        for member in self.members:
            waiting += [pending for pending in (member.joining, member.syncing) if pending is not None]
            member.joining = member.syncing = None
        self.members.joined_count = 0
        return waiting

    def append_failed(self, outcome: Outcome, error: ErrorCode, now: Moment) -> Outcome:
        """An assignment that is not in the log does not count: everybody joins again.

        That everybody has left is not undone. Another coordinator would find that out by itself, a session later.
        """
        draft = Draft()
        if self.state is COMPLETING_REBALANCE:
            self.prepare_rebalance(draft, now)
        return draft.outcome(self.group_id)


def new_group_record(group_id: str, now: Moment) -> GroupRecord:
    """By which a group comes to be: empty, and of no type yet."""
    value = GroupMetadataValue(protocol=None, leader=None, current_state_timestamp=now.wall_ms)
    return GroupRecord(GroupMetadataKey(group=group_id), value, VALUE_VERSION)


def apply(shard: GroupShard, record: GroupRecord) -> None:
    key, value = record.key, record.value
    assert isinstance(key, GroupMetadataKey)
    group = shard.groups.get(key.group)
    if value is None:
        if isinstance(group, ClassicGroup):
            shard.remove(group)
        return
    assert isinstance(value, GroupMetadataValue)
    if not isinstance(group, ClassicGroup):
        group = ClassicGroup(key.group, shard.surroundings)
        shard.put(group)
    group.adopt(value)

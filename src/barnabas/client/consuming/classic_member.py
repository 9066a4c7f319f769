"""A member of a group of the classic protocol: JoinGroup, SyncGroup, Heartbeat, LeaveGroup.

    UNJOINED ── poll ──► PREPARING ── what must go is gone ──► JOINING ──► (ASSIGNING) ──► SYNCING ──► STABLE
        ▲                    ▲                                                                            │
        └── thrown out ──────┴───────────────── the group rebalances, or other topics are wanted ─────────┘

Always holds: an eager member owns nothing while it joins; a cooperative one keeps what it has, and joins once more
after it let go of something (KIP-429). Heartbeats go on until JoinGroup is sent, whether or not the application polls.
"""

from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Any

from barnabas.client.assignors.exchange import assigned_partitions, assignment_bytes, subscription_bytes
from barnabas.client.assignors.specification import NO_RACKS, Assignor, ReplicaRacks
from barnabas.client.consuming.group_member import NEVER_MS, Change, ChangeKind, GroupMember, MemberSettings
from barnabas.client.errors import KafkaError, error_of, known_code
from barnabas.errors import ErrorCode
from barnabas.protocol.consumer_protocol import PROTOCOL_TYPE, decode_subscription
from barnabas.protocol.message import DecodeError, Message
from barnabas.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from barnabas.protocol.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
    JoinGroupResponseMember,
)
from barnabas.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from barnabas.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse
from barnabas.types import TopicPartition, Uuid

JOIN_LATE_MS = 5_000  # how much later than the rebalance timeout the answer to a JoinGroup may come, as in Java
NO_GENERATION = -1


class State(Enum):
    UNJOINED = "unjoined"
    PREPARING = "preparing"
    JOINING = "joining"
    ASSIGNING = "assigning"
    SYNCING = "syncing"
    STABLE = "stable"


HEARTBEATING = (State.STABLE, State.PREPARING, State.ASSIGNING)


class ClassicMember(GroupMember):
    def __init__(self, settings: MemberSettings) -> None:
        super().__init__(settings)
        assert settings.assignors, "a classic member needs an assignor"
        self.state = State.UNJOINED
        self.is_cooperative = all(each.is_cooperative for each in settings.assignors)
        self._topics: tuple[str, ...] = ()
        self._previous: tuple[TopicPartition, ...] = ()  # what the last generation gave
        self._previous_generation = NO_GENERATION
        self._must_join = False  # the group rebalances, or something about this member has changed
        self._in_flight: type[Message] | None = None
        self._heartbeat_at_ms = 0.0
        self._assignor: Assignor | None = None  # the group's choice
        self._group: list[JoinGroupResponseMember] = []  # everybody, where this one leads
        self._group_counts: dict[str, int] | None = (
            None  # what the assignment was made of; None: this one does not lead
        )
        self._group_racks: ReplicaRacks = NO_RACKS  # likewise
        self._assignments: dict[str, bytes] = {}

    def subscribe(self, topics: Iterable[str], server_pattern: str | None = None) -> None:
        assert server_pattern is None, "only the new protocol matches patterns on the broker"
        wanted = tuple(topics)
        if wanted != self._topics:
            self._topics = wanted
            self._must_join = True

    @property
    def is_member(self) -> bool:
        return self.generation != NO_GENERATION

    @property
    def is_settled(self) -> bool:
        return self.state is State.STABLE and not self._changes and not self._must_join

    # What is next

    def next_request(self, now_ms: float) -> Message | None:
        if self._in_flight is not None or self.failure is not None or not self._is_wanted:
            return None
        if self.state is not State.UNJOINED and self._is_silent(now_ms):
            return self._sent(self._leave_of_silence())
        self._advance()
        match self.state:
            case State.JOINING:
                return self._sent(self._join_request())
            case State.SYNCING:
                return self._sent(self._sync_request())
        if self.state in HEARTBEATING and now_ms >= self._heartbeat_at_ms:
            self._heartbeat_at_ms = now_ms + self.settings.heartbeat_interval_ms
            return self._sent(self._heartbeat_request())
        return None

    def next_deadline_ms(self) -> float:
        if self._in_flight is not None or self.failure is not None or not self._is_wanted:
            return NEVER_MS
        if self.state in HEARTBEATING:
            can_join = self.state is State.PREPARING or (self.state is State.STABLE and self._must_join)
            return 0.0 if can_join and not self._changes else min(self._heartbeat_at_ms, self._silent_at_ms())
        return NEVER_MS if self.state is State.UNJOINED and self._changes else 0.0

    def _advance(self) -> None:
        """As far as it goes without an answer, and without the application."""
        if self._changes:
            return
        if self.state is State.STABLE and self._must_join:
            self.state = State.PREPARING
            unwanted = self.owned
            if self.is_cooperative:
                unwanted = tuple(each for each in self.owned if each.topic not in self._topics)
            if unwanted:
                self._changes.append(Change(ChangeKind.REVOKED, unwanted))
                return
        if self.state in (State.PREPARING, State.UNJOINED):
            self.state = State.JOINING

    def _change_was_done(self, kind: ChangeKind, now_ms: float) -> None:
        if kind is ChangeKind.REVOKED and self.state is State.STABLE:
            self._must_join = True  # so that the group may give to others what was let go

    def _sent(self, request: Message | None) -> Message | None:
        self._in_flight = None if request is None else type(request)
        return request

    def timeout_ms(self, request: Message, request_timeout_ms: int) -> int:
        if isinstance(request, JoinGroupRequest):
            return max(request_timeout_ms, self.settings.max_poll_interval_ms + JOIN_LATE_MS)
        return request_timeout_ms

    # Requests

    def _join_request(self) -> JoinGroupRequest:
        settings = self.settings
        self._must_join = False
        protocols = [
            JoinGroupRequestProtocol(
                name=assignor.name,
                metadata=subscription_bytes(
                    assignor,
                    self._topics,
                    self.owned,
                    self._previous,
                    self._previous_generation,
                    settings.rack or None,
                ),
            )
            for assignor in settings.assignors
        ]
        return JoinGroupRequest(
            group_id=settings.group_id,
            session_timeout_ms=settings.session_timeout_ms,
            rebalance_timeout_ms=settings.max_poll_interval_ms,
            member_id=self.member_id,
            group_instance_id=settings.instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocols=protocols,
        )

    def _sync_request(self) -> SyncGroupRequest:
        assert self._assignor is not None
        return SyncGroupRequest(
            group_id=self.settings.group_id,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self.settings.instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocol_name=self._assignor.name,
            assignments=[
                SyncGroupRequestAssignment(member_id=member_id, assignment=data)
                for member_id, data in self._assignments.items()
            ],
        )

    def _heartbeat_request(self) -> HeartbeatRequest:
        return HeartbeatRequest(
            group_id=self.settings.group_id,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self.settings.instance_id,
        )

    def leave_request(self) -> Message | None:
        """A static member stays one until its session ends, so that its next life finds everything as it was."""
        request = None
        if self.member_id and self.settings.instance_id is None and self.failure is None:
            request = LeaveGroupRequest(
                group_id=self.settings.group_id,
                members=[MemberIdentity(member_id=self.member_id)],
            )
        self._reset(forget_member=True)
        self._is_wanted = False
        self._in_flight = None
        return request

    def _reset(self, *, forget_member: bool) -> None:
        if forget_member:
            self.member_id = ""
        self.generation = NO_GENERATION
        self.state = State.UNJOINED
        self._group_counts = None
        self._must_join = False
        self._lose_everything()

    # Answers

    def answered(self, response: Any, now_ms: float) -> None:
        if self._in_flight is None:
            return  # the member has left meanwhile
        self._in_flight = None
        match response:
            case JoinGroupResponse():
                self._joined(response, now_ms)
            case SyncGroupResponse():
                self._synced(response, now_ms)
            case HeartbeatResponse():
                self._heard(known_code(response.error_code))

    def failed(self, now_ms: float) -> None:
        self._in_flight = None

    def thrown_out(self, code: int, now_ms: float) -> bool:
        if code == ErrorCode.REBALANCE_IN_PROGRESS:
            self._must_join = True
            return False
        if code not in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION):
            return False
        if self.state is State.STABLE:
            self._warn_of_loss(ErrorCode(code))
            self._reset(forget_member=code == ErrorCode.UNKNOWN_MEMBER_ID)
        return True

    def _joined(self, response: JoinGroupResponse, now_ms: float) -> None:
        error = known_code(response.error_code)
        if error == ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = response.member_id  # and ask again with it (KIP-394)
            return
        if error == ErrorCode.REBALANCE_IN_PROGRESS:
            return
        if error != ErrorCode.NONE:
            self._refused(error)
            return
        assignors = {each.name: each for each in self.settings.assignors}
        self._assignor = assignors.get(response.protocol_name or "")
        if self._assignor is None:
            self._fail(error_of(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, f"the group chose {response.protocol_name}"))
            return
        self.member_id = response.member_id
        self.generation = response.generation_id
        self._heartbeat_at_ms = now_ms + self.settings.heartbeat_interval_ms
        self._assignments = {}
        self._group_counts = None
        self.state = State.SYNCING
        if response.leader == response.member_id:
            self._group = list(response.members)
            self._group_counts = {}
            if not response.skip_assignment:
                self.state = State.ASSIGNING

    def _synced(self, response: SyncGroupResponse, now_ms: float) -> None:
        error = known_code(response.error_code)
        if error == ErrorCode.REBALANCE_IN_PROGRESS:
            self.state = State.JOINING
            return
        if error != ErrorCode.NONE:
            self._refused(error)
            return
        try:
            given = tuple(sorted(assigned_partitions(response.assignment)))
        except DecodeError as problem:
            self._fail(error_of(ErrorCode.UNKNOWN_SERVER_ERROR, f"the assignment cannot be read: {problem}"))
            return
        self.state = State.STABLE
        self._previous, self._previous_generation = given, self.generation
        self._heartbeat_at_ms = now_ms + self.settings.heartbeat_interval_ms
        gone = tuple(each for each in self.owned if each not in set(given))
        if gone:
            self._changes.append(Change(ChangeKind.REVOKED, gone))
        self._changes.append(Change(ChangeKind.ASSIGNED, tuple(each for each in given if each not in set(self.owned))))

    def _heard(self, error: ErrorCode) -> None:
        if error == ErrorCode.REBALANCE_IN_PROGRESS:
            self._must_join = True
        elif error != ErrorCode.NONE:
            self._refused(error)

    def _refused(self, error: ErrorCode) -> None:
        if error == ErrorCode.UNKNOWN_MEMBER_ID or error == ErrorCode.ILLEGAL_GENERATION:
            self._warn_of_loss(error)
            self._reset(forget_member=error == ErrorCode.UNKNOWN_MEMBER_ID)
        else:
            self._fail(error_of(error, about=f"group {self.settings.group_id}"))

    def _fail(self, error: KafkaError) -> None:
        self._reset(forget_member=True)
        self.failure = error

    # The leader's work

    @property
    def topics_watched(self) -> tuple[str, ...]:
        return () if self._group_counts is None else self._group_topics()

    @property
    def topics_wanted(self) -> tuple[str, ...] | None:
        return self._group_topics() if self.state is State.ASSIGNING else None

    def _group_topics(self) -> tuple[str, ...]:
        topics: dict[str, None] = {}
        for member in self._group:
            try:
                topics.update(dict.fromkeys(decode_subscription(member.metadata).topics))
            except DecodeError as problem:
                self._fail(error_of(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, f"{member.member_id}: {problem}"))
                return ()
        return tuple(sorted(topics))

    def partitions_known(self, partition_counts: Mapping[str, int], racks: ReplicaRacks = NO_RACKS) -> None:
        if self._group_counts is None:
            return
        counts = {topic: partition_counts[topic] for topic in self._group_topics() if topic in partition_counts}
        racks = {each: found for each, found in racks.items() if each.topic in counts}
        if self.state is State.ASSIGNING:
            assert self._assignor is not None
            self._group_counts, self._group_racks = counts, racks
            self._assignments = assignment_bytes(self._assignor, self._group, counts, racks)
            self.state = State.SYNCING
        elif self.state is State.STABLE and counts != self._group_counts:
            self._must_join = True  # there are partitions that nobody has, or some that are no more
        elif self.state is State.STABLE and racks != self._group_racks and self.settings.rack is not None:
            self._must_join = True  # replicas have moved, and others may now be nearer to them

    def names_known(self, names: Mapping[Uuid, str]) -> None:
        """Names are all that this protocol knows."""

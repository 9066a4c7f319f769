"""All groups of one partition of `__consumer_offsets`, and their committed offsets.

    outcome = shard.join(request, client, pending, now)       decides
    append outcome.records; shard.apply(record, offset) each  changes
    give outcome.answers once that is committed               answers

Always holds: between a decision and its `apply` there is no other decision. Replay is `apply` of the whole log, then
`loaded`. Groups come and go in `apply` alone.
Does not know: the log, whether it is committed, who listens. Decisions about offsets are in `offset_requests`.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from barnabas.errors import ErrorCode
from barnabas.groups import classic, offset_requests
from barnabas.groups.classic_state import join_failed
from barnabas.groups.expiry import Expiry
from barnabas.groups.group import Group, GroupType, Surroundings
from barnabas.groups.offsets import Offsets
from barnabas.groups.outcome import NOTHING, Client, Moment, Outcome, Pending, answer
from barnabas.groups.records import GROUP_METADATA, OFFSET_COMMIT, GroupRecord
from barnabas.groups.timers import TimerKind
from barnabas.protocol.messages.delete_groups import DeletableGroupResult
from barnabas.protocol.messages.describe_groups import DescribedGroup
from barnabas.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from barnabas.protocol.messages.join_group import JoinGroupRequest
from barnabas.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberResponse
from barnabas.protocol.messages.list_groups import ListedGroup
from barnabas.protocol.messages.offset_commit import OffsetCommitRequest
from barnabas.protocol.messages.offset_delete import OffsetDeleteRequest
from barnabas.protocol.messages.offset_fetch import OffsetFetchRequestGroup
from barnabas.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from barnabas.types import NO_PRODUCER_ID, Offset, ProducerId

if TYPE_CHECKING:
    from barnabas.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
    from barnabas.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest

DEAD = "Dead"  # what Kafka says of a group that does not exist
NOT_FOUND_VERSION = 6  # of DescribeGroups: from here on such a group is an error


class GroupShard:
    def __init__(self, surroundings: Surroundings) -> None:
        self.surroundings = surroundings
        self.groups: dict[str, Group] = {}  # in the order of their making
        self.offsets = Offsets()
        self._expiry = Expiry(self)

    # Requests of the classic protocol

    def join(self, request: JoinGroupRequest, client: Client, pending: Pending, now: Moment) -> Outcome:
        error = self._check_join(request)
        if error != ErrorCode.NONE:
            return answer(pending, join_failed(request.member_id, error))
        group = self.groups.get(request.group_id)
        if group is None or (group.is_empty and group.TYPE is not GroupType.CLASSIC):
            if request.member_id:
                return answer(pending, join_failed(request.member_id, ErrorCode.UNKNOWN_MEMBER_ID))
            former = () if group is None else group.tombstones()
            return Outcome([*former, classic.new_group_record(request.group_id, now)], again=True)
        return group.join(request, client, pending, now)

    def _check_join(self, request: JoinGroupRequest) -> ErrorCode:
        settings = self.surroundings.settings
        if not request.group_id:
            return ErrorCode.INVALID_GROUP_ID
        if not settings.session_timeout_ms_min <= request.session_timeout_ms <= settings.session_timeout_ms_max:
            return ErrorCode.INVALID_SESSION_TIMEOUT
        if request.group_id not in self.groups and not self.surroundings.has_room:
            return ErrorCode.POLICY_VIOLATION
        return ErrorCode.NONE

    def sync(self, request: SyncGroupRequest, client: Client, pending: Pending, now: Moment) -> Outcome:
        if not request.group_id:
            return answer(pending, SyncGroupResponse(error_code=ErrorCode.INVALID_GROUP_ID))
        group = self.groups.get(request.group_id)
        if group is None:
            return answer(pending, SyncGroupResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID))
        return group.sync(request, client, pending, now)

    def heartbeat(self, request: HeartbeatRequest, client: Client, pending: Pending, now: Moment) -> Outcome:
        if not request.group_id:
            return answer(pending, HeartbeatResponse(error_code=ErrorCode.INVALID_GROUP_ID))
        group = self.groups.get(request.group_id)
        if group is None:
            return answer(pending, HeartbeatResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID))
        return group.heartbeat(request, client, pending, now)

    def leave(self, request: LeaveGroupRequest, client: Client, pending: Pending, now: Moment) -> Outcome:
        if not request.group_id:
            return answer(pending, LeaveGroupResponse(error_code=ErrorCode.INVALID_GROUP_ID))
        group = self.groups.get(request.group_id)
        if group is None:
            unknown = [
                MemberResponse(
                    member_id=each.member_id,
                    group_instance_id=each.group_instance_id,
                    error_code=ErrorCode.UNKNOWN_MEMBER_ID,
                )
                for each in request.members
            ]
            return answer(pending, LeaveGroupResponse(members=unknown))
        return group.leave(request, client, pending, now)

    # Requests of consumer groups. Their modules are imported with the first of them: most brokers have classic ones.

    def consumer_heartbeat(
        self, request: "ConsumerGroupHeartbeatRequest", client: Client, pending: Pending, now: Moment
    ) -> Outcome:
        from barnabas.groups import consumer_heartbeat

        return consumer_heartbeat.decide(self, request, client, pending, now)

    def consumer_describe(self, group_id: str, pending: Pending) -> Outcome:
        from barnabas.groups import consumer_describe

        return answer(pending, consumer_describe.describe(self, group_id))

    # Offsets

    def offset_commit(self, request: OffsetCommitRequest, client: Client, pending: Pending, now: Moment) -> Outcome:
        return offset_requests.commit(self, request, client, pending, now)

    def transactional_offset_commit(
        self, request: "TxnOffsetCommitRequest", client: Client, pending: Pending, now: Moment
    ) -> Outcome:
        from barnabas.groups import transactional_offsets

        return transactional_offsets.commit(self, request, client, pending, now)

    def offset_fetch(self, request: OffsetFetchRequestGroup, pending: Pending, *, require_stable: bool) -> Outcome:
        return answer(pending, offset_requests.fetch(self, request, require_stable=require_stable))

    def offset_delete(self, request: OffsetDeleteRequest, pending: Pending) -> Outcome:
        return offset_requests.delete(self, request, pending)

    def topics_changed(self, names: Sequence[str], *, names_changed: bool, now: Moment) -> None:
        """Topics of these names were changed, created or deleted; in the last two cases names have changed."""
        for name in names:
            self.surroundings.topic_hashes.pop(name, None)
        for group in self.groups.values():
            group.topics_changed(names, names_changed=names_changed, now=now)

    def topics_deleted(self, names: Sequence[str]) -> Outcome:
        """Their offsets mean nothing any more, and would be wrong for new topics of the same names."""
        return Outcome(self.offsets.tombstones_of_topics(names), atomic=False)

    # Administration

    def list_groups(self, states: Sequence[str], types: Sequence[str]) -> list[ListedGroup]:
        """An empty filter lets everything pass. Case does not matter."""
        wanted_states = {state.strip().lower() for state in states}
        wanted_types = {each.strip().lower() for each in types}
        return [
            ListedGroup(
                group_id=group.group_id,
                protocol_type=group.protocol_type,
                group_state=group.state_name,
                group_type=group.TYPE.value,
            )
            for group in self.groups.values()
            if (not states or group.state_name.lower() in wanted_states)
            and (not types or group.TYPE.value in wanted_types)
        ]

    def describe(self, group_id: str, client: Client, pending: Pending) -> Outcome:
        group = self.groups.get(group_id)
        described = ErrorCode.GROUP_ID_NOT_FOUND if group is None else group.describe()
        if isinstance(described, ErrorCode):
            described = not_described(group_id, client, "not found" if group is None else "is not a classic group")
        return answer(pending, described)

    def delete(self, group_id: str, pending: Pending) -> Outcome:
        group = self.groups.get(group_id)
        error = ErrorCode.GROUP_ID_NOT_FOUND if group is None else group.check_delete()
        result = DeletableGroupResult(group_id=group_id, error_code=error)
        if group is None or error != ErrorCode.NONE:
            return answer(pending, result)
        records = [*self.offsets.tombstones(group_id), *group.tombstones()]
        return answer(pending, result, records)._replace(atomic=False)

    # Changing

    def apply(self, record: GroupRecord, offset: Offset, producer_id: ProducerId = NO_PRODUCER_ID) -> None:
        """The only way in which anything durable changes. `producer_id` is that of an open transaction."""
        if record.type == OFFSET_COMMIT:
            self.offsets.apply(record, offset, producer_id)
            if record.value is not None:
                self._ensure_group(record)
        elif record.type == GROUP_METADATA:
            classic.apply(self, record)
        else:
            from barnabas.groups import consumer

            consumer.apply(self, record)

    def transaction_ended(self, producer_id: ProducerId, *, committed: bool) -> None:
        self.offsets.transaction_ended(producer_id, committed=committed)

    def _ensure_group(self, record: GroupRecord) -> None:
        """Somebody who only keeps offsets here has a group too: empty, and of no type."""
        group_id: str = record.key.group  # type: ignore[attr-defined]
        if group_id not in self.groups:
            self.put(classic.ClassicGroup(group_id, self.surroundings))

    def put(self, group: Group) -> None:
        """For `apply` of each kind: the group comes to be, in the place of one of another kind perhaps."""
        former = self.groups.get(group.group_id)
        if former is not None:
            self.remove(former)
        self.groups[group.group_id] = group
        self.surroundings.count.value += 1

    def remove(self, group: Group) -> None:
        """For `apply` of each kind. Only a group without members ends, so that nobody waits for it."""
        waiting = group.unload()
        assert not waiting
        del self.groups[group.group_id]
        self.surroundings.count.value -= 1

    def loaded(self, now: Moment) -> Sequence[Outcome]:
        """Everything has been replayed; from now on there are decisions."""
        self._expiry.schedule(now)
        return [outcome for group in self.groups.values() if (outcome := group.loaded(now)) is not NOTHING]

    def unload(self) -> Sequence[Pending]:
        """Who waits here and must go elsewhere. Nothing may be decided any more."""
        self.surroundings.count.value -= len(self.groups)
        return [pending for group in self.groups.values() for pending in group.unload()]

    def append_failed(self, outcome: Outcome, error: ErrorCode, now: Moment) -> Outcome:
        """The records could not be written and were not applied. The answers are given by the shell, with the error."""
        group = None if outcome.group_id is None else self.groups.get(outcome.group_id)
        return NOTHING if group is None else group.append_failed(outcome, error, now)

    # Time

    def next_deadline_ms(self) -> int | None:
        """On the monotonic clock; perhaps too early, never too late."""
        return self.surroundings.timers.next_deadline_ms()

    def tick(self, now: Moment) -> Outcome | None:
        """What one timer that is due brings about; None where none is due. Ask until then."""
        timer = self.surroundings.timers.due(now.monotonic_ms)
        if timer is None:
            return None
        if timer.kind is TimerKind.EXPIRY:
            return self._expiry.run(now)
        group = self.groups.get(timer.group_id)
        return NOTHING if group is None else group.expired(timer, now)


def not_described(group_id: str, client: Client, reason: str) -> DescribedGroup:
    """Older clients expect a group that is dead, newer ones an error."""
    if client.api_version < NOT_FOUND_VERSION:
        return DescribedGroup(group_id=group_id, group_state=DEAD)
    return DescribedGroup(
        group_id=group_id,
        group_state=DEAD,
        error_code=ErrorCode.GROUP_ID_NOT_FOUND,
        error_message=f"Group {group_id} {reason}.",
    )

"""Members that speak the classic protocol within a consumer group: JoinGroup, SyncGroup, Heartbeat and LeaveGroup.

To such a member the group looks like a classic one whose leader is somebody else: its generation is its member epoch,
its assignment is made by the coordinator, and a heartbeat sends it to join whenever there is a step to take.

Always holds: it has to follow within its rebalance timeout, from the first answer that sends it to join (JOIN) and
from joining to syncing (SYNC); otherwise it is fenced.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.errors import ErrorCode
from barnabas.groups import consumer_departure, migration
from barnabas.groups.classic_join import MEMBER_ID_REQUIRED_VERSION
from barnabas.groups.classic_member import protocols_of
from barnabas.groups.classic_state import NO_MEMBER_ID, join_failed
from barnabas.groups.consumer_member import ClassicProtocols, ConsumerMember, MemberState
from barnabas.groups.consumer_protocol import encode_assignment, owned_by_topic_id
from barnabas.groups.consumer_round import Round, take_place
from barnabas.groups.consumer_settings import MigrationPolicy
from barnabas.groups.outcome import Answer, Client, Moment, Outcome, Pending, answer
from barnabas.groups.records import GroupRecord
from barnabas.groups.timers import TimerKind
from barnabas.metadata.ids import new_uuid
from barnabas.protocol.consumer_protocol import PROTOCOL_TYPE, decode_subscription, version_of
from barnabas.protocol.message import DecodeError
from barnabas.protocol.messages.consumer_protocol_subscription import ConsumerProtocolSubscription
from barnabas.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from barnabas.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from barnabas.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity, MemberResponse
from barnabas.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from barnabas.types import uuid_text

if TYPE_CHECKING:
    from barnabas.groups.consumer import ConsumerGroup

# JoinGroup


def join(group: ConsumerGroup, request: JoinGroupRequest, client: Client, pending: Pending, now: Moment) -> Outcome:
    group.start_sessions(now)
    member_id = request.member_id or uuid_text(new_uuid(group.surroundings.random))
    error = _check_join(group, request, member_id)  # as Kafka, a refusal here does not name the member
    if error != ErrorCode.NONE:
        return answer(pending, join_failed(NO_MEMBER_ID, error))
    if not request.member_id and request.group_instance_id is None and client.api_version >= MEMBER_ID_REQUIRED_VERSION:
        return answer(pending, join_failed(member_id, ErrorCode.MEMBER_ID_REQUIRED))
    records: list[GroupRecord] = []
    before = _member(group, request, member_id, records)
    if isinstance(before, ErrorCode):
        return answer(pending, join_failed(NO_MEMBER_ID, before))
    try:
        subscription = decode_subscription(request.protocols[0].metadata)
    except DecodeError:
        return answer(pending, join_failed(NO_MEMBER_ID, ErrorCode.UNKNOWN_SERVER_ERROR))
    turn = Round(group, before, records, now)
    turn.subscribe(_updated(before, request, subscription, client))
    former = group.state.static_member(request.group_instance_id)
    if former is not None and former.classic is None and migration.may_downgrade(group, [former], turn.member):
        return _join_last(group, turn, former, subscription, pending)
    turn.assign()
    turn.reconcile(owned_by_topic_id(subscription, group.surroundings.topics))
    group.cancel_timer(TimerKind.JOIN, member_id)
    group.keep_session(turn.member, now)
    group.set_timer(TimerKind.SYNC, member_id, request.rebalance_timeout_ms, now)
    return Outcome(records, (Answer(pending, _joined(turn.member)),), group.group_id)


def _check_join(group: ConsumerGroup, request: JoinGroupRequest, member_id: str) -> ErrorCode:
    state, settings = group.state, group.surroundings.consumer
    if settings.migration is MigrationPolicy.DISABLED:
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if len(state.members) >= settings.size_max and member_id not in state.members:
        return ErrorCode.GROUP_MAX_SIZE_REACHED
    shared = any(
        state.classic_protocols.get(protocol.name, 0) == state.classic_member_count for protocol in request.protocols
    )
    if request.protocol_type != PROTOCOL_TYPE or not shared:
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    return ErrorCode.NONE


def _member(
    group: ConsumerGroup, request: JoinGroupRequest, member_id: str, records: list[GroupRecord]
) -> ConsumerMember | ErrorCode:
    """The member as it was: one with only its id where it is new, even under an id that nobody gave out."""
    if request.group_instance_id is None:
        return group.state.members.get(member_id) or ConsumerMember(member_id)
    if request.member_id:
        return consumer_departure.find(group, member_id, request.group_instance_id)
    former = group.state.static_member(request.group_instance_id)
    return ConsumerMember(member_id) if former is None else take_place(group, former, member_id, records)


def _updated(
    member: ConsumerMember, request: JoinGroupRequest, subscription: ConsumerProtocolSubscription, client: Client
) -> ConsumerMember:
    return member._replace(
        instance_id=member.instance_id if request.group_instance_id is None else request.group_instance_id,
        rack_id=subscription.rack_id or member.rack_id,
        rebalance_timeout_ms=(
            member.rebalance_timeout_ms if request.rebalance_timeout_ms == -1 else request.rebalance_timeout_ms
        ),
        topics=tuple(sorted(set(subscription.topics))),
        expression="",
        client_id=client.client_id,
        client_host=client.client_host,
        classic=ClassicProtocols(request.session_timeout_ms, protocols_of(request)),
    )


def _joined(member: ConsumerMember) -> JoinGroupResponse:
    assert member.classic is not None
    return JoinGroupResponse(
        member_id=member.member_id,
        generation_id=member.member_epoch,
        protocol_type=PROTOCOL_TYPE,
        protocol_name=member.classic.protocols[0][0],
    )


def _join_last(
    group: ConsumerGroup,
    turn: Round,
    former: ConsumerMember,
    subscription: ConsumerProtocolSubscription,
    pending: Pending,
) -> Outcome:
    """The last member of the newer protocol comes back with the older one: the group becomes a classic one."""
    rebalance = group.state.assignment_epoch < turn.group_epoch
    if not rebalance:
        turn.target = group.state.target(former.member_id)
        turn.reconcile(owned_by_topic_id(subscription, group.surroundings.topics))
    answers = [Answer(pending, _joined(turn.member))]
    return migration.downgrade(
        group, [former], answers, turn.now, joining=turn.member, records=turn.records, rebalance=rebalance
    )


# SyncGroup


def sync(group: ConsumerGroup, request: SyncGroupRequest, pending: Pending, now: Moment) -> Outcome:
    member = _known(group, request.member_id, request.group_instance_id, request.generation_id)
    if isinstance(member, ErrorCode):
        return answer(pending, SyncGroupResponse(error_code=member))
    assert member.classic is not None
    protocol, metadata = member.classic.protocols[0]
    if request.protocol_type not in (None, PROTOCOL_TYPE) or request.protocol_name not in (None, protocol):
        return answer(pending, SyncGroupResponse(error_code=ErrorCode.INCONSISTENT_GROUP_PROTOCOL))
    behind = group.state.assignment_epoch > member.member_epoch
    if behind and member.state is not MemberState.UNREVOKED_PARTITIONS:
        group.set_timer_once(TimerKind.JOIN, member.member_id, member.rebalance_timeout_ms, now)
        return answer(pending, SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS))
    group.cancel_timer(TimerKind.SYNC, member.member_id)
    group.keep_session(member, now)
    assignment = {topic: tuple(sorted(epochs)) for topic, epochs in sorted(member.assigned.items())}
    response = SyncGroupResponse(
        protocol_type=request.protocol_type,
        protocol_name=request.protocol_name,
        assignment=encode_assignment(assignment, group.surroundings.topics, version_of(metadata)),
    )
    return answer(pending, response)


def _known(
    group: ConsumerGroup, member_id: str, instance_id: str | None, generation_id: int
) -> ConsumerMember | ErrorCode:
    member = consumer_departure.find(group, member_id, instance_id)
    if isinstance(member, ErrorCode):
        return member
    if member.classic is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    return member if generation_id == member.member_epoch else ErrorCode.ILLEGAL_GENERATION


# Heartbeat


def heartbeat(group: ConsumerGroup, request: HeartbeatRequest, pending: Pending, now: Moment) -> Outcome:
    group.start_sessions(now)
    member = _known(group, request.member_id, request.group_instance_id, request.generation_id)
    if isinstance(member, ErrorCode):
        return answer(pending, HeartbeatResponse(error_code=member))
    group.keep_session(member, now)
    if not _has_to_join(group, member):
        return answer(pending, HeartbeatResponse())
    group.set_timer_once(TimerKind.JOIN, member.member_id, member.rebalance_timeout_ms, now)
    return answer(pending, HeartbeatResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS))


def _has_to_join(group: ConsumerGroup, member: ConsumerMember) -> bool:
    """To be told of a newer assignment, to give up partitions, or to get those that others have given up."""
    if member.member_epoch < group.state.assignment_epoch:
        return True
    match member.state:
        case MemberState.UNREVOKED_PARTITIONS:
            return True
        case MemberState.UNRELEASED_PARTITIONS:
            return not _waits_for_others(group, member)
        case _:
            return False


def _waits_for_others(group: ConsumerGroup, member: ConsumerMember) -> bool:
    return any(
        partition not in member.assigned.get(topic, ()) and group.state.is_owned(topic, partition)
        for topic, partitions in group.state.target(member.member_id).items()
        for partition in partitions
    )


# LeaveGroup


def leave(group: ConsumerGroup, request: LeaveGroupRequest, pending: Pending, now: Moment) -> Outcome:
    leaving: dict[str, ConsumerMember] = {}
    responses = []
    for identity in request.members:
        found = _leaving(group, identity)
        error = found if isinstance(found, ErrorCode) else ErrorCode.NONE
        if not isinstance(found, ErrorCode):
            leaving[found.member_id] = found
        responses.append(
            MemberResponse(member_id=identity.member_id, group_instance_id=identity.group_instance_id, error_code=error)
        )
    response = LeaveGroupResponse(members=responses)
    return consumer_departure.fence(group, list(leaving.values()), now, [Answer(pending, response)])


def _leaving(group: ConsumerGroup, identity: MemberIdentity) -> ConsumerMember | ErrorCode:
    """An administrator names static members by their instance id alone."""
    if identity.group_instance_id is not None and identity.member_id == NO_MEMBER_ID:
        return group.state.static_member(identity.group_instance_id) or ErrorCode.UNKNOWN_MEMBER_ID
    return consumer_departure.find(group, identity.member_id, identity.group_instance_id)

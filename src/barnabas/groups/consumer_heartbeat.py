"""ConsumerGroupHeartbeat: how a member of a consumer group joins, stays, learns its assignment and leaves (KIP-848).

    epoch 0      joins, or joins again after it was fenced; says everything
    epoch > 0    is there; says what has changed, and perhaps what it owns
    epoch -1     leaves          epoch -2    a static member leaves and will be back

Always holds: a member that is behind by one epoch and claims nothing that it does not have may have lost an answer, and
gets it again; anybody else whose epoch is not the coordinator's is fenced.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.errors import ErrorCode
from barnabas.groups import consumer_departure, migration
from barnabas.groups.consumer import ConsumerGroup
from barnabas.groups.consumer_checks import Refusal, check, check_expression, no_member, no_room
from barnabas.groups.consumer_member import JOINING, LEFT_FOR_A_WHILE, ConsumerMember, Partitions
from barnabas.groups.consumer_round import Round, take_place
from barnabas.groups.outcome import Answer, Client, Moment, Outcome, Pending
from barnabas.groups.reconciliation import Owned
from barnabas.groups.records import GroupRecord
from barnabas.metadata.ids import new_uuid
from barnabas.protocol.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    ResponseTopicPartitions,
)
from barnabas.types import uuid_text

if TYPE_CHECKING:
    from barnabas.groups.shard import GroupShard


def decide(
    shard: GroupShard, request: ConsumerGroupHeartbeatRequest, client: Client, pending: Pending, now: Moment
) -> Outcome:
    refusal = check(request, client.api_version, shard.surroundings.consumer)
    if refusal is not None:
        return refusal.answer(pending)
    group = shard.groups.get(request.group_id)
    records: list[GroupRecord] = []
    if not isinstance(group, ConsumerGroup):
        if request.member_epoch != JOINING:
            message = f"Consumer group {request.group_id} not found."
            return Refusal(ErrorCode.GROUP_ID_NOT_FOUND, message).answer(pending)
        if group is not None and not group.is_empty:
            return migration.upgrade(group, request, pending)
        if group is None and not shard.surroundings.has_room:
            return Refusal(ErrorCode.POLICY_VIOLATION, "This broker has as many groups as it takes.").answer(pending)
        records += () if group is None else group.tombstones()
        group = ConsumerGroup(request.group_id, shard.surroundings)
    elif request.member_epoch < JOINING:
        left = consumer_departure.leave(group, request, pending, now)
        return left if isinstance(left, Outcome) else no_member(left, request).answer(pending)
    return _beat(group, request, client, pending, records, now)


# A turn


def _beat(
    group: ConsumerGroup,
    request: ConsumerGroupHeartbeatRequest,
    client: Client,
    pending: Pending,
    records: list[GroupRecord],
    now: Moment,
) -> Outcome:
    group.start_sessions(now)
    before = _member(group, request, records)
    refusal = before if isinstance(before, Refusal) else check_expression(request, group.state.expressions)
    if isinstance(before, Refusal) or refusal is not None:
        assert refusal is not None
        return refusal.answer(pending)
    owned = owned_partitions(request)
    turn = Round(group, before, records, now)
    turn.subscribe(_updated(before, request, client))
    turn.assign()
    if not turn.reconcile(owned):
        message = "What the member had is not known any more: it must give up everything and join again."
        return Refusal(ErrorCode.FENCED_MEMBER_EPOCH, message).answer(pending)
    group.keep_session(turn.member, now)
    response = ConsumerGroupHeartbeatResponse(
        member_id=turn.member.member_id,
        member_epoch=turn.member.member_epoch,
        heartbeat_interval_ms=group.settings.heartbeat_interval_ms,
    )
    if request.member_epoch == JOINING or _says_everything(request) or turn.member.assigned != before.assigned:
        response.assignment = _assignment(turn.member.assigned)
    return Outcome(records, (Answer(pending, response),), group.group_id)


def owned_partitions(request: ConsumerGroupHeartbeatRequest) -> Owned | None:
    if request.topic_partitions is None:
        return None
    return {topic.topic_id: topic.partitions for topic in request.topic_partitions}


def _says_everything(request: ConsumerGroupHeartbeatRequest) -> bool:
    """As after an error, when it does not know what the coordinator knows."""
    subscribed = request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None
    return request.rebalance_timeout_ms != -1 and subscribed and request.topic_partitions is not None


def _assignment(partitions: Partitions) -> Assignment:
    return Assignment(
        topic_partitions=[
            ResponseTopicPartitions(topic_id=topic, partitions=sorted(epochs))
            for topic, epochs in sorted(partitions.items())
        ]
    )


def _updated(member: ConsumerMember, request: ConsumerGroupHeartbeatRequest, client: Client) -> ConsumerMember:
    """The member with all that the request says; what is null or missing stays as it was."""
    names = request.subscribed_topic_names
    regex = request.subscribed_topic_regex
    return member._replace(
        instance_id=member.instance_id if request.instance_id is None else request.instance_id,
        rack_id=member.rack_id if request.rack_id is None else request.rack_id,
        rebalance_timeout_ms=(
            member.rebalance_timeout_ms if request.rebalance_timeout_ms == -1 else request.rebalance_timeout_ms
        ),
        assignor=member.assignor if request.server_assignor is None else request.server_assignor,
        topics=member.topics if names is None else tuple(sorted(set(names))),
        expression=member.expression if regex is None else regex,
        client_id=client.client_id,
        client_host=client.client_host,
        classic=None,
    )


# Who it is


def _member(
    group: ConsumerGroup, request: ConsumerGroupHeartbeatRequest, records: list[GroupRecord]
) -> ConsumerMember | Refusal:
    """The member as it was: one with only its id where it is new."""
    state = group.state
    size_max = group.surroundings.consumer.size_max
    if len(state.members) >= size_max and request.member_id not in state.members:
        return no_room(size_max)
    if request.member_epoch == JOINING:
        member_id = request.member_id or uuid_text(new_uuid(group.surroundings.random))
        if request.instance_id is None:
            return state.members.get(member_id) or ConsumerMember(member_id)
        return _joining_static_member(group, member_id, request.instance_id, records)
    found = consumer_departure.find(group, request.member_id, request.instance_id)
    if isinstance(found, ErrorCode):
        return no_member(found, request)
    return _fenced(found, request) or found


def _joining_static_member(
    group: ConsumerGroup, member_id: str, instance_id: str, records: list[GroupRecord]
) -> ConsumerMember | Refusal:
    former = group.state.static_member(instance_id)
    if former is None:
        return ConsumerMember(member_id)
    if former.classic is None and former.member_epoch != LEFT_FOR_A_WHILE:
        return Refusal(
            ErrorCode.UNRELEASED_INSTANCE_ID,
            f"Member {former.member_id} has instance id {instance_id} and has not left.",
        )
    return take_place(group, former, member_id, records)


def _fenced(member: ConsumerMember, request: ConsumerGroupHeartbeatRequest) -> Refusal | None:
    epoch = request.member_epoch
    if epoch == member.member_epoch:
        return None
    if epoch == member.previous_member_epoch and epoch < member.member_epoch:
        owned = owned_partitions(request)
        if owned is not None and all(
            partition in member.assigned.get(topic, ()) for topic, numbers in owned.items() for partition in numbers
        ):
            return None  # the answer with the newer epoch may have been lost
    return Refusal(
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"The member's epoch is {member.member_epoch}, not {epoch}: it must give up everything and join again.",
    )

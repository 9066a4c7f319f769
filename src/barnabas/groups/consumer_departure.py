"""Members that go: of their own will, because they fell silent, or because they did not give up partitions in time.

Always holds: with a member goes everything that the log has of it, and the group epoch rises, so that the next
heartbeat of anybody gives its partitions to others. Where only members of the classic protocol are left, the group
becomes a classic one (`migration`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from barnabas.errors import ErrorCode
from barnabas.groups import consumer_records, migration
from barnabas.groups.consumer_member import LEFT_FOR_A_WHILE, NO_PARTITIONS, ConsumerMember
from barnabas.groups.metadata_hash import group_hash
from barnabas.groups.outcome import Answer, Moment, Outcome, Pending
from barnabas.groups.records import GroupRecord
from barnabas.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)

if TYPE_CHECKING:
    from barnabas.groups.consumer import ConsumerGroup


def leave(
    group: ConsumerGroup, request: ConsumerGroupHeartbeatRequest, pending: Pending, now: Moment
) -> Outcome | ErrorCode:
    """A heartbeat with the epoch of somebody who leaves."""
    member = find(group, request.member_id, request.instance_id)
    if isinstance(member, ErrorCode):
        return member
    response = ConsumerGroupHeartbeatResponse(member_id=request.member_id, member_epoch=request.member_epoch)
    if request.instance_id is not None and request.member_epoch == LEFT_FOR_A_WHILE:
        return Outcome(_left_for_a_while(group, member), (Answer(pending, response),), group.group_id)
    return fence(group, [member], now, [Answer(pending, response)])


def find(group: ConsumerGroup, member_id: str, instance_id: str | None) -> ConsumerMember | ErrorCode:
    """A static member is found by its instance id, and must be the process that came last."""
    if instance_id is None:
        return group.state.members.get(member_id) or ErrorCode.UNKNOWN_MEMBER_ID
    member = group.state.static_member(instance_id)
    if member is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    return member if member.member_id == member_id else ErrorCode.FENCED_INSTANCE_ID


def _left_for_a_while(group: ConsumerGroup, member: ConsumerMember) -> list[GroupRecord]:
    """Its partitions are kept for it until its session ends; whoever comes back has had them from the beginning."""
    away = member._replace(
        member_epoch=LEFT_FOR_A_WHILE,
        assigned={topic: dict.fromkeys(epochs, 0) for topic, epochs in member.assigned.items()},
        revoking=NO_PARTITIONS,
    )
    return [consumer_records.current_assignment(group.group_id, away)]


def fence(
    group: ConsumerGroup, members: Sequence[ConsumerMember], now: Moment, answers: Sequence[Answer] = ()
) -> Outcome:
    if not members:
        return Outcome((), answers, group.group_id)
    if migration.may_downgrade(group, members):
        return migration.downgrade(group, members, answers, now)
    group_id, state, surroundings = group.group_id, group.state, group.surroundings
    records: list[GroupRecord] = []
    leaving: dict[str, int] = {}
    for member in members:
        records += consumer_records.removed_member(group_id, member.member_id)
        if member.expression:
            leaving[member.expression] = leaving.get(member.expression, 0) + 1
    records += [
        consumer_records.no_expression(group_id, expression)
        for expression, count in leaving.items()
        if state.expressions[expression] == count
    ]
    names = state.topic_names_after(members, None)
    metadata_hash = group_hash(names, surroundings.topics, surroundings.topic_hashes)
    records.append(consumer_records.epoch(group_id, state.group_epoch + 1, metadata_hash))
    return Outcome(records, answers, group_id)

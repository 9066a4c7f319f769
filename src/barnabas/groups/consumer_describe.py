"""ConsumerGroupDescribe: a consumer group as administrators see it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from barnabas.errors import ErrorCode
from barnabas.groups.consumer import ConsumerGroup
from barnabas.groups.consumer_member import ConsumerMember
from barnabas.groups.topics import Topics
from barnabas.protocol.messages.consumer_group_describe import (
    Assignment,
    DescribedGroup,
    Member,
    TopicPartitions,
)
from barnabas.types import Uuid

if TYPE_CHECKING:
    from barnabas.groups.shard import GroupShard

CLASSIC_MEMBER = 0
CONSUMER_MEMBER = 1


def describe(shard: GroupShard, group_id: str) -> DescribedGroup:
    group = shard.groups.get(group_id)
    if not isinstance(group, ConsumerGroup):
        reason = f"Group {group_id} not found." if group is None else f"Group {group_id} is not a consumer group."
        return DescribedGroup(group_id=group_id, error_code=ErrorCode.GROUP_ID_NOT_FOUND, error_message=reason)
    state = group.state
    return DescribedGroup(
        group_id=group_id,
        group_state=group.state_name,
        group_epoch=state.group_epoch,
        assignment_epoch=state.assignment_epoch,
        assignor_name=state.assignor or group.surroundings.consumer.assignors[0],
        members=[_member(group, member) for member in state.members.values()],
    )


def _member(group: ConsumerGroup, member: ConsumerMember) -> Member:
    """What it has to give up is still its own."""
    topics = group.surroundings.topics
    owned = {
        topic: [*member.assigned.get(topic, ()), *member.revoking.get(topic, ())]
        for topic in sorted({*member.assigned, *member.revoking})
    }
    return Member(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.member_epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=list(member.topics),
        subscribed_topic_regex=member.expression,
        assignment=_assignment(owned, topics),
        target_assignment=_assignment(group.state.target(member.member_id), topics),
        member_type=CONSUMER_MEMBER if member.classic is None else CLASSIC_MEMBER,
    )


def _assignment(partitions: Mapping[Uuid, Iterable[int]], topics: Topics) -> Assignment:
    named = []
    for topic_id, numbers in partitions.items():
        topic = topics.by_id(topic_id)
        if topic is not None:
            named.append(TopicPartitions(topic_id=topic_id, topic_name=topic.name, partitions=sorted(numbers)))
    return Assignment(topic_partitions=named)

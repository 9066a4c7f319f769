"""The records of consumer groups, made from what they say."""

from collections.abc import Iterable

from barnabas.groups.assignors.specification import Assignment
from barnabas.groups.consumer_member import ConsumerMember
from barnabas.groups.records import GroupRecord
from barnabas.protocol.messages.consumer_group_current_member_assignment_key import (
    ConsumerGroupCurrentMemberAssignmentKey,
)
from barnabas.protocol.messages.consumer_group_member_metadata_key import ConsumerGroupMemberMetadataKey
from barnabas.protocol.messages.consumer_group_metadata_key import ConsumerGroupMetadataKey
from barnabas.protocol.messages.consumer_group_metadata_value import ConsumerGroupMetadataValue
from barnabas.protocol.messages.consumer_group_partition_metadata_key import ConsumerGroupPartitionMetadataKey
from barnabas.protocol.messages.consumer_group_regular_expression_key import ConsumerGroupRegularExpressionKey
from barnabas.protocol.messages.consumer_group_regular_expression_value import ConsumerGroupRegularExpressionValue
from barnabas.protocol.messages.consumer_group_target_assignment_member_key import (
    ConsumerGroupTargetAssignmentMemberKey,
)
from barnabas.protocol.messages.consumer_group_target_assignment_member_value import (
    ConsumerGroupTargetAssignmentMemberValue,
    TopicPartition,
)
from barnabas.protocol.messages.consumer_group_target_assignment_metadata_key import (
    ConsumerGroupTargetAssignmentMetadataKey,
)
from barnabas.protocol.messages.consumer_group_target_assignment_metadata_value import (
    ConsumerGroupTargetAssignmentMetadataValue,
)


def epoch(group_id: str, group_epoch: int, metadata_hash: int) -> GroupRecord:
    value = ConsumerGroupMetadataValue(epoch=group_epoch, metadata_hash=metadata_hash)
    return GroupRecord(ConsumerGroupMetadataKey(group_id=group_id), value)


def member_metadata(group_id: str, member: ConsumerMember) -> GroupRecord:
    key = ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member.member_id)
    return GroupRecord(key, member.metadata())


def current_assignment(group_id: str, member: ConsumerMember) -> GroupRecord:
    key = ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member.member_id)
    return GroupRecord(key, member.current())


def target_assignment(group_id: str, member_id: str, assignment: Assignment) -> GroupRecord:
    value = ConsumerGroupTargetAssignmentMemberValue(
        topic_partitions=[
            TopicPartition(topic_id=topic, partitions=list(partitions))
            for topic, partitions in sorted(assignment.items())
        ]
    )
    return GroupRecord(ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id), value)


def target_epoch(group_id: str, assignment_epoch: int, timestamp_ms: int) -> GroupRecord:
    value = ConsumerGroupTargetAssignmentMetadataValue(
        assignment_epoch=assignment_epoch, assignment_timestamp=timestamp_ms
    )
    return GroupRecord(ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id), value)


def expression(group_id: str, pattern: str, topics: Iterable[str], version: int, timestamp_ms: int) -> GroupRecord:
    value = ConsumerGroupRegularExpressionValue(topics=sorted(topics), version=version, timestamp=timestamp_ms)
    return GroupRecord(ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=pattern), value)


# Tombstones


def no_current_assignment(group_id: str, member_id: str) -> GroupRecord:
    return GroupRecord(ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member_id), None)


def no_target_assignment(group_id: str, member_id: str) -> GroupRecord:
    return GroupRecord(ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id), None)


def no_member(group_id: str, member_id: str) -> GroupRecord:
    return GroupRecord(ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member_id), None)


def no_expression(group_id: str, pattern: str) -> GroupRecord:
    return GroupRecord(ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=pattern), None)


def no_partition_metadata(group_id: str) -> GroupRecord:
    return GroupRecord(ConsumerGroupPartitionMetadataKey(group_id=group_id), None)


def removed_member(group_id: str, member_id: str) -> list[GroupRecord]:
    """In this order: whoever reads the last of them may rely on it that the others were there."""
    return [
        no_current_assignment(group_id, member_id),
        no_target_assignment(group_id, member_id),
        no_member(group_id, member_id),
    ]


def removed_group(group_id: str, member_ids: Iterable[str], patterns: Iterable[str]) -> list[GroupRecord]:
    members = list(member_ids)
    return [
        *(no_current_assignment(group_id, each) for each in members),
        *(no_target_assignment(group_id, each) for each in members),
        GroupRecord(ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id), None),
        *(no_member(group_id, each) for each in members),
        *(no_expression(group_id, each) for each in patterns),
        no_partition_metadata(group_id),
        GroupRecord(ConsumerGroupMetadataKey(group_id=group_id), None),
    ]

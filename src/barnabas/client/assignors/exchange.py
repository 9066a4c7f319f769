"""What members of the classic protocol send each other through the coordinator, for the assignors of this package.

Always holds: what one of our members encodes, one of Java's or librdkafka's decodes, and the other way round.
"""

from collections.abc import Iterable, Mapping, Sequence

from barnabas.client.assignors.cooperative_sticky import COOPERATIVE_STICKY
from barnabas.client.assignors.range import RANGE
from barnabas.client.assignors.round_robin import ROUND_ROBIN
from barnabas.client.assignors.specification import NO_RACKS, Assignor, Member, PartitionCounts, ReplicaRacks
from barnabas.client.assignors.sticky import STICKY
from barnabas.protocol.consumer_protocol import decode_assignment, decode_subscription, encode_with_version, version_of
from barnabas.protocol.messages.consumer_protocol_assignment import ConsumerProtocolAssignment
from barnabas.protocol.messages.consumer_protocol_assignment import TopicPartition as AssignedTopic
from barnabas.protocol.messages.consumer_protocol_subscription import ConsumerProtocolSubscription
from barnabas.protocol.messages.consumer_protocol_subscription import TopicPartition as OwnedTopic
from barnabas.protocol.messages.join_group import JoinGroupResponseMember
from barnabas.types import TopicPartition

ASSIGNORS: Mapping[str, Assignor] = {each.name: each for each in (RANGE, ROUND_ROBIN, STICKY, COOPERATIVE_STICKY)}


def subscription_bytes(
    assignor: Assignor,
    topics: Sequence[str],
    owned: Sequence[TopicPartition],
    previous: Sequence[TopicPartition],
    generation: int,
    rack: str | None,
) -> bytes:
    """`owned` is what the member has as it joins, `previous` what it had last: an eager one has nothing by then."""
    message = ConsumerProtocolSubscription(
        topics=sorted(topics),
        user_data=assignor.user_data(previous, generation),
        owned_partitions=[OwnedTopic(topic=topic, partitions=found) for topic, found in by_topic(owned).items()],
        generation_id=generation,
        rack_id=rack,
    )
    return encode_with_version(message, ConsumerProtocolSubscription.MAX_VERSION)


def assigned_partitions(data: bytes) -> list[TopicPartition]:
    """An assignment of no bytes is one of nothing."""
    if not data:
        return []
    assigned = decode_assignment(data).assigned_partitions
    return [TopicPartition(each.topic, partition) for each in assigned for partition in each.partitions]


def member_of(assignor: Assignor, told: JoinGroupResponseMember) -> Member:
    subscription = decode_subscription(told.metadata)
    owned: Sequence[TopicPartition] = [
        TopicPartition(each.topic, partition) for each in subscription.owned_partitions for partition in each.partitions
    ]
    generation = subscription.generation_id
    if subscription.user_data:
        previous, previous_generation = assignor.previously(subscription.user_data)
        owned = owned or previous or ()
        generation = max(generation, previous_generation)
    rack = subscription.rack_id or None
    return Member(tuple(subscription.topics), tuple(owned), generation, told.group_instance_id, rack)


def assignment_bytes(
    assignor: Assignor,
    told: Iterable[JoinGroupResponseMember],
    partition_counts: PartitionCounts,
    racks: ReplicaRacks = NO_RACKS,
) -> dict[str, bytes]:
    """What each member gets, in a version that it knows: that of its own subscription."""
    told = list(told)
    members = {each.member_id: member_of(assignor, each) for each in told}
    assignments = assignor.assign(partition_counts, members, racks)
    encoded = {}
    for each in told:
        topics = by_topic(assignments[each.member_id])
        message = ConsumerProtocolAssignment(
            assigned_partitions=[AssignedTopic(topic=topic, partitions=found) for topic, found in topics.items()]
        )
        encoded[each.member_id] = encode_with_version(message, version_of(each.metadata))
    return encoded


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    topics: dict[str, list[int]] = {}
    for topic, partition in sorted(partitions):
        topics.setdefault(topic, []).append(partition)
    return topics

"""Between what consumers of the classic protocol say, by names of topics, and what a group knows, by their ids.

Always holds: of topics that are gone, nothing is said. Does not know: the bytes, which protocol/ has.
"""

from barnabas.groups.assignors.specification import Assignment
from barnabas.groups.topics import Topics
from barnabas.protocol.consumer_protocol import encode_with_version
from barnabas.protocol.messages.consumer_protocol_assignment import ConsumerProtocolAssignment, TopicPartition
from barnabas.protocol.messages.consumer_protocol_subscription import ConsumerProtocolSubscription
from barnabas.types import Uuid


def encode_assignment(assignment: Assignment, topics: Topics, version: int) -> bytes:
    """In a version that the reader knows: that of its own subscription."""
    named = []
    for topic_id, partitions in assignment.items():
        topic = topics.by_id(topic_id)
        if topic is not None:
            named.append(TopicPartition(topic=topic.name, partitions=list(partitions)))
    return encode_with_version(ConsumerProtocolAssignment(assigned_partitions=named), version)


def by_topic_id(assigned: ConsumerProtocolAssignment, topics: Topics) -> Assignment:
    found: dict[Uuid, tuple[int, ...]] = {}
    for each in assigned.assigned_partitions:
        topic = topics.by_name(each.topic)
        if topic is not None and each.partitions:
            found[topic.id] = tuple(sorted(each.partitions))
    return found


def owned_by_topic_id(subscription: ConsumerProtocolSubscription, topics: Topics) -> dict[Uuid, list[int]]:
    found: dict[Uuid, list[int]] = {}
    for each in subscription.owned_partitions:
        topic = topics.by_name(each.topic)
        if topic is not None:
            found[topic.id] = each.partitions
    return found

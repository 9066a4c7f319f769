"""What consumers tell each other within the classic protocol, read and written: subscriptions and assignments.

    int16 version | message of that version

Always holds: a newer version than is known here is read as the newest known one, for each begins as the one before it.
Ids of topics become names and names become ids; of topics that are gone, nothing is said.
"""

from barnabas.groups.assignors.specification import Assignment
from barnabas.groups.topics import Topics
from barnabas.protocol.message import DecodeError
from barnabas.protocol.messages.consumer_protocol_assignment import ConsumerProtocolAssignment, TopicPartition
from barnabas.protocol.messages.consumer_protocol_subscription import ConsumerProtocolSubscription
from barnabas.types import Uuid

PROTOCOL_TYPE = "consumer"
VERSION_BYTES = 2


def version_of(data: bytes) -> int:
    if len(data) < VERSION_BYTES:
        raise DecodeError(f"{len(data)} bytes have no version")
    version = int.from_bytes(data[:VERSION_BYTES], "big", signed=True)
    if version < 0:
        raise DecodeError(f"there is no version {version}")
    return version


def decode_subscription(data: bytes) -> ConsumerProtocolSubscription:
    version = min(version_of(data), ConsumerProtocolSubscription.MAX_VERSION)
    decoded, _end = ConsumerProtocolSubscription.decode(memoryview(data), VERSION_BYTES, version)
    return decoded


def decode_assignment(data: bytes) -> ConsumerProtocolAssignment:
    version = min(version_of(data), ConsumerProtocolAssignment.MAX_VERSION)
    decoded, _end = ConsumerProtocolAssignment.decode(memoryview(data), VERSION_BYTES, version)
    return decoded


def encode_assignment(assignment: Assignment, topics: Topics, version: int) -> bytes:
    """In a version that the reader knows: that of its own subscription."""
    version = min(version, ConsumerProtocolAssignment.MAX_VERSION)
    named = []
    for topic_id, partitions in assignment.items():
        topic = topics.by_id(topic_id)
        if topic is not None:
            named.append(TopicPartition(topic=topic.name, partitions=list(partitions)))
    out = bytearray(version.to_bytes(VERSION_BYTES, "big"))
    ConsumerProtocolAssignment(assigned_partitions=named).encode(out, version)
    return bytes(out)


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

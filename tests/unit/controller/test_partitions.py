"""CreatePartitions. Error codes are those that Apache Kafka 4.3.1 gave to the same requests."""

from random import Random
from typing import Any

import pytest
from images import after, broker, cluster, rules

from barnabas.controller import partitions, topics
from barnabas.controller.placement import ReplicaPlacer
from barnabas.errors import ErrorCode
from barnabas.metadata.image import MetadataImage
from barnabas.protocol.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)
from barnabas.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest


def with_topics(image: MetadataImage, replication_factor: int = 1) -> MetadataImage:
    """a has two partitions, b has one."""
    request = CreateTopicsRequest(
        topics=[
            CreatableTopic(name="a", num_partitions=2, replication_factor=replication_factor),
            CreatableTopic(name="b", num_partitions=1, replication_factor=replication_factor),
        ]
    )
    return after(image, topics.create_topics(image, request, rules()).records)


ONE_BROKER = with_topics(cluster())
THREE_BROKERS = with_topics(cluster(broker(1), broker(2), broker(3)), replication_factor=2)


def to(name: str, count: int, *replicas: list[int]) -> CreatePartitionsTopic:
    assignments = [CreatePartitionsAssignment(broker_ids=broker_ids) for broker_ids in replicas]
    return CreatePartitionsTopic(name=name, count=count, assignments=assignments or None)


def create(
    *asked: CreatePartitionsTopic, image: MetadataImage = ONE_BROKER, validate_only: bool = False
) -> tuple[list[Any], list[CreatePartitionsTopicResult]]:
    request = CreatePartitionsRequest(topics=list(asked), validate_only=validate_only)
    decision = partitions.create_partitions(image, request, ReplicaPlacer(Random(1)))
    return list(decision.records), decision.response.results


def test_new_partitions_follow_the_old_ones() -> None:
    records, [result] = create(to("a", 5))
    assert (result.name, result.error_code, result.error_message) == ("a", ErrorCode.NONE, None)
    assert [record.partition_id for record in records] == [2, 3, 4]
    grown = after(ONE_BROKER, records)
    assert list(grown.topics_by_name["a"].partitions) == [0, 1, 2, 3, 4]
    assert grown.topics_by_name["b"] is ONE_BROKER.topics_by_name["b"]


def test_new_partitions_have_as_many_replicas_as_the_old_ones() -> None:
    records, _ = create(to("a", 6), image=THREE_BROKERS)
    assert all(len(record.replicas) == len(set(record.replicas)) == 2 for record in records)


def test_assigned_by_hand() -> None:
    records, [result] = create(to("a", 4, [3, 1], [2, 3]), image=THREE_BROKERS)
    assert result.error_code == ErrorCode.NONE
    assert [(record.replicas, record.leader) for record in records] == [([3, 1], 3), ([2, 3], 2)]


def test_validate_only_writes_nothing() -> None:
    records, [result] = create(to("a", 5), validate_only=True)
    assert not records
    assert result.error_code == ErrorCode.NONE


@pytest.mark.parametrize(
    ("asked", "error"),
    [
        (to("a", 2), ErrorCode.INVALID_PARTITIONS),
        (to("a", 1), ErrorCode.INVALID_PARTITIONS),
        (to("a", 0), ErrorCode.INVALID_PARTITIONS),
        (to("a", -1), ErrorCode.INVALID_PARTITIONS),
        (to("nope", 3), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (to("a", 4, [1, 2]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (to("a", 3, [1, 2], [1, 2]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (to("a", 3, [1]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (to("a", 3, [1, 1]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (to("a", 3, [1, 9]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (to("a", 20_000), ErrorCode.POLICY_VIOLATION),
        (to("a", 2**31 - 1), ErrorCode.POLICY_VIOLATION),
    ],
)
def test_refusals(asked: CreatePartitionsTopic, error: ErrorCode) -> None:
    records, [result] = create(asked, image=THREE_BROKERS)
    assert not records
    assert result.error_code == error


def test_no_place_left() -> None:
    shrunk = THREE_BROKERS._replace(brokers={1: THREE_BROKERS.brokers[1]})
    _, [result] = create(to("a", 3), image=shrunk)
    assert result.error_code == ErrorCode.INVALID_REPLICATION_FACTOR


def test_named_twice_is_not_changed() -> None:
    records, [first, second] = create(to("a", 3), to("a", 4), to("b", 2))
    assert (first.error_code, second.error_code) == (ErrorCode.INVALID_REQUEST, ErrorCode.NONE)
    assert [record.topic_id for record in records] == [ONE_BROKER.topics_by_name["b"].id]


def test_too_many_in_sum_fail_as_one() -> None:
    records, results = create(to("a", 6_000), to("b", 6_000))
    assert not records
    assert [result.error_code for result in results] == [ErrorCode.POLICY_VIOLATION] * 2

"""CreateTopics and DeleteTopics. Error codes are those that Apache Kafka 4.3.1 gave to the same requests."""

from typing import Any

import pytest
from images import after, broker, cluster, directory_of, rules

from barnabas.controller import topics
from barnabas.errors import ErrorCode
from barnabas.metadata.image import MetadataImage, ResourceType
from barnabas.protocol.messages.config_record import ConfigRecord
from barnabas.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreatableTopicResult,
    CreateTopicsRequest,
)
from barnabas.protocol.messages.delete_topics import DeletableTopicResult, DeleteTopicsRequest, DeleteTopicState
from barnabas.protocol.messages.partition_record import PartitionRecord
from barnabas.protocol.messages.remove_topic_record import RemoveTopicRecord
from barnabas.protocol.messages.topic_record import TopicRecord
from barnabas.types import ZERO_UUID

ONE_BROKER = cluster()


def topic(name: str = "orders", partitions: int = 1, replication_factor: int = 1, **fields: Any) -> CreatableTopic:
    return CreatableTopic(name=name, num_partitions=partitions, replication_factor=replication_factor, **fields)


def assigned(*replicas: list[int], name: str = "orders") -> CreatableTopic:
    assignments = [
        CreatableReplicaAssignment(partition_index=index, broker_ids=broker_ids)
        for index, broker_ids in enumerate(replicas)
    ]
    return topic(name, -1, -1, assignments=assignments)


def create(
    *asked: CreatableTopic,
    image: MetadataImage = ONE_BROKER,
    overrides: dict[str, str] | None = None,
    validate_only: bool = False,
    describes: bool = False,
) -> tuple[list[Any], list[CreatableTopicResult]]:
    request = CreateTopicsRequest(topics=list(asked), validate_only=validate_only)
    decision = topics.create_topics(image, request, rules(overrides, describes=describes))
    return list(decision.records), decision.response.topics


def error_of(*asked: CreatableTopic, **settings: Any) -> ErrorCode:
    records, [result] = create(*asked, **settings)
    assert result.error_code == ErrorCode.NONE or not records
    assert result.error_code == ErrorCode.NONE or result.error_message
    return ErrorCode(result.error_code)


def existing(*names: str) -> MetadataImage:
    return after(ONE_BROKER, create(*(topic(name, 2) for name in names))[0])


# Creation


def test_a_topic_becomes_topic_then_configs_then_partitions() -> None:
    config = CreatableTopicConfig(name="retention.ms", value="5000")
    records, [result] = create(topic(partitions=2, configs=[config]))
    assert [type(record) for record in records] == [TopicRecord, ConfigRecord, PartitionRecord, PartitionRecord]
    assert records[0] == TopicRecord(name="orders", topic_id=result.topic_id)
    assert records[1] == ConfigRecord(resource_type=2, resource_name="orders", name="retention.ms", value="5000")
    assert records[3] == PartitionRecord(
        partition_id=1,
        topic_id=result.topic_id,
        replicas=[1],
        isr=[1],
        leader=1,
        leader_epoch=0,
        partition_epoch=0,
        directories=[directory_of(1)],
    )
    assert (result.error_code, result.error_message) == (0, None)
    assert (result.num_partitions, result.replication_factor) == (2, 1)


def test_two_topics_have_two_ids() -> None:
    _, [first, second] = create(topic("a"), topic("b"))
    assert first.topic_id != second.topic_id
    assert ZERO_UUID not in (first.topic_id, second.topic_id)


def test_defaults_of_the_broker() -> None:
    image = cluster(broker(1), broker(2))
    _, [result] = create(
        topic(partitions=-1, replication_factor=-1),
        image=image,
        overrides={"num.partitions": "5", "default.replication.factor": "2"},
    )
    assert (result.num_partitions, result.replication_factor) == (5, 2)


def test_validate_only_answers_but_writes_nothing() -> None:
    records, [result] = create(topic(partitions=3), validate_only=True)
    assert not records
    assert (result.error_code, result.num_partitions) == (0, 3)


def test_configs_are_described_by_source_if_wanted() -> None:
    config = CreatableTopicConfig(name="retention.ms", value="5000")
    _, [result] = create(topic(configs=[config]), describes=True, overrides={"log.segment.bytes": "2000000"})
    described = {entry.name: (entry.value, entry.config_source) for entry in result.configs}
    assert [entry.name for entry in result.configs] == sorted(described)
    assert described["retention.ms"] == ("5000", 1)
    assert described["segment.bytes"] == ("2000000", 4)
    assert described["cleanup.policy"] == ("delete", 5)
    assert not create(topic(), describes=False)[1][0].configs


def test_a_clusters_default_counts_in_the_description() -> None:
    cluster_default = ConfigRecord(resource_type=4, resource_name="", name="min.insync.replicas", value="2")
    _, [result] = create(topic(), describes=True, image=after(ONE_BROKER, [cluster_default]))
    [entry] = [entry for entry in result.configs if entry.name == "min.insync.replicas"]
    assert (entry.value, entry.config_source) == ("2", 3)


def test_of_a_config_given_twice_the_last_counts() -> None:
    twice = [CreatableTopicConfig(name="retention.ms", value=value) for value in ("1", "2")]
    image = after(ONE_BROKER, create(topic(configs=twice))[0])
    assert image.config(ResourceType.TOPIC, "orders") == {"retention.ms": "2"}


# Refusals


@pytest.mark.parametrize("name", ["", ".", "..", "a b", "x" * 250])
def test_bad_names(name: str) -> None:
    assert error_of(topic(name)) == ErrorCode.INVALID_TOPIC_EXCEPTION


def test_the_metadata_topic_cannot_be_created() -> None:
    assert error_of(topic("__cluster_metadata")) == ErrorCode.INVALID_REQUEST


def test_other_internal_topics_can() -> None:
    assert error_of(topic("__consumer_offsets")) == ErrorCode.NONE


def test_a_topic_that_exists_whatever_else_is_wrong() -> None:
    assert error_of(topic(partitions=0), image=existing("orders")) == ErrorCode.TOPIC_ALREADY_EXISTS


def test_names_that_collide_with_an_existing_topic() -> None:
    assert error_of(topic("a_b"), image=existing("a.b")) == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert error_of(topic("a-b"), image=existing("a.b")) == ErrorCode.NONE


def test_named_twice_is_created_never() -> None:
    records, [first, second] = create(topic("a"), topic("a", 3), topic("b"))
    assert (first.name, first.error_code) == ("a", ErrorCode.INVALID_REQUEST)
    assert (second.name, second.error_code) == ("b", ErrorCode.NONE)
    assert [record.name for record in records if isinstance(record, TopicRecord)] == ["b"]


@pytest.mark.parametrize(
    ("partitions", "replication_factor", "error"),
    [
        (0, 1, ErrorCode.INVALID_PARTITIONS),
        (-2, 1, ErrorCode.INVALID_PARTITIONS),
        (1, 0, ErrorCode.INVALID_REPLICATION_FACTOR),
        (1, -2, ErrorCode.INVALID_REPLICATION_FACTOR),
        (1, 2, ErrorCode.INVALID_REPLICATION_FACTOR),
        (0, 0, ErrorCode.INVALID_REPLICATION_FACTOR),
    ],
)
def test_bad_numbers(partitions: int, replication_factor: int, error: ErrorCode) -> None:
    assert error_of(topic("orders", partitions, replication_factor)) == error


def test_no_broker_can_lead() -> None:
    assert error_of(topic(), image=cluster(broker(1, fenced=True))) == ErrorCode.INVALID_REPLICATION_FACTOR


@pytest.mark.parametrize(
    ("name", "value"), [("nope", "1"), ("retention.ms", "x"), ("retention.ms", None), ("segment.bytes", "1")]
)
def test_bad_configs(name: str, value: str | None) -> None:
    config = CreatableTopicConfig(name=name, value=value)
    assert error_of(topic(configs=[config])) == ErrorCode.INVALID_CONFIG


def test_one_bad_topic_does_not_hold_up_the_others() -> None:
    records, results = create(topic("a b"), topic("good"), topic("none", 0))
    assert [result.error_code for result in results] == [17, 0, 37]
    assert records[0].name == "good"


# Limits


def test_as_many_partitions_as_fit_a_batch_with_their_topic() -> None:
    assert error_of(topic(partitions=9_999)) == ErrorCode.NONE
    assert error_of(topic(partitions=10_000)) == ErrorCode.POLICY_VIOLATION
    assert error_of(topic(partitions=2**31 - 1)) == ErrorCode.POLICY_VIOLATION


def test_too_many_in_sum_fail_as_one() -> None:
    for validate_only in (False, True):
        records, results = create(topic("a", 6_000), topic("b", 6_000), validate_only=validate_only)
        assert not records
        assert [result.error_code for result in results] == [ErrorCode.POLICY_VIOLATION] * 2


def test_too_many_topics_are_refused_before_any_is_placed() -> None:
    """One that leaves its number of partitions to the broker has at least one."""
    topics = [topic(f"t{number}", -1, -1) for number in range(10_001)]
    records, results = create(*topics, image=cluster())  # with no broker, a placement would fail in other words
    assert not records
    assert {result.error_code for result in results} == {ErrorCode.POLICY_VIOLATION}


# Replicas assigned by hand

THREE_BROKERS = cluster(broker(1), broker(2), broker(3, fenced=True))


def test_assigned_replicas_are_taken_as_they_are() -> None:
    records, [result] = create(assigned([2, 1], [3, 2]), image=THREE_BROKERS)
    assert (result.num_partitions, result.replication_factor) == (2, 2)
    assert [(record.replicas, record.isr, record.leader) for record in records[1:]] == [
        ([2, 1], [2, 1], 2),
        ([3, 2], [2], 2),  # 3 is fenced: it can neither lead nor be in sync
    ]
    assert records[2].directories == [directory_of(3), directory_of(2)]


@pytest.mark.parametrize(
    "replicas", [[[]], [[1, 1]], [[9]], [[1], [1, 2]], [[3]]], ids=["none", "twice", "unknown", "uneven", "fenced"]
)
def test_bad_assignments(replicas: list[list[int]]) -> None:
    assert error_of(assigned(*replicas), image=THREE_BROKERS) == ErrorCode.INVALID_REPLICA_ASSIGNMENT


def test_assigned_partitions_are_numbered_from_0_with_no_gap() -> None:
    gap = assigned([1], [1])
    gap.assignments[1].partition_index = 2
    assert error_of(gap) == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    twice = assigned([1], [1])
    twice.assignments[1].partition_index = 0
    assert error_of(twice) == ErrorCode.INVALID_REPLICA_ASSIGNMENT


def test_assigned_replicas_and_numbers_exclude_each_other() -> None:
    for field in ("num_partitions", "replication_factor"):
        asked = assigned([1])
        setattr(asked, field, 1)
        assert error_of(asked) == ErrorCode.INVALID_REQUEST


# Deletion


def delete(image: MetadataImage, *asked: Any) -> tuple[list[Any], list[DeletableTopicResult]]:
    names = [each for each in asked if isinstance(each, str)]
    states = [each for each in asked if not isinstance(each, str)]
    decision = topics.delete_topics(image, DeleteTopicsRequest(topic_names=names, topics=states))
    return list(decision.records), decision.response.responses


def by_id(topic_id: bytes, name: str | None = None) -> DeleteTopicState:
    return DeleteTopicState(name=name, topic_id=topic_id)


def test_by_name_in_old_and_new_versions() -> None:
    image = existing("a", "b")
    for asked in ("a", DeleteTopicState(name="a")):
        records, [result] = delete(image, asked)
        topic_id = image.topics_by_name["a"].id
        assert records == [RemoveTopicRecord(topic_id=topic_id)]
        assert (result.name, result.topic_id, result.error_code, result.error_message) == ("a", topic_id, 0, None)
        assert list(after(image, records).topics_by_name) == ["b"]


def test_by_id() -> None:
    image = existing("a", "b")
    topic_id = image.topics_by_name["b"].id
    records, [result] = delete(image, by_id(topic_id))
    assert records == [RemoveTopicRecord(topic_id=topic_id)]
    assert (result.name, result.topic_id, result.error_code) == ("b", topic_id, 0)


def test_what_is_not_there_or_not_meant() -> None:
    records, results = delete(
        existing("a"), by_id(b"?" * 16), DeleteTopicState(name="nope"), by_id(ZERO_UUID), by_id(b"?" * 16, "a")
    )
    assert not records
    assert [(result.name, result.error_code) for result in results] == [
        (None, ErrorCode.UNKNOWN_TOPIC_ID),
        ("nope", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (None, ErrorCode.INVALID_REQUEST),
        ("a", ErrorCode.INVALID_REQUEST),
    ]


def test_named_twice_is_not_deleted() -> None:
    image = existing("a", "b")
    records, [first, second] = delete(image, "a", "b", "a")
    assert (first.name, first.error_code) == ("a", ErrorCode.INVALID_REQUEST)
    assert (second.name, second.error_code) == ("b", ErrorCode.NONE)
    assert records == [RemoveTopicRecord(topic_id=image.topics_by_name["b"].id)]


@pytest.mark.parametrize("name_first", [True, False])
def test_named_by_name_and_by_id_is_not_deleted(name_first: bool) -> None:
    image = existing("a")
    topic_id = image.topics_by_name["a"].id
    asked = [DeleteTopicState(name="a"), by_id(topic_id)]
    records, [result] = delete(image, *(asked if name_first else reversed(asked)))
    assert not records
    assert (result.name, result.topic_id, result.error_code) == ("a", topic_id, ErrorCode.INVALID_REQUEST)

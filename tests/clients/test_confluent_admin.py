"""Administration through librdkafka: topics, partitions, configs, records, offsets and the cluster itself."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from broker_process import wait_until
from client_libraries import confluent_kafka as ck
from confluent_io import DELIVERY_SECONDS_MAX, deliver, read
from confluent_kafka.admin import (
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

Admin = ck.admin.AdminClient
MakeTopic = Callable[..., str]
MakeProducer = Callable[..., ck.Producer]
NO_TOPIC_ID = "AAAAAAAAAAAAAAAAAAAAAA"


def error_of(future) -> ck.KafkaError:
    with pytest.raises(ck.KafkaException) as caught:
        future.result(DELIVERY_SECONDS_MAX)
    return caught.value.args[0]


def described(admin: Admin, topic: str) -> dict[str, ConfigEntry]:
    resource = ConfigResource(ResourceType.TOPIC, topic)
    return admin.describe_configs([resource])[resource].result(DELIVERY_SECONDS_MAX)


def partition_count(admin: Admin, topic: str) -> int:
    """0 where there is no such topic. Unlike list_topics by name, this asks for no creation."""
    try:
        found = admin.describe_topics(ck.TopicCollection([topic]))[topic].result(DELIVERY_SECONDS_MAX)
    except ck.KafkaException as problem:
        if problem.args[0].code() != ck.KafkaError.UNKNOWN_TOPIC_OR_PART:
            raise
        return 0
    return len(found.partitions)


def test_create_list_describe_delete(admin: Admin, topic_name: Callable[[], str]):
    topic = topic_name()
    admin.create_topics([NewTopic(topic, 3, 1)])[topic].result(DELIVERY_SECONDS_MAX)
    wait_until(lambda: partition_count(admin, topic) == 3, "the topic is listed with its partitions")
    found = admin.list_topics(timeout=DELIVERY_SECONDS_MAX).topics[topic]
    broker_ids = list(admin.list_topics(timeout=DELIVERY_SECONDS_MAX).brokers)
    for number, partition in found.partitions.items():
        assert (partition.id, partition.leader) == (number, broker_ids[0])
        assert partition.replicas == partition.isrs == broker_ids
    admin.delete_topics([topic])[topic].result(DELIVERY_SECONDS_MAX)
    wait_until(lambda: topic not in admin.list_topics(timeout=DELIVERY_SECONDS_MAX).topics, "the topic is gone")


def test_topic_ids_are_new_for_each_life_of_a_name(admin: Admin, topic_name: Callable[[], str]):
    topic = topic_name()

    def topic_id() -> str:
        asked = ck.TopicCollection([topic])
        description = admin.describe_topics(asked)[topic].result(DELIVERY_SECONDS_MAX)
        assert description.name == topic
        assert not description.is_internal
        assert str(description.topic_id) != NO_TOPIC_ID
        return str(description.topic_id)

    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(DELIVERY_SECONDS_MAX)
    wait_until(lambda: partition_count(admin, topic) == 1, "the topic is listed")
    first = topic_id()
    assert topic_id() == first
    admin.delete_topics([topic])[topic].result(DELIVERY_SECONDS_MAX)
    wait_until(lambda: partition_count(admin, topic) == 0, "the topic is gone")
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(DELIVERY_SECONDS_MAX)
    wait_until(lambda: partition_count(admin, topic) == 1, "the topic is listed again")
    assert topic_id() != first


def test_a_new_life_of_a_topic_starts_empty(
    admin: Admin, topic_name: Callable[[], str], new_producer: MakeProducer, new_consumer
):
    topic = topic_name()
    for value in (b"first life", b"second life"):
        admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(DELIVERY_SECONDS_MAX)
        wait_until(lambda: partition_count(admin, topic) == 1, "the topic is listed")
        assert deliver(new_producer(), topic, [{"value": value}])[0].offset() == 0
        assert read(new_consumer(), topic, 1)[0].value() == value
        admin.delete_topics([topic])[topic].result(DELIVERY_SECONDS_MAX)
        wait_until(lambda: partition_count(admin, topic) == 0, "the topic is gone")


def test_what_create_refuses(admin: Admin, new_topic: MakeTopic, topic_name: Callable[[], str]):
    def refused(topic: NewTopic) -> int:
        return error_of(admin.create_topics([topic])[topic.topic]).code()

    existing = new_topic()
    errors = ck.KafkaError
    assert refused(NewTopic(existing, 1, 1)) == errors.TOPIC_ALREADY_EXISTS
    assert refused(NewTopic("bad name!", 1, 1)) == errors.TOPIC_EXCEPTION
    assert refused(NewTopic("..", 1, 1)) == errors.TOPIC_EXCEPTION
    assert refused(NewTopic("x" * 250, 1, 1)) == errors.TOPIC_EXCEPTION
    assert refused(NewTopic(topic_name(), 0, 1)) == errors.INVALID_PARTITIONS
    assert refused(NewTopic(topic_name(), 1, 7)) == errors.INVALID_REPLICATION_FACTOR
    assert refused(NewTopic(topic_name(), 1, 1, config={"no.such.config": "1"})) == errors.INVALID_CONFIG
    assert refused(NewTopic(topic_name(), 1, 1, config={"retention.ms": "soon"})) == errors.INVALID_CONFIG
    unknown_broker = NewTopic(topic_name(), 1, replica_assignment=[[4711]])
    assert refused(unknown_broker) == errors.INVALID_REPLICA_ASSIGNMENT


def test_names_that_differ_only_by_dot_and_underscore_collide(admin: Admin, topic_name: Callable[[], str]):
    stem = topic_name()
    admin.create_topics([NewTopic(f"{stem}.a", 1, 1)])[f"{stem}.a"].result(DELIVERY_SECONDS_MAX)
    twin = f"{stem}_a"
    assert error_of(admin.create_topics([NewTopic(twin, 1, 1)])[twin]).code() == ck.KafkaError.TOPIC_EXCEPTION


def test_validate_only_creates_nothing(admin: Admin, topic_name: Callable[[], str]):
    topic = topic_name()
    admin.create_topics([NewTopic(topic, 1, 1)], validate_only=True)[topic].result(DELIVERY_SECONDS_MAX)
    assert topic not in admin.list_topics(timeout=DELIVERY_SECONDS_MAX).topics


def test_broker_defaults_for_partitions_and_replicas(admin: Admin, topic_name: Callable[[], str]):
    topic = topic_name()
    admin.create_topics([NewTopic(topic, -1, -1)])[topic].result(DELIVERY_SECONDS_MAX)
    wait_until(lambda: partition_count(admin, topic) >= 1, "the topic is listed")


def test_delete_of_an_unknown_topic(admin: Admin, topic_name: Callable[[], str]):
    topic = topic_name()
    assert error_of(admin.delete_topics([topic])[topic]).code() == ck.KafkaError.UNKNOWN_TOPIC_OR_PART


def test_create_partitions(admin: Admin, new_topic: MakeTopic, new_producer: MakeProducer, new_consumer):
    topic = new_topic(partitions=2)
    admin.create_partitions([NewPartitions(topic, 5)])[topic].result(DELIVERY_SECONDS_MAX)
    wait_until(lambda: partition_count(admin, topic) == 5, "the new partitions are listed")
    deliver(new_producer(), topic, [{"value": b"new", "partition": 4}])
    assert read(new_consumer(), topic, 1, partition=4)[0].value() == b"new"
    for count in (5, 3):
        error = error_of(admin.create_partitions([NewPartitions(topic, count)])[topic])
        assert error.code() == ck.KafkaError.INVALID_PARTITIONS


def test_describe_configs_names_value_source_and_synonyms(admin: Admin, new_topic: MakeTopic):
    entries = described(admin, new_topic(config={"retention.ms": "123456", "cleanup.policy": "delete"}))
    retention = entries["retention.ms"]
    assert retention.value == "123456"
    assert not retention.is_default
    assert not retention.is_read_only
    assert not retention.is_sensitive
    assert ConfigSource(retention.source) == ConfigSource.DYNAMIC_TOPIC_CONFIG
    assert "retention.ms" in retention.synonyms
    segment = entries["segment.bytes"]
    assert segment.value == str(1 << 30)
    assert segment.is_default
    assert ConfigSource(segment.source) == ConfigSource.DEFAULT_CONFIG
    assert "log.segment.bytes" in segment.synonyms


def test_describe_configs_of_the_broker(admin: Admin):
    broker_id = next(iter(admin.list_topics(timeout=DELIVERY_SECONDS_MAX).brokers))
    resource = ConfigResource(ResourceType.BROKER, str(broker_id))
    entries = admin.describe_configs([resource])[resource].result(DELIVERY_SECONDS_MAX)
    assert entries["message.max.bytes"].value == "1048588"
    assert entries["log.retention.hours"].value == "168"
    assert entries["node.id"].value == str(broker_id)
    assert entries["node.id"].is_read_only
    assert not entries["message.max.bytes"].is_read_only


def test_describe_configs_of_unknown_resources(admin: Admin, topic_name: Callable[[], str]):
    resource = ConfigResource(ResourceType.TOPIC, topic_name())
    assert error_of(admin.describe_configs([resource])[resource]).code() == ck.KafkaError.UNKNOWN_TOPIC_OR_PART
    resource = ConfigResource(ResourceType.BROKER, "4711")
    future = admin.describe_configs([resource], request_timeout=1)[resource]
    with pytest.raises(ck.KafkaException):
        future.result(DELIVERY_SECONDS_MAX)


def incremental(admin: Admin, topic: str, *changes: tuple[str, str | None, AlterConfigOpType]):
    entries = [ConfigEntry(name, value, incremental_operation=operation) for name, value, operation in changes]
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=entries)
    return admin.incremental_alter_configs([resource])[resource]


def test_incremental_alter_configs(admin: Admin, new_topic: MakeTopic):
    topic = new_topic(config={"retention.ms": "1000", "cleanup.policy": "delete"})
    incremental(
        admin,
        topic,
        ("retention.ms", None, AlterConfigOpType.DELETE),
        ("segment.ms", "77777", AlterConfigOpType.SET),
        ("cleanup.policy", "compact", AlterConfigOpType.APPEND),
    ).result(DELIVERY_SECONDS_MAX)
    wait_until(lambda: described(admin, topic)["segment.ms"].value == "77777", "the change is seen")
    entries = described(admin, topic)
    assert entries["retention.ms"].is_default
    assert entries["cleanup.policy"].value == "delete,compact"
    incremental(admin, topic, ("cleanup.policy", "delete", AlterConfigOpType.SUBTRACT)).result(DELIVERY_SECONDS_MAX)
    wait_until(lambda: described(admin, topic)["cleanup.policy"].value == "compact", "the change is seen")


def test_incremental_alter_configs_refuses_bad_values(admin: Admin, new_topic: MakeTopic):
    topic = new_topic()
    set_to = AlterConfigOpType.SET
    for name, value in (("retention.ms", "soon"), ("no.such.config", "1"), ("compression.type", "rar")):
        assert error_of(incremental(admin, topic, (name, value, set_to))).code() == ck.KafkaError.INVALID_CONFIG
    appended = incremental(admin, topic, ("retention.ms", "5", AlterConfigOpType.APPEND))
    assert error_of(appended).code() == ck.KafkaError.INVALID_CONFIG
    assert described(admin, topic)["retention.ms"].is_default


def test_alter_configs_replaces_all(admin: Admin, new_topic: MakeTopic):
    topic = new_topic(config={"retention.ms": "1000", "segment.ms": "2000"})
    resource = ConfigResource(ResourceType.TOPIC, topic, set_config={"retention.ms": "3000"})
    with pytest.warns(DeprecationWarning, match="alter_configs"):
        future = admin.alter_configs([resource])[resource]
    future.result(DELIVERY_SECONDS_MAX)
    wait_until(lambda: described(admin, topic)["retention.ms"].value == "3000", "the change is seen")
    assert described(admin, topic)["segment.ms"].is_default


def test_dynamic_broker_config_takes_effect(admin: Admin, new_topic: MakeTopic):
    """A setting of the running broker shows up as a topic's inherited value, and goes away again."""
    topic = new_topic()
    broker_id = next(iter(admin.list_topics(timeout=DELIVERY_SECONDS_MAX).brokers))
    name, value = "log.segment.delete.delay.ms", "61234"

    def alter(operation: AlterConfigOpType, text: str | None) -> None:
        entry = ConfigEntry(name, text, incremental_operation=operation)
        resource = ConfigResource(ResourceType.BROKER, str(broker_id), incremental_configs=[entry])
        admin.incremental_alter_configs([resource])[resource].result(DELIVERY_SECONDS_MAX)

    alter(AlterConfigOpType.SET, value)
    try:
        wait_until(lambda: described(admin, topic)["file.delete.delay.ms"].value == value, "topics inherit it")
        entry = described(admin, topic)["file.delete.delay.ms"]
        assert ConfigSource(entry.source) == ConfigSource.DYNAMIC_BROKER_CONFIG
    finally:
        alter(AlterConfigOpType.DELETE, None)
    wait_until(lambda: described(admin, topic)["file.delete.delay.ms"].value == "60000", "the default is back")


def test_delete_records(admin: Admin, new_topic: MakeTopic, new_producer: MakeProducer, new_consumer):
    topic = new_topic()
    deliver(new_producer(), topic, [{"value": b"%d" % number} for number in range(100)])

    def delete_before(offset: int):
        asked = ck.TopicPartition(topic, 0, offset)
        return admin.delete_records([asked])[asked]

    assert delete_before(40).result(DELIVERY_SECONDS_MAX).low_watermark == 40
    consumer = new_consumer()
    assert consumer.get_watermark_offsets(ck.TopicPartition(topic, 0), DELIVERY_SECONDS_MAX) == (40, 100)
    assert [message.offset() for message in read(consumer, topic, 60)] == list(range(40, 100))
    assert error_of(delete_before(101)).code() == ck.KafkaError.OFFSET_OUT_OF_RANGE
    assert delete_before(ck.OFFSET_END).result(DELIVERY_SECONDS_MAX).low_watermark == 100
    assert consumer.get_watermark_offsets(ck.TopicPartition(topic, 0), DELIVERY_SECONDS_MAX) == (100, 100)
    assert deliver(new_producer(), topic, [{"value": b"next"}])[0].offset() == 100


def test_list_offsets(admin: Admin, new_topic: MakeTopic, new_producer: MakeProducer):
    topic = new_topic()
    partition = ck.TopicPartition(topic, 0)

    def listed(spec: OffsetSpec) -> tuple[int, int]:
        answer = admin.list_offsets({partition: spec})[partition].result(DELIVERY_SECONDS_MAX)
        return answer.offset, answer.timestamp

    assert listed(OffsetSpec.earliest()) == (0, -1)
    assert listed(OffsetSpec.latest()) == (0, -1)
    assert listed(OffsetSpec.max_timestamp()) == (-1, -1)
    base = 1_700_000_000_000
    timestamps = [base, base + 500, base + 300, base + 100]
    records = [{"value": b"x", "timestamp": timestamp} for timestamp in timestamps]
    deliver(new_producer(batch_num_messages=1), topic, records)
    assert listed(OffsetSpec.latest()) == (4, -1)
    assert listed(OffsetSpec.max_timestamp()) == (1, base + 500)
    assert listed(OffsetSpec.for_timestamp(base + 200)) == (1, base + 500)
    assert listed(OffsetSpec.for_timestamp(base + 501)) == (-1, -1)
    old = ck.TopicPartition(topic, 0, 2)
    admin.delete_records([old])[old].result(DELIVERY_SECONDS_MAX)
    assert listed(OffsetSpec.earliest()) == (2, -1)
    assert listed(OffsetSpec.for_timestamp(0)) == (2, base + 300)


def test_list_offsets_of_an_unknown_partition(admin: Admin, new_topic: MakeTopic):
    partition = ck.TopicPartition(new_topic(), 9)
    future = admin.list_offsets({partition: OffsetSpec.latest()}, request_timeout=1)[partition]
    with pytest.raises(ck.KafkaException):
        future.result(DELIVERY_SECONDS_MAX)


def test_describe_cluster(admin: Admin, served: str):
    cluster = admin.describe_cluster().result(DELIVERY_SECONDS_MAX)
    metadata = admin.list_topics(timeout=DELIVERY_SECONDS_MAX)
    assert cluster.cluster_id
    assert cluster.cluster_id == metadata.cluster_id
    assert [f"{node.host}:{node.port}" for node in cluster.nodes] == [served]
    assert cluster.controller.id in [node.id for node in cluster.nodes]

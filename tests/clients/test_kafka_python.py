"""kafka-python's producer, consumer and admin client, groups apart: partitions are assigned by hand."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import closing

import kafka.codec
import pytest
from broker_process import wait_until
from client_libraries import kafka
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType
from kafka.errors import KafkaError, MessageSizeTooLargeError, TopicAlreadyExistsError, UnknownTopicOrPartitionError

WAIT_SECONDS = 120
# Its message schemas are read on first use, by a call that newer Pythons deprecate.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


@pytest.fixture
def python_admin(served: str) -> Iterator[KafkaAdminClient]:
    with closing(KafkaAdminClient(bootstrap_servers=served)) as client:
        yield client


@pytest.fixture
def consumer(served: str) -> Iterator[KafkaConsumer]:
    settings = {"auto_offset_reset": "earliest", "consumer_timeout_ms": WAIT_SECONDS * 1000}
    with closing(KafkaConsumer(bootstrap_servers=served, group_id=None, **settings)) as client:
        yield client


def send_all(served: str, topic: str, records: list[dict[str, object]], **settings: object) -> list:
    with closing(KafkaProducer(bootstrap_servers=served, **settings)) as producer:
        futures = [producer.send(topic, **record) for record in records]
        producer.flush(timeout=WAIT_SECONDS)
        return [future.get(timeout=WAIT_SECONDS) for future in futures]


def take(consumer: KafkaConsumer, topic: str, count: int, offset: int = 0) -> list:
    partition = TopicPartition(topic, 0)
    consumer.assign([partition])
    consumer.seek(partition, offset)
    messages = [next(consumer) for _ in range(count)]
    assert [message.offset for message in messages] == list(range(offset, offset + count))
    return messages


def require_codec(codec: str | None) -> None:
    if codec is not None and not getattr(kafka.codec, f"has_{codec}")():
        pytest.skip(f"kafka-python finds no library for {codec} here")


@pytest.mark.parametrize("codec", [None, "gzip", "snappy", "lz4", "zstd"])
def test_every_codec(served: str, new_topic: Callable[..., str], consumer: KafkaConsumer, codec: str | None):
    require_codec(codec)
    topic = new_topic()
    values = [bytes([number % 256]) * (number * 37 % 5_000) for number in range(300)]
    records = [{"value": value, "key": b"%d" % number} for number, value in enumerate(values)]
    sent = send_all(served, topic, records, compression_type=codec, linger_ms=20)
    assert [metadata.offset for metadata in sent] == list(range(300))
    messages = take(consumer, topic, 300)
    assert [message.value for message in messages] == values
    assert [message.key for message in messages] == [b"%d" % number for number in range(300)]


@pytest.mark.parametrize("acks", [0, 1, "all"])
def test_every_kind_of_acknowledgement(served: str, new_topic: Callable[..., str], consumer: KafkaConsumer, acks):
    topic = new_topic()
    records = [{"value": b"%d" % number} for number in range(50)]
    send_all(served, topic, records, acks=acks, enable_idempotence=False)
    assert [message.value for message in take(consumer, topic, 50)] == [b"%d" % number for number in range(50)]


def test_headers_timestamps_and_nulls(served: str, new_topic: Callable[..., str], consumer: KafkaConsumer):
    topic = new_topic()
    headers = [("a", b"1"), ("a", b"2"), ("empty", b"")]
    records = [
        {"key": b"k", "value": None, "headers": headers, "timestamp_ms": 1_234},
        {"key": None, "value": b"", "timestamp_ms": 1_600_000_000_000},
        {"key": b"", "value": b"v", "timestamp_ms": 7},
    ]
    send_all(served, topic, records)
    first, second, third = take(consumer, topic, 3)
    assert (first.key, first.value, first.timestamp, list(first.headers)) == (b"k", None, 1_234, headers)
    assert (second.key, second.value, second.timestamp) == (None, b"", 1_600_000_000_000)
    assert (third.key, third.value, third.timestamp) == (b"", b"v", 7)


def test_idempotent_producer(served: str, new_topic: Callable[..., str], consumer: KafkaConsumer):
    topic = new_topic()
    records = [{"value": b"%d" % number} for number in range(500)]
    settings = {"enable_idempotence": True, "max_in_flight_requests_per_connection": 5, "batch_size": 1024}
    sent = send_all(served, topic, records, **settings)
    assert [metadata.offset for metadata in sent] == list(range(500))
    assert [message.value for message in take(consumer, topic, 500)] == [b"%d" % number for number in range(500)]


def test_too_large_a_message(served: str, new_topic: Callable[..., str]):
    topic = new_topic(config={"max.message.bytes": "2000"})
    with pytest.raises(MessageSizeTooLargeError):
        send_all(served, topic, [{"value": b"x" * 3_000}])
    send_all(served, topic, [{"value": b"x" * 1_000}])


def test_beginning_and_end_offsets(
    served: str, new_topic: Callable[..., str], consumer: KafkaConsumer, python_admin: KafkaAdminClient
):
    topic = new_topic()
    partition = TopicPartition(topic, 0)
    send_all(served, topic, [{"value": b"%d" % number} for number in range(20)])
    assert consumer.beginning_offsets([partition]) == {partition: 0}
    assert consumer.end_offsets([partition]) == {partition: 20}
    python_admin.delete_records({partition: 5})
    assert consumer.beginning_offsets([partition]) == {partition: 5}
    take(consumer, topic, 15, offset=5)


def test_offsets_for_times(served: str, new_topic: Callable[..., str], consumer: KafkaConsumer):
    topic = new_topic()
    partition = TopicPartition(topic, 0)
    base = 1_700_000_000_000
    send_all(served, topic, [{"value": b"x", "timestamp_ms": base + 10 * number} for number in range(50)])
    found = consumer.offsets_for_times({partition: base + 101})[partition]
    assert (found.offset, found.timestamp) == (11, base + 110)
    assert consumer.offsets_for_times({partition: base + 1_000})[partition] is None


def test_topics_by_name_and_by_id(python_admin: KafkaAdminClient, topic_name: Callable[[], str]):
    topic = topic_name()
    python_admin.create_topics({topic: {"num_partitions": 2, "replication_factor": 1}}, wait_for_metadata=True)
    assert topic in python_admin.list_topics()
    by_name = python_admin.describe_topics([topic])[0]
    assert len(by_name["partitions"]) == 2
    with pytest.raises(TopicAlreadyExistsError):
        python_admin.create_topics({topic: {"num_partitions": 2, "replication_factor": 1}})
    by_id = python_admin.describe_topics([uuid.UUID(str(by_name["topic_id"]))])[0]
    assert by_id["name"] == topic
    python_admin.delete_topics([topic])
    wait_until(lambda: topic not in python_admin.list_topics(), "the topic is gone")
    with pytest.raises(UnknownTopicOrPartitionError):
        python_admin.delete_topics([topic])


def test_describe_topic_partitions_page_by_page(python_admin: KafkaAdminClient, new_topic: Callable[..., str]):
    topic = new_topic(partitions=5)
    wait_until(lambda: topic in python_admin.list_topics(), "the topic is listed")
    seen: list[int] = []
    cursor = None
    while True:
        page = python_admin.describe_topic_partitions([topic], response_partition_limit=2, cursor=cursor)
        found = [partition["partition_index"] for partition in page["topics"][0]["partitions"]]
        assert 1 <= len(found) <= 2
        seen += found
        cursor = page["next_cursor"]
        if cursor is None:
            break
    assert seen == [0, 1, 2, 3, 4]


def test_configs(python_admin: KafkaAdminClient, new_topic: Callable[..., str]):
    topic = new_topic()

    def modified() -> dict[str, str]:
        resource = ConfigResource(ConfigResourceType.TOPIC, topic)
        found = python_admin.describe_configs([resource])["topic"][topic]
        return {name: entry["value"] for name, entry in found.items() if "DYNAMIC_TOPIC" in entry["config_source"]}

    assert modified() == {}
    change = {"retention.ms": "5000", "max.message.bytes": "2000"}
    python_admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic, change)])
    wait_until(lambda: modified() == change, "the change is seen")
    python_admin.reset_configs([ConfigResource(ConfigResourceType.TOPIC, topic, {"retention.ms": None})])
    wait_until(lambda: modified() == {"max.message.bytes": "2000"}, "the reset is seen")


def test_partitions_grow(served: str, python_admin: KafkaAdminClient, new_topic: Callable[..., str]):
    topic = new_topic(partitions=1)
    python_admin.create_partitions({topic: 3})
    wait_until(lambda: len(python_admin.describe_topics([topic])[0]["partitions"]) == 3, "all partitions are listed")
    assert send_all(served, topic, [{"value": b"x", "partition": 2}])[0].partition == 2


def test_cluster_quorum_and_features(python_admin: KafkaAdminClient):
    cluster = python_admin.describe_cluster()
    quorum = python_admin.describe_metadata_quorum()
    partition = quorum["topics"][0]["partitions"][0]
    assert quorum["topics"][0]["topic_name"] == "__cluster_metadata"
    assert partition["leader_id"] in [voter["replica_id"] for voter in partition["current_voters"]]
    assert partition["high_watermark"] > 0
    assert cluster["cluster_id"]
    assert "metadata.version" in python_admin.describe_features()


def test_log_directories(served: str, python_admin: KafkaAdminClient, new_topic: Callable[..., str]):
    topic = new_topic()
    send_all(served, topic, [{"value": b"x" * 1_000}])
    directories = [directory for node in python_admin.describe_log_dirs() for directory in node["log_dirs"]]
    sizes = {
        (found["name"], partition["partition_index"]): partition["partition_size"]
        for directory in directories
        for found in directory["topics"]
        for partition in found["partitions"]
    }
    assert sizes[topic, 0] > 1_000


def test_active_producers_are_described(served: str, python_admin: KafkaAdminClient, new_topic: Callable[..., str]):
    topic = new_topic()
    partition = TopicPartition(topic, 0)
    send_all(served, topic, [{"value": b"x"}] * 3, enable_idempotence=True, linger_ms=50)
    (producer,) = python_admin.describe_producers([partition])[partition].active_producers
    assert producer.producer_id >= 0
    assert producer.producer_epoch == 0
    assert producer.last_sequence == 2


def test_config_resources_are_listed(python_admin: KafkaAdminClient, new_topic: Callable[..., str]):
    topic = new_topic(config={"retention.ms": "99"})
    assert topic in python_admin.list_config_resources(["TOPIC"])["topic"]


def test_errors_are_kafka_errors(python_admin: KafkaAdminClient, topic_name: Callable[[], str]):
    with pytest.raises(KafkaError):
        python_admin.delete_records({TopicPartition(topic_name(), 0): 0})

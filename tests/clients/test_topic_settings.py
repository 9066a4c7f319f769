"""Settings of a topic that change what the broker does with its records."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from broker_process import wait_until
from client_libraries import confluent_kafka as ck
from confluent_io import DELIVERY_SECONDS_MAX, deliver, read
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, OffsetSpec, ResourceType

Admin = ck.admin.AdminClient


def set_config(admin: Admin, topic: str, name: str, value: str) -> None:
    entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    admin.incremental_alter_configs([resource])[resource].result(DELIVERY_SECONDS_MAX)
    asked = ConfigResource(ResourceType.TOPIC, topic)
    wait_until(
        lambda: admin.describe_configs([asked])[asked].result(DELIVERY_SECONDS_MAX)[name].value == value,
        f"{name} is {value}",
    )


@pytest.mark.parametrize("codec", ["none", "gzip", "lz4"])
def test_log_append_time(admin: Admin, new_topic, new_producer, new_consumer, codec):
    """The broker stamps the batch; the producer learns the time, readers see it, and time lookups go by it."""
    topic = new_topic(config={"message.timestamp.type": "LogAppendTime"})
    before = int(time.time() * 1000)
    records = [{"value": b"%d" % number, "timestamp": 1_000} for number in range(10)]
    delivered = deliver(new_producer(compression_type=codec), topic, records)
    after = int(time.time() * 1000)
    for message in (*delivered, *read(new_consumer(check_crcs=True), topic, 10)):
        kind, timestamp = message.timestamp()
        assert kind == ck.TIMESTAMP_LOG_APPEND_TIME
        assert before <= timestamp <= after
    partition = ck.TopicPartition(topic, 0)
    found = admin.list_offsets({partition: OffsetSpec.for_timestamp(before)})[partition].result(DELIVERY_SECONDS_MAX)
    assert found.offset == 0


def test_timestamp_type_changed_on_the_fly(admin: Admin, new_topic, new_producer, new_consumer):
    topic = new_topic()
    producer = new_producer()
    deliver(producer, topic, [{"value": b"mine", "timestamp": 1_000}])
    set_config(admin, topic, "message.timestamp.type", "LogAppendTime")
    deliver(producer, topic, [{"value": b"the broker's", "timestamp": 1_000}])
    kinds = [message.timestamp()[0] for message in read(new_consumer(), topic, 2)]
    assert kinds == [ck.TIMESTAMP_CREATE_TIME, ck.TIMESTAMP_LOG_APPEND_TIME]


@pytest.mark.parametrize("stored", ["uncompressed", "gzip", "snappy", "lz4", "zstd", "producer"])
@pytest.mark.parametrize("sent", ["none", "gzip", "zstd"])
def test_compression_type_of_the_topic(new_topic, new_producer, new_consumer, stored, sent):
    topic = new_topic(config={"compression.type": stored})
    values = [b"%d " % number * 50 for number in range(200)]
    headers = [("h", b"1")]
    records = [
        {"value": value, "key": b"k", "headers": headers, "timestamp": 1_000 + number}
        for number, value in enumerate(values)
    ]
    deliver(new_producer(compression_type=sent, linger_ms=20), topic, records)
    messages = read(new_consumer(check_crcs=True), topic, 200)
    assert [message.value() for message in messages] == values
    assert [message.offset() for message in messages] == list(range(200))
    assert [message.timestamp()[1] for message in messages] == [1_000 + number for number in range(200)]
    assert all(message.headers() == headers and message.key() == b"k" for message in messages)


def test_recompression_saves_space(admin: Admin, new_topic, new_producer, stored_bytes: Callable[[str], int]):
    plain = new_topic(config={"compression.type": "uncompressed"})
    packed = new_topic(config={"compression.type": "zstd"})
    producer = new_producer(compression_type="gzip", linger_ms=20)
    for topic in (plain, packed):
        deliver(producer, topic, [{"value": b"a" * 1_000}] * 200)
    assert stored_bytes(plain) > 200_000
    assert stored_bytes(packed) < 20_000


def test_message_limit_changed_on_the_fly(admin: Admin, new_topic, new_producer):
    topic = new_topic(config={"max.message.bytes": "1000"})
    producer = new_producer()
    errors: list[ck.KafkaError | None] = []
    producer.produce(topic, value=b"x" * 2_000, on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(DELIVERY_SECONDS_MAX) == 0
    assert errors[0].code() == ck.KafkaError.MSG_SIZE_TOO_LARGE
    set_config(admin, topic, "max.message.bytes", "5000")
    deliver(producer, topic, [{"value": b"x" * 2_000}])


def test_old_timestamps_can_be_refused(new_topic, new_producer):
    topic = new_topic(config={"message.timestamp.before.max.ms": "1000"})
    producer = new_producer()
    errors: list[ck.KafkaError | None] = []
    producer.produce(topic, value=b"x", timestamp=1_000, on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(DELIVERY_SECONDS_MAX) == 0
    assert errors[0].code() == ck.KafkaError.INVALID_TIMESTAMP
    deliver(producer, topic, [{"value": b"x"}])


def test_a_compacted_topic_wants_keys(new_topic, new_producer):
    topic = new_topic(config={"cleanup.policy": "compact"})
    producer = new_producer(retries=0)
    errors: list[ck.KafkaError | None] = []
    producer.produce(topic, value=b"no key", on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(DELIVERY_SECONDS_MAX) == 0
    assert errors[0].code() == ck.KafkaError.INVALID_RECORD
    deliver(producer, topic, [{"key": b"k", "value": b"with a key"}])


def test_small_segments_roll_and_read_back(new_topic, new_producer, new_consumer):
    topic = new_topic(config={"segment.bytes": "1048576", "index.interval.bytes": "100"})
    values = [bytes([number % 256]) * 20_000 for number in range(300)]
    deliver(new_producer(batch_num_messages=2), topic, [{"value": value} for value in values])
    consumer = new_consumer()
    assert [message.value() for message in read(consumer, topic, 300)] == values
    for offset in (299, 0, 150, 52, 53, 104):
        assert read(consumer, topic, 1, offset=offset)[0].value() == values[offset]

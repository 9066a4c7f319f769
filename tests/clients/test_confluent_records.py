"""Records through librdkafka: what was written is what is read, in every form a record can take."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable

import pytest
from client_libraries import confluent_kafka as ck
from confluent_io import DELIVERY_SECONDS_MAX, deliver, read

NewTopic = Callable[..., str]
NewProducer = Callable[..., ck.Producer]
NewConsumer = Callable[..., ck.Consumer]


def values_of_many_sizes(seed: int, count: int) -> list[bytes]:
    """Compressible and incompressible values, mostly small and a few large."""
    chance = random.Random(seed)
    sizes = [chance.choice((0, 1, 10, 100, 1_000, 10_000)) for _ in range(count)] + [200_000]
    return [chance.randbytes(size) if chance.random() < 0.5 else bytes([size % 251]) * size for size in sizes]


@pytest.mark.parametrize("acks", [0, 1, "all"])
def test_every_kind_of_acknowledgement(new_topic: NewTopic, new_producer: NewProducer, new_consumer: NewConsumer, acks):
    topic = new_topic()
    values = [b"value %d" % number for number in range(200)]
    delivered = deliver(new_producer(acks=acks), topic, [{"value": value} for value in values])
    if acks != 0:
        assert [message.offset() for message in delivered] == list(range(200))
    assert [message.value() for message in read(new_consumer(), topic, 200)] == values


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("idempotent", [False, True])
def test_every_codec(new_topic: NewTopic, new_producer: NewProducer, new_consumer: NewConsumer, codec, idempotent):
    topic = new_topic()
    values = values_of_many_sizes(seed=7, count=300)
    producer = new_producer(compression_type=codec, enable_idempotence=idempotent)
    delivered = deliver(producer, topic, [{"value": value} for value in values])
    assert [message.offset() for message in delivered] == list(range(len(values)))
    messages = read(new_consumer(check_crcs=True), topic, len(values))
    assert [message.value() for message in messages] == values
    assert [message.offset() for message in messages] == list(range(len(values)))


def test_null_and_empty_keys_and_values(new_topic: NewTopic, new_producer: NewProducer, new_consumer: NewConsumer):
    topic = new_topic()
    pairs = [(key, value) for key in (None, b"", b"k") for value in (None, b"", b"v")]
    deliver(new_producer(), topic, [{"key": key, "value": value, "partition": 0} for key, value in pairs])
    # confluent-kafka itself hands an empty key over as none at all; values keep the difference.
    expected = [(key or None, value) for key, value in pairs]
    messages = read(new_consumer(), topic, len(pairs))
    assert [(message.key() or None, message.value()) for message in messages] == expected


def test_headers_in_order_with_repeats_and_nulls(
    new_topic: NewTopic, new_producer: NewProducer, new_consumer: NewConsumer
):
    topic = new_topic()
    headers = [("a", b"1"), ("a", b"2"), ("empty", b""), ("none", None), ("ключ", bytes(range(256)))]
    deliver(new_producer(), topic, [{"value": b"with", "headers": headers}, {"value": b"without"}])
    first, second = read(new_consumer(), topic, 2)
    assert first.headers() == headers
    assert second.headers() is None


def test_timestamps_are_the_producers(new_topic: NewTopic, new_producer: NewProducer, new_consumer: NewConsumer):
    topic = new_topic()
    timestamps = [1_000, 1_600_000_000_000, 5, 1_500_000_000_123]
    deliver(new_producer(), topic, [{"value": b"x", "timestamp": timestamp} for timestamp in timestamps])
    messages = read(new_consumer(), topic, len(timestamps))
    assert [message.timestamp() for message in messages] == [(ck.TIMESTAMP_CREATE_TIME, t) for t in timestamps]


def test_offsets_for_times(new_topic: NewTopic, new_producer: NewProducer, new_consumer: NewConsumer):
    """Batches of one record each, so that the answer is exact whatever the index knows."""
    topic = new_topic()
    producer = new_producer(batch_num_messages=1)
    base = 1_700_000_000_000
    deliver(producer, topic, [{"value": b"x", "timestamp": base + 10 * number} for number in range(500)])
    consumer = new_consumer()

    def offset_at(timestamp: int) -> int:
        asked = ck.TopicPartition(topic, 0, timestamp)
        return consumer.offsets_for_times([asked], timeout=DELIVERY_SECONDS_MAX)[0].offset

    assert offset_at(0) == 0
    assert offset_at(base) == 0
    assert offset_at(base + 1) == 1
    assert offset_at(base + 2_500) == 250
    assert offset_at(base + 2_501) == 251
    assert offset_at(base + 4_990) == 499
    assert offset_at(base + 4_991) == ck.OFFSET_END


def test_offset_for_a_time_inside_a_compressed_batch(
    new_topic: NewTopic, new_producer: NewProducer, new_consumer: NewConsumer
):
    topic = new_topic()
    base = 1_700_000_000_000
    producer = new_producer(compression_type="zstd", linger_ms=200, batch_num_messages=1000)
    records = [{"value": b"x", "timestamp": base + number} for number in range(100)]
    for record in records:
        producer.produce(topic, **record)
    assert producer.flush(DELIVERY_SECONDS_MAX) == 0
    asked = ck.TopicPartition(topic, 0, base + 42)
    assert new_consumer().offsets_for_times([asked], timeout=DELIVERY_SECONDS_MAX)[0].offset == 42


def test_watermarks_follow_the_log(new_topic: NewTopic, new_producer: NewProducer, new_consumer: NewConsumer):
    topic = new_topic()
    consumer = new_consumer()
    partition = ck.TopicPartition(topic, 0)
    assert consumer.get_watermark_offsets(partition, timeout=DELIVERY_SECONDS_MAX) == (0, 0)
    deliver(new_producer(), topic, [{"value": b"x"}] * 25)
    assert consumer.get_watermark_offsets(partition, timeout=DELIVERY_SECONDS_MAX) == (0, 25)


def test_keys_stay_on_their_partition(new_topic: NewTopic, new_producer: NewProducer, new_consumer: NewConsumer):
    topic = new_topic(partitions=5)
    keys = [b"key %d" % (number % 40) for number in range(400)]
    delivered = deliver(new_producer(partitioner="murmur2_random"), topic, [{"key": k, "value": k} for k in keys])
    places = {message.key(): message.partition() for message in delivered}
    assert len(set(places.values())) == 5
    consumer = new_consumer()
    for partition in range(5):
        expected = [key for key in keys if places[key] == partition]
        messages = read(consumer, topic, len(expected), partition=partition)
        assert [message.key() for message in messages] == expected


def test_message_at_and_above_the_limit(new_topic: NewTopic, new_producer: NewProducer, new_consumer: NewConsumer):
    """The limit is of the batch as stored, header included; librdkafka's own limit is lifted out of the way."""
    topic = new_topic(config={"max.message.bytes": "100000"})
    producer = new_producer(message_max_bytes=2_000_000)
    largest = b"m" * (100_000 - 61 - 12)
    deliver(producer, topic, [{"value": largest}])
    errors: list[ck.KafkaError] = []
    producer.produce(topic, value=b"m" * 100_000, on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(DELIVERY_SECONDS_MAX) == 0
    assert errors[0].code() == ck.KafkaError.MSG_SIZE_TOO_LARGE
    deliver(producer, topic, [{"value": b"after"}])
    assert [message.value() for message in read(new_consumer(), topic, 2)] == [largest, b"after"]


def test_default_message_limit(new_topic: NewTopic, new_producer: NewProducer, new_consumer: NewConsumer):
    """1 MiB and the overhead of a batch, Kafka's default message.max.bytes."""
    topic = new_topic()
    producer = new_producer(message_max_bytes=4_000_000)
    deliver(producer, topic, [{"value": b"x" * 1_048_500}])
    errors: list[ck.KafkaError] = []
    producer.produce(topic, value=b"x" * 1_048_588, on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(DELIVERY_SECONDS_MAX) == 0
    assert errors[0].code() == ck.KafkaError.MSG_SIZE_TOO_LARGE


def test_a_waiting_consumer_sees_a_record_long_before_its_wait_ends(
    new_topic: NewTopic, new_producer: NewProducer, new_consumer: NewConsumer
):
    """The consumer may wait five minutes for data; the test ends much sooner only if an append ends the wait."""
    topic = new_topic()
    consumer = new_consumer(fetch_wait_max_ms=290_000, socket_timeout_ms=300_000, fetch_min_bytes=1)
    consumer.assign([ck.TopicPartition(topic, 0, 0)])
    assert consumer.poll(0.1) is None  # by now its first fetch waits at the broker
    producer = new_producer()
    for number in range(10):
        deliver(producer, topic, [{"value": b"%d" % number}])
        message = consumer.poll(DELIVERY_SECONDS_MAX)
        assert message is not None
        assert message.error() is None
        assert message.value() == b"%d" % number


def test_small_fetches_read_everything(new_topic: NewTopic, new_producer: NewProducer, new_consumer: NewConsumer):
    """A batch larger than every limit of the fetch still comes, whole."""
    topic = new_topic(partitions=3)
    producer = new_producer()
    values = [bytes([number]) * 50_000 for number in range(20)]
    for partition in range(3):
        deliver(producer, topic, [{"value": value, "partition": partition} for value in values])
    consumer = new_consumer(
        fetch_message_max_bytes=1_000, fetch_max_bytes=1_048_588, message_max_bytes=1_048_588, queued_min_messages=1
    )
    for partition in range(3):
        messages = read(consumer, topic, len(values), partition=partition)
        assert [message.value() for message in messages] == values


def test_two_consumers_read_the_same_at_once(new_topic: NewTopic, new_producer: NewProducer, new_consumer: NewConsumer):
    topic = new_topic()
    values = [b"%d" % number for number in range(5_000)]
    consumers = [new_consumer(), new_consumer()]
    results: dict[int, list[bytes]] = {}

    def run(number: int) -> None:
        results[number] = [message.value() for message in read(consumers[number], topic, len(values))]

    threads = [threading.Thread(target=run, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    deliver(new_producer(), topic, [{"value": value} for value in values])
    for thread in threads:
        thread.join()
    assert results == {0: values, 1: values}


@pytest.mark.parametrize(("reset", "expected"), [("earliest", b"0"), ("latest", b"new")])
def test_an_offset_out_of_range_resets(
    new_topic: NewTopic, new_producer: NewProducer, new_consumer: NewConsumer, reset, expected
):
    topic = new_topic()
    producer = new_producer()
    deliver(producer, topic, [{"value": b"%d" % number} for number in range(10)])
    consumer = new_consumer(auto_offset_reset=reset, enable_partition_eof=True)
    consumer.assign([ck.TopicPartition(topic, 0, 1_000)])
    message = consumer.poll(DELIVERY_SECONDS_MAX)
    assert message is not None
    if reset == "latest":
        assert message.error().code() == ck.KafkaError._PARTITION_EOF
        assert message.offset() == 10
        deliver(producer, topic, [{"value": b"new"}])
        message = consumer.poll(DELIVERY_SECONDS_MAX)
    assert message.value() == expected


def test_an_offset_out_of_range_is_an_error_if_asked(
    new_topic: NewTopic, new_producer: NewProducer, new_consumer: NewConsumer
):
    topic = new_topic()
    deliver(new_producer(), topic, [{"value": b"x"}])
    consumer = new_consumer(auto_offset_reset="error")
    consumer.assign([ck.TopicPartition(topic, 0, 99)])
    message = consumer.poll(DELIVERY_SECONDS_MAX)
    assert message is not None
    assert message.error().code() == ck.KafkaError._AUTO_OFFSET_RESET


def test_a_topic_is_created_by_the_first_record(
    topic_name: Callable[[], str], new_producer: NewProducer, new_consumer: NewConsumer
):
    topic = topic_name()
    deliver(new_producer(), topic, [{"value": b"first", "partition": 0}])
    assert [message.value() for message in read(new_consumer(), topic, 1)] == [b"first"]


def test_a_consumer_does_not_create_topics(
    topic_name: Callable[[], str], new_consumer: NewConsumer, admin: ck.admin.AdminClient
):
    """Consumers ask for no creation, whatever the broker would allow."""
    topic = topic_name()
    found = new_consumer().list_topics(topic, DELIVERY_SECONDS_MAX).topics[topic]
    assert found.error.code() == ck.KafkaError.UNKNOWN_TOPIC_OR_PART
    assert topic not in admin.list_topics(timeout=DELIVERY_SECONDS_MAX).topics


def test_idempotent_producers_side_by_side(new_topic: NewTopic, new_producer: NewProducer, new_consumer: NewConsumer):
    topic = new_topic(partitions=2)
    producers = [new_producer(enable_idempotence=True, linger_ms=0) for _ in range(3)]
    for round_number in range(20):
        for number, producer in enumerate(producers):
            for partition in range(2):
                producer.produce(topic, value=b"%d %d" % (number, round_number), partition=partition)
                producer.poll(0)
    for producer in producers:
        assert producer.flush(DELIVERY_SECONDS_MAX) == 0
    for partition in range(2):
        messages = [message.value() for message in read(new_consumer(), topic, 60, partition=partition)]
        for number in range(3):
            own = [value for value in messages if value.startswith(b"%d " % number)]
            assert own == [b"%d %d" % (number, round_number) for round_number in range(20)]

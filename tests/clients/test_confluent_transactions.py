"""Transactions as librdkafka makes them: it speaks the versions before KIP-890's second part."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable

import pytest
from broker_process import BrokerProcess, wait_until
from client_libraries import confluent_kafka as ck
from confluent_io import DELIVERY_SECONDS_MAX, create_topic, deliver, open_consumer
from confluent_kafka.admin import AdminClient

_numbers = itertools.count(1)
NewProducer = Callable[..., ck.Producer]
NewConsumer = Callable[..., ck.Consumer]
NewTopic = Callable[..., str]
SECONDS = DELIVERY_SECONDS_MAX


def new_id() -> str:
    return f"transactional.{os.getpid()}.{next(_numbers)}"


def connect(address: str, transactional_id: str | None = None) -> ck.Producer:
    settings = {
        "bootstrap.servers": address,
        "linger.ms": 1,
        "transactional.id": transactional_id or new_id(),
        "reconnect.backoff.max.ms": 200,
        "retry.backoff.ms": 20,
    }
    producer = ck.Producer(settings)
    producer.init_transactions(SECONDS)
    return producer


def write(producer: ck.Producer, topic: str, *values: bytes, partition: int = 0) -> None:
    """Within the transaction; what is delivered is in the log, decided or not."""
    deliver(producer, topic, [{"value": value, "partition": partition} for value in values])


def end_offset(consumer: ck.Consumer, topic: str, partition: int = 0) -> int:
    """As far as this consumer may see."""
    end: int = consumer.get_watermark_offsets(ck.TopicPartition(topic, partition), SECONDS, cached=False)[1]
    return end


def read_all(consumer: ck.Consumer, topic: str, partition: int = 0) -> list[bytes]:
    """Everything up to the end that this consumer may see."""
    end = end_offset(consumer, topic, partition)
    consumer.assign([ck.TopicPartition(topic, partition, ck.OFFSET_BEGINNING)])
    values: list[bytes] = []

    def is_done() -> bool:
        for message in consumer.consume(100, 0.1):
            assert message.error() is None, message.error()
            values.append(message.value())
        (position,) = consumer.position([ck.TopicPartition(topic, partition)])
        return position.offset >= end or (end == 0 and not values)

    wait_until(is_done, f"{topic} is read up to {end}")
    return values


def read_committed(new_consumer: NewConsumer, topic: str, partition: int = 0) -> list[bytes]:
    return read_all(new_consumer(isolation_level="read_committed"), topic, partition)


def committed_offset(consumer: ck.Consumer, topic: str, partition: int = 0) -> int:
    (found,) = consumer.committed([ck.TopicPartition(topic, partition)], SECONDS)
    offset: int = found.offset
    return offset


def test_what_is_committed_is_seen_and_what_is_aborted_is_not(
    served: str, new_consumer: NewConsumer, new_topic: NewTopic
) -> None:
    topic = new_topic()
    producer = connect(served)
    producer.begin_transaction()
    write(producer, topic, b"a", b"b")
    producer.commit_transaction(SECONDS)
    producer.begin_transaction()
    write(producer, topic, b"never")
    producer.abort_transaction(SECONDS)
    producer.begin_transaction()
    write(producer, topic, b"c")
    producer.commit_transaction(SECONDS)
    assert read_committed(new_consumer, topic) == [b"a", b"b", b"c"]
    everything = new_consumer(isolation_level="read_uncommitted")
    assert read_all(everything, topic) == [b"a", b"b", b"never", b"c"]
    assert end_offset(everything, topic) == 7  # with a marker after each transaction


def test_an_open_transaction_holds_back_what_follows_it(
    served: str, new_consumer: NewConsumer, new_topic: NewTopic
) -> None:
    topic = new_topic()
    open_one = connect(served)
    other = connect(served)
    open_one.begin_transaction()
    write(open_one, topic, b"open")
    other.begin_transaction()
    write(other, topic, b"other")
    other.commit_transaction(SECONDS)
    assert end_offset(new_consumer(isolation_level="read_committed"), topic) == 0
    assert end_offset(new_consumer(isolation_level="read_uncommitted"), topic) == 3
    waiting = new_consumer(isolation_level="read_committed")
    waiting.assign([ck.TopicPartition(topic, 0, 0)])
    assert waiting.consume(1, 0.3) == []
    open_one.abort_transaction(SECONDS)
    (message,) = waiting.consume(1, SECONDS)
    assert message.value() == b"other"


def test_a_transaction_over_many_partitions_is_one(served: str, new_consumer: NewConsumer, new_topic: NewTopic) -> None:
    topic, other = new_topic(partitions=8), new_topic()
    producer = connect(served)
    for ending, value in ((producer.abort_transaction, b"x"), (producer.commit_transaction, b"y")):
        producer.begin_transaction()
        for partition in range(8):
            write(producer, topic, value, partition=partition)
        write(producer, other, value)
        ending(SECONDS)
    for partition in range(8):
        assert read_committed(new_consumer, topic, partition) == [b"y"]
    assert read_committed(new_consumer, other) == [b"y"]


def test_offsets_count_with_the_commit_only(
    served: str, new_producer: NewProducer, new_consumer: NewConsumer, new_topic: NewTopic
) -> None:
    source, sink = new_topic(), new_topic()
    deliver(new_producer(), source, [{"value": b"%d" % number, "partition": 0} for number in range(10)])
    consumer = new_consumer(group_id=new_id(), isolation_level="read_committed")
    producer = connect(served)

    def copy(offset: int) -> None:
        producer.begin_transaction()
        write(producer, sink, b"%d" % offset)
        position = ck.TopicPartition(source, 0, offset)
        producer.send_offsets_to_transaction([position], consumer.consumer_group_metadata(), SECONDS)

    copy(4)
    with pytest.raises(ck.KafkaException) as unstable:  # librdkafka asks for stable offsets, until its time is up
        consumer.committed([ck.TopicPartition(source, 0)], 0.5)
    assert unstable.value.args[0].code() == ck.KafkaError._TIMED_OUT
    producer.abort_transaction(SECONDS)
    assert committed_offset(consumer, source) == ck.OFFSET_INVALID
    copy(5)
    producer.commit_transaction(SECONDS)
    assert committed_offset(consumer, source) == 5
    copy(7)
    producer.abort_transaction(SECONDS)
    assert committed_offset(consumer, source) == 5
    assert read_committed(new_consumer, sink) == [b"5"]


def test_a_second_producer_fences_the_first_and_ends_what_it_began(
    served: str, new_consumer: NewConsumer, new_topic: NewTopic
) -> None:
    topic = new_topic()
    transactional_id = new_id()
    first = connect(served, transactional_id)
    first.begin_transaction()
    write(first, topic, b"first")
    second = connect(served, transactional_id)
    with pytest.raises(ck.KafkaException) as fenced:
        first.commit_transaction(SECONDS)
    assert fenced.value.args[0].code() in (ck.KafkaError._FENCED, ck.KafkaError.PRODUCER_FENCED)
    second.begin_transaction()
    write(second, topic, b"second")
    second.commit_transaction(SECONDS)
    assert read_committed(new_consumer, topic) == [b"second"]


def test_a_timeout_beyond_the_maximum_is_refused(served: str) -> None:
    settings = {"bootstrap.servers": served, "transactional.id": new_id(), "transaction.timeout.ms": 900_001}
    producer = ck.Producer(settings)
    with pytest.raises(ck.KafkaException) as refused:
        producer.init_transactions(SECONDS)
    assert refused.value.args[0].code() == ck.KafkaError.INVALID_TRANSACTION_TIMEOUT


def test_a_transaction_over_a_deleted_topic_ends(
    served: str, admin: AdminClient, new_consumer: NewConsumer, new_topic: NewTopic
) -> None:
    gone, kept = new_topic(), new_topic()
    producer = connect(served)
    producer.begin_transaction()
    write(producer, gone, b"gone")
    write(producer, kept, b"kept")
    admin.delete_topics([gone])[gone].result(SECONDS)
    producer.commit_transaction(SECONDS)
    producer.begin_transaction()
    write(producer, kept, b"next")
    producer.commit_transaction(SECONDS)
    assert read_committed(new_consumer, kept) == [b"kept", b"next"]


@pytest.mark.parametrize("how", ["stop", "kill"])
def test_transactions_survive_a_restart_in_every_state(disk_broker: BrokerProcess, how: str) -> None:
    address = disk_broker.address
    admin = AdminClient({"bootstrap.servers": address})
    for topic in ("ended", "open", "dead"):
        create_topic(admin, topic)

    ended, going_on, dead = connect(address, "ended"), connect(address, "open"), connect(address, "dead")
    ended.begin_transaction()
    write(ended, "ended", b"committed")
    ended.commit_transaction(SECONDS)
    ended.begin_transaction()
    write(ended, "ended", b"aborted")
    ended.abort_transaction(SECONDS)
    for producer, topic in ((going_on, "open"), (dead, "dead")):
        producer.begin_transaction()
        write(producer, topic, b"before")
    offsets = [ck.TopicPartition("ended", 0, 2)]
    going_on.send_offsets_to_transaction(
        offsets, open_consumer(address, group_id="g").consumer_group_metadata(), SECONDS
    )
    getattr(disk_broker, how)()
    disk_broker.start()
    write(going_on, "open", b"after")
    going_on.commit_transaction(SECONDS)
    ended.begin_transaction()
    write(ended, "ended", b"again")
    ended.commit_transaction(SECONDS)
    successor = connect(address, "dead")  # which aborts what the dead one had begun
    successor.begin_transaction()
    write(successor, "dead", b"successor")
    successor.commit_transaction(SECONDS)
    reader = open_consumer(address, isolation_level="read_committed", group_id="g")
    assert read_all(reader, "ended") == [b"committed", b"again"]
    assert read_all(reader, "open") == [b"before", b"after"]
    assert read_all(reader, "dead") == [b"successor"]
    assert committed_offset(reader, "ended") == 2
    reader.close()

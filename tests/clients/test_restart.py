"""What clients keep when a broker on disk stops and starts again, a million records included."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

import pytest
from broker_process import BrokerProcess
from client_libraries import confluent_kafka as ck
from confluent_io import DELIVERY_SECONDS_MAX, create_topic, deliver, open_consumer, read
from confluent_kafka.admin import AdminClient

RECORDS = 1_000_000
NewConsumer = Callable[..., ck.Consumer]


@pytest.fixture
def new_disk_consumer(disk_broker: BrokerProcess) -> Iterator[NewConsumer]:
    consumers: list[ck.Consumer] = []

    def create(**settings: object) -> ck.Consumer:
        consumers.append(open_consumer(disk_broker.address, **settings))
        return consumers[-1]

    yield create
    for consumer in consumers:
        consumer.close()


def value_at(offset: int) -> bytes:
    return b"%d:%x" % (offset, offset * 2654435761)


def produce_all(producer: ck.Producer, topic: str, count: int) -> None:
    for offset in range(count):
        while True:
            try:
                producer.produce(topic, value_at(offset), partition=0)
                break
            except BufferError:
                producer.poll(0.05)
    assert producer.flush(DELIVERY_SECONDS_MAX) == 0


def check_at(consumer: ck.Consumer, topic: str, offset: int, count: int) -> None:
    for number, message in enumerate(read(consumer, topic, count, offset=offset)):
        assert message.offset() == offset + number
        assert message.value() == value_at(offset + number)


def check_everything(consumer: ck.Consumer, topic: str) -> None:
    consumer.assign([ck.TopicPartition(topic, 0, 0)])
    expected = 0
    while expected < RECORDS:
        for message in consumer.consume(10_000, DELIVERY_SECONDS_MAX):
            assert message.error() is None
            assert message.offset() == expected
            assert message.value() == value_at(expected)
            expected += 1


def test_a_million_records_at_random_offsets_with_a_restart_in_between(
    disk_broker: BrokerProcess, new_disk_consumer: NewConsumer
):
    """Every record is equal to what was sent, read in order once and then from random offsets, and after a restart."""
    topic = "million"
    settings = {"bootstrap.servers": disk_broker.address, "linger.ms": 5, "enable.idempotence": True}
    producer = ck.Producer({**settings, "queue.buffering.max.messages": 500_000, "compression.type": "lz4"})
    create_topic(AdminClient(settings), topic, config={"segment.bytes": "2097152", "index.interval.bytes": "4096"})
    produce_all(producer, topic, RECORDS)
    check_everything(new_disk_consumer(), topic)
    chance = random.Random(1)
    small = {"queued_min_messages": 1, "fetch_message_max_bytes": 20_000, "fetch_queue_backoff_ms": 1}
    for _ in range(2):
        consumer = new_disk_consumer(**small)
        for _ in range(60):
            offset = chance.randrange(RECORDS)
            check_at(consumer, topic, offset, min(20, RECORDS - offset))
        assert len(list(disk_broker.node_directory.glob(f"{topic}-0/*.log"))) > 3
        disk_broker.restart()


def test_topics_configs_and_ids_survive(disk_broker: BrokerProcess):
    admin = AdminClient({"bootstrap.servers": disk_broker.address})

    def facts() -> tuple[object, ...]:
        found = admin.describe_topics(ck.TopicCollection(["kept"]))["kept"].result(DELIVERY_SECONDS_MAX)
        resource = ck.admin.ConfigResource(ck.admin.ResourceType.TOPIC, "kept")
        entries = admin.describe_configs([resource])[resource].result(DELIVERY_SECONDS_MAX)
        cluster = admin.describe_cluster().result(DELIVERY_SECONDS_MAX)
        return (str(found.topic_id), len(found.partitions), entries["retention.ms"].value, cluster.cluster_id)

    create_topic(admin, "kept", 7, {"retention.ms": "4711"})
    create_topic(admin, "deleted", 2)
    admin.delete_topics(["deleted"])["deleted"].result(DELIVERY_SECONDS_MAX)
    before = facts()
    assert before[1:3] == (7, "4711")
    disk_broker.restart()
    assert facts() == before
    assert list(admin.list_topics(timeout=DELIVERY_SECONDS_MAX).topics) == ["kept"]


def test_the_log_start_survives(disk_broker: BrokerProcess, new_disk_consumer: NewConsumer):
    admin = AdminClient({"bootstrap.servers": disk_broker.address})
    create_topic(admin, "trimmed")
    producer = ck.Producer({"bootstrap.servers": disk_broker.address})
    deliver(producer, "trimmed", [{"value": b"%d" % number} for number in range(50)])
    asked = ck.TopicPartition("trimmed", 0, 30)
    admin.delete_records([asked])[asked].result(DELIVERY_SECONDS_MAX)
    disk_broker.restart()
    consumer = new_disk_consumer()
    assert consumer.get_watermark_offsets(ck.TopicPartition("trimmed", 0), DELIVERY_SECONDS_MAX) == (30, 50)
    assert [message.value() for message in read(consumer, "trimmed", 20)] == [b"%d" % n for n in range(30, 50)]


def test_an_idempotent_producer_goes_on_after_a_restart(disk_broker: BrokerProcess, new_disk_consumer: NewConsumer):
    """Same producer, same sequence numbers: nothing twice, nothing missing, no new producer id needed."""
    producer = ck.Producer(
        {
            "bootstrap.servers": disk_broker.address,
            "enable.idempotence": True,
            "reconnect.backoff.ms": 10,
            "reconnect.backoff.max.ms": 50,
        }
    )
    create_topic(AdminClient({"bootstrap.servers": disk_broker.address}), "exactly")
    for part in range(3):
        deliver(producer, "exactly", [{"value": b"%d" % number} for number in range(part * 100, part * 100 + 100)])
        disk_broker.restart()
    values = [message.value() for message in read(new_disk_consumer(), "exactly", 300)]
    assert values == [b"%d" % number for number in range(300)]


def test_a_waiting_consumer_goes_on_after_a_restart(disk_broker: BrokerProcess, new_disk_consumer: NewConsumer):
    settings = {"bootstrap.servers": disk_broker.address, "reconnect.backoff.ms": 10, "reconnect.backoff.max.ms": 50}
    producer = ck.Producer(settings)
    create_topic(AdminClient(settings), "followed")
    consumer = new_disk_consumer(reconnect_backoff_ms=10, reconnect_backoff_max_ms=50)
    consumer.assign([ck.TopicPartition("followed", 0, 0)])
    for number in range(3):
        deliver(producer, "followed", [{"value": b"%d" % number}])
        message = consumer.poll(DELIVERY_SECONDS_MAX)
        while message is not None and message.error() and message.error().retriable():
            message = consumer.poll(DELIVERY_SECONDS_MAX)
        assert message is not None
        assert message.error() is None, message.error()
        assert message.value() == b"%d" % number
        disk_broker.restart()

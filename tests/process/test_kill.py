"""kill -9 under load: what was acknowledged is still there, once and in order."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from broker_process import BrokerProcess, wait_until
from client_libraries import confluent_kafka as ck
from confluent_io import DELIVERY_SECONDS_MAX, create_topic, open_consumer, read
from confluent_kafka.admin import AdminClient
from wire import Closed, Wire, batch, fetch, produce, whole_records
from wire import create_topic as create_topic_by_wire

KILLS = 3


@pytest.fixture
def broker(tmp_path: Path):
    with BrokerProcess(data=tmp_path) as process:
        yield process


def restart_killed(broker: BrokerProcess) -> None:
    broker.kill()
    broker.start()  # on the same port


def test_everything_acknowledged_survives_kills_under_load(broker: BrokerProcess):
    """An idempotent producer keeps sending while the broker is killed three times: no loss, no duplicate."""
    settings = {"bootstrap.servers": broker.address, "reconnect.backoff.ms": 10, "reconnect.backoff.max.ms": 50}
    create_topic(AdminClient(settings), "load", config={"segment.bytes": "1048576"})
    producer = ck.Producer({**settings, "enable.idempotence": True, "linger.ms": 1, "retry.backoff.ms": 10})
    acknowledged: list[bytes] = []
    failed: list[ck.KafkaError] = []
    stop = threading.Event()

    def report(error: ck.KafkaError | None, message: ck.Message) -> None:
        if error is None:
            acknowledged.append(message.value())
        else:
            failed.append(error)

    def send() -> None:
        number = 0
        while not stop.is_set():
            try:
                producer.produce("load", b"%d:" % number + b"x" * 200, partition=0, on_delivery=report)
                number += 1
            except BufferError:
                pass
            producer.poll(0.0001)

    sender = threading.Thread(target=send)
    sender.start()
    try:
        for _ in range(KILLS):
            reached = len(acknowledged) + 2_000
            wait_until(lambda reached=reached: len(acknowledged) >= reached or failed, "the load goes on")
            restart_killed(broker)
        reached = len(acknowledged) + 2_000
        wait_until(lambda: len(acknowledged) >= reached or failed, "the load goes on after the last kill")
    finally:
        stop.set()
        sender.join()
    assert producer.flush(DELIVERY_SECONDS_MAX) == 0
    assert not failed, failed[0]
    consumer = open_consumer(broker.address, check_crcs=True)
    try:
        stored = [message.value() for message in read(consumer, "load", len(acknowledged))]
        _, end = consumer.get_watermark_offsets(ck.TopicPartition("load", 0), DELIVERY_SECONDS_MAX)
    finally:
        consumer.close()
    assert stored == acknowledged
    assert end == len(acknowledged)


def test_plain_producers_lose_nothing_acknowledged(broker: BrokerProcess):
    """One batch at a time over a raw socket, so that exactly one may be unknown at the kill."""
    with Wire(broker.address) as wire:
        create_topic_by_wire(wire, "plain")
        wait_until(lambda: fetch(wire, "plain", {0: 0})[0].error_code == 0, "the topic is led")
    acknowledged = 0
    for _ in range(KILLS):
        with Wire(broker.address) as wire:
            wait_until(lambda wire=wire: fetch(wire, "plain", {0: 0})[0].error_code == 0, "the topic is led")
            killer = threading.Timer(0.2, broker.kill)
            killer.start()
            try:
                while True:
                    answer = produce(wire, "plain", {0: batch(b"%d" % acknowledged)})[0]
                    assert answer.error_code == 0
                    assert answer.base_offset >= acknowledged
                    acknowledged = answer.base_offset + 1
            except (Closed, ConnectionError):
                pass
            killer.join()
        broker.start()
        with Wire(broker.address) as wire:
            wait_until(lambda wire=wire: fetch(wire, "plain", {0: 0})[0].error_code == 0, "the topic is led")
            end = fetch(wire, "plain", {0: 0})[0].high_watermark
        assert acknowledged <= end <= acknowledged + 1
        acknowledged = end
    check_values(broker.address, "plain", acknowledged)


def check_values(address: str, topic: str, count: int) -> None:
    offset = 0
    with Wire(address) as wire:
        while offset < count:
            for record in whole_records(fetch(wire, topic, {0: offset})[0].records):
                assert record.offset == offset
                assert int(record.value) <= offset
                offset += 1


def test_metadata_survives_a_kill(broker: BrokerProcess):
    with Wire(broker.address) as wire:
        for number in range(10):
            create_topic_by_wire(wire, f"topic-{number}", 2)
    restart_killed(broker)
    admin = AdminClient({"bootstrap.servers": broker.address})
    found = admin.list_topics(timeout=DELIVERY_SECONDS_MAX).topics
    assert {name: len(topic.partitions) for name, topic in found.items()} == {f"topic-{n}": 2 for n in range(10)}


def test_a_kill_leaves_no_lock_behind(broker: BrokerProcess):
    for _ in range(3):
        restart_killed(broker)
    assert broker.stop() == 0

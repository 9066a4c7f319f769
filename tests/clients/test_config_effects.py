"""Settings changed while the broker runs count from the moment of the answer, and after a restart too."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from broker_process import BrokerProcess
from client_libraries import confluent_kafka as ck
from config_dialogue import Dialogue
from confluent_io import DELIVERY_SECONDS_MAX, deliver, open_consumer, read

pytestmark = pytest.mark.skipif(
    "BARNABAS_TEST_BOOTSTRAP" in os.environ, reason="changes settings for the whole broker, and needs no time to settle"
)


@pytest.fixture
def broker() -> Iterator[BrokerProcess]:
    with BrokerProcess() as started:
        yield started


@pytest.fixture
def dialogue(broker: BrokerProcess) -> Iterator[Dialogue]:
    with Dialogue(broker.address) as opened:
        assert opened.run("create t")[0] == "NONE"
        yield opened


def change(dialogue: Dialogue, *edits: str) -> None:
    assert dialogue.run(f"alter {' '.join(edits)}") == ["NONE"]


def produced(broker: BrokerProcess, size: int) -> ck.Message | ck.KafkaError:
    outcome: list[ck.Message | ck.KafkaError] = []
    producer = ck.Producer({"bootstrap.servers": broker.address, "message.max.bytes": 10_000_000, "retries": 0})
    producer.produce("t", bytes(size), on_delivery=lambda error, message: outcome.append(error or message))
    assert producer.flush(DELIVERY_SECONDS_MAX) == 0
    return outcome[0]


def refused(broker: BrokerProcess, size: int) -> bool:
    outcome = produced(broker, size)
    if isinstance(outcome, ck.KafkaError):
        assert outcome.code() == ck.KafkaError.MSG_SIZE_TOO_LARGE
        return True
    return False


def test_the_largest_batch_by_broker_cluster_and_topic(broker: BrokerProcess, dialogue: Dialogue) -> None:
    assert not refused(broker, 5_000)
    change(dialogue, "broker:", "message.max.bytes=1000")
    assert refused(broker, 5_000)
    change(dialogue, "broker:1", "message.max.bytes=9000")
    assert not refused(broker, 5_000)
    change(dialogue, "topic:t", "max.message.bytes=2000")
    assert refused(broker, 5_000)
    change(dialogue, "topic:t", "-max.message.bytes")
    change(dialogue, "broker:1", "-message.max.bytes")
    assert refused(broker, 5_000)
    change(dialogue, "broker:", "-message.max.bytes")
    assert not refused(broker, 5_000)


def test_the_kind_of_timestamp(broker: BrokerProcess, dialogue: Dialogue) -> None:
    producer = ck.Producer({"bootstrap.servers": broker.address})
    deliver(producer, "t", [{"value": b"a", "timestamp": 1_700_000_000_000}])
    change(dialogue, "broker:", "log.message.timestamp.type=LogAppendTime")
    deliver(producer, "t", [{"value": b"b", "timestamp": 1_700_000_000_000}])
    consumer = open_consumer(broker.address)
    kinds = [message.timestamp()[0] for message in read(consumer, "t", 2)]
    consumer.close()
    assert kinds == [ck.TIMESTAMP_CREATE_TIME, ck.TIMESTAMP_LOG_APPEND_TIME]


def test_limits_on_connections(broker: BrokerProcess, dialogue: Dialogue) -> None:
    def is_let_in() -> bool:
        try:
            with Dialogue(broker.address) as another:
                return another.run("list broker") == ["NONE", "4:1"]
        except ConnectionError:
            return False

    assert is_let_in()
    change(dialogue, "broker:", "max.connections.per.ip=1")  # the dialogue is the one
    assert not is_let_in()
    change(dialogue, "broker:", "-max.connections.per.ip")
    assert is_let_in()


def test_the_level_of_a_logger(broker: BrokerProcess, dialogue: Dialogue) -> None:
    change(dialogue, "logger:1", "barnabas.server.broker=ERROR")
    (line,) = dialogue.run("describe logger:1 barnabas.server.broker")
    assert line.startswith("barnabas.server.broker=ERROR ")


def test_what_was_set_outlives_the_broker(disk_broker: BrokerProcess) -> None:
    with Dialogue(disk_broker.address) as dialogue:
        assert dialogue.run("create t")[0] == "NONE"
        change(dialogue, "topic:t", "retention.ms=1234")
        change(dialogue, "broker:", "message.max.bytes=2345")
        change(dialogue, "broker:1", "log.retention.bytes=3456")
        change(dialogue, "metrics:m", "interval.ms=4567")
        questions = [
            "describe topic:t",
            "describe broker:",
            "describe broker:1 log.retention.bytes",
            "describe metrics:m",
        ]
        before = [dialogue.run(question) for question in questions]
    disk_broker.stop()
    disk_broker.start()
    with Dialogue(disk_broker.address) as dialogue:
        assert [dialogue.run(question) for question in questions] == before
    assert any("retention.ms=1234" in line for line in before[0])

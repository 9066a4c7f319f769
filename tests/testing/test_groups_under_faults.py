"""Members of groups meet errors of every API on their way, and read everything all the same, once."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from client_libraries import confluent_kafka as ck
from confluent_io import DELIVERY_SECONDS_MAX

from barnabas.client import synchronous
from barnabas.testing import Kafka

TOPIC = "letters"
VALUES = ["a", "b", "c"]


def read_with_confluent(servers: str, count: int) -> list[str]:
    consumer = ck.Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": "castle",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "retry.backoff.ms": 10,
            "reconnect.backoff.ms": 10,
            "fetch.error.backoff.ms": 10,
        }
    )
    try:
        consumer.subscribe([TOPIC])
        found: list[str] = []
        while len(found) < count:
            message = consumer.poll(DELIVERY_SECONDS_MAX)
            assert message is not None, f"{len(found)} of {count} came"
            if message.error() is None:
                found.append(message.value().decode())
                consumer.commit(message=message, asynchronous=False)
        return found
    finally:
        consumer.close()


def read_with_barnabas(protocol: str) -> Callable[[str, int], list[str]]:
    def read(servers: str, count: int) -> list[str]:
        with synchronous.Consumer(
            TOPIC,
            bootstrap_servers=servers,
            group_id="castle",
            group_protocol=protocol,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            retry_backoff_ms=10,
            reconnect_backoff_ms=10,
        ) as consumer:
            found: list[str] = []
            while len(found) < count:
                records = consumer.poll(timeout_ms=1000 * DELIVERY_SECONDS_MAX, max_records=1)
                assert records, f"{len(found)} of {count} came"
                found += [record.value.decode() for record in records]
                consumer.commit()
            return found

    return read


# librdkafka waits for seconds before it joins again, and lets the application decide about some errors.
CONFLUENT = [
    ("FindCoordinator", "COORDINATOR_NOT_AVAILABLE"),
    ("SyncGroup", "REBALANCE_IN_PROGRESS"),
    ("OffsetFetch", "COORDINATOR_LOAD_IN_PROGRESS"),
]
CLASSIC = [
    *CONFLUENT,
    ("JoinGroup", "COORDINATOR_LOAD_IN_PROGRESS"),
    ("JoinGroup", "UNKNOWN_MEMBER_ID"),
    ("OffsetFetch", "NOT_COORDINATOR"),
    ("OffsetCommit", "COORDINATOR_LOAD_IN_PROGRESS"),
]
CASES: list[tuple[str, Callable[[str, int], list[str]], str, str]] = [
    *(("confluent", read_with_confluent, api, error) for api, error in CONFLUENT),
    *(("classic", read_with_barnabas("classic"), api, error) for api, error in CLASSIC),
    *(
        ("consumer", read_with_barnabas("consumer"), api, error)
        for api, error in (
            ("ConsumerGroupHeartbeat", "COORDINATOR_NOT_AVAILABLE"),
            ("ConsumerGroupHeartbeat", "UNKNOWN_MEMBER_ID"),
            ("OffsetFetch", "COORDINATOR_LOAD_IN_PROGRESS"),
            ("OffsetCommit", "NOT_COORDINATOR"),
        )
    ),
]


@pytest.mark.parametrize(
    ("read", "api", "error"),
    [case[1:] for case in CASES],
    ids=[f"{name}-{api}-{error}" for name, _, api, error in CASES],
)
def test_a_member_goes_on_after_an_error(kafka: Kafka, read: Callable[[str, int], list[str]], api: str, error: str):
    kafka.create_topic(TOPIC)
    kafka.producer().send_many(TOPIC, [value.encode() for value in VALUES]).result()
    fault = kafka.fail_next(api, error, times=2)
    assert read(kafka.bootstrap_servers, 2) == VALUES[:2]
    assert fault.hits == 2
    assert read(kafka.bootstrap_servers, 1) == VALUES[2:], "what was committed is not read again"


def test_an_error_of_a_commit_reaches_whoever_commits(kafka: Kafka):
    kafka.create_topic(TOPIC)
    kafka.producer().send_and_wait(TOPIC, b"a")
    kafka.fail_next("OffsetCommit", "OFFSET_METADATA_TOO_LARGE")
    with pytest.raises(ck.KafkaException, match="OFFSET_METADATA_TOO_LARGE"):
        read_with_confluent(kafka.bootstrap_servers, 1)

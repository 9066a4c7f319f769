"""Consumer groups of the newer protocol (KIP-848) through librdkafka, `group.protocol=consumer`.

The broker of these tests asks for a heartbeat every 200 ms, so that a rebalance takes no seconds.
"""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

import pytest
from broker_process import BrokerProcess
from client_libraries import confluent_kafka as ck
from confluent_io import create_topic, deliver

SWIFT = {
    "group.consumer.min.heartbeat.interval.ms": 100,
    "group.consumer.heartbeat.interval.ms": 200,
    "group.consumer.min.session.timeout.ms": 1_000,
    "group.consumer.session.timeout.ms": 2_000,
    "group.consumer.assignment.interval.ms": 0,
    "group.min.session.timeout.ms": 1_000,
}
SECONDS_MAX = 60.0
OTHER_PROCESS = """
import sys
from confluent_kafka import Consumer
address, group, topic = sys.argv[1:]
consumer = Consumer({"bootstrap.servers": address, "group.id": group, "group.protocol": "consumer"})
consumer.subscribe([topic])
while True:
    consumer.poll(1)
"""
_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def swift() -> Iterator[str]:
    given = os.environ.get("BARNABAS_TEST_BOOTSTRAP")
    if given:
        yield given
        return
    with BrokerProcess(config=SWIFT) as broker:
        yield broker.address
        assert "Traceback" not in broker.errors(), broker.errors()[-8000:]


@pytest.fixture(scope="module")
def swift_admin(swift: str) -> ck.admin.AdminClient:
    return ck.admin.AdminClient({"bootstrap.servers": swift})


@pytest.fixture
def topic(swift_admin: ck.admin.AdminClient) -> str:
    name = f"consumed.{os.getpid()}.{next(_numbers)}"
    create_topic(swift_admin, name, partitions=6)
    return name


class Subscriber:
    """A consumer, what it owns as its callbacks tell, and what it has read."""

    def __init__(self, address: str, group: str, **settings: object) -> None:
        given = {name.replace("_", "."): value for name, value in settings.items()}
        self.consumer = ck.Consumer(
            {
                "bootstrap.servers": address,
                "group.id": group,
                "group.protocol": "consumer",
                "auto.offset.reset": "earliest",
                **given,
            }
        )
        self.owned: set[tuple[str, int]] = set()
        self.given_up = 0  # partitions that were taken away from it
        self.values: list[bytes] = []
        self.errors: list[ck.KafkaError] = []

    def subscribe(self, *topics: str) -> Subscriber:
        self.consumer.subscribe(list(topics), on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._lost)
        return self

    def poll(self) -> None:
        message = self.consumer.poll(0.02)
        if message is None:
            return
        if message.error() is None:
            self.values.append(message.value())
        elif message.error().code() != ck.KafkaError.UNKNOWN_TOPIC_OR_PART:
            self.errors.append(message.error())

    def _assigned(self, consumer: ck.Consumer, partitions: list[ck.TopicPartition]) -> None:
        self.owned |= {(each.topic, each.partition) for each in partitions}
        consumer.incremental_assign(partitions)

    def _revoked(self, consumer: ck.Consumer, partitions: list[ck.TopicPartition]) -> None:
        self.owned -= {(each.topic, each.partition) for each in partitions}
        self.given_up += len(partitions)
        consumer.incremental_unassign(partitions)

    def _lost(self, consumer: ck.Consumer, partitions: list[ck.TopicPartition]) -> None:
        self._revoked(consumer, partitions)


@pytest.fixture
def subscribe(swift: str) -> Iterator[Callable[..., Subscriber]]:
    opened: list[Subscriber] = []

    def create(group: str, *topics: str, **settings: object) -> Subscriber:
        opened.append(Subscriber(swift, group, **settings).subscribe(*topics))
        return opened[-1]

    yield create
    for subscriber in opened:
        subscriber.consumer.close()


def poll_until(condition: Callable[[], bool], *subscribers: Subscriber) -> None:
    deadline = time.monotonic() + SECONDS_MAX
    while not condition():
        assert time.monotonic() < deadline, [(sorted(each.owned), len(each.values)) for each in subscribers]
        for subscriber in subscribers:
            subscriber.poll()
            assert not subscriber.errors


def new_group() -> str:
    return f"newer.{os.getpid()}.{next(_numbers)}"


def produce(address: str, topic: str, values: list[bytes]) -> None:
    records = [{"value": value, "partition": number % 6} for number, value in enumerate(values)]
    deliver(ck.Producer({"bootstrap.servers": address, "linger.ms": 1}), topic, records)


def test_members_come_and_go_and_every_record_is_read_once(
    swift: str, swift_admin: ck.admin.AdminClient, subscribe: Callable[..., Subscriber], topic: str
):
    group = new_group()
    first = subscribe(group, topic)
    produce(swift, topic, [b"one %d" % number for number in range(60)])
    poll_until(lambda: len(first.values) == 60, first)
    first.consumer.commit(asynchronous=False)

    second = subscribe(group, topic)
    poll_until(lambda: len(first.owned) == len(second.owned) == 3, first, second)
    assert not first.owned & second.owned
    assert first.given_up == 3, "only what had to move has moved"
    produce(swift, topic, [b"two %d" % number for number in range(60)])
    poll_until(lambda: len(first.values) + len(second.values) == 120, first, second)
    assert len(set(first.values + second.values)) == 120

    described = swift_admin.describe_consumer_groups([group])[group].result(SECONDS_MAX)
    assert described.state == ck.ConsumerGroupState.STABLE
    assert described.type == ck.ConsumerGroupType.CONSUMER
    assert sorted(len(member.assignment.topic_partitions) for member in described.members) == [3, 3]

    second.consumer.close()
    poll_until(lambda: len(first.owned) == 6, first)


def test_a_member_that_is_killed_loses_its_partitions_to_others(
    swift: str, subscribe: Callable[..., Subscriber], topic: str
):
    group = new_group()
    first = subscribe(group, topic)
    poll_until(lambda: len(first.owned) == 6, first)
    other = subprocess.Popen([sys.executable, "-c", OTHER_PROCESS, swift, group, topic])
    try:
        poll_until(lambda: len(first.owned) == 3, first)
    finally:
        other.kill()
        other.wait()
    poll_until(lambda: len(first.owned) == 6, first)


def test_a_static_member_is_back_before_anyone_misses_it(swift: str, subscribe: Callable[..., Subscriber], topic: str):
    group = new_group()
    first = subscribe(group, topic, group_instance_id="one")
    second = Subscriber(swift, group, group_instance_id="two").subscribe(topic)
    poll_until(lambda: len(first.owned) == len(second.owned) == 3, first, second)
    had, given_up_before = set(second.owned), first.given_up
    second.consumer.close()
    again = subscribe(group, topic, group_instance_id="two")
    poll_until(lambda: bool(again.owned), first, again)
    assert again.owned == had
    assert first.given_up == given_up_before
    assert len(first.owned) == 3


def test_a_second_static_member_of_one_name_must_wait(swift: str, subscribe: Callable[..., Subscriber], topic: str):
    group = new_group()
    first = subscribe(group, topic, group_instance_id="same")
    poll_until(lambda: len(first.owned) == 6, first)
    second = Subscriber(swift, group, group_instance_id="same").subscribe(topic)
    try:
        deadline = time.monotonic() + SECONDS_MAX
        while not second.errors:
            first.poll()
            second.poll()
            assert time.monotonic() < deadline
        assert second.errors[0].code() in (ck.KafkaError.UNRELEASED_INSTANCE_ID, ck.KafkaError._FATAL)
    finally:
        second.consumer.close()
    assert len(first.owned) == 6


def test_a_regular_expression_finds_topics_that_come_later(
    swift: str, swift_admin: ck.admin.AdminClient, subscribe: Callable[..., Subscriber], topic: str
):
    """A pattern goes to the coordinator as it is: librdkafka knows nothing of its topics."""
    stem = topic.replace(".", "\\.")
    subscriber = subscribe(new_group(), f"^{stem}(-later)?$")
    poll_until(lambda: len(subscriber.owned) == 6, subscriber)
    create_topic(swift_admin, f"{topic}-later", partitions=2)
    create_topic(swift_admin, f"{topic}-never", partitions=2)
    poll_until(lambda: len(subscriber.owned) == 8, subscriber)
    produce(swift, topic, [b"x"] * 12)
    poll_until(lambda: len(subscriber.values) == 12, subscriber)


def test_an_expression_that_cannot_be_matched_is_an_error(subscribe: Callable[..., Subscriber]):
    subscriber = subscribe(new_group(), "^(a)\\1$")
    deadline = time.monotonic() + SECONDS_MAX
    while not subscriber.errors:
        subscriber.poll()
        assert time.monotonic() < deadline
    assert "regular expression" in subscriber.errors[0].str().lower()


@pytest.mark.parametrize("assignor", ["uniform", "range"])
def test_members_choose_the_assignor(
    swift_admin: ck.admin.AdminClient, subscribe: Callable[..., Subscriber], topic: str, assignor: str
):
    group = new_group()
    members = [subscribe(group, topic, group_remote_assignor=assignor) for _ in range(2)]
    poll_until(lambda: all(len(each.owned) == 3 for each in members), *members)
    described = swift_admin.describe_consumer_groups([group])[group].result(SECONDS_MAX)
    assert described.partition_assignor == assignor


@pytest.mark.parametrize("first_protocol", ["classic", "consumer"])
def test_a_group_changes_its_protocol_while_it_works(
    swift: str,
    swift_admin: ck.admin.AdminClient,
    subscribe: Callable[..., Subscriber],
    topic: str,
    first_protocol: str,
):
    """Two members are replaced one by one by members of the other protocol; nothing is lost and little moves."""
    group = new_group()

    def member(protocol: str) -> Subscriber:
        if protocol == "consumer":
            return Subscriber(swift, group).subscribe(topic)
        return Subscriber(
            swift,
            group,
            group_protocol="classic",
            partition_assignment_strategy="cooperative-sticky",
            session_timeout_ms=6000,
            heartbeat_interval_ms=200,
        ).subscribe(topic)

    other = "consumer" if first_protocol == "classic" else "classic"
    old = [member(first_protocol), member(first_protocol)]
    new: list[Subscriber] = []
    try:
        poll_until(lambda: all(len(each.owned) == 3 for each in old), *old)
        for _ in range(2):
            new.append(member(other))
            everyone = [*old, *new]
            poll_until(lambda e=everyone: all(len(each.owned) == 2 for each in e), *everyone)
            leaving = old.pop()
            leaving.consumer.close()
            everyone = [*old, *new]
            poll_until(lambda e=everyone: all(len(each.owned) == 3 for each in e), *everyone)
        produce(swift, topic, [b"%d" % number for number in range(60)])
        poll_until(lambda: sum(len(each.values) for each in new) == 60, *new)
        described = swift_admin.describe_consumer_groups([group])[group].result(SECONDS_MAX)
        assert described.type.name.lower() == other
    finally:
        for each in [*old, *new]:
            each.consumer.close()


def test_commits_are_read_again_by_the_next_member(swift: str, subscribe: Callable[..., Subscriber], topic: str):
    group = new_group()
    produce(swift, topic, [b"%d" % number for number in range(30)])
    first = Subscriber(swift, group, enable_auto_commit=False).subscribe(topic)
    poll_until(lambda: len(first.values) == 30, first)
    first.consumer.commit(asynchronous=False)
    first.consumer.close()
    produce(swift, topic, [b"more %d" % number for number in range(6)])
    second = subscribe(group, topic, enable_auto_commit=False)
    poll_until(lambda: len(second.values) == 6, second)
    assert all(value.startswith(b"more") for value in second.values)

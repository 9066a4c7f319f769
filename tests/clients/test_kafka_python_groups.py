"""Groups of kafka-python's consumers, which are older than most of the protocol and speak it in their own way."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import closing
from types import TracebackType

import pytest
from broker_process import wait_until
from client_libraries import kafka
from kafka import ConsumerRebalanceListener, KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor

assert kafka
WAIT_SECONDS = 120
PARTITIONS = 4
POLL_MS = 1_000  # kafka-python 3.0 forgets an assignment that comes at the moment at which a poll has timed out
# Its message schemas are read on first use, by a call that newer Pythons deprecate.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

QUICK = {
    "auto_offset_reset": "earliest",
    "session_timeout_ms": 30_000,
    "heartbeat_interval_ms": 100,
    "retry_backoff_ms": 20,
    "reconnect_backoff_ms": 20,
    "fetch_max_wait_ms": 50,
    "metadata_max_age_ms": 1_000,
}


class Member(ConsumerRebalanceListener):
    """A subscribed consumer in a thread of its own."""

    def __init__(self, served: str, group: str, topic: str, **settings: object) -> None:
        self._consumer = KafkaConsumer(bootstrap_servers=served, group_id=group, **{**QUICK, **settings})
        self._consumer.subscribe([topic], listener=self)
        self.owned: set[int] = set()
        self.values: list[bytes] = []
        self._stop = threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def __enter__(self) -> Member:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._stop.set()
        self._thread.join(WAIT_SECONDS)
        assert not self._thread.is_alive()
        if self._failure is not None:
            raise self._failure

    def on_partitions_assigned(self, assigned: list[TopicPartition]) -> None:
        self.owned |= {each.partition for each in assigned}

    def on_partitions_revoked(self, revoked: list[TopicPartition]) -> None:
        self.owned -= {each.partition for each in revoked}

    def _run(self) -> None:
        try:
            while not self._stop.is_set():
                for messages in self._consumer.poll(timeout_ms=POLL_MS).values():
                    self.values += [message.value for message in messages]
            self._consumer.close()
        except BaseException as error:
            self._failure = error


def fill(served: str, topic: str, count: int, first: int = 0) -> list[bytes]:
    values = [b"%06d" % number for number in range(first, first + count)]
    with closing(KafkaProducer(bootstrap_servers=served)) as producer:
        futures = [producer.send(topic, value, partition=n % PARTITIONS) for n, value in enumerate(values)]
        for future in futures:
            future.get(timeout=WAIT_SECONDS)
    return values


def share(members: list[Member]) -> bool:
    counts = [len(member.owned) for member in members]
    return len(set().union(*(member.owned for member in members))) == sum(counts) == PARTITIONS and min(counts) > 0


ASSIGNORS = [
    RangePartitionAssignor,
    RoundRobinPartitionAssignor,
    StickyPartitionAssignor,
    CooperativeStickyAssignor,
]


@pytest.mark.parametrize("assignor", ASSIGNORS, ids=lambda each: each.name)
def test_members_share_and_take_over(served: str, new_topic: Callable[..., str], assignor: type) -> None:
    topic = new_topic(partitions=PARTITIONS)
    settings = {"partition_assignment_strategy": (assignor,), "auto_commit_interval_ms": 100}
    values = fill(served, topic, 20)
    first = Member(served, topic, topic, **settings)
    wait_until(lambda: sorted(first.values) == values, "one member reads everything")
    second = Member(served, topic, topic, **settings)
    wait_until(lambda: share([first, second]), "two members share")
    values += fill(served, topic, 20, first=20)
    wait_until(lambda: set(first.values + second.values) == set(values), "each reads its part")
    first.close()
    wait_until(lambda: len(second.owned) == PARTITIONS, "the other takes over")
    values += fill(served, topic, 20, first=40)
    wait_until(lambda: set(first.values + second.values) == set(values), "and reads on")
    second.close()
    with closing(KafkaConsumer(bootstrap_servers=served, group_id=topic)) as outside:
        assert [outside.committed(TopicPartition(topic, index)) for index in range(PARTITIONS)] == [15] * PARTITIONS


def test_commits_by_hand(served: str, new_topic: Callable[..., str]) -> None:
    topic = new_topic()
    partition = TopicPartition(topic, 0)
    with closing(KafkaConsumer(bootstrap_servers=served, group_id=topic, enable_auto_commit=False)) as consumer:
        consumer.assign([partition])
        assert consumer.committed(partition) is None
        consumer.commit({partition: kafka.structs.OffsetAndMetadata(7, "note", 0)})
        assert consumer.committed(partition) == 7
        assert consumer.committed(partition, metadata=True).metadata == "note"


def test_a_static_member(served: str, new_topic: Callable[..., str]) -> None:
    topic = new_topic(partitions=PARTITIONS)
    settings = {"auto_commit_interval_ms": 100}
    with Member(served, topic, topic, **settings) as other:
        wait_until(lambda: len(other.owned) == PARTITIONS, "the first has everything")
        with Member(served, topic, topic, group_instance_id="one", **settings) as member:
            wait_until(lambda: share([other, member]), "they share")
            before = frozenset(member.owned)
        with Member(served, topic, topic, group_instance_id="one", **settings) as member:
            wait_until(lambda: frozenset(member.owned) == before, "it has its part again")


def test_administration(served: str, new_topic: Callable[..., str]) -> None:
    topic = new_topic(partitions=PARTITIONS)
    fill(served, topic, 8)
    with closing(KafkaAdminClient(bootstrap_servers=served)) as admin:
        with Member(served, topic, topic, client_id="me", auto_commit_interval_ms=100) as member:
            wait_until(lambda: len(member.values) == 8, "everything is read")
            described = admin.describe_groups([topic])[topic]
            assert (described["group_state"], described["protocol_type"]) == ("Stable", "consumer")
            assert [each["client_id"] for each in described["members"]] == ["me"]
            assert topic in {each["group_id"] for each in admin.list_groups()}
        offsets = admin.list_group_offsets([topic])[topic]
        assert {place.partition: found.offset for place, found in offsets.items()} == dict.fromkeys(range(4), 2)
        admin.delete_groups([topic])
        assert topic not in {each["group_id"] for each in admin.list_groups()}

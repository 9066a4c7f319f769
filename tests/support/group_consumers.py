"""Consumers of librdkafka that work in threads of their own, and remember what they were given and what they read."""

from __future__ import annotations

import threading
from types import TracebackType
from typing import Any

from broker_process import wait_until
from client_libraries import confluent_kafka as ck

Place = tuple[str, int]
POLL_SECONDS = 0.05
# A client looks for its coordinator, and for changes of topics, far too rarely for a test otherwise.
QUICK = {
    "auto.offset.reset": "earliest",
    "heartbeat.interval.ms": 100,
    "reconnect.backoff.ms": 20,
    "reconnect.backoff.max.ms": 200,
    "retry.backoff.ms": 20,
    "fetch.wait.max.ms": 50,
    "topic.metadata.refresh.interval.ms": 1_000,
    "coordinator.query.interval.ms": 1_000,
}


class GroupConsumer:
    """Subscribed to topics; commits what it has read after each message."""

    def __init__(self, address: str, group: str, *topics: str, **settings: object) -> None:
        named = {name.replace("_", "."): value for name, value in settings.items()}
        self.cooperative = "cooperative" in str(named.get("partition.assignment.strategy", ""))
        self._consumer = ck.Consumer(
            {"bootstrap.servers": address, "group.id": group, "enable.auto.commit": False, **QUICK, **named}
        )
        self.owned: set[Place] = set()
        self.given: list[frozenset[Place]] = []  # one entry for each assignment
        self.taken: list[frozenset[Place]] = []  # one for each that was revoked or lost
        self.messages: list[Any] = []
        self.errors: list[ck.KafkaError] = []
        self._consumer.subscribe(list(topics), on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._revoked)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def __enter__(self) -> GroupConsumer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Leaves the group, unless it is a static member. May be called twice."""
        self._stop.set()
        self._thread.join(120)
        assert not self._thread.is_alive()

    @property
    def values(self) -> list[bytes]:
        return [message.value() for message in self.messages]

    def _run(self) -> None:
        try:
            while not self._stop.is_set():
                message = self._consumer.poll(POLL_SECONDS)
                if message is None:
                    continue
                if message.error() is not None:
                    self.errors.append(message.error())
                    if message.error().fatal():
                        return
                    continue
                self.messages.append(message)
                self._commit(message)
        finally:
            self._consumer.close()

    def _commit(self, message: Any) -> None:
        try:
            self._consumer.commit(message, asynchronous=False)
        except ck.KafkaException as error:
            self.errors.append(error.args[0])  # a rebalance came between; whoever is next reads it again

    def _assigned(self, consumer: ck.Consumer, partitions: list[ck.TopicPartition]) -> None:
        places = frozenset((each.topic, each.partition) for each in partitions)
        self.given.append(places)
        self.owned |= places
        (consumer.incremental_assign if self.cooperative else consumer.assign)(partitions)

    def _revoked(self, consumer: ck.Consumer, partitions: list[ck.TopicPartition]) -> None:
        places = frozenset((each.topic, each.partition) for each in partitions)
        self.taken.append(places)
        self.owned -= places
        if self.cooperative:
            consumer.incremental_unassign(partitions)
        else:
            consumer.unassign()


def shared(consumers: list[GroupConsumer], partitions: int) -> bool:
    """Whether they have all partitions among them, each exactly once, and evenly."""
    counts = [len(consumer.owned) for consumer in consumers]
    together = set().union(*(consumer.owned for consumer in consumers))
    return len(together) == sum(counts) == partitions and max(counts) - min(counts) <= 1


def wait_shared(consumers: list[GroupConsumer], partitions: int, seconds: float = 30.0) -> None:
    wait_until(
        lambda: shared(consumers, partitions),
        f"{len(consumers)} consumers share {partitions} partitions, {[sorted(each.owned) for each in consumers]}",
        seconds,
    )


def committed(address: str, group: str, topic: str, partitions: int) -> list[int]:
    """As somebody outside the group sees it."""
    consumer = ck.Consumer({"bootstrap.servers": address, "group.id": group})
    try:
        found = consumer.committed([ck.TopicPartition(topic, index) for index in range(partitions)], timeout=30)
        return [each.offset for each in found]
    finally:
        consumer.close()

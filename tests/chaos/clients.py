"""The clients that a cluster must not disappoint: one that writes without pause, one that reads along in a group.

Both are librdkafka with its default settings, apart from acks=all with idempotence. Every record carries a number that
counts up in each partition, so that loss, repetition and disorder can be seen afterwards.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass, field

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Message, Producer, TopicPartition

PAUSE_SECONDS = 0.01
RECORDS_PER_PAUSE = 5  # for each partition
VALUE_BYTES = 100
FLUSH_SECONDS_MAX = 60.0
READ_SECONDS_MAX = 30.0


def quiet(bootstrap: str) -> dict[str, object]:
    """Nobody needs to read that brokers are away: that is what is tested."""
    return {"bootstrap.servers": bootstrap, "log_level": 0, "error_cb": lambda _error: None}


@dataclass
class Acknowledged:
    """What one partition's writer was promised."""

    offsets: dict[int, int] = field(default_factory=dict)  # by number
    last_at: float = 0.0
    silence_seconds: float = 0.0  # the longest time between two acknowledgements


class Writer(threading.Thread):
    """Writes to every partition from `start` to `finish`."""

    def __init__(self, bootstrap: str, topic: str, partitions: int) -> None:
        super().__init__(name="writer")
        self.acknowledged = {partition: Acknowledged() for partition in range(partitions)}
        self.failures: list[str] = []
        self._topic = topic
        self._finish = threading.Event()
        self._producer = Producer({**quiet(bootstrap), "acks": "all", "enable.idempotence": True})

    def run(self) -> None:
        number = 0
        while not self._finish.is_set():
            for _ in range(RECORDS_PER_PAUSE):
                for partition in self.acknowledged:
                    self._write(partition, str(number).encode().ljust(VALUE_BYTES))
                number += 1
            self._producer.poll(PAUSE_SECONDS)
        if self._producer.flush(FLUSH_SECONDS_MAX):
            self.failures.append("not everything was answered")

    def finish(self) -> None:
        self._finish.set()
        self.join()

    def count(self) -> int:
        return sum(len(each.offsets) for each in self.acknowledged.values())

    def silence_seconds(self, partitions: Iterable[int]) -> float:
        """The longest time in which one of these had no acknowledged write."""
        return max((self.acknowledged[partition].silence_seconds for partition in partitions), default=0.0)

    def wait_for_each(self, seconds: float) -> None:
        """Until every partition has taken another write."""
        before = {partition: len(each.offsets) for partition, each in self.acknowledged.items()}
        deadline = time.monotonic() + seconds
        while any(len(each.offsets) == before[partition] for partition, each in self.acknowledged.items()):
            assert time.monotonic() < deadline, f"no write was acknowledged for {seconds:.0f} s"
            time.sleep(PAUSE_SECONDS)

    def _write(self, partition: int, value: bytes) -> None:
        while True:
            try:
                self._producer.produce(self._topic, value, partition=partition, on_delivery=self._delivered)
                return
            except BufferError:
                self._producer.poll(PAUSE_SECONDS)

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        partition = message.partition()
        assert partition is not None
        if error is not None:
            self.failures.append(f"partition {partition}: {error}")
            return
        number, offset = int(message.value() or b""), message.offset()
        assert offset is not None
        found = self.acknowledged[partition]
        now = time.monotonic()
        if found.last_at:
            found.silence_seconds = max(found.silence_seconds, now - found.last_at)
        found.last_at = now
        found.offsets[number] = offset


class GroupReader(threading.Thread):
    """A member of a group, alone in it. May see a record twice after a rebalance, and never two at one offset."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        super().__init__(name="reader")
        self.seen: dict[tuple[int, int], int] = {}  # number by partition and offset
        self.contradictions: list[str] = []
        self._topic = topic
        self._finish = threading.Event()
        self._consumer = Consumer(
            {
                **quiet(bootstrap),
                "group.id": "chaos",
                "auto.offset.reset": "earliest",
                "auto.commit.interval.ms": 1000,
            }
        )

    def run(self) -> None:
        self._consumer.subscribe([self._topic])
        while not self._finish.is_set():
            for message in self._consumer.consume(1000, timeout=0.1):
                if message.error() is None:
                    place, number = (message.partition(), message.offset()), int(message.value())
                    if self.seen.setdefault(place, number) != number:
                        self.contradictions.append(f"{place} was {self.seen[place]} and is {number}")
        self._consumer.close()

    def finish(self, writer: Writer) -> int:
        """How many acknowledged records it did not see though it had the time."""
        wanted = {
            (partition, offset) for partition, each in writer.acknowledged.items() for offset in each.offsets.values()
        }
        deadline = time.monotonic() + READ_SECONDS_MAX
        while wanted - self.seen.keys() and time.monotonic() < deadline:
            time.sleep(0.05)
        self._finish.set()
        self.join()
        return len(wanted - self.seen.keys())


def read_all(bootstrap: str, topic: str, partitions: int) -> dict[int, list[int]]:
    """The numbers in each partition from its beginning to its end, in the order of the log."""
    consumer = Consumer({**quiet(bootstrap), "group.id": "unused", "enable.auto.commit": False})
    places = [TopicPartition(topic, partition, OFFSET_BEGINNING) for partition in range(partitions)]
    ends = {place.partition: consumer.get_watermark_offsets(place, READ_SECONDS_MAX)[1] for place in places}
    consumer.assign(places)
    found: dict[int, list[int]] = {partition: [] for partition in range(partitions)}
    deadline = time.monotonic() + READ_SECONDS_MAX
    positions = dict.fromkeys(range(partitions), 0)
    while any(positions[partition] < ends[partition] for partition in ends) and time.monotonic() < deadline:
        for message in consumer.consume(10_000, timeout=0.5):
            if message.error() is None:
                found[message.partition()].append(int(message.value()))
                positions[message.partition()] = message.offset() + 1
    consumer.close()
    return found

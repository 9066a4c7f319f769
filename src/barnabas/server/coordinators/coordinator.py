"""A coordinator of one broker: which shards of its topic it leads, and which of them a key belongs to.

A key belongs to the partition that Java's hash of it names; whoever leads that partition coordinates the key.

Always holds: there is a shard for each partition of the topic that this broker leads, and for no other. A broker
learns of that as of everything: by the metadata (`apply`).
Does not know: what is coordinated. What it takes to keep a shard is in `coordinator_shard`.
"""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from barnabas.metadata.delta import MetadataDelta
from barnabas.metadata.image import MetadataImage
from barnabas.server.supervisor import OnFailure, is_running

if TYPE_CHECKING:
    from barnabas.server.broker import Broker
    from barnabas.server.coordinators.coordinator_shard import CoordinatorShard
    from barnabas.server.replicas.partition import Partition

logger = logging.getLogger(__name__)

HASHES_KEPT = 4_096  # a heartbeat every few seconds asks for the same one

L = TypeVar("L", bound="CoordinatorShard[Any]")


class Coordinator(ABC, Generic[L]):
    """The modules of the rules are imported with the first shard: a broker that never needs them has them not."""

    TOPIC: str

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self.shards: dict[int, L] = {}  # by partition
        self._to_load: list[L] = []
        self._load_task: asyncio.Task[None] | None = None

    def partition_for(self, key: str) -> int:
        topic = self._broker.controller.image.topics_by_name.get(self.TOPIC)
        count = self._partition_count() if topic is None else len(topic.partitions)
        return java_hash(key) % count

    def shard_for(self, key: str) -> L | None:
        return self.shards.get(self.partition_for(key))

    # What differs from one coordinator to the other

    @abstractmethod
    def _partition_count(self) -> int:
        """Of the topic, once it is made."""

    @abstractmethod
    def _open(self, partition: Partition, image: MetadataImage) -> L: ...

    # What the metadata says

    def apply(self, delta: MetadataDelta, image: MetadataImage) -> None:
        if any(topic.name == self.TOPIC for topic in delta.topics_deleted):
            self._close_all()
        for change in delta.topics_changed:
            if change.topic.name == self.TOPIC:
                for partition, state in change.partitions.items():
                    self._led_by(partition, state.leader, image)

    def opened(self, partition: Partition, image: MetadataImage) -> None:
        """Its log is open; the metadata that made this broker lead it was applied before."""
        if partition.name.topic == self.TOPIC:
            self._led_by(partition.name.partition, partition.leader_id, image)

    def _led_by(self, partition: int, leader: int, image: MetadataImage) -> None:
        known = self.shards.get(partition)
        if leader == self._broker.node_id:
            if known is None:
                self._lead(partition, image)
        elif known is not None:
            self.shards.pop(partition).close()

    def _lead(self, partition: int, image: MetadataImage) -> None:
        led = self._broker.partitions.get(self.TOPIC, partition)
        if led is None:
            return  # its log is still being opened: `opened` follows
        shard = self.shards[partition] = self._open(led, image)
        self._to_load.append(shard)
        if not is_running(self._load_task):
            self._load_task = self._broker.supervisor.start(f"loading {self.TOPIC}", self._load, OnFailure.RETRY)

    async def _load(self) -> None:
        """One shard after the other: together they would take as long, and none would be ready early."""
        while self._to_load:
            shard = self._to_load.pop(0)
            try:
                await shard.load()
            except Exception:
                # What it holds cannot be coordinated: a wrong answer is worse than none.
                logger.exception("%s: cannot be loaded, and what it holds has no coordinator", shard.partition.name)
                shard.close()

    # The end

    def close(self) -> None:
        self._to_load.clear()
        if self._load_task is not None:
            self._load_task.cancel()
        self._close_all()

    def _close_all(self) -> None:
        for shard in self.shards.values():
            shard.close()
        self.shards.clear()


@lru_cache(maxsize=HASHES_KEPT)
def java_hash(text: str) -> int:
    """`String.hashCode` of Java, over the units of UTF-16 and in 32 bits, without its sign; the least number is 0."""
    number = 0
    data = text.encode("utf-16-be", "surrogatepass")
    for index in range(0, len(data), 2):
        number = (31 * number + (data[index] << 8 | data[index + 1])) & 0xFFFF_FFFF
    return number if number < 0x8000_0000 else (0x1_0000_0000 - number) & 0x7FFF_FFFF

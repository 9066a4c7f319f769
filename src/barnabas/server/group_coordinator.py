"""The group coordinator of one broker: which shards it leads, and which of them a group belongs to.

A group belongs to the partition of `__consumer_offsets` that Java's hash of its id names; whoever leads that partition
coordinates the group.

Always holds: there is a shard for each partition of the topic that this broker leads, and for no other. A broker
learns of that as of everything: by the metadata (`apply`).
Does not know: the rules of groups, which are in `groups`; what it takes to keep a shard, which is in `group_shard`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, TypeVar

from barnabas.errors import ErrorCode
from barnabas.metadata.delta import MetadataDelta
from barnabas.metadata.image import MetadataImage, ResourceType
from barnabas.metadata.topic_names import OFFSETS_TOPIC
from barnabas.protocol.message import Structure

if TYPE_CHECKING:
    from barnabas.groups.group import GroupCount, Surroundings
    from barnabas.server.broker import Broker
    from barnabas.server.group_shard import Decide, LedShard

logger = logging.getLogger(__name__)

R = TypeVar("R", bound=Structure)

HASHES_KEPT = 4_096  # a heartbeat every few seconds asks for the same one


class GroupCoordinator:
    """The modules of groups are imported with the first shard: a broker without groups has no use for them."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self.shards: dict[int, LedShard] = {}  # by partition
        self._count: GroupCount | None = None
        self._to_load: list[LedShard] = []
        self._load_task: asyncio.Task[None] | None = None

    # Requests

    def partition_for(self, group_id: str) -> int:
        topic = self._broker.controller.image.topics_by_name.get(OFFSETS_TOPIC)
        count = self._broker.config.offsets_topic_num_partitions if topic is None else len(topic.partitions)
        return java_hash(group_id) % count

    def submit(self, group_id: str, decide: Decide, failed: Callable[[ErrorCode], R]) -> R | asyncio.Future[R]:
        shard = self.shards.get(self.partition_for(group_id))
        return failed(ErrorCode.NOT_COORDINATOR) if shard is None else shard.submit(decide, failed)

    # What the metadata says

    def apply(self, delta: MetadataDelta, image: MetadataImage) -> None:
        deleted = [topic.name for topic in delta.topics_deleted]
        if OFFSETS_TOPIC in deleted:
            self._close_all()
        for change in delta.topics_changed:
            if change.topic.name == OFFSETS_TOPIC:
                for partition, state in change.partitions.items():
                    self._led_by(partition, state.leader, image)
        if self.shards and (deleted or delta.topics_changed):
            self._topics_changed(delta, deleted, image)
        if any(resource.type in (ResourceType.GROUP, ResourceType.BROKER) for resource in delta.configs_changed):
            for shard in self.shards.values():
                self._configure(shard.shard.surroundings, image)

    def _led_by(self, partition: int, leader: int, image: MetadataImage) -> None:
        known = self.shards.get(partition)
        if leader == self._broker.node_id:
            if known is None:
                self._lead(partition, image)
        elif known is not None:
            self.shards.pop(partition).close()

    def _lead(self, partition: int, image: MetadataImage) -> None:
        from barnabas.groups.group import GroupCount, Surroundings
        from barnabas.groups.settings import GroupSettings
        from barnabas.server.group_shard import LedShard
        from barnabas.server.group_topics import ImageTopics

        broker = self._broker
        self._count = self._count or GroupCount()
        led = broker.partitions.get(OFFSETS_TOPIC, partition)
        assert led is not None, "partitions are opened before their coordinators"
        shard = self.shards[partition] = LedShard(
            partition=led,
            surroundings=Surroundings(
                settings=GroupSettings.of(broker.config),
                topics=ImageTopics(image),
                random=broker.runtime.random,
                count=self._count,
            ),
            config=broker.config,
            runtime=broker.runtime,
        )
        self._configure(shard.shard.surroundings, image)
        self._to_load.append(shard)
        if self._load_task is None:
            self._load_task = asyncio.ensure_future(self._load())

    async def _load(self) -> None:
        """One shard after the other: together they would take as long, and none would be ready early."""
        while self._to_load:
            shard = self._to_load.pop(0)
            try:
                await shard.load()
            except Exception:
                # Its groups cannot be coordinated: a wrong offset is worse than none.
                logger.exception("%s: cannot be loaded, and its groups have no coordinator", shard.partition.name)
                shard.close()
        self._load_task = None

    def _configure(self, surroundings: Surroundings, image: MetadataImage) -> None:
        """Consumer groups take settings while they run, also each for itself; the others are read at start."""
        from barnabas.config.group import GroupConfig
        from barnabas.groups.consumer_settings import ConsumerSettings

        config = self._broker.config
        surroundings.consumer = ConsumerSettings.of(config)
        surroundings.consumer_overrides = {
            resource.name: surroundings.consumer.for_group(GroupConfig(GroupConfig.usable(overrides)[0], config))
            for resource, overrides in image.configs.items()
            if resource.type == ResourceType.GROUP
        }

    def _topics_changed(self, delta: MetadataDelta, deleted: list[str], image: MetadataImage) -> None:
        from barnabas.server.group_topics import ImageTopics

        topics = ImageTopics(image)
        names = [*deleted, *(change.topic.name for change in delta.topics_changed)]
        names_changed = bool(deleted) or any(change.before is None for change in delta.topics_changed)
        for shard in self.shards.values():
            shard.topics_changed(topics, names, names_changed=names_changed)
            if deleted:
                shard.run(lambda rules: rules.topics_deleted(deleted))

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

"""The group coordinator of one broker: its shards, and what groups must hear of the cluster.

Does not know: the rules of groups, which are in `groups`; what it takes to keep a shard, which is in `group_shard`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from barnabas.controller.features import GROUP_VERSION
from barnabas.errors import ErrorCode
from barnabas.metadata.delta import MetadataDelta
from barnabas.metadata.image import MetadataImage, ResourceType
from barnabas.metadata.topic_names import OFFSETS_TOPIC
from barnabas.protocol.message import Structure
from barnabas.server.coordinators.coordinator import Coordinator

if TYPE_CHECKING:
    from barnabas.groups.group import GroupCount, Surroundings
    from barnabas.server.broker import Broker
    from barnabas.server.coordinators.group_shard import Decide, LedShard
    from barnabas.server.replicas.partition import Partition

R = TypeVar("R", bound=Structure)


class GroupCoordinator(Coordinator["LedShard"]):
    TOPIC = OFFSETS_TOPIC

    def __init__(self, broker: Broker) -> None:
        super().__init__(broker)
        self._count: GroupCount | None = None

    def submit(self, group_id: str, decide: Decide, failed: Callable[[ErrorCode], R]) -> R | asyncio.Future[R]:
        shard = self.shard_for(group_id)
        return failed(ErrorCode.NOT_COORDINATOR) if shard is None else shard.submit(decide, failed)

    def submit_named(self, group_id: str, decide: Decide, failed: Callable[[ErrorCode], R]) -> R | asyncio.Future[R]:
        """As `submit`, for requests in which a group must have a name: as Kafka, any broker refuses one without."""
        return self.submit(group_id, decide, failed) if group_id else failed(ErrorCode.INVALID_GROUP_ID)

    @property
    def serves_consumer_protocol(self) -> bool:
        """KIP-848 can be left out of the settings, and switched off for the cluster by group.version 0."""
        level = self._broker.controller.image.features.get(GROUP_VERSION, 0)
        return level > 0 and "consumer" in self._broker.config.group_coordinator_rebalance_protocols

    # What the metadata says

    def apply(self, delta: MetadataDelta, image: MetadataImage) -> None:
        super().apply(delta, image)
        deleted = [topic.name for topic in delta.topics_deleted]
        if self.shards and (deleted or delta.topics_changed):
            self._topics_changed(delta, deleted, image)
        if any(resource.type in (ResourceType.GROUP, ResourceType.BROKER) for resource in delta.configs_changed):
            for shard in self.shards.values():
                self._configure(shard.shard.surroundings, image)

    def _partition_count(self) -> int:
        return self._broker.config.offsets_topic_num_partitions

    def _open(self, partition: Partition, image: MetadataImage) -> LedShard:
        from barnabas.groups.group import GroupCount, Surroundings
        from barnabas.groups.settings import GroupSettings
        from barnabas.server.coordinators.group_shard import LedShard
        from barnabas.server.coordinators.group_topics import ImageTopics

        broker = self._broker
        self._count = self._count or GroupCount()
        shard = LedShard(
            partition=partition,
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
        return shard

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
        from barnabas.server.coordinators.group_topics import ImageTopics

        topics = ImageTopics(image)
        names = [*deleted, *(change.topic.name for change in delta.topics_changed)]
        names_changed = bool(deleted) or any(change.before is None for change in delta.topics_changed)
        for shard in self.shards.values():
            shard.topics_changed(topics, names, names_changed=names_changed)
            if deleted:
                shard.run(lambda rules: rules.topics_deleted(deleted))

"""The partitions of one broker, kept as the metadata says: opened, led, reconfigured and deleted by each difference.

Always holds: a broker learns of partitions in no other way than `apply`. The dictionaries that `topic` and
`topic_by_id` give are live and shared: look up, never keep.
"""

import logging
from collections.abc import Iterator, Mapping
from heapq import heappop, heappush

from barnabas.config.broker import BrokerConfig
from barnabas.config.topic import TopicConfig
from barnabas.errors import ErrorCode
from barnabas.log.log import Log
from barnabas.metadata.delta import MetadataDelta, TopicDelta
from barnabas.metadata.image import MetadataImage, ResourceType, TopicImage
from barnabas.runtime.interfaces import Runtime
from barnabas.server.log_directory import LogDirectory
from barnabas.server.metadata_log import DIRECTORY_NAME as METADATA_DIRECTORY_NAME
from barnabas.server.partition import Partition
from barnabas.types import BrokerId, TopicPartition, Uuid

logger = logging.getLogger(__name__)

_NONE: Mapping[int, Partition] = {}


class Partitions:
    def __init__(self, *, node_id: BrokerId, directory: LogDirectory, config: BrokerConfig, runtime: Runtime) -> None:
        self._node_id = node_id
        self._directory = directory
        self._config = config  # with what was set dynamically
        self._runtime = runtime
        self._by_name: dict[str, dict[int, Partition]] = {}
        self._by_id: dict[Uuid, dict[int, Partition]] = {}  # the same inner dictionaries
        self._removals: list[tuple[float, str]] = []  # a heap: when to remove which directory

    def topic(self, name: str) -> Mapping[int, Partition]:
        return self._by_name.get(name, _NONE)

    def topic_by_id(self, topic_id: Uuid) -> Mapping[int, Partition]:
        return self._by_id.get(topic_id, _NONE)

    def get(self, topic: str, partition: int) -> Partition | None:
        return self.topic(topic).get(partition)

    def __iter__(self) -> Iterator[Partition]:
        for partitions in self._by_name.values():
            yield from partitions.values()

    def logs(self) -> dict[TopicPartition, Log]:
        return {partition.name: partition.log for partition in self}

    # Carrying out what the metadata says

    def apply(self, delta: MetadataDelta, image: MetadataImage) -> None:
        for topic in delta.topics_deleted:
            self._delete(topic)
        for change in delta.topics_changed:
            self._change(change, image)
        for resource in delta.configs_changed:
            if resource.type == ResourceType.TOPIC and resource.name in self._by_name:
                self._reconfigure(resource.name, image)

    def set_aside_strays(self, image: MetadataImage) -> None:
        """At start: directories of partitions that the cluster does not give to this broker any more."""
        known = {name.directory_name for name, partition in image.partitions() if self._node_id in partition.replicas}
        self._directory.set_aside_strays({*known, METADATA_DIRECTORY_NAME})

    def reconfigure(self, config: BrokerConfig, image: MetadataImage) -> None:
        """The broker's own settings have changed, and with them the defaults of every topic."""
        self._config = config
        for topic in self._by_name:
            self._reconfigure(topic, image)

    def _change(self, change: TopicDelta, image: MetadataImage) -> None:
        topic = change.topic
        config = self._topic_config(topic.name, image)
        for index, state in change.partitions.items():
            if self._node_id not in state.replicas:
                continue
            partitions = self._by_name.setdefault(topic.name, {})
            self._by_id[topic.id] = partitions
            partition = partitions.get(index)
            if partition is None:
                name = TopicPartition(topic.name, index)
                partitions[index] = Partition(
                    name=name,
                    topic_id=topic.id,
                    log=self._directory.open_log(name, topic.id, config, self._config.producer_id_expiration_ms),
                    leader_epoch=state.leader_epoch,
                    in_sync=state.isr,
                    runtime=self._runtime,
                )
            else:
                partition.lead(leader_epoch=state.leader_epoch, in_sync=state.isr)

    def _delete(self, topic: TopicImage) -> None:
        partitions = self._by_id.pop(topic.id, None)
        if partitions is None:
            return
        if self._by_name.get(topic.name) is partitions:
            del self._by_name[topic.name]
        for partition in partitions.values():
            partition.close(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            partition.log.abandon()  # not closed: a sync of what is to be deleted could only fail
            aside = self._directory.delete_log(partition.name)
            due_ms = self._runtime.clock.monotonic_ms() + partition.config.file_delete_delay_ms
            heappush(self._removals, (due_ms, aside))

    def _reconfigure(self, topic: str, image: MetadataImage) -> None:
        config = self._topic_config(topic, image)
        for partition in self._by_name[topic].values():
            partition.log.update_config(config)
            partition.log.producer_id_expiration_ms = self._config.producer_id_expiration_ms

    def _topic_config(self, topic: str, image: MetadataImage) -> TopicConfig:
        usable, complaints = TopicConfig.usable(image.config(ResourceType.TOPIC, topic))
        for complaint in complaints:
            logger.warning("a stored setting of topic %s is left out: %s", topic, complaint)
        return TopicConfig(usable, self._config)

    # Work that comes round

    def remove_deleted(self) -> None:
        """Directories of deleted topics, once readers in flight have had their time."""
        now_ms = self._runtime.clock.monotonic_ms()
        while self._removals and self._removals[0][0] <= now_ms:
            self._directory.remove(heappop(self._removals)[1])

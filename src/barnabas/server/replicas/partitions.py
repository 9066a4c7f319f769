"""The partitions of one broker, kept as the metadata says: opened, led, followed, reconfigured and deleted by each
difference.

Always holds: a broker learns of partitions in no other way than `apply`. The dictionaries that `topic` and
`topic_by_id` give are live and shared: look up, never keep. A partition that another broker leads is in the hands of
the fetcher of that leader, and of no other.
"""

import logging
from collections.abc import Callable, Iterator, Mapping
from heapq import heappop, heappush

from barnabas.config.broker import BrokerConfig
from barnabas.config.topic import TopicConfig
from barnabas.errors import ErrorCode
from barnabas.log.log import Log
from barnabas.metadata.delta import MetadataDelta, TopicDelta
from barnabas.metadata.image import EMPTY, MetadataImage, PartitionImage, ResourceType, TopicImage
from barnabas.replication.leader import ANY_BROKER_EPOCH
from barnabas.replication.throttle import is_throttled
from barnabas.runtime.interfaces import Runtime
from barnabas.server.quorum.metadata_log import DIRECTORY_NAME as METADATA_DIRECTORY_NAME
from barnabas.server.replicas.alter_partition import InSyncChanges
from barnabas.server.replicas.fetcher import Fetchers
from barnabas.server.replicas.log_directory import DirectoryFailed, LogDirectory
from barnabas.server.replicas.partition import Partition
from barnabas.server.supervisor import Supervisor
from barnabas.types import NO_LEADER, BrokerId, TopicPartition, Uuid

logger = logging.getLogger(__name__)

_NONE: Mapping[int, Partition] = {}


class Partitions:
    def __init__(
        self,
        *,
        node_id: BrokerId,
        directory: LogDirectory,
        config: BrokerConfig,
        runtime: Runtime,
        supervisor: Supervisor,
        fetchers: Fetchers,
        in_sync_changes: InSyncChanges,
        on_failure: Callable[[Exception], None],
    ) -> None:
        self.node_id = node_id
        self._fetchers = fetchers
        self._in_sync_changes = in_sync_changes
        self._on_failure = on_failure
        self._image = EMPTY  # as of the last difference
        self._directory = directory
        self._config = config  # with what was set dynamically
        self._runtime = runtime
        self._supervisor = supervisor
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

    # What partitions ask (partition.Cluster)

    @property
    def lag_ms_max(self) -> float:
        return self._config.replica_lag_time_max_ms

    def is_eligible(self, broker_id: BrokerId, broker_epoch: int) -> bool:
        broker = self._image.brokers.get(broker_id)
        return broker is not None and broker.active and broker_epoch in (ANY_BROKER_EPOCH, broker.epoch)

    def is_alive(self, broker_id: BrokerId) -> bool:
        broker = self._image.brokers.get(broker_id)
        return broker is not None and not broker.fenced

    def truncated(self, partition: Partition) -> None:
        self._directory.truncated(partition.name, partition.log)

    def storage_failed(self, partition: Partition, error: OSError) -> None:
        failure = DirectoryFailed(f"the log directory {self._directory.path} failed at {partition.name}: {error}")
        failure.__cause__ = error
        self._on_failure(failure)

    def ask_in_sync(self, partition: Partition) -> None:
        self._in_sync_changes.ask(partition)

    # Carrying out what the metadata says

    def apply(self, delta: MetadataDelta, image: MetadataImage) -> None:
        self._image = image
        for topic in delta.topics_deleted:
            self._delete(topic)
        for change in delta.topics_changed:
            self._change(change, image)
        for resource in delta.configs_changed:
            if resource.type == ResourceType.TOPIC and resource.name in self._by_name:
                self._reconfigure(resource.name, image)
        if delta.brokers_changed:
            self.sweep_in_sync()  # who was not eligible may be now

    def set_aside_strays(self, image: MetadataImage) -> None:
        """At start: directories of partitions that the cluster does not give to this broker any more."""
        known = {name.directory_name for name, partition in image.partitions() if self.node_id in partition.replicas}
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
            partition = self._by_id.get(topic.id, _NONE).get(index)
            if self.node_id not in state.replicas:
                if partition is not None:
                    self._remove(partition, ErrorCode.NOT_LEADER_OR_FOLLOWER)  # reassigned to others
                continue
            if partition is None:
                partition = self._open(topic, index, state, config)
            self._give(partition, state)

    def _open(self, topic: TopicImage, index: int, state: PartitionImage, config: TopicConfig) -> Partition:
        partitions = self._by_name.setdefault(topic.name, {})
        self._by_id[topic.id] = partitions
        name = TopicPartition(topic.name, index)
        log = self._directory.open_log(name, topic.id, config, self._config.producer_id_expiration_ms)
        partition = partitions[index] = Partition(
            name=name,
            topic_id=topic.id,
            log=log,
            high_watermark=self._directory.high_watermark(name),
            cluster=self,
            runtime=self._runtime,
            supervisor=self._supervisor,
        )
        self._set_throttles(partition)
        return partition

    def _set_throttles(self, partition: Partition) -> None:
        config, index = partition.config, partition.name.partition
        partition.is_leader_throttled = is_throttled(config.leader_replication_throttled_replicas, index, self.node_id)
        partition.is_follower_throttled = is_throttled(
            config.follower_replication_throttled_replicas, index, self.node_id
        )

    def _give(self, partition: Partition, state: PartitionImage) -> None:
        """To whom the metadata gives it: to this broker, to the fetcher of another, or for the time being to nobody."""
        leader_epoch = partition.leader_epoch
        partition.apply(state)
        if partition.is_leader or partition.leader_id == NO_LEADER:
            self._fetchers.unfollow(partition)
        elif partition.leader_epoch != leader_epoch:
            self._fetchers.follow(partition)

    def _delete(self, topic: TopicImage) -> None:
        for partition in tuple(self._by_id.get(topic.id, _NONE).values()):
            self._remove(partition, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

    def _remove(self, partition: Partition, error: ErrorCode) -> None:
        """Its files go too, once readers in flight have had their time."""
        self._fetchers.unfollow(partition)
        topic = partition.name.topic
        partitions = self._by_id[partition.topic_id]
        del partitions[partition.name.partition]
        if not partitions:
            del self._by_id[partition.topic_id]
            if self._by_name.get(topic) is partitions:
                del self._by_name[topic]
        partition.close(error)
        partition.log.abandon()  # not closed: a sync of what is to be deleted could only fail
        aside = self._directory.delete_log(partition.name)
        due_ms = self._runtime.clock.monotonic_ms() + partition.config.file_delete_delay_ms
        heappush(self._removals, (due_ms, aside))

    def _reconfigure(self, topic: str, image: MetadataImage) -> None:
        config = self._topic_config(topic, image)
        for partition in self._by_name[topic].values():
            partition.log.update_config(config)
            partition.log.producer_id_expiration_ms = self._config.producer_id_expiration_ms
            self._set_throttles(partition)
            partition.reconfigured()

    def _topic_config(self, topic: str, image: MetadataImage) -> TopicConfig:
        usable, complaints = TopicConfig.usable(image.config(ResourceType.TOPIC, topic))
        for complaint in complaints:
            logger.warning("a stored setting of topic %s is left out: %s", topic, complaint)
        return TopicConfig(usable, self._config)

    # Work that comes round

    def sweep_in_sync(self) -> None:
        """One look at all partitions that this broker leads for others too."""
        for partition in self:
            if partition.has_followers:
                partition.sweep_in_sync()

    def remove_deleted(self) -> None:
        """Directories of deleted topics, once readers in flight have had their time."""
        now_ms = self._runtime.clock.monotonic_ms()
        while self._removals and self._removals[0][0] <= now_ms:
            self._directory.remove(heappop(self._removals)[1])

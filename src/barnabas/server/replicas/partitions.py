"""The partitions of one broker, kept as the metadata says: opened, led, followed, reconfigured and deleted by each
difference.

Always holds: a broker learns of partitions in no other way than `apply`. The dictionaries that `topic` and
`topic_by_id` give are live and shared: look up, never keep. A partition that another broker leads is in the hands of
the fetcher of that leader, and of no other.

A new log is made at once. One that exists is opened off the event loop, and until then its partition is not here:
clients are told NOT_LEADER_OR_FOLLOWER, after which all of them look up the leader and ask again. What the metadata
says meanwhile takes effect when the log is open: its partition is then given what the newest image says, or is deleted.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Iterator, Mapping
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
from barnabas.server.replicas.log_openings import LogOpenings, Opening
from barnabas.server.replicas.partition import Partition
from barnabas.server.supervisor import OnFailure, Supervisor, is_running
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
        on_opened: Callable[[Partition, MetadataImage], None],
        on_failure: Callable[[Exception], None],
        holds_lease: Callable[[], bool],
    ) -> None:
        """`on_opened` is told of partitions whose logs were opened after the difference that gave them to this broker
        had been applied."""
        self.node_id = node_id
        self.has_opened = False  # whether all logs have once been open
        self._holds_lease = holds_lease
        self._fetchers = fetchers
        self._in_sync_changes = in_sync_changes
        self._on_opened = on_opened
        self._on_failure = on_failure
        self._image = EMPTY  # as of the last difference
        self._directory = directory
        self._config = config  # with what was set dynamically
        self._runtime = runtime
        self._supervisor = supervisor
        self._by_name: dict[str, dict[int, Partition]] = {}
        self._by_id: dict[Uuid, dict[int, Partition]] = {}  # the same inner dictionaries
        self._openings = LogOpenings(
            open_log=self._open_log,
            opened=self._opened,
            clock=runtime.clock,
            supervisor=supervisor,
            on_failure=self._open_failed,
        )
        self._removals: list[tuple[float, str]] = []  # a heap: when to remove which directory
        self._deletions_task: asyncio.Task[None] | None = None

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

    @property
    def unopened(self) -> Collection[TopicPartition]:
        return self._openings.names

    async def stop(self) -> None:
        """Returns once no thread opens a log."""
        await self._openings.stop()

    # What partitions ask (partition.Cluster)

    @property
    def lag_ms_max(self) -> float:
        return self._config.replica_lag_time_max_ms

    @property
    def holds_lease(self) -> bool:
        return self._holds_lease()

    def is_eligible(self, broker_id: BrokerId, broker_epoch: int) -> bool:
        broker = self._image.brokers.get(broker_id)
        return broker is not None and broker.active and broker_epoch in (ANY_BROKER_EPOCH, broker.epoch)

    def is_alive(self, broker_id: BrokerId) -> bool:
        broker = self._image.brokers.get(broker_id)
        return broker is not None and not broker.fenced

    def truncated(self, partition: Partition) -> None:
        self._directory.truncated(partition.name, partition.log)

    def storage_failed(self, partition: Partition, error: OSError) -> None:
        self._on_failure(self._failure(partition.name, error))

    def _failure(self, name: TopicPartition, error: Exception) -> DirectoryFailed:
        failure = DirectoryFailed(f"the log directory {self._directory.path} failed at {name}: {error}")
        failure.__cause__ = error
        return failure

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
        self._note_opened()

    def set_aside_strays(self, image: MetadataImage) -> None:
        """At start: directories of partitions that the cluster does not give to this broker any more."""
        known = {name.directory_name for name, partition in image.partitions() if self.node_id in partition.replicas}
        self._directory.set_aside_strays({*known, METADATA_DIRECTORY_NAME})
        self._sync_deletions()

    def reconfigure(self, config: BrokerConfig, image: MetadataImage) -> None:
        """The broker's own settings have changed, and with them the defaults of every topic."""
        self._config = config
        for topic in self._by_name:
            self._reconfigure(topic, image)

    def _change(self, change: TopicDelta, image: MetadataImage) -> None:
        topic = change.topic
        config = self._topic_config(topic.name, image)
        for index, state in change.partitions.items():
            name = TopicPartition(topic.name, index)
            partition = self._by_id.get(topic.id, _NONE).get(index)
            if self.node_id not in state.replicas:
                if partition is not None:
                    self._remove(partition, ErrorCode.NOT_LEADER_OR_FOLLOWER)  # reassigned to others
                self._openings.discard(Opening(name, topic.id))
            elif partition is not None:
                self._give(partition, state)
            elif name not in self._openings:
                self._open(topic, index, state, config)

    # Opening

    def _open(self, topic: TopicImage, index: int, state: PartitionImage, config: TopicConfig) -> None:
        name = TopicPartition(topic.name, index)
        try:
            log = self._directory.make_log(name, topic.id, config, self._config.producer_id_expiration_ms)
        except OSError as error:
            self._on_failure(self._failure(name, error))
            return
        if log is None:
            self._openings.begin(Opening(name, topic.id))
        else:
            self._give(self._add(topic, name, log), state)

    async def _open_log(self, opening: Opening) -> Log:
        name, topic_id = opening
        config = self._topic_config(name.topic, self._image)
        return await self._directory.open_log(name, topic_id, config, self._config.producer_id_expiration_ms)

    def _opened(self, opening: Opening, log: Log, is_discarded: bool) -> None:
        """The metadata may have changed while the log was opened: its newest image counts."""
        name, topic_id = opening
        topic = self._image.topics_by_id.get(topic_id)
        if is_discarded or topic is None or self.node_id not in topic.partitions[name.partition].replicas:
            self._delete_log(name, log)
        else:
            log.update_config(self._topic_config(name.topic, self._image))
            log.producer_id_expiration_ms = self._config.producer_id_expiration_ms
            partition = self._add(topic, name, log)
            self._give(partition, topic.partitions[name.partition])
            self._on_opened(partition, self._image)
        self._open_successor(name)
        self._note_opened()

    def _open_successor(self, name: TopicPartition) -> None:
        """The partition that has the name now: of a topic made anew, or given back to this broker."""
        topic = self._image.topics_by_name.get(name.topic)
        state = None if topic is None else topic.partitions.get(name.partition)
        if topic is None or state is None or self.node_id not in state.replicas:
            return
        if name.partition not in self._by_id.get(topic.id, _NONE):
            self._open(topic, name.partition, state, self._topic_config(name.topic, self._image))
            partition = self.get(*name)
            if partition is not None:
                self._on_opened(partition, self._image)

    def _open_failed(self, opening: Opening, error: Exception) -> None:
        self._on_failure(self._failure(opening.name, error))

    def _note_opened(self) -> None:
        self.has_opened = self.has_opened or not self._openings.names

    def _add(self, topic: TopicImage, name: TopicPartition, log: Log) -> Partition:
        partitions = self._by_name.setdefault(topic.name, {})
        self._by_id[topic.id] = partitions
        partition = partitions[name.partition] = Partition(
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
        for index in topic.partitions:
            self._openings.discard(Opening(TopicPartition(topic.name, index), topic.id))

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
        self._delete_log(partition.name, partition.log)

    def _delete_log(self, name: TopicPartition, log: Log) -> None:
        log.abandon()  # not closed: a sync of what is to be deleted could only fail
        aside = self._directory.delete_log(name)
        due_ms = self._runtime.clock.monotonic_ms() + log.config.file_delete_delay_ms
        heappush(self._removals, (due_ms, aside))
        self._sync_deletions()

    def _sync_deletions(self) -> None:
        if not is_running(self._deletions_task):
            self._deletions_task = self._supervisor.start(
                "syncing deletions", self._directory.sync_deletions, OnFailure.RETRY
            )

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

    async def remove_deleted(self) -> None:
        """Directories of deleted topics, once readers in flight have had their time."""
        now_ms = self._runtime.clock.monotonic_ms()
        while self._removals and self._removals[0][0] <= now_ms:
            path = heappop(self._removals)[1]
            try:
                await self._directory.remove(path)
            except OSError as error:
                self._supervisor.report(f"removing {path}", error, "its files stay until the next start")

"""What a client knows of its cluster, from the answers to its Metadata requests.

Always holds: of one topic id, a partition's leader epoch never falls: an answer from a broker that lags behind does not
bring back an older leader. A topic made anew under an old name begins anew.
Does not know: who was asked, connections, time.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from barnabas.client.errors import known_code
from barnabas.errors import ErrorCode
from barnabas.protocol.messages.metadata import MetadataResponse, MetadataResponsePartition, MetadataResponseTopic
from barnabas.types import NO_LEADER, NO_LEADER_EPOCH, ZERO_UUID, BrokerId, LeaderEpoch, TopicPartition, Uuid


class Node(NamedTuple):
    """A broker and where it is."""

    node_id: BrokerId
    host: str
    port: int
    rack: str | None = None


class Leader(NamedTuple):
    node_id: BrokerId
    epoch: LeaderEpoch


@dataclass(frozen=True, slots=True)
class PartitionMetadata:
    topic: str
    partition: int
    leader: BrokerId  # NO_LEADER while there is none
    leader_epoch: LeaderEpoch
    replicas: tuple[BrokerId, ...]
    isr: tuple[BrokerId, ...]
    offline_replicas: tuple[BrokerId, ...] = ()


@dataclass(frozen=True, slots=True)
class TopicMetadata:
    name: str
    topic_id: Uuid
    is_internal: bool
    partitions: dict[int, PartitionMetadata]  # by number, ascending

    @property
    def partition_count(self) -> int:
        return len(self.partitions)


@dataclass(slots=True)
class ClusterMetadata:
    cluster_id: str | None = None
    controller_id: BrokerId = NO_LEADER
    brokers: dict[BrokerId, Node] = field(default_factory=dict)
    topics: dict[str, TopicMetadata] = field(default_factory=dict)
    names: dict[Uuid, str] = field(default_factory=dict)
    errors: dict[str, ErrorCode] = field(default_factory=dict)  # of topics that the last answer about them refused

    def leader(self, topic: str, partition: int) -> Leader | None:
        """None also where nobody knows where the leader is: the metadata must be asked for again."""
        known = self.topics.get(topic)
        found = None if known is None else known.partitions.get(partition)
        if found is None or found.leader not in self.brokers:
            return None
        return Leader(found.leader, found.leader_epoch)

    def replica_racks(self) -> dict[TopicPartition, frozenset[str]]:
        """Where the replicas of each partition are; empty where no broker says so."""
        racks = {node_id: node.rack for node_id, node in self.brokers.items() if node.rack is not None}
        if not racks:
            return {}
        return {
            TopicPartition(each.topic, each.partition): frozenset(racks[id] for id in each.replicas if id in racks)
            for topic in self.topics.values()
            for each in topic.partitions.values()
        }

    def apply(self, response: MetadataResponse, *, everything: bool = False) -> list[BrokerId]:
        """Takes an answer in; `everything` says that topics it does not name are gone. Brokers that have moved."""
        brokers = {each.node_id: Node(each.node_id, each.host, each.port, each.rack) for each in response.brokers}
        moved = [
            node_id
            for node_id, node in self.brokers.items()
            if node_id in brokers and (brokers[node_id].host, brokers[node_id].port) != (node.host, node.port)
        ]
        if brokers:
            self.brokers = brokers
        self.cluster_id = response.cluster_id
        self.controller_id = response.controller_id
        if everything:
            named = {topic.name for topic in response.topics}
            for name in [name for name in self.topics if name not in named]:
                self._forget(name)
        for topic in response.topics:
            if topic.name:
                self._apply_topic(topic.name, topic)
        return moved

    def apply_leader(self, topic: str, partition: int, leader: Leader) -> bool:
        """Who leads as an answer to another request says (KIP-951). False where that was known."""
        known = self.topics.get(topic)
        found = None if known is None else known.partitions.get(partition)
        if known is None or found is None or leader.epoch <= found.leader_epoch or leader.node_id < 0:
            return False
        known.partitions[partition] = PartitionMetadata(
            topic, partition, leader.node_id, leader.epoch, found.replicas, found.isr, found.offline_replicas
        )
        return True

    def add_brokers(self, nodes: Iterable[Node]) -> None:
        """Where they are as an answer to another request says."""
        for node in nodes:
            self.brokers.setdefault(node.node_id, node)

    def _apply_topic(self, name: str, topic: MetadataResponseTopic) -> None:
        if topic.error_code != ErrorCode.NONE:
            error = known_code(topic.error_code)
            self.errors[name] = error
            if error != ErrorCode.LEADER_NOT_AVAILABLE:
                self._forget(name)
            return
        self.errors.pop(name, None)
        known = self.topics.get(name)
        is_same = known is not None and (
            known.topic_id == topic.topic_id or ZERO_UUID in (known.topic_id, topic.topic_id)
        )
        partitions = {}
        for each in sorted(topic.partitions, key=lambda each: each.partition_index):
            before = known.partitions.get(each.partition_index) if known is not None and is_same else None
            partitions[each.partition_index] = _newest(name, before, each)
        if known is not None and known.topic_id != topic.topic_id:
            self._forget(name)
        self.topics[name] = TopicMetadata(name, topic.topic_id, topic.is_internal, partitions)
        self.names[topic.topic_id] = name

    def _forget(self, name: str) -> None:
        known = self.topics.pop(name, None)
        if known is not None:
            self.names.pop(known.topic_id, None)


def _newest(name: str, before: PartitionMetadata | None, told: MetadataResponsePartition) -> PartitionMetadata:
    if before is not None and NO_LEADER_EPOCH != told.leader_epoch < before.leader_epoch:
        return before
    return PartitionMetadata(
        name,
        told.partition_index,
        told.leader_id if told.leader_id >= 0 else NO_LEADER,
        told.leader_epoch,
        tuple(told.replica_nodes),
        tuple(told.isr_nodes),
        tuple(told.offline_replicas),
    )

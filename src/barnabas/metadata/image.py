"""The cluster as of one offset of its metadata log. Immutable: readers keep it as long as they like.

Always holds: `topics_by_name` and `topics_by_id` hold the same topics, in the order of their creation; a part that a
record did not touch is the very same object in the next image, so that a change costs what it touches, and a
difference can be found by identity. Only `metadata.apply` builds images.
Does not know: how records are written, who decided them, what a broker does about them.
"""

from collections.abc import Iterator, Mapping
from enum import IntEnum
from types import MappingProxyType
from typing import NamedTuple

from barnabas.types import BrokerId, LeaderEpoch, Offset, ProducerId, TopicPartition, Uuid

# Places in a partition's `directories` that are not directories yet (KIP-858).
DIRECTORY_MIGRATING: Uuid = bytes(16)
DIRECTORY_UNASSIGNED: Uuid = bytes(15) + b"\x01"
DIRECTORY_LOST: Uuid = bytes(15) + b"\x02"
DIRECTORIES_RESERVED_MAX = 100  # ids up to this number never belong to a real directory

Replicas = tuple[BrokerId, ...]
# Whom a client quota is for: user, client-id or ip with its name, ordered by kind. A name of None is the default.
QuotaEntity = tuple[tuple[str, str | None], ...]


class ResourceType(IntEnum):
    """Of a resource that has configs. Kafka's numbers."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class ConfigResource(NamedTuple):
    """Broker configs with an empty name are the defaults of the whole cluster."""

    type: int
    name: str


class Endpoint(NamedTuple):
    listener: str
    host: str
    port: int
    security_protocol: int


class VersionRange(NamedTuple):
    min: int
    max: int


class PartitionImage(NamedTuple):
    replicas: Replicas  # the first one is the preferred leader
    isr: Replicas
    leader: BrokerId  # NO_LEADER where nobody leads
    leader_epoch: LeaderEpoch  # rises whenever a leader is named
    partition_epoch: int  # rises with every change
    directories: tuple[Uuid, ...]  # where each replica lives, in the order of `replicas`
    removing_replicas: Replicas = ()
    adding_replicas: Replicas = ()
    eligible_leader_replicas: Replicas = ()
    last_known_elr: Replicas = ()
    leader_recovery_state: int = 0  # 1: the leader was elected from outside the in-sync replicas

    def directory(self, broker_id: BrokerId) -> Uuid:
        return self.directories[self.replicas.index(broker_id)]


class TopicImage(NamedTuple):
    name: str
    id: Uuid
    partitions: Mapping[int, PartitionImage]  # numbered from 0 with no gap

    @property
    def replication_factor(self) -> int:
        return len(self.partitions[0].replicas)


class BrokerImage(NamedTuple):
    id: BrokerId
    epoch: int  # the log's offset at which this incarnation registered
    incarnation_id: Uuid
    endpoints: tuple[Endpoint, ...]
    features: Mapping[str, VersionRange]
    rack: str | None
    fenced: bool
    in_controlled_shutdown: bool
    directories: tuple[Uuid, ...]
    cordoned_directories: tuple[Uuid, ...] = ()

    @property
    def active(self) -> bool:
        """Whether it may lead and be in sync."""
        return not self.fenced and not self.in_controlled_shutdown

    def endpoint(self, listener: str) -> Endpoint | None:
        for endpoint in self.endpoints:
            if endpoint.listener == listener:
                return endpoint
        return None


class ControllerImage(NamedTuple):
    id: BrokerId
    incarnation_id: Uuid
    endpoints: tuple[Endpoint, ...]
    features: Mapping[str, VersionRange]


_NOTHING: Mapping[str, str] = MappingProxyType({})


class MetadataImage(NamedTuple):
    offset: Offset  # of the last record applied; -1 in the empty image
    leader_epoch: LeaderEpoch  # of that record's batch
    timestamp_ms: int  # of that record's batch
    topics_by_name: Mapping[str, TopicImage]
    topics_by_id: Mapping[Uuid, TopicImage]
    topics_by_unified_name: Mapping[str, tuple[str, ...]]  # see topic_names.unify_collisions
    brokers: Mapping[BrokerId, BrokerImage]
    controllers: Mapping[BrokerId, ControllerImage]
    configs: Mapping[ConfigResource, Mapping[str, str]]  # no resource without a config
    features: Mapping[str, int]  # finalized levels; level 0 is not written down
    next_producer_id: ProducerId
    client_quotas: Mapping[QuotaEntity, Mapping[str, float]]  # no entity without a quota

    @property
    def finalized_features_epoch(self) -> int:
        """By which clients order the feature levels that different brokers tell them."""
        return self.offset

    def partition(self, topic: str, partition: int) -> PartitionImage | None:
        found = self.topics_by_name.get(topic)
        return None if found is None else found.partitions.get(partition)

    def config(self, resource_type: int, name: str) -> Mapping[str, str]:
        """What was set on the resource, by name; empty where nothing was."""
        return self.configs.get(ConfigResource(resource_type, name), _NOTHING)

    def partitions(self) -> Iterator[tuple[TopicPartition, PartitionImage]]:
        for topic in self.topics_by_name.values():
            for partition, state in topic.partitions.items():
                yield TopicPartition(topic.name, partition), state


EMPTY = MetadataImage(
    offset=-1,
    leader_epoch=-1,
    timestamp_ms=-1,
    topics_by_name={},
    topics_by_id={},
    topics_by_unified_name={},
    brokers={},
    controllers={},
    configs={},
    features={},
    next_producer_id=0,
    client_quotas={},
)

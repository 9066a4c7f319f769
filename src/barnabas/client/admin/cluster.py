"""The cluster itself: brokers, their disks, the quorum of controllers, features."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

from barnabas.client.admin.base import AdminBase
from barnabas.client.admin.results import Results
from barnabas.client.cluster import ANY
from barnabas.client.errors import UnsupportedVersionError, error_of
from barnabas.errors import ErrorCode
from barnabas.protocol.messages.add_raft_voter import AddRaftVoterRequest
from barnabas.protocol.messages.add_raft_voter import Listener as VoterListener
from barnabas.protocol.messages.api_versions import ApiVersionsRequest
from barnabas.protocol.messages.describe_cluster import DescribeClusterRequest
from barnabas.protocol.messages.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
    DescribeLogDirsResult,
)
from barnabas.protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    ReplicaState,
    RequestPartitionData,
    RequestTopicData,
)
from barnabas.protocol.messages.remove_raft_voter import RemoveRaftVoterRequest
from barnabas.protocol.messages.unregister_broker import UnregisterBrokerRequest
from barnabas.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from barnabas.types import ZERO_UUID, BrokerId, LeaderEpoch, Offset, TopicPartition, Uuid, uuid_text

METADATA_TOPIC = "__cluster_metadata"
FENCED_SINCE_VERSION = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerDescription:
    node_id: BrokerId
    host: str
    port: int
    rack: str | None
    is_fenced: bool | None  # None where the broker that was asked does not tell


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterDescription:
    cluster_id: str | None
    controller_id: BrokerId | None
    brokers: tuple[BrokerDescription, ...]


class Replica(NamedTuple):
    topic_partition: TopicPartition
    size_bytes: int
    offset_lag: int
    is_future: bool  # being moved here from another directory


@dataclass(frozen=True, slots=True, kw_only=True)
class LogDirectory:
    """Sizes of the volume are None where the broker does not tell."""

    path: str
    error: str | None
    total_bytes: int | None
    usable_bytes: int | None
    replicas: tuple[Replica, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumReplica:
    replica_id: BrokerId
    directory_id: str | None
    log_end_offset: Offset
    last_fetch_timestamp_ms: int | None
    last_caught_up_timestamp_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumDescription:
    leader_id: BrokerId
    leader_epoch: LeaderEpoch
    high_watermark: Offset
    voters: tuple[QuorumReplica, ...]
    observers: tuple[QuorumReplica, ...]
    endpoints: dict[BrokerId, tuple[tuple[str, str, int], ...]]  # listener, host and port of each node


class FeatureRange(NamedTuple):
    """`finalized` is the level in use, or None; the range is what the broker that was asked supports."""

    min_version: int
    max_version: int
    finalized: int | None


class UpgradeType(IntEnum):
    """Kafka's numbers."""

    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


class Clusters(AdminBase):
    async def describe_cluster(
        self, *, include_fenced_brokers: bool = False, timeout_ms: float | None = None
    ) -> ClusterDescription:
        async def attempt() -> ClusterDescription:
            least = FENCED_SINCE_VERSION if include_fenced_brokers else 0
            request = DescribeClusterRequest(include_fenced_brokers=include_fenced_brokers)
            response = await self.cluster.request(ANY, request, version_min=least)
            if response.error_code != ErrorCode.NONE:
                raise error_of(response.error_code, response.error_message)
            brokers = tuple(
                BrokerDescription(
                    node_id=each.broker_id,
                    host=each.host,
                    port=each.port,
                    rack=each.rack,
                    is_fenced=each.is_fenced if include_fenced_brokers else None,
                )
                for each in sorted(response.brokers, key=lambda each: int(each.broker_id))
            )
            controller_id = response.controller_id if response.controller_id >= 0 else None
            return ClusterDescription(cluster_id=response.cluster_id, controller_id=controller_id, brokers=brokers)

        return await self.cluster.retry(attempt, what="describing the cluster", timeout_ms=self.within_ms(timeout_ms))

    async def unregister_broker(self, broker_id: BrokerId, *, timeout_ms: float | None = None) -> None:
        """Forgets a broker that is gone for good."""
        request = UnregisterBrokerRequest(broker_id=broker_id)
        await self.ask_controller(request, what=f"unregistering broker {broker_id}", timeout_ms=timeout_ms)

    async def describe_log_dirs(
        self,
        brokers: Iterable[BrokerId] | None = None,
        *,
        partitions: Mapping[str, Iterable[int]] | None = None,
        timeout_ms: float | None = None,
    ) -> Results[BrokerId, list[LogDirectory]]:
        """Of these brokers or of all; all partitions there, or those named by topic."""
        topics = None
        if partitions is not None:
            topics = [
                DescribableLogDirTopic(topic=topic, partitions=list(numbers)) for topic, numbers in partitions.items()
            ]

        async def ask(node_id: BrokerId, _nodes: list[BrokerId]) -> Results[BrokerId, list[LogDirectory]]:
            response = await self.cluster.request(node_id, DescribeLogDirsRequest(topics=topics))
            found: Results[BrokerId, list[LogDirectory]] = Results()
            directories = [_log_directory(each) for each in response.results]
            found.add(node_id, response.error_code, directories, about=f"log directories of broker {node_id}")
            return found

        what = "describing log directories"
        if brokers is None:
            return await self.of_all_brokers(ask, what=what, timeout_ms=timeout_ms)
        return await self.carry_out(brokers, self.to_themselves, ask, what=what, timeout_ms=timeout_ms)

    async def describe_metadata_quorum(self, *, timeout_ms: float | None = None) -> QuorumDescription:
        request = DescribeQuorumRequest(
            topics=[RequestTopicData(topic_name=METADATA_TOPIC, partitions=[RequestPartitionData(partition_index=0)])]
        )

        async def attempt() -> QuorumDescription:
            response: DescribeQuorumResponse = await self.cluster.request(ANY, request)
            if response.error_code != ErrorCode.NONE:
                raise error_of(response.error_code, response.error_message, about="the quorum")
            quorum = response.topics[0].partitions[0]
            if quorum.error_code != ErrorCode.NONE:
                raise error_of(quorum.error_code, quorum.error_message, about="the quorum")
            return QuorumDescription(
                leader_id=quorum.leader_id,
                leader_epoch=quorum.leader_epoch,
                high_watermark=quorum.high_watermark,
                voters=tuple(map(_quorum_replica, quorum.current_voters)),
                observers=tuple(map(_quorum_replica, quorum.observers)),
                endpoints={
                    node.node_id: tuple((each.name, each.host, each.port) for each in node.listeners)
                    for node in response.nodes
                },
            )

        return await self.cluster.retry(attempt, what="describing the quorum", timeout_ms=self.within_ms(timeout_ms))

    async def add_raft_voter(
        self,
        voter_id: BrokerId,
        directory_id: Uuid,
        endpoints: Iterable[tuple[str, str, int]],
        *,
        timeout_ms: float | None = None,
    ) -> None:
        """A controller that follows the quorum already becomes a voter. Endpoints: listener, host and port."""
        request = AddRaftVoterRequest(
            cluster_id=self.cluster.metadata.cluster_id,
            timeout_ms=int(self.within_ms(timeout_ms)),
            voter_id=voter_id,
            voter_directory_id=directory_id,
            listeners=[VoterListener(name=name, host=host, port=port) for name, host, port in endpoints],
        )
        await self.ask_controller(request, what=f"adding voter {voter_id}", timeout_ms=timeout_ms)

    async def remove_raft_voter(
        self, voter_id: BrokerId, directory_id: Uuid, *, timeout_ms: float | None = None
    ) -> None:
        request = RemoveRaftVoterRequest(
            cluster_id=self.cluster.metadata.cluster_id, voter_id=voter_id, voter_directory_id=directory_id
        )
        await self.ask_controller(request, what=f"removing voter {voter_id}", timeout_ms=timeout_ms)

    async def describe_features(self, *, timeout_ms: float | None = None) -> dict[str, FeatureRange]:
        async def attempt() -> dict[str, FeatureRange]:
            request = ApiVersionsRequest(client_software_name="barnabas", client_software_version="1")
            response = await self.cluster.request(ANY, request)
            if response.error_code != ErrorCode.NONE:
                raise error_of(response.error_code)
            levels = {each.name: each.max_version_level for each in response.finalized_features}
            return {
                each.name: FeatureRange(each.min_version, each.max_version, levels.get(each.name))
                for each in sorted(response.supported_features, key=lambda each: str(each.name))
            }

        return await self.cluster.retry(attempt, what="describing features", timeout_ms=self.within_ms(timeout_ms))

    async def update_features(
        self,
        levels: Mapping[str, int],
        *,
        upgrade_type: UpgradeType = UpgradeType.UPGRADE,
        validate_only: bool = False,
        timeout_ms: float | None = None,
    ) -> None:
        """All of them or none. Level 0 switches a feature off, which is a downgrade."""
        request = UpdateFeaturesRequest(
            timeout_ms=int(self.within_ms(timeout_ms)),
            feature_updates=[
                FeatureUpdateKey(feature=name, max_version_level=level, upgrade_type=upgrade_type)
                for name, level in levels.items()
            ],
            validate_only=validate_only,
        )
        response = await self.ask_controller(request, what="updating features", timeout_ms=timeout_ms, version_min=1)
        for each in response.results:
            if each.error_code != ErrorCode.NONE:
                raise error_of(each.error_code, each.error_message, about=f"feature {each.feature}")

    async def registered_brokers(self, *, timeout_ms: float | None = None) -> ClusterDescription:
        """All that are registered, with those that do not serve; without these where brokers do not tell."""
        try:
            return await self.describe_cluster(include_fenced_brokers=True, timeout_ms=timeout_ms)
        except UnsupportedVersionError:
            return await self.describe_cluster(timeout_ms=timeout_ms)


def _log_directory(result: DescribeLogDirsResult) -> LogDirectory:
    failed = result.error_code != ErrorCode.NONE
    return LogDirectory(
        path=result.log_dir,
        error=error_of(result.error_code).message if failed else None,
        total_bytes=result.total_bytes if result.total_bytes >= 0 else None,
        usable_bytes=result.usable_bytes if result.usable_bytes >= 0 else None,
        replicas=tuple(
            Replica(
                TopicPartition(topic.name, each.partition_index),
                each.partition_size,
                each.offset_lag,
                each.is_future_key,
            )
            for topic in result.topics
            for each in topic.partitions
        ),
    )


def _quorum_replica(state: ReplicaState) -> QuorumReplica:
    directory_id = state.replica_directory_id
    return QuorumReplica(
        replica_id=state.replica_id,
        directory_id=None if directory_id == ZERO_UUID else uuid_text(directory_id),
        log_end_offset=state.log_end_offset,
        last_fetch_timestamp_ms=state.last_fetch_timestamp if state.last_fetch_timestamp >= 0 else None,
        last_caught_up_timestamp_ms=state.last_caught_up_timestamp if state.last_caught_up_timestamp >= 0 else None,
    )

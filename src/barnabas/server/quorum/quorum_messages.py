"""Between the plain values of `consensus.messages` and Kafka's messages for the partition of the metadata log."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from barnabas.consensus.messages import (
    BeginEpochRequest,
    EndEpochRequest,
    FetchPosition,
    FetchVerdict,
    LogEnd,
    SnapshotPosition,
    SnapshotVerdict,
    VoteRequest,
    VoteResponse,
)
from barnabas.consensus.voters import ReplicaKey
from barnabas.errors import ErrorCode
from barnabas.metadata.topic_names import METADATA_TOPIC, METADATA_TOPIC_ID
from barnabas.protocol.message import Message
from barnabas.protocol.messages import begin_quorum_epoch, end_quorum_epoch, fetch, vote
from barnabas.runtime.interfaces import Address
from barnabas.server.quorum.quorum_addresses import OwnEndpoints
from barnabas.types import NO_LEADER, NO_LEADER_EPOCH, BrokerId, Offset

if TYPE_CHECKING:
    from barnabas.protocol.messages import fetch_snapshot


def encode(message: VoteRequest | BeginEpochRequest | EndEpochRequest, cluster_id: str, own: OwnEndpoints) -> Message:
    """`own` is what a leader tells of itself."""
    if isinstance(message, VoteRequest):
        return _encode_vote(message, cluster_id)
    if isinstance(message, BeginEpochRequest):
        begin = _encode_begin(message, cluster_id)
        begin.leader_endpoints = [
            begin_quorum_epoch.LeaderEndpoint(name=each.listener, host=each.host, port=each.port)
            for each in own.endpoints
        ]
        return begin
    end = _encode_end(message, cluster_id)
    end.leader_endpoints = [
        end_quorum_epoch.LeaderEndpoint(name=each.listener, host=each.host, port=each.port) for each in own.endpoints
    ]
    return end


def endpoints_in(response: Any) -> dict[BrokerId, Address]:
    """Where the leader is, as an answer says."""
    return {each.node_id: (each.host, each.port) for each in response.node_endpoints or ()}


def leader_endpoints_in(request: Any, leader_id: BrokerId, listener: str) -> dict[BrokerId, Address]:
    """Where the leader that sends a request is, as it says itself."""
    told = [(each.host, each.port) for each in request.leader_endpoints or () if each.name == listener]
    return {leader_id: told[0]} if told else {}


def _encode_vote(request: VoteRequest, cluster_id: str) -> vote.VoteRequest:
    partition = vote.RequestPartitionData(
        partition_index=0,
        replica_epoch=request.epoch,
        replica_id=request.candidate.id,
        replica_directory_id=request.candidate.directory_id,
        voter_directory_id=request.voter.directory_id,
        last_offset_epoch=request.log_end.last_epoch,
        last_offset=request.log_end.end_offset,
        pre_vote=request.pre_vote,
    )
    topic = vote.RequestTopicData(topic_name=METADATA_TOPIC, partitions=[partition])
    return vote.VoteRequest(cluster_id=cluster_id, voter_id=request.voter.id, topics=[topic])


def decode_vote(request: vote.VoteRequest, own_id: int) -> VoteRequest:
    partition = request.topics[0].partitions[0]
    voter_id = own_id if request.voter_id < 0 else request.voter_id
    return VoteRequest(
        candidate=ReplicaKey(partition.replica_id, partition.replica_directory_id),
        voter=ReplicaKey(voter_id, partition.voter_directory_id),
        epoch=partition.replica_epoch,
        log_end=LogEnd(partition.last_offset_epoch, partition.last_offset),
        pre_vote=partition.pre_vote,
    )


def decode_vote_response(response: vote.VoteResponse) -> VoteResponse:
    if response.error_code or not response.topics:
        return VoteResponse(ErrorCode(response.error_code), NO_LEADER_EPOCH, NO_LEADER)
    partition = response.topics[0].partitions[0]
    return VoteResponse(
        ErrorCode(partition.error_code), partition.leader_epoch, partition.leader_id, partition.vote_granted
    )


def _encode_begin(request: BeginEpochRequest, cluster_id: str) -> begin_quorum_epoch.BeginQuorumEpochRequest:
    partition = begin_quorum_epoch.RequestPartitionData(
        partition_index=0,
        voter_directory_id=request.voter.directory_id,
        leader_id=request.leader_id,
        leader_epoch=request.epoch,
    )
    topic = begin_quorum_epoch.RequestTopicData(topic_name=METADATA_TOPIC, partitions=[partition])
    return begin_quorum_epoch.BeginQuorumEpochRequest(cluster_id=cluster_id, voter_id=request.voter.id, topics=[topic])


def decode_begin(request: begin_quorum_epoch.BeginQuorumEpochRequest, own_id: int) -> BeginEpochRequest:
    partition = request.topics[0].partitions[0]
    voter_id = own_id if request.voter_id < 0 else request.voter_id
    voter = ReplicaKey(voter_id, partition.voter_directory_id)
    return BeginEpochRequest(partition.leader_id, partition.leader_epoch, voter)


def _encode_end(request: EndEpochRequest, cluster_id: str) -> end_quorum_epoch.EndQuorumEpochRequest:
    partition = end_quorum_epoch.RequestPartitionData(
        partition_index=0,
        leader_id=request.leader_id,
        leader_epoch=request.epoch,
        preferred_successors=list(request.successors),
        preferred_candidates=[end_quorum_epoch.ReplicaInfo(candidate_id=voter_id) for voter_id in request.successors],
    )
    topic = end_quorum_epoch.RequestTopicData(topic_name=METADATA_TOPIC, partitions=[partition])
    return end_quorum_epoch.EndQuorumEpochRequest(cluster_id=cluster_id, topics=[topic])


def decode_end(request: end_quorum_epoch.EndQuorumEpochRequest) -> EndEpochRequest:
    partition = request.topics[0].partitions[0]
    successors = [candidate.candidate_id for candidate in partition.preferred_candidates]
    return EndEpochRequest(
        partition.leader_id, partition.leader_epoch, tuple(successors or partition.preferred_successors)
    )


def fetch_request(
    position: FetchPosition, cluster_id: str, high_watermark: Offset, wait_ms: int, size_bytes_max: int
) -> fetch.FetchRequest:
    partition = fetch.FetchPartition(
        partition=0,
        current_leader_epoch=position.epoch,
        fetch_offset=position.offset,
        last_fetched_epoch=position.last_fetched_epoch,
        partition_max_bytes=size_bytes_max,
        replica_directory_id=position.replica.directory_id,
        high_watermark=high_watermark,
    )
    return fetch.FetchRequest(
        cluster_id=cluster_id,
        replica_state=fetch.ReplicaState(replica_id=position.replica.id),
        max_wait_ms=wait_ms,
        min_bytes=1,
        max_bytes=size_bytes_max,
        session_epoch=-1,
        topics=[fetch.FetchTopic(topic_id=METADATA_TOPIC_ID, partitions=[partition])],
    )


def decode_fetch(request: fetch.FetchRequest) -> tuple[FetchPosition, Offset]:
    """The position, and the high watermark that the replica knows."""
    partition = request.topics[0].partitions[0]
    replica_id = request.replica_id if request.replica_state is None else request.replica_state.replica_id
    position = FetchPosition(
        replica=ReplicaKey(replica_id, partition.replica_directory_id),
        epoch=partition.current_leader_epoch,
        offset=partition.fetch_offset,
        last_fetched_epoch=partition.last_fetched_epoch,
    )
    return position, partition.high_watermark


def fetch_response(
    verdict: FetchVerdict,
    log_start_offset: Offset,
    records: object,
    leader_endpoint: tuple[tuple[BrokerId, Address], ...],
) -> fetch.FetchResponse:
    data = fetch.PartitionData(
        partition_index=0,
        error_code=verdict.error,
        high_watermark=verdict.high_watermark,
        last_stable_offset=verdict.high_watermark,
        log_start_offset=log_start_offset,
        current_leader=fetch.LeaderIdAndEpoch(leader_id=verdict.leader_id, leader_epoch=verdict.epoch),
        records=records,  # type: ignore[arg-type]
    )
    if verdict.diverging is not None:
        data.diverging_epoch = fetch.EpochEndOffset(
            epoch=verdict.diverging.last_epoch, end_offset=verdict.diverging.end_offset
        )
    if verdict.snapshot is not None:
        data.snapshot_id = fetch.SnapshotId(end_offset=verdict.snapshot.end_offset, epoch=verdict.snapshot.last_epoch)
    return fetch.FetchResponse(
        responses=[fetch.FetchableTopicResponse(topic_id=METADATA_TOPIC_ID, partitions=[data])],
        node_endpoints=[
            fetch.NodeEndpoint(node_id=node_id, host=host, port=port) for node_id, (host, port) in leader_endpoint
        ],
    )


def decode_fetch_response(response: fetch.FetchResponse) -> tuple[FetchVerdict, memoryview]:
    empty = memoryview(b"")
    if response.error_code or not response.responses:
        return FetchVerdict(ErrorCode(response.error_code), NO_LEADER_EPOCH, NO_LEADER), empty
    data = response.responses[0].partitions[0]
    leader, diverging, snapshot = data.current_leader, data.diverging_epoch, data.snapshot_id
    verdict = FetchVerdict(
        error=ErrorCode(data.error_code),
        epoch=NO_LEADER_EPOCH if leader is None else leader.leader_epoch,
        leader_id=NO_LEADER if leader is None else leader.leader_id,
        high_watermark=data.high_watermark,
        diverging=None if diverging is None else LogEnd(diverging.epoch, diverging.end_offset),
        snapshot=None if snapshot is None else LogEnd(snapshot.epoch, snapshot.end_offset),
    )
    return verdict, data.records if isinstance(data.records, memoryview) else empty


def fetch_snapshot_request(
    position: SnapshotPosition, cluster_id: str, size_bytes_max: int
) -> fetch_snapshot.FetchSnapshotRequest:
    from barnabas.protocol.messages import fetch_snapshot

    snapshot = fetch_snapshot.RequestSnapshotId(
        end_offset=position.snapshot.end_offset, epoch=position.snapshot.last_epoch
    )
    partition = fetch_snapshot.RequestPartitionSnapshot(
        partition=0,
        current_leader_epoch=position.epoch,
        snapshot_id=snapshot,
        position=position.position,
        replica_directory_id=position.replica.directory_id,
    )
    return fetch_snapshot.FetchSnapshotRequest(
        cluster_id=cluster_id,
        replica_id=position.replica.id,
        max_bytes=size_bytes_max,
        topics=[fetch_snapshot.RequestTopicSnapshot(name=METADATA_TOPIC, partitions=[partition])],
    )


def decode_fetch_snapshot(request: fetch_snapshot.FetchSnapshotRequest) -> SnapshotPosition:
    partition = request.topics[0].partitions[0]
    return SnapshotPosition(
        replica=ReplicaKey(request.replica_id, partition.replica_directory_id),
        epoch=partition.current_leader_epoch,
        snapshot=LogEnd(partition.snapshot_id.epoch, partition.snapshot_id.end_offset),
        position=partition.position,
    )


def fetch_snapshot_response(verdict: SnapshotVerdict, data: object = b"") -> fetch_snapshot.FetchSnapshotResponse:
    from barnabas.protocol.messages import fetch_snapshot

    partition = fetch_snapshot.ResponsePartitionSnapshot(
        index=0,
        error_code=verdict.error,
        snapshot_id=fetch_snapshot.ResponseSnapshotId(
            end_offset=verdict.snapshot.end_offset, epoch=verdict.snapshot.last_epoch
        ),
        current_leader=fetch_snapshot.LeaderIdAndEpoch(leader_id=verdict.leader_id, leader_epoch=verdict.epoch),
        size=verdict.size_bytes,
        position=verdict.position,
        unaligned_records=data,  # type: ignore[arg-type]
    )
    topic = fetch_snapshot.ResponseTopicSnapshot(name=METADATA_TOPIC, partitions=[partition])
    return fetch_snapshot.FetchSnapshotResponse(topics=[topic])


def decode_fetch_snapshot_response(
    response: fetch_snapshot.FetchSnapshotResponse,
) -> tuple[SnapshotVerdict, memoryview]:
    empty = memoryview(b"")
    if response.error_code or not response.topics:
        return SnapshotVerdict(ErrorCode(response.error_code), NO_LEADER_EPOCH, NO_LEADER), empty
    partition = response.topics[0].partitions[0]
    leader = partition.current_leader
    verdict = SnapshotVerdict(
        error=ErrorCode(partition.error_code),
        epoch=NO_LEADER_EPOCH if leader is None else leader.leader_epoch,
        leader_id=NO_LEADER if leader is None else leader.leader_id,
        snapshot=LogEnd(partition.snapshot_id.epoch, partition.snapshot_id.end_offset),
        size_bytes=partition.size,
        position=partition.position,
    )
    records = partition.unaligned_records
    return verdict, records if isinstance(records, memoryview) else empty


def refusal(
    request: vote.VoteRequest | begin_quorum_epoch.BeginQuorumEpochRequest | end_quorum_epoch.EndQuorumEpochRequest,
    cluster_id: str,
) -> ErrorCode:
    """Why a request of another voter is not even looked at."""
    if request.cluster_id is not None and request.cluster_id != cluster_id:
        return ErrorCode.INCONSISTENT_CLUSTER_ID
    asked = [(topic.topic_name, each.partition_index) for topic in request.topics for each in topic.partitions]
    return ErrorCode.NONE if asked == [(METADATA_TOPIC, 0)] else ErrorCode.INVALID_REQUEST

"""FetchSnapshot, versions 0 to 1, on listeners of controllers: one part of a snapshot of the metadata (KIP-630).

A node whose log ends before the leader's begins is told of a snapshot by Fetch and copies it from here, part by part.
Who may read it is decided in `consensus.raft`. The snapshot that a directory was formatted with is given to nobody.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.errors import ErrorCode
from barnabas.metadata.topic_names import METADATA_TOPIC
from barnabas.protocol.messages.fetch_snapshot import (
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    ResponsePartitionSnapshot,
    ResponseTopicSnapshot,
)
from barnabas.server.context import RequestContext
from barnabas.server.quorum import quorum_messages

if TYPE_CHECKING:
    from barnabas.server.broker import Broker


def handle(broker: Broker, context: RequestContext, request: FetchSnapshotRequest) -> FetchSnapshotResponse:
    if request.cluster_id is not None and request.cluster_id != broker.cluster_id:
        return FetchSnapshotResponse(error_code=ErrorCode.INCONSISTENT_CLUSTER_ID)
    asked = [(topic.name, each.partition) for topic in request.topics for each in topic.partitions]
    if len(asked) != 1:
        return FetchSnapshotResponse(error_code=ErrorCode.INVALID_REQUEST)
    if asked != [(METADATA_TOPIC, 0)]:
        return _unknown(*asked[0])
    position = quorum_messages.decode_fetch_snapshot(request)
    verdict = broker.controller.quorum.receive_fetch_snapshot(position)
    if verdict.error != ErrorCode.NONE:
        return quorum_messages.fetch_snapshot_response(verdict)
    log = broker.controller.log
    size_bytes = log.snapshot_size_bytes(position.snapshot)
    if size_bytes is None:
        return quorum_messages.fetch_snapshot_response(verdict._replace(error=ErrorCode.SNAPSHOT_NOT_FOUND))
    if not 0 <= position.position < size_bytes:
        return quorum_messages.fetch_snapshot_response(verdict._replace(error=ErrorCode.POSITION_OUT_OF_RANGE))
    part = log.read_snapshot_part(position.snapshot, position.position, request.max_bytes)
    return quorum_messages.fetch_snapshot_response(
        verdict._replace(size_bytes=size_bytes, position=position.position), part
    )


def _unknown(name: str, partition: int) -> FetchSnapshotResponse:
    answer = ResponsePartitionSnapshot(index=partition, error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    return FetchSnapshotResponse(topics=[ResponseTopicSnapshot(name=name, partitions=[answer])])

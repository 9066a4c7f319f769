"""DescribeQuorum, versions 0 to 2: who votes on metadata, who leads, and how far each replica is.

Asked for anything else than exactly partition 0 of `__cluster_metadata`, every partition of the request is
UNKNOWN_TOPIC_OR_PARTITION, as in Kafka. A leader has fetched from itself just now. A node without a listener for
controllers is listed with its brokers' listeners. At kraft.version 0 voters are known by their id alone, so their
directory ids are zero.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.consensus.progress import ReplicaProgress
from barnabas.consensus.voters import ReplicaKey
from barnabas.errors import ErrorCode
from barnabas.metadata.topic_names import METADATA_TOPIC
from barnabas.protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    Listener,
    Node,
    ReplicaState,
    ResponsePartitionData,
    ResponseTopicData,
)
from barnabas.server.context import RequestContext

if TYPE_CHECKING:
    from barnabas.server.broker import Broker

DIRECTORIES_SINCE_VERSION = 2  # and nodes with their endpoints


def handle(broker: Broker, context: RequestContext, request: DescribeQuorumRequest) -> DescribeQuorumResponse:
    asked = [
        (topic.topic_name, partition.partition_index) for topic in request.topics for partition in topic.partitions
    ]
    if len(request.topics) != 1 or asked != [(METADATA_TOPIC, 0)]:
        return _unknown(request)
    return DescribeQuorumResponse(
        topics=[ResponseTopicData(topic_name=METADATA_TOPIC, partitions=[_quorum(broker, context.api_version)])],
        nodes=_nodes(broker, context) if context.api_version >= DIRECTORIES_SINCE_VERSION else [],
    )


def _unknown(request: DescribeQuorumRequest) -> DescribeQuorumResponse:
    return DescribeQuorumResponse(
        topics=[
            ResponseTopicData(
                topic_name=topic.topic_name,
                partitions=[
                    ResponsePartitionData(
                        partition_index=partition.partition_index,
                        error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                        error_message="Only partition 0 of __cluster_metadata has a quorum.",
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def _quorum(broker: Broker, api_version: int) -> ResponsePartitionData:
    controller, clock = broker.controller, broker.runtime.clock
    raft = controller.quorum.raft
    progress = raft.progress
    if progress is None:
        return ResponsePartitionData(partition_index=0, error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER)
    now_ms = clock.monotonic_ms()
    leads = ReplicaProgress(raft.replica, controller.log.end_offset, now_ms, now_ms)
    voters = [leads if each.key.id == raft.replica.id else progress.of(each.key) for each in raft.voters.voters]
    observers = list(progress.observers(now_ms))
    if api_version < DIRECTORIES_SINCE_VERSION:
        voters, observers = _without_directories(voters), _without_directories(observers)
    elif controller.quorum.voter_history.kraft_version == 0:
        voters = _without_directories(voters)
    to_wall_ms = clock.now_ms() - now_ms
    return ResponsePartitionData(
        partition_index=0,
        leader_id=controller.node_id,
        leader_epoch=raft.epoch,
        high_watermark=controller.high_watermark,
        current_voters=[_state(each, to_wall_ms) for each in voters],
        observers=[_state(each, to_wall_ms) for each in observers],
    )


def _without_directories(replicas: list[ReplicaProgress]) -> list[ReplicaProgress]:
    return [each._replace(key=ReplicaKey(each.key.id)) for each in replicas]


def _state(replica: ReplicaProgress, to_wall_ms: float) -> ReplicaState:
    return ReplicaState(
        replica_id=replica.key.id,
        replica_directory_id=replica.key.directory_id,
        log_end_offset=replica.end_offset,
        last_fetch_timestamp=-1 if replica.fetch_ms < 0 else int(replica.fetch_ms + to_wall_ms),
        last_caught_up_timestamp=-1 if replica.caught_up_ms < 0 else int(replica.caught_up_ms + to_wall_ms),
    )


def _nodes(broker: Broker, context: RequestContext) -> list[Node]:
    found = []
    for voter in broker.controller.quorum.raft.voters.voters:
        listeners = [Listener(name=each.listener, host=each.host, port=each.port) for each in voter.endpoints]
        if not listeners and voter.key.id == broker.node_id:
            host, port = broker.advertised(context)
            known = broker.controller.image.brokers.get(broker.node_id)
            name = known.endpoints[0].listener if known is not None and known.endpoints else ""
            listeners = [Listener(name=name, host=host, port=port)]
        found.append(Node(node_id=voter.key.id, listeners=listeners))
    return found

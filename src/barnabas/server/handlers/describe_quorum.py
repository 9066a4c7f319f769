"""DescribeQuorum, versions 0 to 2: who votes on metadata, who leads, and how far each replica is.

Asked for anything else than exactly partition 0 of `__cluster_metadata`, every partition of the request is
UNKNOWN_TOPIC_OR_PARTITION, as in Kafka. A leader has fetched from itself just now. Voters are static, so their
directory ids are zero. A node without a listener for controllers is listed with its brokers' listeners.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

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

NODES_SINCE_VERSION = 2


def handle(broker: Broker, context: RequestContext, request: DescribeQuorumRequest) -> DescribeQuorumResponse:
    asked = [
        (topic.topic_name, partition.partition_index) for topic in request.topics for partition in topic.partitions
    ]
    if len(request.topics) != 1 or asked != [(METADATA_TOPIC, 0)]:
        return _unknown(request)
    return DescribeQuorumResponse(
        topics=[ResponseTopicData(topic_name=METADATA_TOPIC, partitions=[_quorum(broker)])],
        nodes=_nodes(broker, context) if context.api_version >= NODES_SINCE_VERSION else [],
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


def _quorum(broker: Broker) -> ResponsePartitionData:
    controller = broker.controller
    now_ms = broker.runtime.clock.now_ms()
    return ResponsePartitionData(
        partition_index=0,
        leader_id=controller.node_id,
        leader_epoch=controller.quorum.epoch,
        high_watermark=controller.high_watermark,
        current_voters=[
            ReplicaState(
                replica_id=controller.node_id,
                log_end_offset=controller.log.end_offset,
                last_fetch_timestamp=now_ms,
                last_caught_up_timestamp=now_ms,
            )
        ],
    )


def _nodes(broker: Broker, context: RequestContext) -> list[Node]:
    found = []
    image = broker.controller.image
    for controller in image.controllers.values():
        listeners = [
            Listener(name=endpoint.listener, host=endpoint.host, port=endpoint.port)
            for endpoint in controller.endpoints
        ]
        if not listeners and controller.id == broker.node_id:
            host, port = broker.advertised(context)
            name = image.brokers[controller.id].endpoints[0].listener
            listeners = [Listener(name=name, host=host, port=port)]
        found.append(Node(node_id=controller.id, listeners=listeners))
    return found

"""DescribeCluster, versions 0 to 2: brokers and their addresses; from version 2 on fenced ones too, if asked for.

Only brokers are described here: endpoint type 2 (controllers) is MISMATCHED_ENDPOINT_TYPE on a broker's listener.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.errors import ErrorCode
from barnabas.protocol.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from barnabas.server import cluster_view
from barnabas.server.context import RequestContext
from barnabas.server.operations import CLUSTER_OPERATIONS, NOT_ASKED

if TYPE_CHECKING:
    from barnabas.server.broker import Broker

BROKERS, CONTROLLERS = 1, 2


def handle(broker: Broker, context: RequestContext, request: DescribeClusterRequest) -> DescribeClusterResponse:
    if request.endpoint_type == CONTROLLERS:
        return DescribeClusterResponse(
            error_code=ErrorCode.MISMATCHED_ENDPOINT_TYPE,
            error_message="This is a listener of brokers; controllers are described on their own.",
        )
    if request.endpoint_type != BROKERS:
        return DescribeClusterResponse(
            error_code=ErrorCode.UNSUPPORTED_ENDPOINT_TYPE,
            error_message=f"There is no endpoint type {request.endpoint_type}.",
        )
    image = broker.controller.image
    nodes = cluster_view.nodes(broker, context, image, fenced=request.include_fenced_brokers)
    return DescribeClusterResponse(
        cluster_id=broker.cluster_id,
        controller_id=broker.node_id,  # any broker takes what only the controller may do, and passes it on
        brokers=[
            DescribeClusterBroker(
                broker_id=node.id, host=node.host, port=node.port, rack=node.rack, is_fenced=node.fenced
            )
            for node in nodes
        ],
        cluster_authorized_operations=(
            CLUSTER_OPERATIONS if request.include_cluster_authorized_operations else NOT_ASKED
        ),
    )

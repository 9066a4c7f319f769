"""DescribeCluster, versions 0 to 2: brokers and their addresses; from version 2 on fenced ones too, if asked for.

On a listener of controllers it tells of controllers, and only if asked for those (endpoint type 2); anything else is
MISMATCHED_ENDPOINT_TYPE.
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
from barnabas.server.context import ListenerKind, RequestContext
from barnabas.server.operations import CLUSTER_OPERATIONS, NOT_ASKED

if TYPE_CHECKING:
    from barnabas.server.broker import Broker

BROKERS, CONTROLLERS = 1, 2
ENDPOINT_TYPES = {BROKERS: "BROKER", CONTROLLERS: "CONTROLLER"}  # as Kafka's tools print them


def handle(broker: Broker, context: RequestContext, request: DescribeClusterRequest) -> DescribeClusterResponse:
    if request.endpoint_type not in (BROKERS, CONTROLLERS):
        return DescribeClusterResponse(
            error_code=ErrorCode.UNSUPPORTED_ENDPOINT_TYPE,
            error_message=f"There is no endpoint type {request.endpoint_type}.",
        )
    served = CONTROLLERS if context.listener is ListenerKind.CONTROLLERS else BROKERS
    if request.endpoint_type != served:
        return DescribeClusterResponse(
            error_code=ErrorCode.MISMATCHED_ENDPOINT_TYPE,
            error_message=(
                f"The request was sent to an endpoint of type {ENDPOINT_TYPES[served]}, "
                f"but we wanted an endpoint of type {ENDPOINT_TYPES[request.endpoint_type]}"
            ),
        )
    if served == CONTROLLERS:
        return _controllers(broker)
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


def _controllers(broker: Broker) -> DescribeClusterResponse:
    """Those that have registered, where each speaks to the others."""
    return DescribeClusterResponse(
        cluster_id=broker.cluster_id,
        endpoint_type=CONTROLLERS,
        controller_id=broker.controller.quorum.leader_id,
        brokers=[
            DescribeClusterBroker(broker_id=each.id, host=each.endpoints[0].host, port=each.endpoints[0].port)
            for each in broker.controller.image.controllers.values()
            if each.endpoints
        ],
    )

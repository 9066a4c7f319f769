"""FindCoordinator, versions 0 to 6: which broker coordinates a group; from version 4 on, many at once.

The first who asks makes `__consumer_offsets`. Differs from Kafka: it waits for that, where Kafka answers
COORDINATOR_NOT_AVAILABLE and lets the client ask again.
Share groups do not exist: asking for one is INVALID_REQUEST. Transactions have no coordinator yet.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING

from barnabas.errors import ErrorCode
from barnabas.metadata.topic_names import OFFSETS_TOPIC
from barnabas.protocol.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from barnabas.server import auto_create, cluster_view
from barnabas.server.context import RequestContext

if TYPE_CHECKING:
    from barnabas.server.broker import Broker

GROUP = 0
TRANSACTION = 1
BATCHED_VERSION = 4
NO_NODE = -1
NO_ERROR = "NONE"  # what Kafka says there before version 4


def handle(
    broker: Broker, context: RequestContext, request: FindCoordinatorRequest
) -> FindCoordinatorResponse | Awaitable[FindCoordinatorResponse]:
    if request.key_type == GROUP and OFFSETS_TOPIC not in broker.controller.image.topics_by_name:
        return _create_and_find(broker, context, request)
    return _find_all(broker, context, request)


async def _create_and_find(
    broker: Broker, context: RequestContext, request: FindCoordinatorRequest
) -> FindCoordinatorResponse:
    await auto_create.create(broker, [OFFSETS_TOPIC])
    return _find_all(broker, context, request)


def _find_all(broker: Broker, context: RequestContext, request: FindCoordinatorRequest) -> FindCoordinatorResponse:
    if context.api_version >= BATCHED_VERSION:
        found = [_find(broker, context, request.key_type, key) for key in request.coordinator_keys]
        return FindCoordinatorResponse(coordinators=found)
    coordinator = _find(broker, context, request.key_type, request.key)
    return FindCoordinatorResponse(
        error_code=coordinator.error_code,
        error_message=coordinator.error_message or NO_ERROR,
        node_id=coordinator.node_id,
        host=coordinator.host,
        port=coordinator.port,
    )


def _find(broker: Broker, context: RequestContext, key_type: int, key: str) -> Coordinator:
    if key_type not in (GROUP, TRANSACTION):
        return _not_found(key, ErrorCode.INVALID_REQUEST, "There are only groups and transactions to coordinate.")
    image = broker.controller.image
    state = image.partition(OFFSETS_TOPIC, broker.groups.partition_for(key)) if key_type == GROUP else None
    if state is not None:
        for node in cluster_view.nodes(broker, context, image):
            if node.id == state.leader:
                return Coordinator(key=key, node_id=node.id, host=node.host, port=node.port, error_message="")
    return _not_found(key, ErrorCode.COORDINATOR_NOT_AVAILABLE, "The coordinator is not available.")


def _not_found(key: str, error: ErrorCode, message: str) -> Coordinator:
    return Coordinator(key=key, node_id=NO_NODE, host="", port=NO_NODE, error_code=error, error_message=message)

"""FindCoordinator, versions 0 to 6: which broker coordinates a group, or a transactional id; from version 4 on, many at
once.

Differs from Kafka: the first request creates `__consumer_offsets` or `__transaction_state` and waits for it, where
Kafka answers COORDINATOR_NOT_AVAILABLE and lets the client ask again. While a coordinator is not available, the answer
waits for a change of the metadata, at most 100 ms, because some clients ask again at once: Kafka's Admin client sends
more than a thousand such requests in a second.
Share groups do not exist: asking for one is INVALID_REQUEST.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TYPE_CHECKING

from barnabas.errors import ErrorCode
from barnabas.metadata.topic_names import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from barnabas.protocol.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from barnabas.server import auto_create, cluster_view
from barnabas.server.context import RequestContext

if TYPE_CHECKING:
    from barnabas.server.broker import Broker

GROUP = 0
TRANSACTION = 1
TOPICS = {GROUP: OFFSETS_TOPIC, TRANSACTION: TRANSACTIONS_TOPIC}
BATCHED_VERSION = 4
NO_NODE = -1
UNAVAILABLE_MS_MAX = 100  # the first backoff of Kafka's clients (retry.backoff.ms)
NO_ERROR = "NONE"  # what Kafka says there before version 4


def handle(
    broker: Broker, context: RequestContext, request: FindCoordinatorRequest
) -> FindCoordinatorResponse | Awaitable[FindCoordinatorResponse]:
    topic = TOPICS.get(request.key_type)
    if topic is not None and topic not in broker.controller.image.topics_by_name:
        return _create_and_find(broker, context, request, topic)
    response = _find_all(broker, context, request)
    if not _is_missing_one(response):
        return response
    return broker.supervisor.awaited("FindCoordinator", _find_later(broker, context, request))


async def _create_and_find(
    broker: Broker, context: RequestContext, request: FindCoordinatorRequest, topic: str
) -> FindCoordinatorResponse:
    await auto_create.create(broker, [topic])
    response = _find_all(broker, context, request)
    return await _find_later(broker, context, request) if _is_missing_one(response) else response


async def _find_later(
    broker: Broker, context: RequestContext, request: FindCoordinatorRequest
) -> FindCoordinatorResponse:
    """Waits until the coordinators are there, at most UNAVAILABLE_MS_MAX."""
    clock = broker.runtime.clock
    deadline_ms = clock.monotonic_ms() + UNAVAILABLE_MS_MAX
    while True:
        left_ms = deadline_ms - clock.monotonic_ms()
        response = _find_all(broker, context, request)
        if left_ms <= 0 or not _is_missing_one(response):
            return response
        await asyncio.wait([broker.controller.quorum.news()], timeout=left_ms / 1000)


def _is_missing_one(response: FindCoordinatorResponse) -> bool:
    missing = ErrorCode.COORDINATOR_NOT_AVAILABLE
    return response.error_code == missing or any(each.error_code == missing for each in response.coordinators)


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
    topic = TOPICS.get(key_type)
    if topic is None:
        return _not_found(key, ErrorCode.INVALID_REQUEST, "There are only groups and transactions to coordinate.")
    image = broker.controller.image
    coordinator = broker.groups if key_type == GROUP else broker.transactions
    state = image.partition(topic, coordinator.partition_for(key))
    if state is not None:
        for node in cluster_view.nodes(broker, context, image):
            if node.id == state.leader:
                return Coordinator(key=key, node_id=node.id, host=node.host, port=node.port, error_message="")
    return _not_found(key, ErrorCode.COORDINATOR_NOT_AVAILABLE, "The coordinator is not available.")


def _not_found(key: str, error: ErrorCode, message: str) -> Coordinator:
    return Coordinator(key=key, node_id=NO_NODE, host="", port=NO_NODE, error_code=error, error_message=message)

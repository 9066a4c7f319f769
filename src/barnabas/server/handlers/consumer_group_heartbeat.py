"""ConsumerGroupHeartbeat, versions 0 to 1 (KIP-848). The rules are in `groups.consumer_heartbeat`.

Where `group.coordinator.rebalance.protocols` leaves the consumer protocol out, or group.version is 0, the answer is
UNSUPPORTED_VERSION, with which clients fall back to the classic protocol.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING

from barnabas.errors import ErrorCode
from barnabas.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from barnabas.server.context import RequestContext
from barnabas.server.coordinators.group_client import client_of

if TYPE_CHECKING:
    from barnabas.server.broker import Broker


def handle(
    broker: Broker, context: RequestContext, request: ConsumerGroupHeartbeatRequest
) -> ConsumerGroupHeartbeatResponse | Awaitable[ConsumerGroupHeartbeatResponse]:
    if not broker.groups.serves_consumer_protocol:
        return failed(ErrorCode.UNSUPPORTED_VERSION)
    client = client_of(context)
    return broker.groups.submit(
        request.group_id, lambda shard, pending, now: shard.consumer_heartbeat(request, client, pending, now), failed
    )


def failed(error: ErrorCode) -> ConsumerGroupHeartbeatResponse:
    return ConsumerGroupHeartbeatResponse(error_code=error)

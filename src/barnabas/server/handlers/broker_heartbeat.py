"""BrokerHeartbeat, versions 0 to 2: a broker lives, how far it has read the metadata log, and whether it wants to
leave. The rules are in `controller.lifecycle`.

Where a heartbeat came from is remembered: when that connection ends, the broker has a fraction of its session left.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING

from barnabas.controller import lifecycle
from barnabas.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from barnabas.server.context import RequestContext

if TYPE_CHECKING:
    from barnabas.server.broker import Broker


def handle(
    broker: Broker, context: RequestContext, request: BrokerHeartbeatRequest
) -> Awaitable[BrokerHeartbeatResponse]:
    controller = broker.controller
    controller.sessions_watch.heard(request.broker_id, context.peer_address)
    return controller.respond(
        lambda image, next_offset: lifecycle.heartbeat(
            controller.electorate(image),
            controller.sessions,
            request,
            next_offset,
            broker.runtime.clock.monotonic_ms(),
        ),
        lambda error: BrokerHeartbeatResponse(error_code=error),
    )

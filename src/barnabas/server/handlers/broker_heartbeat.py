"""BrokerHeartbeat, versions 0 to 2, on listeners of controllers: a broker is alive, and wants to be unfenced, or to go.

The rules are in `controller.lifecycle`. The connection of an accepted heartbeat is remembered: when it ends, and no
later heartbeat came on another one, the controller finds out whether the broker's process is dead.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING

from barnabas.controller import lifecycle
from barnabas.controller.decision import Decision
from barnabas.controller.electorate import Electorate
from barnabas.errors import ErrorCode
from barnabas.metadata.image import MetadataImage
from barnabas.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from barnabas.server.context import RequestContext
from barnabas.types import Offset

if TYPE_CHECKING:
    from barnabas.server.broker import Broker


def handle(
    broker: Broker, context: RequestContext, request: BrokerHeartbeatRequest
) -> Awaitable[BrokerHeartbeatResponse]:
    def decide(image: MetadataImage, next_offset: Offset) -> Decision[BrokerHeartbeatResponse]:
        electorate = Electorate(image, broker.static_config)
        now_ms = broker.runtime.clock.monotonic_ms()
        decision = lifecycle.heartbeat(electorate, broker.controller.sessions, request, next_offset, now_ms)
        if decision.response.error_code == ErrorCode.NONE:
            broker.controller.sessions_watch.heard(request.broker_id, context.peer_address)
        return decision

    return broker.controller.respond(decide, lambda error: BrokerHeartbeatResponse(error_code=error))

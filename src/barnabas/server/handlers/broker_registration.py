"""BrokerRegistration, versions 0 to 5: a broker introduces itself to the active controller and gets its epoch.
The rules are in `controller.registration`."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING

from barnabas.controller import registration
from barnabas.protocol.messages.broker_registration import BrokerRegistrationRequest, BrokerRegistrationResponse
from barnabas.server.context import RequestContext

if TYPE_CHECKING:
    from barnabas.server.broker import Broker


def handle(
    broker: Broker, context: RequestContext, request: BrokerRegistrationRequest
) -> Awaitable[BrokerRegistrationResponse]:
    controller = broker.controller
    return controller.respond(
        lambda image, next_offset: registration.register_broker(
            controller.electorate(image),
            controller.sessions,
            request,
            broker.cluster_id,
            next_offset,
            broker.runtime.clock.monotonic_ms(),
        ),
        lambda error: BrokerRegistrationResponse(error_code=error),
    )

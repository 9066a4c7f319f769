"""BrokerRegistration, versions 0 to 4, on listeners of controllers: a broker introduces itself and gets its epoch.

The rules are in `controller.registration`.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING

from barnabas.controller import registration
from barnabas.controller.decision import Decision
from barnabas.controller.electorate import Electorate
from barnabas.metadata.image import MetadataImage
from barnabas.protocol.messages.broker_registration import BrokerRegistrationRequest, BrokerRegistrationResponse
from barnabas.server.context import RequestContext
from barnabas.types import Offset

if TYPE_CHECKING:
    from barnabas.server.broker import Broker


def handle(
    broker: Broker, context: RequestContext, request: BrokerRegistrationRequest
) -> Awaitable[BrokerRegistrationResponse]:
    def decide(image: MetadataImage, next_offset: Offset) -> Decision[BrokerRegistrationResponse]:
        return registration.register_broker(
            Electorate(image, broker.static_config),
            broker.controller.sessions,
            request,
            broker.cluster_id,
            next_offset,
            broker.runtime.clock.monotonic_ms(),
        )

    return broker.controller.respond(decide, lambda error: BrokerRegistrationResponse(error_code=error))

"""ControllerRegistration, version 0, on listeners of controllers: a controller says where it is and what it can do.

Every node with the role of a controller does so when it starts, voter or not; the rule is in `controller.brokers`.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING

from barnabas.controller import brokers
from barnabas.controller.decision import Decision
from barnabas.controller.features import SupportedFeature
from barnabas.metadata.image import Endpoint, MetadataImage
from barnabas.protocol.messages.controller_registration import (
    ControllerRegistrationRequest,
    ControllerRegistrationResponse,
)
from barnabas.server.context import RequestContext
from barnabas.types import Offset

if TYPE_CHECKING:
    from barnabas.server.broker import Broker


def handle(
    broker: Broker, context: RequestContext, request: ControllerRegistrationRequest
) -> Awaitable[ControllerRegistrationResponse]:
    endpoints = tuple(Endpoint(each.name, each.host, each.port, each.security_protocol) for each in request.listeners)
    supported = [
        SupportedFeature(each.name, each.min_supported_version, each.max_supported_version) for each in request.features
    ]

    def decide(image: MetadataImage, _next_offset: Offset) -> Decision[ControllerRegistrationResponse]:
        decision = brokers.register_controller(
            image, request.controller_id, request.incarnation_id, endpoints, supported
        )
        return Decision(decision.records, ControllerRegistrationResponse(error_message=None))

    return broker.controller.respond(decide, lambda error: ControllerRegistrationResponse(error_code=error))

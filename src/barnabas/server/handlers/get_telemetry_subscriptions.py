"""GetTelemetrySubscriptions, version 0: which metrics a client is asked to push (KIP-714)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.errors import ErrorCode
from barnabas.protocol.messages.get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
)
from barnabas.server.context import RequestContext
from barnabas.server.telemetry import ACCEPTED_COMPRESSION_TYPES

if TYPE_CHECKING:
    from barnabas.server.broker import Broker


def handle(
    broker: Broker, context: RequestContext, request: GetTelemetrySubscriptionsRequest
) -> GetTelemetrySubscriptionsResponse:
    image = broker.controller.image
    error, client_instance_id, instance = broker.telemetry.subscribe(image, context, request.client_instance_id)
    if error != ErrorCode.NONE:
        return GetTelemetrySubscriptionsResponse(error_code=error)
    return GetTelemetrySubscriptionsResponse(
        client_instance_id=client_instance_id,
        subscription_id=instance.subscription_id,
        accepted_compression_types=list(ACCEPTED_COMPRESSION_TYPES),
        push_interval_ms=instance.subscription.push_interval_ms,
        telemetry_max_bytes=broker.config.telemetry_max_bytes,
        delta_temporality=True,
        requested_metrics=list(instance.subscription.metrics),
    )

"""PushTelemetry, version 0: a client's metrics, checked as Kafka does and dropped, for want of a receiver (KIP-714)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.protocol.messages.push_telemetry import PushTelemetryRequest, PushTelemetryResponse
from barnabas.server.context import RequestContext

if TYPE_CHECKING:
    from barnabas.server.broker import Broker


def handle(broker: Broker, context: RequestContext, request: PushTelemetryRequest) -> PushTelemetryResponse:
    error = broker.telemetry.push(
        broker.controller.image,
        context,
        client_instance_id=request.client_instance_id,
        subscription_id=request.subscription_id,
        terminating=request.terminating,
        compression_type=request.compression_type,
        size_bytes=len(request.metrics),
        size_bytes_max=broker.config.telemetry_max_bytes,
    )
    return PushTelemetryResponse(error_code=error)

"""CreatePartitions, versions 0 to 3. The rules are in `controller.partitions`.

Differs from Kafka: `timeout_ms` is not looked at, because a decision is either committed at once or fails.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING

from barnabas.controller import partitions
from barnabas.errors import ErrorCode
from barnabas.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopicResult,
)
from barnabas.server.context import RequestContext

if TYPE_CHECKING:
    from barnabas.server.broker import Broker


def handle(
    broker: Broker, context: RequestContext, request: CreatePartitionsRequest
) -> Awaitable[CreatePartitionsResponse]:
    placer = broker.controller.placer

    def failed(error: ErrorCode) -> CreatePartitionsResponse:
        return CreatePartitionsResponse(
            results=[CreatePartitionsTopicResult(name=topic.name, error_code=error) for topic in request.topics]
        )

    return broker.controller.respond(
        lambda image, _offset: partitions.create_partitions(image, request, placer), failed
    )

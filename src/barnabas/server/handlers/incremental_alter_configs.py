"""IncrementalAlterConfigs, versions 0 to 1: sets, deletes, appends to and takes from settings of topics, brokers,
loggers and client metrics. The rules, and how they differ from Kafka's, are in `controller.configs`.

A change counts from the moment of the answer: logs and connections follow it at once. Kafka's brokers follow later.
An operation that does not exist is INVALID_REQUEST, where Kafka fails with UNKNOWN_SERVER_ERROR for topics.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.controller.configs import incremental_alterations
from barnabas.errors import ErrorCode
from barnabas.protocol.messages.incremental_alter_configs import (
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from barnabas.server import config_changes
from barnabas.server.context import RequestContext

if TYPE_CHECKING:
    from barnabas.server.broker import Broker


async def handle(
    broker: Broker, context: RequestContext, request: IncrementalAlterConfigsRequest
) -> IncrementalAlterConfigsResponse:
    alterations = incremental_alterations(request)
    outcomes = await config_changes.alter(broker, context, request, alterations)
    return IncrementalAlterConfigsResponse(
        responses=[
            AlterConfigsResourceResponse(
                error_code=ErrorCode.NONE if outcome is None else outcome.error,
                error_message=None if outcome is None else outcome.message,
                resource_type=alteration.resource.type,
                resource_name=alteration.resource.name,
            )
            for alteration, outcome in zip(alterations, outcomes, strict=True)
        ]
    )

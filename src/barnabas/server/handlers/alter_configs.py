"""AlterConfigs, versions 0 to 2: replaces all that is set on a resource; what is not named goes back to its default.

Kept for old clients: two that alter at once undo each other's work, which IncrementalAlterConfigs does not.
Levels of loggers cannot be set so. The rules are in `controller.configs`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.controller.configs import replacing_alterations
from barnabas.errors import ErrorCode
from barnabas.protocol.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)
from barnabas.server import config_changes
from barnabas.server.context import RequestContext

if TYPE_CHECKING:
    from barnabas.server.broker import Broker


async def handle(broker: Broker, context: RequestContext, request: AlterConfigsRequest) -> AlterConfigsResponse:
    alterations = replacing_alterations(request)
    outcomes = await config_changes.alter(broker, context, request, alterations)
    return AlterConfigsResponse(
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

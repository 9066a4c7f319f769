"""AlterPartition, versions 2 and 3, on listeners of controllers: a leader asks for other in-sync replicas.

The rules are in `controller.alter_partition`. From version 3 on, brokers are named together with their epochs.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING

from barnabas.controller import alter_partition
from barnabas.controller.electorate import Electorate
from barnabas.protocol.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse
from barnabas.server.context import RequestContext

if TYPE_CHECKING:
    from barnabas.server.broker import Broker


def handle(
    broker: Broker, context: RequestContext, request: AlterPartitionRequest
) -> Awaitable[AlterPartitionResponse]:
    version = context.api_version
    return broker.controller.respond(
        lambda image, _offset: alter_partition.alter_partition(
            Electorate(image, broker.static_config), request, version
        ),
        lambda error: AlterPartitionResponse(error_code=error),
    )

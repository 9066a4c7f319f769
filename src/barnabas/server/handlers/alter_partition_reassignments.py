"""AlterPartitionReassignments, versions 0 and 1: replicas are moved, or a move is cancelled.

The rules are in `controller.reassignment`.
Differs from Kafka: `timeout_ms` is not looked at, because a decision is either committed at once or fails.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING

from barnabas.controller import reassignment
from barnabas.controller.electorate import Electorate
from barnabas.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
)
from barnabas.server.context import RequestContext

if TYPE_CHECKING:
    from barnabas.server.broker import Broker


def handle(
    broker: Broker, context: RequestContext, request: AlterPartitionReassignmentsRequest
) -> Awaitable[AlterPartitionReassignmentsResponse]:
    return broker.controller.respond(
        lambda image, _offset: reassignment.alter_reassignments(Electorate(image, broker.static_config), request),
        lambda error: AlterPartitionReassignmentsResponse(error_code=error, error_message=None),
    )

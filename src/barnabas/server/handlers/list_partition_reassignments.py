"""ListPartitionReassignments, version 0: which replicas are being moved, as far as it is committed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.controller import reassignment
from barnabas.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from barnabas.server.context import RequestContext

if TYPE_CHECKING:
    from barnabas.server.broker import Broker


def handle(
    broker: Broker, context: RequestContext, request: ListPartitionReassignmentsRequest
) -> ListPartitionReassignmentsResponse:
    return reassignment.list_reassignments(broker.controller.image, request)

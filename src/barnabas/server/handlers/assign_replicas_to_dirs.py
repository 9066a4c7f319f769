"""AssignReplicasToDirs, version 0, on listeners of controllers: a broker says in which directories its replicas lie.

The rules are in `controller.alter_partition`.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING

from barnabas.controller import alter_partition
from barnabas.controller.electorate import Electorate
from barnabas.protocol.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
)
from barnabas.server.context import RequestContext

if TYPE_CHECKING:
    from barnabas.server.broker import Broker


def handle(
    broker: Broker, context: RequestContext, request: AssignReplicasToDirsRequest
) -> Awaitable[AssignReplicasToDirsResponse]:
    return broker.controller.respond(
        lambda image, _offset: alter_partition.assign_replicas_to_dirs(
            Electorate(image, broker.static_config), request
        ),
        lambda error: AssignReplicasToDirsResponse(error_code=error),
    )

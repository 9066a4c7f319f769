"""Heartbeat, versions 0 to 4. The rules are in `groups.classic`.

While the coordinator loads, a heartbeat succeeds, as in Kafka: the member's session begins anew once that is done.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING

from barnabas.errors import ErrorCode
from barnabas.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from barnabas.server.context import RequestContext
from barnabas.server.coordinators.group_client import client_of

if TYPE_CHECKING:
    from barnabas.server.broker import Broker


def handle(
    broker: Broker, context: RequestContext, request: HeartbeatRequest
) -> HeartbeatResponse | Awaitable[HeartbeatResponse]:
    client = client_of(context)
    return broker.groups.submit_named(
        request.group_id, lambda shard, pending, now: shard.heartbeat(request, client, pending, now), failed
    )


def failed(error: ErrorCode) -> HeartbeatResponse:
    loading = error == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    return HeartbeatResponse(error_code=ErrorCode.NONE if loading else error)

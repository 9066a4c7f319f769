"""SyncGroup, versions 0 to 5. The rules are in `groups.classic`."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING

from barnabas.errors import ErrorCode
from barnabas.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from barnabas.server.context import RequestContext
from barnabas.server.coordinators.group_client import client_of

if TYPE_CHECKING:
    from barnabas.server.broker import Broker

PROTOCOL_VERSION = 5


def handle(
    broker: Broker, context: RequestContext, request: SyncGroupRequest
) -> SyncGroupResponse | Awaitable[SyncGroupResponse]:
    if context.api_version >= PROTOCOL_VERSION and (request.protocol_type is None or request.protocol_name is None):
        return failed(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    client = client_of(context)
    return broker.groups.submit_named(
        request.group_id, lambda shard, pending, now: shard.sync(request, client, pending, now), failed
    )


def failed(error: ErrorCode) -> SyncGroupResponse:
    return SyncGroupResponse(error_code=error)

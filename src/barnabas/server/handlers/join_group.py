"""JoinGroup, versions 0 to 9. The rules are in `groups.classic_join`.

Version 0 has no rebalance timeout: its session timeout stands for it.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING

from barnabas.errors import ErrorCode
from barnabas.groups.classic_state import join_failed
from barnabas.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from barnabas.server.context import RequestContext
from barnabas.server.coordinators.group_client import client_of

if TYPE_CHECKING:
    from barnabas.server.broker import Broker

REBALANCE_TIMEOUT_VERSION = 1
NULL_PROTOCOL_VERSION = 7


def handle(
    broker: Broker, context: RequestContext, request: JoinGroupRequest
) -> JoinGroupResponse | Awaitable[JoinGroupResponse]:
    if context.api_version < REBALANCE_TIMEOUT_VERSION:
        request.rebalance_timeout_ms = request.session_timeout_ms
    client = client_of(context)

    def failed(error: ErrorCode) -> JoinGroupResponse:
        return join_failed(request.member_id, error)

    result = broker.groups.submit_named(
        request.group_id, lambda shard, pending, now: shard.join(request, client, pending, now), failed
    )
    if context.api_version >= NULL_PROTOCOL_VERSION:
        return result
    return without_nulls(result) if isinstance(result, JoinGroupResponse) else _wait(result)


async def _wait(result: Awaitable[JoinGroupResponse]) -> JoinGroupResponse:
    return without_nulls(await result)


def without_nulls(response: JoinGroupResponse) -> JoinGroupResponse:
    response.protocol_name = response.protocol_name or ""
    return response

"""LeaveGroup, versions 0 to 5: one member, or from version 3 on many at once. The rules are in `groups.classic`."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING

from barnabas.errors import ErrorCode
from barnabas.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from barnabas.server.context import RequestContext
from barnabas.server.coordinators.group_client import client_of

if TYPE_CHECKING:
    from barnabas.server.broker import Broker

BATCHED_VERSION = 3


def handle(
    broker: Broker, context: RequestContext, request: LeaveGroupRequest
) -> LeaveGroupResponse | Awaitable[LeaveGroupResponse]:
    batched = context.api_version >= BATCHED_VERSION
    if not batched:
        request.members = [MemberIdentity(member_id=request.member_id)]
    client = client_of(context)
    result = broker.groups.submit_named(
        request.group_id, lambda shard, pending, now: shard.leave(request, client, pending, now), failed
    )
    if batched:
        return result
    return _of_one(result) if isinstance(result, LeaveGroupResponse) else _wait(result)


async def _wait(result: Awaitable[LeaveGroupResponse]) -> LeaveGroupResponse:
    return _of_one(await result)


def _of_one(response: LeaveGroupResponse) -> LeaveGroupResponse:
    """The error of the only member is that of the response."""
    if response.members:
        return failed(ErrorCode(response.members[0].error_code))
    return response


def failed(error: ErrorCode) -> LeaveGroupResponse:
    return LeaveGroupResponse(error_code=error)

"""DeleteGroups, versions 0 to 2: groups without members, and all that they have committed."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING

from barnabas.errors import ErrorCode
from barnabas.protocol.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse
from barnabas.server.context import RequestContext

if TYPE_CHECKING:
    from barnabas.server.broker import Broker

Result = DeletableGroupResult | Awaitable[DeletableGroupResult]


def handle(
    broker: Broker, context: RequestContext, request: DeleteGroupsRequest
) -> DeleteGroupsResponse | Awaitable[DeleteGroupsResponse]:
    results = [_delete(broker, group_id) for group_id in dict.fromkeys(request.groups_names)]
    deleted = [result for result in results if isinstance(result, DeletableGroupResult)]
    if len(deleted) == len(results):
        return DeleteGroupsResponse(results=deleted)
    return _wait(results)


def _delete(broker: Broker, group_id: str) -> Result:
    def failed(error: ErrorCode) -> DeletableGroupResult:
        return DeletableGroupResult(group_id=group_id, error_code=error)

    return broker.groups.submit(group_id, lambda shard, pending, _now: shard.delete(group_id, pending), failed)


async def _wait(results: list[Result]) -> DeleteGroupsResponse:
    return DeleteGroupsResponse(
        results=[result if isinstance(result, DeletableGroupResult) else await result for result in results]
    )

"""DescribeGroups, versions 0 to 6: groups of the classic protocol.

Any other group, and one that does not exist, is called dead; from version 6 on it is GROUP_ID_NOT_FOUND.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING

from barnabas.errors import ErrorCode
from barnabas.protocol.messages.describe_groups import DescribedGroup, DescribeGroupsRequest, DescribeGroupsResponse
from barnabas.server.context import RequestContext
from barnabas.server.coordinators.group_client import client_of
from barnabas.server.operations import GROUP_OPERATIONS

if TYPE_CHECKING:
    from barnabas.server.broker import Broker


def handle(
    broker: Broker, context: RequestContext, request: DescribeGroupsRequest
) -> DescribeGroupsResponse | Awaitable[DescribeGroupsResponse]:
    results = [_describe(broker, context, group_id) for group_id in request.groups]
    described = [result for result in results if isinstance(result, DescribedGroup)]
    if len(described) == len(results):
        return _respond(described, request)
    return _wait(results, request)


def _describe(broker: Broker, context: RequestContext, group_id: str) -> DescribedGroup | Awaitable[DescribedGroup]:
    client = client_of(context)

    def failed(error: ErrorCode) -> DescribedGroup:
        return DescribedGroup(group_id=group_id, error_code=error)

    return broker.groups.submit(
        group_id, lambda shard, pending, _now: shard.describe(group_id, client, pending), failed
    )


async def _wait(
    results: list[DescribedGroup | Awaitable[DescribedGroup]], request: DescribeGroupsRequest
) -> DescribeGroupsResponse:
    described = [result if isinstance(result, DescribedGroup) else await result for result in results]
    return _respond(described, request)


def _respond(groups: list[DescribedGroup], request: DescribeGroupsRequest) -> DescribeGroupsResponse:
    if request.include_authorized_operations:
        for group in groups:
            if group.error_code == ErrorCode.NONE:
                group.authorized_operations = GROUP_OPERATIONS
    return DescribeGroupsResponse(groups=groups)

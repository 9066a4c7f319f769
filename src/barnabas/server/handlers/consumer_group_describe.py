"""ConsumerGroupDescribe, versions 0 to 1 (KIP-848): groups of the consumer protocol; version 1 tells of each member
which protocol it speaks.

Any other group, and one that does not exist, is GROUP_ID_NOT_FOUND.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING

from barnabas.errors import ErrorCode
from barnabas.protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
)
from barnabas.server.context import RequestContext
from barnabas.server.operations import GROUP_OPERATIONS

if TYPE_CHECKING:
    from barnabas.server.broker import Broker


def handle(
    broker: Broker, context: RequestContext, request: ConsumerGroupDescribeRequest
) -> ConsumerGroupDescribeResponse | Awaitable[ConsumerGroupDescribeResponse]:
    results = [_describe(broker, group_id) for group_id in request.group_ids]
    described = [result for result in results if isinstance(result, DescribedGroup)]
    if len(described) == len(results):
        return _respond(described, request)
    return _wait(results, request)


def _describe(broker: Broker, group_id: str) -> DescribedGroup | Awaitable[DescribedGroup]:
    def failed(error: ErrorCode) -> DescribedGroup:
        return DescribedGroup(group_id=group_id, error_code=error)

    if not broker.groups.serves_consumer_protocol:
        return failed(ErrorCode.UNSUPPORTED_VERSION)
    if not group_id:
        return failed(ErrorCode.INVALID_GROUP_ID)
    return broker.groups.submit(
        group_id, lambda shard, pending, _now: shard.consumer_describe(group_id, pending), failed
    )


async def _wait(
    results: list[DescribedGroup | Awaitable[DescribedGroup]], request: ConsumerGroupDescribeRequest
) -> ConsumerGroupDescribeResponse:
    described = [result if isinstance(result, DescribedGroup) else await result for result in results]
    return _respond(described, request)


def _respond(groups: list[DescribedGroup], request: ConsumerGroupDescribeRequest) -> ConsumerGroupDescribeResponse:
    if request.include_authorized_operations:
        for group in groups:
            if group.error_code == ErrorCode.NONE:
                group.authorized_operations = GROUP_OPERATIONS
    return ConsumerGroupDescribeResponse(groups=groups)

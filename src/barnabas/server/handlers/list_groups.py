"""ListGroups, versions 0 to 5: the groups that this broker coordinates, from version 4 on by their states, from
version 5 on by their types too. While a part of them is loaded, COORDINATOR_LOAD_IN_PROGRESS."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.errors import ErrorCode
from barnabas.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from barnabas.server.context import RequestContext

if TYPE_CHECKING:
    from barnabas.server.broker import Broker


def handle(broker: Broker, context: RequestContext, request: ListGroupsRequest) -> ListGroupsResponse:
    groups = []
    for shard in broker.groups.shards.values():
        if shard.error == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            return ListGroupsResponse(error_code=shard.error)
        if shard.error == ErrorCode.NONE:
            groups += shard.shard.list_groups(request.states_filter, request.types_filter)
    return ListGroupsResponse(groups=groups)

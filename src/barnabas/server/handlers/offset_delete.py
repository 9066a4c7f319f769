"""OffsetDelete, version 0. What a member of the group is subscribed to stays (KIP-496)."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING

from barnabas.errors import ErrorCode
from barnabas.metadata.image import MetadataImage
from barnabas.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from barnabas.server.context import RequestContext

if TYPE_CHECKING:
    from barnabas.server.broker import Broker


def handle(
    broker: Broker, context: RequestContext, request: OffsetDeleteRequest
) -> OffsetDeleteResponse | Awaitable[OffsetDeleteResponse]:
    unknown = _take_unknown(request, broker.controller.image)
    result = broker.groups.submit_named(
        request.group_id, lambda shard, pending, _now: shard.offset_delete(request, pending), failed
    )
    if not unknown:
        return result
    return _merged(unknown, result) if isinstance(result, OffsetDeleteResponse) else _wait(unknown, result)


def _take_unknown(request: OffsetDeleteRequest, image: MetadataImage) -> dict[str, OffsetDeleteResponseTopic]:
    """Leaves in the request what exists, and gives the answers to the rest."""
    unknown = {}
    for topic in request.topics:
        found = image.topics_by_name.get(topic.name)
        known = {} if found is None else found.partitions
        missing = [each.partition_index for each in topic.partitions if each.partition_index not in known]
        if missing:
            unknown[topic.name] = _refused(topic, missing)
            topic.partitions = [each for each in topic.partitions if each.partition_index in known]
    request.topics = [topic for topic in request.topics if topic.partitions]
    return unknown


def _refused(topic: OffsetDeleteRequestTopic, partitions: list[int]) -> OffsetDeleteResponseTopic:
    return OffsetDeleteResponseTopic(
        name=topic.name,
        partitions=[
            OffsetDeleteResponsePartition(partition_index=index, error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            for index in partitions
        ],
    )


async def _wait(
    unknown: dict[str, OffsetDeleteResponseTopic], result: Awaitable[OffsetDeleteResponse]
) -> OffsetDeleteResponse:
    return _merged(unknown, await result)


def _merged(unknown: dict[str, OffsetDeleteResponseTopic], response: OffsetDeleteResponse) -> OffsetDeleteResponse:
    if response.error_code != ErrorCode.NONE:
        return response
    for topic in response.topics:
        known = unknown.setdefault(topic.name, topic)
        if known is not topic:
            known.partitions += topic.partitions
    response.topics = list(unknown.values())
    return response


def failed(error: ErrorCode) -> OffsetDeleteResponse:
    return OffsetDeleteResponse(error_code=error)

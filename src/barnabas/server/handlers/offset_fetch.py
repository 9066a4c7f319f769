"""OffsetFetch, versions 1 to 10: one group, or from version 8 on many at once; from version 10 on by topic ids.

Without topics, all that the group has committed. What was never committed is -1, and so is everything of a group that
does not exist. From version 7 on a client may ask for stable offsets only: where a transaction is open that would
change one, the answer to it is UNSTABLE_OFFSET_COMMIT.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING

from barnabas.errors import ErrorCode
from barnabas.metadata.image import MetadataImage
from barnabas.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from barnabas.server.context import RequestContext
from barnabas.types import NO_LEADER_EPOCH, NO_OFFSET

if TYPE_CHECKING:
    from barnabas.server.broker import Broker

TOP_LEVEL_ERROR_VERSION = 2  # before it, the error of the group stands at each partition
BATCHED_VERSION = 8
TOPIC_ID_VERSION = 10

Result = OffsetFetchResponseGroup | Awaitable[OffsetFetchResponseGroup]


def handle(
    broker: Broker, context: RequestContext, request: OffsetFetchRequest
) -> OffsetFetchResponse | Awaitable[OffsetFetchResponse]:
    version = context.api_version
    groups = request.groups if version >= BATCHED_VERSION else [_group_of_old(request)]
    results = [_fetch(broker, group, version, require_stable=request.require_stable) for group in groups]
    fetched = [result for result in results if isinstance(result, OffsetFetchResponseGroup)]
    if len(fetched) == len(results):
        return _respond(fetched, version)
    return _wait(results, version)


async def _wait(results: list[Result], version: int) -> OffsetFetchResponse:
    fetched = [result if isinstance(result, OffsetFetchResponseGroup) else await result for result in results]
    return _respond(fetched, version)


def _group_of_old(request: OffsetFetchRequest) -> OffsetFetchRequestGroup:
    topics = None
    if request.topics is not None:
        topics = [
            OffsetFetchRequestTopics(name=topic.name, partition_indexes=topic.partition_indexes)
            for topic in request.topics
        ]
    return OffsetFetchRequestGroup(group_id=request.group_id, topics=topics)


def _fetch(broker: Broker, request: OffsetFetchRequestGroup, version: int, *, require_stable: bool) -> Result:
    image = broker.controller.image
    unknown = _resolve(request, image) if version >= TOPIC_ID_VERSION else []

    def failed(error: ErrorCode) -> OffsetFetchResponseGroup:
        response = OffsetFetchResponseGroup(group_id=request.group_id, error_code=error)
        if version < TOP_LEVEL_ERROR_VERSION:
            response.topics = [_refused(topic, error) for topic in request.topics or ()]
        return response

    result = broker.groups.submit(
        request.group_id,
        lambda shard, pending, _now: shard.offset_fetch(request, pending, require_stable=require_stable),
        failed,
    )
    if version < TOPIC_ID_VERSION:
        return result
    return (
        _by_id(result, unknown, image)
        if isinstance(result, OffsetFetchResponseGroup)
        else _later(result, unknown, image)
    )


def _resolve(request: OffsetFetchRequestGroup, image: MetadataImage) -> list[OffsetFetchResponseTopics]:
    """Gives the topics of the request their names, and the answers to those that have none."""
    if request.topics is None:
        return []
    unknown = [
        _refused(topic, ErrorCode.UNKNOWN_TOPIC_ID)
        for topic in request.topics
        if topic.topic_id not in image.topics_by_id
    ]
    request.topics = [topic for topic in request.topics if topic.topic_id in image.topics_by_id]
    for topic in request.topics:
        topic.name = image.topics_by_id[topic.topic_id].name
    return unknown


def _by_id(
    response: OffsetFetchResponseGroup, unknown: list[OffsetFetchResponseTopics], image: MetadataImage
) -> OffsetFetchResponseGroup:
    """Where all offsets were asked for, topics have names and no ids yet; those that are gone are left out."""
    if response.error_code != ErrorCode.NONE:
        return response
    response.topics = [topic for topic in response.topics if topic.name in image.topics_by_name]
    for topic in response.topics:
        topic.topic_id = image.topics_by_name[topic.name].id
    response.topics += unknown
    return response


async def _later(
    result: Awaitable[OffsetFetchResponseGroup], unknown: list[OffsetFetchResponseTopics], image: MetadataImage
) -> OffsetFetchResponseGroup:
    return _by_id(await result, unknown, image)


def _refused(topic: OffsetFetchRequestTopics, error: ErrorCode) -> OffsetFetchResponseTopics:
    return OffsetFetchResponseTopics(
        name=topic.name,
        topic_id=topic.topic_id,
        partitions=[
            OffsetFetchResponsePartitions(
                partition_index=index,
                committed_offset=NO_OFFSET,
                committed_leader_epoch=NO_LEADER_EPOCH,
                metadata="",
                error_code=error,
            )
            for index in topic.partition_indexes
        ],
    )


def _respond(groups: list[OffsetFetchResponseGroup], version: int) -> OffsetFetchResponse:
    if version >= BATCHED_VERSION:
        return OffsetFetchResponse(groups=groups)
    (group,) = groups
    topics = [
        OffsetFetchResponseTopic(
            name=topic.name,
            partitions=[
                OffsetFetchResponsePartition(
                    partition_index=each.partition_index,
                    committed_offset=each.committed_offset,
                    committed_leader_epoch=each.committed_leader_epoch,
                    metadata=each.metadata,
                    error_code=each.error_code,
                )
                for each in topic.partitions
            ],
        )
        for topic in group.topics
    ]
    return OffsetFetchResponse(topics=topics, error_code=group.error_code)

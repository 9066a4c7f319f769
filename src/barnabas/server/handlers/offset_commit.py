"""OffsetCommit, versions 2 to 10: by topic names, from version 10 on by their ids.

Topics and partitions that do not exist are refused one by one, the rest is committed. A generation or member epoch
that is not the group's refuses all.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING

from barnabas.errors import ErrorCode
from barnabas.metadata.image import MetadataImage, TopicImage
from barnabas.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from barnabas.server.context import RequestContext
from barnabas.server.coordinators.group_client import client_of

if TYPE_CHECKING:
    from barnabas.server.broker import Broker

TOPIC_ID_VERSION = 10


def handle(
    broker: Broker, context: RequestContext, request: OffsetCommitRequest
) -> OffsetCommitResponse | Awaitable[OffsetCommitResponse]:
    client = client_of(context)
    image = broker.controller.image
    refused = _keep_known(request, image, by_id=context.api_version >= TOPIC_ID_VERSION)
    if not request.topics:
        return OffsetCommitResponse(topics=refused)

    def failed(error: ErrorCode) -> OffsetCommitResponse:
        return OffsetCommitResponse(topics=[_refused(topic, error) for topic in request.topics])

    result = broker.groups.submit(
        request.group_id, lambda shard, pending, now: shard.offset_commit(request, client, pending, now), failed
    )
    if not refused:
        return result
    return _merged(refused, result) if isinstance(result, OffsetCommitResponse) else _wait(refused, result)


def _keep_known(request: OffsetCommitRequest, image: MetadataImage, *, by_id: bool) -> list[OffsetCommitResponseTopic]:
    """Leaves in the request what exists, by name and id, and gives the answers to the rest."""
    refused = []
    kept = []
    for topic in request.topics:
        found = image.topics_by_id.get(topic.topic_id) if by_id else image.topics_by_name.get(topic.name)
        if found is None:
            unknown = ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            refused.append(_refused(topic, unknown))
            continue
        topic.name, topic.topic_id = found.name, found.id
        missing = _take_missing(topic, found)
        if missing.partitions:
            refused.append(_refused(missing, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
        if topic.partitions:
            kept.append(topic)
    request.topics = kept
    return refused


def _take_missing(topic: OffsetCommitRequestTopic, found: TopicImage) -> OffsetCommitRequestTopic:
    missing = [each for each in topic.partitions if each.partition_index not in found.partitions]
    if missing:
        topic.partitions = [each for each in topic.partitions if each.partition_index in found.partitions]
    return OffsetCommitRequestTopic(name=topic.name, topic_id=topic.topic_id, partitions=missing)


def _refused(topic: OffsetCommitRequestTopic, error: ErrorCode) -> OffsetCommitResponseTopic:
    return OffsetCommitResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        partitions=[
            OffsetCommitResponsePartition(partition_index=each.partition_index, error_code=error)
            for each in topic.partitions
        ],
    )


async def _wait(
    refused: list[OffsetCommitResponseTopic], result: Awaitable[OffsetCommitResponse]
) -> OffsetCommitResponse:
    return _merged(refused, await result)


def _merged(refused: list[OffsetCommitResponseTopic], response: OffsetCommitResponse) -> OffsetCommitResponse:
    """A topic of which one partition exists and another does not stands in the answer once."""
    topics = {topic.topic_id: topic for topic in refused}
    for topic in response.topics:
        known = topics.setdefault(topic.topic_id, topic)
        if known is not topic:
            known.partitions += topic.partitions
    return OffsetCommitResponse(topics=list(topics.values()))

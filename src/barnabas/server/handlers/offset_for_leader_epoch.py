"""OffsetForLeaderEpoch, versions 2 to 4: where a leader epoch ended, so that a reader can tell whether its log or its
position still belongs to this history (KIP-101, KIP-320)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.errors import ErrorCode
from barnabas.metadata.image import MetadataImage
from barnabas.protocol.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)
from barnabas.server.context import RequestContext
from barnabas.server.replicas import leader_hints
from barnabas.server.replicas.partition import Partition

if TYPE_CHECKING:
    from barnabas.server.broker import Broker


def handle(
    broker: Broker, context: RequestContext, request: OffsetForLeaderEpochRequest
) -> OffsetForLeaderEpochResponse:
    topics = []
    for topic in request.topics:
        partitions = broker.partitions.topic(topic.topic)
        image = broker.controller.image
        answers = [answer(image, topic.topic, wanted, partitions.get(wanted.partition)) for wanted in topic.partitions]
        topics.append(OffsetForLeaderTopicResult(topic=topic.topic, partitions=answers))
    return OffsetForLeaderEpochResponse(topics=topics)


def answer(
    image: MetadataImage, topic: str, wanted: OffsetForLeaderPartition, partition: Partition | None
) -> EpochEndOffset:
    response = EpochEndOffset(partition=wanted.partition)
    if partition is None:
        response.error_code = leader_hints.missing(image, topic, wanted.partition)
        return response
    response.error_code = partition.leader_error(wanted.current_leader_epoch)
    if response.error_code == ErrorCode.NONE:
        response.leader_epoch, response.end_offset = partition.log.end_offset_for_epoch(wanted.leader_epoch)
    return response

"""DescribeTopicPartitions, version 0: partitions of topics in the order of their names, page by page (KIP-966).

No topics named: all of them; one that vanishes meanwhile is left out. A page holds at most `response_partition_limit`
partitions, at most `max.request.partition.size.limit`, and at least one; the cursor names the first one left out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.errors import ErrorCode
from barnabas.metadata import topic_names
from barnabas.metadata.image import MetadataImage, PartitionImage, TopicImage
from barnabas.protocol.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
    ResponseCursor,
)
from barnabas.server import cluster_view
from barnabas.server.context import RequestContext
from barnabas.server.operations import TOPIC_OPERATIONS
from barnabas.types import NO_LEADER

if TYPE_CHECKING:
    from barnabas.server.broker import Broker


def handle(
    broker: Broker, context: RequestContext, request: DescribeTopicPartitionsRequest
) -> DescribeTopicPartitionsResponse:
    image = broker.controller.image
    cursor = request.cursor
    first_name, first_partition = (cursor.topic_name, cursor.partition_index) if cursor is not None else ("", 0)
    asked = {topic.name for topic in request.topics}
    if first_partition < 0 or (cursor is not None and asked and first_name not in asked):
        return _refused(request)
    names = sorted(name for name in asked or image.topics_by_name if name >= first_name)
    limit = max(min(broker.config.max_request_partition_size_limit, request.response_partition_limit), 1)
    response = DescribeTopicPartitionsResponse()
    for name in names:
        if limit == 0:
            response.next_cursor = ResponseCursor(topic_name=name, partition_index=0)
            break
        topic = image.topics_by_name.get(name)
        if topic is None:
            response.topics.append(_unknown(name))
            continue
        start = first_partition if name == first_name else 0
        end = min(start + limit, len(topic.partitions))
        response.topics.append(_described(topic, range(start, end), image))
        if end < len(topic.partitions):
            response.next_cursor = ResponseCursor(topic_name=name, partition_index=end)
            break
        limit -= max(end - start, 0)
    return response


def _refused(request: DescribeTopicPartitionsRequest) -> DescribeTopicPartitionsResponse:
    return DescribeTopicPartitionsResponse(
        topics=[
            DescribeTopicPartitionsResponseTopic(error_code=ErrorCode.INVALID_REQUEST, name=topic.name)
            for topic in request.topics
        ]
    )


def _unknown(name: str) -> DescribeTopicPartitionsResponseTopic:
    valid = topic_names.is_valid(name)
    return DescribeTopicPartitionsResponseTopic(
        error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if valid else ErrorCode.INVALID_TOPIC_EXCEPTION,
        name=name,
        is_internal=topic_names.is_internal(name),
        topic_authorized_operations=TOPIC_OPERATIONS,
    )


def _described(topic: TopicImage, indexes: range, image: MetadataImage) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(
        name=topic.name,
        topic_id=topic.id,
        is_internal=topic_names.is_internal(topic.name),
        partitions=[_partition(index, topic.partitions[index], image) for index in indexes],
        topic_authorized_operations=TOPIC_OPERATIONS,
    )


def _partition(index: int, state: PartitionImage, image: MetadataImage) -> DescribeTopicPartitionsResponsePartition:
    return DescribeTopicPartitionsResponsePartition(
        partition_index=index,
        leader_id=state.leader if cluster_view.is_alive(image, state.leader) else NO_LEADER,
        leader_epoch=state.leader_epoch,
        replica_nodes=list(state.replicas),
        isr_nodes=list(state.isr),
        eligible_leader_replicas=list(state.eligible_leader_replicas),
        last_known_elr=list(state.last_known_elr),
        offline_replicas=cluster_view.offline_replicas(image, state),
    )

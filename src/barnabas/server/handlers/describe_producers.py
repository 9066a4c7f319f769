"""DescribeProducers, version 0: what a partition remembers of its idempotent and transactional producers.

Any replica answers: an administrator may ask a follower what it knows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)
from barnabas.server.context import RequestContext
from barnabas.server.replicas import leader_hints
from barnabas.server.replicas.partition import Partition

if TYPE_CHECKING:
    from barnabas.server.broker import Broker


def handle(broker: Broker, context: RequestContext, request: DescribeProducersRequest) -> DescribeProducersResponse:
    topics = []
    for topic in request.topics:
        partitions = broker.partitions.topic(topic.name)
        answers = [answer(broker, topic.name, index, partitions.get(index)) for index in topic.partition_indexes]
        topics.append(TopicResponse(name=topic.name, partitions=answers))
    return DescribeProducersResponse(topics=topics)


def answer(broker: Broker, topic: str, index: int, partition: Partition | None) -> PartitionResponse:
    if partition is None:
        error = leader_hints.missing(broker.controller.image, topic, index)
        return PartitionResponse(partition_index=index, error_code=error)
    return PartitionResponse(
        partition_index=index,
        active_producers=[
            ProducerState(
                producer_id=producer.producer_id,
                producer_epoch=producer.epoch,
                last_sequence=producer.last_sequence,
                last_timestamp=producer.last_timestamp_ms,
                coordinator_epoch=producer.coordinator_epoch,
                current_txn_start_offset=producer.transaction_first_offset,
            )
            for producer in partition.log.producers
        ],
    )

"""ListOffsets, versions 1 to 11: the earliest, the latest, the one with the largest timestamp, or the first at or
after a timestamp.

A new leader whose watermark may be behind what its predecessor has shown says OFFSET_NOT_AVAILABLE, to clients before
version 5 LEADER_NOT_AVAILABLE: offsets must not go back. Who is no consumer sees to the end of the log.
There is no tiered storage here, so the earliest local offset is the earliest, and nothing is tiered or pending.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.errors import ErrorCode
from barnabas.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from barnabas.protocol.special_numbers import (
    EARLIEST_LOCAL_TIMESTAMP,
    EARLIEST_PENDING_UPLOAD_TIMESTAMP,
    EARLIEST_TIMESTAMP,
    LATEST_TIERED_TIMESTAMP,
    LATEST_TIMESTAMP,
    MAX_TIMESTAMP,
    READ_COMMITTED,
)
from barnabas.server.context import RequestContext
from barnabas.server.replicas import leader_hints
from barnabas.server.replicas.partition import Partition
from barnabas.types import NO_LEADER_EPOCH, NO_OFFSET, NO_TIMESTAMP_MS, Offset

if TYPE_CHECKING:
    from barnabas.server.broker import Broker

LEADER_EPOCH_SINCE_VERSION = 4
OFFSET_NOT_AVAILABLE_SINCE_VERSION = 5
CONSUMER_REPLICA_ID = -1
DEBUGGING_REPLICA_ID = -2  # may ask any replica

# The version from which each special timestamp may be asked for.
SPECIAL_SINCE_VERSION = {
    LATEST_TIMESTAMP: 1,
    EARLIEST_TIMESTAMP: 1,
    MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL_TIMESTAMP: 8,
    LATEST_TIERED_TIMESTAMP: 9,
    EARLIEST_PENDING_UPLOAD_TIMESTAMP: 11,
}


def handle(broker: Broker, context: RequestContext, request: ListOffsetsRequest) -> ListOffsetsResponse:
    isolation_level = request.isolation_level if request.replica_id == CONSUMER_REPLICA_ID else None
    topics = []
    for topic in request.topics:
        partitions = broker.partitions.topic(topic.name)
        answers = []
        for wanted in topic.partitions:
            partition = partitions.get(wanted.partition_index)
            error = error_of(broker, topic.name, wanted, partition, request.replica_id != DEBUGGING_REPLICA_ID)
            answers.append(answer(wanted, partition, error, context.api_version, isolation_level))
        topics.append(ListOffsetsTopicResponse(name=topic.name, partitions=answers))
    return ListOffsetsResponse(topics=topics)


def error_of(
    broker: Broker, topic: str, wanted: ListOffsetsPartition, partition: Partition | None, leader_only: bool
) -> ErrorCode:
    if partition is None:
        return leader_hints.missing(broker.controller.image, topic, wanted.partition_index)
    if leader_only:
        return partition.leader_error(wanted.current_leader_epoch)
    return partition.epoch_error(wanted.current_leader_epoch)


def answer(
    wanted: ListOffsetsPartition,
    partition: Partition | None,
    error: ErrorCode,
    version: int,
    isolation_level: int | None,
) -> ListOffsetsPartitionResponse:
    response = ListOffsetsPartitionResponse(
        partition_index=wanted.partition_index,
        timestamp=NO_TIMESTAMP_MS,
        offset=NO_OFFSET,
        leader_epoch=NO_LEADER_EPOCH,
    )
    if wanted.timestamp < 0 and version < SPECIAL_SINCE_VERSION.get(wanted.timestamp, version + 1):
        response.error_code = ErrorCode.UNSUPPORTED_VERSION
    else:
        response.error_code = error
        if error == ErrorCode.NONE and partition is not None:
            look_up(wanted.timestamp, partition, isolation_level, response)
            if response.error_code and version < OFFSET_NOT_AVAILABLE_SINCE_VERSION:
                response.error_code = ErrorCode.LEADER_NOT_AVAILABLE
    if version < LEADER_EPOCH_SINCE_VERSION:
        response.leader_epoch = NO_LEADER_EPOCH
    return response


def look_up(
    timestamp: int, partition: Partition, isolation_level: int | None, response: ListOffsetsPartitionResponse
) -> None:
    """`isolation_level` is None where it is no consumer who asks."""
    log = partition.log
    is_known = isolation_level is None or partition.knows_watermark
    if timestamp == LATEST_TIMESTAMP:
        if is_known:
            response.offset = visible_end(partition, isolation_level)
            response.leader_epoch = partition.leader_epoch
        else:
            response.error_code = ErrorCode.OFFSET_NOT_AVAILABLE
    elif timestamp in (EARLIEST_TIMESTAMP, EARLIEST_LOCAL_TIMESTAMP):
        response.offset = log.log_start_offset
        response.leader_epoch = log.leader_epoch_of(log.log_start_offset)
    elif timestamp not in (LATEST_TIERED_TIMESTAMP, EARLIEST_PENDING_UPLOAD_TIMESTAMP):
        found = log.offset_of_max_timestamp() if timestamp == MAX_TIMESTAMP else log.offset_for_timestamp(timestamp)
        if found is not None and found.offset < visible_end(partition, isolation_level):
            response.timestamp = found.timestamp_ms
            response.offset = found.offset
            response.leader_epoch = found.leader_epoch
        elif not is_known:
            response.error_code = ErrorCode.OFFSET_NOT_AVAILABLE


def visible_end(partition: Partition, isolation_level: int | None) -> Offset:
    log = partition.log
    if isolation_level is None:
        return log.log_end_offset
    return log.last_stable_offset if isolation_level == READ_COMMITTED else log.high_watermark

"""ListOffsets, versions 1 to 11: the earliest, the latest, the one with the largest timestamp, or the first at or
after a timestamp.

A new leader whose watermark may be behind what its predecessor has shown says OFFSET_NOT_AVAILABLE, to clients before
version 5 LEADER_NOT_AVAILABLE: offsets must not go back. Who is no consumer sees to the end of the log.
There is no tiered storage here, so the earliest local offset is the earliest, and nothing is tiered or pending.
Records are searched off the event loop, while the requests behind this one wait. A batch whose records cannot be read
is INVALID_RECORD for its partition; Kafka says the same, or UNKNOWN_SERVER_ERROR where compressed bytes are corrupt.
A partition that is named twice is INVALID_REQUEST, and answered once, as in Kafka.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Iterable
from typing import TYPE_CHECKING, NamedTuple

from barnabas.errors import ErrorCode
from barnabas.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from barnabas.protocol.record_batch import InvalidRecordBatch
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

logger = logging.getLogger(__name__)

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


class Search(NamedTuple):
    """An answer that depends on records."""

    response: ListOffsetsPartitionResponse
    partition: Partition
    timestamp: int
    visible_end: Offset
    version: int


def handle(
    broker: Broker, context: RequestContext, request: ListOffsetsRequest
) -> ListOffsetsResponse | Awaitable[ListOffsetsResponse]:
    isolation_level = request.isolation_level if request.replica_id == CONSUMER_REPLICA_ID else None
    repeated = drop_repeated(request)
    topics = []
    searches: list[Search] = []
    for topic in request.topics:
        partitions = broker.partitions.topic(topic.name)
        answers = []
        for wanted in topic.partitions:
            partition = partitions.get(wanted.partition_index)
            error = error_of(broker, topic.name, wanted, partition, request.replica_id != DEBUGGING_REPLICA_ID)
            if repeated and (topic.name, wanted.partition_index) in repeated:
                error = ErrorCode.INVALID_REQUEST
            answers.append(answer(wanted, partition, error, context.api_version, isolation_level, searches))
        topics.append(ListOffsetsTopicResponse(name=topic.name, partitions=answers))
    response = ListOffsetsResponse(topics=topics)
    return search_all(broker, searches, response) if searches else response


def drop_repeated(request: ListOffsetsRequest) -> set[tuple[str, int]]:
    """Partitions that are named more than once; one mention of each stays."""
    seen: set[tuple[str, int]] = set()
    repeated: set[tuple[str, int]] = set()
    for topic in request.topics:
        kept = []
        for wanted in topic.partitions:
            name = (topic.name, wanted.partition_index)
            if name in seen:
                repeated.add(name)
            else:
                seen.add(name)
                kept.append(wanted)
        topic.partitions = kept
    if repeated:
        request.topics = [topic for topic in request.topics if topic.partitions]
    return repeated


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
    searches: list[Search],
) -> ListOffsetsPartitionResponse:
    response = ListOffsetsPartitionResponse(
        partition_index=wanted.partition_index,
        timestamp=NO_TIMESTAMP_MS,
        offset=NO_OFFSET,
        leader_epoch=NO_LEADER_EPOCH,
    )
    if error == ErrorCode.INVALID_REQUEST:
        response.error_code = error
    elif wanted.timestamp < 0 and version < SPECIAL_SINCE_VERSION.get(wanted.timestamp, version + 1):
        response.error_code = ErrorCode.UNSUPPORTED_VERSION
    else:
        response.error_code = error
        if error == ErrorCode.NONE and partition is not None:
            if is_of_records(wanted.timestamp):
                end = visible_end(partition, isolation_level)
                searches.append(Search(response, partition, wanted.timestamp, end, version))
                if not is_known(partition, isolation_level):
                    response.error_code = not_available(version)  # unless a record is found
            else:
                look_up(wanted.timestamp, partition, isolation_level, version, response)
    if version < LEADER_EPOCH_SINCE_VERSION:
        response.leader_epoch = NO_LEADER_EPOCH
    return response


def is_of_records(timestamp: int) -> bool:
    return timestamp >= 0 or timestamp == MAX_TIMESTAMP


def is_known(partition: Partition, isolation_level: int | None) -> bool:
    """`isolation_level` is None where it is no consumer who asks."""
    return isolation_level is None or partition.knows_watermark


def not_available(version: int) -> ErrorCode:
    since = OFFSET_NOT_AVAILABLE_SINCE_VERSION
    return ErrorCode.OFFSET_NOT_AVAILABLE if version >= since else ErrorCode.LEADER_NOT_AVAILABLE


def look_up(
    timestamp: int,
    partition: Partition,
    isolation_level: int | None,
    version: int,
    response: ListOffsetsPartitionResponse,
) -> None:
    """What needs no record."""
    log = partition.log
    if timestamp == LATEST_TIMESTAMP:
        if is_known(partition, isolation_level):
            response.offset = visible_end(partition, isolation_level)
            response.leader_epoch = partition.leader_epoch
        else:
            response.error_code = not_available(version)
    elif timestamp in (EARLIEST_TIMESTAMP, EARLIEST_LOCAL_TIMESTAMP):
        response.offset = log.log_start_offset
        response.leader_epoch = log.leader_epoch_of(log.log_start_offset)


async def search_all(broker: Broker, searches: Iterable[Search], response: ListOffsetsResponse) -> ListOffsetsResponse:
    for each in searches:
        try:
            await search(broker, each)
        except InvalidRecordBatch as problem:
            logger.warning("%s: cannot look up a time: %s", each.partition.name, problem)
            each.response.error_code = ErrorCode.INVALID_RECORD
        except OSError as problem:
            logger.error("%s: cannot look up a time: %s", each.partition.name, problem)
            each.response.error_code = ErrorCode.KAFKA_STORAGE_ERROR
    return response


async def search(broker: Broker, wanted: Search) -> None:
    log, timestamp = wanted.partition.log, wanted.timestamp
    is_max = timestamp == MAX_TIMESTAMP
    candidate = log.times.latest() if is_max else log.times.first_at_or_after(timestamp, log.log_start_offset)
    while candidate is not None and candidate.header.base_offset < wanted.visible_end:
        found = await broker.record_work.do(candidate.search)
        if found is not None:
            if found.offset < wanted.visible_end:
                response = wanted.response
                response.error_code = ErrorCode.NONE
                response.timestamp, response.offset = found.timestamp_ms, found.offset
                response.leader_epoch = (
                    found.leader_epoch if wanted.version >= LEADER_EPOCH_SINCE_VERSION else NO_LEADER_EPOCH
                )
            return
        next_offset = max(candidate.header.next_offset, log.log_start_offset)
        candidate = None if is_max else log.times.first_at_or_after(timestamp, next_offset)


def visible_end(partition: Partition, isolation_level: int | None) -> Offset:
    log = partition.log
    if isolation_level is None:
        return log.log_end_offset
    return log.last_stable_offset if isolation_level == READ_COMMITTED else log.high_watermark

"""DeleteRecords, versions 0 to 2: nothing before an offset is shown any more; offset -1 means the high watermark.

Only the leader does it, and answers once every live replica begins there too: the low watermark. Where that takes
longer than `timeout_ms`, REQUEST_TIMED_OUT says so; it is done all the same. Whole segments below it go with the next
round of retention. Internal topics are INVALID_TOPIC_EXCEPTION, topics that are only compacted POLICY_VIOLATION,
offsets beyond the high watermark OFFSET_OUT_OF_RANGE, as in Kafka. A partition named twice is answered once, for the
last of its offsets.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TYPE_CHECKING

from barnabas.errors import ErrorCode
from barnabas.metadata import topic_names
from barnabas.protocol.messages.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from barnabas.runtime.interfaces import Clock
from barnabas.server.context import RequestContext
from barnabas.server.replicas import leader_hints
from barnabas.server.replicas.commit_wait import Commit
from barnabas.server.replicas.partition import Partition
from barnabas.types import NO_LEADER_EPOCH, Offset

if TYPE_CHECKING:
    from barnabas.server.broker import Broker

HIGH_WATERMARK: Offset = -1
NO_LOW_WATERMARK: Offset = -1


def handle(
    broker: Broker, context: RequestContext, request: DeleteRecordsRequest
) -> DeleteRecordsResponse | Awaitable[DeleteRecordsResponse]:
    asked: dict[str, dict[int, Offset]] = {}
    for topic in request.topics:
        offsets = asked.setdefault(topic.name, {})
        for wanted in topic.partitions:
            offsets[wanted.partition_index] = wanted.offset
    response = DeleteRecordsResponse(topics=[])
    wait = DeletionWait(response, broker.runtime.clock)
    for name, offsets in asked.items():
        results = [_delete(broker, name, index, offset, wait) for index, offset in offsets.items()]
        response.topics.append(DeleteRecordsTopicResult(name=name, partitions=results))
    return wait.future(request.timeout_ms) if wait else response


def _delete(broker: Broker, topic: str, index: int, offset: Offset, wait: DeletionWait) -> DeleteRecordsPartitionResult:
    result = DeleteRecordsPartitionResult(partition_index=index, low_watermark=NO_LOW_WATERMARK)
    partition = broker.partitions.get(topic, index)
    if topic_names.is_internal(topic):
        result.error_code = ErrorCode.INVALID_TOPIC_EXCEPTION
    elif partition is None:
        result.error_code = leader_hints.missing(broker.controller.image, topic, index)
    else:
        before_offset = partition.log.high_watermark if offset == HIGH_WATERMARK else offset
        result.error_code = _error(partition) or partition.delete_records(before_offset)
        if result.error_code == ErrorCode.NONE:
            result.low_watermark = partition.low_watermark
            deleted = partition.deleted(before_offset)
            if deleted is not None:
                wait.add(deleted, partition, result)
    return result


def _error(partition: Partition) -> ErrorCode:
    error = partition.leader_error(NO_LEADER_EPOCH)
    if error == ErrorCode.NONE and "delete" not in partition.config.cleanup_policy:
        return ErrorCode.POLICY_VIOLATION
    return error


class DeletionWait:
    """Ends once every partition's low watermark is where it was asked to be, or the time is up."""

    def __init__(self, response: DeleteRecordsResponse, clock: Clock) -> None:
        self._response = response
        self._clock = clock
        self._remaining: dict[Commit, tuple[Partition, DeleteRecordsPartitionResult]] = {}
        self._future: asyncio.Future[DeleteRecordsResponse] = asyncio.get_running_loop().create_future()

    def __bool__(self) -> bool:
        return bool(self._remaining)

    def add(self, deleted: Commit, partition: Partition, result: DeleteRecordsPartitionResult) -> None:
        self._remaining[deleted] = (partition, result)

    def future(self, timeout_ms: int) -> asyncio.Future[DeleteRecordsResponse]:
        timer = self._clock.call_later(timeout_ms, self._timed_out)
        self._future.add_done_callback(lambda _future: timer.cancel())
        for deleted in self._remaining:
            deleted.add_done_callback(self._deleted)
        return self._future

    def _deleted(self, deleted: Commit) -> None:
        waiting = self._remaining.pop(deleted, None)
        if waiting is None:
            return  # it had timed out
        partition, result = waiting
        result.error_code = deleted.result()
        result.low_watermark = NO_LOW_WATERMARK if result.error_code else partition.low_watermark
        if not self._remaining:
            self._finish()

    def _timed_out(self) -> None:
        remaining, self._remaining = self._remaining, {}
        for deleted, (_partition, result) in remaining.items():
            result.error_code = ErrorCode.REQUEST_TIMED_OUT
            deleted.cancel()  # the partition need not remember it
        self._finish()

    def _finish(self) -> None:
        if not self._future.done():
            self._future.set_result(self._response)

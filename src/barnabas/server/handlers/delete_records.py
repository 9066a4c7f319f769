"""DeleteRecords, versions 0 to 2: nothing before an offset is shown any more; offset -1 means the high watermark.

The answer's low watermark is the new start of the log. Whole segments below it go with the next round of retention.
Internal topics are INVALID_TOPIC_EXCEPTION, topics that are only compacted POLICY_VIOLATION, offsets beyond the high
watermark OFFSET_OUT_OF_RANGE, as in Kafka. A partition named twice is answered once, for the last of its offsets.
With one replica there is nothing to wait for, so `timeout_ms` is not looked at.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.errors import ErrorCode
from barnabas.metadata import topic_names
from barnabas.protocol.messages.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from barnabas.server.context import RequestContext
from barnabas.types import Offset

if TYPE_CHECKING:
    from barnabas.server.broker import Broker
    from barnabas.server.partition import Partition

HIGH_WATERMARK: Offset = -1
NO_LOW_WATERMARK: Offset = -1


def handle(broker: Broker, context: RequestContext, request: DeleteRecordsRequest) -> DeleteRecordsResponse:
    asked: dict[str, dict[int, Offset]] = {}
    for topic in request.topics:
        offsets = asked.setdefault(topic.name, {})
        for partition in topic.partitions:
            offsets[partition.partition_index] = partition.offset
    return DeleteRecordsResponse(
        topics=[
            DeleteRecordsTopicResult(
                name=name,
                partitions=[
                    _result(index, name, broker.partitions.get(name, index), offset)
                    for index, offset in offsets.items()
                ],
            )
            for name, offsets in asked.items()
        ]
    )


def _result(index: int, topic: str, partition: Partition | None, offset: Offset) -> DeleteRecordsPartitionResult:
    if partition is None:
        error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    elif topic_names.is_internal(topic):
        error = ErrorCode.INVALID_TOPIC_EXCEPTION
    elif "delete" not in partition.config.cleanup_policy:
        error = ErrorCode.POLICY_VIOLATION
    else:
        log = partition.log
        error = log.delete_records_before(log.high_watermark if offset == HIGH_WATERMARK else offset)
        if error == ErrorCode.NONE:
            return DeleteRecordsPartitionResult(partition_index=index, low_watermark=log.log_start_offset)
    return DeleteRecordsPartitionResult(partition_index=index, low_watermark=NO_LOW_WATERMARK, error_code=error)

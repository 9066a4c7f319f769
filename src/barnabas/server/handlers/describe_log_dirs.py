"""DescribeLogDirs, versions 1 to 5: the data directory, its volume, and the size of each partition in it.

Null topics: all partitions. A partition that is not here is left out. Sizes are those of the `.log` files. No replica
moves between directories, so none is a future one and none lags.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.errors import ErrorCode
from barnabas.protocol.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from barnabas.server.context import RequestContext

if TYPE_CHECKING:
    from barnabas.server.broker import Broker
    from barnabas.server.replicas.partition import Partition


def handle(broker: Broker, context: RequestContext, request: DescribeLogDirsRequest) -> DescribeLogDirsResponse:
    path = broker.directory.path
    try:
        total_bytes, usable_bytes = broker.runtime.disk.space_bytes(path)
    except OSError:
        failed = DescribeLogDirsResult(error_code=ErrorCode.KAFKA_STORAGE_ERROR, log_dir=path)
        return DescribeLogDirsResponse(results=[failed])
    topics: dict[str, dict[int, DescribeLogDirsPartition]] = {}
    for partition in _asked(broker, request):
        name, index = partition.name
        described = DescribeLogDirsPartition(partition_index=index, partition_size=partition.log.size_bytes)
        topics.setdefault(name, {})[index] = described
    result = DescribeLogDirsResult(
        log_dir=path,
        topics=[
            DescribeLogDirsTopic(name=name, partitions=list(partitions.values())) for name, partitions in topics.items()
        ],
        total_bytes=total_bytes,
        usable_bytes=usable_bytes,
    )
    return DescribeLogDirsResponse(results=[result])


def _asked(broker: Broker, request: DescribeLogDirsRequest) -> list[Partition]:
    if request.topics is None:
        return list(broker.partitions)
    found = (broker.partitions.get(topic.topic, index) for topic in request.topics for index in topic.partitions)
    return [partition for partition in found if partition is not None]

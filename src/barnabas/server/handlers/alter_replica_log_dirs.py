"""AlterReplicaLogDirs, versions 1 and 2: moves replicas on this broker between its data directories.

A broker has one directory, so a replica that shall go there is there already. Any other directory is
LOG_DIR_NOT_FOUND, before the partitions are looked at; a partition that is not on this broker is
UNKNOWN_TOPIC_OR_PARTITION, or NOT_LEADER_OR_FOLLOWER where other brokers have it. A path must be written as
DescribeLogDirs shows it. A partition that is named for two directories goes to the last one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.errors import ErrorCode
from barnabas.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)
from barnabas.server.context import RequestContext
from barnabas.server.replicas import leader_hints
from barnabas.types import TopicPartition

if TYPE_CHECKING:
    from barnabas.server.broker import Broker


def handle(broker: Broker, context: RequestContext, request: AlterReplicaLogDirsRequest) -> AlterReplicaLogDirsResponse:
    paths = {
        TopicPartition(topic.name, index): directory.path
        for directory in request.dirs
        for topic in directory.topics
        for index in topic.partitions
    }
    topics: dict[str, list[AlterReplicaLogDirPartitionResult]] = {}
    for name, path in paths.items():
        answer = AlterReplicaLogDirPartitionResult(partition_index=name.partition, error_code=_move(broker, name, path))
        topics.setdefault(name.topic, []).append(answer)
    return AlterReplicaLogDirsResponse(
        results=[AlterReplicaLogDirTopicResult(topic_name=name, partitions=each) for name, each in topics.items()]
    )


def _move(broker: Broker, name: TopicPartition, path: str) -> ErrorCode:
    if path != broker.directory.path:
        return ErrorCode.LOG_DIR_NOT_FOUND
    if broker.partitions.get(*name) is None:
        return leader_hints.missing(broker.controller.image, *name)
    return ErrorCode.NONE

"""WriteTxnMarkers, versions 1 and 2: a coordinator, or a tool that ends a hanging transaction, has markers written to
partitions that this broker leads. The answer leaves once they are committed, or their time is up."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from barnabas.errors import ErrorCode
from barnabas.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from barnabas.server.context import RequestContext
from barnabas.server.coordinators import marker_log
from barnabas.server.replicas.commit_wait import Commit
from barnabas.types import TopicPartition

if TYPE_CHECKING:
    from barnabas.server.broker import Broker

COMMIT_SECONDS_MAX = 20.0  # less than a coordinator waits for the answer

Waiting = list[tuple[Commit, WritableTxnMarkerPartitionResult]]


def handle(
    broker: Broker, context: RequestContext, request: WriteTxnMarkersRequest
) -> WriteTxnMarkersResponse | asyncio.Future[WriteTxnMarkersResponse]:
    waiting: Waiting = []
    response = WriteTxnMarkersResponse(markers=[_write(broker, marker, waiting) for marker in request.markers])
    return broker.supervisor.awaited("WriteTxnMarkers", _wait(response, waiting)) if waiting else response


def _write(broker: Broker, request: WritableTxnMarker, waiting: Waiting) -> WritableTxnMarkerResult:
    marker = marker_log.Marker(
        request.producer_id,
        request.producer_epoch,
        request.transaction_result,
        request.coordinator_epoch,
        request.transaction_version,
    )
    topics = []
    for topic in request.topics:
        answers = []
        for index in topic.partition_indexes:
            error, commit = marker_log.append(broker, TopicPartition(topic.name, index), marker)
            answers.append(WritableTxnMarkerPartitionResult(partition_index=index, error_code=error))
            if commit is not None:
                waiting.append((commit, answers[-1]))
        topics.append(WritableTxnMarkerTopicResult(name=topic.name, partitions=answers))
    return WritableTxnMarkerResult(producer_id=request.producer_id, topics=topics)


async def _wait(response: WriteTxnMarkersResponse, waiting: Waiting) -> WriteTxnMarkersResponse:
    commits = [commit for commit, _answer in waiting]
    await asyncio.wait(commits, timeout=COMMIT_SECONDS_MAX)
    for commit, answer in waiting:
        answer.error_code = commit.result() if commit.done() else ErrorCode.REQUEST_TIMED_OUT
    return response

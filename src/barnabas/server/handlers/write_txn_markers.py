"""WriteTxnMarkers, versions 1 and 2: a coordinator, or a tool that ends a hanging transaction, has markers written to
partitions that this broker leads. The answer leaves once they are committed, or their time is up.

A partition that is named twice counts once, and all markers of one producer id have one entry in the answer; a marker
without partitions has none. Differs from Kafka: where a partition is named twice, Kafka never answers; it writes
markers of producer ids below -1, which are refused here.
"""

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
from barnabas.types import ProducerId, TopicPartition

if TYPE_CHECKING:
    from barnabas.server.broker import Broker

COMMIT_SECONDS_MAX = 20.0  # less than a coordinator waits for the answer

Waiting = list[tuple[Commit, WritableTxnMarkerPartitionResult]]
Written = dict[str, dict[int, WritableTxnMarkerPartitionResult]]  # by topic and partition


def handle(
    broker: Broker, context: RequestContext, request: WriteTxnMarkersRequest
) -> WriteTxnMarkersResponse | asyncio.Future[WriteTxnMarkersResponse]:
    waiting: Waiting = []
    written: dict[ProducerId, Written] = {}
    for marker in request.markers:
        for name in _partitions(marker):
            error, commit = marker_log.append(broker, name, _content(marker))
            answer = WritableTxnMarkerPartitionResult(partition_index=name.partition, error_code=error)
            written.setdefault(marker.producer_id, {}).setdefault(name.topic, {})[name.partition] = answer
            if commit is not None:
                waiting.append((commit, answer))
    response = _response(written)
    return broker.supervisor.awaited("WriteTxnMarkers", _wait(response, waiting)) if waiting else response


def _partitions(marker: WritableTxnMarker) -> dict[TopicPartition, None]:
    return {TopicPartition(topic.name, index): None for topic in marker.topics for index in topic.partition_indexes}


def _content(marker: WritableTxnMarker) -> marker_log.Marker:
    return marker_log.Marker(
        marker.producer_id,
        marker.producer_epoch,
        marker.transaction_result,
        marker.coordinator_epoch,
        marker.transaction_version,
    )


def _response(written: dict[ProducerId, Written]) -> WriteTxnMarkersResponse:
    return WriteTxnMarkersResponse(
        markers=[
            WritableTxnMarkerResult(
                producer_id=producer_id,
                topics=[
                    WritableTxnMarkerTopicResult(name=name, partitions=list(answers.values()))
                    for name, answers in topics.items()
                ],
            )
            for producer_id, topics in written.items()
        ]
    )


async def _wait(response: WriteTxnMarkersResponse, waiting: Waiting) -> WriteTxnMarkersResponse:
    commits = [commit for commit, _answer in waiting]
    await asyncio.wait(commits, timeout=COMMIT_SECONDS_MAX)
    for commit, answer in waiting:
        answer.error_code = commit.result() if commit.done() else ErrorCode.REQUEST_TIMED_OUT
    return response

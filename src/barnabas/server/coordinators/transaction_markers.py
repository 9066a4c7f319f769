"""Markers on their way: from the coordinator of a transaction to the leaders of its partitions, until all are written.

    send      to each leader as the metadata names it: a call within this broker, or a request to another
    answered  what is written is done; what a new leader must write is sent again; then the transaction is complete

Always holds: a transaction is completed only when each of its partitions has its marker, is gone, or belongs to a
later transaction already. Markers for one broker that come while a request is under way go with the next one.
Does not know: why a transaction ends.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from barnabas.client.connection import ConnectionLost
from barnabas.errors import ErrorCode
from barnabas.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from barnabas.server.coordinators import marker_log
from barnabas.server.replicas.commit_wait import Commit
from barnabas.server.supervisor import OnFailure, is_running
from barnabas.transactions.markers import Markers
from barnabas.types import NO_LEADER, BrokerId, TopicPartition

if TYPE_CHECKING:
    from barnabas.server.broker import Broker
    from barnabas.server.coordinators.transaction_shard import LedTransactions

logger = logging.getLogger(__name__)

PURPOSE = "transaction-markers"
RETRY_MS = 50  # leaders change within a fraction of a second; until then there is nobody to ask
RETRY_MS_MAX = 1_000  # a leader that stays away is not asked more often, however many transactions wait for it
REQUEST_TIMEOUT_MS = 30_000
MARKERS_PER_REQUEST_MAX = 1_000  # a request of a few hundred kilobytes

# It is not for this coordinator to end anything there: somebody newer does, or did.
_SUPERSEDED = frozenset({ErrorCode.INVALID_PRODUCER_EPOCH})
_FENCED = frozenset({ErrorCode.TRANSACTION_COORDINATOR_FENCED})


class _Sending:
    """One transaction's markers, and the partitions that have none yet."""

    __slots__ = ("markers", "remaining", "retry_ms")

    def __init__(self, markers: Markers) -> None:
        self.markers = markers
        self.retry_ms = RETRY_MS  # grows
        self.remaining = dict(markers.partitions)


class MarkerSender:
    """Of one shard."""

    def __init__(self, broker: Broker, shard: LedTransactions) -> None:
        self._broker = broker
        self._shard = shard
        self._queues: dict[BrokerId, dict[_Sending, list[TopicPartition]]] = {}  # what goes next to each broker
        self._tasks: dict[BrokerId, asyncio.Task[None]] = {}  # to whom a request is under way
        self._closed = False

    def send(self, markers: Markers) -> None:
        sending = _Sending(markers)
        self._send_to_leaders(sending, tuple(sending.remaining))
        if not sending.remaining:
            self._complete(sending)

    def close(self) -> None:
        self._closed = True
        self._queues.clear()
        for task in self._tasks.values():
            task.cancel()

    def _send_to_leaders(self, sending: _Sending, partitions: Iterable[TopicPartition]) -> None:
        image = self._broker.controller.image
        waiting = []
        for name in partitions:
            state = image.partition(name.topic, name.partition)
            if state is None:
                del sending.remaining[name]  # deleted: nothing is left to end there
            elif state.leader == self._broker.node_id:
                self._write_here(sending, name)
            elif state.leader == NO_LEADER:
                waiting.append(name)
            else:
                self._queue(state.leader, sending, [name])
        if waiting:
            self._later(sending, waiting)

    def _later(self, sending: _Sending, partitions: Sequence[TopicPartition]) -> None:
        self._broker.runtime.clock.call_later(sending.retry_ms, lambda: self._again(sending, partitions))
        sending.retry_ms = min(2 * sending.retry_ms, RETRY_MS_MAX)

    def _again(self, sending: _Sending, partitions: Sequence[TopicPartition]) -> None:
        if not self._closed:
            self._send_to_leaders(sending, partitions)
            if not sending.remaining:
                self._complete(sending)

    def _answered(self, sending: _Sending, name: TopicPartition, error: ErrorCode) -> None:
        """What one leader says of one partition."""
        if error == ErrorCode.NONE or error in _SUPERSEDED:
            sending.remaining.pop(name, None)
        elif error in _FENCED:
            logger.warning("%s: a newer coordinator ends %s", name, sending.markers.transactional_id)
        else:
            self._later(sending, [name])

    def _complete(self, sending: _Sending) -> None:
        if self._closed:
            return
        error = self._shard.run(lambda rules: rules.complete(sending.markers, self._shard.now()))
        if error != ErrorCode.NONE and not self._closed:
            self._later(sending, ())  # the log could not be written; the markers are

    # Within this broker

    def _write_here(self, sending: _Sending, name: TopicPartition) -> None:
        markers = sending.markers
        error, commit = marker_log.append(
            self._broker,
            name,
            marker_log.Marker(
                markers.producer_id,
                markers.producer_epoch,
                markers.committed,
                self._shard.partition.leader_epoch,
                markers.transaction_version,
            ),
        )
        if commit is None:
            self._answered(sending, name, error)
        else:
            commit.add_done_callback(lambda done: self._committed_here(sending, name, done))

    def _committed_here(self, sending: _Sending, name: TopicPartition, commit: Commit) -> None:
        if not self._closed:
            self._answered(sending, name, commit.result())
            if not sending.remaining:
                self._complete(sending)

    # To other brokers

    def _queue(self, broker_id: BrokerId, sending: _Sending, partitions: list[TopicPartition]) -> None:
        queue = self._queues.setdefault(broker_id, {})
        queue.setdefault(sending, []).extend(partitions)
        if not is_running(self._tasks.get(broker_id)):
            name = f"transaction markers to broker {broker_id}"
            self._tasks[broker_id] = self._broker.supervisor.start(name, lambda: self._run(broker_id), OnFailure.RETRY)

    async def _run(self, broker_id: BrokerId) -> None:
        """Until nothing more goes to this broker."""
        await self._broker.runtime.clock.sleep(0)  # what is decided now goes along
        while (queue := self._queues.get(broker_id)) and not self._closed:
            batch = {sending: queue.pop(sending) for sending in tuple(queue)[:MARKERS_PER_REQUEST_MAX]}
            try:
                await self._request(broker_id, batch)
            except Exception as error:
                for sending, partitions in batch.items():
                    self._later(sending, [name for name in partitions if name in sending.remaining])
                if not isinstance(error, ConnectionLost):
                    raise
                logger.info("broker %d cannot be sent markers, they wait: %s", broker_id, error)
        self._queues.pop(broker_id, None)

    async def _request(self, broker_id: BrokerId, batch: dict[_Sending, list[TopicPartition]]) -> None:
        coordinator_epoch = self._shard.partition.leader_epoch
        request = WriteTxnMarkersRequest(
            markers=[_marker(sending.markers, partitions, coordinator_epoch) for sending, partitions in batch.items()]
        )
        peer = self._broker.peers.get(broker_id, PURPOSE)
        response: WriteTxnMarkersResponse = await peer.request(request, REQUEST_TIMEOUT_MS)
        if self._closed:
            return
        errors = {
            (result.producer_id, topic.name, each.partition_index): ErrorCode(each.error_code)
            for result in response.markers
            for topic in result.topics
            for each in topic.partitions
        }
        for sending, partitions in batch.items():
            for name in partitions:
                error = errors.get((sending.markers.producer_id, *name), ErrorCode.UNKNOWN_SERVER_ERROR)
                self._answered(sending, name, error)
            if not sending.remaining:
                self._complete(sending)


def _marker(markers: Markers, partitions: list[TopicPartition], coordinator_epoch: int) -> WritableTxnMarker:
    topics: dict[str, list[int]] = {}
    for topic, partition in partitions:
        topics.setdefault(topic, []).append(partition)
    return WritableTxnMarker(
        producer_id=markers.producer_id,
        producer_epoch=markers.producer_epoch,
        transaction_result=markers.committed,
        topics=[WritableTxnMarkerTopic(name=topic, partition_indexes=each) for topic, each in topics.items()],
        coordinator_epoch=coordinator_epoch,
        transaction_version=markers.transaction_version,
    )

"""Moves batches from the accumulator to the leaders of their partitions, and tells it what became of them.

Always holds: at most `max.in.flight.requests.per.connection` requests are out to a broker; a partition whose leader is
not known, or not reachable, waits while the metadata is asked for again, and everything has an end by its batch's time.
Does not know: records, sequences (the accumulator's), transactions beyond the name that requests carry.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Any, Final

from barnabas.client.cluster import ANY, Cluster, Versions
from barnabas.client.connection import ClientConnection, ConnectionLost
from barnabas.client.errors import AuthenticationError, KafkaError, StaleMetadataError, error_of
from barnabas.client.metadata import Leader, Node
from barnabas.client.producing.accumulator import NEVER, NOBODY, Accumulator, Batch, Identity, Lane
from barnabas.client.settings import ProducerConfig
from barnabas.errors import ErrorCode
from barnabas.protocol.messages.init_producer_id import InitProducerIdRequest
from barnabas.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from barnabas.runtime.interfaces import Timer
from barnabas.types import BrokerId

logger = logging.getLogger(__name__)

PURPOSE: Final = "produce"
TOPIC_IDS_FROM: Final = 13  # the version of Produce that names topics by their ids
TIMER_MS_MIN: Final = 0.05  # a clock whose numbers are coarser than the time that is left would stand still
UNSENT_PAUSE_MS: Final = 1  # with acks=0 no answer says that a broker can take more: the socket does


class Link:
    """One broker as batches go to it."""

    __slots__ = ("connecting", "connection", "in_flight", "resume_ms", "versions")

    def __init__(self) -> None:
        self.connection: ClientConnection | None = None
        self.versions: Versions | None = None
        self.connecting: asyncio.Task[None] | None = None
        self.in_flight = 0
        self.resume_ms = 0.0  # a broker that throttles is asked nothing before


class Sender:
    def __init__(self, cluster: Cluster, accumulator: Accumulator, config: ProducerConfig) -> None:
        self._cluster = cluster
        self._accumulator = accumulator
        self._config = config
        self._clock = cluster.runtime.clock
        self._links: dict[BrokerId, Link] = {}
        self._timer: Timer | None = None
        self._is_due = False  # a round is scheduled for this turn of the event loop
        self._is_closed = False
        self._stale: dict[str, None] = {}  # topics to ask about
        self._refreshing: asyncio.Task[None] | None = None
        self._identifying: asyncio.Task[None] | None = None
        self.version_max: int | None = None  # of Produce, where the transaction demands an older one
        self.has_sent = False  # anything at all since the transaction began
        self.on_waiting: Callable[[], None] = lambda: None  # told where lanes wait to be let into the transaction

    def wake(self) -> None:
        """Something may be ready."""
        if not self._is_due and not self._is_closed:
            self._is_due = True
            asyncio.get_running_loop().call_soon(self._round)

    def stale(self, topic: str) -> None:
        self._stale[topic] = None
        if self._refreshing is None and not self._is_closed:
            self._refreshing = asyncio.ensure_future(self._refresh())

    async def close(self) -> None:
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()
        tasks = [self._refreshing, self._identifying, *(link.connecting for link in self._links.values())]
        running = [task for task in tasks if task is not None]
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    # One round: what is ready goes

    def _round(self) -> None:
        self._is_due = False
        if self._is_closed:
            return
        now_ms = self._clock.monotonic_ms()
        accumulator = self._accumulator
        accumulator.expire(now_ms)
        next_ms = accumulator.next_expiry_ms()
        if self._cluster.metadata_age_ms > self._config.metadata_max_age_ms:
            for lane in accumulator.busy_lanes():
                self.stale(lane.topic)
        by_leader: dict[BrokerId, list[Lane]] = {}
        is_held_back = False
        for lane in accumulator.busy_lanes():
            ready_ms = accumulator.ready_ms(lane, now_ms)
            if ready_ms > now_ms:
                next_ms = min(next_ms, ready_ms)
                is_held_back |= not lane.is_admitted
                continue
            leader = self._cluster.leader(lane.topic, lane.partition)
            if leader is None:
                self.stale(lane.topic)
            else:
                by_leader.setdefault(leader.node_id, []).append(lane)
        for node_id, lanes in by_leader.items():
            next_ms = min(next_ms, self._send_to(node_id, lanes, now_ms))
        self.identify()
        if is_held_back:
            self.on_waiting()
        self._wake_at(next_ms, now_ms)

    def _wake_at(self, next_ms: float, now_ms: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        wait_ms = max(next_ms - now_ms, TIMER_MS_MIN)
        self._timer = None if next_ms == NEVER else self._clock.call_later(wait_ms, self.wake)

    def _send_to(self, node_id: BrokerId, lanes: list[Lane], now_ms: float) -> float:
        """As many requests as may be out. When to come back if nothing else happens."""
        link = self._links.get(node_id)
        if link is None:
            link = self._links[node_id] = Link()
        if link.connection is None or link.connection.is_closed:
            link.connection = None
            if link.connecting is None:
                link.connecting = asyncio.ensure_future(self._connect(node_id, link))
            return NEVER
        if link.resume_ms > now_ms:
            return link.resume_ms
        if self._config.acks == 0 and link.connection.has_unsent:
            return now_ms + UNSENT_PAUSE_MS
        while lanes and link.in_flight < self._config.max_in_flight_requests_per_connection:
            batches: list[Batch] = []
            size = 0
            remaining = []
            for lane in lanes:
                head = lane.queue[0]
                if batches and size + head.size_bytes > self._config.max_request_size:
                    remaining.append(lane)
                    continue
                size += head.size_bytes
                batches.append(self._accumulator.take(lane))
                if lane.queue and self._accumulator.ready_ms(lane, now_ms) <= now_ms:
                    remaining.append(lane)
            self._send(node_id, link, batches)
            lanes = remaining
        return NEVER

    def _send(self, node_id: BrokerId, link: Link, batches: list[Batch]) -> None:
        assert link.connection is not None
        assert link.versions is not None
        config = self._config
        self.has_sent = True
        try:
            version = link.versions.best(ProduceRequest.API_KEY, most=self.version_max)
            request = self._request(batches, version)
        except KafkaError as error:
            self._failed(batches, error)
            return
        if config.acks == 0:
            self._tell(link.connection, request, version, batches)
            return
        link.in_flight += 1
        is_out = True
        waiting = {(batch.topic, batch.partition): batch for batch in batches}

        def answered(response: ProduceResponse) -> None:
            nonlocal is_out
            is_out = False
            link.in_flight -= 1
            self._cluster.peer(node_id, PURPOSE).succeeded()
            self._answered(link, waiting, response)

        def ended(done: "asyncio.Future[None]") -> None:
            error = ConnectionLost("the request was cancelled") if done.cancelled() else done.exception()
            if error is None:
                return
            link.in_flight -= is_out
            if not isinstance(error, KafkaError):
                error = KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"the answer cannot be used: {error}")
            for batch in batches:
                self.stale(batch.topic)
            self._failed(list(waiting.values()), error)

        timeout_ms = config.request_timeout_ms
        link.connection.request_and_handle(request, version, answered, timeout_ms).add_done_callback(ended)

    def _tell(self, connection: ClientConnection, request: ProduceRequest, version: int, batches: list[Batch]) -> None:
        """Without acknowledgements: what the connection has taken counts as written."""
        try:
            connection.tell(request, version)
        except ConnectionLost as error:  # the request before this one broke it
            self._failed(batches, error)
            return
        for batch in batches:
            self._accumulator.written(batch, -1)

    def _request(self, batches: list[Batch], version: int) -> ProduceRequest:
        topics: dict[str, TopicProduceData] = {}
        for batch in batches:
            data = topics.get(batch.topic)
            if data is None:
                data = topics[batch.topic] = TopicProduceData(name=batch.topic)
                if version >= TOPIC_IDS_FROM:
                    known = self._cluster.topic(batch.topic)
                    assert known is not None
                    data.topic_id = known.topic_id
            data.partition_data.append(PartitionProduceData(index=batch.partition, records=batch.encoded))
        return ProduceRequest(
            transactional_id=self._config.transactional_id,
            acks=self._config.acks,
            timeout_ms=self._config.request_timeout_ms,
            topic_data=list(topics.values()),
        )

    # Answers

    def _answered(self, link: Link, waiting: dict[tuple[str, int], Batch], response: ProduceResponse) -> None:
        if response.throttle_time_ms > 0:
            link.resume_ms = self._clock.monotonic_ms() + response.throttle_time_ms
        names = self._cluster.metadata.names
        for topic in response.responses:
            name = topic.name or names.get(topic.topic_id, "")
            for told in topic.partition_responses:
                batch = waiting.pop((name, told.index), None)
                if batch is None:
                    continue
                code = told.error_code
                if code in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
                    self._accumulator.written(batch, told.base_offset, told.log_append_time_ms)
                else:
                    self._refused(batch, told, response)
        # Those that the broker left out, or whose topic was made anew meanwhile.
        if waiting:
            self._failed(list(waiting.values()), error_of(ErrorCode.UNKNOWN_TOPIC_ID, "the broker did not answer"))
        self.wake()

    def _refused(self, batch: Batch, told: PartitionProduceResponse, response: ProduceResponse) -> None:
        error = error_of(told.error_code, _words(told), about=str(batch.topic_partition))
        if isinstance(error, StaleMetadataError):
            leader = told.current_leader
            if leader is not None and leader.leader_id >= 0:
                nodes = [Node(each.node_id, each.host, each.port, each.rack) for each in response.node_endpoints or ()]
                self._cluster.metadata.add_brokers(nodes)
            if leader is None or not self._cluster.metadata.apply_leader(
                batch.topic, batch.partition, Leader(leader.leader_id, leader.leader_epoch)
            ):
                self.stale(batch.topic)
        self._failed([batch], error)

    def _failed(self, batches: list[Batch], error: KafkaError) -> None:
        now_ms = self._clock.monotonic_ms()
        for batch in batches:
            if self._accumulator.failed(batch, error, now_ms):
                logger.debug("%s is sent again: %s", batch.topic_partition, error)
        self.wake()

    # What must be known before anything can go

    async def _connect(self, node_id: BrokerId, link: Link) -> None:
        try:
            link.connection, link.versions = await self._cluster.connected(node_id, PURPOSE)
        except AuthenticationError as error:
            self._accumulator.abandon_waiting(error)  # nobody is let in by asking again
        except KafkaError as error:
            logger.debug("broker %s cannot be reached: %s", node_id, error)
            for lane in self._accumulator.busy_lanes():
                leader = self._cluster.leader(lane.topic, lane.partition)
                if leader is not None and leader.node_id == node_id:
                    self.stale(lane.topic)
        finally:
            link.connecting = None
            self.wake()

    async def _refresh(self) -> None:
        """Asks about stale topics until all have been told of."""
        failures = 0
        try:
            while self._stale and not self._is_closed:
                if failures or self._cluster.metadata_age_ms < self._config.retry_backoff_ms:
                    await self._clock.sleep(self._cluster.pause_ms(failures))
                topics = list(self._stale)
                self._stale.clear()
                try:
                    await self._cluster.refresh(topics)
                    failures = 0
                except KafkaError as error:
                    logger.debug("the metadata of %s is not to be had: %s", topics, error)
                    failures += 1
                    self._stale.update(dict.fromkeys(topics))
                self.wake()
        finally:
            self._refreshing = None

    def identify(self) -> None:
        """Asks for an id where one is needed and there is none. Transactions bring their own."""
        accumulator = self._accumulator
        is_needed = accumulator.is_idempotent and not accumulator.is_transactional and accumulator.identity == NOBODY
        if is_needed and self._identifying is None and not self._is_closed:
            self._identifying = asyncio.ensure_future(self._new_identity())

    async def _new_identity(self) -> None:
        """An id under which this producer writes each record once; asked for until it is had."""
        failures = 0
        try:
            while self._accumulator.identity == NOBODY and not self._is_closed:
                try:
                    self._accumulator.identity = await self._ask_identity()
                    self.wake()
                except KafkaError as error:
                    if not error.retriable:
                        self._accumulator.abandon_waiting(error)
                    logger.debug("no producer id: %s", error)
                    await self._clock.sleep(self._cluster.pause_ms(failures))
                    failures += 1
        finally:
            self._identifying = None

    async def _ask_identity(self) -> Identity:
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=-1)
        response: Any = await self._cluster.request(ANY, request)
        if response.error_code != ErrorCode.NONE:
            raise error_of(response.error_code, about="a producer id")
        return Identity(response.producer_id, response.producer_epoch)


def _words(told: PartitionProduceResponse) -> str | None:
    """What the broker says of the batch, and of the records in it that are at fault."""
    records = [f"record {each.batch_index}: {each.batch_index_error_message}" for each in told.record_errors or ()]
    return "; ".join(filter(None, [told.error_message, *records[:3]])) or None

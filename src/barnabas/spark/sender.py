"""Sends sealed batches to the leaders of their partitions: several requests under way to each, each batch in order.

Each partition has a lane. Batches leave it in order, at most IN_FLIGHT_MAX unanswered, one of a partition in a request.
When one fails in a way that may pass, the lane waits for the answers to those behind it, learns who leads now, and
sends all that were not acknowledged again, in order; the broker knows by their sequences which of them it has.
Always holds: a batch is acknowledged or `failure` says why not, within delivery.timeout.ms; bytes that wait are bounded
by buffer.memory and one chunk. Lives in one event loop. Does not know: rows, who made the producer id.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from barnabas.client.cluster import Cluster
from barnabas.client.errors import KafkaError, KafkaTimeoutError, OutOfOrderSequenceError, error_of
from barnabas.client.metadata import Leader
from barnabas.client.settings import ProducerConfig
from barnabas.errors import ErrorCode
from barnabas.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from barnabas.types import BrokerId

PURPOSE = "produce"
IN_FLIGHT_MAX = 5  # of one partition, and requests to one broker: what brokers remember of a producer
VERSION_MIN = 3
VERSION_MAX = 12  # the last one that names topics
VERSION_BEFORE_IMPLICIT_PARTITIONS = 11  # from 12 on a transaction learns of its partitions by itself (KIP-890)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Sealed:
    """A batch that is ready to go."""

    topic: str
    partition: int
    records: bytearray
    on_written: Callable[[int], None] | None = None  # told the offset of its first record


@dataclass(slots=True, eq=False)
class Lane:
    topic: str
    partition: int
    waiting: deque[Sealed] = field(default_factory=deque)  # in the order of their sequences
    in_flight: deque[Sealed] = field(default_factory=deque)  # likewise, all before those that wait
    unanswered: int = 0  # of those in flight
    failed: KafkaError | None = None  # of one in flight: nothing leaves until all of them are answered
    is_joined: bool = False  # the transaction knows of this partition
    is_known: bool = False  # its leader knows of the producer; one that does not takes any batch for the first
    deadline_ms: float = 0.0  # by when the first of them must be acknowledged


class BatchSender:
    def __init__(
        self,
        cluster: Cluster,
        config: ProducerConfig,
        *,
        transactional_id: str | None = None,
        join: Callable[[str, int], Awaitable[None]] | None = None,
    ) -> None:
        """`join` makes the transaction know of a partition, where brokers do not do that by themselves."""
        self.failure: KafkaError | None = None  # the first that will not pass; nothing is sent after it
        self.batch_count = 0
        self._cluster = cluster
        self._config = config
        self._transactional_id = transactional_id
        self._join = join
        self._lanes: dict[tuple[str, int], Lane] = {}
        self._requests: dict[BrokerId, int] = {}  # under way
        self._tasks: set[asyncio.Task[None]] = set()
        self._bytes = 0  # of all batches in lanes
        self._progress = asyncio.Event()  # something was acknowledged, or failed
        self._is_recovering = False
        self._failures = 0  # in a row, for the pause

    async def submit(self, batches: Sequence[Sealed]) -> None:
        """Takes these as soon as there is room for more."""
        while self._bytes >= self._config.buffer_memory and self.failure is None:
            await self._wait()
        self._check()
        for batch in batches:
            lane = self._lane(batch.topic, batch.partition)
            if not lane.waiting and not lane.in_flight:
                self._start_clock(lane)
            lane.waiting.append(batch)
            self._bytes += len(batch.records)
            self.batch_count += 1
        self._pump()

    async def finish(self) -> None:
        """Returns once everything is acknowledged."""
        while self._bytes and self.failure is None:
            await self._wait()
        self._check()

    async def close(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _check(self) -> None:
        if self.failure is not None:
            raise self.failure

    async def _wait(self) -> None:
        self._progress.clear()
        await self._progress.wait()

    def _lane(self, topic: str, partition: int) -> Lane:
        lane = self._lanes.get((topic, partition))
        if lane is None:
            lane = self._lanes[topic, partition] = Lane(topic, partition)
            lane.is_joined = self._join is None
        return lane

    def _start_clock(self, lane: Lane) -> None:
        lane.deadline_ms = self._cluster.runtime.clock.monotonic_ms() + self._config.delivery_timeout_ms

    # Sending

    def _pump(self) -> None:
        """Sends all that may go now."""
        if self.failure is not None:
            return
        ready: dict[BrokerId, list[Lane]] = {}
        for lane in self._lanes.values():
            leader = self._cluster.leader(lane.topic, lane.partition)
            if leader is not None and lane.is_joined and lane.failed is None:
                ready.setdefault(leader.node_id, []).append(lane)
            elif lane.waiting and lane.unanswered == 0:
                self._recover()
        for node_id, lanes in ready.items():
            while self._requests.get(node_id, 0) < IN_FLIGHT_MAX and (taken := self._take(lanes)):
                self._requests[node_id] = self._requests.get(node_id, 0) + 1
                self._spawn(self._exchange(node_id, taken))

    def _take(self, lanes: list[Lane]) -> list[tuple[Lane, Sealed]]:
        """One batch of each lane, as far as a request reaches; whoever had no turn comes first next time."""
        taken: list[tuple[Lane, Sealed]] = []
        room = self._config.max_request_size
        for lane in list(lanes):
            if not lane.waiting or len(lane.in_flight) >= (IN_FLIGHT_MAX if lane.is_known else 1):
                continue
            size = len(lane.waiting[0].records)
            if taken and size > room:
                break
            room -= size
            batch = lane.waiting.popleft()
            lane.in_flight.append(batch)
            lane.unanswered += 1
            taken.append((lane, batch))
            lanes.remove(lane)
            lanes.append(lane)
        return taken

    def _spawn(self, work: Awaitable[None]) -> None:
        task = asyncio.ensure_future(work)
        assert isinstance(task, asyncio.Task)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._fail(error if isinstance(error, KafkaError) else _bug(error))

    async def _exchange(self, node_id: BrokerId, taken: list[tuple[Lane, Sealed]]) -> None:
        answers: list[KafkaError | int]
        try:
            answers = await self._produce(node_id, taken)
        except KafkaError as lost:
            answers = [lost] * len(taken)
        self._requests[node_id] -= 1
        for (lane, batch), answer in zip(taken, answers, strict=True):
            self._answered(lane, batch, answer)
        self._progress.set()
        self._pump()

    async def _produce(self, node_id: BrokerId, taken: list[tuple[Lane, Sealed]]) -> list[KafkaError | int]:
        """For each the offset of its first record, or why it is not there."""
        connection, versions = await self._cluster.connected(node_id, PURPOSE)
        most = VERSION_MAX if self._join is None else VERSION_BEFORE_IMPLICIT_PARTITIONS
        version = versions.best(ProduceRequest.API_KEY, VERSION_MIN, most)
        topics: dict[str, TopicProduceData] = {}
        for lane, batch in taken:
            data = topics.setdefault(lane.topic, TopicProduceData(name=lane.topic, partition_data=[]))
            data.partition_data.append(PartitionProduceData(index=lane.partition, records=memoryview(batch.records)))
        request = ProduceRequest(
            transactional_id=self._transactional_id,
            acks=self._config.acks,
            timeout_ms=self._config.request_timeout_ms,
            topic_data=list(topics.values()),
        )
        response: ProduceResponse = await connection.request(request, version, self._config.request_timeout_ms)
        self._cluster.peer(node_id, PURPOSE).succeeded()
        found: dict[tuple[str, int], KafkaError | int] = {}
        for topic in response.responses:
            for each in topic.partition_responses:
                if each.current_leader is not None:
                    leader = Leader(each.current_leader.leader_id, each.current_leader.leader_epoch)
                    self._cluster.metadata.apply_leader(topic.name, each.index, leader)
                is_there = each.error_code in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER)
                about = f"partition {each.index} of topic {topic.name}"
                found[topic.name, each.index] = (
                    each.base_offset if is_there else error_of(each.error_code, each.error_message, about=about)
                )
        return [found[lane.topic, lane.partition] for lane, _batch in taken]

    # Answers

    def _answered(self, lane: Lane, batch: Sealed, answer: KafkaError | int) -> None:
        lane.unanswered -= 1
        if isinstance(answer, int):
            if batch.on_written is not None and answer >= 0:  # a broker may not remember where a repeated one is
                batch.on_written(answer)
            lane.in_flight.remove(batch)
            lane.is_known = True
            self._bytes -= len(batch.records)
            self._failures = 0
            self._start_clock(lane)
        elif answer.retriable or (isinstance(answer, OutOfOrderSequenceError) and batch is not lane.in_flight[0]):
            lane.failed = (
                lane.failed or answer
            )  # a batch that follows a missing one is out of order until that is there
        else:
            self._fail(answer)
            return
        if lane.failed is not None and lane.unanswered == 0:
            lane.waiting.extendleft(reversed(lane.in_flight))
            lane.in_flight.clear()
            self._recover()

    def _fail(self, error: KafkaError) -> None:
        if self.failure is None:
            self.failure = error
        self._progress.set()

    # Trying again

    def _recover(self) -> None:
        if not self._is_recovering and self.failure is None:
            self._is_recovering = True
            self._spawn(self._find_leaders())

    async def _find_leaders(self) -> None:
        """Until every partition with something to send has a leader, or its time is up."""
        try:
            while self.failure is None:
                if self._failures or any(lane.failed is not None for lane in self._lanes.values()):
                    await self._cluster.runtime.clock.sleep(self._cluster.pause_ms(self._failures))
                    await self._refresh()
                self._failures += 1
                if self._is_late():
                    return
                is_complete = await self._joined()
                self._pump()
                if is_complete:
                    break
        finally:
            self._is_recovering = False
        self._pump()

    def _open_lanes(self) -> list[Lane]:
        return [lane for lane in self._lanes.values() if lane.waiting and lane.unanswered == 0]

    async def _refresh(self) -> None:
        topics = dict.fromkeys(lane.topic for lane in self._open_lanes())
        try:
            await self._cluster.refresh(topics)
        except KafkaError as error:
            if not error.retriable:
                raise
            for lane in self._open_lanes():
                lane.failed = lane.failed or error

    def _is_late(self) -> bool:
        now_ms = self._cluster.runtime.clock.monotonic_ms()
        for lane in self._open_lanes():
            if now_ms >= lane.deadline_ms:
                reason = f": {lane.failed}" if lane.failed else ": it has no leader"
                self._fail(
                    KafkaTimeoutError(
                        f"partition {lane.partition} of topic {lane.topic}: not acknowledged within "
                        f"{self._config.delivery_timeout_ms} ms (delivery.timeout.ms){reason}"
                    )
                )
                return True
        return False

    async def _joined(self) -> bool:
        """Whether all have a leader and are known to the transaction; those that are may send again."""
        complete = True
        for lane in self._open_lanes():
            if self._cluster.leader(lane.topic, lane.partition) is None:
                complete = False
                continue
            if not lane.is_joined and self._join is not None:
                await self._join(lane.topic, lane.partition)
                lane.is_joined = True
            lane.failed = None
        return complete


def _bug(error: BaseException) -> KafkaError:
    found = KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"sending failed: {error!r}")
    found.__cause__ = error
    return found

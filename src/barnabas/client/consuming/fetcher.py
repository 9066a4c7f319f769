"""Records from the leaders, ahead of the application.

One worker for each broker that is read from: one request at a time, within a fetch session, for all partitions read
there; the broker holds it until there is something. Answers wait here until the application takes them; a partition is
asked for more while it has little waiting, so that the application need not wait for the network.
Always holds: records are given out in the order of their offsets, each once, from the partition's position on; a
position moves only as they are given out. What waits of a partition that was sought elsewhere, reset or taken away is
dropped. Does not know: groups, how positions are found.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable
from functools import partial
from typing import TypeVar

from barnabas.client.cluster import Cluster
from barnabas.client.consuming.fetch_session import FIRST_EPOCH, FetchSession, Wanted
from barnabas.client.consuming.fetched_records import FetchedRecords, end_of_batches
from barnabas.client.consuming.record_decoder import ConsumerBatch, ConsumerRecord
from barnabas.client.consuming.subscription import PartitionState, Position, SubscriptionState
from barnabas.client.errors import KafkaError, error_of, known_code
from barnabas.client.metadata import Leader, Node
from barnabas.client.settings import ConsumerConfig
from barnabas.client.workers import Workers
from barnabas.errors import ErrorCode
from barnabas.protocol.messages.fetch import FetchRequest, FetchResponse, PartitionData
from barnabas.protocol.record_batch import InvalidRecordBatch
from barnabas.protocol.special_numbers import READ_COMMITTED, READ_UNCOMMITTED
from barnabas.types import NO_LEADER_EPOCH, ZERO_UUID, BrokerId, TopicPartition

T = TypeVar("T")
logger = logging.getLogger(__name__)

FETCH = "fetch"  # the purpose of the connections
NAMES_VERSION_MAX = 12  # from the next on, topics are named by their ids
ANSWERS_WAITING_MAX = 2  # of one partition: one that is read, and one that follows it at once

STALE = (
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.FENCED_LEADER_EPOCH,
    ErrorCode.UNKNOWN_LEADER_EPOCH,
    ErrorCode.REPLICA_NOT_AVAILABLE,
    ErrorCode.KAFKA_STORAGE_ERROR,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.INCONSISTENT_TOPIC_ID,
    ErrorCode.LEADER_NOT_AVAILABLE,
    ErrorCode.OFFSET_NOT_AVAILABLE,
)


class Waiting:
    """Answers about one partition that the application has not taken yet."""

    __slots__ = ("answers", "end_offset", "state")

    def __init__(self, state: PartitionState) -> None:
        self.state = state  # as long as the subscription has this very one
        self.answers: deque[FetchedRecords] = deque()
        self.end_offset = -1  # where the next answer goes on


class Fetcher:
    def __init__(
        self,
        *,
        cluster: Cluster,
        config: ConsumerConfig,
        subscription: SubscriptionState,
        workers: Workers,
        on_stale: Callable[[], None],
        on_reset: Callable[[], None],
        on_arrival: Callable[[], None],
    ) -> None:
        self._cluster = cluster
        self._config = config
        self._subscription = subscription
        self._workers = workers
        self._on_stale = on_stale  # metadata should be asked for
        self._on_reset = on_reset  # a position must be found anew
        self._on_arrival = on_arrival  # there is something for the application: records or a failure
        self._isolation_level = READ_COMMITTED if config.isolation_level == "read_committed" else READ_UNCOMMITTED
        self._waiting: dict[TopicPartition, Waiting] = {}
        self._turn: deque[TopicPartition] = deque()  # partitions with answers; the first is read now
        self._failures: dict[TopicPartition, KafkaError] = {}  # until the partition is sought or taken away
        self._tasks: dict[BrokerId, asyncio.Task[None]] = {}
        self._wanted_again: dict[BrokerId, asyncio.Event] = {}

    # For the application

    def take(self, count_max: int) -> list[ConsumerRecord]:
        """What waits, at most so many, from as few partitions as possible."""
        taken: list[ConsumerRecord] = []
        while self._turn and len(taken) < count_max:
            found = self._next()
            if found is None:
                continue
            waiting, fetched = found
            taken += self._reading(fetched, waiting, partial(fetched.take, count_max - len(taken))) or ()
        return taken

    def take_batches(self, count_max: int) -> list[ConsumerBatch]:
        """Whole batches as columns; about so many records, as a batch is not cut."""
        taken: list[ConsumerBatch] = []
        count = 0
        while self._turn and count < count_max:
            found = self._next()
            if found is None:
                continue
            waiting, fetched = found
            batch = self._reading(fetched, waiting, fetched.take_batch)
            if batch is not None:
                taken.append(batch)
                count += len(batch.offsets)
        return taken

    def _next(self) -> tuple[Waiting, FetchedRecords] | None:
        """The answer to read on in. None where the one whose turn it is has nothing to give."""
        partition = self._turn[0]
        waiting = self._waiting.get(partition)
        if waiting is None or not waiting.answers:
            self._turn.popleft()
            return None
        state, fetched = waiting.state, waiting.answers[0]
        if self._subscription.partitions.get(partition) is not state or state.position is None:
            self._drop(partition)
        elif not state.is_fetchable:
            self._turn.popleft()  # comes back when it can be read: see `wake`
            if state.position.offset != fetched.next_offset:
                self._drop(partition)
        elif state.position.offset != fetched.next_offset:
            self._drop(partition)
        else:
            return waiting, fetched
        return None

    def _reading(self, fetched: FetchedRecords, waiting: Waiting, take: Callable[[], T]) -> T | None:
        partition, position = fetched.partition, waiting.state.position
        assert position is not None
        try:
            taken = take()
        except InvalidRecordBatch as error:
            self._drop(partition)
            self._failures[partition] = error_of(ErrorCode.CORRUPT_MESSAGE, str(error), about=str(partition))
            return None
        epoch = fetched.leader_epoch if fetched.leader_epoch != NO_LEADER_EPOCH else position.offset_epoch
        waiting.state.position = Position(fetched.next_offset, epoch, position.leader_epoch)
        if fetched.is_exhausted:
            waiting.answers.popleft()
            self._turn.rotate(-1)
            self.wake()
        return taken

    def raise_failure(self) -> None:
        """What stands in the way of a partition that is still read from where it failed."""
        for partition in list(self._failures):
            state = self._subscription.partitions.get(partition)
            if state is None:
                del self._failures[partition]
            elif not state.paused:
                raise self._failures[partition]

    def forget(self, partitions: Iterable[TopicPartition]) -> None:
        """They were sought elsewhere, or taken away."""
        for partition in partitions:
            self._drop(partition)
            self._failures.pop(partition, None)
        self.wake()

    def _drop(self, partition: TopicPartition) -> None:
        self._waiting.pop(partition, None)
        if partition in self._turn:
            self._turn.remove(partition)

    # For the brokers

    def wake(self) -> None:
        """Something may be wanted, or readable, that was not. Looks for workers that are missing, and wakes all."""
        if self._workers.is_closed:
            return
        for partition, state in self._subscription.fetchable():
            waiting = self._waiting.get(partition)
            if waiting is not None and waiting.answers and partition not in self._turn:
                self._turn.append(partition)
                self._on_arrival()
            node_id = self._node_of(partition, state)
            if node_id is None:
                self._on_stale()
            elif node_id not in self._tasks:
                self._wanted_again[node_id] = asyncio.Event()
                self._tasks[node_id] = self._workers.start(self._work(node_id), f"fetcher of broker {node_id}")
        for event in self._wanted_again.values():
            event.set()

    def _node_of(self, partition: TopicPartition, state: PartitionState) -> BrokerId | None:
        """From whom to read: a nearer replica for as long as the leader's word on it holds, or else the leader."""
        leader = self._cluster.leader(partition.topic, partition.partition)
        if state.read_replica is not None:
            now_ms = self._cluster.runtime.clock.monotonic_ms()
            if now_ms < state.read_replica_until_ms and state.read_replica in self._cluster.brokers:
                return state.read_replica
            state.read_replica = None
        return None if leader is None else leader.node_id

    def _wanted_of(self, node_id: BrokerId) -> dict[TopicPartition, Wanted]:
        wanted: dict[TopicPartition, Wanted] = {}
        now_ms = self._cluster.runtime.clock.monotonic_ms()
        for partition, state in self._subscription.fetchable():
            if partition in self._failures or now_ms < state.retry_at_ms:
                continue
            reads_from = self._node_of(partition, state)
            if reads_from is None:
                self._on_stale()  # the brokers may have been forgotten since (see `Cluster`), which nobody told
            if reads_from != node_id:
                continue
            topic = self._cluster.topic(partition.topic)
            leader = self._cluster.leader(partition.topic, partition.partition)
            position = state.position
            if topic is None or leader is None or position is None:
                continue
            state.leader_changed(leader.epoch)
            if not state.is_fetchable:
                self._on_reset()  # the position must be checked first
                continue
            waiting = self._waiting.get(partition)
            offset = position.offset
            if waiting is not None and waiting.state is state and waiting.answers:
                if len(waiting.answers) >= ANSWERS_WAITING_MAX:
                    continue
                offset = waiting.end_offset
            wanted[partition] = Wanted(topic.topic_id, offset, leader.epoch, self._config.max_partition_fetch_bytes)
        return wanted

    async def _work(self, node_id: BrokerId) -> None:
        session = FetchSession()
        event = self._wanted_again[node_id]
        failures = 0
        while True:
            event.clear()
            wanted = self._wanted_of(node_id)
            if not wanted:
                await event.wait()
                continue
            try:
                await self._fetch(node_id, session, wanted)
                failures = 0
            except KafkaError as error:
                session.failed()
                if not error.retriable:
                    raise
                self._lost(node_id)
                if node_id not in self._cluster.brokers:
                    del self._tasks[node_id], self._wanted_again[node_id]
                    return
                await self._cluster.runtime.clock.sleep(self._cluster.pause_ms(failures))
                failures += 1

    def _lost(self, node_id: BrokerId) -> None:
        for state in self._subscription.partitions.values():
            if state.read_replica == node_id:
                state.read_replica = None
        self._on_stale()

    async def _fetch(self, node_id: BrokerId, session: FetchSession, wanted: dict[TopicPartition, Wanted]) -> None:
        config = self._config
        topics, forgotten = session.request(wanted)
        request = FetchRequest(
            max_wait_ms=config.fetch_max_wait_ms,
            min_bytes=config.fetch_min_bytes,
            max_bytes=config.fetch_max_bytes,
            isolation_level=self._isolation_level,
            session_id=session.id,
            session_epoch=session.epoch,
            topics=topics,
            forgotten_topics_data=forgotten,
            rack_id=config.client_rack,
        )
        has_ids = all(each.topic_id != ZERO_UUID for each in wanted.values())
        response: FetchResponse = await self._cluster.request(
            node_id,
            request,
            timeout_ms=config.request_timeout_ms + config.fetch_max_wait_ms,
            purpose=FETCH,
            version_max=None if has_ids else NAMES_VERSION_MAX,
        )
        error = known_code(response.error_code)
        if session.answered(error, response.session_id):
            self._received(response, wanted)
        elif request.session_epoch == FIRST_EPOCH:
            self._on_stale()
            raise error_of(ErrorCode.NETWORK_EXCEPTION if error.retriable else error, about=f"broker {node_id}")

    def _received(self, response: FetchResponse, asked: dict[TopicPartition, Wanted]) -> None:
        for node in response.node_endpoints:
            self._cluster.metadata.add_brokers([Node(node.node_id, node.host, node.port, node.rack)])
        names = {wanted.topic_id: partition.topic for partition, wanted in asked.items()}
        is_stale = False
        for topic in response.responses:
            name = topic.topic or names.get(topic.topic_id, "")
            for data in topic.partitions:
                partition = TopicPartition(name, data.partition_index)
                state = self._subscription.partitions.get(partition)
                wanted = asked.get(partition)
                if state is not None and wanted is not None:
                    is_stale |= self._take_in(partition, state, wanted, data)
        if is_stale:
            self._on_stale()
        if self._turn or self._failures:
            self._on_arrival()

    def _take_in(self, partition: TopicPartition, state: PartitionState, wanted: Wanted, data: PartitionData) -> bool:
        """One partition's part of an answer. True where metadata is out of date."""
        error = known_code(data.error_code)
        waiting = self._waiting.get(partition)
        expected = state.position.offset if state.position is not None else -1
        if waiting is not None and waiting.state is state and waiting.answers:
            expected = waiting.end_offset
        if expected != wanted.offset:
            return False  # it was sought elsewhere while this was under way
        if error == ErrorCode.NONE:
            self._take_records(partition, state, wanted, data)
            return False
        leader = data.current_leader
        if leader is not None and self._cluster.metadata.apply_leader(
            partition.topic, partition.partition, Leader(leader.leader_id, leader.leader_epoch)
        ):
            self.wake()  # the answer itself says who leads now (KIP-951)
            return False
        if error == ErrorCode.OFFSET_OUT_OF_RANGE:
            self._out_of_range(partition, state, wanted)
            return False
        if error in STALE or error == ErrorCode.UNKNOWN_SERVER_ERROR:
            state.read_replica = None
            self._later(state)
            return True
        self._failures[partition] = error_of(error, about=str(partition))
        return False

    def _take_records(
        self, partition: TopicPartition, state: PartitionState, wanted: Wanted, data: PartitionData
    ) -> None:
        state.high_watermark = data.high_watermark
        state.last_stable_offset = data.last_stable_offset
        if data.log_start_offset >= 0:
            state.log_start_offset = data.log_start_offset
        if data.preferred_read_replica >= 0:
            now_ms = self._cluster.runtime.clock.monotonic_ms()
            state.read_replica = data.preferred_read_replica
            state.read_replica_until_ms = now_ms + self._config.metadata_max_age_ms
            self.wake()
        records = data.records or b""
        assert isinstance(records, bytes | bytearray | memoryview), "what is received is bytes"
        view = memoryview(records)
        if not view:
            return
        try:
            end_offset = end_of_batches(view)
        except InvalidRecordBatch as error:
            self._failures[partition] = error_of(ErrorCode.CORRUPT_MESSAGE, str(error), about=str(partition))
            return
        if end_offset is None or end_offset <= wanted.offset:
            words = f"the batch at {wanted.offset} did not come whole; raise max_partition_fetch_bytes"
            self._failures[partition] = error_of(ErrorCode.MESSAGE_TOO_LARGE, words, about=str(partition))
            return
        waiting = self._waiting.get(partition)
        if waiting is None or waiting.state is not state:
            waiting = self._waiting[partition] = Waiting(state)
        waiting.answers.append(
            FetchedRecords(
                partition,
                view,
                offset=wanted.offset,
                aborted=(data.aborted_transactions or ()) if self._isolation_level == READ_COMMITTED else (),
                check_crcs=self._config.check_crcs,
            )
        )
        waiting.end_offset = end_offset
        if partition not in self._turn:
            self._turn.append(partition)

    def _out_of_range(self, partition: TopicPartition, state: PartitionState, wanted: Wanted) -> None:
        position = state.position
        assert position is not None
        if state.read_replica is not None:
            state.read_replica = None  # a follower may lag behind: the leader knows
            self.wake()
        elif position.offset != wanted.offset:
            self._later(state)  # what waits may be read, and then it is asked again
        elif (timestamp_ms := self._config.reset_timestamp_ms(self._cluster.runtime.clock.now_ms())) is not None:
            logger.warning(
                "%s: there is no offset %d (any more): the log begins at %d and ends at %d, as last heard; "
                "auto_offset_reset=%s decides where to go on",
                partition,
                position.offset,
                state.log_start_offset,
                state.high_watermark,
                self._config.auto_offset_reset,
            )
            state.reset(timestamp_ms)
            self._drop(partition)
            self._on_reset()
        else:
            words = f"there is no offset {position.offset} (any more), and auto_offset_reset is none; seek"
            self._failures[partition] = error_of(ErrorCode.OFFSET_OUT_OF_RANGE, words, about=str(partition))

    def _later(self, state: PartitionState) -> None:
        """Asked at once it would refuse at once."""
        clock = self._cluster.runtime.clock
        pause_ms = self._cluster.pause_ms(0)
        state.retry_at_ms = clock.monotonic_ms() + pause_ms
        clock.call_later(pause_ms + 1, self._again)

    def _again(self) -> None:
        self._on_reset()  # perhaps its position has to be checked by now
        self.wake()

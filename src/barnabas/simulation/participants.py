"""Who uses the cluster: what all participants share, and producers.

Each goes on, step by step, until it is told to stop, whatever happens to the brokers; everything asked and heard goes
to the history. `progress` counts what succeeded, so that the run can tell whether anything still moves.
Does not know: faults, nodes, what is right.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field

from barnabas.errors import ErrorCode
from barnabas.protocol.messages.init_producer_id import InitProducerIdRequest
from barnabas.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from barnabas.protocol.record_batch import Record, encode_batch
from barnabas.protocol.special_numbers import ACKS_ALL
from barnabas.simulation.client import Client, ClientConnection, Unavailable
from barnabas.simulation.history import (
    Batch,
    History,
    PartitionId,
    ProduceAcknowledged,
    ProduceAsked,
    ProduceGivenUp,
    ProduceRefused,
    ProducerIdGiven,
    stamped,
)
from barnabas.types import NO_PRODUCER_ID, Uuid

INIT_PRODUCER_ID_VERSION = 4
PRODUCE_BY_NAME_VERSION = 12
PRODUCE_BY_ID_VERSION = 13
BACKOFF_MS_MAX = 200.0

REFUSALS = (
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
    ErrorCode.UNKNOWN_PRODUCER_ID,
    ErrorCode.INVALID_PRODUCER_EPOCH,
)


@dataclass(slots=True, kw_only=True)
class Topic:
    name: str
    id: Uuid
    partition_count: int

    def partition_ids(self) -> list[PartitionId]:
        return [PartitionId(self.id, index) for index in range(self.partition_count)]


@dataclass(slots=True, kw_only=True)
class Habits:
    """How the clients of a run behave; drawn from its seed."""

    think_ms_max: float = 100.0
    records_max: int = 10
    value_bytes_max: int = 300
    batches_in_flight_max: int = 5
    begins_alone: bool = False  # a producer's first batch in a partition goes alone: see `_batch_count`
    give_up_rate: float = 0.02  # after a failure: how often a producer starts anew instead of trying again
    seek_rate: float = 0.02
    topic_settings: dict[str, str] = field(default_factory=dict)
    replication_factor: int = 1
    partition_count_max: int = 3
    churn_names: tuple[str, ...] = ()
    table_names: tuple[str, ...] = ()  # of compacted topics
    changes_voters: bool = False  # whether voters of the metadata quorum come and go
    moves_partitions: bool = False  # whether partitions are added, reassigned, and given to preferred leaders


class Board:
    """What all participants share: the topics there are, and what may be told to anybody."""

    def __init__(self, history: History, habits: Habits) -> None:
        self.history = history
        self.habits = habits
        self.topics: dict[Uuid, Topic] = {}
        self.tables: dict[Uuid, Topic] = {}  # compacted ones, which only those use who write with keys
        self.is_calm = False  # faults are over: nobody gives up any more, or writes faster than replicas can take it

    def has(self, topic: Topic) -> bool:
        return topic.id in self.topics or topic.id in self.tables


class Participant(ABC):
    def __init__(self, board: Board) -> None:
        self.board = board
        self.progress = 0
        self.is_stopping = False

    @abstractmethod
    async def run(self) -> None: ...


class RequestingParticipant(Participant):
    """Makes its requests itself, so that it knows everything that was asked and answered."""

    def __init__(self, client: Client, board: Board) -> None:
        super().__init__(board)
        self.client = client

    async def run(self) -> None:
        while not self.is_stopping:
            await self.client.clock.sleep(self.client.random.uniform(0, self.board.habits.think_ms_max))
            try:
                await self.step()
            except Unavailable:
                await self.back_off()
        self.client.close()

    @abstractmethod
    async def step(self) -> None: ...

    async def back_off(self) -> None:
        await self.client.clock.sleep(self.client.random.uniform(1, BACKOFF_MS_MAX))


def records_of(batch: Batch, now_ms: int) -> list[Record]:
    keys = batch.keys or (None,) * len(batch.values)
    return [
        Record(delta, now_ms, key, None if batch.is_keyed and not value else value, [])
        for delta, (key, value) in enumerate(zip(keys, batch.values, strict=True))
    ]


class Producer(RequestingParticipant):
    def __init__(self, client: Client, board: Board, *, acks: int, idempotent: bool) -> None:
        super().__init__(client, board)
        self._acks = acks
        self._idempotent = idempotent
        self._session = 0
        self._producer_id = NO_PRODUCER_ID
        self._producer_epoch = -1
        self._next_number = 0
        self._next_sequence: dict[PartitionId, int] = {}

    @property
    def writer(self) -> str:
        return f"{self.client.name}.{self._session}"

    def topics(self) -> list[Topic]:
        """Where it writes to."""
        return list(self.board.topics.values())

    def keys(self, _partition_id: PartitionId, _count: int) -> tuple[bytes, ...]:
        """None."""
        return ()

    def value(self, number: int, partition_id: PartitionId) -> bytes:
        size_bytes = self.client.random.randint(1, self.board.habits.value_bytes_max)
        return stamped(self.writer, number, partition_id, size_bytes)

    async def step(self) -> None:
        topics = self.topics()
        if not topics:
            return
        if self.board.is_calm and self._acks != ACKS_ALL:
            # Those who do not wait for the replicas may fill a narrow network for ever (seed 93816019). A new session,
            # for what the old one lost is no fault of the broker.
            self._acks, self._producer_id = ACKS_ALL, NO_PRODUCER_ID
        if self._idempotent and self._producer_id < 0:
            await self._begin_session()
        random = self.client.random
        topic = random.choice(topics)
        partition_id = random.choice(topic.partition_ids())
        batches = [self._make(partition_id) for _ in range(self._batch_count(partition_id))]
        for batch in batches:
            self.board.history.tell(ProduceAsked(batch=batch))
        if self._idempotent:
            await self._deliver(topic, batches)
        else:
            await self._send_once(topic, batches[0])

    def _batch_count(self, partition_id: PartitionId) -> int:
        """How many go at once.

        A broker that does not lead yet refuses a batch and cannot remember it. If it leads by the time of the next
        one it takes that for the producer's beginning, as Apache Kafka does, and the first one never finds its place.
        """
        habits = self.board.habits
        is_first = partition_id not in self._next_sequence
        if not self._idempotent or (is_first and habits.begins_alone):
            return 1
        return self.client.random.randint(1, habits.batches_in_flight_max)

    async def _begin_session(self) -> None:
        response = await self.client.call_any(
            InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000), INIT_PRODUCER_ID_VERSION
        )
        if response.error_code != ErrorCode.NONE:
            raise Unavailable(f"no producer id: {response.error_code}")
        given = ProducerIdGiven(producer_id=response.producer_id, producer_epoch=response.producer_epoch)
        self.board.history.tell(given)
        self._session += 1
        self._producer_id, self._producer_epoch = given.producer_id, given.producer_epoch
        self._next_sequence.clear()

    def _make(self, partition_id: PartitionId) -> Batch:
        random, habits = self.client.random, self.board.habits
        count = random.randint(1, habits.records_max)
        first_number, self._next_number = self._next_number, self._next_number + count
        sequence = self._next_sequence.get(partition_id, 0)
        self._next_sequence[partition_id] = sequence + count
        return Batch(
            partition_id=partition_id,
            writer=self.writer,
            first_number=first_number,
            values=tuple(self.value(number, partition_id) for number in range(first_number, first_number + count)),
            keys=self.keys(partition_id, count),
            acks=self._acks,
            base_sequence=sequence if self._idempotent else -1,
        )

    def _request(self, topic: Topic, batch: Batch, version: int) -> ProduceRequest:
        now_ms = self.client.clock.now_ms()
        records = encode_batch(
            records_of(batch, now_ms),
            producer_id=self._producer_id,
            producer_epoch=self._producer_epoch,
            base_sequence=batch.base_sequence,
        )
        data = TopicProduceData(
            partition_data=[PartitionProduceData(index=batch.partition_id.partition, records=bytes(records))]
        )
        if version >= PRODUCE_BY_ID_VERSION:
            data.topic_id = topic.id
        else:
            data.name = topic.name
        timeout_ms = int(self.client.timeout_ms)
        return ProduceRequest(acks=batch.acks, timeout_ms=timeout_ms, topic_data=[data])

    async def _send_once(self, topic: Topic, batch: Batch) -> None:
        """Without sequences a second try might write twice: whatever is unclear stays so."""
        history = self.board.history
        try:
            connection = await self._leader(topic, batch.partition_id)
            request = self._request(topic, batch, PRODUCE_BY_ID_VERSION)
            if batch.acks == 0:
                connection.tell(request, PRODUCE_BY_ID_VERSION)
                history.tell(ProduceGivenUp(batch=batch))
                self.progress += 1
                return
            response = await self.client.call(connection, request, PRODUCE_BY_ID_VERSION)
        except Unavailable:
            self.client.forget_leader(*batch.partition_id)
            history.tell(ProduceGivenUp(batch=batch))
            raise
        answer = response.responses[0].partition_responses[0]
        if answer.error_code == ErrorCode.NONE:
            self.progress += 1
            history.tell(ProduceAcknowledged(batch=batch, base_offset=answer.base_offset))
        else:
            self.client.forget_leader(*batch.partition_id)
            history.tell(ProduceGivenUp(batch=batch))
            await self.back_off()

    async def _leader(self, topic: Topic, partition_id: PartitionId) -> ClientConnection:
        return await self.client.leader_connection(topic.name, topic.id, partition_id.partition)

    # Idempotent: several batches in flight, sent again in order until all are there

    async def _deliver(self, topic: Topic, batches: list[Batch]) -> None:
        pending = batches
        while pending:
            pending, error = await self._attempt(topic, pending)
            if not pending:
                self.progress += 1
                return
            if error in REFUSALS:
                self.board.history.tell(ProduceRefused(batch=pending[0], error=error))
            gives_up = not self.board.is_calm and self.client.random.random() < self.board.habits.give_up_rate
            if gives_up or error in REFUSALS or not self.board.has(topic) or self.is_stopping:
                for batch in pending:
                    self.board.history.tell(ProduceGivenUp(batch=batch))
                self._producer_id = NO_PRODUCER_ID
                return
            self.client.forget_leader(*pending[0].partition_id)
            await self.back_off()

    async def _attempt(self, topic: Topic, batches: Sequence[Batch]) -> tuple[list[Batch], ErrorCode]:
        """What is still to be done, and why the first of it is."""
        version = self.client.random.choice((PRODUCE_BY_NAME_VERSION, PRODUCE_BY_ID_VERSION))
        if topic.name in self.board.habits.churn_names:
            version = PRODUCE_BY_ID_VERSION  # the name may be another topic's by then
        try:
            connection = await self._leader(topic, batches[0].partition_id)
        except Unavailable:
            return list(batches), ErrorCode.NETWORK_EXCEPTION
        answers = [connection.ask(self._request(topic, batch, version), version) for batch in batches]
        left: list[Batch] = []
        first_error = ErrorCode.NONE
        for batch, future in zip(batches, answers, strict=True):
            try:
                response = await self.client.answer(connection, future)
                answer = response.responses[0].partition_responses[0]
                error = ErrorCode(answer.error_code)
            except Unavailable:
                error = ErrorCode.NETWORK_EXCEPTION
            if error == ErrorCode.NONE:
                self.board.history.tell(ProduceAcknowledged(batch=batch, base_offset=answer.base_offset))
            elif error == ErrorCode.DUPLICATE_SEQUENCE_NUMBER:
                self.board.history.tell(ProduceAcknowledged(batch=batch, base_offset=-1))
            else:
                first_error = first_error if left else error
                left.append(batch)
        return left, first_error

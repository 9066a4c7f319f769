"""A client that consumes, transforms and produces, with how far it has read as a part of the same transaction.

    begin    an epoch that fences all others with the same transactional id; where to go on, by the committed offsets
    read     some of the source, with read_committed
    write    a copy of each record to the output, records of its own beside them, keys into a compacted topic
    end      commit or abort, asked until it is answered

Each transaction has a name, which all its records carry. It may also vanish in the middle of anything and begin anew,
take longer than its timeout, have a batch arrive when its transaction is aborted already, or have a twin with the same
transactional id: then one fences the other.

Always holds: a transaction is said to be aborted only if nobody ever asked to commit it, or all who asked were refused.
A client of version 1 takes a new epoch after whatever was in doubt: by that version a late request counts for the
transaction after it (KAFKA-17754).
Does not know: faults, what is right.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field

from barnabas.errors import ErrorCode
from barnabas.protocol.messages.produce import ProduceRequest
from barnabas.simulation.client import Client, Unavailable
from barnabas.simulation.committed_offsets import OffsetsQuestion, fetch_committed
from barnabas.simulation.history import (
    Batch,
    CommitAcknowledged,
    CommitAsked,
    PartitionId,
    ProduceAcknowledged,
    ProduceAsked,
    ProduceGivenUp,
    TransactionCommitAsked,
    TransactionEnded,
    TransactionOffset,
    TransactionOutcome,
    TransactionRead,
    stamped,
)
from barnabas.simulation.participants import Board, Participant, Topic
from barnabas.simulation.stable_consumer import StableConsumer
from barnabas.simulation.transactional_producer import (
    END_VERSIONS,
    GROUP,
    PRODUCE_VERSIONS,
    TRANSACTION,
    TransactionalProducer,
)
from barnabas.types import Offset

ABORT_RATE = 0.2  # how often a transaction is aborted though nothing is wrong
GIVE_UP_RATE_MIN = 0.03  # after a failure: how often it is given up
STALL_RATE = 0.05  # how often it takes longer than it may
VANISH_RATE = 0.03  # how often it asks for the end and does not wait for the answer
LATE_RATE = 0.5  # how often a batch of a transaction that is aborted arrives after it
LOOK_AROUND_RATE = 0.3  # how often it reads what others have written, between its own writes
TABLE_RATE = 0.4
OWN_BATCHES_MAX = 2
KEYS = 6  # of its own
PAUSE_MS_MAX = 1000.0  # who was fenced lets the other work for a while
LATE_MS_MAX = 300.0

PASSING = (
    ErrorCode.NETWORK_EXCEPTION,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.LEADER_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.KAFKA_STORAGE_ERROR,
    ErrorCode.UNSTABLE_OFFSET_COMMIT,
)
ABORTABLE = (
    ErrorCode.TRANSACTION_ABORTABLE,
    ErrorCode.INVALID_TXN_STATE,
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
    ErrorCode.UNKNOWN_PRODUCER_ID,
)
FENCED = (
    ErrorCode.PRODUCER_FENCED,
    ErrorCode.INVALID_PRODUCER_EPOCH,
    ErrorCode.INVALID_PRODUCER_ID_MAPPING,
)


def shared(topic: Topic, share: tuple[int, int]) -> list[PartitionId]:
    """Each partition whose number leaves the first of the two when divided by the second."""
    remainder, divisor = share
    return [each for each in topic.partition_ids() if each.partition % divisor == remainder]


class MustAbort(Exception):
    """The transaction cannot be committed any more; the producer can go on."""


class Lost(Exception):
    """The producer must begin anew: it was fenced, or it has given up."""


@dataclass(slots=True, kw_only=True)
class Transaction:
    name: str
    has_begun: bool = False  # something was added to it, perhaps
    next_number: int = 0
    added: dict[PartitionId, None] = field(default_factory=dict)
    offsets: dict[PartitionId, Offset] = field(default_factory=dict)


class TransactionalClient(Participant):
    def __init__(
        self,
        client: Client,
        board: Board,
        *,
        producer: TransactionalProducer,
        source: str,
        output: str,
        share: tuple[int, int],  # of the source, see `shared`
        is_twin: bool = False,  # a second one with its transactional id, which stays quiet once faults are over
    ) -> None:
        super().__init__(client, board)
        self.group = f"group-{producer.transactional_id}"
        self._producer = producer
        self._source_name = source
        self._output_name = output
        self._share = share
        self._is_twin = is_twin
        self._count = 0
        self._positions: dict[PartitionId, Offset] = {}  # committed ones, as far as this one knows
        self._reader = self._own_reader("reader", source)
        self._observer = self._own_reader("observer", output)

    def _own_reader(self, name: str, topic: str) -> StableConsumer:
        reader = StableConsumer(
            self.client, self.board, topics=(topic,), with_sessions=False, name=f"{self.client.name}.{name}"
        )
        reader.sizes_max = (1, 500, 2000)
        reader.seeks = False
        reader.taken = []
        return reader

    async def step(self) -> None:
        if self._is_twin and self.board.is_calm:
            self.progress += 1
            return
        try:
            if self._producer.id < 0 or (self._producer.version == 1 and self._producer.is_in_doubt):
                await self._insist(self._producer.initialize)
            await self._find_positions()
            await self._transact()
            self.progress += 1
        except (Lost, MustAbort) as reason:
            self._producer.forget()
            self._positions.clear()
            if str(reason) in [error.name for error in FENCED]:
                await self.client.clock.sleep(self.client.random.uniform(0, PAUSE_MS_MAX))

    async def _insist(self, ask: Callable[[], Awaitable[ErrorCode]], partition_id: PartitionId | None = None) -> None:
        """Until it is done, or cannot be done any more."""
        while (error := await ask()) != ErrorCode.NONE:
            if error in FENCED:
                raise Lost(error.name)
            if error in ABORTABLE:
                raise MustAbort(error.name)
            assert error in PASSING, error.name
            self._look_elsewhere(partition_id)
            if self._gives_up():
                raise Lost("given up") if self.client.random.random() < 0.5 else MustAbort("given up")
            await self.back_off()

    def _gives_up(self) -> bool:
        rate = max(self.board.habits.give_up_rate, GIVE_UP_RATE_MIN)
        return not self.board.is_calm and self.client.random.random() < rate

    def _look_elsewhere(self, partition_id: PartitionId | None) -> None:
        self._producer.forget_coordinators()
        if partition_id is not None:
            self.client.forget_leader(*partition_id)

    def _topic(self, name: str) -> Topic:
        return next(topic for topic in self.board.topics.values() if topic.name == name)

    # Reading

    def _sources(self) -> list[PartitionId]:
        return shared(self._topic(self._source_name), self._share)

    async def _find_positions(self) -> None:
        """Where nobody has committed yet, at the beginning."""
        new = [partition_id for partition_id in self._sources() if partition_id not in self._positions]
        if new:
            question = OffsetsQuestion(group=self.group, member=self.client.name, partition_ids=new)
            connection = await self._producer.coordinator(GROUP, self.group)
            try:
                topic = self._topic(self._source_name)
                found = await fetch_committed(self.client, connection, self.board.history, topic, question)
            except Unavailable:
                self._producer.forget_coordinators()
                raise
            self._positions.update({partition_id: max(offset, 0) for partition_id, offset in found.items()})

    async def _read_some(self) -> list[tuple[PartitionId, Offset, bytes]]:
        self._reader.positions = dict(self._positions)
        self._reader.taken = []
        topic = self._topic(self._source_name)
        if self._positions:
            await self._reader.poll_partitions([(topic, each) for each in self._positions], wait_ms=50)
        return self._reader.taken

    async def _look_around(self, transaction: Transaction) -> None:
        self._observer.taken = []
        try:
            await self._observer.poll([self._topic(self._output_name)], wait_ms=0)
        except Unavailable:
            return
        self._has_read(transaction, self._observer.taken)

    def _has_read(self, transaction: Transaction, records: list[tuple[PartitionId, Offset, bytes]]) -> None:
        if records:
            values = tuple(value for _partition_id, _offset, value in records)
            self.board.history.tell(TransactionRead(transaction=transaction.name, values=values))

    # One transaction

    async def _transact(self) -> None:
        random = self.client.random
        read = await self._read_some()
        self._count += 1
        transaction = Transaction(name=f"{self.client.name}~{self._count}")
        self._has_read(transaction, read)
        try:
            for topic, batch in self._batches(transaction, read):
                await self._write(transaction, topic, batch)
                if random.random() < LOOK_AROUND_RATE:
                    await self._look_around(transaction)
            if read:
                await self._commit_offsets(transaction)
            if not self.board.is_calm and random.random() < STALL_RATE:
                await self.client.clock.sleep(random.uniform(0, 2 * self._producer.timeout_ms))
            committed = random.random() >= ABORT_RATE
        except MustAbort:
            committed = False
            self._producer.is_in_doubt = True
        except Lost:
            self._ended(transaction, TransactionOutcome.ABORTED)
            raise
        if transaction.has_begun:
            is_late = not committed and not self.board.is_calm and random.random() < LATE_RATE
            late = self._late(transaction) if is_late else None
            await self._end(transaction, committed)
            if late is not None:
                await self._arrive_late(*late)

    def _batches(
        self, transaction: Transaction, read: list[tuple[PartitionId, Offset, bytes]]
    ) -> Iterator[tuple[Topic, Batch]]:
        random, habits = self.client.random, self.board.habits
        source, output = self._topic(self._source_name), self._topic(self._output_name)
        by_target: dict[PartitionId, list[str]] = {}
        for partition_id, offset, _value in read:
            target = PartitionId(output.id, partition_id.partition % output.partition_count)
            by_target.setdefault(target, []).append(f"<{partition_id}@{offset}>")
        for target, copies in by_target.items():
            for first in range(0, len(copies), habits.records_max):
                yield output, self._batch(transaction, target, copies[first : first + habits.records_max])
        for _ in range(random.randint(0, OWN_BATCHES_MAX)):
            topic = random.choice((source, output))
            count = random.randint(1, min(habits.records_max, 3))
            yield topic, self._batch(transaction, random.choice(topic.partition_ids()), [""] * count)
        if self.board.tables and random.random() < TABLE_RATE:
            table = random.choice(list(self.board.tables.values()))
            yield table, self._keyed_batch(transaction, table)

    def _batch(self, transaction: Transaction, partition_id: PartitionId, sources: list[str]) -> Batch:
        random, habits = self.client.random, self.board.habits
        first_number, transaction.next_number = transaction.next_number, transaction.next_number + len(sources)
        return Batch(
            partition_id=partition_id,
            writer=transaction.name,
            first_number=first_number,
            values=tuple(
                stamped(transaction.name, number, partition_id, random.randint(1, habits.value_bytes_max), source)
                for number, source in enumerate(sources, first_number)
            ),
            acks=-1,
            base_sequence=self._producer.next_sequence(partition_id, len(sources)),
            transaction=transaction.name,
        )

    def _keyed_batch(self, transaction: Transaction, table: Topic) -> Batch:
        """Its keys are its own and always in the same partition, so that what they mean has one order."""
        random = self.client.random
        numbers = sorted(random.sample(range(KEYS), random.randint(1, 3)))
        partition_id = table.partition_ids()[0]
        first_number, transaction.next_number = transaction.next_number, transaction.next_number + len(numbers)
        return Batch(
            partition_id=partition_id,
            writer=transaction.name,
            first_number=first_number,
            values=tuple(
                b"" if random.random() < 0.2 else stamped(transaction.name, first_number + place, partition_id, 1)
                for place in range(len(numbers))
            ),
            keys=tuple(f"{self.client.name}-{number}".encode() for number in numbers),
            acks=-1,
            base_sequence=self._producer.next_sequence(partition_id, len(numbers)),
            transaction=transaction.name,
        )

    async def _write(self, transaction: Transaction, topic: Topic, batch: Batch) -> None:
        history, producer = self.board.history, self._producer
        history.tell(ProduceAsked(batch=batch))

        async def produce() -> ErrorCode:
            error, base_offset = await producer.produce(topic, batch)
            if error in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
                history.tell(ProduceAcknowledged(batch=batch, base_offset=base_offset if not error else -1))
                return ErrorCode.NONE
            return error

        transaction.has_begun = True
        try:
            if producer.version == 1 and batch.partition_id not in transaction.added:
                await self._insist(lambda: producer.add_partition(topic, batch.partition_id))
                transaction.added[batch.partition_id] = None
            await self._insist(produce, batch.partition_id)
        except (Lost, MustAbort):
            history.tell(ProduceGivenUp(batch=batch))
            raise

    async def _commit_offsets(self, transaction: Transaction) -> None:
        history, producer = self.board.history, self._producer
        transaction.has_begun = True
        if producer.version == 1:
            await self._insist(lambda: producer.add_offsets(self.group))
        transaction.offsets = {
            partition_id: offset
            for partition_id, offset in self._reader.positions.items()
            if offset > self._positions.get(partition_id, 0)
        }
        for partition_id, offset in transaction.offsets.items():
            history.tell(CommitAsked(group=self.group, partition_id=partition_id, offset=offset))
        topic = self._topic(self._source_name)
        await self._insist(lambda: producer.commit_offsets(self.group, topic, transaction.offsets))
        for partition_id, offset in transaction.offsets.items():
            history.tell(
                TransactionOffset(
                    transaction=transaction.name, group=self.group, partition_id=partition_id, offset=offset
                )
            )

    # Its end

    async def _end(self, transaction: Transaction, committed: bool) -> None:
        history, random = self.board.history, self.client.random
        if committed:
            history.tell(TransactionCommitAsked(transaction=transaction.name))
        unclear = TransactionOutcome.UNKNOWN if committed else TransactionOutcome.ABORTED
        if not self.board.is_calm and random.random() < VANISH_RATE:
            await self._ask_and_vanish(committed)
            self._ended(transaction, unclear)
            raise Lost("vanished")
        is_first = True
        while (error := await self._producer.end(committed=committed)) != ErrorCode.NONE:
            if error in FENCED or error in ABORTABLE:
                self._ended(transaction, TransactionOutcome.ABORTED if is_first else unclear)
                raise Lost(error.name)
            assert error in PASSING, error.name
            self._look_elsewhere(None)
            if self._gives_up():
                self._ended(transaction, unclear)
                raise Lost("given up")
            is_first = False
            await self.back_off()
        self._ended(transaction, TransactionOutcome.COMMITTED if committed else TransactionOutcome.ABORTED)
        if committed:
            self._positions.update(transaction.offsets)
            for partition_id, offset in transaction.offsets.items():
                history.tell(CommitAcknowledged(group=self.group, partition_id=partition_id, offset=offset))

    def _late(self, transaction: Transaction) -> tuple[Topic, PartitionId, ProduceRequest]:
        """A batch that the network keeps for a while. Nobody asks what became of it."""
        topic = self._topic(self._output_name)
        batch = self._batch(transaction, self.client.random.choice(topic.partition_ids()), [""])
        self.board.history.tell(ProduceAsked(batch=batch))
        self.board.history.tell(ProduceGivenUp(batch=batch))
        return topic, batch.partition_id, self._producer.produce_request(topic, batch)

    async def _arrive_late(self, topic: Topic, partition_id: PartitionId, request: ProduceRequest) -> None:
        await self.client.clock.sleep(self.client.random.uniform(0, LATE_MS_MAX))
        self._producer.is_in_doubt = True
        try:
            connection = await self.client.leader_connection(topic.name, topic.id, partition_id.partition)
        except Unavailable:
            return
        connection.tell(request, PRODUCE_VERSIONS[self._producer.version])

    async def _ask_and_vanish(self, committed: bool) -> None:
        try:
            connection = await self._producer.coordinator(TRANSACTION, self._producer.transactional_id)
        except Unavailable:
            return
        connection.tell(self._producer.end_request(committed=committed), END_VERSIONS[self._producer.version])

    def _ended(self, transaction: Transaction, outcome: TransactionOutcome) -> None:
        self.board.history.tell(TransactionEnded(transaction=transaction.name, outcome=outcome))

"""An application that consumes, transforms and produces exactly once, by the rules that the documentation gives.

    read     some of the source, as a member of a group, with read_committed
    write    a copy of each record to the output, records of its own beside them, keys into a compacted topic
    offsets  those of what was read, on behalf of the member that has read it
    end      commit, again where nobody knows; abort what cannot be committed; begin anew where another has taken over

Each transaction has a name, which all its records carry. Another application with the same transactional id may fence
it, and it takes longer than its timeout now and then.
Always holds: a transaction is said to be aborted only if nobody ever asked to commit it, or if its abort succeeded; to
be committed only if its commit did. After an abort the application reads again what the group has not committed.
Does not know: faults, what is right.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from barnabas.client.consuming.consumer import Consumer
from barnabas.client.consuming.record_decoder import ConsumerRecord
from barnabas.client.errors import (
    IllegalStateError,
    KafkaError,
    KafkaTimeoutError,
    ProducerFencedError,
)
from barnabas.client.producing.outcomes import RecordFuture
from barnabas.client.producing.producer import Producer
from barnabas.simulation.application import Host
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
from barnabas.simulation.participants import Board, Topic
from barnabas.simulation.reading_application import POLL_MS, GroupApplication, GroupHabits
from barnabas.types import Offset, TopicPartition

ABORT_RATE = 0.2  # how often a transaction is aborted though nothing is wrong
STALL_RATE = 0.05  # how often it takes longer than it may
SLOW_RATE = 0.3  # how often it takes its time between two records
SLOW_MS_MAX = (100.0, 700.0, 2500.0)  # of a life; the last is longer than some wait for a record, or for all of them
LOOK_AROUND_RATE = 0.2  # how often it reads what others have written, between its own writes
TABLE_RATE = 0.4
OWN_RECORDS_MAX = 3
KEYS = 6  # of its own
READ_MAX = 8  # records in a transaction


@dataclass(slots=True, kw_only=True)
class Transaction:
    name: str
    next_number: int = 0
    offsets: dict[TopicPartition, Offset] = field(default_factory=dict)
    commit_asked: bool = False


class CopyingApplication(GroupApplication):
    def __init__(
        self,
        host: Host,
        board: Board,
        *,
        transactional_id: str,
        timeout_ms: int,
        habits: GroupHabits,
        source: str,
        output: str,
        is_twin: bool = False,  # a second one with its transactional id, which stays quiet once faults are over
    ) -> None:
        super().__init__(host, board, habits=habits, topics=(source,), reads_committed=True)
        self._transactional_id = transactional_id
        self._timeout_ms = timeout_ms
        self._source_name, self._output_name = source, output
        self._is_twin = is_twin
        self._count = 0
        self._slow_ms_max = 0.0
        self._open: Transaction | None = None

    async def live(self) -> None:
        if self._is_twin and self.board.is_calm:
            self.progress += 1
            return
        random, settings = self.random, self.host.settings()
        self._slow_ms_max = 0.0 if self.board.is_calm else random.choice(SLOW_MS_MAX)
        async with (
            Producer(
                transactional_id=self._transactional_id,
                transaction_timeout_ms=self._timeout_ms,
                delivery_timeout_ms=settings["request_timeout_ms"] + 50 + random.choice((500, 2000, 10_000)),
                max_block_ms=random.choice((1000, 1000, 3000, 20_000)),
                linger_ms=random.choice((0, 5)),
                batch_size=random.choice((200, 16_384)),
                **settings,
            ) as producer,
            Consumer(**self.consumer_settings()) as observer,
            Consumer(self._source_name, listener=self, **self.group_settings()) as self._consumer,
        ):
            await self._initialise(producer)
            while self.goes_on and not (self._is_twin and self.board.is_calm):
                await self.think()
                if await self._transact(producer, observer, self._consumer):
                    self.progress += 1

    async def _initialise(self, producer: Producer) -> None:
        while True:
            try:
                await producer.init_transactions()
                return
            except KafkaTimeoutError:
                if not self.goes_on:
                    raise

    def life_ended(self) -> None:
        if (transaction := self._open) is not None:
            outcome = TransactionOutcome.UNKNOWN if transaction.commit_asked else TransactionOutcome.ABORTED
            self._transaction_ended(transaction, outcome)

    def _transaction_ended(self, transaction: Transaction, outcome: TransactionOutcome) -> None:
        self._open = None
        self.board.history.tell(TransactionEnded(transaction=transaction.name, outcome=outcome))

    # One transaction

    async def _transact(self, producer: Producer, observer: Consumer, consumer: Consumer) -> bool:
        """Gives whether it was committed or aborted, as was meant."""
        records = await consumer.poll(POLL_MS, self.random.randint(1, READ_MAX))
        self.take(records)
        self._tell_assignment(consumer)
        self._count += 1
        transaction = Transaction(name=f"{self.host.name}~{self._count}")
        self._has_read(transaction, records)
        await producer.begin_transaction()
        self._open = transaction
        try:
            await self._fill(transaction, records, producer, observer)
            await self._add_offsets(transaction, records, producer, consumer)
            if not self.board.is_calm and self.random.random() < STALL_RATE:
                await self.clock.sleep(self.random.uniform(0, 2 * self._timeout_ms))
            if self.random.random() >= ABORT_RATE:
                await self._commit_transaction(transaction, producer)
                return True
        except ProducerFencedError:
            raise
        except KafkaError as error:
            self.host.trace.note(f"{transaction.name} fails: {error!r}")
            if transaction.commit_asked and isinstance(error, KafkaTimeoutError):
                raise  # nobody knows, and nothing but another commit is allowed
        await self._abort(transaction, producer)
        await self._rewind(consumer)
        return True

    def _has_read(self, transaction: Transaction, records: list[ConsumerRecord]) -> None:
        if records:
            values = tuple(record.value or b"" for record in records)
            self.board.history.tell(TransactionRead(transaction=transaction.name, values=values))

    async def _fill(
        self, transaction: Transaction, records: list[ConsumerRecord], producer: Producer, observer: Consumer
    ) -> None:
        history, random = self.board.history, self.random
        for topic, batch in self._batches(transaction, records):
            history.tell(ProduceAsked(batch=batch))
            try:
                future = await producer.send(
                    topic.name,
                    batch.values[0] or None,
                    key=batch.keys[0] if batch.keys else None,
                    partition=batch.partition_id.partition,
                )
            except KafkaError:
                history.tell(ProduceGivenUp(batch=batch))
                raise
            self.spawn(self._watch(batch, future))
            if random.random() < SLOW_RATE:
                await self.clock.sleep(random.uniform(0, self._slow_ms_max))
            if random.random() < LOOK_AROUND_RATE:
                await self._look_around(transaction, observer)

    async def _watch(self, batch: Batch, future: RecordFuture) -> None:
        try:
            written = await future
        except KafkaError:
            self.board.history.tell(ProduceGivenUp(batch=batch))
        else:
            self.board.history.tell(ProduceAcknowledged(batch=batch, base_offset=written.offset))

    async def _look_around(self, transaction: Transaction, observer: Consumer) -> None:
        """What others write into the output counts as read by this transaction."""
        if not observer.assignment():
            observer.assign([(self._output_name, each.partition) for each in self._output.partition_ids()])
        self._has_read(transaction, await observer.poll(0))

    @property
    def _output(self) -> Topic:
        return self.topic(self._output_name)

    def _batches(self, transaction: Transaction, records: list[ConsumerRecord]) -> Iterator[tuple[Topic, Batch]]:
        random, output = self.random, self._output
        for record in records:
            source = f"<{self.partition_id(record.topic, record.partition)}@{record.offset}>"
            target = PartitionId(output.id, record.partition % output.partition_count)
            yield output, self._batch(transaction, target, source)
        for _ in range(random.randint(0, OWN_RECORDS_MAX)):
            topic = random.choice((self.topic(self._source_name), output))
            yield topic, self._batch(transaction, random.choice(topic.partition_ids()))
        if self.board.tables and random.random() < TABLE_RATE:
            table = random.choice(list(self.board.tables.values()))
            yield table, self._keyed_batch(transaction, table)

    def _batch(self, transaction: Transaction, partition_id: PartitionId, source: str = "") -> Batch:
        number, transaction.next_number = transaction.next_number, transaction.next_number + 1
        size_bytes = self.random.randint(1, self.board.habits.value_bytes_max)
        return Batch(
            partition_id=partition_id,
            writer=transaction.name,
            first_number=number,
            values=(stamped(transaction.name, number, partition_id, size_bytes, source),),
            acks=-1,
            base_sequence=number,
            transaction=transaction.name,
        )

    def _keyed_batch(self, transaction: Transaction, table: Topic) -> Batch:
        """Its keys are its own and always in the same partition, so that what they mean has one order."""
        number, transaction.next_number = transaction.next_number, transaction.next_number + 1
        partition_id = table.partition_ids()[0]
        is_tombstone = self.random.random() < 0.2
        return Batch(
            partition_id=partition_id,
            writer=transaction.name,
            first_number=number,
            values=(b"" if is_tombstone else stamped(transaction.name, number, partition_id, 1),),
            keys=(f"{self.host.name}-{self.random.randrange(KEYS)}".encode(),),
            acks=-1,
            base_sequence=number,
            transaction=transaction.name,
        )

    async def _add_offsets(
        self, transaction: Transaction, records: list[ConsumerRecord], producer: Producer, consumer: Consumer
    ) -> None:
        offsets = {TopicPartition(record.topic, record.partition): record.offset + 1 for record in records}
        if not offsets:
            return
        history = self.board.history
        for partition, offset in offsets.items():
            partition_id = self.partition_id(*partition)
            history.tell(CommitAsked(group=self._group, partition_id=partition_id, offset=offset))
        await producer.send_offsets_to_transaction(offsets, consumer.group_metadata())
        transaction.offsets = offsets
        for partition, offset in offsets.items():
            history.tell(
                TransactionOffset(
                    transaction=transaction.name,
                    group=self._group,
                    partition_id=self.partition_id(*partition),
                    offset=offset,
                )
            )

    # Its end

    async def _commit_transaction(self, transaction: Transaction, producer: Producer) -> None:
        history = self.board.history
        history.tell(TransactionCommitAsked(transaction=transaction.name))
        transaction.commit_asked = True
        while True:
            try:
                await producer.commit_transaction()
                break
            except KafkaTimeoutError:
                if not self.goes_on and self.random.random() < 0.5:
                    raise
        self._transaction_ended(transaction, TransactionOutcome.COMMITTED)
        for partition, offset in transaction.offsets.items():
            partition_id = self.partition_id(*partition)
            history.tell(CommitAcknowledged(group=self._group, partition_id=partition_id, offset=offset))

    async def _abort(self, transaction: Transaction, producer: Producer) -> None:
        while True:
            try:
                await producer.abort_transaction()
                break
            except KafkaTimeoutError:
                if not self.goes_on and self.random.random() < 0.5:
                    raise
        self._transaction_ended(transaction, TransactionOutcome.ABORTED)

    async def _rewind(self, consumer: Consumer) -> None:
        """To what the group has committed: what was aborted is read again."""
        partitions = sorted(consumer.assignment())
        committed = await consumer.committed(partitions)
        for partition in partitions:
            found = committed[partition]
            offset = 0 if found is None else found.offset
            try:
                consumer.seek(partition, offset)
            except IllegalStateError:
                continue  # it was taken away meanwhile
            self._told_position(partition, offset, was_sought=True)

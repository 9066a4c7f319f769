"""Writes records to topics.

    async with Producer(bootstrap_servers="localhost:9092") as producer:
        await producer.send("greetings", b"hello", key=b"me")          # soon; batches are made of what comes together
        written = await producer.send_and_wait("greetings", b"hello")  # now; where it is

Keys and values are bytes, or what `key_serializer` and `value_serializer` make bytes of; `partitioner` is given a key,
or None, and the number of partitions. Without it keys go where Java's client sends them.
Always holds: what was sent to a partition is written in that order and, unless idempotence was switched off, once,
whatever brokers fail meanwhile; what cannot be written in time fails with its error, which is logged too, since perhaps
nobody waits for it. Does not know: batches, sequences, connections (`accumulator`, `sender`).
"""

import asyncio
import logging
from bisect import bisect_right
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final, Self

from barnabas.client.cluster import Cluster
from barnabas.client.errors import (
    BufferExhaustedError,
    ClientClosedError,
    IllegalStateError,
    KafkaError,
    KafkaTimeoutError,
    RecordTooLargeError,
    error_of,
)
from barnabas.client.lifetime import Lifetime
from barnabas.client.metadata import PartitionMetadata, TopicMetadata
from barnabas.client.offsets import ConsumerGroupMetadata, OffsetAndMetadata
from barnabas.client.producing.accumulator import (
    RECORD_OVERHEAD_BYTES,
    Accumulator,
    Batch,
    Lane,
    Room,
)
from barnabas.client.producing.outcomes import RecordFuture, RecordFutures, RecordMetadata, ending
from barnabas.client.producing.partitioner import StickyChoice, partition_of_key
from barnabas.client.producing.sender import Sender
from barnabas.client.producing.transaction import OpenTransaction, State, Transactions
from barnabas.client.record_input import (
    Headers,
    Serializer,
    as_bytes,
    as_column,
    as_headers,
    as_number,
    as_timestamp_ms,
    check_topic,
    ends_of,
)
from barnabas.client.settings import ProducerConfig
from barnabas.client.workers import let_others_run
from barnabas.errors import ErrorCode
from barnabas.protocol.compression import Codec
from barnabas.protocol.record_batch import HEADER_BYTES
from barnabas.runtime.interfaces import Runtime
from barnabas.types import TopicPartition

logger = logging.getLogger(__name__)

Partitioner = Callable[[bytes | None, int], int]  # a key, and how many partitions there are
_CODECS: Final = {codec.name.lower(): codec for codec in Codec}


class TopicWriter:
    """One topic as the producer writes to it."""

    __slots__ = ("available", "lanes", "sticky", "version")

    def __init__(self, sticky: StickyChoice) -> None:
        self.lanes: list[Lane] = []  # by partition
        self.available: list[int] = []  # partitions that have a leader, or all where none has
        self.sticky = sticky
        self.version: object = None  # the metadata that these come from


class Producer(Lifetime):
    """See the head of this module. Settings are Kafka's by name, with underscores for dots."""

    def __init__(
        self,
        *,
        key_serializer: Serializer | None = None,
        value_serializer: Serializer | None = None,
        partitioner: Partitioner | None = None,
        runtime: Runtime | None = None,
        **settings: Any,
    ) -> None:
        config = self._config = ProducerConfig(**settings)
        for name, given in (
            ("key_serializer", key_serializer),
            ("value_serializer", value_serializer),
            ("partitioner", partitioner),
        ):
            if given is not None and not callable(given):
                raise TypeError(f"{name} must be a function, not {given!r}")
        self._cluster = Cluster(config, runtime=runtime)
        self._serialize_key = key_serializer
        self._serialize_value = value_serializer
        self._partitioner = partitioner
        self._room = Room(config.buffer_memory)
        codec = _CODECS[config.compression_type]
        self._accumulator = Accumulator(
            batch_size=config.batch_size,
            linger_ms=config.linger_ms,
            delivery_timeout_ms=max(config.delivery_timeout_ms, config.linger_ms + config.request_timeout_ms),
            retries=config.retries,
            is_idempotent=config.is_idempotent,
            is_transactional=config.transactional_id is not None,
            codec=codec,
            level=_level(config, codec),
            pause_ms=self._cluster.pause_ms,
        )
        self._accumulator.on_resolved = self._resolved
        self._accumulator.on_failure = self._failed
        self._writers: dict[str, TopicWriter] = {}  # empty once it is closed
        self._topics = self._cluster.metadata.topics
        self._is_plain = not (key_serializer or value_serializer or config.transactional_id is not None)
        self._size_max = min(config.max_request_size - HEADER_BYTES, config.buffer_memory)
        self._sender: Sender | None = None  # while it runs
        self._transactions: Transactions | None = None  # where it has a transactional id
        self._flushes = 0  # that are waited for
        self._is_closed = False

    # Beginning and end

    async def start(self) -> None:
        """Finds the cluster. BrokersUnreachableError where no broker answers within max_block_ms."""
        if self._is_closed:
            raise ClientClosedError("this producer is closed; make a new one")
        if self._sender is None:
            await self._cluster.start(self._config.max_block_ms)
            self._sender = Sender(self._cluster, self._accumulator, self._config)
            self._clock = self._cluster.runtime.clock
            if self._config.transactional_id is None:
                self._sender.identify()
            else:
                self._transactions = Transactions(self._cluster, self._accumulator, self._sender, self._config)

    async def close(self, timeout_ms: float | None = None) -> None:
        """Writes what was sent, and ends. What is not written within the time, by default for ever, fails.

        A transaction that is open is aborted, unless it was handed on.
        """
        if self._is_closed:
            return
        self._cluster.check_loop()
        self._is_closed = True
        self._writers.clear()
        try:
            if self._sender is not None:
                async with asyncio.timeout(None if timeout_ms is None else timeout_ms / 1000):
                    await self._end_work(timeout_ms)
        except (KafkaError, TimeoutError) as error:
            logger.warning("closed before everything had its end: %s", error)
        finally:
            for batch in self._accumulator.unresolved:
                self._accumulator.abandon(batch, ClientClosedError("the producer was closed before this was written"))
            if self._transactions is not None:
                await self._transactions.close()
            if self._sender is not None:
                await self._sender.close()
            await self._cluster.close()

    async def _end_work(self, timeout_ms: float | None) -> None:
        transactions = self._transactions
        if transactions is not None and transactions.state in (State.OPEN, State.FAILED, State.ABORTING):
            await transactions.abort(lambda: self._flush(timeout_ms))
        else:
            await self._flush(timeout_ms)

    # Records

    async def send(
        self,
        topic: str,
        value: Any = None,
        *,
        key: Any = None,
        partition: int | None = None,
        headers: Headers | None = None,
        timestamp_ms: int | None = None,
    ) -> RecordFuture:
        """Puts one record into its batch, and returns a future of where it is written.

        Waits only for metadata and for room in the buffer, at most max_block_ms. A record without a key goes to any
        partition, one without a value is a tombstone.
        """
        writer = self._writers.get(topic)
        if writer is None or writer.version is not self._topics.get(topic) or not self._is_plain:
            writer, value, key = await self._prepare(topic, value, key)
        else:
            self._cluster.check_loop()
        size = RECORD_OVERHEAD_BYTES
        if value is not None:
            if value.__class__ is not bytes:
                value = as_bytes(value, "value")
            size += len(value)
        if key is not None:
            if key.__class__ is not bytes:
                key = as_bytes(key, "key")
            size += len(key)
        given = None
        if headers:
            given, headers_bytes = as_headers(headers)
            size += headers_bytes
        if size > self._size_max:
            raise self._too_large(size)
        if timestamp_ms is not None:
            timestamp_ms = as_timestamp_ms(timestamp_ms)
        if key is None and partition is None and self._partitioner is None:
            lane = writer.lanes[writer.sticky.choose(size, writer.available)]
        else:
            if partition is not None and as_number(partition, "partition") >= len(writer.lanes):
                writer = await self._grown_writer(topic, partition)
            lane = writer.lanes[self._partition(topic, writer, key, partition)]
        if not self._room.take(size):  # nothing fails between this and the batch, which gives it back
            await self._wait_for_room(size)
        if timestamp_ms is None:
            timestamp_ms = self._clock.now_ms()
        queue = lane.queue
        if queue:
            batch = queue[-1]
            if not batch.is_closed and batch.size_bytes + size <= self._accumulator.batch_size:
                return RecordFuture(batch, batch.append(key, value, given, timestamp_ms, size))
        is_behind = len(queue) > 0
        batch = self._accumulator.open_batch(lane, size, self._clock.monotonic_ms())
        future = RecordFuture(batch, batch.append(key, value, given, timestamp_ms, size))
        self._sender.wake()  # type: ignore[union-attr]  # there is one where there is a writer
        if is_behind:
            await let_others_run()  # the batch before this one is full
        return future

    async def _prepare(self, topic: str, value: Any, key: Any) -> tuple[TopicWriter, Any, Any]:
        """What most records of most producers need not wait for."""
        writer = await self._writer(topic)
        self._check_sending()
        if self._serialize_value is not None:
            value = self._serialize_value(value)
        if self._serialize_key is not None and key is not None:
            key = self._serialize_key(key)
        return writer, value, key

    async def send_and_wait(
        self,
        topic: str,
        value: Any = None,
        *,
        key: Any = None,
        partition: int | None = None,
        headers: Headers | None = None,
        timestamp_ms: int | None = None,
    ) -> RecordMetadata:
        """As `send`, and waits until the record is written."""
        future = await self.send(topic, value, key=key, partition=partition, headers=headers, timestamp_ms=timestamp_ms)
        return await future

    async def send_many(
        self,
        topic: str,
        values: Iterable[Any],
        *,
        keys: Iterable[Any] | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> RecordFutures:
        """As `send` for each, many times as fast. All have one timestamp; records with keys need as many keys."""
        writer = await self._writer(topic, partition)
        transaction = self._check_sending()
        column = as_column(values, "value", self._serialize_value)
        key_column = None if keys is None else as_column(keys, "key", self._serialize_key)
        if key_column is not None and len(key_column) != len(column):
            raise ValueError(f"{len(key_column)} keys for {len(column)} values; give each record its key, or none")
        at_ms = self._clock.now_ms() if timestamp_ms is None else as_timestamp_ms(timestamp_ms)
        futures = RecordFutures()
        if key_column is None or partition is not None:
            await self._send_column(topic, writer, column, key_column, partition, at_ms, futures, transaction)
            return futures
        futures.places = [0] * len(column)
        for number, members in self._by_partition(topic, writer, key_column).items():
            for place, member in enumerate(members, len(futures)):
                futures.places[member] = place
            values_here, keys_here = [column[each] for each in members], [key_column[each] for each in members]
            await self._send_column(topic, writer, values_here, keys_here, number, at_ms, futures, transaction)
        return futures

    def _by_partition(self, topic: str, writer: TopicWriter, keys: Sequence[bytes | None]) -> dict[int, list[int]]:
        """Which records go where, by their keys."""
        found: dict[int, list[int]] = {}
        count = len(writer.lanes)
        for place, key in enumerate(keys):
            if self._partitioner is not None:
                number = self._partition(topic, writer, key, None)
            elif key is None:
                number = writer.sticky.choose(RECORD_OVERHEAD_BYTES, writer.available)
            else:
                number = partition_of_key(key, count)
            found.setdefault(number, []).append(place)
        return found

    async def _send_column(
        self,
        topic: str,
        writer: TopicWriter,
        values: Sequence[bytes | None],
        keys: Sequence[bytes | None] | None,
        partition: int | None,
        at_ms: int,
        futures: RecordFutures,
        transaction: int | None,
    ) -> None:
        """Batch by batch: as many records as fit go into a partition at once."""
        accumulator = self._accumulator
        ends = ends_of(values, keys)
        count = len(values)
        first = begun = 0
        while first < count:
            if ends[first] - begun > self._size_max:
                raise self._too_large(ends[first] - begun)
            end = max(bisect_right(ends, begun + accumulator.batch_size, first), first + 1)
            size = ends[end - 1] - begun
            if writer.version is not self._topics.get(topic):
                writer = await self._writer(topic, partition)
            self._running()  # there were waits since the last chunk
            self._check_sending(transaction)
            if partition is None and self._partitioner is None:
                lane = writer.lanes[writer.sticky.choose(size, writer.available)]
            else:
                lane = writer.lanes[self._partition(topic, writer, None, partition)]
            if not self._room.take(size):  # nothing fails between this and the batch, which gives it back
                await self._wait_for_room(size)
            batch = accumulator.open_batch(lane, size, self._clock.monotonic_ms())
            chunk = None if keys is None else keys[first:end]
            futures.add(batch, batch.extend(chunk, values[first:end], at_ms, size), end - first)
            self._sender.wake()  # type: ignore[union-attr]  # there is one where there is a writer
            first, begun = end, ends[end - 1]
            if first < count:
                batch.is_closed = True
                await let_others_run()

    async def flush(self, timeout_ms: float | None = None) -> None:
        """Waits until everything that was sent has its outcome. KafkaTimeoutError where that takes longer."""
        self._running()
        await self._flush(timeout_ms)

    async def _flush(self, timeout_ms: float | None) -> None:
        batches = self._accumulator.unresolved
        self._flushes += 1
        self._hurry()
        try:
            async with asyncio.timeout(None if timeout_ms is None else timeout_ms / 1000):
                for batch in batches:
                    if batch.outcome is None:
                        await ending(batch)
        except TimeoutError:
            raise KafkaTimeoutError(f"flush: not all was written within {timeout_ms:.0f} ms") from None
        finally:
            self._flushes -= 1
            self._hurry()

    def _hurry(self) -> None:
        """Nothing lingers while somebody waits."""
        self._accumulator.is_hurried = self._flushes > 0 or self._room.is_waited_for
        self._running_sender().wake()

    async def partitions_for(self, topic: str) -> list[PartitionMetadata]:
        """The partitions of a topic, with their leaders."""
        await self._writer(topic)
        return list(self._cluster.metadata.topics[topic].partitions.values())

    # Transactions

    async def init_transactions(self) -> None:
        """Before the first transaction: takes the transactional id over, and ends what was left open under it."""
        await self._transactional().initialise()

    async def begin_transaction(self) -> None:
        """What is sent from here on becomes visible together, or not at all."""
        self._transactional().begin()

    async def commit_transaction(self) -> None:
        """Writes what was sent and makes it visible, with the offsets. TransactionAbortableError where something of it
        failed: abort. KafkaTimeoutError: commit again, for nobody knows. ProducerFencedError: close this producer."""
        await self._transactional().commit(lambda: self._flush(self._config.max_block_ms))

    async def abort_transaction(self) -> None:
        """Takes back what was sent since the transaction began. What was not written yet is not written any more."""
        await self._transactional().abort(lambda: self._flush(self._config.max_block_ms))

    async def send_offsets_to_transaction(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata | int], group: ConsumerGroupMetadata | str
    ) -> None:
        """Offsets that a group has read up to, committed with the transaction. Take `group` from the consumer."""
        await self._transactional().send_offsets(offsets, group)

    @asynccontextmanager
    async def transaction(self) -> AsyncGenerator[Self, None]:
        """A transaction for the block: committed at its end, aborted where it raises. Initialises at first use.

        KafkaTimeoutError: whether it was committed is not known; the next block ends it first, in the same way.
        """
        transactions = self._transactional()
        if transactions.state is State.UNINITIALIZED:
            await transactions.initialise()
        await transactions.settle(lambda: self._flush(self._config.max_block_ms))
        transactions.begin()
        try:
            yield self
            await self.commit_transaction()
        except BaseException:
            if transactions.state in (State.OPEN, State.FAILED):
                try:
                    await self.abort_transaction()
                except KafkaError as error:  # what the block raised says more, and the next block begins with this
                    logger.warning("the transaction of %s is not aborted yet: %s", transactions.id, error)
            raise

    async def detach_transaction(self) -> OpenTransaction:
        """Writes what was sent and hands the open transaction on, to be ended in any process, by `end_transaction` of
        `barnabas.client.producing.transaction`. This producer can only be closed then."""
        return await self._transactional().detach(lambda: self._flush(self._config.max_block_ms))

    @property
    def open_transaction(self) -> OpenTransaction:
        """Transactional id, producer id and epoch of the transaction that is open."""
        return self._transactional().running

    def _transactional(self) -> Transactions:
        self._running()
        if self._transactions is None:
            raise IllegalStateError("this producer has no transactions; give it a transactional_id")
        return self._transactions

    # Helpers

    def _running(self) -> None:
        if self._is_closed:
            raise ClientClosedError("this producer is closed; make a new one")
        if self._sender is None:
            raise ClientClosedError("this producer is not started; use `async with`, or await start()")
        self._cluster.check_loop()

    def _running_sender(self) -> Sender:
        assert self._sender is not None
        return self._sender

    async def _writer(self, topic: str, partition: int | None = None) -> TopicWriter:
        """With metadata of the topic that is current, asked for where it lacks the topic or the partition."""
        self._running()
        known = self._cluster.topic(topic)
        if known is None:
            check_topic(topic)
        if known is None or (partition is not None and as_number(partition, "partition") >= known.partition_count):
            known = await self._cluster.retry(
                lambda: self._find(topic, partition), what=f"topic {topic}", timeout_ms=self._config.max_block_ms
            )
            self._running()
        writer = self._writers.get(topic)
        if writer is None:
            sticky = StickyChoice(self._cluster.runtime.random, self._config.batch_size)
            writer = self._writers[topic] = TopicWriter(sticky)
        if writer.version is not known:
            writer.version = known
            writer.lanes = [self._accumulator.lane(topic, number) for number in range(known.partition_count)]
            with_leader = [each.partition for each in known.partitions.values() if each.leader >= 0]
            writer.available = with_leader or list(known.partitions)
        return writer

    async def _grown_writer(self, topic: str, partition: int) -> TopicWriter:
        """As `_writer`, for a record that is sent to a partition which the topic did not have before."""
        transaction = self._check_sending()
        writer = await self._writer(topic, partition)
        self._check_sending(transaction)
        return writer

    async def _find(self, topic: str, partition: int | None) -> TopicMetadata:
        await self._cluster.refresh([topic], allow_auto_topic_creation=True)
        known = self._cluster.topic(topic)
        if known is None:
            error = self._cluster.metadata.errors.get(topic, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            raise error_of(error, about=f"topic {topic}")
        if partition is not None and partition >= known.partition_count:
            raise _no_partition(topic, partition, known.partition_count)
        return known

    def _partition(self, topic: str, writer: TopicWriter, key: bytes | None, given: int | None) -> int:
        count = len(writer.lanes)
        if given is not None:
            number = given
        elif self._partitioner is not None:
            number = self._partitioner(key, count)
        else:
            assert key is not None
            return partition_of_key(key, count)
        if number.__class__ is not int or not 0 <= number < count:
            raise _no_partition(topic, number, count)
        return number

    async def _wait_for_room(self, size: int) -> None:
        transaction = self._check_sending()
        granted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        ticket = self._room.wait(size, lambda: None if granted.done() else granted.set_result(None))
        self._hurry()
        try:
            async with asyncio.timeout(self._config.max_block_ms / 1000):
                await granted
        except BaseException as error:
            self._room.leave(ticket)
            if not isinstance(error, TimeoutError):
                raise
            raise BufferExhaustedError(
                f"no room for a record within {self._config.max_block_ms} ms (max_block_ms): the brokers take records "
                "more slowly than they come; send fewer, or raise buffer_memory"
            ) from None
        finally:
            self._hurry()
        try:
            if self._is_closed:
                raise ClientClosedError("the producer was closed before this record could be taken")
            self._check_sending(transaction)
        except KafkaError:
            self._room.give_back(size)
            raise

    def _check_sending(self, transaction: int | None = None) -> int | None:
        """In which transaction a record is sent, and, after a wait, whether it still is that one."""
        return None if self._transactions is None else self._transactions.check_sending(transaction)

    def _too_large(self, size: int) -> RecordTooLargeError:
        return RecordTooLargeError(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"a record of about {size} bytes is more than max_request_size={self._config.max_request_size} "
            f"or buffer_memory={self._config.buffer_memory} allow; raise them, and max.message.bytes of the topic",
        )

    def _resolved(self, batch: Batch) -> None:
        self._room.give_back(batch.size_bytes)

    def _failed(self, batch: Batch, error: KafkaError) -> None:
        if self._transactions is not None:
            if self._transactions.state is State.ABORTING:
                return  # it was meant to
            self._transactions.failed(error)
        logger.error("%d records of %s are not written: %s", batch.record_count, batch.topic_partition, error)


def _no_partition(topic: str, partition: object, count: int) -> KafkaError:
    words = f"partition {partition!r} is none of the {count} of topic {topic}"
    return error_of(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, words)


def _level(config: ProducerConfig, codec: Codec) -> int | None:
    levels = {
        Codec.GZIP: None if config.compression_gzip_level == -1 else config.compression_gzip_level,
        Codec.LZ4: config.compression_lz4_level,
        Codec.ZSTD: config.compression_zstd_level,
    }
    return levels.get(codec)

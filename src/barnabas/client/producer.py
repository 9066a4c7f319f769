"""Writes records to topics.

    async with Producer(bootstrap_servers="localhost:9092") as producer:
        await producer.send("greetings", b"hello", key=b"me")          # soon; batches are made of what comes together
        written = await producer.send_and_wait("greetings", b"hello")  # now; where it is

Always holds: what was sent to a partition is written in that order and, unless idempotence was switched off, once,
whatever brokers fail meanwhile; what cannot be written in time fails with its error, which is logged too, since perhaps
nobody waits for it. Does not know: batches, sequences, connections (`accumulator`, `sender`).
"""

import asyncio
import logging
from bisect import bisect_right
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from itertools import accumulate
from types import TracebackType, coroutine
from typing import Any, Final, NamedTuple, Self

from barnabas.client.accumulator import (
    BATCH_OVERHEAD_BYTES,
    RECORD_OVERHEAD_BYTES,
    Accumulator,
    Batch,
    Lane,
    Room,
)
from barnabas.client.cluster import Cluster
from barnabas.client.errors import (
    BufferExhaustedError,
    ClientClosedError,
    KafkaError,
    KafkaTimeoutError,
    RecordTooLargeError,
    error_of,
)
from barnabas.client.metadata import PartitionMetadata
from barnabas.client.partitioner import StickyChoice, partition_of_key
from barnabas.client.sender import Sender
from barnabas.client.settings import ProducerConfig
from barnabas.errors import ErrorCode
from barnabas.protocol.compression import Codec
from barnabas.protocol.record_batch import Header
from barnabas.runtime.interfaces import Runtime

logger = logging.getLogger(__name__)

Headers = Sequence[Header] | Mapping[str, bytes | None]
Partitioner = Callable[[bytes | None, int], int]  # a key, and how many partitions there are
Serializer = Callable[[Any], bytes | None]
_CODECS: Final = {codec.name.lower(): codec for codec in Codec}


class RecordMetadata(NamedTuple):
    """Where a record is. The offset is -1 where the broker did not say: with acks=0, and for some duplicates."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int


class RecordFuture:
    """The outcome of one record: `await` it for its RecordMetadata, or for the error. It costs nothing until then."""

    __slots__ = ("_batch", "_place")

    def __init__(self, batch: Batch, place: int) -> None:
        self._batch = batch
        self._place = place

    def done(self) -> bool:
        return self._batch.outcome is not None

    def exception(self) -> KafkaError | None:
        """Why it failed, None where it did not. InvalidStateError while it is not done."""
        outcome = self._outcome()
        return outcome if isinstance(outcome, KafkaError) else None

    def result(self) -> RecordMetadata:
        outcome = self._outcome()
        if isinstance(outcome, KafkaError):
            raise outcome
        batch = self._batch
        timestamp_ms = outcome.log_append_time_ms
        if timestamp_ms < 0:
            timestamp_ms = batch.timestamps_ms[self._place]
        return RecordMetadata(batch.topic, batch.partition, outcome.base_offset, timestamp_ms)

    def add_done_callback(self, callback: Callable[["RecordFuture"], object]) -> None:
        self._batch.when_done(lambda _batch: callback(self))

    def _outcome(self) -> Any:
        outcome = self._batch.outcome_of(self._place) if self._batch.outcome is not None else None
        if outcome is None:
            raise asyncio.InvalidStateError("the record has no outcome yet; await it")
        return outcome

    def __await__(self) -> Generator[Any, None, RecordMetadata]:
        if self._batch.outcome is None:
            yield from _ending(self._batch).__await__()
        return self.result()


def _ending(batch: Batch) -> "asyncio.Future[None]":
    done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    batch.when_done(lambda _batch: None if done.done() else done.set_result(None))
    return done


class RecordFutures(Sequence[RecordFuture]):
    """The outcomes of many records, in their order: `await` it for the list of their RecordMetadata."""

    __slots__ = ("_count", "_ends", "_stretches")

    def __init__(self) -> None:
        self._stretches: list[tuple[Batch, int, int]] = []  # a batch, the place of the first there, and how many
        self._count = 0

    def add(self, batch: Batch, place: int, count: int) -> None:
        self._stretches.append((batch, place, count))
        self._count += count

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [self[each] for each in range(*index.indices(self._count))]
        position = index + self._count if index < 0 else index
        if not 0 <= position < self._count:
            raise IndexError(index)
        for batch, place, count in self._stretches:
            if position < count:
                return RecordFuture(batch, place + position)
            position -= count
        raise AssertionError

    def __await__(self) -> Generator[Any, None, list[RecordMetadata]]:
        for batch, _place, _count in self._stretches:
            if batch.outcome is None:
                yield from _ending(batch).__await__()
        return [
            RecordFuture(batch, place + each).result()
            for batch, place, count in self._stretches
            for each in range(count)
        ]


@coroutine
def _let_others_run() -> Generator[None, None, None]:
    """A turn of the event loop: a producer in a tight loop must not keep answers from being read."""
    yield


class TopicWriter:
    """One topic as the producer writes to it."""

    __slots__ = ("available", "lanes", "sticky", "version")

    def __init__(self, sticky: StickyChoice) -> None:
        self.lanes: list[Lane] = []  # by partition
        self.available: list[int] = []  # partitions that have a leader, or all where none has
        self.sticky = sticky
        self.version: object = None  # the metadata that these come from


class Producer:
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
        self._accumulator.on_failure = _log_failure
        self._writers: dict[str, TopicWriter] = {}
        self._size_max = min(config.max_request_size - BATCH_OVERHEAD_BYTES, config.buffer_memory)
        self._sender: Sender | None = None  # while it runs
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
            self._sender.identify()

    async def close(self, timeout_ms: float | None = None) -> None:
        """Writes what was sent, and ends. What is not written within the time, by default for ever, fails."""
        if self._is_closed:
            return
        self._is_closed = True
        try:
            if self._sender is not None:
                await self._flush(timeout_ms)
        except KafkaTimeoutError as error:
            logger.warning("closed before all was written: %s", error)
        finally:
            for batch in self._accumulator.unresolved:
                self._accumulator.abandon(batch, ClientClosedError("the producer was closed before this was written"))
            if self._sender is not None:
                await self._sender.close()
            await self._cluster.close()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

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
        if writer is None or self._is_closed or writer.version is not self._cluster.metadata.topics.get(topic):
            writer = await self._writer(topic)
        if self._serialize_value is not None:
            value = self._serialize_value(value)
        if self._serialize_key is not None and key is not None:
            key = self._serialize_key(key)
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
        if not self._room.take(size):
            await self._wait_for_room(size)
        if timestamp_ms is None:
            timestamp_ms = self._clock.now_ms()
        number = self._partition(topic, writer, key, partition, size)
        lane = writer.lanes[number]
        waiting = len(lane.queue)
        batch = self._accumulator.open_batch(lane, size, self._clock.monotonic_ms())
        place = batch.append(key, value, given, timestamp_ms, size)
        if place == 0:
            self._sender.wake()  # type: ignore[union-attr]  # there is one where there is a writer
            if waiting:
                await _let_others_run()  # a batch before this one is full
        return RecordFuture(batch, place)

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
        writer = await self._writer(topic)
        column = as_column(values, "value", self._serialize_value)
        key_column = None if keys is None else as_column(keys, "key", self._serialize_key)
        if key_column is not None and len(key_column) != len(column):
            raise ValueError(f"{len(key_column)} keys for {len(column)} values; give each record its key, or none")
        at_ms = self._clock.now_ms() if timestamp_ms is None else timestamp_ms
        futures = RecordFutures()
        if key_column is not None and partition is None:
            for value, key in zip(column, key_column, strict=True):
                future = await self.send(topic, value, key=key, timestamp_ms=at_ms)
                futures.add(future._batch, future._place, 1)
            return futures
        await self._send_column(topic, writer, column, key_column, partition, at_ms, futures)
        return futures

    async def _send_column(
        self,
        topic: str,
        writer: TopicWriter,
        values: Sequence[bytes | None],
        keys: Sequence[bytes | None] | None,
        partition: int | None,
        at_ms: int,
        futures: RecordFutures,
    ) -> None:
        """Batch by batch: as many records as fit go into a partition at once."""
        accumulator = self._accumulator
        ends = _ends(values, keys)
        count = len(values)
        first = begun = 0
        while first < count:
            if ends[first] - begun > self._size_max:
                raise self._too_large(ends[first] - begun)
            end = max(bisect_right(ends, begun + accumulator.batch_size, first), first + 1)
            size = ends[end - 1] - begun
            if not self._room.take(size):
                await self._wait_for_room(size)
            if writer.version is not self._cluster.metadata.topics.get(topic):
                writer = await self._writer(topic)
            lane = writer.lanes[self._partition(topic, writer, None, partition, size)]
            batch = accumulator.open_batch(lane, size, self._clock.monotonic_ms())
            chunk = None if keys is None else keys[first:end]
            futures.add(batch, batch.extend(chunk, values[first:end], at_ms, size), end - first)
            self._sender.wake()  # type: ignore[union-attr]  # there is one where there is a writer
            first, begun = end, ends[end - 1]
            if first < count:
                batch.is_closed = True
                await _let_others_run()

    async def flush(self, timeout_ms: float | None = None) -> None:
        """Waits until everything that was sent has its outcome. KafkaTimeoutError where that takes longer."""
        self._running()
        await self._flush(timeout_ms)

    async def _flush(self, timeout_ms: float | None) -> None:
        batches = self._accumulator.unresolved
        self._accumulator.is_hurried = True
        self._running_sender().wake()
        try:
            async with asyncio.timeout(None if timeout_ms is None else timeout_ms / 1000):
                for batch in batches:
                    if batch.outcome is None:
                        await _ending(batch)
        except TimeoutError:
            raise KafkaTimeoutError(f"flush: not all was written within {timeout_ms:.0f} ms") from None
        finally:
            self._accumulator.is_hurried = self._room.is_waited_for

    async def partitions_for(self, topic: str) -> list[PartitionMetadata]:
        """The partitions of a topic, with their leaders."""
        await self._writer(topic)
        return list(self._cluster.metadata.topics[topic].partitions.values())

    # Helpers

    def _running(self) -> None:
        if self._is_closed:
            raise ClientClosedError("this producer is closed; make a new one")
        if self._sender is None:
            raise ClientClosedError("this producer is not started; use `async with`, or await start()")

    def _running_sender(self) -> Sender:
        assert self._sender is not None
        return self._sender

    async def _writer(self, topic: str) -> TopicWriter:
        """With metadata of the topic that is current, asked for where there is none."""
        self._running()
        known = self._cluster.topic(topic)
        if known is None:
            found = await self._cluster.topics(
                [topic], timeout_ms=self._config.max_block_ms, allow_auto_topic_creation=True
            )
            known = found[topic]
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

    def _partition(self, topic: str, writer: TopicWriter, key: bytes | None, given: int | None, size: int) -> int:
        count = len(writer.lanes)
        if given is not None:
            number = given
        elif self._partitioner is not None:
            number = self._partitioner(key, count)
        elif key is not None:
            return partition_of_key(key, count)
        else:
            return writer.sticky.choose(size, writer.available)
        if number.__class__ is not int or not 0 <= number < count:
            raise error_of(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"partition {number!r} is none of the {count} of topic {topic}"
            )
        return number

    async def _wait_for_room(self, size: int) -> None:
        granted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        ticket = self._room.wait(size, lambda: None if granted.done() else granted.set_result(None))
        self._accumulator.is_hurried = True
        self._running_sender().wake()
        try:
            async with asyncio.timeout(self._config.max_block_ms / 1000):
                await granted
        except BaseException as error:
            if granted.done() and not granted.cancelled():
                self._room.give_back(size)
            else:
                self._room.leave(ticket)
            if not isinstance(error, TimeoutError):
                raise
            raise BufferExhaustedError(
                f"no room for a record within {self._config.max_block_ms} ms (max_block_ms): the brokers take records "
                "more slowly than they come; send fewer, or raise buffer_memory"
            ) from None
        finally:
            self._accumulator.is_hurried = self._room.is_waited_for
        if self._is_closed:
            self._room.give_back(size)
            raise ClientClosedError("the producer was closed before this record could be taken")

    def _too_large(self, size: int) -> RecordTooLargeError:
        return RecordTooLargeError(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"a record of about {size} bytes is more than max_request_size={self._config.max_request_size} "
            f"or buffer_memory={self._config.buffer_memory} allow; raise them, and max.message.bytes of the topic",
        )

    def _resolved(self, batch: Batch) -> None:
        self._room.give_back(batch.size_bytes)


def _level(config: ProducerConfig, codec: Codec) -> int | None:
    levels = {
        Codec.GZIP: None if config.compression_gzip_level == -1 else config.compression_gzip_level,
        Codec.LZ4: config.compression_lz4_level,
        Codec.ZSTD: config.compression_zstd_level,
    }
    return levels.get(codec)


def _log_failure(batch: Batch, error: KafkaError) -> None:
    logger.error("%d records of %s are not written: %s", len(batch.timestamps_ms), batch.topic_partition, error)


def as_bytes(data: Any, what: str) -> bytes:
    if isinstance(data, bytes | bytearray | memoryview):
        return bytes(data)
    hint = f"; write {what}.encode(), or set {what}_serializer" if isinstance(data, str) else ""
    raise TypeError(f"{what} must be bytes or None, not {type(data).__name__}{hint}")


def as_headers(headers: Headers) -> tuple[list[Header], int]:
    """As pairs, and how many bytes they take."""
    pairs = list(headers.items() if isinstance(headers, Mapping) else headers)
    size = 0
    for pair in pairs:
        if len(pair) != 2:
            raise TypeError(f"a header must be a pair of a name and bytes, not {pair!r}")
        name, value = pair
        for part, types, words in ((name, str, "its name text"), (value, bytes | None, "its value bytes or None")):
            if not isinstance(part, types):
                raise TypeError(f"header {name!r}: {part!r} of type {type(part).__name__} is not allowed; {words}")
        size += 4 + len(name.encode("utf-8", "surrogateescape")) + len(value or b"")
    return pairs, size


def as_column(given: Iterable[Any], what: str, serialize: Serializer | None) -> list[bytes | None]:
    column = [serialize(each) for each in given] if serialize is not None else list(given)
    if set(map(type, column)) - {bytes, type(None)}:
        return [None if each is None else as_bytes(each, what) for each in column]
    return column


def _ends(values: Sequence[bytes | None], keys: Sequence[bytes | None] | None) -> Sequence[int]:
    """By record: how many bytes it and all before it take."""
    sizes: list[int] | None = None
    if None not in values:
        lengths = list(map(len, values))  # type: ignore[arg-type]
        if keys is None:
            if lengths and lengths.count(lengths[0]) == len(lengths):
                step = RECORD_OVERHEAD_BYTES + lengths[0]
                return range(step, step * (len(lengths) + 1), step)
            sizes = [RECORD_OVERHEAD_BYTES + length for length in lengths]
    if sizes is None:
        sizes = [
            RECORD_OVERHEAD_BYTES + len(value or b"") + len((keys[place] if keys is not None else None) or b"")
            for place, value in enumerate(values)
        ]
    return list(accumulate(sizes))

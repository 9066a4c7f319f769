"""Transactions of a producer: who it is, which partitions take part, and how it ends.

Where the cluster has transaction version 2, partitions join by being written to, and each end brings the next epoch
(KIP-890); else the coordinator is told of each partition and group before anything is written there.
Always holds: after a failure of any record nothing can be committed, only aborted; after another producer took over
nothing can be done at all. Every wait, for records and for the coordinator, ends within max_block_ms, and a call that
ended by that may be made again. One call is under way at a time. A record is written in the transaction in which it was
sent, or not at all.
Does not know: records, batches, sequences (the accumulator's).
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from enum import Enum
from typing import Any, Final, NamedTuple

from barnabas.client.cluster import GROUP, TRANSACTION, TRANSACTION_VERSION, Cluster
from barnabas.client.errors import (
    IllegalStateError,
    InvalidTransactionStateError,
    KafkaError,
    ProducerFencedError,
    TransactionAbortableError,
    error_of,
)
from barnabas.client.offset_input import as_offsets
from barnabas.client.offsets import ConsumerGroupMetadata, OffsetAndMetadata
from barnabas.client.producing.accumulator import NOBODY, Accumulator, Identity
from barnabas.client.producing.sender import Sender
from barnabas.client.settings import ProducerConfig
from barnabas.errors import ErrorCode
from barnabas.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from barnabas.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from barnabas.protocol.messages.end_txn import EndTxnRequest
from barnabas.protocol.messages.init_producer_id import InitProducerIdRequest
from barnabas.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from barnabas.types import NO_PRODUCER_ID, ProducerId, TopicPartition

logger = logging.getLogger(__name__)

# From these versions on a request is one of transaction version 2.
PRODUCE_V2: Final = 12
END_TXN_V2: Final = 5
OFFSET_COMMIT_V2: Final = 5
ADD_PARTITIONS_OF_CLIENTS_MAX: Final = 3  # the versions above are for brokers among themselves
EPOCH_BUMP_FROM: Final = 3  # of InitProducerId: a producer may ask for the next epoch of the id it has

_FATAL: Final = frozenset(
    {
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ErrorCode.UNSUPPORTED_VERSION,
    }
)
# A coordinator that is asked to end says so only to a producer that is not the last one of its name.
_FENCED_AT_THE_END: Final = frozenset({ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.PRODUCER_FENCED})
_ABORTABLE_OFFSETS: Final = frozenset(
    {
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.TRANSACTION_ABORTABLE,
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.STALE_MEMBER_EPOCH,
    }
)


class OpenTransaction(NamedTuple):
    """What anybody needs to end a transaction: a producer may hand it on, even to another process."""

    transactional_id: str
    producer_id: ProducerId
    producer_epoch: int


class State(Enum):
    UNINITIALIZED = "it was not initialised; await init_transactions() first"
    READY = "it is initialised, and no transaction is open; begin one first"
    OPEN = "a transaction is open"
    COMMITTING = "a transaction is being committed; finish that first"
    ABORTING = "a transaction is being aborted; finish that first"
    FAILED = "the transaction failed; abort it"
    DETACHED = "its transaction was handed on; close it"
    FENCED = "it cannot be used any more; close it"


async def end_transaction(
    cluster: Cluster, transaction: OpenTransaction, *, committed: bool, timeout_ms: float | None = None
) -> Identity:
    """Commits or aborts a transaction, also one that another process began and handed on.

    Doing it again is harmless. InvalidTransactionStateError where it was ended otherwise, for instance by its timeout;
    ProducerFencedError where another producer has taken over its id. Returns under which identity its producer goes on.
    """
    transactional_id, producer_id, epoch = transaction
    is_v2 = cluster.features.get(TRANSACTION_VERSION, 0) >= 2
    request = EndTxnRequest(
        transactional_id=transactional_id, producer_id=producer_id, producer_epoch=epoch, committed=committed
    )

    async def attempt() -> Identity:
        node_id = await cluster.coordinator(TRANSACTION, transactional_id)
        response = await cluster.request(node_id, request, version_max=None if is_v2 else END_TXN_V2 - 1)
        if response.error_code in _FENCED_AT_THE_END:
            raise error_of(ErrorCode.PRODUCER_FENCED, about=f"transactional id {transactional_id}")
        if response.error_code != ErrorCode.NONE:
            raise error_of(response.error_code, about=f"transactional id {transactional_id}")
        if response.producer_id == NO_PRODUCER_ID:
            return Identity(producer_id, epoch)
        return Identity(response.producer_id, response.producer_epoch)

    word = "committing" if committed else "aborting"
    return await cluster.retry(
        attempt,
        what=f"{word} the transaction of {transactional_id}",
        timeout_ms=timeout_ms,
        coordinator=(TRANSACTION, transactional_id),
    )


class Transactions:
    """Of one producer."""

    def __init__(self, cluster: Cluster, accumulator: Accumulator, sender: Sender, config: ProducerConfig) -> None:
        assert config.transactional_id is not None
        self.id: str = config.transactional_id
        self.state = State.UNINITIALIZED
        self.error: KafkaError | None = None  # why it is FAILED or FENCED
        self._cluster = cluster
        self._accumulator = accumulator
        self._sender = sender
        self._config = config
        self._is_v2 = False  # of the transaction that is open
        self._has_joined = False  # whether a partition or a group takes part, as far as the coordinator may know
        self._groups: dict[str, None] = {}  # that the coordinator was told of
        self._admitting: asyncio.Task[None] | None = None
        self._number = 0  # of the transaction that is open, or was last
        self._has_ended = False  # the coordinator has said so, and only the next identity is missing
        self._under_way = ""  # what nothing else may come between
        self._offsets_under_way = 0
        sender.on_waiting = self._admit_waiting

    # What may be done

    def check_sending(self, number: int | None = None) -> int:
        """The number of the transaction, by which a record that had to wait finds out whether it still is the same."""
        if self.state is not State.OPEN:
            self._refuse("send")
        if number is not None and number != self._number:
            raise IllegalStateError("cannot send: the transaction ended before there was room for this record")
        return self._number

    @contextmanager
    def _alone(self, what: str, *states: State) -> Iterator[None]:
        """Of what ends a transaction there is one at a time: two would end two transactions."""
        if self._under_way or self._offsets_under_way:
            other = self._under_way or "send offsets"
            raise IllegalStateError(f"cannot {what}: another task is about to {other}; wait for it first")
        self._expect(what, *states)
        self._under_way = what
        try:
            yield
        finally:
            self._under_way = ""

    def _refuse(self, what: str) -> None:
        if self.state is State.FENCED and self.error is not None:
            raise self.error
        if self.state is State.FAILED and self.error is not None:
            words = f"cannot {what}: a record of this transaction failed; abort it, then begin another: {self.error}"
            raise TransactionAbortableError(ErrorCode.TRANSACTION_ABORTABLE, words) from self.error
        raise IllegalStateError(f"cannot {what}: {self.state.value}")

    def _expect(self, what: str, *states: State) -> None:
        if self.state not in states:
            self._refuse(what)

    def failed(self, error: KafkaError) -> None:
        """Something of the transaction cannot be done: told of each batch that failed."""
        if error.code in _FATAL:
            self.state, self.error = State.FENCED, error
        elif self.state in (State.OPEN, State.COMMITTING):
            self.state, self.error = State.FAILED, error

    # Beginning

    async def initialise(self) -> None:
        """Takes the id over from whoever had it, and ends what that left open."""
        with self._alone("initialise transactions", State.UNINITIALIZED):
            await self._new_identity(NOBODY)
            self.state = State.READY

    def resume(self, transaction: OpenTransaction) -> None:
        """Goes on with one that another process opened and has not written to."""
        self._expect("resume a transaction", State.UNINITIALIZED)
        assert transaction.transactional_id == self.id
        self._accumulator.identity = Identity(transaction.producer_id, transaction.producer_epoch)
        self.state = State.READY
        self.begin()

    async def _new_identity(self, known: Identity) -> None:
        request = InitProducerIdRequest(
            transactional_id=self.id,
            transaction_timeout_ms=self._config.transaction_timeout_ms,
            producer_id=known.producer_id,
            producer_epoch=known.epoch,
        )
        version_min = 0 if known == NOBODY else EPOCH_BUMP_FROM
        response = await self._ask(request, "initialising", version_min=version_min)
        self._accumulator.identity = Identity(response.producer_id, response.producer_epoch)

    def begin(self) -> None:
        self._expect("begin a transaction", State.READY)
        self.state = State.OPEN
        self.error = None
        self._number += 1
        self._has_ended = False
        self._is_v2 = self._cluster.features.get(TRANSACTION_VERSION, 0) >= 2
        self._has_joined = False
        self._groups.clear()
        self._sender.version_max = None if self._is_v2 else PRODUCE_V2 - 1
        self._sender.has_sent = False
        self._accumulator.admit_all(self._is_v2)

    @property
    def running(self) -> OpenTransaction:
        """The one that is open, for who wants to end it elsewhere."""
        self._expect("name the transaction", State.OPEN, State.DETACHED)
        return OpenTransaction(self.id, *self._accumulator.identity)

    # Who takes part

    def _admit_waiting(self) -> None:
        """Before version 2: partitions that something waits for are told to the coordinator, all in one request."""
        if self._admitting is None and self.state in (State.OPEN, State.COMMITTING):
            self._admitting = asyncio.ensure_future(self._admit())

    async def _admit(self) -> None:
        try:
            while waiting := [lane for lane in self._accumulator.busy_lanes() if not lane.is_admitted]:
                if self.state not in (State.OPEN, State.COMMITTING):
                    return
                topics: dict[str, AddPartitionsToTxnTopic] = {}
                for lane in waiting:
                    topic = topics.setdefault(lane.topic, AddPartitionsToTxnTopic(name=lane.topic))
                    topic.partitions.append(lane.partition)
                self._has_joined = True
                producer_id, epoch = self._accumulator.identity
                request = AddPartitionsToTxnRequest(
                    v3_and_below_transactional_id=self.id,
                    v3_and_below_producer_id=producer_id,
                    v3_and_below_producer_epoch=epoch,
                    v3_and_below_topics=list(topics.values()),
                )
                await self._ask(request, "adding partitions", version_max=ADD_PARTITIONS_OF_CLIENTS_MAX)
                for lane in waiting:
                    lane.is_admitted = True
                self._sender.wake()
        except KafkaError as error:
            self.failed(error)
            self._accumulator.abandon_waiting(error)
        except Exception as error:  # a bug: without this, what waits would do so until its time is up, and not say why
            logger.exception("partitions cannot be added to the transaction of %s", self.id)
            wrapped = KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"partitions cannot be added: {error!r}")
            self.failed(wrapped)
            self._accumulator.abandon_waiting(wrapped)
        finally:
            self._admitting = None

    async def send_offsets(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata | int], group: ConsumerGroupMetadata | str
    ) -> None:
        """Commits a group's offsets together with the records of this transaction, or neither."""
        self._expect("send offsets", State.OPEN)
        if not offsets:
            return
        wanted = as_offsets(offsets)
        metadata = ConsumerGroupMetadata(group) if isinstance(group, str) else group
        if not isinstance(metadata, ConsumerGroupMetadata):
            raise TypeError(f"group must be group_metadata() of the consumer or a name, not {type(group).__name__}")
        if self._under_way:
            raise IllegalStateError(f"cannot send offsets: another task is about to {self._under_way}")
        self._offsets_under_way += 1
        try:
            if not self._is_v2 and metadata.group_id not in self._groups:
                producer_id, epoch = self._accumulator.identity
                request = AddOffsetsToTxnRequest(
                    transactional_id=self.id, producer_id=producer_id, producer_epoch=epoch, group_id=metadata.group_id
                )
                self._has_joined = True
                await self._ask(request, "adding a group")
                self._groups[metadata.group_id] = None
            self._has_joined = True
            await self._commit_offsets(wanted, metadata)
        except KafkaError as error:
            if error.code in _FATAL or error.code in _ABORTABLE_OFFSETS or not error.retriable:
                self.failed(error)
            raise
        finally:
            self._offsets_under_way -= 1

    async def _commit_offsets(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], group: ConsumerGroupMetadata
    ) -> None:
        topics: dict[str, TxnOffsetCommitRequestTopic] = {}
        for (name, partition), committed in offsets.items():
            topics.setdefault(name, TxnOffsetCommitRequestTopic(name=name)).partitions.append(
                TxnOffsetCommitRequestPartition(
                    partition_index=partition,
                    committed_offset=committed.offset,
                    committed_leader_epoch=committed.leader_epoch,
                    committed_metadata=committed.metadata,
                )
            )
        producer_id, epoch = self._accumulator.identity
        request = TxnOffsetCommitRequest(
            transactional_id=self.id,
            group_id=group.group_id,
            producer_id=producer_id,
            producer_epoch=epoch,
            generation_id=group.generation_id,
            member_id=group.member_id,
            group_instance_id=group.group_instance_id,
            topics=list(topics.values()),
        )

        def check(response: Any) -> None:
            for topic in response.topics:
                for each in topic.partitions:
                    if each.error_code != ErrorCode.NONE:
                        raise error_of(each.error_code, about=f"offset of {topic.name}-{each.partition_index}")

        await self._ask(
            request,
            "committing offsets",
            coordinator=(GROUP, group.group_id),
            version_max=None if self._is_v2 else OFFSET_COMMIT_V2 - 1,
            check=check,
        )

    # Its end

    async def commit(self, flush: Callable[[], Awaitable[None]]) -> None:
        with self._alone("commit", State.OPEN, State.COMMITTING):
            if self.state is State.OPEN:
                await self._write_all("commit", flush)
            await self._end(committed=True)

    async def _write_all(self, what: str, flush: Callable[[], Awaitable[None]]) -> None:
        """Nothing more is sent from here on. It is open again where not all was written, unless something failed."""
        self.state = State.COMMITTING
        try:
            await flush()
        except BaseException:
            if self.state is State.COMMITTING:
                self.state = State.OPEN
            raise
        self._expect(what, State.COMMITTING)  # nothing has failed

    async def abort(self, flush: Callable[[], Awaitable[None]]) -> None:
        with self._alone("abort", State.OPEN, State.FAILED, State.ABORTING):
            self.state = State.ABORTING
            words = TransactionAbortableError(ErrorCode.TRANSACTION_ABORTABLE, "the transaction was aborted")
            self._accumulator.end_all(words)
            await flush()  # what is out must have come back, or it might be written after the end
            await self._end(committed=False)

    async def settle(self, flush: Callable[[], Awaitable[None]]) -> None:
        """Ends, as it was meant to end, the transaction whose end did not come in time."""
        if self.state is State.COMMITTING:
            try:
                await self.commit(flush)
            except (InvalidTransactionStateError, TransactionAbortableError) as error:
                logger.warning("the transaction of %s was not committed: %s", self.id, error)
                await self.abort(flush)
        elif self.state is State.ABORTING:
            await self.abort(flush)

    async def _end(self, *, committed: bool) -> None:
        if self._admitting is not None:  # a partition let in after the end would begin a transaction that nobody ends
            await asyncio.wait([self._admitting])
        before = self._accumulator.identity
        try:
            if not self._has_ended and (self._has_joined or self._sender.has_sent):
                self._accumulator.identity = await end_transaction(
                    self._cluster,
                    OpenTransaction(self.id, *before),
                    committed=committed,
                    timeout_ms=self._config.max_block_ms,
                )
            self._has_ended = True  # to end it again under the epoch that comes now would be refused
            if self._accumulator.identity == before and self._accumulator.is_doubtful:
                await self._new_identity(before)
        except KafkaError as error:
            if isinstance(error, ProducerFencedError) or error.code in _FATAL:
                self.state, self.error = State.FENCED, error
            elif isinstance(error, InvalidTransactionStateError | TransactionAbortableError) and committed:
                self.state, self.error = State.FAILED, error
            raise
        self._accumulator.mend_all()
        self._accumulator.admit_all(False)
        self.state = State.READY

    async def detach(self, flush: Callable[[], Awaitable[None]]) -> OpenTransaction:
        """Writes what was sent, and leaves the transaction open for whoever ends it."""
        with self._alone("hand on the transaction", State.OPEN):
            await self._write_all("hand on the transaction", flush)
            self.state = State.DETACHED
            return self.running

    async def close(self) -> None:
        if self._admitting is not None:
            self._admitting.cancel()
            await asyncio.gather(self._admitting, return_exceptions=True)

    # Asking

    async def _ask(
        self,
        request: Any,
        what: str,
        *,
        version_min: int = 0,
        version_max: int | None = None,
        coordinator: tuple[int, str] | None = None,
        check: Callable[[Any], None] | None = None,
    ) -> Any:
        kind, key = coordinator or (TRANSACTION, self.id)

        async def attempt() -> Any:
            node_id = await self._cluster.coordinator(kind, key)
            response = await self._cluster.request(node_id, request, version_min=version_min, version_max=version_max)
            (check or self._check)(response)
            return response

        return await self._cluster.retry(
            attempt,
            what=f"{what} for the transactions of {self.id}",
            timeout_ms=self._config.max_block_ms,
            coordinator=(kind, key),
        )

    def _check(self, response: Any) -> None:
        codes = [getattr(response, "error_code", ErrorCode.NONE)]
        for topic in getattr(response, "results_by_topic_v3_and_below", ()):
            codes += [each.partition_error_code for each in topic.results_by_partition]
        # Of several errors the one that says most: others only say that their partition was not tried.
        wrong = [code for code in codes if code not in (ErrorCode.NONE, ErrorCode.OPERATION_NOT_ATTEMPTED)]
        if wrong:
            raise error_of(wrong[0], about=f"transactional id {self.id}")

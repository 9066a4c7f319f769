"""All transactional ids of one partition of `__transaction_state`.

    outcome = shard.end(request, client_version, pending, now)   decides
    append outcome.records; shard.apply(record, offset) each      changes
    once that is committed: give outcome.answers, and send the markers among outcome.effects
    shard.complete(markers, now)                                  when all of them are written

Always holds: between a decision and its `apply` there is no other decision. Replay is `apply` of the whole log, then
`loaded`, which sends the markers of what was ending. A transaction has as many markers on their way as it is prepared,
so nothing else is decided about it until they are written.
Does not know: the log, whether it is committed, where partitions are, who listens.
"""

from collections.abc import Callable, Sequence
from functools import partial

from barnabas.coordination.outcome import NOTHING, Answer, Moment, Outcome, Pending, Producer, answer
from barnabas.coordination.records import CoordinatorRecord
from barnabas.errors import ErrorCode
from barnabas.protocol.message import Structure
from barnabas.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from barnabas.protocol.messages.init_producer_id import InitProducerIdRequest
from barnabas.transactions import initialization
from barnabas.transactions.markers import Markers, markers_of
from barnabas.transactions.settings import TransactionSettings
from barnabas.transactions.state import AT_REST, END, END_OLD, PREPARED, End, TransactionState
from barnabas.transactions.transaction import (
    EPOCH_BUMP_VERSION,
    PRODUCER_EPOCH_MAX,
    Transaction,
    from_record,
    tombstone,
)
from barnabas.types import NO_PRODUCER_ID, Offset, ProducerId, TopicPartition

# Each costs a kilobyte or two. Kafka has no such limit; a client that invents ids would fill the memory.
IDS_MAX = 500_000
SLICE_IDS = 500  # of a round that looks for ids that were idle for long: about a millisecond of work

Verified = dict[TopicPartition, ErrorCode]


class IdCount:
    """How many transactional ids one broker has, over all its shards."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = 0


class Surroundings:
    """What the shards of one broker share."""

    __slots__ = ("count", "settings", "take_producer_id", "transaction_version")

    def __init__(
        self,
        *,
        settings: TransactionSettings,
        take_producer_id: Callable[[], ProducerId | None],
        transaction_version: int = EPOCH_BUMP_VERSION,
        count: IdCount | None = None,
    ) -> None:
        self.settings = settings  # replaced as a whole
        self.take_producer_id = take_producer_id  # a new one each time; None where the next block is on its way
        self.transaction_version = transaction_version  # of the cluster
        self.count = IdCount() if count is None else count

    @property
    def has_room(self) -> bool:
        return self.count.value < IDS_MAX


class TransactionShard:
    def __init__(self, surroundings: Surroundings) -> None:
        self.surroundings = surroundings
        self.transactions: dict[str, Transaction] = {}  # by transactional id
        self._ongoing: dict[str, None] = {}  # those that may time out, in the order of their beginning
        self._abort_due_ms: int | None = None  # on the monotonic clock; None until it is loaded
        self._late: list[str] = []  # those that this look has found beyond their timeout
        self._expiry_due_ms = 0
        self._expiring: list[str] = []  # ids that this round has yet to look at, the next one last

    # Requests

    def init_producer_id(self, request: InitProducerIdRequest, pending: Pending, now: Moment) -> Outcome:
        return initialization.decide(self, request, pending, now)

    def add_partitions(
        self,
        transactional_id: str,
        producer: Producer,
        partitions: Sequence[TopicPartition],
        client_version: int,
        pending: Pending,
        now: Moment,
    ) -> Outcome:
        """Answered with an error, or with NONE once they belong to the transaction."""
        known = self._find(transactional_id, producer)
        if isinstance(known, ErrorCode):
            return answer(pending, known)
        if known.state in PREPARED:
            return answer(pending, ErrorCode.CONCURRENT_TRANSACTIONS)
        if known.state is TransactionState.ONGOING and all(each in known.partitions for each in partitions):
            return answer(pending, ErrorCode.NONE)
        added = known.added(partitions, client_version=self._version(client_version), now_ms=now.wall_ms)
        return self.step(added, pending, ErrorCode.NONE)

    def verify_partitions(
        self, transactional_id: str, producer: Producer, partitions: Sequence[TopicPartition]
    ) -> Verified:
        """For each whether it belongs to the producer's transaction. Decides nothing."""
        known = self._find(transactional_id, producer)
        if isinstance(known, ErrorCode):
            return dict.fromkeys(partitions, known)
        if known.state in PREPARED:
            return dict.fromkeys(partitions, ErrorCode.CONCURRENT_TRANSACTIONS)
        return {
            each: ErrorCode.NONE if each in known.partitions else ErrorCode.TRANSACTION_ABORTABLE for each in partitions
        }

    def _find(self, transactional_id: str, producer: Producer) -> Transaction | ErrorCode:
        if not transactional_id:
            return ErrorCode.INVALID_REQUEST
        known = self.transactions.get(transactional_id)
        if known is None or known.producer_id != producer.id:
            return ErrorCode.INVALID_PRODUCER_ID_MAPPING
        return known if known.producer_epoch == producer.epoch else ErrorCode.PRODUCER_FENCED

    def end(self, request: EndTxnRequest, client_version: int, pending: Pending, now: Moment) -> Outcome:
        if not request.transactional_id:
            return answer(pending, ErrorCode.INVALID_REQUEST)
        known = self.transactions.get(request.transactional_id)
        if known is None:
            return answer(pending, ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        client_version = self._version(client_version)
        verdict = _judge(known, request, client_version)
        if isinstance(verdict, ErrorCode):
            return answer(pending, verdict)
        if verdict is End.REPEATED:
            return answer(pending, _ended(known))
        next_producer_id = NO_PRODUCER_ID
        if client_version >= EPOCH_BUMP_VERSION and known.is_exhausted:
            taken = self.surroundings.take_producer_id()
            if taken is None:
                return answer(pending, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
            next_producer_id = taken
        prepared = known.prepared(
            committed=request.committed,
            client_version=client_version,
            next_producer_id=next_producer_id,
            now_ms=now.wall_ms,
        )
        return self.step(prepared, pending, _ended(prepared))

    def _version(self, client_version: int) -> int:
        """A client may know more than the cluster has agreed upon; the records could not say so."""
        return min(client_version, self.surroundings.transaction_version)

    def step(self, transaction: Transaction, pending: Pending | None, response: Structure | ErrorCode) -> Outcome:
        """The next state of an id: written down, and its markers sent where it has any."""
        markers = markers_of(transaction)
        return Outcome(
            [transaction.record(self.surroundings.transaction_version)],
            () if pending is None else (Answer(pending, response),),
            then=partial(_remember, transaction=transaction),
            effects=() if markers is None else (markers,),
        )

    def complete(self, markers: Markers, now: Moment) -> Outcome:
        """All of these are written."""
        known = self.transactions.get(markers.transactional_id)
        if known is None or not markers.are_of(known):
            return NOTHING
        return self.step(known.completed(now.wall_ms), None, ErrorCode.NONE)

    # Changing

    def apply(self, record: CoordinatorRecord, offset: Offset, producer_id: ProducerId = NO_PRODUCER_ID) -> None:
        """The only way in which anything durable changes."""
        transactional_id, transaction = from_record(record)
        known = self.transactions.pop(transactional_id, None)
        self._ongoing.pop(transactional_id, None)
        self.surroundings.count.value += (transaction is not None) - (known is not None)
        if transaction is None:
            return
        if known is not None and known.producer_epoch == transaction.producer_epoch:
            transaction = transaction._replace(last_producer_epoch=known.last_producer_epoch)
        self.transactions[transactional_id] = transaction
        if transaction.state is TransactionState.ONGOING and not transaction.is_two_phase:
            self._ongoing[transactional_id] = None

    def transaction_ended(self, producer_id: ProducerId, *, committed: bool) -> None:
        """Nobody writes to this topic in a transaction, so no marker changes anything."""

    def remember(self, transaction: Transaction) -> None:
        """What no record holds: for which epoch the present one was given."""
        known = self.transactions[transaction.transactional_id]
        self.transactions[transaction.transactional_id] = known._replace(
            last_producer_epoch=transaction.last_producer_epoch
        )

    def loaded(self, now: Moment) -> Sequence[Outcome]:
        """Everything has been replayed; from now on there are decisions, and what was ending goes on."""
        settings = self.surroundings.settings
        self._abort_due_ms = now.monotonic_ms + settings.abort_interval_ms
        self._expiry_due_ms = now.monotonic_ms + settings.expiry_interval_ms
        ending = [markers for each in self.transactions.values() if (markers := markers_of(each)) is not None]
        return [Outcome(effects=ending)] if ending else []

    def unload(self) -> Sequence[Pending]:
        """Nobody waits here: each request is answered by its own decision."""
        self.surroundings.count.value -= len(self.transactions)
        return ()

    def append_failed(self, outcome: Outcome, error: ErrorCode, now: Moment) -> Outcome:
        """Nothing was applied. What was to be completed is completed at the next look."""
        return NOTHING

    # Time

    def next_deadline_ms(self) -> int | None:
        if self._abort_due_ms is None:
            return None
        return min(self._abort_due_ms, self._expiry_due_ms)

    def tick(self, now: Moment) -> Outcome | None:
        """What is due: an abort of what ran out of time, or the forgetting of idle ids; None where nothing is."""
        assert self._abort_due_ms is not None
        if self._abort_due_ms <= now.monotonic_ms:
            return self._abort_timed_out(now)
        if self._expiry_due_ms <= now.monotonic_ms:
            return self._expire(now)
        return None

    def _abort_timed_out(self, now: Moment) -> Outcome:
        """One at a time: its markers must follow its record."""
        if not self._late:
            self._late = [each for each in self._ongoing if self._is_late(each, now)]
        late = self._late.pop() if self._late else None
        if not self._late:
            self._abort_due_ms = now.monotonic_ms + self.surroundings.settings.abort_interval_ms
        if late is None or not self._is_late(late, now):
            return NOTHING
        fenced = self.transactions[late].fenced(
            server_version=self.surroundings.transaction_version, now_ms=now.wall_ms
        )
        return self.step(fenced, None, ErrorCode.NONE)

    def _is_late(self, transactional_id: str, now: Moment) -> bool:
        if transactional_id not in self._ongoing:
            return False
        known = self.transactions[transactional_id]
        return now.wall_ms - known.start_timestamp_ms > known.timeout_ms

    def _expire(self, now: Moment) -> Outcome:
        """A slice of the ids at a time, so that a shard of many thousands does not stop the broker."""
        if not self._expiring:
            self._expiring = list(reversed(self.transactions))
        settings = self.surroundings.settings
        records = []
        for _ in range(min(SLICE_IDS, len(self._expiring))):
            known = self.transactions.get(self._expiring.pop())
            if known is not None and known.state in AT_REST:
                idle_ms = now.wall_ms - known.last_update_timestamp_ms
                if idle_ms >= settings.id_expiration_ms:
                    records.append(tombstone(known.transactional_id))
        if not self._expiring:
            self._expiry_due_ms = now.monotonic_ms + settings.expiry_interval_ms
        return Outcome(records, atomic=False)


def _remember(shard: TransactionShard, _now: Moment, *, transaction: Transaction) -> Outcome:
    shard.remember(transaction)
    return NOTHING


def _judge(known: Transaction, request: EndTxnRequest, client_version: int) -> End | ErrorCode:
    epoch = request.producer_epoch
    if client_version < EPOCH_BUMP_VERSION:
        if request.producer_id != known.producer_id:
            return ErrorCode.INVALID_PRODUCER_ID_MAPPING
        if epoch != known.producer_epoch:
            return ErrorCode.PRODUCER_FENCED
        return END_OLD[known.state, request.committed]
    overflowed = (
        request.producer_id == known.previous_producer_id != known.producer_id
        and epoch == PRODUCER_EPOCH_MAX - 1
        and known.producer_epoch == 0
    )
    if request.producer_id != known.producer_id and not overflowed:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    if not overflowed and epoch not in (known.producer_epoch, known.producer_epoch - 1):
        return ErrorCode.PRODUCER_FENCED
    is_repeated = overflowed or epoch == known.producer_epoch - 1
    return END.get((known.state, request.committed, is_repeated), ErrorCode.PRODUCER_FENCED)


def _ended(transaction: Transaction) -> EndTxnResponse:
    """From the client's version 5 on, with the id and the epoch of its next transaction."""
    if transaction.next_producer_id != NO_PRODUCER_ID:
        return EndTxnResponse(producer_id=transaction.next_producer_id, producer_epoch=0)
    return EndTxnResponse(producer_id=transaction.producer_id, producer_epoch=transaction.producer_epoch)

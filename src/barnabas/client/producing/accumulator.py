"""Records that wait to be sent, in batches by partition, and batches that are out: what may go, and what comes of it.

Always holds: the batches of a partition are sent in the order of their records, and with sequences sent again in that
order too; every batch has one outcome, within its time. Where one that was sent was given up nobody knows whether it
was written, but the broker does: it takes the next sequence, or finds a gap, and then has none of those behind it
either, so that the partition can begin anew with the next epoch of the producer and nothing is written twice.
Does not know: brokers, connections, who leads, the clock (it is told the time).
"""

from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from barnabas.client.errors import KafkaError, KafkaTimeoutError
from barnabas.client.producing.batch_encoder import encode_columns, stamp
from barnabas.errors import ErrorCode
from barnabas.protocol.compression import Codec
from barnabas.protocol.record_batch import INT32_MAX, Header
from barnabas.types import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE, ProducerId, TopicPartition

RECORD_OVERHEAD_BYTES: Final = 12  # about what a record takes beside key, value and headers
PRODUCER_EPOCH_MAX: Final = 32_767
NEVER: Final = float("inf")
# The broker remembers as many batches of a producer: more out at a time could not be told from gaps.
IDEMPOTENT_IN_FLIGHT_MAX: Final = 5

# After these the sequences that the broker knows are not those of this producer: it must begin anew.
_SEQUENCES_LOST: Final = frozenset(
    {ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.UNKNOWN_PRODUCER_ID, ErrorCode.INVALID_PRODUCER_EPOCH}
)

_TOO_LARGE: Final = frozenset({ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE})  # for topic, or segment


class Identity(NamedTuple):
    """Under which id and epoch a producer writes."""

    producer_id: ProducerId
    epoch: int


NOBODY: Final = Identity(NO_PRODUCER_ID, NO_PRODUCER_EPOCH)


class Written(NamedTuple):
    """Where the batch is, as the broker says. An offset of -1 is one that it did not say."""

    base_offset: int
    log_append_time_ms: int = -1


Outcome = Written | KafkaError


class Batch:
    """Records of one partition that are sent together."""

    __slots__ = (
        "attempts",
        "base_sequence",
        "created_ms",
        "encoded",
        "headers",
        "identity",
        "is_closed",
        "keys",
        "order",
        "ordinal",
        "outcome",
        "partition",
        "parts",
        "retry_ms",
        "sealed_count",
        "size_bytes",
        "timestamps_ms",
        "topic",
        "values",
        "waiters",
    )

    def __init__(self, topic: str, partition: int, order: tuple[int, int], created_ms: float) -> None:
        self.topic = topic
        self.partition = partition
        self.order = order  # ascends within the partition; a part of a batch also has the place of its first record
        self.created_ms = created_ms
        self.values: list[bytes | None] = []
        self.keys: list[bytes | None] | None = None  # None while no record has a key
        self.headers: list[Sequence[Header]] | None = None  # likewise
        self.timestamps_ms: list[int] = []
        self.size_bytes = 0  # as counted against the buffer
        self.is_closed = False  # no record is added any more
        self.encoded: bytearray | None = None
        self.sealed_count = 0  # of the records, where these came encoded; then the lists above are empty
        self.identity = NOBODY  # under which it was sent last
        self.base_sequence = NO_SEQUENCE  # until it is sent first
        self.ordinal = 0  # how many batches of the partition had a sequence before it
        self.attempts = 0
        self.retry_ms = 0.0  # not before
        self.outcome: Outcome | None = None
        self.waiters: list[Callable[[Batch], object]] | None = None
        self.parts: list[Batch] | None = None  # in which it was sent, being too large as a whole

    @property
    def record_count(self) -> int:
        return self.sealed_count or len(self.values)

    @property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)

    def append(
        self, key: bytes | None, value: bytes | None, headers: Sequence[Header] | None, timestamp_ms: int, size: int
    ) -> int:
        """The record's place in the batch."""
        values = self.values
        place = len(values)
        values.append(value)
        self.timestamps_ms.append(timestamp_ms)
        if self.keys is not None:
            self.keys.append(key)
        elif key is not None:
            self.keys = [None] * place
            self.keys.append(key)
        if self.headers is not None:
            self.headers.append(headers or ())
        elif headers:
            self.headers = [()] * place
            self.headers.append(headers)
        self.size_bytes += size
        return place

    def extend(self, keys: Sequence[bytes | None] | None, values: Sequence[bytes | None], at_ms: int, size: int) -> int:
        """Many records of one moment; the place of the first."""
        place = len(self.values)
        if keys is not None and self.keys is None:
            self.keys = [None] * place
        if self.keys is not None:
            self.keys += [None] * len(values) if keys is None else keys
        if self.headers is not None:
            self.headers += [()] * len(values)
        self.values += values
        self.timestamps_ms += [at_ms] * len(values)
        self.size_bytes += size
        return place

    def resolve(self, outcome: Outcome) -> None:
        assert self.outcome is None
        self.outcome = outcome
        waiters, self.waiters = self.waiters, None
        for waiter in waiters or ():
            waiter(self)

    def forget(self) -> None:
        """The records: whoever keeps a future of one of them need not keep all."""
        self.encoded = self.keys = self.headers = None
        self.values = []

    def outcome_of(self, place: int) -> Outcome | None:
        """Of the record at this place: where it is, if it was written."""
        for part in reversed(self.parts or ()):
            first = part.order[1] - self.order[1]
            if place >= first:
                return part.outcome_of(place - first)
        if isinstance(self.outcome, Written) and self.outcome.base_offset >= 0:
            return Written(self.outcome.base_offset + place, self.outcome.log_append_time_ms)
        return self.outcome

    def when_done(self, waiter: Callable[["Batch"], object]) -> None:
        if self.outcome is not None:
            waiter(self)
        elif self.waiters is None:
            self.waiters = [waiter]
        else:
            self.waiters.append(waiter)


class Lane:
    """One partition's batches. Those that wait are in order; so are those that are out."""

    __slots__ = (
        "identity",
        "in_flight",
        "is_admitted",
        "is_broken",
        "is_doubtful",
        "known_id",
        "next_ordinal",
        "next_sequence",
        "partition",
        "queue",
        "topic",
    )

    def __init__(self, topic: str, partition: int) -> None:
        self.topic = topic
        self.partition = partition
        self.queue: deque[Batch] = deque()
        self.in_flight: list[Batch] = []
        self.identity = NOBODY  # whose sequences the broker of the partition knows
        self.next_sequence = 0
        self.next_ordinal = 0
        # Under which id something was acknowledged. A broker that has never seen an id takes any sequence of it for the
        # first, so the first batch goes alone: if it were refused, the one behind it would take its place.
        self.known_id = NO_PRODUCER_ID
        self.is_broken = False  # a gap in the sequences: nothing goes until all that is out has come back
        self.is_doubtful = False  # there may be a gap: something that was sent was given up
        self.is_admitted = True  # in a transaction: whether the coordinator knows of this partition

    def put_back(self, batch: Batch) -> None:
        """Before all that came after it."""
        waiting = self.queue
        place = 0
        while place < len(waiting) and waiting[place].order < batch.order:
            place += 1
        waiting.insert(place, batch)

    @property
    def is_idle(self) -> bool:
        return not self.queue and not self.in_flight


class Accumulator:
    def __init__(
        self,
        *,
        batch_size: int,
        linger_ms: float,
        delivery_timeout_ms: float,
        retries: int,
        is_idempotent: bool,
        is_transactional: bool = False,
        codec: Codec = Codec.NONE,
        level: int | None = None,
        pause_ms: Callable[[int], float] = lambda _attempts: 100.0,
    ) -> None:
        self.batch_size = batch_size
        self.linger_ms = linger_ms
        self.delivery_timeout_ms = delivery_timeout_ms
        self.retries = retries
        self.is_idempotent = is_idempotent
        self.is_transactional = is_transactional
        self.identity: Identity = NOBODY  # of this producer now; NOBODY while it must ask for one
        self.end_of_all: KafkaError | None = None  # what becomes of whatever is not written at once
        self.is_hurried = False  # nothing lingers: somebody waits for room, or for the end
        self.on_failure: Callable[[Batch, KafkaError], None] = lambda batch, error: None
        self.on_resolved: Callable[[Batch], None] = lambda batch: None
        self._codec = codec
        self._level = level
        self._pause_ms = pause_ms
        self._lanes: dict[tuple[str, int], Lane] = {}
        self._busy: dict[Lane, None] = {}  # those with something in their queue; whoever sent last is last
        self._unresolved: dict[Batch, None] = {}  # by age
        self._next_number = 0
        self._admits = not is_transactional  # whether partitions that are new may be written to at once

    # Records come

    def lane(self, topic: str, partition: int) -> Lane:
        found = self._lanes.get((topic, partition))
        if found is None:
            found = self._lanes[topic, partition] = Lane(topic, partition)
            found.is_admitted = self._admits
        return found

    def admit_all(self, admitted: bool) -> None:
        """At the beginning of a transaction: whether its coordinator need not be told of a partition first."""
        self._admits = admitted
        for lane in self._lanes.values():
            lane.is_admitted = admitted

    @property
    def is_doubtful(self) -> bool:
        """Whether a partition perhaps cannot go on with the sequences that it has."""
        return any(lane.is_broken or lane.is_doubtful for lane in self._lanes.values())

    def mend_all(self) -> None:
        """After a transaction: what was lost in it no longer matters under another identity."""
        self.end_of_all = None
        for lane in self._lanes.values():
            if lane.identity != self.identity:
                lane.is_broken = lane.is_doubtful = False

    def open_batch(self, lane: Lane, size: int, now_ms: float) -> Batch:
        """The batch that a record of this size goes into: the last one, or a new one where that has no room."""
        queue = lane.queue
        if queue:
            last = queue[-1]
            if not last.is_closed:
                if last.size_bytes + size <= self.batch_size:
                    return last
                last.is_closed = True
        return self._new_batch(lane, now_ms)

    def add_sealed(self, lane: Lane, encoded: bytearray, record_count: int, now_ms: float) -> Batch:
        """A batch that somebody else encoded, without a producer's marks. Where it is too large it is not split."""
        batch = self._new_batch(lane, now_ms)
        batch.encoded, batch.sealed_count, batch.size_bytes = encoded, record_count, len(encoded)
        batch.is_closed = True
        return batch

    def _new_batch(self, lane: Lane, now_ms: float) -> Batch:
        self._next_number += 1
        batch = Batch(lane.topic, lane.partition, (self._next_number, 0), now_ms)
        lane.queue.append(batch)
        self._busy[lane] = None
        self._unresolved[batch] = None
        return batch

    @property
    def unresolved(self) -> list[Batch]:
        return list(self._unresolved)

    @property
    def is_empty(self) -> bool:
        return not self._unresolved

    # Batches go

    def busy_lanes(self) -> list[Lane]:
        return list(self._busy)

    def ready_ms(self, lane: Lane, now_ms: float) -> float:
        """When the first batch of the lane may go; NEVER while it must wait for something to come back."""
        head = lane.queue[0]
        if not lane.is_admitted or (self.is_idempotent and self._is_held_back(lane, head)):
            return NEVER
        if head.retry_ms > now_ms:
            return head.retry_ms
        if head.is_closed or self.is_hurried or len(lane.queue) > 1 or head.size_bytes >= self.batch_size:
            return now_ms
        return head.created_ms + self.linger_ms

    def _is_held_back(self, lane: Lane, head: Batch) -> bool:
        """By its sequence: that of one which goes out must follow upon all that the broker may see before it."""
        if lane.is_broken and (lane.in_flight or not self._mend(lane)):
            return True
        if head.base_sequence != NO_SEQUENCE:
            # Sent again: one at a time, so that whatever happens to it the next one's sequence is known.
            return any(other.order < head.order for other in lane.in_flight)
        if self.identity == NOBODY:
            return True
        oldest = min((other.ordinal for other in lane.in_flight), default=lane.next_ordinal)
        if lane.next_ordinal - oldest >= IDEMPOTENT_IN_FLIGHT_MAX:
            return True  # also where some behind the oldest are written: they count for the broker's memory
        is_next = lane.identity == self.identity and lane.known_id == self.identity.producer_id
        return bool(lane.in_flight) and not is_next

    def take(self, lane: Lane) -> Batch:
        """The first batch of a lane that is ready, as bytes to send."""
        batch = lane.queue.popleft()
        if not lane.queue:
            del self._busy[lane]
        else:
            self._busy[lane] = self._busy.pop(lane)
        batch.is_closed = True
        if batch.encoded is None:
            batch.encoded = self._encode(batch)
        if self.is_idempotent and batch.base_sequence == NO_SEQUENCE:
            self._give_sequence(lane, batch)
        batch.attempts += 1
        lane.in_flight.append(batch)
        return batch

    def _encode(self, batch: Batch) -> bytearray:
        return encode_columns(
            batch.values,
            batch.keys,
            batch.headers,
            batch.timestamps_ms,
            codec=self._codec,
            level=self._level,
            transactional=self.is_transactional,
        )

    def _give_sequence(self, lane: Lane, batch: Batch) -> None:
        if lane.identity != self.identity:
            lane.identity = self.identity
            lane.next_sequence = 0
        assert self.identity != NOBODY
        assert batch.encoded is not None
        batch.identity = self.identity
        batch.base_sequence = lane.next_sequence
        batch.ordinal, lane.next_ordinal = lane.next_ordinal, lane.next_ordinal + 1
        lane.next_sequence = (lane.next_sequence + batch.record_count) & INT32_MAX
        stamp(batch.encoded, *batch.identity, batch.base_sequence)

    def _mend(self, lane: Lane) -> bool:
        """Begins the sequences of a lane anew, under the next epoch. False while that cannot be."""
        if self.is_transactional:
            return False  # the transaction must be aborted, which gives another epoch
        if lane.identity == self.identity:
            self.bump()
        if self.identity == NOBODY:
            return False
        lane.is_broken = lane.is_doubtful = False
        for batch in lane.queue:
            batch.base_sequence = NO_SEQUENCE
        return True

    def bump(self) -> None:
        """To the next epoch of this producer; where there is none, to another id, which must be asked for."""
        producer_id, epoch = self.identity
        if producer_id != NO_PRODUCER_ID:
            self.identity = NOBODY if epoch >= PRODUCER_EPOCH_MAX else Identity(producer_id, epoch + 1)

    # Answers come

    def written(self, batch: Batch, base_offset: int, log_append_time_ms: int = -1) -> None:
        lane = self.lane(batch.topic, batch.partition)
        lane.in_flight.remove(batch)
        lane.known_id = batch.identity.producer_id
        if batch.outcome is None:
            self._resolve(batch, Written(base_offset, log_append_time_ms))

    def failed(self, batch: Batch, error: KafkaError, now_ms: float) -> bool:
        """Sends the batch again, splits it, or gives it up. Whether it is sent again."""
        lane = self.lane(batch.topic, batch.partition)
        lane.in_flight.remove(batch)
        if batch.outcome is not None:  # its time was up while it was out
            return False
        if self.end_of_all is not None:
            self._give_up(lane, batch, self.end_of_all)
            return False
        if error.code in _TOO_LARGE and len(batch.values) > 1:
            self._split(lane, batch)
            return True
        if self._may_try_again(lane, batch, error, now_ms):
            lane.put_back(batch)
            self._busy[lane] = None
            return True
        self._give_up(lane, batch, error)
        return False

    def _may_try_again(self, lane: Lane, batch: Batch, error: KafkaError, now_ms: float) -> bool:
        if batch.base_sequence != NO_SEQUENCE and error.code in _SEQUENCES_LOST:
            is_first = all(batch.order < other.order for other in (*lane.in_flight, *lane.queue))
            if error.code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER and (lane.is_broken or not is_first):
                return True  # it came before one that is sent again
            if self.is_transactional:
                return False
            lane.is_broken = True
            return True
        if not error.retriable or batch.attempts > self.retries:
            return False
        batch.retry_ms = now_ms + self._pause_ms(batch.attempts - 1)
        return batch.retry_ms < batch.created_ms + self.delivery_timeout_ms

    def _give_up(self, lane: Lane, batch: Batch, error: KafkaError) -> None:
        lane.is_doubtful |= batch.base_sequence != NO_SEQUENCE
        self._resolve(batch, error)

    def _split(self, lane: Lane, batch: Batch) -> None:
        """Halves, in its place; each may be split again. Their sequences are those that the whole had."""
        middle = len(batch.values) // 2
        batch.parts = [self._part(batch, 0, middle), self._part(batch, middle, len(batch.values))]
        remaining = len(batch.parts)

        def part_is_done(_part: Batch) -> None:
            nonlocal remaining
            remaining -= 1
            if remaining == 0 and batch.outcome is None:
                outcomes = [part.outcome for part in batch.parts or () if part.outcome is not None]
                self._resolve(batch, next((each for each in outcomes if isinstance(each, KafkaError)), outcomes[0]))

        for part in reversed(batch.parts):
            part.when_done(part_is_done)
            lane.put_back(part)
        self._busy[lane] = None

    def _part(self, batch: Batch, first: int, end: int) -> Batch:
        part = Batch(batch.topic, batch.partition, (batch.order[0], batch.order[1] + first), batch.created_ms)
        part.values = batch.values[first:end]
        part.keys = None if batch.keys is None else batch.keys[first:end]
        part.headers = None if batch.headers is None else batch.headers[first:end]
        part.timestamps_ms = batch.timestamps_ms[first:end]
        part.is_closed = True
        if batch.base_sequence != NO_SEQUENCE:
            part.identity, part.ordinal = batch.identity, batch.ordinal
            part.base_sequence = (batch.base_sequence + first) & INT32_MAX
            part.encoded = self._encode(part)
            stamp(part.encoded, *part.identity, part.base_sequence)
        return part

    # Time passes

    def next_expiry_ms(self) -> float:
        oldest = next(iter(self._unresolved), None)
        return NEVER if oldest is None else oldest.created_ms + self.delivery_timeout_ms

    def expire(self, now_ms: float) -> None:
        """Gives up what has taken too long, waiting or out."""
        while self._unresolved and self.next_expiry_ms() <= now_ms:
            batch = next(iter(self._unresolved))
            error = KafkaTimeoutError(
                f"{batch.record_count} records of {batch.topic_partition} were not written within "
                f"{self.delivery_timeout_ms:.0f} ms (delivery_timeout_ms); they may have been, if they were sent"
            )
            self.abandon(batch, error)

    def abandon(self, batch: Batch, error: KafkaError) -> None:
        """Whatever state it is in. A batch that is out may still be written, which is then of no interest."""
        for part in batch.parts or ():
            if part.outcome is None:
                self.abandon(part, error)
        lane = self.lane(batch.topic, batch.partition)
        if batch in lane.queue:
            lane.queue.remove(batch)
            if not lane.queue:
                self._busy.pop(lane, None)
        lane.is_doubtful |= batch.base_sequence != NO_SEQUENCE
        if batch.outcome is None:
            self._resolve(batch, error)

    def end_all(self, error: KafkaError) -> None:
        """Nothing goes any more, also not again: for the end of a transaction that is aborted."""
        self.end_of_all = error
        self.abandon_waiting(error)

    def abandon_waiting(self, error: KafkaError) -> None:
        """All that is not out."""
        for lane in self.busy_lanes():
            for batch in list(lane.queue):
                self.abandon(batch, error)

    def _resolve(self, batch: Batch, outcome: Outcome) -> None:
        is_whole = self._unresolved.pop(batch, batch) is None
        if is_whole:  # of a part, the whole speaks
            if isinstance(outcome, KafkaError):
                self.on_failure(batch, outcome)
            self.on_resolved(batch)
        batch.resolve(outcome)
        batch.forget()


class Ticket(NamedTuple):
    size_bytes: int
    granted: Callable[[], object]


class Room:
    """The buffer's bytes, given out in the order in which they were asked for."""

    def __init__(self, size_bytes: int) -> None:
        self.size_bytes = size_bytes
        self.used_bytes = 0
        self._waiting: deque[Ticket] = deque()

    def take(self, size: int) -> bool:
        """False where there is no room, or others wait for it."""
        if self._waiting or self.used_bytes + size > self.size_bytes:
            return False
        self.used_bytes += size
        return True

    def wait(self, size: int, granted: Callable[[], object]) -> Ticket:
        """`granted` is called once the bytes are taken. Whoever does not want them any more leaves with the ticket."""
        ticket = Ticket(size, granted)
        self._waiting.append(ticket)
        return ticket

    def leave(self, ticket: Ticket) -> None:
        """Also when the bytes were granted in the meantime: who waited may have been told to stop just before."""
        if ticket in self._waiting:
            self._waiting.remove(ticket)
            self._grant()
        else:
            self.give_back(ticket.size_bytes)

    @property
    def is_waited_for(self) -> bool:
        return bool(self._waiting)

    def give_back(self, size: int) -> None:
        self.used_bytes -= size
        assert self.used_bytes >= 0
        self._grant()

    def _grant(self) -> None:
        while self._waiting and self.used_bytes + self._waiting[0][0] <= self.size_bytes:
            size, granted = self._waiting.popleft()
            self.used_bytes += size
            granted()

"""One shard of a coordinator at work: a partition of its topic that this broker leads.

    load      replays the log in slices; until it is done, requests are told COORDINATOR_LOAD_IN_PROGRESS
    submit    decide → append → apply, with no await between; the answer leaves once all that is committed
    timer     one, for the earliest deadline of the shard
    close     sends everyone who waits away: the partition has another leader, or its disk has failed

Always holds: the shard has applied exactly what the log holds. What cannot be appended is not applied; where what was
appended can no longer be committed, the shard ends here and whoever leads next replays the log.
Does not know: what is decided. The rules are those of `groups` or of `transactions`.
"""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from enum import Enum
from typing import Any, Generic, Protocol, TypeVar

from barnabas.coordination.outcome import Answer, Moment, Outcome, Pending
from barnabas.coordination.records import CoordinatorRecord, encode
from barnabas.errors import ErrorCode
from barnabas.log.append import AppendOrigin
from barnabas.log.producer_replay import marker_in
from barnabas.protocol.compression import Codec
from barnabas.protocol.message import DecodeError, Structure
from barnabas.protocol.record_batch import HEADER_BYTES, Record, decode_records, encode_batch, read_header
from barnabas.protocol.special_numbers import ACKS_ALL
from barnabas.runtime.interfaces import Runtime, Timer
from barnabas.server.coordinators.coordinator_errors import told_as
from barnabas.server.replicas.commit_wait import Commit
from barnabas.server.replicas.partition import Partition
from barnabas.types import NO_LEADER_EPOCH, NO_PRODUCER_EPOCH, NO_PRODUCER_ID

logger = logging.getLogger(__name__)

R = TypeVar("R", bound=Structure)
Encoded = tuple[bytes, bytes | None]  # key and value

LOAD_SLICE_BYTES = 1 << 18  # a few milliseconds of work; other requests are served between two slices
TIMERS_PER_TURN_MAX = 64  # likewise, where many members fall silent at once
RECORD_OVERHEAD_BYTES = 32  # more than the numbers beside a key and a value can take


class Rules(Protocol):
    """The pure part of a shard."""

    def apply(self, record: CoordinatorRecord, offset: int, producer_id: int = NO_PRODUCER_ID) -> None:
        """The only way in which anything durable changes. `producer_id` is that of an open transaction."""

    def transaction_ended(self, producer_id: int, *, committed: bool) -> None: ...

    def loaded(self, now: Moment) -> Sequence[Outcome]:
        """Everything has been replayed; from now on there are decisions."""

    def unload(self) -> Sequence[Pending]:
        """Who waits here and must go elsewhere. Nothing may be decided any more."""

    def append_failed(self, outcome: Outcome, error: ErrorCode, now: Moment) -> Outcome: ...

    def next_deadline_ms(self) -> int | None: ...

    def tick(self, now: Moment) -> Outcome | None: ...


S = TypeVar("S", bound=Rules)


class ShardState(Enum):
    LOADING = "loading"
    ACTIVE = "active"
    CLOSED = "closed"


class Waiting(Pending, Generic[R]):
    """One request: `response` is there, or `future` will give it."""

    __slots__ = ("_failed", "future", "response")

    def __init__(self, failed: Callable[[ErrorCode], R]) -> None:
        self._failed = failed
        self.response: R | None = None
        self.future: asyncio.Future[R] | None = None

    def give(self, response: Structure | ErrorCode) -> None:
        given: Any = self._failed(response) if isinstance(response, ErrorCode) else response
        if self.future is None:
            assert self.response is None
            self.response = given
        elif not self.future.done():  # it is, where the client has gone
            self.future.set_result(given)

    def result(self) -> R | asyncio.Future[R]:
        if self.response is not None:
            return self.response
        self.future = asyncio.get_running_loop().create_future()
        return self.future


class CoordinatorShard(ABC, Generic[S]):
    """For each coordinator a subclass says how its records are read and packed, and what its effects are."""

    def __init__(self, *, partition: Partition, shard: S, runtime: Runtime) -> None:
        self.partition = partition
        self.shard = shard
        self.state = ShardState.LOADING
        self._runtime = runtime
        self._timer: Timer | None = None
        self._timer_due_ms = 0  # of `_timer`, on the monotonic clock
        self._deferred: list[Callable[[S], Outcome]] = []  # decisions that wait for the end of loading

    # What differs from one coordinator to the other

    @abstractmethod
    def decode(self, key: bytes, value: bytes | None) -> CoordinatorRecord | None: ...

    @property
    def codec(self) -> Codec:
        return Codec.NONE

    @property
    @abstractmethod
    def commit_timeout_ms(self) -> int:
        """How long those who asked wait for the replicas."""

    def perform_effects(self, effects: Sequence[Any]) -> None:
        raise AssertionError("this coordinator has no effects")

    @property
    def error(self) -> ErrorCode:
        """Why nothing can be submitted; NONE where it can."""
        if self.state is ShardState.ACTIVE:
            is_leader = self.partition.leader_error(NO_LEADER_EPOCH) == ErrorCode.NONE
            return ErrorCode.NONE if is_leader else ErrorCode.NOT_COORDINATOR
        loading = self.state is ShardState.LOADING
        return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if loading else ErrorCode.NOT_COORDINATOR

    # Loading

    async def load(self) -> None:
        """An empty log is loaded before the first await."""
        log = self.partition.log
        offset = log.log_start_offset
        while self.state is ShardState.LOADING and offset < log.log_end_offset:
            found = log.read(offset, LOAD_SLICE_BYTES, log.log_end_offset)
            if found is None:
                break  # compaction has left nothing up to the end
            offset = self._replay(memoryview(found.read()), offset)
            await self._runtime.clock.sleep(0)
        if self.state is ShardState.LOADING:
            self.state = ShardState.ACTIVE
            self._begin()

    def _replay(self, batches: memoryview, offset: int) -> int:
        """Applies the whole batches among these, and gives the offset after them."""
        position = 0
        next_offset = offset
        while len(batches) - position >= HEADER_BYTES:
            header = read_header(batches, position)
            end = position + header.size_bytes
            if end > len(batches):
                break
            batch = batches[position:end]
            if header.is_control:
                marker = marker_in(batch)
                if marker is not None:
                    self.shard.transaction_ended(header.producer_id, committed=marker.committed)
            else:
                producer_id = header.producer_id if header.is_transactional else NO_PRODUCER_ID
                for record in decode_records(batch):
                    self._replay_record(record, producer_id)
            next_offset = header.next_offset
            position = end
        assert next_offset > offset, "a read gives at least one whole batch"
        return next_offset

    def _replay_record(self, record: Record, producer_id: int) -> None:
        if record.key is None:
            raise DecodeError(f"{self.partition.name}: the record at offset {record.offset} has no key")
        decoded = self.decode(record.key, record.value)
        if decoded is not None:
            self.shard.apply(decoded, record.offset, producer_id)

    def _begin(self) -> None:
        for outcome in self.shard.loaded(self.now()):
            self._perform(outcome)
        for decide in self._deferred:
            self._perform(decide(self.shard))
        self._deferred.clear()
        self._wind_timer()

    # Work

    def submit(
        self, decide: Callable[[S, Pending, Moment], Outcome], failed: Callable[[ErrorCode], R]
    ) -> R | asyncio.Future[R]:
        waiting = Waiting(failed)
        if self.error != ErrorCode.NONE:
            waiting.give(self.error)
            return waiting.result()
        outcome = decide(self.shard, waiting, self.now())
        error = self._perform(outcome)
        if outcome.again:
            if error == ErrorCode.NONE:
                self._perform(decide(self.shard, waiting, self.now()))
            else:
                waiting.give(told_as(error))
        self._wind_timer()
        return waiting.result()

    def run(self, decide: Callable[[S], Outcome]) -> ErrorCode:
        """As `submit`, for what nobody waits for; while the shard loads, it waits itself."""
        error = self.error
        if self.state is ShardState.LOADING:
            self._deferred.append(decide)
        elif self.state is ShardState.ACTIVE:
            error = self._perform(decide(self.shard))
            self._wind_timer()
        return error

    def _perform(self, outcome: Outcome) -> ErrorCode:
        error = self._append(outcome) if outcome.records else ErrorCode.NONE
        if error == ErrorCode.NONE:
            if outcome.answers or outcome.effects:
                self._answer_at_commit(outcome)
            if outcome.then is not None:
                self._perform(outcome.then(self.shard, self.now()))
            return error
        logger.error("%s: cannot append, %d requests fail: %s", self.partition.name, len(outcome.answers), error.name)
        give_all(outcome.answers, told_as(error))
        self._perform(self.shard.append_failed(outcome, error, self.now()))
        return error

    def _append(self, outcome: Outcome) -> ErrorCode:
        producer = outcome.producer
        for records, encoded in self._batches(outcome):
            now_ms = self._runtime.clock.now_ms()
            batch = encode_batch(
                [Record(number, now_ms, key, value, []) for number, (key, value) in enumerate(encoded)],
                codec=self.codec,
                producer_id=NO_PRODUCER_ID if producer is None else producer.id,
                producer_epoch=NO_PRODUCER_EPOCH if producer is None else producer.epoch,
                transactional=producer is not None,
            )
            info = self.partition.append(memoryview(batch), ACKS_ALL, AppendOrigin.COORDINATOR)
            if info.error != ErrorCode.NONE:
                return info.error
            for number, record in enumerate(records):
                self.shard.apply(record, info.base_offset + number, NO_PRODUCER_ID if producer is None else producer.id)
        return ErrorCode.NONE

    def _batches(self, outcome: Outcome) -> Iterator[tuple[Sequence[CoordinatorRecord], list[Encoded]]]:
        """One batch, or as many as it takes where the records need not stay together."""
        encoded = [encode(record) for record in outcome.records]
        if outcome.atomic:
            yield outcome.records, encoded
            return
        size_bytes_max = self.partition.config.max_message_bytes
        first = 0
        size_bytes = HEADER_BYTES
        for number, (key, value) in enumerate(encoded):
            record_bytes = RECORD_OVERHEAD_BYTES + len(key) + len(value or b"")
            if number > first and size_bytes + record_bytes > size_bytes_max:
                yield outcome.records[first:number], encoded[first:number]
                first, size_bytes = number, HEADER_BYTES
            size_bytes += record_bytes
        yield outcome.records[first:], encoded[first:]

    def _answer_at_commit(self, outcome: Outcome) -> None:
        """A decision without records waits too, for those that it was decided upon."""
        commit = self.partition.committed(self.partition.log.log_end_offset)
        if commit is None:
            give_all(outcome.answers)
            if outcome.effects:
                self.perform_effects(outcome.effects)
            return
        timer = self._runtime.clock.call_later(self.commit_timeout_ms, lambda: give_late(outcome.answers, commit))
        commit.add_done_callback(lambda _commit: self._committed(commit, outcome, timer))

    def _committed(self, commit: Commit, outcome: Outcome, timer: Timer) -> None:
        timer.cancel()
        if commit.result() == ErrorCode.NONE:
            give_all(outcome.answers)
            if outcome.effects and self.state is ShardState.ACTIVE:
                self.perform_effects(outcome.effects)
            return
        self.close()
        give_all(outcome.answers, told_as(commit.result()))

    # Time

    def now(self) -> Moment:
        clock = self._runtime.clock
        return Moment(clock.now_ms(), int(clock.monotonic_ms()))

    def _wind_timer(self) -> None:
        """Leaves a timer that is early: most deadlines have been put off when they come up."""
        deadline_ms = self.shard.next_deadline_ms()
        if deadline_ms is None or self.state is not ShardState.ACTIVE:
            return
        if self._timer is not None:
            if self._timer_due_ms <= deadline_ms:
                return
            self._timer.cancel()
        self._timer_due_ms = deadline_ms
        delay_ms = max(deadline_ms - self._runtime.clock.monotonic_ms(), 0)
        self._timer = self._runtime.clock.call_later(delay_ms, self._tick)

    def _tick(self) -> None:
        self._timer = None
        now = self.now()
        for _ in range(TIMERS_PER_TURN_MAX):
            outcome = self.shard.tick(now) if self.state is ShardState.ACTIVE else None
            if outcome is None:
                break
            self._perform(outcome)
        self._wind_timer()

    # The end

    def close(self) -> None:
        if self.state is ShardState.CLOSED:
            return
        self.state = ShardState.CLOSED
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        give_all([Answer(pending, ErrorCode.NOT_COORDINATOR) for pending in self.shard.unload()])


def give_all(answers: Sequence[Answer], error: ErrorCode = ErrorCode.NONE) -> None:
    for pending, response in answers:
        assert isinstance(pending, Waiting)
        pending.give(response if error == ErrorCode.NONE else error)


def give_late(answers: Sequence[Answer], commit: Commit) -> None:
    """It may be committed yet; those who asked must not wait any longer."""
    if not commit.done():
        give_all(answers, told_as(ErrorCode.REQUEST_TIMED_OUT))

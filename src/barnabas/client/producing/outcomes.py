"""What became of records that were sent, for who asks.

Always holds: a future costs two references until somebody waits for it; records of one batch share its outcome.
Does not know: how records are sent.
"""

import asyncio
import logging
from bisect import bisect_right
from collections.abc import Callable, Generator, Sequence
from typing import Any, NamedTuple

from barnabas.client.errors import KafkaError
from barnabas.client.producing.accumulator import Batch

logger = logging.getLogger(__name__)


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
        """Called with this future once it is done. What it raises is logged."""

        def call(batch: Batch) -> None:
            try:
                callback(self)
            except Exception:  # others wait for the batch too, and the producer goes on
                logger.exception("the callback of a record of %s failed", batch.topic_partition)

        self._batch.when_done(call)

    def _outcome(self) -> Any:
        outcome = self._batch.outcome_of(self._place) if self._batch.outcome is not None else None
        if outcome is None:
            raise asyncio.InvalidStateError("the record has no outcome yet; await it")
        return outcome

    def __await__(self) -> Generator[Any, None, RecordMetadata]:
        if self._batch.outcome is None:
            yield from ending(self._batch).__await__()
        return self.result()


def ending(batch: Batch) -> "asyncio.Future[None]":
    done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    batch.when_done(lambda _batch: None if done.done() else done.set_result(None))
    return done


class RecordFutures(Sequence[RecordFuture]):
    """The outcomes of many records, in their order: `await` it for the list of their RecordMetadata."""

    __slots__ = ("_count", "_starts", "_stretches", "places")

    def __init__(self) -> None:
        self._stretches: list[tuple[Batch, int, int]] = []  # a batch, the place of the first there, and how many
        self._starts: list[int] = []  # how many records come before each stretch
        self._count = 0
        self.places: list[int] | None = None  # of each record among the stretches, where those are in another order

    def add(self, batch: Batch, place: int, count: int) -> None:
        self._stretches.append((batch, place, count))
        self._starts.append(self._count)
        self._count += count

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [self[each] for each in range(*index.indices(self._count))]
        position = index + self._count if index < 0 else index
        if not 0 <= position < self._count:
            raise IndexError(index)
        if self.places is not None:
            position = self.places[position]
        found = bisect_right(self._starts, position) - 1
        batch, place, _count = self._stretches[found]
        return RecordFuture(batch, place + position - self._starts[found])

    def __await__(self) -> Generator[Any, None, list[RecordMetadata]]:
        for batch, _place, _count in self._stretches:
            if batch.outcome is None:
                yield from ending(batch).__await__()
        found = [
            RecordFuture(batch, place + each).result()
            for batch, place, count in self._stretches
            for each in range(count)
        ]
        return found if self.places is None else [found[place] for place in self.places]

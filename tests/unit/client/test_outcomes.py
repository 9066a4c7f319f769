"""What became of records that were sent: callbacks that fail, and many futures at once."""

from __future__ import annotations

import pytest

from barnabas.client.producing.accumulator import Batch, Written
from barnabas.client.producing.outcomes import RecordFuture, RecordFutures


def batch_of(count: int, partition: int = 0) -> Batch:
    batch = Batch("t", partition, (0, 0), 0)
    batch.extend(None, [b"v"] * count, 5, count)
    return batch


def test_a_callback_that_fails_keeps_nobody_else_waiting(caplog: pytest.LogCaptureFixture) -> None:
    batch = batch_of(2)
    told: list[int] = []

    def fails(_future: RecordFuture) -> None:
        raise ZeroDivisionError

    RecordFuture(batch, 0).add_done_callback(fails)
    RecordFuture(batch, 1).add_done_callback(lambda future: told.append(future.result().offset))
    batch.resolve(Written(10))
    assert told == [11]
    RecordFuture(batch, 0).add_done_callback(fails)  # it is done already
    assert caplog.text.count("the callback of a record of t-0 failed") == 2


def test_futures_are_found_without_counting_through_all_batches() -> None:
    futures = RecordFutures()
    batches = [batch_of(1 + number % 3, number) for number in range(300)]
    for batch in batches:
        futures.add(batch, 0, batch.record_count)
        batch.resolve(Written(0))
    found = [(future.result().partition, future.result().offset) for future in futures]
    assert found == [(number, offset) for number in range(300) for offset in range(1 + number % 3)]
    assert (futures[-1].result().partition, len(futures[2:5])) == (299, 3)

    class Counted(list[tuple[Batch, int, int]]):
        looks = 0

        def __getitem__(self, index: object) -> object:  # type: ignore[override]
            Counted.looks += 1
            return super().__getitem__(index)  # type: ignore[call-overload]

        def __iter__(self) -> object:  # type: ignore[override]
            raise AssertionError("all of them, for one")

    futures._stretches = Counted(futures._stretches)
    assert len(list(futures)) == Counted.looks == 600

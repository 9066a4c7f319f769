"""What may be sent when, and what comes of it, without a broker: order, sequences, time, room."""

from collections.abc import Callable
from random import Random

import pytest

from barnabas.client.errors import KafkaError, error_of
from barnabas.client.producing.accumulator import (
    IDEMPOTENT_IN_FLIGHT_MAX,
    NEVER,
    NOBODY,
    Accumulator,
    Batch,
    Identity,
    Room,
    Written,
)
from barnabas.client.producing.batch_encoder import encode_columns
from barnabas.errors import ErrorCode
from barnabas.protocol.record_batch import decode_records, read_header

LOST = error_of(ErrorCode.NETWORK_EXCEPTION)
OUT_OF_ORDER = error_of(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
TOO_LARGE = error_of(ErrorCode.MESSAGE_TOO_LARGE)


class Bench:
    def __init__(self, **settings: object) -> None:
        given = {
            "batch_size": 100,
            "linger_ms": 10.0,
            "delivery_timeout_ms": 1000.0,
            "retries": 100,
            "is_idempotent": True,
            "pause_ms": lambda _attempts: 0.0,
            **settings,
        }
        self.accumulator = Accumulator(**given)  # type: ignore[arg-type]
        self.accumulator.identity = Identity(7, 0)
        self.lane = self.accumulator.lane("t", 0)
        self.lane.known_id = 7  # as if there had been records before
        self.now_ms = 0.0

    def append(self, value: bytes, size: int = 40) -> Batch:
        batch = self.accumulator.open_batch(self.lane, size, self.now_ms)
        batch.append(None, value, None, 5, size)
        return batch

    def full(self, *values: bytes) -> list[Batch]:
        return [self.append(value, 100) for value in values]

    def take(self) -> Batch | None:
        if not self.lane.queue or self.accumulator.ready_ms(self.lane, self.now_ms) > self.now_ms:
            return None
        return self.accumulator.take(self.lane)

    def take_all(self) -> list[Batch]:
        return list(iter(self.take, None))

    def fail(self, batch: Batch, error: KafkaError) -> bool:
        return self.accumulator.failed(batch, error, self.now_ms)


def sequence(batch: Batch) -> tuple[int, int]:
    assert batch.encoded is not None
    header = read_header(batch.encoded)
    assert header.base_sequence == batch.base_sequence
    return header.producer_epoch, header.base_sequence


def test_a_batch_lingers_until_it_is_full() -> None:
    bench = Bench()
    first = bench.append(b"a")
    assert bench.take() is None
    assert bench.accumulator.ready_ms(bench.lane, 0) == 10
    assert bench.append(b"b") is first
    second = bench.append(b"c")
    assert second is not first
    assert bench.take() is first
    assert bench.take() is None
    bench.now_ms = 10
    assert bench.take() is second
    assert [record.value for record in decode_records(first.encoded or b"")] == [b"a", b"b"]


def test_whoever_is_in_a_hurry_does_not_linger() -> None:
    bench = Bench()
    batch = bench.append(b"a")
    bench.accumulator.is_hurried = True
    assert bench.take() is batch


def test_sequences_follow_each_other_and_so_many_are_out() -> None:
    bench = Bench()
    bench.full(*(b"%d" % number for number in range(8)))
    out = bench.take_all()
    assert [sequence(batch) for batch in out] == [(0, number) for number in range(IDEMPOTENT_IN_FLIGHT_MAX)]
    bench.accumulator.written(out[0], 100)
    assert out[0].outcome == Written(100)
    assert [sequence(batch) for batch in bench.take_all()] == [(0, 5)]


def test_no_more_go_than_the_broker_remembers_behind_one_that_is_unclear() -> None:
    """Two leaders answer independently: those behind may be written while the first is not known to be."""
    bench = Bench()
    bench.full(*(b"%d" % number for number in range(8)))
    first, *others = bench.take_all()
    for batch in others:
        bench.accumulator.written(batch, 1)
    assert bench.take() is None
    bench.fail(first, LOST)
    assert bench.take() is first
    assert bench.take() is None
    bench.accumulator.written(first, 0)
    assert len(bench.take_all()) == 3


def test_nothing_goes_before_there_is_an_id() -> None:
    bench = Bench()
    bench.accumulator.identity = NOBODY
    bench.full(b"a", b"b")
    assert bench.take() is None
    bench.accumulator.identity = Identity(7, 0)
    assert bench.take() is not None


def test_what_failed_goes_again_in_order_and_one_at_a_time() -> None:
    bench = Bench()
    bench.full(b"a", b"b", b"c", b"d")
    first, second, third, *_ = bench.take_all()
    assert bench.fail(second, OUT_OF_ORDER)
    assert bench.fail(first, LOST)
    assert bench.fail(third, OUT_OF_ORDER)
    assert not bench.lane.is_broken
    bench.accumulator.failed(bench.lane.in_flight[0], OUT_OF_ORDER, 0)
    order = []
    while (again := bench.take()) is not None:
        assert bench.take() is None
        order.append(sequence(again))
        bench.accumulator.written(again, again.base_sequence)
    assert order == [(0, 0), (0, 1), (0, 2), (0, 3)]


def test_a_pause_before_it_goes_again() -> None:
    bench = Bench(pause_ms=lambda attempts: 50.0 * (attempts + 1))
    bench.full(b"a")
    [batch] = bench.take_all() or bench.take_all()
    bench.fail(batch, LOST)
    assert bench.accumulator.ready_ms(bench.lane, 0) == 50
    bench.now_ms = 50
    [batch] = bench.take_all()
    bench.fail(batch, LOST)
    assert bench.accumulator.ready_ms(bench.lane, 50) == 150


def test_a_gap_that_the_broker_sees_begins_the_next_epoch() -> None:
    bench = Bench()
    bench.full(b"a", b"b", b"c")
    first, second, third = bench.take_all()
    bench.accumulator.written(first, 0)
    assert bench.fail(second, OUT_OF_ORDER)
    assert bench.take() is None  # another is out, and nobody knows of it
    assert bench.fail(third, OUT_OF_ORDER)
    assert [sequence(batch) for batch in bench.take_all()] == [(1, 0), (1, 1)]
    assert bench.accumulator.identity == Identity(7, 1)


def test_other_partitions_keep_their_epoch_until_nothing_of_them_is_out() -> None:
    bench = Bench()
    other = bench.accumulator.lane("t", 1)
    for value in (b"x", b"y"):
        bench.accumulator.open_batch(other, 100, 0).append(None, value, None, 5, 100)
    out = bench.accumulator.take(other)
    bench.accumulator.identity = Identity(7, 1)
    assert bench.accumulator.ready_ms(other, 0) == NEVER
    bench.accumulator.written(out, 0)
    assert sequence(bench.accumulator.take(other)) == (1, 0)


def test_epochs_run_out() -> None:
    bench = Bench()
    bench.accumulator.identity = Identity(7, 32_767)
    bench.full(b"a")
    [batch] = bench.take_all()
    bench.fail(batch, error_of(ErrorCode.UNKNOWN_PRODUCER_ID))
    assert bench.take() is None
    assert bench.accumulator.identity == NOBODY
    bench.accumulator.identity = Identity(8, 0)
    assert [sequence(batch) for batch in bench.take_all()] == [(0, 0)]


def test_what_fails_for_good_leaves_no_gap() -> None:
    bench = Bench()
    bench.full(b"a", b"b")
    first, second = bench.take_all()
    assert not bench.fail(first, error_of(ErrorCode.INVALID_TIMESTAMP))
    assert isinstance(first.outcome, KafkaError)
    assert bench.fail(second, OUT_OF_ORDER)
    assert [sequence(batch) for batch in bench.take_all()] == [(1, 0)]


def test_retries_have_an_end() -> None:
    bench = Bench(retries=2)
    bench.full(b"a")
    for expected in (True, True, False):
        [batch] = bench.take_all()
        assert bench.fail(batch, LOST) is expected
    assert batch.outcome is LOST


def test_time_is_up_for_what_waits_and_for_what_is_out() -> None:
    bench = Bench()
    failed: list[Batch] = []
    bench.accumulator.on_failure = lambda batch, _error: failed.append(batch)
    first, second = bench.full(b"a", b"b")
    assert bench.take() is first
    bench.accumulator.expire(999)
    assert failed == []
    bench.accumulator.expire(1000)
    assert failed == [first, second]
    assert bench.accumulator.is_empty
    assert "delivery_timeout_ms" in str(first.outcome)
    bench.accumulator.written(first, 5)  # too late for anybody
    assert isinstance(first.outcome, KafkaError)
    assert bench.lane.is_idle


def test_whether_what_was_given_up_is_there_the_broker_knows() -> None:
    for is_there in (True, False):
        bench = Bench()
        [first] = bench.full(b"a")
        bench.take_all()
        bench.accumulator.expire(1000)
        bench.now_ms = 1001
        bench.full(b"b", b"c")
        bench.fail(first, LOST)
        second, third = bench.take_all()
        assert [sequence(batch) for batch in (second, third)] == [(0, 1), (0, 2)]
        if is_there:
            bench.accumulator.written(second, 1)
            assert not bench.lane.is_broken
        else:
            assert bench.fail(second, OUT_OF_ORDER)
            assert bench.fail(third, OUT_OF_ORDER)
            assert [sequence(batch) for batch in bench.take_all()] == [(1, 0), (1, 1)]


def test_what_was_sent_behind_something_given_up_is_not_written_twice() -> None:
    """It keeps its sequence, so that a broker that has it knows it."""
    bench = Bench()
    bench.full(b"a")
    bench.now_ms = 500
    bench.full(b"b")
    first, second = bench.take_all()
    bench.fail(first, LOST)
    bench.fail(second, LOST)
    bench.accumulator.expire(1000)
    assert isinstance(first.outcome, KafkaError)
    assert second.outcome is None
    assert [sequence(batch) for batch in bench.take_all()] == [(0, 1)]


def test_the_first_batch_of_a_producer_goes_alone() -> None:
    bench = Bench()
    bench.lane.known_id = -1
    bench.full(b"a", b"b", b"c")
    [first] = bench.take_all()
    bench.accumulator.written(first, 0)
    assert len(bench.take_all()) == 2


def test_a_batch_that_is_too_large_goes_in_halves() -> None:
    bench = Bench(batch_size=1000)
    for value in (b"a", b"b", b"c", b"d", b"e"):
        whole = bench.append(value)
    bench.append(b"next", 1000)
    after = bench.append(b"last", 1000)
    out = bench.take_all()
    assert out[0] is whole
    assert bench.fail(whole, TOO_LARGE)
    for batch in out[1:]:
        assert bench.fail(batch, OUT_OF_ORDER)
    assert not bench.lane.is_broken
    written: list[tuple[list[bytes | None], int]] = []
    offset = 50
    while (batch := bench.take()) is not None:
        values = [record.value for record in decode_records(batch.encoded or b"")]
        if values == [b"c", b"d", b"e"]:
            assert bench.fail(batch, TOO_LARGE)
            continue
        written.append((values, batch.base_sequence))
        bench.accumulator.written(batch, offset)
        offset += len(values)
    assert written == [([b"a", b"b"], 0), ([b"c"], 2), ([b"d", b"e"], 3), ([b"next"], 5), ([b"last"], 6)]
    assert [whole.outcome_of(place) for place in range(5)] == [Written(50 + place) for place in range(5)]
    assert after.outcome == Written(56)
    assert bench.accumulator.is_empty


def test_a_record_that_is_too_large_alone_fails_and_those_beside_it_do_not() -> None:
    bench = Bench(batch_size=1000)
    for value in (b"a", b"large"):
        whole = bench.append(value)
    bench.accumulator.is_hurried = True
    assert bench.fail(bench.take_all()[0], TOO_LARGE)
    small = bench.take()
    assert small is not None
    bench.accumulator.written(small, 3)
    large = bench.take()
    assert large is not None
    assert not bench.fail(large, TOO_LARGE)
    assert whole.outcome_of(0) == Written(3)
    assert whole.outcome_of(1) is TOO_LARGE
    assert bench.accumulator.is_empty


def test_a_batch_that_came_encoded_has_its_sequences_and_is_not_split() -> None:
    bench = Bench()
    sealed = encode_columns([b"a", b"b", b"c"], None, None, [5, 5, 5])
    batch = bench.accumulator.add_sealed(bench.lane, sealed, 3, bench.now_ms)
    bench.full(b"after")
    first, after = bench.take_all()
    assert first is batch
    assert [sequence(each) for each in (first, after)] == [(0, 0), (0, 3)]
    assert not bench.fail(first, TOO_LARGE)
    assert first.outcome is TOO_LARGE


def test_a_transaction_is_not_mended() -> None:
    bench = Bench(is_transactional=True)
    assert not bench.lane.is_admitted
    bench.full(b"a", b"b")
    assert bench.take() is None
    bench.lane.is_admitted = True
    first, second = bench.take_all()
    assert not bench.fail(first, OUT_OF_ORDER)
    assert not bench.fail(second, OUT_OF_ORDER)
    assert bench.accumulator.is_doubtful
    bench.accumulator.mend_all()
    assert bench.accumulator.is_doubtful
    bench.accumulator.identity = Identity(7, 1)
    bench.accumulator.mend_all()
    assert not bench.accumulator.is_doubtful
    bench.full(b"c", b"d")
    assert [sequence(batch) for batch in bench.take_all()] == [(1, 0), (1, 1)]


def test_nothing_goes_again_at_the_end_of_a_transaction() -> None:
    bench = Bench(is_transactional=True)
    bench.lane.is_admitted = True
    bench.full(*(b"%d" % number for number in range(7)))
    out = bench.take_all()
    bench.accumulator.end_all(TOO_LARGE)
    assert [batch.outcome for batch in out] == [None] * 5
    assert not bench.fail(out[0], LOST)
    for batch in out[1:]:
        bench.accumulator.written(batch, 5)
    assert bench.accumulator.is_empty
    assert bench.take() is None


def broker(random: Random) -> Callable[[Batch], KafkaError | int]:
    """A partition's leader as a producer sees it: checks sequences, loses answers."""
    log: list[bytes | None] = []
    seen: dict[tuple[int, int], int] = {}
    expected: dict[int, int] = {}  # epoch → sequence

    def receive(batch: Batch) -> KafkaError | int:
        assert batch.encoded is not None
        fate = random.random()
        if fate < 0.15:
            return LOST
        header = read_header(batch.encoded)
        key = (header.producer_epoch, header.base_sequence)
        if key in seen:
            return seen[key] if fate > 0.3 else LOST
        if header.base_sequence != expected.get(header.producer_epoch, 0):
            return OUT_OF_ORDER
        expected[header.producer_epoch] = header.base_sequence + header.record_count
        seen[key] = len(log)
        log.extend(record.value for record in decode_records(batch.encoded))
        return seen[key] if fate > 0.3 else LOST

    receive.log = log  # type: ignore[attr-defined]
    return receive


@pytest.mark.parametrize("seed", range(20))
def test_whatever_is_lost_on_the_way_everything_is_written_once_and_in_order(seed: int) -> None:
    random = Random(seed)
    bench = Bench(delivery_timeout_ms=1e9)
    receive = broker(random)
    out: list[tuple[Batch, KafkaError | int]] = []
    values = [b"%d" % number for number in range(100)]
    unsent = list(values)
    for _ in range(3000):
        if unsent and random.random() < 0.5:
            bench.append(unsent.pop(0), random.choice([30, 60, 100]))
        bench.now_ms += 5
        if random.random() < 0.5 and (batch := bench.take()) is not None:
            out.append((batch, receive(batch)))
        if out and random.random() < 0.4:
            batch, answer = out.pop(0)
            if isinstance(answer, KafkaError):
                bench.fail(batch, answer)
            else:
                bench.accumulator.written(batch, answer)
    assert bench.accumulator.is_empty
    assert receive.log == values  # type: ignore[attr-defined]
    assert bench.accumulator.identity == Identity(7, 0)


def test_room_is_given_in_order() -> None:
    room = Room(100)
    assert room.take(80)
    assert not room.take(30)
    granted: list[str] = []
    large = room.wait(90, lambda: granted.append("large"))
    room.wait(10, lambda: granted.append("small"))
    assert not room.take(1)  # others were here before
    room.give_back(20)
    assert granted == []
    room.leave(large)
    assert granted == ["small"]
    assert room.used_bytes == 70
    assert not room.is_waited_for
    assert room.take(30)
    late = room.wait(10, lambda: granted.append("late"))
    room.give_back(30)
    assert granted == ["small", "late"]
    room.leave(late)  # granted, and not wanted any more
    assert room.used_bytes == 70


def test_room_and_failures_are_told_before_whoever_waits() -> None:
    """A transaction that must not be committed says so before anybody hears of the record, whatever they do then."""
    bench = Bench()
    told: list[str] = []
    bench.accumulator.on_failure = lambda batch, _error: told.append(f"failure of {batch.record_count}")
    bench.accumulator.on_resolved = lambda _batch: told.append("room")
    (batch,) = bench.full(b"a")
    batch.when_done(lambda _batch: told.append("waiter"))
    bench.accumulator.abandon(batch, TOO_LARGE)
    assert told == ["failure of 1", "room", "waiter"]

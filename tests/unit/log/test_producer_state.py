"""Sequence rules, transactions and snapshots of a partition's producers."""

import sys
from pathlib import Path

import pytest

from barnabas.errors import ErrorCode
from barnabas.log.producer_state import (
    ACCEPTED,
    CompletedTransaction,
    CorruptSnapshot,
    ProducerStates,
    SequencedBatch,
    decode_snapshot,
    snapshot_file_name,
    stray_snapshots,
)
from barnabas.protocol.checksum import crc32c
from barnabas.protocol.control_records import TransactionMarker, decode_transaction_marker
from barnabas.protocol.record_batch import INT32_MAX, BatchHeader, decode_records, read_headers

KAFKA = Path(__file__).parents[2] / "data" / "kafka-4.3.1"
COMMIT, ABORT = TransactionMarker(True, 1), TransactionMarker(False, 1)
PRODUCER = 9


def data_batch(
    sequence: int,
    count: int = 1,
    *,
    epoch: int = 0,
    offset: int = 0,
    transactional: bool = False,
    producer_id: int = PRODUCER,
    timestamp_ms: int = 1_000,
) -> BatchHeader:
    return BatchHeader(
        base_offset=offset,
        batch_length=100,
        leader_epoch=0,
        magic=2,
        crc=0,
        attributes=0x10 if transactional else 0,
        last_offset_delta=count - 1,
        base_timestamp_ms=timestamp_ms,
        max_timestamp_ms=timestamp_ms,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
        record_count=count,
    )


def marker_batch(offset: int, *, epoch: int = 0, producer_id: int = PRODUCER, timestamp_ms: int = 1_000) -> BatchHeader:
    batch = data_batch(-1, offset=offset, epoch=epoch, producer_id=producer_id, timestamp_ms=timestamp_ms)
    return batch._replace(attributes=0x30)


def error_of(states: ProducerStates, header: BatchHeader) -> ErrorCode:
    verdict = states.check(header)
    assert verdict.duplicate_of is None
    return verdict.error


# Sequences


def test_an_unknown_producer_may_begin_anywhere() -> None:
    assert ProducerStates().check(data_batch(17)) is ACCEPTED


def test_the_next_sequence_is_accepted_and_a_gap_is_not() -> None:
    states = ProducerStates()
    states.append(data_batch(0, 3))
    assert states.check(data_batch(3)) is ACCEPTED
    for sequence in (2, 4, 1_000):
        assert error_of(states, data_batch(sequence)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_the_last_five_batches_are_recognised_and_no_more() -> None:
    states = ProducerStates()
    for number in range(7):
        states.append(data_batch(3 * number, 3, offset=100 + 3 * number, timestamp_ms=number))
    for number in range(2, 7):
        duplicate = states.check(data_batch(3 * number, 3)).duplicate_of
        assert duplicate == SequencedBatch(3 * number + 2, 102 + 3 * number, 2, number)
        assert (duplicate.base_offset, duplicate.base_sequence) == (100 + 3 * number, 3 * number)
    assert error_of(states, data_batch(3, 3)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_a_repetition_has_exactly_the_same_sequences() -> None:
    states = ProducerStates()
    states.append(data_batch(0, 3))
    for header in (data_batch(0, 2), data_batch(0, 4), data_batch(1, 2)):
        assert error_of(states, header) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_sequences_wrap() -> None:
    states = ProducerStates()
    states.append(data_batch(INT32_MAX - 1, 2))
    assert states.check(data_batch(0)) is ACCEPTED
    states.append(data_batch(0, 1, offset=2))
    states.append(data_batch(1, 1, offset=3))
    assert error_of(states, data_batch(INT32_MAX)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert states.check(data_batch(INT32_MAX - 1, 2)).duplicate_of == SequencedBatch(INT32_MAX, 1, 1, 1_000)


def test_one_batch_may_wrap_within() -> None:
    states = ProducerStates()
    states.append(data_batch(INT32_MAX, 3))
    assert states.check(data_batch(2)) is ACCEPTED
    duplicate = states.check(data_batch(INT32_MAX, 3)).duplicate_of
    assert duplicate is not None
    assert duplicate.base_sequence == INT32_MAX


def test_a_new_epoch_begins_at_zero() -> None:
    states = ProducerStates()
    states.append(data_batch(0, 5))
    assert error_of(states, data_batch(5, epoch=1)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert states.check(data_batch(0, epoch=1)) is ACCEPTED
    states.append(data_batch(0, epoch=1, offset=5))
    assert states.check(data_batch(1, epoch=1)) is ACCEPTED
    assert error_of(states, data_batch(5)) is ErrorCode.INVALID_PRODUCER_EPOCH


def test_a_zombies_repetition_is_a_stale_epoch() -> None:
    states = ProducerStates()
    states.append(data_batch(0))
    states.append(data_batch(0, epoch=1, offset=1))
    assert error_of(states, data_batch(0)) is ErrorCode.INVALID_PRODUCER_EPOCH


def test_producers_do_not_disturb_each_other() -> None:
    states = ProducerStates()
    states.append(data_batch(0, 5, producer_id=1))
    states.append(data_batch(7, 5, producer_id=2, offset=5))
    assert states.check(data_batch(5, producer_id=1)) is ACCEPTED
    assert states.check(data_batch(12, producer_id=2)) is ACCEPTED
    assert error_of(states, data_batch(12, producer_id=1)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_a_coordinators_batches_have_epochs_but_no_sequences() -> None:
    states = ProducerStates()
    states.append(data_batch(-1, epoch=3, transactional=True))
    assert states.check(data_batch(-1, epoch=3, transactional=True), sequenced=False) is ACCEPTED
    stale = states.check(data_batch(-1, epoch=2, transactional=True), sequenced=False)
    assert stale.error is ErrorCode.INVALID_PRODUCER_EPOCH


def test_checking_changes_nothing() -> None:
    states = ProducerStates()
    states.append(data_batch(0))
    before = states.encode()
    for header in (data_batch(1), data_batch(0), data_batch(9), data_batch(0, epoch=4), data_batch(0, producer_id=1)):
        states.check(header)
    assert states.encode() == before


def test_the_log_may_give_a_batch_another_offset_and_time() -> None:
    states = ProducerStates()
    states.append(data_batch(0, 2), 500, timestamp_ms=7)
    state = states.get(PRODUCER)
    assert state is not None
    assert state.batches == [SequencedBatch(1, 501, 1, 7)]
    assert state.last_timestamp_ms == 7


# Transactions


def test_a_transaction_is_open_from_its_first_batch_to_its_marker() -> None:
    states = ProducerStates()
    assert states.first_unstable_offset is None
    states.append(data_batch(0, 2, transactional=True, offset=10))
    states.append(data_batch(2, 2, transactional=True, offset=12))
    assert states.first_unstable_offset == 10
    assert states.ongoing_transactions == {10: PRODUCER}
    completed = states.append(marker_batch(14), marker=COMMIT)
    assert completed == CompletedTransaction(PRODUCER, 10, 14, aborted=False, last_stable_offset=15)
    assert states.ongoing_transactions == {}
    assert states.first_undecided_offset is None


def test_a_marker_is_final_only_below_the_high_watermark() -> None:
    states = ProducerStates()
    states.append(data_batch(0, transactional=True, offset=10))
    states.append(marker_batch(11), marker=COMMIT)
    states.advance(11)
    assert states.first_unstable_offset == 10
    states.advance(12)
    assert states.first_unstable_offset is None


def test_the_oldest_open_transaction_bounds_the_stable_offset() -> None:
    states = ProducerStates()
    for offset, producer_id in enumerate((1, 2, 3)):
        states.append(data_batch(0, transactional=True, offset=offset, producer_id=producer_id))
    completed = states.append(marker_batch(3, producer_id=2), marker=ABORT)
    assert completed == CompletedTransaction(2, 1, 3, aborted=True, last_stable_offset=0)
    states.advance(4)
    assert states.first_unstable_offset == 0
    completed = states.append(marker_batch(4, producer_id=1), marker=COMMIT)
    assert completed == CompletedTransaction(1, 0, 4, aborted=False, last_stable_offset=2)
    assert states.first_unstable_offset == 0
    assert states.first_undecided_offset == 2


def test_a_marker_without_data_ends_nothing() -> None:
    states = ProducerStates()
    assert states.append(marker_batch(0, epoch=5), marker=ABORT) is None
    assert states.first_unstable_offset is None
    assert error_of(states, data_batch(0, epoch=4)) is ErrorCode.INVALID_PRODUCER_EPOCH


def test_sequences_go_on_after_a_marker_of_the_same_epoch() -> None:
    states = ProducerStates()
    states.append(data_batch(0, 2, transactional=True))
    states.append(marker_batch(2), marker=COMMIT)
    assert states.check(data_batch(2, transactional=True)) is ACCEPTED
    assert states.check(data_batch(0, 2, transactional=True)).duplicate_of is not None


def test_sequences_begin_anew_after_a_marker_of_a_higher_epoch() -> None:
    states = ProducerStates()
    states.append(data_batch(0, 2, transactional=True))
    states.append(marker_batch(2, epoch=1), marker=COMMIT)
    assert error_of(states, data_batch(2, transactional=True)) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert error_of(states, data_batch(2, epoch=1, transactional=True)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert states.check(data_batch(0, epoch=1, transactional=True)) is ACCEPTED


def test_no_plain_batch_within_a_transaction() -> None:
    states = ProducerStates()
    states.append(data_batch(0, transactional=True))
    assert error_of(states, data_batch(1)) is ErrorCode.INVALID_TXN_STATE
    assert states.check(data_batch(1, transactional=True)) is ACCEPTED


def test_control_batches_that_are_no_marker_change_nothing() -> None:
    states = ProducerStates()
    assert states.append(marker_batch(0), marker=None) is None
    assert len(states) == 0


@pytest.mark.parametrize(
    ("epoch", "coordinator_epoch", "version", "error"),
    [
        (3, 1, 0, ErrorCode.NONE),
        (4, 1, 0, ErrorCode.NONE),
        (2, 1, 0, ErrorCode.INVALID_PRODUCER_EPOCH),
        (3, 0, 0, ErrorCode.TRANSACTION_COORDINATOR_FENCED),
        (3, 1, 2, ErrorCode.INVALID_PRODUCER_EPOCH),
        (4, 1, 2, ErrorCode.NONE),
    ],
)
def test_markers_of_an_open_transaction(epoch: int, coordinator_epoch: int, version: int, error: ErrorCode) -> None:
    states = ProducerStates()
    states.append(marker_batch(0, epoch=3), marker=COMMIT)
    states.append(data_batch(0, epoch=3, transactional=True, offset=1))
    marker = TransactionMarker(True, coordinator_epoch)
    assert states.check_marker(marker_batch(2, epoch=epoch), marker, version) is error


def test_a_repeated_marker_of_a_closed_transaction_is_accepted() -> None:
    states = ProducerStates()
    assert states.check_marker(marker_batch(0), COMMIT, 2) is ErrorCode.NONE
    states.append(marker_batch(0, epoch=3), marker=COMMIT)
    assert states.check_marker(marker_batch(1, epoch=3), COMMIT, 2) is ErrorCode.NONE


# Expiry


def test_idle_producers_expire_and_open_transactions_do_not() -> None:
    states = ProducerStates()
    states.append(data_batch(0, producer_id=1, timestamp_ms=1_000))
    states.append(data_batch(0, producer_id=2, timestamp_ms=1_001, offset=1))
    states.append(data_batch(0, producer_id=3, timestamp_ms=0, transactional=True, offset=2))
    assert states.expire(1_099, 100) == 0
    assert states.expire(1_100, 100) == 1
    assert [state.producer_id for state in states] == [2, 3]
    assert states.check(data_batch(55, producer_id=1)) is ACCEPTED
    states.append(marker_batch(3, producer_id=3, timestamp_ms=50), marker=COMMIT)
    assert states.expire(10_000, 100) == 2


# Snapshots


@pytest.mark.parametrize("name", ["idempotent-0", "transactions-0", "transactions-v2-0"])
def test_replaying_kafkas_log_gives_kafkas_snapshot(name: str) -> None:
    log = memoryview((KAFKA / name / "00000000000000000000.log").read_bytes())
    states = ProducerStates()
    for position, header in read_headers(log):
        marker = decode_transaction_marker(decode_records(log, position)[0]) if header.is_control else None
        if not header.is_control:
            assert states.check(header) is ACCEPTED
        states.append(header, marker=marker)
    [snapshot] = (KAFKA / name).glob("*.snapshot")
    assert states.encode() == snapshot.read_bytes()
    assert snapshot.name == snapshot_file_name(header.next_offset)


def test_aborted_transactions_are_those_of_kafkas_index() -> None:
    folder = KAFKA / "transactions-0"
    log = memoryview((folder / "00000000000000000000.log").read_bytes())
    states = ProducerStates()
    entries = b""
    for position, header in read_headers(log):
        marker = decode_transaction_marker(decode_records(log, position)[0]) if header.is_control else None
        completed = states.append(header, marker=marker)
        if completed and completed.aborted:
            fields = (
                completed.producer_id,
                completed.first_offset,
                completed.last_offset,
                completed.last_stable_offset,
            )
            entries += b"\0\0" + b"".join(field.to_bytes(8, "big") for field in fields)
    assert entries == (folder / "00000000000000000000.txnindex").read_bytes()
    assert states.first_undecided_offset == 9


def test_a_snapshot_restores_the_last_batch_of_each_producer() -> None:
    states = ProducerStates()
    states.append(data_batch(0, 2, producer_id=1, timestamp_ms=5))
    states.append(data_batch(2, 2, producer_id=1, timestamp_ms=6, offset=2))
    states.append(data_batch(0, 2, producer_id=2, timestamp_ms=7, offset=4, transactional=True))
    states.append(marker_batch(6, producer_id=3, epoch=4, timestamp_ms=8), marker=COMMIT)
    again = ProducerStates()
    again.load(states.encode(), now_ms=10)
    assert again.encode() == states.encode()
    assert again.check(data_batch(2, 2, producer_id=1)).duplicate_of == SequencedBatch(3, 3, 1, 6)
    assert again.check(data_batch(4, producer_id=1)) is ACCEPTED
    assert again.ongoing_transactions == {4: 2}
    assert again.check(data_batch(0, producer_id=3, epoch=4)) is ACCEPTED
    assert error_of(again, data_batch(1, producer_id=3, epoch=4)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_open_transactions_are_restored_in_offset_order() -> None:
    states = ProducerStates()
    for offset, producer_id in enumerate((5, 3, 9, 1)):
        states.append(data_batch(0, producer_id=producer_id, offset=offset, transactional=True))
    again = ProducerStates()
    again.load(states.encode(), now_ms=0)
    assert list(again.ongoing_transactions.items()) == [(0, 5), (1, 3), (2, 9), (3, 1)]


def test_loading_replaces_what_was_and_leaves_out_the_expired() -> None:
    states = ProducerStates()
    states.append(data_batch(0, producer_id=1, timestamp_ms=0))
    states.append(data_batch(0, producer_id=2, timestamp_ms=1, offset=1))
    again = ProducerStates()
    again.append(data_batch(0, producer_id=7, transactional=True))
    again.load(states.encode(), now_ms=100, expiration_ms=100)
    assert [state.producer_id for state in again] == [2]
    assert again.first_unstable_offset is None


def test_a_damaged_snapshot_is_refused_and_changes_nothing() -> None:
    states = ProducerStates()
    states.append(data_batch(0))
    good = states.encode()
    longer = good[:2] + crc32c(good[6:] + b"\0").to_bytes(4, "big") + good[6:] + b"\0"
    flipped = [good[:at] + bytes([good[at] ^ 1]) + good[at + 1 :] for at in range(len(good))]
    for bad in [b"", good[:-1], good + b"\0", longer, b"\0\2" + good[2:], *flipped]:
        with pytest.raises(CorruptSnapshot):
            states.load(bad, now_ms=0)
    assert states.encode() == good


def test_an_empty_snapshot_has_no_producers() -> None:
    assert decode_snapshot(ProducerStates().encode()) == []


@pytest.mark.parametrize(
    ("snapshots", "segments", "strays"),
    [
        ([], [0], []),
        ([0, 10, 20], [0, 10, 20], []),
        ([5, 10, 20, 33], [0, 10, 20], [5]),
        ([5, 15], [0, 10, 20], [5, 15]),
        ([25, 35], [0, 10, 20], [25]),
        ([7, 8], [], [7]),
    ],
)
def test_stray_snapshots(snapshots: list[int], segments: list[int], strays: list[int]) -> None:
    assert stray_snapshots(snapshots, segments) == strays


def test_a_producer_takes_little_memory() -> None:
    states = ProducerStates()
    for sequence in range(6):
        states.append(data_batch(sequence, offset=sequence))
    state = states.get(PRODUCER)
    assert state is not None
    held = [getattr(state, name) for name in type(state).__slots__]
    assert sys.getsizeof(state) + sum(map(sys.getsizeof, held)) < 500


def test_what_follows_a_refused_beginning_waits_for_it() -> None:
    states = ProducerStates()
    states.refused(data_batch(0, 2))
    assert error_of(states, data_batch(2)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert states.check(data_batch(0, 2)) is ACCEPTED
    states.append(data_batch(0, 2))
    assert states.check(data_batch(2)) is ACCEPTED


def test_a_refusal_tells_nothing_about_a_producer_that_is_known_or_in_the_middle() -> None:
    states = ProducerStates()
    states.append(data_batch(0))
    states.refused(data_batch(0))
    assert states.check(data_batch(1)) is ACCEPTED
    states.refused(data_batch(5, producer_id=77))
    assert states.get(77) is None

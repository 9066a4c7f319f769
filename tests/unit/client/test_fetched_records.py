"""What of a fetch is for the application: whole batches with a good CRC, no markers, nothing that was aborted."""

from __future__ import annotations

import pytest

from barnabas.client.consuming.fetched_records import FetchedRecords, end_of_batches
from barnabas.protocol.control_records import TransactionMarker, encode_transaction_marker
from barnabas.protocol.messages.fetch import AbortedTransaction
from barnabas.protocol.record_batch import InvalidRecordBatch, Record, encode_batch, read_header
from barnabas.protocol.record_filter import empty_batch
from barnabas.types import TopicPartition

PARTITION = TopicPartition("letters", 0)


def batch(first: int, count: int = 2, producer_id: int = -1) -> bytearray:
    records = [Record(first + index, 1000, None, b"%d" % (first + index)) for index in range(count)]
    if producer_id < 0:
        return encode_batch(records, base_offset=first, leader_epoch=4)
    return encode_batch(
        records,
        base_offset=first,
        leader_epoch=4,
        producer_id=producer_id,
        producer_epoch=0,
        base_sequence=0,
        transactional=True,
    )


def marker(offset: int, producer_id: int, *, committed: bool) -> bytearray:
    return encode_transaction_marker(
        TransactionMarker(committed, 1),
        producer_id=producer_id,
        producer_epoch=0,
        timestamp_ms=1000,
        base_offset=offset,
        leader_epoch=5,
    )


def fetched(*parts: bytearray, offset: int = 0, aborted: tuple[tuple[int, int], ...] = ()) -> FetchedRecords:
    transactions = [AbortedTransaction(producer_id=producer, first_offset=first) for producer, first in aborted]
    return FetchedRecords(PARTITION, memoryview(b"".join(parts)), offset=offset, aborted=transactions)


def offsets(found: FetchedRecords) -> list[int]:
    return [record.offset for record in found.take(1000)]


def test_markers_are_passed_over_and_move_the_position() -> None:
    found = fetched(batch(0, 2, producer_id=9), marker(2, 9, committed=True))
    assert offsets(found) == [0, 1]
    assert (found.next_offset, found.leader_epoch, found.is_exhausted) == (3, 5, True)


def test_a_marker_whose_record_compaction_took_still_ends_its_transaction() -> None:
    emptied = empty_batch(read_header(marker(2, 9, committed=False)))
    parts = (batch(0, 2, producer_id=9), emptied, batch(3, 2, producer_id=9), marker(5, 9, committed=True))
    found = fetched(*parts, aborted=((9, 0),))
    assert offsets(found) == [3, 4]
    assert (found.next_offset, found.is_exhausted) == (6, True)
    assert offsets(fetched(*parts)) == [0, 1, 3, 4], "to who reads what is not committed"


def test_a_marker_alone_gives_nothing_and_moves_the_position() -> None:
    found = fetched(marker(7, 9, committed=True), offset=7)
    assert found.take(10) == []
    assert (found.next_offset, found.is_exhausted) == (8, True)
    again = fetched(marker(7, 9, committed=True), offset=7)
    assert again.take_batch() is None
    assert again.next_offset == 8


def test_what_was_aborted_is_left_out_and_what_comes_after_is_not() -> None:
    found = fetched(
        batch(0, 2, producer_id=9),
        batch(2, 2, producer_id=8),
        batch(4, 1),
        marker(5, 9, committed=False),
        batch(6, 2, producer_id=9),  # its next transaction
        marker(8, 8, committed=True),
        aborted=((9, 0),),
    )
    assert offsets(found) == [2, 3, 4, 6, 7]
    assert found.next_offset == 9


def test_a_transaction_that_was_aborted_from_its_middle_on() -> None:
    """Of a producer with two transactions in the answer, the second is aborted."""
    found = fetched(
        batch(0, 2, producer_id=9), marker(2, 9, committed=True), batch(3, 2, producer_id=9), aborted=((9, 3),)
    )
    assert offsets(found) == [0, 1]
    assert found.next_offset == 5


def test_without_a_list_everything_is_given() -> None:
    assert offsets(fetched(batch(0, 2, producer_id=9), marker(2, 9, committed=False))) == [0, 1]


def test_a_batch_with_a_bad_crc_is_refused_after_the_good_ones() -> None:
    bad = batch(2)
    bad[-1] ^= 1
    found = fetched(batch(0), bad, batch(4))
    assert [record.offset for record in found.take(2)] == [0, 1]
    with pytest.raises(InvalidRecordBatch, match="seek to 4"):
        found.take(10)


def test_what_is_good_before_a_bad_batch_is_given_out_first() -> None:
    bad = batch(2)
    bad[-1] ^= 1
    found = fetched(batch(0), bad)
    assert offsets(found) == [0, 1]
    assert found.next_offset == 2
    for _ in range(2):
        with pytest.raises(InvalidRecordBatch, match="does not match its CRC"):
            found.take(10)


def test_crcs_may_be_left_unchecked() -> None:
    bad = batch(0)
    bad[17] ^= 1
    found = FetchedRecords(PARTITION, memoryview(bytes(bad)), offset=0, check_crcs=False)
    assert offsets(found) == [0, 1]


def test_a_batch_that_came_in_part_is_left_for_the_next_fetch() -> None:
    view = memoryview(b"".join([batch(0), batch(2)[:-3]]))
    found = FetchedRecords(PARTITION, view, offset=0)
    assert offsets(found) == [0, 1]
    assert (found.next_offset, found.is_exhausted) == (2, True)
    assert end_of_batches(view) == 2
    assert end_of_batches(memoryview(bytes(batch(0)[:-1]))) is None


def test_records_before_the_position_are_left_out() -> None:
    found = fetched(batch(0, 5), offset=3)
    assert offsets(found) == [3, 4]
    columns = fetched(batch(0, 5), offset=3).take_batch()
    assert columns is not None
    assert list(columns.offsets) == [3, 4]
    assert list(columns.values) == [b"3", b"4"]

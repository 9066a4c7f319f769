"""The consumer's decoder gives what the plain one gives, whatever a batch looks like, and refuses what that refuses."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from barnabas.client.consuming.fetched_records import FetchedRecords, columns_of
from barnabas.client.consuming.record_decoder import (
    CREATE_TIME,
    LOG_APPEND_TIME,
    ConsumerBatch,
    ConsumerRecord,
    stretches,
)
from barnabas.protocol.compression import Codec
from barnabas.protocol.record_batch import InvalidRecordBatch, Record, decode_records, encode_batch, read_header
from barnabas.types import TopicPartition

PARTITION = TopicPartition("letters", 3)
BASE_MS = 1_700_000_000_000

keys = st.one_of(st.none(), st.binary(max_size=3), st.binary(min_size=60, max_size=70))
values = st.one_of(st.none(), st.binary(max_size=4), st.sampled_from([bytes(63), bytes(64), bytes(200), bytes(9000)]))
headers = st.one_of(st.just([]), st.lists(st.tuples(st.text(max_size=3), st.one_of(st.none(), st.binary(max_size=3)))))


@st.composite
def batches(draw: st.DrawFn) -> list[Record]:
    """Some of records that all look alike, some in which one does not, some of anything."""
    count = draw(st.sampled_from([1, 7, 8, 9, 63, 64, 65, 80, 300, 330]))
    drift_ms = draw(st.sampled_from([0, 0, 1, 7, 40]))
    start_ms = draw(st.sampled_from([0, 100]))
    base = draw(st.sampled_from([0, 5, 1 << 40]))
    gaps = draw(st.sampled_from([0, 0, 0, 2]))
    key, value = draw(keys), draw(values)
    records = [
        Record(base + index * (1 + gaps), BASE_MS + (index and start_ms) + index * drift_ms, key, value, [])
        for index in range(count)
    ]
    for _ in range(draw(st.sampled_from([0, 0, 1, 3]))):
        index = draw(st.integers(0, count - 1))
        timestamp_ms = BASE_MS + draw(st.integers(-100, 20_000))
        records[index] = Record(records[index].offset, timestamp_ms, draw(keys), draw(values), draw(headers))
    return records


def plain(view: memoryview) -> list[ConsumerRecord]:
    header = read_header(view)
    kind = LOG_APPEND_TIME if header.is_log_append_time else CREATE_TIME
    return [
        ConsumerRecord("letters", 3, each.offset, each.timestamp_ms, kind, each.key, each.value, (), 7)
        if not each.headers
        else ConsumerRecord("letters", 3, each.offset, each.timestamp_ms, kind, each.key, each.value, each.headers, 7)
        for each in decode_records(view)
    ]


def decoded(view: memoryview) -> list[ConsumerRecord]:
    found: list[ConsumerRecord] = []
    for stretch in stretches(PARTITION, view, 0, read_header(view)):
        found += stretch.records() if isinstance(stretch, ConsumerBatch) else stretch
    return found


@given(records=batches(), codec=st.sampled_from(list(Codec)), append_time=st.booleans())
@example(records=[Record(i, BASE_MS, None, b"v" * 100, []) for i in range(9000)], codec=Codec.NONE, append_time=False)
@example(records=[Record(i * 3, BASE_MS, None, b"v" * 9, []) for i in range(20)], codec=Codec.NONE, append_time=False)
@example(records=[Record(70 + i, BASE_MS, None, b"v", []) for i in range(200)], codec=Codec.NONE, append_time=True)
@settings(max_examples=50, deadline=None)
def test_as_the_plain_decoder(records: list[Record], codec: Codec, append_time: bool) -> None:
    batch = encode_batch(
        records, base_offset=records[0].offset, codec=codec, leader_epoch=7, log_append_time=append_time
    )
    view = memoryview(bytes(batch))
    expected = plain(view)
    assert decoded(view) == expected
    columns = columns_of(expected)
    assert columns.records() == expected
    assert columns.from_index(1).records() == expected[1:]


@given(records=batches(), data=st.data())
@settings(max_examples=50, deadline=None)
def test_what_the_plain_decoder_refuses_is_refused(records: list[Record], data: st.DataObject) -> None:
    """A byte is changed behind the header. The CRC would tell, so this is about not going astray."""
    batch = encode_batch(records, base_offset=records[0].offset, leader_epoch=7)
    position = data.draw(st.integers(61, len(batch) - 1))
    batch[position] ^= data.draw(st.integers(1, 255))
    view = memoryview(bytes(batch))
    try:
        expected = plain(view)
    except InvalidRecordBatch:
        with pytest.raises(InvalidRecordBatch):
            decoded(view)
    else:
        assert decoded(view) == expected


def test_records_that_look_alike_are_cut_out() -> None:
    """Else the speed would be gone and nothing else would say so."""
    batch = encode_batch([Record(i, BASE_MS + i // 9, b"key!", b"v" * 100) for i in range(500)])
    view = memoryview(bytes(batch))
    found = list(stretches(PARTITION, view, 0, read_header(view)))
    assert [type(each).__name__ for each in found] == ["ConsumerBatch"] * 2  # 64, and the others


@given(
    sizes=st.lists(st.integers(1, 40), min_size=1, max_size=6),
    takes=st.lists(st.integers(1, 50), min_size=1, max_size=5),
    skip=st.integers(0, 100),
    by_batch=st.booleans(),
)
@settings(max_examples=60, deadline=None)
def test_taken_piece_by_piece_nothing_is_lost(sizes: list[int], takes: list[int], skip: int, by_batch: bool) -> None:
    data = bytearray()
    offset = 0
    for size in sizes:
        records = [Record(offset + index, BASE_MS, None, b"%d" % (offset + index)) for index in range(size)]
        data += encode_batch(records, base_offset=offset, leader_epoch=1)
        offset += size
    start = min(skip, offset - 1)
    fetched = FetchedRecords(PARTITION, memoryview(bytes(data)), offset=start)
    found: list[int] = []
    turn = 0
    while not fetched.is_exhausted:
        if by_batch and turn % 3 == 2:
            batch = fetched.take_batch()
            found += batch.offsets if batch is not None else ()
        else:
            found += [record.offset for record in fetched.take(takes[turn % len(takes)])]
        assert fetched.next_offset == (found[-1] + 1 if found else start)
        turn += 1
    assert found == list(range(start, offset))
    assert fetched.next_offset == offset

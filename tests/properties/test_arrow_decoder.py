"""The vectorised decoder gives what the decoder of single records gives, and refuses what it refuses."""

from __future__ import annotations

import random
import sys
from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.protocol.checksum import crc32c
from barnabas.protocol.compression import Codec
from barnabas.protocol.control_records import TransactionMarker, encode_transaction_marker
from barnabas.protocol.record_batch import (
    CRC_START,
    HEADER_BYTES,
    InvalidRecordBatch,
    Record,
    decode_records,
    encode_batch,
    read_header,
    read_headers,
    read_varint,
)
from barnabas.protocol.record_filter import empty_batch
from barnabas.spark import schema
from barnabas.spark.arrow import record_guesses, record_places, record_runs
from barnabas.spark.arrow.decoder import AbortedTransaction, RecordDecoder
from barnabas.spark.arrow.record_places import Piece

EVERYTHING = tuple(schema.ARROW_TYPES)
END = 2**62

texts = st.text(max_size=5)
optional_bytes = st.none() | st.binary(max_size=12) | st.integers(60, 200).map(bytes)
records = st.tuples(
    st.integers(1, 3) | st.integers(60, 70) | st.just(9000),  # how far behind the one before
    st.integers(0, 2**41) | st.integers(-1, 70),
    optional_bytes,
    optional_bytes,
    st.lists(st.tuples(texts, st.none() | st.binary(max_size=4)), max_size=3),
)
equal_records = st.builds(
    lambda count, distance, timestamps_ms, key, value: [
        (distance, timestamps_ms[number % len(timestamps_ms)], key, value, []) for number in range(count)
    ],
    st.integers(1, 400),
    st.sampled_from([1, 3]),
    st.lists(st.integers(0, 100) | st.integers(0, 2**41), min_size=1, max_size=3),
    optional_bytes,
    optional_bytes,
)
batches = st.tuples(
    st.lists(records, min_size=1, max_size=12) | equal_records,
    st.sampled_from(list(Codec)),
    st.booleans(),
)


def encoded(described: list[Any]) -> bytes:
    out = bytearray()
    offset = 0
    for rows, codec, append_time in described:
        base_offset = offset
        made = []
        for distance, timestamp_ms, key, value, headers in rows:
            made.append(Record(offset, timestamp_ms, key, value, headers))
            offset += distance
        out += encode_batch(made, base_offset=base_offset, codec=codec, log_append_time=append_time)
    return bytes(out)


def expected(data: bytes, first_offset: int = 0, end_offset: int = END) -> list[dict[str, Any]]:
    return [
        {
            "key": record.key,
            "value": record.value,
            "topic": "orders",
            "partition": 3,
            "offset": record.offset,
            "timestamp": record.timestamp_ms * 1000,
            "timestampType": int(header.is_log_append_time),
            "headers": [{"key": key, "value": value} for key, value in record.headers] or None,
        }
        for position, header in read_headers(data)
        for record in decode_records(data, position)
        if first_offset <= record.offset < end_offset
    ]


def rows_of(found: list[pa.RecordBatch]) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for batch in found:
        batch.validate(full=True)
        number = batch.schema.get_field_index("timestamp")
        if number >= 0:
            batch = batch.set_column(number, "timestamp", batch.column(number).view(pa.int64()))
        rows += batch.to_pylist()
    return rows


WAYS: list[dict[str, int]] = [
    {"record_runs.RUN_RECORDS_MIN": 1},
    {"record_runs.RUNS_TRIED_MIN": 0, "record_guesses.RECORDS_MIN": 1, "record_guesses.RECORD_BYTES_MAX": sys.maxsize},
    {"record_runs.RUNS_TRIED_MIN": 0, "record_guesses.RECORD_BYTES_MAX": 0},
]


def decoder(*columns: str) -> RecordDecoder:
    return RecordDecoder(topic="orders", partition=3, columns=columns or EVERYTHING)


def decoded(data: bytes, first_offset: int = 0, end_offset: int = END) -> list[dict[str, Any]]:
    """By runs, by guesses, and by walking, each wherever it can be. All must say the same."""
    first, *others = [_decoded(data, first_offset, end_offset, way) for way in WAYS]
    for other in others:
        assert other == first
    return first


def _decoded(data: bytes, first_offset: int, end_offset: int, way: Mapping[str, int]) -> list[dict[str, Any]]:
    with ExitStack() as stack:
        for name, limit in way.items():
            stack.enter_context(mock.patch(f"barnabas.spark.arrow.{name}", limit))
        return rows_of(list(decoder().decode(data, first_offset=first_offset, end_offset=end_offset)))


@given(st.lists(batches, min_size=1, max_size=6))
def test_it_reads_what_was_written(described: list[Any]) -> None:
    data = encoded(described)
    assert decoded(data) == expected(data)


@given(st.lists(batches, min_size=1, max_size=3), st.integers(0, 300), st.integers(0, 300))
def test_offsets_bound_what_is_read(described: list[Any], first_offset: int, count: int) -> None:
    data = encoded(described)
    assert decoded(data, first_offset, first_offset + count) == expected(data, first_offset, first_offset + count)


@pytest.mark.parametrize("sizes", [[100] * 200, [7, 90, 9000, 1_200_000, 33]], ids=["equal", "varied"])
@pytest.mark.parametrize("batch_count", [1, record_places.LANES_MIN - 1, record_places.LANES_MIN * 2])
def test_every_way_of_walking(sizes: list[int], batch_count: int) -> None:
    described = [
        (
            [(1, 5, b"k", bytes(size if number else 50), []) for size in sizes[: 1 + number % len(sizes)]],
            Codec.NONE,
            False,
        )
        for number in range(batch_count)
    ]
    data = encoded(described)
    assert decoded(data) == expected(data)


def test_many_headers_of_few_records() -> None:
    headers = [(f"h{number}", None if number % 3 else b"v" * number) for number in range(300)]
    rows = [(1, 0, None, b"v", headers[: number * 7 % 300]) for number in range(40)]
    data = encoded([(rows, Codec.NONE, False)])
    assert decoded(data) == expected(data)


def test_header_keys_that_are_not_text() -> None:
    data = bytes(encode_batch([Record(0, 0, None, None, [("\udcff!", b"")])]))
    assert decoded(data)[0]["headers"] == [{"key": "\N{REPLACEMENT CHARACTER}!", "value": b""}]


@given(st.lists(batches, min_size=1, max_size=2), st.data())
def test_damage_is_refused_as_it_is_elsewhere(described: list[Any], data_source: st.DataObject) -> None:
    data = bytearray(encoded([(rows, Codec.NONE, append_time) for rows, _, append_time in described]))
    position, header = data_source.draw(st.sampled_from(list(read_headers(data))))
    damaged = data_source.draw(st.integers(position + HEADER_BYTES, position + header.size_bytes - 1))
    data[damaged] = data_source.draw(st.integers(0, 255))
    check_damaged(data, position)


@pytest.mark.parametrize("record", [0, 30, 63, 64, 100, 199])
@pytest.mark.parametrize("key", [None, b"key", b"a longer key"])
def test_damage_within_a_run_is_refused_as_it_is_elsewhere(record: int, key: bytes | None) -> None:
    """Every bit around the key and the value of one record among many that are alike, those of a batch before too."""
    rows = [(1, number // 50, key, b"v" * 70, []) for number in range(200)]
    data = bytearray(encoded([(rows, Codec.NONE, False)] * 2))
    second = len(data) // 2
    end = second + HEADER_BYTES
    for _ in range(record + 1):
        start = end
        size, body = read_varint(data, start)
        end = body + size
    for byte in (*range(start, start + 12 + len(key or b"")), end - 1):
        for bit in range(8):
            damaged = data.copy()
            damaged[byte] ^= 1 << bit
            check_damaged(damaged, second)


@pytest.mark.parametrize("record_count", [199, 201])
def test_a_wrong_count_of_equal_records_is_refused(record_count: int) -> None:
    data = bytearray(encoded([([(1, 0, None, b"v" * 70, [])] * 200, Codec.NONE, False)]))
    data[HEADER_BYTES - 4 : HEADER_BYTES] = record_count.to_bytes(4, "big")
    check_damaged(data, 0)


@pytest.mark.parametrize("before", [[], [48]], ids=["the first one", "one like those before"])
def test_a_record_that_reaches_into_the_next_batch_is_refused(before: list[int]) -> None:
    described = [([(1, 0, None, b"v" * size, [])], Codec.NONE, False) for size in (*before, 40, 40)]
    data = bytearray(encoded(described))
    position, _ = list(read_headers(data))[len(before)]
    for length in (HEADER_BYTES, HEADER_BYTES + 5):  # of the record, and of its value; in zigzag
        data[position + length] += 2 * 8
    check_damaged(data, position)


def check_damaged(data: bytearray, position: int) -> None:
    """Something is wrong behind a right checksum: both decoders refuse it, or both read the same."""
    (header,) = [header for at, header in read_headers(data) if at == position]
    crc = crc32c(memoryview(data)[position + CRC_START : position + header.size_bytes])
    data[position + 17 : position + 21] = crc.to_bytes(4, "big")
    try:
        wanted = expected(bytes(data), -END, END)
    except InvalidRecordBatch:
        for way in WAYS:
            with pytest.raises(InvalidRecordBatch):
                _decoded(bytes(data), -END, END, way)
    else:
        for row in wanted:
            for each in row["headers"] or ():
                each["key"] = each["key"].encode("utf-8", "surrogateescape").decode("utf-8", "replace")
        assert decoded(bytes(data), -END, END) == wanted


@pytest.mark.parametrize("key", [None, b"", b"key"])
def test_records_of_one_size_are_few_runs(key: bytes | None) -> None:
    """A new one begins where the offset delta, and where the timestamp delta takes another byte."""
    rows = [(1, number // 10, key, b"v" * 100, []) for number in range(1000)]
    runs = runs_of(encoded([(rows, Codec.NONE, False)] * 2))
    assert runs is not None
    assert [run.record_count for run in runs] == [64, 576, 360] * 2


def test_records_of_varied_sizes_are_no_runs() -> None:
    rows = [(1, 0, None, b"v" * (50 + number % 7), []) for number in range(1000)]
    assert runs_of(encoded([(rows, Codec.NONE, False)] * 2)) is None


def runs_of(data: bytes) -> list[record_runs.Run] | None:
    return record_runs.find_runs(data, pieces_of(data))


def pieces_of(data: bytes) -> list[Piece]:
    return [
        Piece(header, position + HEADER_BYTES, position + header.size_bytes) for position, header in read_headers(data)
    ]


@pytest.mark.parametrize("key", [None, b"key"])
@pytest.mark.parametrize("batch_count", [1, 20])
def test_small_records_are_found_by_their_look(key: bytes | None, batch_count: int) -> None:
    """Also where values look like records themselves, or like three that follow each other."""
    chance = random.Random(1)
    three_records = bytes(1) + 3 * (b"\x14" + bytes(1) + b"n" * 8 + bytes(1))
    rows = [
        (1, number % 50, key, (b"" if number % 9 else three_records) + chance.randbytes(chance.randint(20, 90)), [])
        for number in range(5000 // batch_count)
    ]
    data = encoded([(rows, Codec.NONE, False)] * batch_count)
    starts = []
    for piece in pieces_of(data):
        position = piece.start
        while position < piece.end:
            starts.append(position)
            size, body = read_varint(data, position)
            position = body + size
    bounds = [(piece.header.record_count, piece.start, piece.end) for piece in pieces_of(data)]
    guessed = record_guesses.guess_starts(np.frombuffer(data, np.uint8), *np.array(bounds).T)
    assert guessed is not None
    assert guessed.tolist() == starts


@pytest.mark.parametrize(
    "row",
    [(1, 0, None, bytes(100), []), (1, 0, None, b"v" * 300, []), (1, 0, None, b"v", [("header", b"v")])],
    ids=["full of zeros", "large", "with headers"],
)
def test_other_records_are_walked(row: tuple[Any, ...]) -> None:
    data = encoded([([row] * 200, Codec.NONE, False)])
    (piece,) = pieces_of(data)
    bounds = (np.array([number]) for number in (200, piece.start, piece.end))
    assert record_guesses.guess_starts(np.frombuffer(data, np.uint8), *bounds) is None


def test_a_wrong_checksum_is_refused() -> None:
    data = bytearray(encoded([([(1, 0, None, b"value", [])], Codec.NONE, False)]))
    data[-2] ^= 1
    with pytest.raises(InvalidRecordBatch, match="checksum"):
        decoded(bytes(data))


def test_a_batch_that_is_cut_short_is_left_for_the_next_piece() -> None:
    data = encoded([([(1, 0, None, b"value", [])], Codec.NONE, False)] * 3)
    size = len(data) // 3
    reader = decoder("offset")
    found = list(reader.decode(data[: 2 * size + 70], first_offset=0, end_offset=END))
    assert [row["offset"] for row in rows_of(found)] == [0, 1]
    assert (reader.position, reader.next_offset) == (2 * size, 2)


def transactional(offset: int, producer_id: int) -> bytes:
    row = Record(offset, 0, None, b"%d" % producer_id)
    return bytes(encode_batch([row], base_offset=offset, producer_id=producer_id, producer_epoch=0, transactional=True))


def marker(offset: int, producer_id: int, committed: bool) -> bytes:
    return bytes(
        encode_transaction_marker(
            TransactionMarker(committed, 0),
            producer_id=producer_id,
            producer_epoch=0,
            timestamp_ms=0,
            base_offset=offset,
        )
    )


def test_aborted_and_control_batches_become_no_rows() -> None:
    data = (
        transactional(0, 7)
        + transactional(1, 8)
        + marker(2, 7, committed=False)
        + transactional(3, 7)
        + marker(4, 8, committed=True)
        + marker(5, 7, committed=True)
        + transactional(6, 7)
        + marker(7, 7, committed=False)
    )
    reader = decoder("offset")
    aborted = [AbortedTransaction(7, 6), AbortedTransaction(7, 0)]
    found = rows_of(list(reader.decode(data, first_offset=0, end_offset=END, aborted=aborted)))
    assert [row["offset"] for row in found] == [1, 3]
    assert reader.next_offset == 8
    uncommitted = rows_of(list(reader.decode(data, first_offset=0, end_offset=END)))
    assert [row["offset"] for row in uncommitted] == [0, 1, 3, 6]


def test_a_marker_whose_record_compaction_took_still_ends_its_transaction() -> None:
    emptied = bytes(empty_batch(read_header(marker(2, 7, committed=False))))
    data = transactional(0, 7) + emptied + transactional(3, 7) + marker(4, 7, committed=True)
    reader = decoder("offset")
    for aborted, offsets in ([AbortedTransaction(7, 0)], [3]), ([], [0, 3]):
        found = rows_of(list(reader.decode(data, first_offset=0, end_offset=END, aborted=aborted)))
        assert [row["offset"] for row in found] == offsets
        assert reader.next_offset == 5


def test_a_remainder_is_no_batch_of_its_own() -> None:
    data = encoded([(([(1, 0, None, b"v", [])] * 10_500), Codec.NONE, False)] * 4)
    found = decoder("offset").decode(data, first_offset=0, end_offset=END)
    assert [batch.num_rows for batch in found] == [21_000, 21_000]


def test_columns_come_as_asked() -> None:
    data = encoded([([(1, 9, b"k", b"v", [])], Codec.NONE, False)])
    (batch,) = decoder("offset", "key").decode(data, first_offset=0, end_offset=END)
    assert batch.schema.names == ["offset", "key"]
    assert batch.to_pylist() == [{"offset": 0, "key": b"k"}]


def test_arrow_batches_are_bounded() -> None:
    data = encoded([(([(1, 0, None, None, [])] * 30_000), Codec.ZSTD, False)] * 5)
    found = list(decoder("offset").decode(data, first_offset=0, end_offset=END))
    assert max(batch.num_rows for batch in found) <= 40_000
    assert sum(batch.num_rows for batch in found) == 150_000

"""Columns become the same bytes as records do one by one, whatever is null, sliced, long or late."""

from __future__ import annotations

import datetime

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.protocol.compression import Codec
from barnabas.protocol.record_batch import Record, crc_matches, decode_records, encode_batch, read_header
from barnabas.spark.arrow.encoder import UnfitRows, batch_starts, encode, record_bytes, rows_of, seal

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
NOW_MS = 1_700_000_000_000
UTC = datetime.UTC

fields = st.none() | st.binary(max_size=20) | st.binary(min_size=125, max_size=140)
header_lists = st.none() | st.lists(st.tuples(st.text(max_size=5), fields), max_size=3)
moments_ms = st.none() | st.integers(NOW_MS - 10**10, NOW_MS + 10**10)
records = st.lists(st.tuples(fields, fields, header_lists, moments_ms), min_size=1, max_size=40)


def arrow(rows: list[tuple]) -> pa.RecordBatch:
    entries = [
        None if headers is None else [{"key": key, "value": value} for key, value in headers]
        for _key, _value, headers, _moment in rows
    ]
    return pa.record_batch(
        {
            "key": pa.array([row[0] for row in rows], pa.binary()),
            "value": pa.array([row[1] for row in rows], pa.binary()),
            "headers": pa.array(entries, HEADERS),
            "timestamp": pa.array(
                [None if row[3] is None else row[3] * 1000 + 999 for row in rows], pa.timestamp("us", "UTC")
            ),
        }
    )


def reference(rows: list[tuple], codec: Codec, *, transactional: bool = False) -> bytes:
    found = [
        Record(offset, NOW_MS if moment is None else moment, key, value, headers or ())
        for offset, (key, value, headers, moment) in enumerate(rows)
    ]
    return bytes(encode_batch(found, codec=codec, transactional=transactional))


@given(records, st.sampled_from(list(Codec)), st.data())
def test_the_bytes_are_those_of_records_encoded_one_by_one(
    rows: list[tuple], codec: Codec, data: st.DataObject
) -> None:
    first = data.draw(st.integers(0, len(rows) - 1))
    starts = sorted({0, *data.draw(st.sets(st.integers(0, len(rows) - first - 1)))})
    columns = rows_of(arrow(rows).slice(first), NOW_MS)
    sliced = rows[first:]
    encoded = encode(columns, starts)
    assert len(encoded) == len(starts)
    upper = record_bytes(columns)
    for each, start, stop in zip(encoded, starts, [*starts[1:], len(sliced)], strict=True):
        sealed = seal(each, codec=codec, transactional=True)
        assert bytes(sealed) == reference(sliced[start:stop], codec, transactional=True)
        assert crc_matches(memoryview(sealed), 0, read_header(sealed))
        assert len(each.data) <= int(upper[start:stop].sum())


@given(records)
def test_taking_rows_reorders_everything_together(rows: list[tuple]) -> None:
    order = np.arange(len(rows))[::-1].copy()
    (encoded,) = encode(rows_of(arrow(rows), NOW_MS).take(order), [0])
    assert bytes(seal(encoded, codec=Codec.NONE)) == reference(rows[::-1], Codec.NONE)


def test_strings_and_absent_columns() -> None:
    batch = pa.record_batch({"value": pa.array(["früh", None, ""])})
    (encoded,) = encode(rows_of(batch, NOW_MS), [0])
    found = decode_records(seal(encoded, codec=Codec.NONE))
    assert [(each.key, each.value, each.timestamp_ms) for each in found] == [
        (None, "früh".encode(), NOW_MS),
        (None, None, NOW_MS),
        (None, b"", NOW_MS),
    ]


def test_no_rows_are_no_batches() -> None:
    assert encode(rows_of(pa.record_batch({"value": pa.array([], pa.binary())}), NOW_MS), []) == []


def test_a_header_without_a_key_is_refused_by_name() -> None:
    batch = pa.record_batch({"value": pa.array([b"x"]), "headers": pa.array([[{"key": None, "value": b"y"}]], HEADERS)})
    with pytest.raises(UnfitRows, match="column headers"):
        encode(rows_of(batch, NOW_MS), [0])


@given(
    st.lists(st.tuples(st.integers(1, 500), st.integers(0, 3)), min_size=1, max_size=60),
    st.integers(62, 1500),
)
def test_cuts_keep_to_slots_and_to_the_bound(rows: list[tuple[int, int]], batch_bytes: int) -> None:
    rows = sorted(rows, key=lambda row: row[1])
    sizes = np.asarray([size for size, _slot in rows])
    slots = np.asarray([slot for _size, slot in rows])
    starts = batch_starts(sizes, slots, batch_bytes)
    assert starts[0] == 0
    assert starts == sorted(set(starts))
    for start, stop in zip(starts, [*starts[1:], len(rows)], strict=True):
        assert len(set(slots[start:stop].tolist())) == 1
        assert stop == start + 1 or sizes[start:stop].sum() <= batch_bytes - 61
        if stop < len(rows) and slots[stop] == slots[start]:
            assert sizes[start : stop + 1].sum() > batch_bytes - 61, "it could have held one more"

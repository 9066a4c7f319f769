"""Rows go where Kafka's clients would send them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.spark.arrow.encoder import UnfitRows
from barnabas.spark.writing.partitioning import LONG_KEY_BYTES, Partitioner, murmur2, murmur2_of, topics_of

# What Kafka's Java client computes, as signed numbers.
KNOWN = {
    b"21": -973932308,
    b"foobar": -790332482,
    b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    b"abc": 479470107,
}


def test_known_hashes() -> None:
    found = murmur2(pa.array(list(KNOWN), pa.binary()))
    assert found.view(np.int32).tolist() == list(KNOWN.values())


@given(st.lists(st.none() | st.binary(max_size=40) | st.binary(min_size=LONG_KEY_BYTES, max_size=600)), st.data())
def test_all_at_once_as_one_by_one(keys: list[bytes | None], data: st.DataObject) -> None:
    first = data.draw(st.integers(0, len(keys)))
    found = murmur2(pa.array(keys, pa.binary()).slice(first)).tolist()
    assert [each for each, key in zip(found, keys[first:], strict=True) if key is not None] == [
        murmur2_of(key) for key in keys[first:] if key is not None
    ]


def place(partitioner: Partitioner, batch: pa.RecordBatch, topic: str | None = "t") -> list[tuple[str, int]]:
    key = batch.column("key") if "key" in batch.schema.names else None
    placed = partitioner.place(batch, topic, key, np.full(batch.num_rows, 100))
    return [placed.targets[slot] for slot in placed.slots.tolist()]


def test_a_partition_column_goes_before_the_key_and_the_key_before_choice() -> None:
    batch = pa.record_batch(
        {
            "key": pa.array([b"foobar", b"foobar", None], pa.binary()),
            "partition": pa.array([2, None, None], pa.int32()),
        }
    )
    hashed = (KNOWN[b"foobar"] & 0x7FFFFFFF) % 5
    assert place(Partitioner({"t": 5}, 1000, first=4), batch) == [("t", 2), ("t", hashed), ("t", 4)]


def test_rows_without_a_key_fill_a_batch_before_they_go_on() -> None:
    partitioner = Partitioner({"t": 3}, 250)
    nothing = pa.nulls(4)
    batch = pa.record_batch({"x": nothing})
    assert place(partitioner, batch) == [("t", 0), ("t", 0), ("t", 0), ("t", 1)]
    assert place(partitioner, batch) == [("t", 1), ("t", 2), ("t", 2), ("t", 2)]


def test_topics_by_column() -> None:
    batch = pa.record_batch(
        {"topic": ["b", "a", "b"], "partition": pa.array([1, 0, 0], pa.int32()), "key": pa.array([b"", b"", b""])}
    )
    assert topics_of(batch) == ["b", "a"]
    assert place(Partitioner({"a": 1, "b": 2}, 1000), batch, None) == [("b", 1), ("a", 0), ("b", 0)]


@pytest.mark.parametrize("partition", [-1, 2])
def test_a_partition_that_is_not_there_is_named(partition: int) -> None:
    batch = pa.record_batch({"partition": pa.array([0, partition], pa.int32())})
    with pytest.raises(UnfitRows, match=f"partition: {partition} is no partition of topic 't', which has 2"):
        place(Partitioner({"t": 2}, 1000), batch)


def test_a_row_without_a_topic_is_refused() -> None:
    with pytest.raises(UnfitRows, match="column topic"):
        place(Partitioner({"a": 1}, 1000), pa.record_batch({"topic": ["a", None]}), None)

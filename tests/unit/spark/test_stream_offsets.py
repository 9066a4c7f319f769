"""The place of a stream, limits of a batch, splits and lag: all of it numbers."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.config.validation import ConfigError
from barnabas.spark.options import READ_OPTIONS, Options
from barnabas.spark.reading import read_checks
from barnabas.spark.reading.lag import lags_of
from barnabas.spark.reading.offsets import Range
from barnabas.spark.reading.splits import gather, split_ranges
from barnabas.spark.reading.stream_offsets import Place, decode_place, lag, limit_bytes, limit_records
from barnabas.types import TopicPartition

named = st.builds(TopicPartition, st.sampled_from(["orders", "a.b-c"]), st.integers(0, 5))
offsets = st.integers(0, 2**40)


@given(
    st.dictionaries(named, offsets),
    st.dictionaries(named, offsets),
    st.dictionaries(st.sampled_from(["orders", "a.b-c"]), st.binary(min_size=16, max_size=16)),
    st.booleans(),
)
def test_a_place_survives_the_checkpoint(
    ends: dict[TopicPartition, int], began: dict[TopicPartition, int], ids: dict[str, bytes], is_initial: bool
) -> None:
    place = Place(offsets=ends, began=began, topic_ids=ids, is_initial=is_initial)
    assert decode_place(json.loads(json.dumps(place.encode()))) == place


lags = st.dictionaries(st.builds(TopicPartition, st.just("t"), st.integers(0, 9)), st.integers(0, 10_000), min_size=1)


@given(lags, st.integers(1, 20_000))
def test_limits_hold_and_something_is_always_read(by_partition: dict[TopicPartition, int], most: int) -> None:
    start = dict.fromkeys(by_partition, 100)
    end = {each: 100 + number for each, number in by_partition.items()}
    found = limit_records(start, end, most)
    assert found.keys() == end.keys()
    assert all(100 <= found[each] <= end[each] for each in end)
    assert lag(start, found) <= most
    assert lag(start, found) > 0 or lag(start, end) == 0
    if lag(start, end) <= most:
        assert found == end


weighed = st.dictionaries(
    st.builds(TopicPartition, st.just("t"), st.integers(0, 9)),
    st.tuples(st.integers(0, 2000), st.integers(0, 10_000), st.floats(0.1, 5000)),
    min_size=1,
)


@given(weighed, st.integers(1, 10**6))
def test_bytes_are_limited_by_the_weight_of_each_partition(
    described: dict[TopicPartition, tuple[int, int, float]], most: int
) -> None:
    start = {each: first for each, (first, _, _) in described.items()}
    end = {each: first + count for each, (first, count, _) in described.items()}
    weights = {each: weight for each, (_, _, weight) in described.items()}
    found = limit_bytes(start, end, weights, most)
    assert found.keys() == end.keys()
    assert all(start[each] <= found[each] <= end[each] for each in end)
    read = lag(start, found)
    assert read > 0 or lag(start, end) == 0
    size_bytes = sum((found[each] - start[each]) * weights[each] for each in end)
    assert size_bytes <= most * 1.000001 or read == 1


def test_a_record_beyond_the_limit_takes_no_other_partition_back() -> None:
    heavy, light = TopicPartition("t", 0), TopicPartition("t", 1)
    start = {heavy: 1000, light: 1000}
    found = limit_bytes(start, {heavy: 1010, light: 1005}, {heavy: 1000.0, light: 10.0}, 100)
    assert found == {heavy: 1001, light: 1000}


@given(
    st.lists(st.tuples(st.integers(0, 1000), st.integers(1, 5000), st.floats(0.1, 500)), max_size=5),
    st.integers(1, 100_000),
    st.none() | st.integers(1, 40),
    st.none() | st.integers(1, 3000),
)
def test_splits_cover_their_ranges(
    described: list[tuple[int, int, float]], split_bytes: int, least: int | None, most: int | None
) -> None:
    ranges = [
        Range(TopicPartition("t", number), first, first + count) for number, (first, count, _) in enumerate(described)
    ]
    weights = {TopicPartition("t", number): weight for number, (_, _, weight) in enumerate(described)}
    splits = split_ranges(ranges, weights, split_bytes=split_bytes, min_partitions=least, max_records=most)
    for each in ranges:
        own = [split for split in splits if split.partition == each.partition]
        assert own[0].first_offset == each.first_offset
        assert own[-1].end_offset == each.end_offset
        assert all(before.end_offset == after.first_offset for before, after in pairwise(own))
        assert all(split.first_offset < split.end_offset for split in own)
        if most is not None:
            assert all(split.end_offset - split.first_offset <= most for split in own)
    if least is not None and described:
        smallest = min(count for _, count, _ in described)
        assert len(splits) >= min(least, smallest)


def test_skew_is_cut() -> None:
    ranges = [Range(TopicPartition("t", 0), 0, 1_000_000), Range(TopicPartition("t", 1), 0, 1000)]
    splits = split_ranges(ranges, dict.fromkeys((each.partition for each in ranges), 100.0), split_bytes=10_000_000)
    assert [sum(1 for split in splits if split.partition.partition == number) for number in (0, 1)] == [10, 1]


@given(
    st.lists(st.tuples(st.integers(1, 50), st.floats(0.1, 500)), max_size=12), st.integers(0, 5000), st.integers(1, 60)
)
def test_small_ranges_share_a_task(described: list[tuple[int, float]], bytes_max: int, records_max: int) -> None:
    ranges = [Range(TopicPartition("t", number), 7, 7 + count) for number, (count, _) in enumerate(described)]
    weights = {TopicPartition("t", number): weight for number, (_, weight) in enumerate(described)}
    tasks = gather(ranges, weights, bytes_max=bytes_max, records_max=records_max)
    assert [each for task in tasks for each in task] == ranges

    def fits(task: list[Range], tolerance: float = 1e-9) -> bool:
        counts = {each.partition: each.end_offset - each.first_offset for each in task}
        size_bytes = sum(count * weights[each] for each, count in counts.items())
        return size_bytes <= bytes_max * (1 + tolerance) and sum(counts.values()) <= records_max

    assert all(len(task) == 1 or fits(task) for task in tasks)
    assert not any(fits([*before, after[0]], -1e-9) for before, after in pairwise(tasks)), "there was room for more"


def test_lag_is_what_lies_between() -> None:
    end = Place(offsets={TopicPartition("t", 0): 5, TopicPartition("t", 1): 7}, topic_ids={"t": bytes(16)}).encode()
    latest = {"t": {"0": 15, "1": 7, "2": 3}}
    others = [("17", "18"), (None, None), ({}, {}), ("no JSON", "")]
    (found,) = lags_of("q", 3, [(json.dumps(end), json.dumps(latest)), *others])
    assert (found.query, found.batch_id, found.total, found.most) == ("q", 3, 10, 10)
    assert found.by_partition == {("t", 0): 10, ("t", 1): 0, ("t", 2): 0}


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"maxOffsetsPerTrigger": "5"}, "is for streams"),
        ({"groupId": "g"}, "committed"),
        ({"startingOffsets": "committed"}, "whose offsets"),
        ({"logDirs": "/x", "kafka.bootstrap.servers": "h:1"}, "no broker is asked"),
        ({"logDirs": "/x", "kafka.isolation.level": "some"}, "neither"),
        ({"kafka.bootstrap.servers": ""}, "bootstrap.servers is missing"),
        ({"kafka.fetch.max.byte": "5", "kafka.bootstrap.servers": "h:1"}, "did you mean fetch.max.bytes"),
        ({"kafka.check.crcs": "false", "kafka.bootstrap.servers": "h:1"}, "always checked"),
    ],
)
def test_batches_refuse_what_has_no_effect(given: dict[str, str], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        read_checks.check_batch(Options({"subscribe": "t", **given}, READ_OPTIONS))


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"endingOffsets": "latest"}, "is for batch queries"),
        ({"logDirs": "/x"}, "is for batch queries"),
        ({"maxTriggerDelay": "5s"}, "minOffsetsPerTrigger"),
        ({"minOffsetsPerTrigger": "5", "maxOffsetsPerTrigger": "4"}, "more than maxOffsetsPerTrigger"),
    ],
)
def test_streams_refuse_what_has_no_effect(given: dict[str, str], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        read_checks.check_stream(Options({"subscribe": "t", "kafka.bootstrap.servers": "h:1", **given}, READ_OPTIONS))


def test_a_schema_must_be_that_of_the_source() -> None:
    options = Options({"subscribe": "t", "columns": "key,value"}, READ_OPTIONS)
    read_checks.check_schema(["key", "value"], options)
    with pytest.raises(ConfigError, match="with the option columns"):
        read_checks.check_schema(["value"], options)

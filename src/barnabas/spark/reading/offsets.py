"""Where a read begins and ends: what was asked for, turned into one offset for each partition.

Owns the meaning of startingOffsets, endingOffsets and the options by timestamp, in the order in which Spark's own
connector lets them win: startingTimestamp, then startingOffsetsByTimestamp, then startingOffsets. Also offsets as
Spark stores them, {"topic": {"0": 17}}.
Always holds: an offset that a partition does not have is refused or told, never moved in silence.
Does not know: where offsets come from; they are given as `Bounds` and as answers to timestamps.
"""

from collections.abc import Callable, Collection, Mapping
from typing import Any, NamedTuple

from barnabas.config.validation import ConfigError
from barnabas.protocol.special_numbers import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP  # Spark's JSON has the same
from barnabas.spark.options import COMMITTED, EARLIEST, LATEST, Options, PartitionNumbers
from barnabas.types import Offset, TopicPartition


class Bounds(NamedTuple):
    """What a partition has: `earliest <= offset < latest`."""

    earliest: Offset
    latest: Offset


class Point(NamedTuple):
    """One end of what is to be read of a partition."""

    number: int  # an offset, EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, or a timestamp
    is_timestamp: bool = False


class Range(NamedTuple):
    """What is to be read of one partition."""

    partition: TopicPartition
    first_offset: Offset
    end_offset: Offset


class OffsetError(Exception):
    """An offset that cannot be read from. The message names partition and offset."""


def starting_points(
    options: Options,
    partitions: Collection[TopicPartition],
    default: str,
    committed: Mapping[TopicPartition, Offset] | None = None,
) -> dict[TopicPartition, Point]:
    """`committed` is what the group of `groupId` has committed; partitions without begin at the default."""
    if options["startingTimestamp"] is not None:
        return dict.fromkeys(partitions, Point(options["startingTimestamp"], is_timestamp=True))
    if options["startingOffsetsByTimestamp"] is not None:
        name = "startingOffsetsByTimestamp"
        return {each: Point(found, is_timestamp=True) for each, found in _each(name, options[name], partitions).items()}
    given = options["startingOffsets"]
    whole = Point(
        EARLIEST_TIMESTAMP if (default if given in (None, COMMITTED) else given) == EARLIEST else LATEST_TIMESTAMP
    )
    if given == COMMITTED:
        found = committed or {}
        return {each: Point(found[each]) if each in found else whole for each in partitions}
    if isinstance(given, dict):
        marks = (EARLIEST_TIMESTAMP, LATEST_TIMESTAMP)
        return _points("startingOffsets", _each("startingOffsets", given, partitions), marks)
    return dict.fromkeys(partitions, whole)


def ending_points(options: Options, partitions: Collection[TopicPartition]) -> dict[TopicPartition, Point]:
    if options["endingTimestamp"] is not None:
        return dict.fromkeys(partitions, Point(options["endingTimestamp"], is_timestamp=True))
    if options["endingOffsetsByTimestamp"] is not None:
        name = "endingOffsetsByTimestamp"
        return {each: Point(found, is_timestamp=True) for each, found in _each(name, options[name], partitions).items()}
    given = options["endingOffsets"]
    if isinstance(given, dict):
        return _points("endingOffsets", _each("endingOffsets", given, partitions), (LATEST_TIMESTAMP,))
    return dict.fromkeys(partitions, Point(LATEST_TIMESTAMP))


def _each(name: str, given: PartitionNumbers, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
    """One number for each partition: none missing, none unknown."""
    found = {TopicPartition(topic, each): number for topic, some in given.items() for each, number in some.items()}
    missing = sorted(set(partitions) - set(found))
    unknown = sorted(set(found) - set(partitions))
    if missing:
        raise ConfigError(f"{name} says nothing of {_listed(missing)}; use -2 for earliest and -1 for latest")
    if unknown:
        raise ConfigError(f"{name} names {_listed(unknown)}, which this read does not include")
    return {each: found[each] for each in partitions}


def _points(name: str, found: Mapping[TopicPartition, int], marks: tuple[int, ...]) -> dict[TopicPartition, Point]:
    for partition, number in found.items():
        if number < 0 and number not in marks:
            raise ConfigError(f"{name}: {number} for {partition} is no offset; only {marks} have a meaning below 0")
    return {partition: Point(number) for partition, number in found.items()}


def _listed(partitions: list[TopicPartition]) -> str:
    shown = ", ".join(str(each) for each in partitions[:5])
    return shown if len(partitions) <= 5 else f"{shown} and {len(partitions) - 5} more"


ByTime = Mapping[tuple[TopicPartition, int], Offset | None]


def resolve_start(point: Point, partition: TopicPartition, bounds: Bounds, by_time: ByTime, strategy: str) -> Offset:
    """`strategy` says what becomes of a time that nothing is as late as."""
    if not point.is_timestamp:
        return _resolve(point, bounds)
    found = by_time[partition, point.number]
    if found is not None and found >= bounds.latest:
        found = None  # it is there, but not for a reader who is held back by an open transaction
    if found is None and strategy == "error":
        raise OffsetError(
            f"no record of {partition} is as late as the starting timestamp {point.number}; "
            "give startingOffsetsByTimestampStrategy=latest to begin at its end"
        )
    return bounds.latest if found is None else found


def resolve_end(point: Point, partition: TopicPartition, bounds: Bounds, by_time: ByTime) -> Offset:
    if not point.is_timestamp:
        return _resolve(point, bounds)
    found = by_time[partition, point.number]
    return bounds.latest if found is None else min(found, bounds.latest)


def _resolve(point: Point, bounds: Bounds) -> Offset:
    if point.number == EARLIEST_TIMESTAMP:
        return bounds.earliest
    return bounds.latest if point.number == LATEST_TIMESTAMP else point.number


def bounded(
    partition: TopicPartition,
    first_offset: Offset,
    end_offset: Offset,
    bounds: Bounds,
    *,
    fail: bool,
    tell: Callable[[str], None],
) -> Range:
    """The range within what the partition has. Where something asked for is not there: OffsetError, or it is told."""
    problem = None
    if first_offset < bounds.earliest and first_offset < end_offset:
        lost_end = min(bounds.earliest, end_offset)
        problem = f"offsets {first_offset} to {lost_end - 1} of {partition} are gone: it begins at {bounds.earliest}"
    elif end_offset > bounds.latest:
        problem = f"offset {end_offset} of {partition} was asked for, and it ends at {bounds.latest}"
    elif first_offset > bounds.latest:
        problem = f"offset {first_offset} of {partition} was asked for, and it ends at {bounds.latest}"
    if problem is not None:
        if fail:
            raise OffsetError(f"{problem}; give failOnDataLoss=false to read what is there")
        tell(f"{problem}; reading what is there")
    first_offset = min(max(first_offset, bounds.earliest), bounds.latest)
    return Range(partition, first_offset, max(first_offset, min(end_offset, bounds.latest)))


class BatchPoints(NamedTuple):
    """Both ends of what a batch query reads, as asked for."""

    starts: dict[TopicPartition, Point]
    ends: dict[TopicPartition, Point]

    def times(self) -> set[tuple[TopicPartition, int]]:
        """What must be looked up by time."""
        return {
            (partition, point.number)
            for some in (self.starts, self.ends)
            for partition, point in some.items()
            if point.is_timestamp
        }


def batch_points(
    options: Options,
    partitions: Collection[TopicPartition],
    committed: Mapping[TopicPartition, Offset] | None = None,
) -> BatchPoints:
    if options["startingOffsets"] == LATEST:
        raise ConfigError("startingOffsets=latest has no meaning for a batch query, which ends at latest")
    return BatchPoints(starting_points(options, partitions, EARLIEST, committed), ending_points(options, partitions))


def resolve_batch(
    options: Options,
    points: BatchPoints,
    bounds: Mapping[TopicPartition, Bounds],
    by_time: ByTime,
    tell: Callable[[str], None],
) -> list[Range]:
    """What a batch query reads, without empty ranges."""
    strategy = options["startingOffsetsByTimestampStrategy"]
    ranges: list[Range] = []
    for partition, each in bounds.items():
        start, stop = points.starts[partition], points.ends[partition]
        first = resolve_start(start, partition, each, by_time, strategy)
        end = resolve_end(stop, partition, each, by_time)
        if first > end and not (start.is_timestamp or stop.is_timestamp):
            raise OffsetError(f"{partition} is to be read from offset {first}, which lies behind its end {end}")
        ranges.append(bounded(partition, first, max(first, end), each, fail=options["failOnDataLoss"], tell=tell))
    return [each for each in ranges if each.first_offset < each.end_offset]


def encode_offsets(offsets: Mapping[TopicPartition, Offset]) -> dict[str, dict[str, Offset]]:
    """As Spark stores them; sorted, since the text is compared and shown."""
    found: dict[str, dict[str, Offset]] = {}
    for (topic, partition), offset in sorted(offsets.items()):
        found.setdefault(topic, {})[str(partition)] = offset
    return found


def decode_offsets(stored: Mapping[str, Any]) -> dict[TopicPartition, Offset]:
    return {
        TopicPartition(topic, int(partition)): int(offset)
        for topic, offsets in stored.items()
        for partition, offset in offsets.items()
    }

"""What a stream knows of its partitions: which there are, where they end, and whether they are still the same logs.

Always holds: answers are at most some milliseconds old while records come, and a tenth of a second while none do, so
that Spark's asking every ten milliseconds costs little. Does not know: triggers, batches, limits.
"""

import time
from collections.abc import Callable, Collection, Mapping

from barnabas.client.cluster import Cluster
from barnabas.protocol.special_numbers import EARLIEST_TIMESTAMP
from barnabas.spark.connections import Connections
from barnabas.spark.options import COMMITTED, LATEST, Options
from barnabas.spark.reading.batch_reader import BYTES_PER_RECORD, bytes_per_record, cut
from barnabas.spark.reading.brokers import Brokers
from barnabas.spark.reading.fetching import FetchTask
from barnabas.spark.reading.offsets import Range, resolve_start, starting_points
from barnabas.spark.reading.read_settings import ReadConfig
from barnabas.spark.reading.stream_offsets import Place
from barnabas.types import Offset, TopicPartition, Uuid

AGE_MAX_S = 0.01  # of the ends of partitions, while records come
IDLE_AGE_MAX_S = 0.1
IDLE_AFTER_S = 5.0
PARTITIONS_AGE_MAX_S = 1.0  # how soon a new partition is seen
WEIGHTS_AGE_MAX_S = 30.0


class StreamView:
    def __init__(
        self,
        here: Connections,
        cluster: Cluster,
        config: ReadConfig,
        options: Options,
        lose: Callable[[str, bool], None],
    ) -> None:
        self._here = here
        self._brokers = Brokers(cluster, config)
        self._options = options
        self._tell = lose
        self._ids: dict[TopicPartition, Uuid] = {}
        self._ids_s = float("-inf")  # when they were asked for
        self._latest: dict[TopicPartition, Offset] = {}
        self._latest_s = float("-inf")
        self._moved_s = float("-inf")  # when ends were last seen to have moved
        self._weights: dict[TopicPartition, float] = {}
        self._weights_s = float("-inf")

    def _lose(self, what: str) -> None:
        self._tell(what, self._options["failOnDataLoss"])

    # What there is

    def initial_place(self) -> Place:
        """Where a stream begins that never ran. A topic that is named must be there."""
        options = self._options
        self._ids = self._here.run(self._brokers.partitions(options))
        self._ids_s = time.monotonic()
        bounds = self._here.run(self._brokers.bounds(self._ids))
        committed: Mapping[TopicPartition, Offset] = {}
        if options["startingOffsets"] == COMMITTED:
            committed = self._here.run(self._brokers.committed(options["groupId"], self._ids))
        points = starting_points(options, self._ids, LATEST, committed)
        times = {(each, point.number) for each, point in points.items() if point.is_timestamp}
        by_time = self._here.run(self._brokers.by_time(times))
        strategy = options["startingOffsetsByTimestampStrategy"]
        starts = {each: resolve_start(points[each], each, bounds[each], by_time, strategy) for each in self._ids}
        waiting = self._beyond_open_transactions(starts, {each: bounds[each].latest for each in starts})
        offsets: dict[TopicPartition, Offset] = {}
        for each, offset in starts.items():
            if offset < bounds[each].earliest:
                first, last = offset, bounds[each].earliest - 1
                self._lose(f"offsets {first} to {last} of {each} were deleted: the log begins at {last + 1}")
                offset = bounds[each].earliest
            elif offset > bounds[each].latest and each not in waiting:
                self._lose(f"the stream is to begin at offset {offset} of {each}, which ends at {bounds[each].latest}")
                offset = bounds[each].latest
            offsets[each] = offset
        return Place(offsets=offsets, topic_ids=self.topic_ids(), is_initial=True)

    def topic_ids(self) -> dict[str, Uuid]:
        return {each.topic: topic_id for each, topic_id in self._ids.items()}

    def latest(self, *, fresh: bool = False) -> dict[TopicPartition, Offset]:
        """Where each partition ends for this reader."""
        now_s = time.monotonic()
        if fresh or now_s - self._ids_s > PARTITIONS_AGE_MAX_S:
            self._ids = self._here.run(self._brokers.existing(self._options))
            self._ids_s = now_s
        age_max_s = IDLE_AGE_MAX_S if now_s - self._moved_s > IDLE_AFTER_S else AGE_MAX_S
        if fresh or now_s - self._latest_s > age_max_s or self._latest.keys() != self._ids.keys():
            found = self._here.run(self._brokers.latest(self._ids))
            self._latest_s = time.monotonic()
            if found != self._latest:
                self._moved_s = self._latest_s
            self._latest = found
        return self._latest

    def beginnings(self, place: Place, latest: Mapping[TopicPartition, Offset]) -> dict[TopicPartition, Offset]:
        """Where partitions begin that do not go on where the place says; what is lost by that is told."""
        waiting = self._beyond_open_transactions(place.offsets, latest)
        anew: list[TopicPartition] = []
        found: dict[TopicPartition, Offset] = {}
        for each, offset in place.offsets.items():
            topic_id = place.topic_ids.get(each.topic)
            if each not in latest:
                self._lose(f"{each} was deleted; it was read up to offset {offset}, and what followed is lost")
            elif topic_id is not None and topic_id != self._ids[each]:
                self._lose(
                    f"topic {each.topic} was deleted and made anew; the old {each} was read up to offset {offset}, "
                    "and what followed is lost"
                )
                anew.append(each)
            elif offset > latest[each] and each not in waiting:
                self._lose(
                    f"offsets {latest[each]} to {offset - 1} of {each}, which were read, have been cut off its log: "
                    "other records will take their place"
                )
                found[each] = latest[each]
        anew += [each for each in latest if each not in place.offsets]
        if anew:
            earliest = self._here.run(self._brokers.list_offsets(dict.fromkeys(anew, EARLIEST_TIMESTAMP)))
            found.update({each: earliest[each] or 0 for each in anew})
        return found

    def _beyond_open_transactions(
        self, offsets: Mapping[TopicPartition, Offset], latest: Mapping[TopicPartition, Offset]
    ) -> set[TopicPartition]:
        """Where there is nothing to read before a transaction ends, but nothing is lost either."""
        asked = {each: offset for each, offset in offsets.items() if each in latest and offset > latest[each]}
        return self._here.run(self._brokers.beyond_open_transactions(asked)) if asked else set()

    # What a batch reads

    def tasks(self, start: Place, end: Place) -> list[FetchTask]:
        """`began` of the end goes before the start: it is durable."""
        ranges: list[Range] = []
        for each, end_offset in end.offsets.items():
            first_offset = end.began.get(each, start.offsets.get(each, end_offset))
            if first_offset < end_offset:
                ranges.append(Range(each, first_offset, end_offset))
        if not ranges:
            return []
        self.latest()
        there = self._still_there(ranges, end.topic_ids)
        return cut(there, self._ids, self.weights([each.partition for each in there]), self._options)

    def _still_there(self, ranges: list[Range], topic_ids: Mapping[str, Uuid]) -> list[Range]:
        earliest = self._here.run(
            self._brokers.list_offsets(
                {each.partition: EARLIEST_TIMESTAMP for each in ranges if each.partition in self._ids}
            )
        )
        found: list[Range] = []
        for partition, first, end in ranges:
            wanted_id = topic_ids.get(partition.topic)
            if partition not in self._ids or (wanted_id is not None and wanted_id != self._ids[partition]):
                self._lose(f"offsets {first} to {end - 1} of {partition} are gone: the topic was deleted or made anew")
                continue
            begins = earliest[partition] or 0
            if first < begins:
                self._lose(
                    f"offsets {first} to {min(begins, end) - 1} of {partition} were deleted before they were read: "
                    f"the log now begins at {begins}"
                )
            if max(first, begins) < end:
                found.append(Range(partition, max(first, begins), end))
        return found

    def weights(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, float]:
        """About how many bytes an offset of each partition takes."""
        now_s = time.monotonic()
        if now_s - self._weights_s > WEIGHTS_AGE_MAX_S or not self._weights.keys() >= set(partitions):
            bounds = self._here.run(self._brokers.bounds(self._ids))
            filled = [Range(each, *bounds[each]) for each in self._ids if bounds[each].earliest < bounds[each].latest]
            found = self._here.run(bytes_per_record(self._brokers, filled, bounds))
            self._weights = {each: found.get(each, BYTES_PER_RECORD) for each in self._ids}
            self._weights_s = now_s
        return self._weights

    def commit(self, offsets: Mapping[TopicPartition, Offset]) -> None:
        """As the offsets of the group; those of partitions that are gone mean nothing any more."""
        there = {each: offset for each, offset in offsets.items() if each in self._ids}
        if there:
            self._here.run(self._brokers.commit(self._options["groupId"], there))

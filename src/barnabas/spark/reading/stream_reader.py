"""A streaming query: where it is, how far its next batch goes, and what of its partitions has changed meanwhile.

Spark keeps one reader in a process of its own for as long as the query runs, and asks it all the time; a second one,
never asked, is pickled for the tasks. What brokers said is therefore kept for some milliseconds.
Always holds: batches follow each other without gap or overlap; a log that was deleted, cut or made anew is told, as an
error or in the log, with the offsets that are lost; under AvailableNow nothing that came later is read.
Does not know: how records are read; that is `fetching`'s.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

from barnabas.spark.connections import connections
from barnabas.spark.options import Options
from barnabas.spark.reading.batch_reader import read_split
from barnabas.spark.reading.fetching import lose
from barnabas.spark.reading.offsets import encode_offsets
from barnabas.spark.reading.read_settings import read_config
from barnabas.spark.reading.stream_offsets import Place, decode_place, lag, limit_bytes, limit_records
from barnabas.spark.reading.stream_view import StreamView
from barnabas.spark.values.value_format import ValueDecoder
from barnabas.types import Offset, TopicPartition


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, options: Options, schema: pa.Schema, values: ValueDecoder | None = None) -> None:
        self._options = options
        self._schema = schema
        self._values = values
        self._initial: Place | None = None  # the same answer however often Spark asks
        self._target: dict[TopicPartition, Offset] | None = None  # under AvailableNow: where the run ends
        self._triggered_s = float("-inf")  # when a batch was last let through
        self._seen: StreamView | None = None

    # Where the stream is

    def initialOffset(self) -> dict[str, Any]:
        if self._initial is None:
            self._initial = self._view().initial_place()
        return self._initial.encode()

    def prepareForTriggerAvailableNow(self) -> None:
        self._target = self._view().latest(fresh=True)

    def getDefaultReadLimit(self) -> ReadLimit:
        """One of what was asked for, since Spark knows no two at once. `latestOffset` obeys all of them."""
        options = self._options
        if options["maxOffsetsPerTrigger"] is not None:
            return ReadMaxRows(options["maxOffsetsPerTrigger"])
        if options["maxBytesPerTrigger"] is not None:
            return ReadMaxBytes(options["maxBytesPerTrigger"])
        if options["minOffsetsPerTrigger"] is not None:
            return ReadMinRows(options["minOffsetsPerTrigger"])
        return ReadAllAvailable()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        place = decode_place(start)
        end = self._next(place, bounded=not isinstance(limit, ReadAllAvailable))
        return start if end is None else end.encode()

    def _next(self, place: Place, *, bounded: bool) -> Place | None:
        """The end of the next batch; None where there is nothing to do."""
        view = self._view()
        latest = view.latest()
        began = view.beginnings(place, latest)
        offsets = {each: began.get(each, place.offsets.get(each, 0)) for each in latest}
        if self._target is not None:
            # A partition that came later is no part of this run; one that is beyond its target has nothing to do.
            offsets = {
                each: offset for each, offset in offsets.items() if each in self._target or each in place.offsets
            }
            latest = {each: min(latest[each], self._target.get(each, offsets[each])) for each in offsets}
        end = {each: max(offset, latest[each]) for each, offset in offsets.items()}
        if bounded and self._must_wait(lag(offsets, end)):
            return None
        if bounded:
            end = self._limited(offsets, end)
        began = {each: offset for each, offset in began.items() if each in end}
        if end == place.offsets and not place.is_initial and not began:
            return None
        self._triggered_s = time.monotonic()
        if place.is_initial:
            began = {**{each: offsets[each] for each in end}, **began}
        ids = view.topic_ids()
        return Place(offsets=end, began=began, topic_ids={each.topic: ids[each.topic] for each in end})

    def _must_wait(self, available: int) -> bool:
        least = self._options["minOffsetsPerTrigger"]
        if least is None or self._target is not None or available >= least:
            return False
        waited_ms = (time.monotonic() - self._triggered_s) * 1000
        return waited_ms < float(self._options["maxTriggerDelay"])

    def _limited(
        self, start: Mapping[TopicPartition, Offset], end: Mapping[TopicPartition, Offset]
    ) -> dict[TopicPartition, Offset]:
        options, found = self._options, dict(end)
        if options["maxOffsetsPerTrigger"] is not None:
            found = limit_records(start, found, options["maxOffsetsPerTrigger"])
        if options["maxBytesPerTrigger"] is not None:
            found = limit_bytes(start, found, self._view().weights(found), options["maxBytesPerTrigger"])
        return found

    def reportLatestOffset(self) -> dict[str, Any] | None:
        return encode_offsets(self._view().latest())

    # What a batch reads

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        return self._view().tasks(decode_place(start), decode_place(end))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_split(partition, self._options, self._schema, self._values)

    def commit(self, end: dict[str, Any]) -> None:
        if self._options["groupId"] is not None:
            self._view().commit(decode_place(end).offsets)

    # Its view of the cluster

    def _view(self) -> StreamView:
        if self._seen is None:
            config = read_config(self._options.kafka)
            here = connections()
            cluster = here.run(here.cluster(config))
            self._seen = StreamView(here, cluster, config, self._options, lose)
        return self._seen

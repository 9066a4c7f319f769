"""A batch query: its offsets are settled once, when it is planned, and each task reads a piece.

Always holds: what is read is what was there at planning; Spark plans once for each `load()`, so a DataFrame shows the
same rows at each of its actions. Does not know: files, brokers; `scan` and `fetching` do.
"""

import logging
import sys
from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from barnabas.spark.connections import connections
from barnabas.spark.options import COMMITTED, Options
from barnabas.spark.reading import fetching, scan, selection
from barnabas.spark.reading.brokers import Brokers
from barnabas.spark.reading.fetching import FetchSplit, FetchTask
from barnabas.spark.reading.offsets import Bounds, Range, batch_points, resolve_batch
from barnabas.spark.reading.read_settings import READ_COMMITTED, ReadConfig, read_config
from barnabas.spark.reading.scan import ScanSplit
from barnabas.spark.reading.splits import SHARED_BYTES_MAX, gather, split_ranges
from barnabas.spark.values.value_format import ValueDecoder
from barnabas.spark.workers import settle
from barnabas.types import Offset, TopicPartition, Uuid

BYTES_PER_RECORD = 1024.0  # assumed where brokers do not say how large their logs are

logger = logging.getLogger(__name__)


class BatchReader(DataSourceReader):
    def __init__(self, options: Options, schema: pa.Schema, values: ValueDecoder | None = None) -> None:
        self._options = options
        self._schema = schema
        self._values = values

    def partitions(self) -> Sequence[InputPartition]:
        settle()
        options = self._options
        if options["logDirs"]:
            return scan.plan(
                options,
                lambda there: selection.chosen(options, there),
                read_committed=options.kafka.get("isolation.level", READ_COMMITTED) == READ_COMMITTED,
                tell=logger.warning,
            )
        config = read_config(options.kafka)
        here = connections()
        return here.run(_plan(options, config))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_split(partition, self._options, self._schema, self._values)


def read_split(
    partition: InputPartition, options: Options, schema: pa.Schema, values: ValueDecoder | None
) -> Iterator[pa.RecordBatch]:
    """The rows of one task, in the schema that Spark expects."""
    settle()
    wanted = schema.names if values is None else values.columns_needed(schema.names)
    if isinstance(partition, ScanSplit):
        found = scan.read(partition, wanted)
    else:
        assert isinstance(partition, FetchTask)
        found = fetching.read(partition, wanted, options.kafka, fail_on_data_loss=options["failOnDataLoss"])
    if values is not None:
        found = values.decoded(found, schema.names)
    # Whoever gave the schema may have let columns be null that never are.
    return (pa.RecordBatch.from_arrays(each.columns, schema=schema) for each in found)


async def _plan(options: Options, config: ReadConfig) -> list[FetchTask]:
    brokers = Brokers(await connections().cluster(config), config)
    ids = await brokers.partitions(options)
    bounds = await brokers.bounds(ids)
    committed: Mapping[TopicPartition, Offset] = {}
    if options["startingOffsets"] == COMMITTED:
        committed = await _within(brokers, await brokers.committed(options["groupId"], ids), bounds)
    points = batch_points(options, ids, committed)
    by_time = await brokers.by_time(points.times())
    ranges = resolve_batch(options, points, bounds, by_time, logger.warning)
    weights = await bytes_per_record(brokers, ranges, bounds)
    return cut(ranges, ids, weights, options)


async def _within(
    brokers: Brokers, committed: Mapping[TopicPartition, Offset], bounds: Mapping[TopicPartition, Bounds]
) -> dict[TopicPartition, Offset]:
    """A group that has read beyond an open transaction has nothing to read now: it begins where this read ends."""
    beyond = await brokers.beyond_open_transactions(
        {each: offset for each, offset in committed.items() if offset > bounds[each].latest}
    )
    return {each: bounds[each].latest if each in beyond else offset for each, offset in committed.items()}


async def bytes_per_record(
    brokers: Brokers, ranges: Sequence[Range], bounds: Mapping[TopicPartition, Bounds]
) -> dict[TopicPartition, float]:
    """About how much of its log an offset of each partition takes."""
    sizes = await brokers.sizes([each.partition for each in ranges])
    return {
        each: size / (bounds[each].latest - bounds[each].earliest) if size else BYTES_PER_RECORD
        for each, size in sizes.items()
    }


def cut(
    ranges: Sequence[Range],
    ids: Mapping[TopicPartition, Uuid],
    weights: Mapping[TopicPartition, float],
    options: Options,
) -> list[FetchTask]:
    known = {each.partition: weights.get(each.partition, BYTES_PER_RECORD) for each in ranges}
    split_bytes, max_records = options["splitBytes"], options["maxRecordsPerPartition"]
    parts = split_ranges(
        ranges, known, split_bytes=split_bytes, min_partitions=options["minPartitions"], max_records=max_records
    )
    # Whoever wants so many tasks gets them, however small.
    shared_bytes = min(split_bytes, SHARED_BYTES_MAX) if options["minPartitions"] is None else 0
    tasks = gather(parts, known, bytes_max=shared_bytes, records_max=max_records or sys.maxsize)
    return [
        FetchTask(splits=tuple(_split(each, ids[each.partition], known[each.partition]) for each in task))
        for task in tasks
    ]


def _split(part: Range, topic_id: Uuid, bytes_per_record: float) -> FetchSplit:
    return FetchSplit(
        topic=part.partition.topic,
        partition=part.partition.partition,
        topic_id=topic_id,
        first_offset=part.first_offset,
        end_offset=part.end_offset,
        bytes_per_record=bytes_per_record,
    )

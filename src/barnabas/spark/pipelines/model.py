"""What a pipeline is: flows, each from streams to one sink.

    pipeline = Pipeline("orders", servers="localhost:9092")

    @pipeline.flow(TopicSink("totals"))
    def totals(run: Run) -> DataFrame:
        return run.stream("orders").groupBy("key").count().select("key", F.col("count").cast("string").alias("value"))

Always holds: each flow has a name of its own, by which its checkpoint and, for topics, its exactly-once sink are known;
so a pipeline that is started again goes on where it stopped. A row whose column `error` is not null is a failed one:
it goes to the flow's dead-letter topic, and never to its sink. Does not know: when flows start and how they end.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from barnabas.config.validation import ConfigError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Build = Callable[["Run"], "DataFrame"]

SERVERS = "localhost:9092"
TRIGGER = "1 second"
ERROR = "error"
APPEND = "append"  # what Spark calls the output of new rows only


@dataclass(frozen=True, slots=True)
class TopicSink:
    """Rows with the columns of a record; `topic` None: by the column of that name."""

    topic: str | None = None
    servers: str | None = None  # None: those of the pipeline
    options: Mapping[str, str] = field(default_factory=dict)
    exactly_once: bool = True


@dataclass(frozen=True, slots=True)
class FileSink:
    """Files in a directory, each row in one of them once."""

    path: str
    format: str = "parquet"
    partition_by: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class EachBatch:
    """A function of each batch and its number. What it does with a batch that comes again is its own affair."""

    function: Callable[[Run, DataFrame, int], None]


Sink = TopicSink | FileSink | EachBatch


@dataclass(frozen=True, slots=True, kw_only=True)
class Flow:
    name: str
    build: Build
    sink: Sink
    output_mode: str = APPEND
    dead_letter: str | None = None  # topic for rows with an error


@dataclass(frozen=True, slots=True, kw_only=True)
class Polling:
    """Something that is asked again and again, where there is no stream. It gives how many rows it moved."""

    name: str
    poll: Callable[[Run], int]
    is_last: bool = False  # in a run that ends, it waits for the flows to be done


class Pipeline:
    def __init__(
        self,
        name: str,
        *,
        servers: str = SERVERS,
        settings: Mapping[str, str] | None = None,
        checkpoints: str = "checkpoints",
        trigger: str = TRIGGER,
        spark: Mapping[str, str] | None = None,
    ) -> None:
        """`settings` are Kafka's for clients, such as security; `spark` are Spark's."""
        self.name = name
        self.servers = servers
        self.settings = dict(settings or {})
        self.checkpoints = checkpoints
        self.trigger = trigger
        self.spark = dict(spark or {})
        self.flows: dict[str, Flow | Polling] = {}  # by their names, in the order in which they start

    def add(self, *flows: Flow | Polling) -> None:
        for flow in flows:
            if flow.name in self.flows:
                raise ConfigError(f"pipeline {self.name} has two flows of the name {flow.name}")
            self.flows[flow.name] = flow

    def flow(
        self, sink: Sink, *, name: str | None = None, output_mode: str = APPEND, dead_letter: str | None = None
    ) -> Callable[[Build], Build]:
        """Makes a flow of a function that gives its stream."""

        def add(build: Build) -> Build:
            found = name or str(getattr(build, "__name__", "flow"))
            self.add(Flow(name=found, build=build, sink=sink, output_mode=output_mode, dead_letter=dead_letter))
            return build

        return add


class Run:
    """What flows are given: the session, and topics by name."""

    def __init__(
        self,
        pipeline: Pipeline,
        spark: SparkSession,
        *,
        once: bool = False,
        stopped: threading.Event | None = None,
    ) -> None:
        self.pipeline = pipeline
        self.spark = spark
        self.once = once  # end when all that is there now is done
        self.stopped = stopped or threading.Event()  # set when flows are to end: what waits must wait for this as well

    def stream(self, topic: str, **options: Any) -> DataFrame:
        """Records from the first one on; `options` are those of the data source."""
        reader = self.spark.readStream.format("barnabas").options(**self._reading(topic, options))
        return reader.load()

    def records(self, topic: str, **options: Any) -> DataFrame:
        """The records that there are now."""
        return self.spark.read.format("barnabas").options(**self._reading(topic, options)).load()

    def table(self, topic: str, **options: Any) -> DataFrame:
        """A compacted topic as a table: of each key the last record, and none where that has no value.

        The last of a partition is the one with the highest offset. Where a key is in several partitions, as after some
        were added, the newest of their last records counts: between partitions there is no order but time.
        """
        from pyspark.sql import functions as F

        record = F.struct("value", "timestamp")
        last = F.max_by(record, "offset").alias("last")
        newest = F.max_by("last", F.struct("last.timestamp", "partition")).alias("newest")
        return (
            self.records(topic, **options)
            .where("key IS NOT NULL")
            .groupBy("key", "partition")
            .agg(last)
            .groupBy("key")
            .agg(newest)
            .select("key", "newest.value", "newest.timestamp")
            .where("value IS NOT NULL")
        )

    def _reading(self, topic: str, options: Mapping[str, Any]) -> dict[str, str]:
        return {
            **self.client(),
            "subscribe": topic,
            "startingOffsets": "earliest",
            **{name: str(value) for name, value in options.items()},
        }

    def client(self, servers: str | None = None, settings: Mapping[str, str] | None = None) -> dict[str, str]:
        """The options by which sources and sinks find their cluster: the pipeline's own, unless another is named."""
        given = self.pipeline.settings if settings is None else settings
        found = {f"kafka.{name}": value for name, value in given.items()}
        return {**found, "kafka.bootstrap.servers": servers or self.pipeline.servers}

    def sink_id(self, flow: str) -> str:
        return f"{self.pipeline.name}.{flow}"

    def checkpoint(self, flow: str) -> str:
        return str(Path(self.pipeline.checkpoints) / self.pipeline.name / flow)

    def write(self, rows: DataFrame, sink: TopicSink, flow: str, batch_id: int | None = None) -> None:
        """One batch to a topic; with a number it is there once, however often it is written."""
        options = self.sink_options(sink, flow)
        if batch_id is not None and sink.exactly_once:
            options["batchId"] = str(batch_id)
        rows.write.format("barnabas").options(**options).mode("append").save()

    def sink_options(self, sink: TopicSink, flow: str) -> dict[str, str]:
        found = {**self.client(sink.servers), **sink.options}
        if sink.topic is not None:
            found["topic"] = sink.topic
        if sink.exactly_once:
            found |= {"exactlyOnce": "true", "sinkId": self.sink_id(flow)}
        return found

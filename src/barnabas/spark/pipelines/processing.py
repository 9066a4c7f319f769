"""Ready flows of stream processing: counts by window, streams joined with tables, duplicates dropped, or SQL.

Values are JSON where their fields are looked at, and JSON where rows become records. Always holds: a value that cannot
be parsed is a failed row, with the reason in `error`; where the flow has no dead-letter topic, it fails the flow rather
than get lost. Does not know: how flows are run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.config.validation import ConfigError
from barnabas.spark.pipelines.model import ERROR, EachBatch, Flow, Run, TopicSink

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

UNREADABLE = "the value is not JSON of the schema: "


def parsed(rows: DataFrame, schema: str, *, strict: bool = True) -> DataFrame:
    """Adds `data`, the fields of the value, and `error`. Strict: a value that cannot be parsed fails the query."""
    from pyspark.sql import functions as F

    text = F.col("value").cast("string")
    if strict:
        return rows.withColumn("data", F.from_json(text, schema, {"mode": "FAILFAST"}))
    found = rows.withColumn(
        "data", F.from_json(text, f"{schema}, _corrupt STRING", {"columnNameOfCorruptRecord": "_corrupt"})
    )
    wrong = F.col("data").isNull() | F.col("data._corrupt").isNotNull()
    reason = F.concat(F.lit(UNREADABLE), F.coalesce(F.substring(text, 1, 200), F.lit("null")))
    return found.withColumn(ERROR, F.when(wrong, reason)).withColumn("data", F.col("data").dropFields("_corrupt"))


def windowed_counts(
    name: str,
    *,
    source: str,
    sink: str,
    schema: str,
    by: str,
    window: str = "1 minute",
    watermark: str = "10 seconds",
    time: str = "timestamp",
    sum: str | None = None,
) -> Flow:
    """How many records each value of the field `by` has in each window, and the sum of a field where asked for.

    A window is told once, when the watermark has passed it. `time` is the record's timestamp, or `data.<field>`.
    """

    def build(run: Run) -> DataFrame:
        from pyspark.sql import functions as F

        rows = parsed(run.stream(source), schema).select(
            F.col(time).cast("timestamp").alias("time"), F.col(f"data.{by}").alias(by), "data"
        )
        aggregates = [F.count("*").alias("count")]
        if sum is not None:
            aggregates.append(F.sum(f"data.{sum}").alias(sum))
        grouped = rows.withWatermark("time", watermark).groupBy(F.window("time", window), by).agg(*aggregates)
        ends = {"from": F.col("window.start"), "to": F.col("window.end")}
        fields = [column.alias(title) for title, column in ends.items()]
        fields += [F.col(title) for title in grouped.columns if title != "window"]
        return grouped.select(F.col(by).cast("string").alias("key"), F.to_json(F.struct(*fields)).alias("value"))

    return Flow(name=name, build=build, sink=TopicSink(sink))


def deduplicated(
    name: str, *, source: str, sink: str, by: str = "key", schema: str | None = None, watermark: str = "10 minutes"
) -> Flow:
    """The same records without those that came before, within the watermark. `by` is key, value or a field of it."""

    def build(run: Run) -> DataFrame:
        rows = run.stream(source, includeHeaders=True)
        if by not in ("key", "value"):
            rows = parsed(rows, schema or f"{by} STRING").withColumn("_by", _field(by))
        column = by if by in ("key", "value") else "_by"
        found = rows.withWatermark("timestamp", watermark).dropDuplicatesWithinWatermark([column])
        return found.select("key", "value", "headers", "timestamp")

    return Flow(name=name, build=build, sink=TopicSink(sink))


def joined(
    name: str,
    *,
    source: str,
    table: str,
    sink: str,
    schema: str,
    table_schema: str,
    on: str,
    kind: str = "left",
    dead_letter: str | None = None,
) -> Flow:
    """Each record with the fields that a compacted topic has for its field `on`, as that is when a batch begins."""

    def build(run: Run) -> DataFrame:
        return parsed(run.stream(source), schema, strict=dead_letter is None)

    def write(run: Run, rows: DataFrame, batch_id: int) -> None:
        from pyspark.sql import functions as F

        known = parsed(run.table(table), table_schema).select(
            F.col("key").cast("string").alias("_on"), F.col("data").alias("_table")
        )
        found = rows.join(known, F.col(f"data.{on}").cast("string") == F.col("_on"), kind)
        record = F.to_json(F.struct("data.*", "_table.*"))
        out = found.select(F.col("key"), record.alias("value"), F.col("timestamp"))
        run.write(out, TopicSink(sink), name, batch_id)

    return Flow(name=name, build=build, sink=EachBatch(write), dead_letter=dead_letter)


def sql(
    name: str,
    *,
    query: str,
    sources: list[str],
    sink: str,
    schemas: dict[str, str] | None = None,
    output_mode: str = "append",
    dead_letter: str | None = None,
) -> Flow:
    """A query over topics as views by their names; where a schema is given, its fields stand beside the record's.

    Its columns become the record: key, value, headers, timestamp; any other columns become the value, as JSON.
    """

    views = {view_name(source): source for source in reversed(sources)}
    for source in sources:
        if views[view_name(source)] != source:
            raise ConfigError(
                f"flow {name}: topics {views[view_name(source)]} and {source} have the same name as views"
            )

    def build(run: Run) -> DataFrame:
        for source in sources:
            rows = run.stream(source)
            if schemas and source in schemas:
                rows = parsed(rows, schemas[source], strict=dead_letter is None)
                kept = [column for column in rows.columns if column != "data"]
                rows = rows.select(*kept, "data.*")
            rows.createOrReplaceTempView(view_name(source))
        return as_records(run.spark.sql(query))

    return Flow(name=name, build=build, sink=TopicSink(sink), output_mode=output_mode, dead_letter=dead_letter)


def view_name(topic: str) -> str:
    return "".join(each if each.isalnum() else "_" for each in topic)


def as_records(rows: DataFrame) -> DataFrame:
    """Rows as a topic takes them."""
    from pyspark.sql import functions as F

    record = ("key", "value", "headers", "timestamp", "topic", "partition", ERROR)
    others = [column for column in rows.columns if column not in record]
    if "value" in rows.columns or not others:
        return rows.drop(*others)
    kept = [F.col(column) for column in rows.columns if column in record]
    return rows.select(*kept, F.to_json(F.struct(*others)).alias("value"))


def _field(name: str) -> Column:
    from pyspark.sql import functions as F

    return F.col(f"data.{name}")

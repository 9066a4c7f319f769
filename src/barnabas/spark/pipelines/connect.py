"""Ready flows between topics and files: directories in, a lake of Parquet files out.

Always holds: a file counts as read once it stands in the checkpoint, a row as written once its file stands in the
lake's own log; so both are done once. Files must be whole when they appear: write them aside and rename.
Does not know: databases (see `jdbc`), how flows are run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.config.validation import ConfigError
from barnabas.spark.pipelines.model import FileSink, Flow, Run, TopicSink
from barnabas.spark.pipelines.processing import parsed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

FORMATS = ("text", "csv", "json", "parquet", "binaryFile")


def files_in(
    name: str,
    *,
    path: str,
    sink: str,
    format: str = "text",
    schema: str | None = None,
    key: str | None = None,
    pattern: str | None = None,
    files_per_batch: int = 1000,
) -> Flow:
    """New files of a directory: each line of text, each row of csv, json and parquet as JSON, each other file whole."""
    if format not in FORMATS:
        raise ConfigError(f"flow {name}: format {format} is none of {', '.join(FORMATS)}")
    if format in ("csv", "json", "parquet") and schema is None:
        raise ConfigError(f"flow {name}: files of format {format} need a schema")

    def build(run: Run) -> DataFrame:
        from pyspark.sql import functions as F

        reader = run.spark.readStream.format(format).option("maxFilesPerTrigger", files_per_batch)
        if schema is not None:
            reader = reader.schema(schema)
        if pattern is not None:
            reader = reader.option("pathGlobFilter", pattern)
        if format == "csv":
            reader = reader.option("header", "true")
        rows = reader.load(path)
        origin = F.col("_metadata.file_path")
        headers = F.array(F.struct(F.lit("file").alias("key"), origin.cast("binary").alias("value"))).alias("headers")
        if format == "text":
            return rows.select("value", headers)
        if format == "binaryFile":
            return rows.select(F.col("path").alias("key"), F.col("content").alias("value"), headers)
        chosen = [F.col(key).cast("string").alias("key")] if key is not None else []
        return rows.select(*chosen, F.to_json(F.struct(*rows.columns)).alias("value"), headers)

    return Flow(name=name, build=build, sink=TopicSink(sink))


def lake(
    name: str,
    *,
    source: str,
    path: str,
    schema: str | None = None,
    dead_letter: str | None = None,
    time: str = "timestamp",
) -> Flow:
    """A topic as Parquet files, a folder for each date. With a schema its fields are columns, else values are bytes."""

    def build(run: Run) -> DataFrame:
        from pyspark.sql import functions as F

        rows = run.stream(source)
        kept = [F.col(column) for column in ("key", "timestamp", "topic", "partition", "offset")]
        if schema is None:
            return rows.select(*kept, "value", F.to_date(time).alias("date"))
        rows = parsed(rows, schema, strict=dead_letter is None)
        errors = [F.col("error"), F.col("value")] if dead_letter is not None else []
        fields = "data.*"
        return rows.select(*kept, *errors, fields, F.to_date(F.col(time).cast("timestamp")).alias("date"))

    return Flow(name=name, build=build, sink=FileSink(path, partition_by=("date",)), dead_letter=dead_letter)

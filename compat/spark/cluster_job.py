"""A driver on a standalone cluster, which prints what it found as JSON, one line for each of its parts.

cluster_job.py MASTER BOOTSTRAP TOPIC COPY TWICE DIRECTORY

It reads TOPIC as a batch; waits for a line; copies it to COPY by a stream; and writes a batch to TWICE of which Spark
runs one task a second time, since the first attempt hangs with some of its rows written. Both are written exactly once.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from barnabas.spark.session import session

if TYPE_CHECKING:
    from pyarrow import RecordBatch
    from pyspark.sql import SparkSession

SECONDS_MAX = 240
SPECULATION = {
    "spark.speculation": "true",
    "spark.speculation.interval": "200ms",
    "spark.speculation.quantile": "0.5",
    "spark.speculation.multiplier": "1.1",
}
TASKS = 4
ROWS_PER_TASK = 6_000  # of a kilobyte each: more than a task gathers before it sends


def numbers(spark: SparkSession, given: Mapping[str, str]) -> list[int]:
    """How many there are, and their sum."""
    rows = spark.read.format("barnabas").options(**given, splitBytes="200000", columns="value,partition").load()
    found = rows.selectExpr("count(*) AS n", "sum(CAST(trim(CAST(value AS STRING)) AS INT)) AS total").first()
    assert found is not None
    return [found.n, found.total]


def hanging(batches: Iterator[RecordBatch]) -> Iterator[RecordBatch]:
    """The rows; after them the first attempt of the first task does not end."""
    from pyspark import TaskContext

    yield from batches
    context = TaskContext.get()
    assert context is not None
    if context.partitionId() == 0 and context.attemptNumber() == 0:
        time.sleep(10 * SECONDS_MAX)


def is_committed(spark: SparkSession, servers: Mapping[str, str], topic: str, expected: list[int]) -> bool:
    """In time: markers of the last batch may be on their way."""
    given = {**servers, "subscribe": topic, "kafka.isolation.level": "read_committed"}
    deadline = time.monotonic() + SECONDS_MAX
    while (found := numbers(spark, given)) != expected and time.monotonic() < deadline:
        time.sleep(1)
    return found == expected


def daemons(spark: SparkSession) -> int:
    """How many processes fork the Python of two tasks that run at the same time: one for each of Spark's workers."""
    together = spark.sparkContext.parallelize(range(2), 2).barrier()
    return len(set(together.mapPartitions(lambda _: [os.getppid()]).collect()))


def write_twice(spark: SparkSession, servers: Mapping[str, str], topic: str) -> bool:
    rows = spark.range(TASKS * ROWS_PER_TASK, numPartitions=TASKS)
    padded = rows.selectExpr("rpad(CAST(id AS STRING), 1000, ' ') AS value").mapInArrow(hanging, "value string")
    writer = padded.write.format("barnabas").options(**servers, topic=topic, exactlyOnce="true", sinkId=topic)
    writer.mode("append").save()
    count = TASKS * ROWS_PER_TASK
    return is_committed(spark, servers, topic, [count, sum(range(count))])


def main() -> None:
    master, bootstrap, topic, copy, twice, directory = sys.argv[1:]
    settings = {"spark.driver.host": "127.0.0.1", "spark.executor.memory": "512m", "spark.cores.max": "2"}
    spark = session("cluster", master=master, settings={**settings, **SPECULATION})
    servers = {"kafka.bootstrap.servers": bootstrap}
    given = {**servers, "subscribe": topic, "startingOffsets": "earliest"}
    expected = numbers(spark, given)
    print(json.dumps({"batch": expected}), flush=True)
    sys.stdin.readline()  # something may be broken meanwhile
    stream = spark.readStream.format("barnabas").options(**given, maxOffsetsPerTrigger="15000", minPartitions="6")
    writer = stream.load().select("value").writeStream.format("barnabas")
    writer = writer.options(**servers, topic=copy, exactlyOnce="true", checkpointLocation=f"{directory}/checkpoint")
    query = writer.trigger(availableNow=True).start()
    assert query.awaitTermination(SECONDS_MAX)
    print(json.dumps({"stream": is_committed(spark, servers, copy, expected), "daemons": daemons(spark)}), flush=True)
    print(json.dumps({"twice": write_twice(spark, servers, twice)}), flush=True)
    spark.stop()


if __name__ == "__main__":
    main()

"""A driver on a standalone cluster: reads a topic as a batch and as a stream, and prints what it found as JSON.

cluster_job.py MASTER BOOTSTRAP TOPIC DIRECTORY
"""

from __future__ import annotations

import json
import sys

from barnabas.spark.session import session

SECONDS_MAX = 240


def main() -> None:
    master, bootstrap, topic, directory = sys.argv[1:]
    settings = {"spark.driver.host": "127.0.0.1", "spark.executor.memory": "512m", "spark.cores.max": "2"}
    spark = session("cluster", master=master, settings=settings)
    given = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic, "startingOffsets": "earliest"}
    batch = spark.read.format("barnabas").options(**given, splitBytes="200000", columns="value,partition").load()
    found = batch.selectExpr("count(*) AS n", "sum(CAST(CAST(value AS STRING) AS INT)) AS total").first()
    print(json.dumps({"batch": [found.n, found.total]}), flush=True)
    sys.stdin.readline()  # something may be broken meanwhile
    stream = spark.readStream.format("barnabas").options(**given, maxOffsetsPerTrigger="15000").load().select("value")
    writer = stream.writeStream.format("parquet").option("checkpointLocation", f"{directory}/checkpoint")
    query = writer.trigger(availableNow=True).start(f"{directory}/out")
    assert query.awaitTermination(SECONDS_MAX)
    written = spark.read.parquet(f"{directory}/out")
    row = written.selectExpr("count(*) AS n", "sum(CAST(CAST(value AS STRING) AS INT)) AS total").first()
    workers = spark.sparkContext.parallelize(range(8), 8).map(lambda _: __import__("os").getppid()).distinct().count()
    print(json.dumps({"stream": [row.n, row.total], "daemons": workers}), flush=True)
    spark.stop()


if __name__ == "__main__":
    main()

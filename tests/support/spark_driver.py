"""A driver for tests, as a process of its own: copies a topic by a streaming query and, once, dies at a given point.

    python spark_driver.py ADDRESS SOURCE SINK FOLDER POINT [STARTING OFFSETS]

The points are the names of `POINTS`. Death takes everybody: the driver, Spark's JVM and its workers.
Holds: it dies in batch FAULTY_BATCH alone, and only where the folder has no mark of an earlier death.
Workers import this module by its name, so its folder must be on PYTHONPATH.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from barnabas.client.cluster import Cluster
from barnabas.client.producing.transaction import OpenTransaction
from barnabas.spark.source import BarnabasSource
from barnabas.spark.writing import transactional_requests
from barnabas.spark.writing.exactly_once import ExactlyOnce
from barnabas.spark.writing.progress import Batch, Decision
from barnabas.spark.writing.writer import StreamWriter

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

POINTS = ("nowhere", "in a task", "before the decision", "after the decision", "between the ends", "after the ends")
FAULTY_BATCH = 1
RECORDS_PER_BATCH = 15


def die_once(folder: str, how: Any = None) -> None:
    mark = Path(folder) / "died"
    try:
        mark.touch(exist_ok=False)
    except FileExistsError:
        return
    if how is not None:
        how()
    kill_everybody()


def kill_everybody() -> None:
    """Driver, JVM and workers share a session, though Spark gives its workers process groups of their own."""
    listed = subprocess.run(["ps", "-A", "-o", "pid="], capture_output=True, text=True, check=True).stdout
    for pid in map(int, listed.split()):
        try:
            if pid != os.getpid() and os.getsid(pid) == os.getsid(0):
                os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue  # it has just ended
    os.kill(os.getpid(), signal.SIGKILL)


class FaultyProtocol(ExactlyOnce):
    point: str
    folder: str

    async def commit(self, decider: OpenTransaction, batch: Batch, transactions: Sequence[OpenTransaction]) -> None:
        faulty = batch.batch_id == FAULTY_BATCH
        if faulty and self.point == "before the decision":
            die_once(self.folder)
        await self.check_open(batch, transactions)
        decision = Decision(batch, tuple(transactions))
        await self.decide(decider, decision)
        if faulty and self.point == "after the decision":
            die_once(self.folder)
        if faulty and self.point == "between the ends":
            assert len(transactions) > 1, "there is a between"
            await transactional_requests.end(self.cluster, self.config, transactions[0], commit=True)
            die_once(self.folder)
        await self.finish(decision)
        if faulty and self.point == "after the ends":
            die_once(self.folder)


class FaultyWriter(StreamWriter):
    def __init__(self, given: Mapping[str, str], schema: StructType, overwrite: bool) -> None:
        super().__init__({name: text for name, text in given.items() if not name.startswith("x")}, schema, overwrite)
        self.point, self.folder = given["xpoint"], given["xfolder"]

    def protocol(self, cluster: Cluster) -> ExactlyOnce:
        plain = super().protocol(cluster)
        found = FaultyProtocol(plain.cluster, plain.config, plain.sink)
        found.point, found.folder = self.point, self.folder
        return found

    def write_task(self, rows: Iterator[Any], batch: Batch, run: str) -> Any:
        done = super().write_task(rows, batch, run)
        if self.point == "in a task" and batch.batch_id == FAULTY_BATCH and done.row_count:
            die_once(self.folder, lambda: os._exit(1))  # the worker alone: Spark runs the task again
        return done


class FaultySource(BarnabasSource):
    @classmethod
    def name(cls) -> str:
        return "faulty"

    def streamWriter(self, schema: StructType, overwrite: bool) -> FaultyWriter:
        writer = FaultyWriter(self.options, schema, overwrite)
        return writer if self.is_copy else writer.planned()


def main(address: str, source: str, sink: str, folder: str, point: str, begin: str = "earliest") -> None:
    import spark_driver  # by its name, as the workers know it

    from barnabas.spark.session import session

    spark = session("driver", master="local[2, 4]", settings={"spark.sql.shuffle.partitions": "2"})
    spark.dataSource.register(spark_driver.FaultySource)
    copy(spark, address, source, sink, folder, begin, "faulty", xpoint=point, xfolder=folder)
    spark.stop()


def copy(
    spark: SparkSession,
    address: str,
    source: str,
    sink: str,
    folder: str,
    begin: str = "earliest",
    writer: str = "barnabas",
    **more: str,
) -> None:
    """Goes on from the checkpoint in the folder until there is nothing more to copy."""
    servers = {"kafka.bootstrap.servers": address}
    rows = (
        spark.readStream.format("barnabas")
        .options(**servers, subscribe=source, startingOffsets=begin, maxOffsetsPerTrigger=str(RECORDS_PER_BATCH))
        .option("minPartitions", "2")  # two tasks, and so two transactions, however few the rows
        .load()
    )
    query = (
        rows.select("key", "value")
        .writeStream.format(writer)
        .options(**servers, topic=sink, exactlyOnce="true", sinkId=f"copy of {source}", **more)
        .option("checkpointLocation", f"{folder}/checkpoint")
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])

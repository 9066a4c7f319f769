"""The data source as Spark runs it: planned in its workers, read in its tasks, kept in its checkpoints."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from broker_process import BrokerProcess, wait_until
from client_libraries import confluent_kafka as ck
from committed import create_topic
from pyspark.errors import AnalysisException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from barnabas.spark import Lag, LagListener

NOW_MS = time.time_ns() // 1_000_000 - 600_000  # recent, or retention takes the records away
SECONDS_MAX = 300


def produce(served: str, topic: str, values: list[bytes], **facts: Any) -> None:
    producer = ck.Producer({"bootstrap.servers": served, "linger.ms": 20})
    for number, value in enumerate(values):
        producer.produce(topic, value, key=b"k%d" % number, timestamp=NOW_MS + number, **facts)
    assert producer.flush(SECONDS_MAX) == 0


def numbered(first: int, count: int) -> list[bytes]:
    return [b"%d" % number for number in range(first, first + count)]


def read(spark: SparkSession, served: str, topic: str, **given: str) -> DataFrame:
    reader = spark.read.format("barnabas").option("kafka.bootstrap.servers", served).option("subscribe", topic)
    return reader.options(**given).load()


def numbers(rows: list[Any]) -> list[int]:
    return sorted(int(row.value) for row in rows)


def test_a_batch(spark: SparkSession, served: str, new_topic: Callable[..., str]) -> None:
    topic = new_topic(2)
    produce(served, topic, numbered(0, 50), partition=0, headers=[("h", b"1")])
    produce(served, topic, numbered(50, 50), partition=1)
    found = read(spark, served, topic, includeHeaders="true", splitBytes="1024")
    rows = found.collect()
    assert numbers(rows) == list(range(100))
    first = next(row for row in rows if row.value == b"0")
    assert (first.topic, first.partition, first.offset, first.key, first.timestampType) == (topic, 0, 0, b"k0", 0)
    assert int(first.timestamp.timestamp() * 1000) == NOW_MS
    assert [(each.key, each.value) for each in first.headers] == [("h", b"1")]
    assert next(row for row in rows if row.value == b"50").headers is None
    assert found.where("partition = 1").count() == 50
    assert found.count() == 100
    assert read(spark, served, topic, columns="offset,value").columns == ["offset", "value"]
    spark.sql(
        f"CREATE TEMPORARY VIEW reads USING barnabas OPTIONS "
        f"(`kafka.bootstrap.servers` '{served}', subscribe '{topic}')"
    )
    assert spark.sql("SELECT count(*) FROM reads").first()[0] == 100  # type: ignore[index]


def test_what_is_never_null(spark: SparkSession, served: str, new_topic: Callable[..., str]) -> None:
    """Also for whoever gives a schema that says less."""
    topic = new_topic()
    produce(served, topic, numbered(0, 10))
    found = read(spark, served, topic, columns="key,value,topic,partition,offset,timestamp,timestampType,headers")
    assert [field.name for field in found.schema if field.nullable] == ["key", "value", "headers"]
    reader = spark.read.format("barnabas").schema("value binary, offset bigint").option("subscribe", topic)
    looser = reader.options(**{"kafka.bootstrap.servers": served, "columns": "value,offset"}).load()
    assert all(field.nullable for field in looser.schema)
    assert sorted(row.offset for row in looser.collect()) == list(range(10))


def test_typed_values(spark: SparkSession, served: str, new_topic: Callable[..., str]) -> None:
    topic = new_topic()
    produce(served, topic, [json.dumps({"name": "a", "price": number / 2}).encode() for number in range(10)])
    given = {"valueFormat": "json", "valueSchema": "name string, price double, day date"}
    assert read(spark, served, topic, **given).selectExpr("sum(value.price) AS total").first().total == 22.5  # type: ignore[union-attr]


def test_bad_input_is_named(spark: SparkSession, served: str, new_topic: Callable[..., str]) -> None:
    with pytest.raises(AnalysisException, match=r"subscrib is not an option.*did you mean subscribe"):
        spark.read.format("barnabas").option("subscrib", "t").load()
    with pytest.raises(Exception, match="topic nowhere-to-be-found does not exist"):
        read(spark, served, "nowhere-to-be-found").count()


def test_a_stream_and_its_lag(spark: SparkSession, served: str, new_topic: Callable[..., str], tmp_path: Path) -> None:
    topic = new_topic(2)
    produce(served, topic, numbered(0, 100), partition=0)
    lags: list[Lag] = []
    listener = LagListener(lags.append)
    spark.streams.addListener(listener)
    try:
        query = started(spark, served, topic, tmp_path, startingOffsets="earliest", maxOffsetsPerTrigger="40")
        assert query.awaitTermination(SECONDS_MAX)
        produce(served, topic, numbered(100, 10), partition=1)
        again = started(spark, served, topic, tmp_path, startingOffsets="earliest", maxOffsetsPerTrigger="40")
        assert again.awaitTermination(SECONDS_MAX)
        wait_until(lambda: len(lags) >= 4, "the batches are reported")
    finally:
        spark.streams.removeListener(listener)
    assert numbers(spark.read.parquet(str(tmp_path / "out")).collect()) == list(range(110))
    assert [each.total for each in lags[:3]] == [60, 20, 0]


def started(spark: SparkSession, served: str, topic: str, directory: Path, **given: str) -> Any:
    stream = spark.readStream.format("barnabas").option("kafka.bootstrap.servers", served).option("subscribe", topic)
    rows = stream.options(**given).load().select("value")
    writer = rows.writeStream.format("parquet").option("checkpointLocation", str(directory / "checkpoint"))
    return writer.trigger(availableNow=True).start(str(directory / "out"))


def test_a_first_batch_that_fails_loses_nothing(
    spark: SparkSession, served: str, new_topic: Callable[..., str], tmp_path: Path
) -> None:
    """A query from latest dies in its first batch; what came before it is restarted must not be skipped."""
    topic = new_topic()
    produce(served, topic, numbered(0, 5))
    seen: list[int] = []

    def failing(rows: DataFrame, number: int) -> None:
        raise RuntimeError("planned")

    def collecting(rows: DataFrame, number: int) -> None:
        seen.extend(numbers(rows.collect()))

    for handler, values in ((failing, numbered(5, 3)), (collecting, numbered(8, 3))):
        stream = spark.readStream.format("barnabas").option("kafka.bootstrap.servers", served)
        rows = stream.option("subscribe", topic).load()
        query = rows.writeStream.foreachBatch(handler).option("checkpointLocation", str(tmp_path)).start()
        try:
            if handler is failing:
                with pytest.raises(StreamingQueryException, match="planned"):
                    query.awaitTermination(SECONDS_MAX)
            else:
                wait_until(lambda: len(seen) >= 3, "everything is read", seconds=SECONDS_MAX)
        finally:
            query.stop()
        produce(served, topic, values)
    assert seen == [5, 6, 7]


def test_a_direct_scan(spark: SparkSession, tmp_path: Path) -> None:
    with BrokerProcess(data=tmp_path) as broker:
        create_topic(broker.address, "orders", 2)
        produce(broker.address, "orders", numbered(0, 100), partition=0)
        produce(broker.address, "orders", numbered(100, 20), partition=1)
    scan = spark.read.format("barnabas").option("logDirs", str(broker.node_directory)).option("subscribe", "orders")
    assert numbers(scan.load().collect()) == list(range(120))
    later = scan.option("startingTimestamp", str(NOW_MS + 15)).load()
    assert numbers(later.where("partition = 1").collect()) == list(range(115, 120))
    segment = next(broker.node_directory.glob("orders-0/*.log"))
    content = bytearray(segment.read_bytes())
    content[-10] ^= 0xFF
    segment.write_bytes(content)
    with pytest.raises(Exception, match=r"orders-0/0+\.log is damaged at position \d+"):
        scan.load().count()

"""Spark's own connector finds in Barnabas what it finds in Apache Kafka, and this data source finds the same."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from broker_process import wait_until
from client_libraries import confluent_kafka as ck
from committed import committed, create_topic
from pyspark.sql import DataFrame, SparkSession

NOW_MS = time.time_ns() // 1_000_000 - 600_000  # recent, or retention takes the records away
SECONDS_MAX = 120
FORMATS = ("kafka", "barnabas")
Fact = tuple[Any, ...]


def fill(address: str, topic: str) -> None:
    """Keys and none, values and none, headers and none, codecs, transactions that were committed and aborted."""
    create_topic(address, topic, 3)
    for number, codec in enumerate(("none", "gzip", "snappy", "lz4", "zstd")):
        producer = ck.Producer({"bootstrap.servers": address, "compression.type": codec, "linger.ms": 20})
        for each in range(60):
            producer.produce(
                topic,
                None if each % 7 == 0 else b"value-%d-%d" % (number, each) * (1 + each % 3),
                key=None if each % 5 == 0 else b"key-%d" % each,
                headers=[("n", b"%d" % number), ("n", None)] if each % 4 == 0 else None,
                partition=each % 3,
                timestamp=NOW_MS + 1000 * number + each,
            )
        assert producer.flush(SECONDS_MAX) == 0
    producer = ck.Producer({"bootstrap.servers": address, "transactional.id": topic, "linger.ms": 20})
    producer.init_transactions(SECONDS_MAX)
    for end in ("commit", "abort", "commit"):
        producer.begin_transaction()
        for each in range(6):
            producer.produce(topic, end, partition=each % 3, timestamp=NOW_MS + 9000 + each)
        assert producer.flush(SECONDS_MAX) == 0
        getattr(producer, f"{end}_transaction")(SECONDS_MAX)


@pytest.fixture(scope="module")
def filled(barnabas: str, kafka: str) -> tuple[str, str]:
    for address in (barnabas, kafka):
        fill(address, "filled")
    return barnabas, kafka


def facts(rows: DataFrame) -> list[Fact]:
    return sorted(
        (
            (
                row.topic,
                row.partition,
                row.offset,
                None if row.key is None else bytes(row.key),
                None if row.value is None else bytes(row.value),
                row.timestamp,
                row.timestampType,
                None if row.headers is None else [(each.key, each.value and bytes(each.value)) for each in row.headers],
            )
            for row in rows.collect()
        ),
        key=lambda fact: fact[:3],
    )


def read(spark: SparkSession, name: str, address: str, **given: str) -> DataFrame:
    given = {"kafka.bootstrap.servers": address, "subscribe": "filled", "includeHeaders": "true", **given}
    return spark.read.format(name).options(**given).load()


@pytest.mark.parametrize(
    "given",
    [
        {"kafka.isolation.level": "read_uncommitted"},
        {"kafka.isolation.level": "read_committed"},
        {"startingTimestamp": str(NOW_MS + 2000), "endingTimestamp": str(NOW_MS + 4000)},
        {
            "startingOffsets": '{"filled": {"0": 17, "1": -2, "2": 30}}',
            "minPartitions": "7",
            "kafka.isolation.level": "read_uncommitted",
        },
    ],
    ids=["everything", "committed", "by time", "by offset"],
)
def test_batches(spark: SparkSession, filled: tuple[str, str], given: dict[str, str]) -> None:
    barnabas, kafka = filled
    expected = facts(read(spark, "kafka", kafka, **given))
    assert len(expected) > 50
    for name, address in (("kafka", barnabas), ("barnabas", barnabas), ("barnabas", kafka)):
        assert facts(read(spark, name, address, **given)) == expected, (name, address == kafka)


def test_streams(spark: SparkSession, filled: tuple[str, str], tmp_path: Path) -> None:
    barnabas, kafka = filled
    found = {}
    for name in FORMATS:
        for address in (barnabas, kafka):
            place = tmp_path / f"{name}-{address == kafka}"
            stream = spark.readStream.format(name).option("kafka.bootstrap.servers", address)
            stream = stream.option("subscribe", "filled").option("startingOffsets", "earliest")
            stream = stream.option("kafka.isolation.level", "read_uncommitted")
            rows = stream.option("includeHeaders", "true").option("maxOffsetsPerTrigger", "150").load()
            writer = rows.writeStream.format("parquet").option("checkpointLocation", str(place / "checkpoint"))
            query = writer.trigger(availableNow=True).start(str(place / "out"))
            assert query.awaitTermination(SECONDS_MAX)
            assert len(query.recentProgress) >= 3
            found[name, address == kafka] = facts(spark.read.parquet(str(place / "out")))
    assert len(found["kafka", True]) == 318
    assert all(each == found["kafka", True] for each in found.values())


def test_sinks(spark: SparkSession, barnabas: str, kafka: str, tmp_path: Path) -> None:
    rows = spark.range(500).selectExpr(
        "CAST(id AS STRING) AS key",
        "IF(id % 9 = 0, NULL, concat('v', id)) AS value",
        "array(named_struct('key', 'h', 'value', CAST(CAST(id AS STRING) AS BINARY))) AS headers",
        "CAST(id % 2 AS INT) AS partition",
    )
    found = {}
    for address in (barnabas, kafka):
        create_topic(address, "sink", 2)
        to = {"kafka.bootstrap.servers": address, "topic": "sink", "includeHeaders": "true"}
        rows.write.format("kafka").options(**to).save()
        source = tmp_path / str(address == kafka)
        rows.write.parquet(str(source))
        stream = spark.readStream.schema(rows.schema).parquet(str(source))
        writer = stream.writeStream.format("kafka").options(**to)
        query = writer.option("checkpointLocation", f"{source}-checkpoint").trigger(availableNow=True).start()
        assert query.awaitTermination(SECONDS_MAX)
        found[address] = sorted(
            (each.partition(), each.key(), each.value() or b"", each.headers()) for each in committed(address, "sink")
        )
    assert len(found[barnabas]) == 1000
    assert found[barnabas] == found[kafka]


def test_realtime_mode(spark: SparkSession, barnabas: str, tmp_path: Path) -> None:
    """Record by record from topic to topic, which only Spark's own connector can: Barnabas must serve it."""
    for topic in ("realtime-in", "realtime-out"):
        create_topic(barnabas, topic, 1)
    stream = spark.readStream.format("kafka").option("kafka.bootstrap.servers", barnabas)
    rows = stream.option("subscribe", "realtime-in").load().selectExpr("key", "value")
    writer = (
        rows.writeStream.format("kafka").option("kafka.bootstrap.servers", barnabas).option("topic", "realtime-out")
    )
    writer = writer.option("checkpointLocation", str(tmp_path)).outputMode("update")
    query = writer.trigger(realTime="10 seconds").start()
    try:
        producer = ck.Producer({"bootstrap.servers": barnabas})
        sent: list[bytes] = []

        def arrived() -> bool:
            sent.append(b"%d" % len(sent))
            producer.produce("realtime-in", sent[-1])
            assert producer.flush(SECONDS_MAX) == 0
            assert query.exception() is None, query.exception()
            time.sleep(0.05)  # a steady trickle: the query reads from latest, once it has begun
            return len(committed(barnabas, "realtime-out")) >= 20

        wait_until(arrived, "records pass through", seconds=SECONDS_MAX)
    finally:
        query.stop()
    values = [each.value() for each in committed(barnabas, "realtime-out")]
    assert values == sent[-len(values) :] or set(values) <= set(sent)

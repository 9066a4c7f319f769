"""The data source and a secured broker: `kafka.*` settings reach every connection, and no plan shows a secret."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Any

from secured_kafka import CERTIFICATES, client_settings

from barnabas.client import Admin
from barnabas.client.admin.topics import NewTopic

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SECRET = "key-secret"  # of the encrypted key that `client_settings` names
PLANS = ("extended", "formatted")


def create_topics(address: str, *names: str) -> None:
    async def create() -> None:
        settings: dict[str, Any] = {name.replace(".", "_"): value for name, value in client_settings("SSL").items()}
        async with Admin(bootstrap_servers=address, **settings) as admin:
            (await admin.create_topics([NewTopic(name=name, partitions=2) for name in names])).unwrap()

    asyncio.run(create())


def test_a_batch_and_a_stream(spark: SparkSession, behind_tls: str, unique: str, tmp_path: Path) -> None:
    topic, copy, checkpoint = f"{unique}.1", f"{unique}.2", tmp_path / "checkpoint"
    create_topics(behind_tls, topic, copy)
    by_file = {f"kafka.{name}": value for name, value in client_settings("SSL").items()}
    by_file["kafka.bootstrap.servers"] = behind_tls
    # The key itself, rather than a file that each executor must have.
    as_text = {**by_file, "kafka.ssl.keystore.key": (CERTIFICATES / "client-encrypted.pem").read_text()}
    as_text["kafka.ssl.keystore.certificate.chain"] = (CERTIFICATES / "client.pem").read_text()
    del as_text["kafka.ssl.keystore.location"]

    rows = spark.range(100).selectExpr("CAST(id AS STRING) AS value")
    rows.write.format("barnabas").options(**by_file, topic=topic).mode("append").save()
    source = spark.readStream.format("barnabas").options(**by_file, subscribe=topic, startingOffsets="earliest")
    sink = source.load().writeStream.format("barnabas").options(**as_text, topic=copy, exactlyOnce="true")
    query = sink.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
    query.awaitTermination()
    found = spark.read.format("barnabas").options(**as_text, subscribe=copy).load()
    assert found.count() == 100

    said = [found._sc._jvm.PythonSQLUtils.explainString(found._jdf.queryExecution(), plan) for plan in PLANS]
    kept = [path.read_text() for path in checkpoint.rglob("*") if path.is_file() and path.suffix != ".crc"]
    for text in (*said, *kept, str(query.recentProgress)):
        assert SECRET not in text
        assert "PRIVATE KEY" not in text

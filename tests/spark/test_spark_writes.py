"""The sink as Spark runs it: what cannot be written is told in our own words, before a row is sent."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from client_libraries import confluent_kafka as ck
from confluent_io import deliver
from pyspark.errors import AnalysisException, StreamingQueryException
from pyspark.sql import SparkSession

NOBODY = "127.0.0.1:1"  # where no broker can be
SECONDS_MAX = 300


def is_our_own(error: Exception) -> bool:
    """Spark says that a write failed, and of the Python that it ran one error."""
    return str(error).count("Traceback") == 1 and "Pickl" not in str(error)


def test_a_batch_that_cannot_be_written(spark: SparkSession, served: str) -> None:
    rows = spark.range(3).selectExpr("CAST(id AS STRING) AS value").write.format("barnabas").mode("append")
    given = {"kafka.bootstrap.servers": served, "topic": "unheard-of"}
    with pytest.raises(AnalysisException, match="UnknownTopicError: there is no topic 'unheard-of'") as missing:
        rows.options(**given).save()
    assert is_our_own(missing.value)


def test_a_stream_that_cannot_be_written(
    spark: SparkSession, served: str, new_topic: Callable[..., str], tmp_path: Path
) -> None:
    source = new_topic()
    deliver(ck.Producer({"bootstrap.servers": served}), source, [{"value": "never to be seen"}])
    stream = spark.readStream.format("barnabas").options(**{"kafka.bootstrap.servers": served, "subscribe": source})
    rows = stream.option("startingOffsets", "earliest").load().select("value").writeStream.format("barnabas")
    rows.options(**{"kafka.bootstrap.servers": NOBODY, "kafka.request.timeout.ms": "500", "topic": "unheard-of"})
    query = rows.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True).start()
    with pytest.raises(StreamingQueryException, match=f"UnreachableError: no broker answered at {NOBODY}") as nobody:
        query.awaitTermination(SECONDS_MAX)
    assert is_our_own(nobody.value)

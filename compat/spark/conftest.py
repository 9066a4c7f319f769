"""Both brokers with the same records, and a Spark session that has Spark's own Kafka connector.

Without the jars, and Maven to fetch them, every test that asks for these fixtures is skipped with that reason.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src"))
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests" / "support"))

import apache_kafka
import spark_connector
from apache_kafka import ApacheKafka
from broker_process import BrokerProcess
from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def connector() -> None:
    for source in (apache_kafka, spark_connector):
        if reason := source.why_unavailable():
            pytest.skip(reason)
        source.fetch_jars()


@pytest.fixture(scope="session")
def spark(connector: None) -> Iterator[SparkSession]:
    from barnabas.spark.session import session

    found = session("compat", master="local[2]", settings=spark_connector.setting())
    yield found
    found.stop()


@pytest.fixture(scope="session")
def barnabas() -> Iterator[str]:
    with BrokerProcess() as broker:
        yield broker.address
        assert "Traceback" not in broker.errors(), broker.errors()[-8000:]


@pytest.fixture(scope="session")
def kafka(connector: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with ApacheKafka(tmp_path_factory.mktemp("kafka") / "node") as broker:
        yield broker.address

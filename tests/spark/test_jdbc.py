"""A database in and out: every row once on each side, also when flows run again."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import postgres
import pytest
from committed import wait_for_committed

from barnabas.spark.pipelines import Pipeline
from barnabas.spark.pipelines.jdbc import jdbc_in, jdbc_out
from barnabas.spark.pipelines.runner import run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OPTIONS = {"user": "barnabas", "driver": "org.postgresql.Driver"}
pytestmark = pytest.mark.timeout(900)  # on a machine with nothing else to do, a hundredth of that


@pytest.fixture
def database() -> Iterator[postgres.Postgres]:
    reason = postgres.why_unavailable()
    if reason is not None:
        pytest.skip(reason)
    with postgres.Postgres() as found:
        yield found


def test_rows_in_and_out(
    served: str,
    spark: SparkSession,
    database: postgres.Postgres,
    new_topic: Callable[..., str],
    unique: str,
    tmp_path: Path,
) -> None:
    topic = new_topic(2)
    inwards, outwards = (
        Pipeline(f"{unique}.{way}", servers=served, checkpoints=str(tmp_path)) for way in ("in", "out")
    )
    inwards.add(
        jdbc_in(
            "in", url=database.url, table="orders", column="id", key="id", sink=topic, rows_per_poll=2, options=OPTIONS
        )
    )
    fields = "id LONG, dish STRING"
    outwards.add(jdbc_out("out", url=database.url, table="copies", source=topic, schema=fields, options=OPTIONS))
    database.run("CREATE TABLE orders (id BIGINT PRIMARY KEY, dish TEXT)")
    database.run("CREATE TABLE copies (id BIGINT, dish TEXT)")
    database.run("INSERT INTO orders VALUES (3, 'soup'), (5, 'bread'), (9, NULL)")
    assert run(inwards, once=True, spark=spark) == {"in": 3}
    assert run(outwards, once=True, spark=spark) == {"out": 3}
    database.run("INSERT INTO orders VALUES (12, 'tea')")
    assert run(inwards, once=True, spark=spark) == {"in": 1}
    assert run(outwards, once=True, spark=spark) == {"out": 1}
    found = [json.loads(value) for value in sorted(each.value() for each in wait_for_committed(served, topic, 4))]
    assert sorted((each["id"], each.get("dish")) for each in found) == [
        (3, "soup"),
        (5, "bread"),
        (9, None),
        (12, "tea"),
    ]
    assert database.run("SELECT id, dish FROM copies ORDER BY id") == ["3|soup", "5|bread", "9|", "12|tea"]

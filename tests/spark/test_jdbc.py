"""A database in and out, by `barnabas pipeline run` as people call it: every row once on each side."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import postgres
import pytest
from broker_process import wait_until
from committed import values

from barnabas.spark.java import JavaNotFound, find_java

RUN_SECONDS_MAX = 600
pytestmark = pytest.mark.timeout(3 * RUN_SECONDS_MAX)

SPECIFICATION = """
name = "{name}"
servers = "{servers}"
checkpoints = "{folder}/checkpoints"

[spark]
"spark.jars" = "{jar}"
"spark.driver.extraClassPath" = "{jar}"

[flows.in]
kind = "jdbc_in"
url = "{url}"
table = "orders"
column = "id"
key = "id"
sink = "{topic}"
rows_per_poll = 2
options = {{ user = "barnabas", driver = "org.postgresql.Driver" }}

[flows.out]
kind = "jdbc_out"
url = "{url}"
table = "copies"
source = "{topic}"
schema = "id LONG, dish STRING"
options = {{ user = "barnabas", driver = "org.postgresql.Driver" }}
"""


@pytest.fixture(scope="module")
def database() -> Iterator[postgres.Postgres]:
    reason = postgres.why_unavailable()
    if reason is not None:
        pytest.skip(reason)
    if "BARNABAS_CHAOS_SPARK" not in os.environ:
        pytest.skip("make chaos-spark runs it: it starts Spark three times")
    try:
        find_java(os.environ)
    except JavaNotFound as error:
        pytest.skip(str(error))
    with postgres.Postgres() as found:
        yield found


def test_rows_in_and_out(
    served: str, database: postgres.Postgres, new_topic: Callable[..., str], unique: str, tmp_path: Path
) -> None:
    topic = new_topic(2)
    database.run("CREATE TABLE orders (id BIGINT PRIMARY KEY, dish TEXT)")
    database.run("CREATE TABLE copies (id BIGINT, dish TEXT)")
    database.run("INSERT INTO orders VALUES (3, 'soup'), (5, 'bread'), (9, NULL)")
    file = tmp_path / "database.toml"
    file.write_text(
        SPECIFICATION.format(
            name=unique,
            servers=served,
            folder=tmp_path,
            jar=postgres.driver(),
            url=database.url,
            topic=topic,
        )
    )
    run(file)
    database.run("INSERT INTO orders VALUES (12, 'tea')")
    run(file)
    wait_until(lambda: len(values(served, topic)) == 4, "four rows")
    found = [json.loads(each) for each in values(served, topic)]
    assert sorted((each["id"], each.get("dish")) for each in found) == [
        (3, "soup"),
        (5, "bread"),
        (9, None),
        (12, "tea"),
    ]
    run(file)
    assert database.run("SELECT id, dish FROM copies ORDER BY id") == ["3|soup", "5|bread", "9|", "12|tea"]


def run(file: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "barnabas", "pipeline", "run", str(file), "--once", "--master", "local[2]"],
        capture_output=True,
        text=True,
        timeout=RUN_SECONDS_MAX,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-6000:]

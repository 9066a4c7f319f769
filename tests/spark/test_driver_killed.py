"""Spark itself, killed at each point of a commit and started again: every row once for readers of committed records.

One case runs with the suite; `make chaos-spark` runs them all, and those with brokers that die.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from broker_process import wait_until
from client_libraries import confluent_kafka as ck
from cluster_process import ClusterProcess
from committed import create_topic, values
from confluent_io import deliver
from spark_driver import POINTS, copy

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SUPPORT = Path(__file__).resolve().parent.parent / "support"
ROWS = 40
RUN_SECONDS_MAX = 600  # a run takes fifteen on a machine with nothing else to do
IN_THE_SUITE = "between the ends"
EVERYTHING = "BARNABAS_CHAOS_SPARK" in os.environ

pytestmark = [pytest.mark.timeout(3 * RUN_SECONDS_MAX), pytest.mark.usefixtures("java")]


def drive(address: str, source: str, sink: str, folder: Path, point: str, begin: str = "earliest") -> int:
    """One life of the driver; its exit code."""
    command = [sys.executable, str(SUPPORT / "spark_driver.py"), address, source, sink, str(folder), point, begin]
    log = folder / "driver.log"
    with log.open("a") as output:
        done = subprocess.run(
            command,
            stdout=output,
            stderr=output,
            timeout=RUN_SECONDS_MAX,
            env={**os.environ, "PYTHONPATH": str(SUPPORT)},
            start_new_session=True,
            check=False,
        )
    return done.returncode


def send(address: str, topic: str, count: int) -> list[str]:
    rows = [f"row {number:03}" for number in range(count)]
    producer = ck.Producer({"bootstrap.servers": address, "log_level": 0})
    deliver(producer, topic, [{"key": str(place), "value": row} for place, row in enumerate(rows)])
    return rows


def until_done(address: str, source: str, sink: str, folder: Path, point: str) -> list[int]:
    codes = [drive(address, source, sink, folder, point)]
    while codes[-1] != 0:
        assert len(codes) < 4, (folder / "driver.log").read_text()[-4000:]
        codes.append(drive(address, source, sink, folder, point))
    return codes


@pytest.mark.parametrize("point", POINTS)
def test_every_row_once(
    served: str, new_topic: Callable[..., str], spark: SparkSession, tmp_path: Path, point: str
) -> None:
    """The next driver is this process, whose session is there already."""
    if not EVERYTHING and point != IN_THE_SUITE:
        pytest.skip("make chaos-spark runs it")
    source, sink = new_topic(2), new_topic(2)
    rows = send(served, source, ROWS)
    code = drive(served, source, sink, tmp_path, point)
    assert (tmp_path / "died").exists() == (point != "nowhere")
    if point not in ("nowhere", "in a task"):
        assert code == -9, "the driver was killed"
    if code != 0:
        copy(spark, served, source, sink, str(tmp_path))
    wait_until(lambda: values(served, sink) == rows, f"every row once: {values(served, sink)}")


@pytest.mark.skipif(not EVERYTHING, reason="make chaos-spark runs it")
def test_every_row_once_through_the_death_of_a_broker(tmp_path: Path) -> None:
    with ClusterProcess(brokers=3, data=tmp_path / "brokers") as cluster:
        for topic in ("source", "sink"):
            create_topic(cluster.address, topic, 3, min_insync_replicas="2")
        rows = send(cluster.address, "source", ROWS)
        progress = tmp_path / "checkpoint" / "commits" / "0"

        def kill() -> None:
            wait_until(progress.exists, "the first batch is done", seconds=RUN_SECONDS_MAX)
            os.kill(cluster.broker_pid(2), 9)

        killer = threading.Thread(target=kill)
        killer.start()
        until_done(cluster.address, "source", "sink", tmp_path, "after the decision")
        killer.join()
        wait_until(lambda: values(cluster.address, "sink") == rows, "every row once")


@pytest.mark.skipif(not EVERYTHING, reason="make chaos-spark runs it")
def test_a_deleted_checkpoint_is_not_taken_for_done_work(
    served: str, new_topic: Callable[..., str], tmp_path: Path
) -> None:
    """Batches are numbered from the beginning again, under the same sink. The reader is told where it was."""
    source, sink = new_topic(1), new_topic(1)
    rows = send(served, source, 20)
    assert drive(served, source, sink, tmp_path, "nowhere") == 0
    shutil.rmtree(tmp_path / "checkpoint")
    more = send(served, source, 5)
    begin = json.dumps({source: {"0": len(rows)}})
    assert drive(served, source, sink, tmp_path, "nowhere", begin) == 0
    wait_until(lambda: values(served, sink) == sorted(rows + more), "the old rows and the new ones")

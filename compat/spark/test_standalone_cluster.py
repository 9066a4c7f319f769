"""The same jobs beyond one machine: a master, two workers and three brokers, each a process of its own.

A stream is copied exactly once, by tasks on both workers, while a broker is missing; a task that Spark runs a second
time, since its first attempt hangs, leaves nothing of that attempt.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from client_libraries import confluent_kafka as ck
from cluster_process import ClusterProcess
from spark_cluster import SparkCluster

JOB = Path(__file__).with_name("cluster_job.py")
RECORDS = 60_000
SECONDS_MAX = 120


def fill(address: str, topic: str, *others: str) -> None:
    admin = ck.admin.AdminClient({"bootstrap.servers": address})
    for made in admin.create_topics([ck.admin.NewTopic(name, 6, 3) for name in (topic, *others)]).values():
        made.result(SECONDS_MAX)
    producer = ck.Producer({"bootstrap.servers": address, "linger.ms": 20, "acks": "all"})
    for number in range(RECORDS):
        producer.produce(topic, b"%d" % number, partition=number % 6)
        producer.poll(0)
    assert producer.flush(SECONDS_MAX) == 0


def answer(job: subprocess.Popen[str]) -> dict[str, Any]:
    assert job.stdout is not None
    line = job.stdout.readline()
    assert line, f"the job ended with {job.wait(SECONDS_MAX)} before it had answered"
    found: dict[str, Any] = json.loads(line)
    return found


@pytest.mark.timeout(900)  # seven JVMs begin here: a minute on an idle machine, several on a busy one
def test_batch_and_stream_with_a_broker_lost(tmp_path: Path) -> None:
    with ClusterProcess(data=tmp_path / "brokers") as brokers, SparkCluster() as cluster:
        topics = ["spread", "copy", "twice"]
        fill(brokers.address, *topics)
        command = [sys.executable, str(JOB), cluster.master, brokers.address, *topics, str(tmp_path)]
        environment = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1"}
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        ) as job:
            assert job.stdin is not None
            try:
                expected = [RECORDS, sum(range(RECORDS))]
                assert answer(job) == {"batch": expected}
                os.kill(brokers.broker_pid(2), signal.SIGKILL)
                job.stdin.write("go on\n")
                job.stdin.flush()
                found = answer(job)
                assert found["stream"], "each row once"
                assert found["daemons"] == 2, "both workers had a part in it"
                assert answer(job) == {"twice": True}
                assert job.wait(SECONDS_MAX) == 0
            finally:
                job.kill()

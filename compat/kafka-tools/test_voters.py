"""Voters in the metadata log before the eyes of Apache Kafka: its quorum tool changes them, its dump tool reads them,
and Kafka itself takes over the directory of a quorum that Barnabas began."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import apache_kafka
import pytest
from apache_kafka import ApacheKafka, free_port, run_tool
from broker_process import REPOSITORY
from confluent_kafka.admin import AdminClient, NewTopic

WHY_NOT = apache_kafka.why_unavailable()
pytestmark = [
    pytest.mark.java,
    pytest.mark.skipif(WHY_NOT is not None, reason=str(WHY_NOT)),
    pytest.mark.timeout(300),
]
TOOL = "org.apache.kafka.tools.MetadataQuorumCommand"


@pytest.fixture(scope="module", autouse=True)
def jars() -> None:
    apache_kafka.fetch_jars()


class Member:
    """One node of a quorum that is found by the address of the first."""

    def __init__(self, directory: Path, node_id: int) -> None:
        self.data = directory / f"node-{node_id}"
        self.port = free_port()
        self.controller = free_port()
        self.settings = {
            "node.id": node_id,
            "process.roles": "broker,controller",
            "listeners": f"PLAINTEXT://127.0.0.1:{self.port},CONTROLLER://127.0.0.1:{self.controller}",
            "controller.listener.names": "CONTROLLER",
            "inter.broker.listener.name": "PLAINTEXT",
            "log.dirs": self.data,
            "offsets.topic.replication.factor": 1,
            "broker.session.timeout.ms": 1000,
            "broker.heartbeat.interval.ms": 200,
        }
        self.file = directory / f"{node_id}.properties"

    def write(self, bootstrap: int) -> None:
        settings = {**self.settings, "controller.quorum.bootstrap.servers": f"127.0.0.1:{bootstrap}"}
        self.file.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))

    @property
    def directory_id(self) -> str:
        lines = (self.data / "meta.properties").read_text().splitlines()
        return next(line.partition("=")[2] for line in lines if line.startswith("directory.id"))

    @contextmanager
    def running(self) -> Iterator[None]:
        process = subprocess.Popen(
            [sys.executable, "-m", "barnabas", "broker", str(self.file)],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": str(REPOSITORY / "src")},
        )
        try:
            assert process.stdout is not None
            assert process.stdout.readline().startswith(b"ready")
            yield
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(30)
            assert process.stdout is not None
            process.stdout.close()


def test_kafkas_tools_change_and_read_the_voters(tmp_path: Path) -> None:
    first = Member(tmp_path, 1)
    second = Member(tmp_path, 2)
    for member in (first, second):
        member.write(first.controller)
    tool = (TOOL, "--bootstrap-controller", f"127.0.0.1:{first.controller}")
    with first.running(), second.running():
        said = run_tool(*tool, "--command-config", str(second.file), "add-controller")
        assert f"Added controller 2 with directory id {second.directory_id}" in said
        rows = [line.split() for line in run_tool(*tool, "describe", "--replication").splitlines()[1:]]
        assert [(row[0], row[1], row[-1]) for row in rows] == [
            ("1", first.directory_id, "Leader"),
            ("2", second.directory_id, "Follower"),
        ]
        which = ("--controller-id", "2", "--controller-directory-id", second.directory_id)
        said = run_tool(TOOL, "--bootstrap-server", f"127.0.0.1:{second.port}", "remove-controller", *which)
        assert "Removed" in said
    log = first.data / "__cluster_metadata-0"
    lines = run_tool(
        "org.apache.kafka.tools.DumpLogSegments",
        "--cluster-metadata-decoder",
        "--files",
        f"{log}/00000000000000000000.log",
    ).splitlines()
    assert sum('KRaftVersion {"version":0,"kRaftVersion":1}' in line for line in lines) == 1
    assert [line.count('"voterId"') for line in lines if "KRaftVoters" in line] == [1, 2, 1]


def test_kafka_takes_over_a_quorum_of_one(tmp_path: Path) -> None:
    member = Member(tmp_path, 1)
    member.write(member.controller)
    with member.running():
        client = AdminClient({"bootstrap.servers": f"127.0.0.1:{member.port}"})
        for future in client.create_topics([NewTopic("by-barnabas", 2, 1)]).values():
            future.result()
    kafka = ApacheKafka(tmp_path / "kafka")
    kafka.directory.mkdir()
    kafka.port = member.port
    (kafka.directory / "server.properties").write_text(member.file.read_text())
    with kafka:
        client = AdminClient({"bootstrap.servers": kafka.address})
        assert "by-barnabas" in client.list_topics(timeout=30).topics
        for future in client.create_topics([NewTopic("by-kafka", 1, 1)]).values():
            future.result()
    with member.running():
        topics = AdminClient({"bootstrap.servers": f"127.0.0.1:{member.port}"}).list_topics(timeout=30).topics
        assert {"by-barnabas", "by-kafka"} <= set(topics)

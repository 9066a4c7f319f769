"""A broker as a process: how it starts, what it leaves behind, and how it ends."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from broker_process import REPOSITORY, BrokerFailed, BrokerProcess, wait_until
from wire import FETCH_VERSION, Wire, batch, create_topic, fetch, fetch_request, produce

from barnabas.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic


def run_barnabas(*arguments: str, directory: Path) -> subprocess.CompletedProcess[str]:
    """For command lines that end by themselves."""
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY / "src")}
    command = [sys.executable, "-m", "barnabas", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=250, cwd=directory, env=environment)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_with_status_0(tmp_path: Path, number: signal.Signals):
    broker = BrokerProcess(data=tmp_path).start()
    with Wire(broker.address) as wire:  # an open connection does not keep it
        assert wire.call(MetadataRequest(topics=[]), 12).brokers
        assert broker.process is not None
        broker.process.send_signal(number)
        wait_until(lambda: not broker.is_running(), "the process ends")
        assert wire.is_closed_by_peer()
    assert broker.stop() == 0, broker.errors()


def test_a_signal_ends_waiting_fetches(tmp_path: Path):
    broker = BrokerProcess(data=tmp_path).start()
    with Wire(broker.address) as wire, Wire(broker.address) as reader:
        create_topic(wire, "t")
        reader.send(fetch_request("t", {0: 0}, wait_ms=600_000), FETCH_VERSION)
        assert fetch(wire, "t", {0: 0})[0].error_code == 0
        assert broker.stop() == 0


def test_the_ready_line_names_the_port_it_serves():
    with BrokerProcess(port=0) as broker:
        assert broker.port > 0
        with Wire(broker.address) as wire:
            (node,) = wire.call(MetadataRequest(topics=[]), 12).brokers
            assert (node.node_id, node.host, node.port) == (1, "127.0.0.1", broker.port)


def test_clients_are_told_the_host_of_the_listener():
    with BrokerProcess(arguments=["--host", "localhost"]) as broker, Wire(f"127.0.0.1:{broker.port}") as wire:
        (node,) = wire.call(MetadataRequest(topics=[]), 12).brokers
        assert (node.host, node.port) == ("localhost", broker.port)


def test_clients_are_told_the_address_they_dialled():
    """No host is set: a client that came through another name of the host is sent back to that."""
    with BrokerProcess(arguments=["--host", "0.0.0.0"]) as broker:
        for host in ("127.0.0.1", "127.0.0.2"):
            with Wire(f"{host}:{broker.port}") as wire:
                (node,) = wire.call(MetadataRequest(topics=[]), 12).brokers
                assert (node.host, node.port) == (host, broker.port)


def test_an_advertised_listener_is_told_to_everyone():
    broker = BrokerProcess(config={"advertised.listeners": "PLAINTEXT://broker.example:1234"})
    with broker, Wire(broker.address) as wire:
        (node,) = wire.call(MetadataRequest(topics=[]), 12).brokers
        assert (node.host, node.port) == ("broker.example", 1234)


def test_port_0_is_told_as_the_port_that_was_bound():
    broker = BrokerProcess(port=0, config={"advertised.listeners": "PLAINTEXT://localhost:0"})
    with broker, Wire(broker.address) as wire:
        (node,) = wire.call(MetadataRequest(topics=[]), 12).brokers
        assert (node.host, node.port) == ("localhost", broker.port)


def test_a_second_broker_on_the_same_directory_is_refused(tmp_path: Path):
    with BrokerProcess(data=tmp_path) as broker:
        refused = run_barnabas("up", "--data", str(tmp_path), "--port", "0", directory=tmp_path)
        assert refused.returncode == 1
        assert refused.stdout == ""
        assert str(tmp_path) in refused.stderr
        assert "Traceback" not in refused.stderr
        with Wire(broker.address) as wire:
            assert wire.call(MetadataRequest(topics=[]), 12).brokers


def test_a_port_in_use_is_refused(tmp_path: Path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        refused = run_barnabas("up", "--memory", "--port", port, directory=tmp_path)
    assert refused.returncode == 1
    assert port in refused.stderr
    assert "Traceback" not in refused.stderr


def test_memory_leaves_nothing_behind(tmp_path: Path):
    """Neither where it was started nor where temporary files go."""
    temporary = tmp_path / "temporary"
    started_in = tmp_path / "started-in"
    temporary.mkdir()
    started_in.mkdir()
    broker = BrokerProcess(prepare=lambda: os.chdir(started_in), environment={"TMPDIR": str(temporary)})
    with broker, Wire(broker.address) as wire:
        create_topic(wire, "t")
        wait_until(lambda: produce(wire, "t", {0: batch(b"x" * 100_000)})[0].error_code == 0, "the topic is led")
        open_files = {os.path.realpath(link) for link in Path(f"/proc/{broker.pid}/fd").iterdir()}
        assert not [name for name in open_files if name.startswith(str(tmp_path))]
        assert broker.stop() == 0
    assert list(temporary.iterdir()) == []
    assert list(started_in.iterdir()) == []


def test_the_directory_is_laid_out_as_kafkas(tmp_path: Path):
    with BrokerProcess(data=tmp_path) as broker, Wire(broker.address) as wire:
        pid_file = broker.node_directory / "pid"
        assert int(pid_file.read_text()) == broker.pid
        create_topic(wire, "orders", 2)
        wait_until(lambda: produce(wire, "orders", {1: batch(b"x")})[1].error_code == 0, "the topic is led")
        assert broker.stop() == 0
        assert not pid_file.exists()
    node = tmp_path / "node-1"
    names = {path.name for path in node.iterdir()}
    assert {"meta.properties", "orders-0", "orders-1", "__cluster_metadata-0"} <= names
    assert {"recovery-point-offset-checkpoint", "replication-offset-checkpoint"} <= names
    files = {path.name for path in (node / "orders-1").iterdir()}
    stem = "00000000000000000000"
    assert {
        f"{stem}.log",
        f"{stem}.index",
        f"{stem}.timeindex",
        "leader-epoch-checkpoint",
        "partition.metadata",
    } <= files


def test_node_id_names_the_directory(tmp_path: Path):
    with BrokerProcess(data=tmp_path, arguments=["--node-id", "7"]) as broker, Wire(broker.address) as wire:
        (node,) = wire.call(MetadataRequest(topics=[]), 12).brokers
        assert node.node_id == 7
        assert (tmp_path / "node-7" / "meta.properties").exists()


def test_the_cluster_id_stays(tmp_path: Path):
    seen = set()
    for _ in range(2):
        with BrokerProcess(data=tmp_path) as broker, Wire(broker.address) as wire:
            seen.add(wire.call(MetadataRequest(topics=[]), 12).cluster_id)
    assert len(seen) == 1
    assert all(seen)


@pytest.mark.parametrize(
    ("setting", "named"),
    [
        ("num.partition=1", "num.partitions"),
        ("no.such.password=1", "no.such.password"),
        ("num.partitions=many", "num.partitions"),
        ("log.segment.bytes=-5", "log.segment.bytes"),
        ("just-a-word", "just-a-word"),
    ],
)
def test_bad_settings_are_named(tmp_path: Path, setting: str, named: str):
    refused = run_barnabas("up", "--memory", "--port", "0", "--config", setting, directory=tmp_path)
    assert refused.returncode in (1, 2)
    assert named in refused.stderr
    assert "Traceback" not in refused.stderr
    assert refused.stdout == ""


def test_settings_by_kafkas_names_take_effect():
    with BrokerProcess(config={"num.partitions": 3}) as broker, Wire(broker.address) as wire:
        request = MetadataRequest(topics=[MetadataRequestTopic(name="auto")], allow_auto_topic_creation=True)
        wait_until(lambda: wire.call(request, 12).topics[0].error_code == 0, "the topic is created")
        assert len(wire.call(request, 12).topics[0].partitions) == 3


def test_a_properties_file(tmp_path: Path):
    """`barnabas broker FILE`, with Kafka's names; a bad line is named with its number."""
    properties = tmp_path / "server.properties"
    data = tmp_path / "data"
    text = (
        f"# a comment\nprocess.roles=broker,controller\nnode.id=3\nlog.dirs={data}\nlisteners=PLAINTEXT://127.0.0.1:0\n"
    )
    properties.write_text(text)

    class FromFile(BrokerProcess):
        def command(self) -> list[str]:
            return [sys.executable, "-m", "barnabas", "broker", str(properties)]

    with FromFile() as broker, Wire(broker.address) as wire:
        assert wire.call(MetadataRequest(topics=[]), 12).brokers[0].node_id == 3
        assert (data / "meta.properties").exists()
    properties.write_text(text + "num.partitions=many\n")
    refused = run_barnabas("broker", str(properties), directory=tmp_path)
    assert refused.returncode == 2
    assert "num.partitions" in refused.stderr
    assert "6" in refused.stderr
    properties.write_text(text + "num.partition=1\n")
    refused = run_barnabas("broker", str(properties), directory=tmp_path)
    assert refused.returncode == 2
    assert "line 6: num.partition is not a broker setting; did you mean num.partitions?" in refused.stderr
    missing = run_barnabas("broker", "missing.properties", directory=tmp_path)
    assert (missing.returncode, missing.stderr) == (4, "barnabas: there is no file missing.properties\n")


def test_a_directory_that_cannot_be_written_is_refused(tmp_path: Path):
    blocker = tmp_path / "file"
    blocker.write_text("not a directory")
    with pytest.raises(BrokerFailed) as failure:
        BrokerProcess(data=blocker).start()
    assert str(blocker) in str(failure.value)
    assert "Traceback" not in str(failure.value)


def test_python_without_assertions_is_refused(tmp_path: Path):
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY / "src")}
    command = [sys.executable, "-O", "-m", "barnabas", "up", "--memory", "--port", "0"]
    refused = subprocess.run(command, capture_output=True, text=True, timeout=250, cwd=tmp_path, env=environment)
    assert refused.returncode == 1
    assert "-O" in refused.stderr

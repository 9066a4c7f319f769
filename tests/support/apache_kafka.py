"""Apache Kafka itself and its tools, as oracle and as the other side of benchmarks. kafka_jars fetches the jars."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from base64 import urlsafe_b64encode
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType

from broker_process import resident_bytes
from kafka_jars import VERSION, fetch_jars, has_jars, libraries, why_not_here, why_unavailable

from barnabas.cli.ports import Ports

__all__ = ["VERSION", "ApacheKafka", "ApacheKafkaCluster", "fetch_jars", "has_jars", "why_not_here", "why_unavailable"]
READY_SECONDS_MAX = 300.0  # two seconds on an idle machine
SERVER_FLAGS = ("-Xmx1G", "-Xms1G", "-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20")
QUICK_SERVER_FLAGS = ("-Xmx1G", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")  # for some minutes with little to do
QUICK_TOOL_FLAGS = ("-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")  # most tools live for a second
_kept = Ports("127.0.0.1")


def java_command(main_class: str, *arguments: str, flags: tuple[str, ...] = ()) -> list[str]:
    return ["java", *flags, "-cp", f"{libraries()}/*", main_class, *arguments]


def run_tool(
    main_class: str,
    *arguments: str,
    text: str | None = None,
    seconds: float = 120.0,
    check: bool = True,
    flags: tuple[str, ...] = QUICK_TOOL_FLAGS,
) -> str:
    """A tool of Kafka; what it printed, standard error included. Fails the caller if the tool fails."""
    command = java_command(main_class, *arguments, flags=flags)
    done = subprocess.run(
        command, input=text, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=seconds
    )
    if check and done.returncode != 0:
        raise AssertionError(f"{main_class} {' '.join(arguments)}: exit status {done.returncode}\n{done.stdout}")
    return done.stdout


class ApacheKafka:
    """One node, broker and controller, on loopback. A context manager."""

    def __init__(
        self,
        directory: Path,
        config: Mapping[str, object] | None = None,
        node_id: int = 1,
        *,
        port: int | None = None,
        cluster_id: str | None = None,
        format_arguments: Sequence[str] = (),
        flags: tuple[str, ...] = SERVER_FLAGS,
    ) -> None:
        self.directory = directory
        self.format_arguments = format_arguments
        self.flags = flags
        self.node_id = node_id
        self.port = port or free_port()
        self.cluster_id = cluster_id  # None: a new one
        self.config = dict(config or {})
        self.process: subprocess.Popen[bytes] | None = None
        self.ready_seconds = 0.0  # from the start of the process, formatted storage assumed, to its first answer

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def node_directory(self) -> Path:
        return self.directory / "data"

    @property
    def _properties(self) -> Path:
        return self.directory / "server.properties"

    @property
    def pids(self) -> list[int]:
        assert self.process is not None
        return [self.process.pid]

    def start(self) -> ApacheKafka:
        self.format()
        began = self.begin()
        self.wait_until_ready(began)
        return self

    def format(self) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        if not self._properties.exists():
            self._format(self._properties)

    def begin(self) -> float:
        """Without waiting until it answers, which takes a majority of the voters. When that was."""
        began = time.monotonic()
        log = (self.directory / "server.log").open("ab")
        command = java_command("kafka.Kafka", str(self._properties), flags=self.flags)
        self.process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
        log.close()
        return began

    def wait_until_ready(self, began: float) -> None:
        assert self.process is not None
        while not is_answering(self.port):
            status = self.process.poll()
            if status is not None or time.monotonic() > began + READY_SECONDS_MAX:
                self.stop()
                said = (self.directory / "server.log").read_text()[-4000:]
                raise AssertionError(f"Apache Kafka does not answer (exit status {status}): {said}")
            time.sleep(0.005)
        self.ready_seconds = time.monotonic() - began

    def stop(self) -> None:
        if self.process is None:
            return
        self.process.terminate()
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process = None

    def resident_bytes(self) -> int:
        assert self.process is not None
        return resident_bytes(self.process.pid)

    def __enter__(self) -> ApacheKafka:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _format(self, properties: Path) -> None:
        controller_port = free_port()
        settings = {
            "process.roles": "broker,controller",
            "node.id": self.node_id,
            "controller.quorum.voters": f"{self.node_id}@127.0.0.1:{controller_port}",
            "listeners": f"PLAINTEXT://127.0.0.1:{self.port},CONTROLLER://127.0.0.1:{controller_port}",
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{self.port}",
            "controller.listener.names": "CONTROLLER",
            "inter.broker.listener.name": "PLAINTEXT",
            "log.dirs": self.node_directory,
            "offsets.topic.replication.factor": 1,
            "transaction.state.log.replication.factor": 1,
            "transaction.state.log.min.isr": 1,
            "group.initial.rebalance.delay.ms": 0,
            **self.config,
        }
        properties.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        cluster_id = self.cluster_id or random_cluster_id()
        run_tool("kafka.tools.StorageTool", "format", "-t", cluster_id, "-c", str(properties), *self.format_arguments)


class ApacheKafkaCluster:
    """Several nodes, each broker and controller, that vote together. A context manager."""

    def __init__(self, directory: Path, config: Mapping[str, object] | None = None, nodes: int = 3) -> None:
        ids = range(1, nodes + 1)
        ports = {id: free_port() for id in ids}
        voter_ports = {id: free_port() for id in ids}
        cluster_id = random_cluster_id()
        shared = {
            "controller.quorum.voters": ",".join(f"{id}@127.0.0.1:{port}" for id, port in voter_ports.items()),
            "default.replication.factor": min(3, nodes),
            "offsets.topic.replication.factor": min(3, nodes),
            **(config or {}),
        }
        self.nodes = [
            ApacheKafka(
                directory / f"node-{id}",
                {**shared, "listeners": f"PLAINTEXT://127.0.0.1:{ports[id]},CONTROLLER://127.0.0.1:{voter_ports[id]}"},
                id,
                port=ports[id],
                cluster_id=cluster_id,
            )
            for id in ids
        ]
        self.ready_seconds = 0.0  # until all of them answer

    @property
    def address(self) -> str:
        return ",".join(node.address for node in self.nodes)

    @property
    def pids(self) -> list[int]:
        return [pid for node in self.nodes for pid in node.pids]

    def resident_bytes(self) -> int:
        return sum(node.resident_bytes() for node in self.nodes)

    def __enter__(self) -> ApacheKafkaCluster:
        try:
            for node in self.nodes:
                node.format()
            began = min([node.begin() for node in self.nodes])
            for node in self.nodes:
                node.wait_until_ready(began)
            self.ready_seconds = max(node.ready_seconds for node in self.nodes)
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for node in self.nodes:
            node.stop()


def random_cluster_id() -> str:
    """Sixteen bytes as Kafka writes them; not with a hyphen first, for it is a word of a command line."""
    return urlsafe_b64encode(b"\0" + os.urandom(15)).rstrip(b"=").decode()


def free_port() -> int:
    """Kept for a process of ours until this one ends; Java allows the reuse of addresses, as that takes."""
    port = _kept.take(0)
    _kept.settle()
    return port


API_VERSIONS_REQUEST = bytes.fromhex("0000000e 0012 0000 00000001 0004") + b"wait"


def is_answering(port: int) -> bool:
    """Whether a broker at this port answers a request for its API versions."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=5) as probe:
            probe.sendall(API_VERSIONS_REQUEST)
            return len(probe.recv(4)) == 4
    except OSError:
        return False

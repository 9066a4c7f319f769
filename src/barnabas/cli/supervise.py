"""`barnabas up --brokers N`: a small cluster on this machine, one process per broker, started and stopped together.

A broker that ends by itself is started again after a pause, unless it kept everything in memory: then what it promised
to the quorum is gone with it, and a node that has forgotten its promises must not come back under the same number.
"""

import argparse
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from types import FrameType

from barnabas.cli.serve import failed

RESTART_PAUSE_SECONDS = 1.0
STOP_SECONDS_MAX = 30.0


class Node:
    """One broker's process."""

    def __init__(self, node_id: int, command: Sequence[str]) -> None:
        self.node_id = node_id
        self._command = command
        self.address: str | None = None  # once it is ready
        self.start()

    def start(self) -> None:
        self.process = subprocess.Popen(self._command, stdout=subprocess.PIPE, text=True, start_new_session=True)
        assert self.process.stdout is not None
        self.stdout = self.process.stdout
        self.restart_at: float | None = None

    def read_ready(self) -> bool:
        """Takes its line «ready HOST:PORT». False where it ended instead."""
        word, _space, address = self.stdout.readline().strip().partition(" ")
        self.address = address if word == "ready" else None
        return self.address is not None


def up(options: argparse.Namespace) -> int:
    stopping = False

    def stop(_signal: int, _frame: FrameType | None) -> None:
        nonlocal stopping
        stopping = True

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
    nodes = [Node(node_id, command) for node_id, command in commands(options).items()]
    try:
        if not all(node.read_ready() for node in nodes):
            return 1 if stopping else failed("a broker did not start; what it said is above")
        print("ready", ",".join(str(node.address) for node in nodes), flush=True)
        while not stopping:
            _look_after(nodes, restart=not options.memory)
            time.sleep(0.1)
        return 0
    finally:
        _stop(nodes)


def commands(options: argparse.Namespace) -> dict[int, list[str]]:
    """One `barnabas up` for each node, with all voters named."""
    ids = range(options.node_id, options.node_id + options.brokers)
    client_ports = _ports(options.host, options.port, options.brokers)
    voter_ports = _ports(options.host, options.port and options.port + options.brokers, options.brokers)
    host = f"[{options.host}]" if ":" in options.host else options.host
    voters = ",".join(f"{node_id}@{host}:{port}" for node_id, port in zip(ids, voter_ports, strict=True))
    found = {}
    for node_id, client_port, voter_port in zip(ids, client_ports, voter_ports, strict=True):
        settings = [
            f"listeners=PLAINTEXT://{host}:{client_port},CONTROLLER://{host}:{voter_port}",
            "controller.listener.names=CONTROLLER",
            "inter.broker.listener.name=PLAINTEXT",
            f"controller.quorum.voters={voters}",
            f"default.replication.factor={min(3, options.brokers)}",
            f"offsets.topic.replication.factor={min(3, options.brokers)}",
            f"transaction.state.log.replication.factor={min(3, options.brokers)}",
            f"transaction.state.log.min.isr={2 if options.brokers >= 3 else 1}",
            f"min.insync.replicas={2 if options.brokers >= 3 else 1}",
        ]
        command = [sys.executable, "-m", "barnabas", "up", "--node-id", str(node_id), "--log-level", options.log_level]
        command += ["--memory"] if options.memory else ["--data", options.data] if options.data else []
        for setting in (*settings, *options.config):
            command += ["--config", setting]
        found[node_id] = command
    return found


def _ports(host: str, first: int, count: int) -> list[int]:
    """As asked, or free ones: bound together, so that they differ, and let go."""
    if first:
        return list(range(first, first + count))
    bound = []
    for _ in range(count):
        listening = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
        listening.bind((host, 0))
        bound.append(listening)
    ports = [listening.getsockname()[1] for listening in bound]
    for listening in bound:
        listening.close()
    return ports


def _look_after(nodes: list[Node], *, restart: bool) -> None:
    for node in nodes:
        code = node.process.poll()
        if code is None:
            continue
        if node.restart_at is None:
            what = "it is started again" if restart else "it is not started again, for its memory is gone"
            print(f"barnabas: node {node.node_id} ended with {code}; {what}", file=sys.stderr, flush=True)
            node.restart_at = time.monotonic() + RESTART_PAUSE_SECONDS
        elif restart and time.monotonic() >= node.restart_at:
            node.start()


def _stop(nodes: list[Node]) -> None:
    for node in nodes:
        if node.process.poll() is None:
            node.process.terminate()
    deadline = time.monotonic() + STOP_SECONDS_MAX
    for node in nodes:
        try:
            node.process.wait(timeout=max(0.1, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            print(f"barnabas: node {node.node_id} does not stop and is killed", file=sys.stderr)
            node.process.kill()

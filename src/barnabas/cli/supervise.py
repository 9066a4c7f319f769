"""`barnabas up --brokers N`: a small cluster on this machine, one process per broker, started and stopped together.

A broker that ends by itself is started again after a pause, unless it kept everything in memory: then what it promised
to the quorum is gone with it, and a node that has forgotten its promises must not come back under the same number.
Always holds: no broker outlives this process. Each reads a pipe that ends when this process does, however that happens.
Does not know: what a broker is; it needs none in its memory.
"""

import argparse
import os
import selectors
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence

from barnabas.cli.ports import Ports
from barnabas.cli.text import WILDCARDS, Exit, bracketed, failed

RESTART_PAUSE_SECONDS = 1.0  # doubled each time that it ends again before it was ready
RESTART_PAUSE_SECONDS_MAX = 30.0
STOP_SECONDS_MAX = 30.0
PORT_MAX = 65535


def up(options: argparse.Namespace) -> int:
    if options.memory and options.data is not None:
        return failed("--memory keeps nothing, so --data has no meaning beside it", Exit.USAGE)
    if options.port and options.port + 2 * options.brokers - 1 > PORT_MAX:
        return failed(f"{options.brokers} brokers need {2 * options.brokers} ports from {options.port} on", Exit.USAGE)
    with Ports(options.host) as client_ports, Ports(_dialled(options.host)) as voter_ports:
        try:
            found = commands(options, client_ports, voter_ports)
        except OSError as error:
            return failed(f"cannot start: {error.strerror or error}")
        return Supervisor(found, restart=not options.memory).run()


def commands(options: argparse.Namespace, client_ports: Ports, voter_ports: Ports) -> dict[int, list[str]]:
    """One `barnabas up` for each node, with all voters named. The ports for voters follow those for clients."""
    ids = range(options.node_id, options.node_id + options.brokers)
    host, voter_host = bracketed(options.host), bracketed(_dialled(options.host))
    at_clients = {id: client_ports.take(options.port and options.port + place) for place, id in enumerate(ids)}
    first = options.port and options.port + options.brokers
    at_voters = {id: voter_ports.take(first and first + place) for place, id in enumerate(ids)}
    client_ports.settle()
    voter_ports.settle()
    voters = ",".join(f"{id}@{voter_host}:{port}" for id, port in at_voters.items())
    found = {}
    for id in ids:
        settings = [
            f"listeners=PLAINTEXT://{host}:{at_clients[id]},CONTROLLER://{voter_host}:{at_voters[id]}",
            "controller.listener.names=CONTROLLER",
            "inter.broker.listener.name=PLAINTEXT",
            f"controller.quorum.voters={voters}",
            f"default.replication.factor={min(3, options.brokers)}",
            f"offsets.topic.replication.factor={min(3, options.brokers)}",
            f"transaction.state.log.replication.factor={min(3, options.brokers)}",
            f"transaction.state.log.min.isr={2 if options.brokers >= 3 else 1}",
            f"min.insync.replicas={2 if options.brokers >= 3 else 1}",
        ]
        command = [sys.executable, "-m", "barnabas", "up", "--supervised", "--node-id", str(id)]
        command += ["--log-level", options.log_level]
        command += ["--lenient"] if options.lenient else []
        command += ["--memory"] if options.memory else ["--data", options.data] if options.data else []
        for setting in (*settings, *options.config):
            command += ["--config", setting]
        found[id] = command
    return found


def _dialled(host: str) -> str:
    """Where voters find each other: all are on this machine."""
    return host if host not in WILDCARDS else "::1" if host == "::" else "127.0.0.1"


class Node:
    """One broker's process, and after its end the next one."""

    def __init__(self, node_id: int, command: Sequence[str]) -> None:
        self.node_id = node_id
        self.address: str | None = None  # once it is ready
        self.restart_at: float | None = None  # while it is down
        self._command = command
        self._pause_seconds = RESTART_PAUSE_SECONDS
        self._said = b""
        self.start()

    def start(self) -> None:
        """In a session of its own: Ctrl-C in the terminal is for the supervisor, who then stops all in good order."""
        self.process = subprocess.Popen(
            self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
        )
        self.restart_at = None

    @property
    def output(self) -> int:
        assert self.process.stdout is not None
        return self.process.stdout.fileno()

    def read(self) -> bool:
        """Takes what it says, of which the line «ready HOST:PORT» counts. False where it has ended."""
        said = os.read(self.output, 4096)
        self._said += said
        while b"\n" in self._said:
            line, _newline, self._said = self._said.partition(b"\n")
            if line.startswith(b"ready "):
                self.address = line.removeprefix(b"ready ").decode().strip()
                self._pause_seconds = RESTART_PAUSE_SECONDS
        return bool(said)

    def ended(self) -> int:
        """Its exit code. When it may be started again is longer away each time."""
        code = self.process.wait()
        self._close()
        self.restart_at = time.monotonic() + self._pause_seconds
        self._pause_seconds = min(2 * self._pause_seconds, RESTART_PAUSE_SECONDS_MAX)
        return code

    def ask_to_stop(self) -> None:
        """The end of its input: all stop together, so it need not hand anything over to the others."""
        assert self.process.stdin is not None
        self.process.stdin.close()

    def _close(self) -> None:
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                pipe.close()


class Supervisor:
    def __init__(self, found: Mapping[int, Sequence[str]], *, restart: bool) -> None:
        self._restart = restart
        self._waking, waker = socket.socketpair()
        waker.setblocking(False)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._waking, selectors.EVENT_READ)
        self._signals = 0  # how often it was asked to stop
        self._waker = waker
        signal.set_wakeup_fd(waker.fileno())
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda _number, _frame: None)  # what matters is the byte that wakes the selector
        self._nodes = [Node(node_id, command) for node_id, command in found.items()]
        for node in self._nodes:
            self._watch(node)

    def run(self) -> int:
        """Until it is asked to stop, or a broker does not start. The exit code."""
        try:
            if not self._wait_until_ready():
                return 0 if self._signals else failed("a broker did not start; what it said is above")
            print("ready", ",".join(str(node.address) for node in self._nodes), flush=True)
            while not self._signals:
                for node in self._wait(self._next_restart()):
                    self._ended(node)
                self._start_again()
            return 0
        finally:
            self._stop()

    def _wait_until_ready(self) -> bool:
        while not all(node.address for node in self._nodes):
            ended = self._wait(None)
            for node in ended:
                node.ended()
            if ended or self._signals:
                return False
        return True

    def _wait(self, deadline: float | None) -> list[Node]:
        """Until something happens; those that have ended."""
        seconds = None if deadline is None else max(0.0, deadline - time.monotonic())
        ended = []
        for key, _events in self._selector.select(seconds):
            node = key.data
            if node is None:
                self._signals += len(self._waking.recv(64))
            elif not node.read():
                self._selector.unregister(node.output)
                ended.append(node)
        return ended

    def _watch(self, node: Node) -> None:
        self._selector.register(node.output, selectors.EVENT_READ, node)

    def _ended(self, node: Node) -> None:
        code = node.ended()
        what = "it is started again" if self._restart else "it is not started again, for its memory is gone"
        print(f"barnabas: node {node.node_id} ended with {code}; {what}", file=sys.stderr, flush=True)

    def _next_restart(self) -> float | None:
        return min((node.restart_at for node in self._nodes if self._restart and node.restart_at), default=None)

    def _start_again(self) -> None:
        for node in self._nodes:
            if self._restart and node.restart_at is not None and time.monotonic() >= node.restart_at:
                node.start()
                self._watch(node)

    def _stop(self) -> None:
        """All at once. Who does not end in time is killed; asking a second time is less patient."""
        running = {node.node_id: node for node in self._nodes if node.restart_at is None}
        for node in running.values():
            node.ask_to_stop()
        asked = self._signals
        deadline = time.monotonic() + STOP_SECONDS_MAX
        while running:
            for node in self._wait(deadline):
                del running[node.node_id]
                node.ended()
            if self._signals > asked or time.monotonic() >= deadline:
                for node in running.values():
                    print(f"barnabas: node {node.node_id} does not stop and is killed", file=sys.stderr, flush=True)
                    node.process.kill()
                asked = self._signals
                deadline = time.monotonic() + STOP_SECONDS_MAX
        self._selector.close()
        signal.set_wakeup_fd(-1)
        self._waking.close()
        self._waker.close()

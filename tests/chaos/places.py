"""Where the nodes of a cluster stand: on loopback, or each in a network namespace of its own that can be cut off.

    clients ── bridge ──┬── node 1 ──┬── bridge, for the nodes among themselves
                        ├── node 2 ──┤
                        └── node 3 ──┘

Holds: leaving the `with` block takes everything away again. A node that is cut off from the others is still reached by
clients: the most dangerous place for a leader that does not know that it was replaced.
Does not know: brokers.
"""

from __future__ import annotations

import itertools
import os
import shutil
import subprocess
from types import TracebackType
from typing import NamedTuple

from barnabas.cli.ports import Ports

HOST = "127.0.0.1"
CLIENTS, NODES = 0, 1  # the two networks
_numbers = itertools.count(1)


class Place(NamedTuple):
    client_host: str
    client_port: int
    node_host: str
    node_port: int
    voter_port: int
    prefix: tuple[str, ...] = ()  # of the command that starts a node there


class Loopback:
    """All on 127.0.0.1; nothing can be cut. Ports are kept, so that no other process gets one while a node is down."""

    def __init__(self, ids: range) -> None:
        self._ports = Ports(HOST)
        self.places = {id: Place(HOST, self._free(), HOST, self._free(), self._free()) for id in ids}
        self._ports.settle()

    def __enter__(self) -> Loopback:
        return self

    def __exit__(self, *_error: object) -> None:
        self._ports.close()

    def _free(self) -> int:
        return self._ports.take(0)


def why_no_namespaces() -> str | None:
    """None where network namespaces can be made."""
    if shutil.which("ip") is None:
        return "the command ip (iproute2) is missing"
    if os.geteuid() != 0:
        return "making network namespaces needs root"
    probe = f"barnabas-probe-{os.getpid()}"
    made = subprocess.run(["ip", "netns", "add", probe], capture_output=True, text=True)
    if made.returncode != 0:
        return f"network namespaces cannot be made: {made.stderr.strip()}"
    veth = subprocess.run(["ip", "-n", probe, "link", "add", "probe0", "type", "veth", "peer", "name", "probe1"])
    subprocess.run(["ip", "netns", "delete", probe], check=True)
    return None if veth.returncode == 0 else "pairs of virtual interfaces (veth) cannot be made"


class Namespaces:
    """One for each node, with a leg in the network of the clients and one in that of the nodes."""

    def __init__(self, ids: range) -> None:
        self.ids = ids
        # An interface's name has at most 15 characters. A new one each time: namespaces are taken away lazily.
        self._stem = f"bb{os.getpid() % 100_000}{next(_numbers)}"
        self._made: list[list[str]] = []  # how to take it away again, the last first
        self.places = {
            id: Place(
                _host(CLIENTS, id), 9092, _host(NODES, id), 9094, 9093, ("ip", "netns", "exec", self._namespace(id))
            )
            for id in ids
        }

    def __enter__(self) -> Namespaces:
        try:
            for network in (CLIENTS, NODES):
                self._make(["link", "add", self._bridge(network), "type", "bridge"], ["link", "delete"], 2)
                _ip("link", "set", self._bridge(network), "up")
            _ip("address", "add", f"{_host(CLIENTS, 254)}/24", "dev", self._bridge(CLIENTS))
            for id in self.ids:
                self._make_node(id)
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        while self._made:
            _ip(*self._made.pop())

    def cut(self, node_id: int, networks: tuple[int, ...] = (NODES,)) -> None:
        """Nothing passes any more, and nobody is told: as when a cable is pulled behind a switch."""
        for network in networks:
            _ip("link", "set", self._leg(network, node_id), "nomaster")

    def heal(self, node_id: int) -> None:
        for network in (CLIENTS, NODES):
            _ip("link", "set", self._leg(network, node_id), "master", self._bridge(network))

    def _make_node(self, id: int) -> None:
        namespace = self._namespace(id)
        self._make(["netns", "add", namespace], ["netns", "delete"], 2)
        _ip("-n", namespace, "link", "set", "lo", "up")
        for network in (CLIENTS, NODES):
            leg = self._leg(network, id)
            inside = f"eth{network}"
            _ip("link", "add", leg, "type", "veth", "peer", "name", inside, "netns", namespace)
            _ip("link", "set", leg, "master", self._bridge(network), "up")
            _ip("-n", namespace, "address", "add", f"{_host(network, id)}/24", "dev", inside)
            _ip("-n", namespace, "link", "set", inside, "up")

    def _make(self, command: list[str], undo: list[str], name_at: int) -> None:
        _ip(*command)
        self._made.append([*undo, command[name_at]])

    def _namespace(self, id: int) -> str:
        return f"{self._stem}-{id}"

    def _bridge(self, network: int) -> str:
        return f"{self._stem}-b{network}"

    def _leg(self, network: int, id: int) -> str:
        return f"{self._stem}-{id}-{network}"


def _host(network: int, number: int) -> str:
    return f"10.{200 + network}.77.{number}"


def _ip(*arguments: str) -> None:
    done = subprocess.run(["ip", *arguments], capture_output=True, text=True)
    if done.returncode != 0:
        raise OSError(f"ip {' '.join(arguments)}: {done.stderr.strip()}")

"""A cluster of real processes that nobody looks after: what is killed stays dead until it is started again.

Holds: each node is `barnabas broker FILE` with a directory and a log file of its own. Leaving the `with` block ends
every process, whatever happened to it.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Any

from broker_process import REPOSITORY, wait_until
from places import Loopback, Namespaces, Place
from wire import METADATA_VERSION, Closed, Wire

from barnabas.protocol.messages.describe_quorum import DescribeQuorumRequest, RequestPartitionData, RequestTopicData
from barnabas.protocol.messages.metadata import MetadataRequest

READY_SECONDS_MAX = 60.0
STOP_SECONDS_MAX = 60.0
ASK_SECONDS_MAX = 2.0  # a node that is paused or cut off does not answer
DISK_BYTES = 64 << 20  # of a small disk
SETTINGS = {
    "process.roles": "broker,controller",
    "controller.listener.names": "CONTROLLER",
    "inter.broker.listener.name": "NODES",
    "listener.security.protocol.map": "CLIENTS:PLAINTEXT,NODES:PLAINTEXT,CONTROLLER:PLAINTEXT",
    "default.replication.factor": "3",
    "offsets.topic.replication.factor": "3",
    "offsets.topic.num.partitions": "3",
    "min.insync.replicas": "2",
    "group.initial.rebalance.delay.ms": "0",
}


class Node:
    def __init__(self, node_id: int, place: Place, voters: str, directory: Path) -> None:
        self.node_id = node_id
        self.address = f"{place.client_host}:{place.client_port}"
        self.data = directory / f"node-{node_id}"
        self.log = directory / f"node-{node_id}.log"
        self.process: subprocess.Popen[bytes] | None = None
        self._prefix = place.prefix
        self._properties = directory / f"node-{node_id}.properties"
        listeners = {
            "CLIENTS": (place.client_host, place.client_port),
            "NODES": (place.node_host, place.node_port),
            "CONTROLLER": (place.node_host, place.voter_port),
        }
        settings = {
            "node.id": node_id,
            "listeners": ",".join(f"{name}://{host}:{port}" for name, (host, port) in listeners.items()),
            "controller.quorum.voters": voters,
            "log.dirs": self.data,
            **SETTINGS,
        }
        self._properties.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))

    def begin(self) -> None:
        """Does not wait: alone it will never be ready."""
        assert self.process is None
        environment = {**os.environ, "PYTHONPATH": str(REPOSITORY / "src")}
        command = [*self._prefix, sys.executable, "-m", "barnabas", "broker", str(self._properties)]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment, start_new_session=True
            )

    def signal(self, number: signal.Signals) -> None:
        assert self.process is not None
        self.process.send_signal(number)

    def kill(self) -> None:
        self.signal(signal.SIGKILL)
        self.wait()

    def wait(self) -> int:
        assert self.process is not None
        status = self.process.wait(STOP_SECONDS_MAX)
        self.process = None
        return status

    def has_ended(self) -> bool:
        return self.process is None or self.process.poll() is not None

    def ask(self, request: Any, version: int) -> Any:
        with Wire(self.address, wait_seconds=ASK_SECONDS_MAX) as wire:
            return wire.call(request, version)


class Nodes:
    """`with Nodes(directory, network) as nodes:` with nodes 1 to 3, ready."""

    def __init__(self, directory: Path, network: Loopback | Namespaces, *, small_disks: bool = False) -> None:
        self.directory = directory
        self.network = network
        places = network.places
        voters = ",".join(f"{id}@{place.node_host}:{place.voter_port}" for id, place in places.items())
        self.nodes = {id: Node(id, place, voters, directory) for id, place in places.items()}
        self._small_disks = small_disks
        self._mounted: list[Path] = []
        self.ready_seconds = 0.0

    @property
    def bootstrap(self) -> str:
        return ",".join(node.address for node in self.nodes.values())

    def __enter__(self) -> Nodes:
        try:
            began = time.monotonic()
            for node in self.nodes.values():
                if self._small_disks:
                    self._mount(node.data)
                node.begin()
            self.wait_until_whole()
            self.ready_seconds = time.monotonic() - began
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for node in self.nodes.values():
            if node.process is not None:
                node.process.kill()
                node.process.wait()
        for path in self._mounted:
            subprocess.run(["umount", "--lazy", str(path)], check=True)

    def _mount(self, path: Path) -> None:
        path.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs", str(path)], check=True)
        self._mounted.append(path)

    # What they are

    def metadata(self) -> Any:
        """From any node that answers; None where none does."""
        return self._ask_any(MetadataRequest(topics=None), METADATA_VERSION)

    def controller_id(self) -> int:
        topics = [
            RequestTopicData(topic_name="__cluster_metadata", partitions=[RequestPartitionData(partition_index=0)])
        ]

        def ask() -> int:
            answer = self._ask_any(DescribeQuorumRequest(topics=topics), 2)
            leader: int = -1 if answer is None else answer.topics[0].partitions[0].leader_id
            return max(0, leader)

        return wait_until(ask, "there is a controller")

    def leader_id(self, topic: str, partition: int = 0) -> int:
        def ask() -> int:
            answer = self.metadata()
            for each in answer.topics if answer is not None else ():
                if each.name == topic:
                    leaders = {state.partition_index: state.leader_id for state in each.partitions}
                    return max(0, leaders.get(partition, -1))
            return 0

        return wait_until(ask, f"{topic}-{partition} is led")

    def is_whole(self) -> bool:
        """Each node answers, knows all the others, and every replica is in sync."""
        for node in self.nodes.values():
            try:
                answer = node.ask(MetadataRequest(topics=None), METADATA_VERSION)
            except (OSError, Closed):
                return False
            if len(answer.brokers) != len(self.nodes):
                return False
            partitions = [each for topic in answer.topics for each in topic.partitions]
            if any(each.leader_id < 0 or len(each.isr_nodes) != len(each.replica_nodes) for each in partitions):
                return False
        return True

    def wait_until_whole(self) -> None:
        wait_until(self.is_whole, "all nodes serve, and all replicas are in sync", READY_SECONDS_MAX)

    def _ask_any(self, request: Any, version: int) -> Any:
        for node in self.nodes.values():
            if node.has_ended():
                continue
            try:
                return node.ask(request, version)
            except (OSError, Closed):
                continue
        return None

    # What is done to them

    def start_dead(self) -> list[int]:
        """Starts whoever ended; who that was."""
        started = []
        for node in self.nodes.values():
            if node.has_ended():
                if node.process is not None:
                    node.wait()
                node.begin()
                started.append(node.node_id)
        return started

    def fill_disk(self, node_id: int) -> None:
        """To the last byte."""
        data = self.nodes[node_id].data
        with (data / "ballast").open("wb", buffering=0) as ballast:
            for size in (1 << 20, 1 << 12, 1):
                while True:
                    try:
                        ballast.write(b"\0" * size)
                    except OSError:
                        break
        assert shutil.disk_usage(data).free == 0

    def empty_disk(self, node_id: int) -> None:
        (self.nodes[node_id].data / "ballast").unlink()

    def stop(self) -> None:
        """All in good order, together."""
        for node in self.nodes.values():
            node.signal(signal.SIGTERM)
        for node in self.nodes.values():
            status = node.wait()
            assert status == 0, f"node {node.node_id} ended with {status}: {node.log.read_text()[-3000:]}"

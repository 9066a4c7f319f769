"""The matrix: each fault on each target, while clients write and read, and what came of it.

One case is one cluster from its first start to its end: three brokers, a topic of three partitions whose leaders are on
different brokers, a writer and a reader. The fault comes, holds for a while, goes, and everything must be whole again.
"""

from __future__ import annotations

import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import check
from broker_process import wait_until
from clients import GroupReader, Writer, quiet, read_all
from confluent_kafka.admin import AdminClient, NewTopic
from nodes import Nodes
from places import CLIENTS, NODES, Loopback, Namespaces
from takeover import Takeover

TOPIC = "chaos"
PARTITIONS = 3
IDS = range(1, 4)
BEFORE_SECONDS = 1.0  # of undisturbed writing
WRITE_AGAIN_SECONDS_MAX = 60.0
TARGETS = ("leader", "follower", "controller", "all")


@dataclass
class Result:
    acknowledged: int = 0
    found: int = 0
    silence_seconds: float = 0.0  # of partitions that the target led,
    silence_elsewhere_seconds: float | None = None  # and of the others, where there are any
    takeover_seconds: float | None = None  # until others led what the target led, where it led anything and they did
    compared_bytes: int = 0
    wrong: list[str] = field(default_factory=list)
    seconds: float = 0.0


class Case(NamedTuple):
    fault: str
    target: str
    hold_seconds: float
    inflict: Callable[[Nodes, list[int], float], None]
    network: bool = False  # needs namespaces
    small_disks: bool = False

    @property
    def name(self) -> str:
        return f"{self.fault}, {self.target}"


# Faults. Each comes, holds, and goes.


def kill(nodes: Nodes, targets: list[int], hold_seconds: float) -> None:
    for target in targets:
        nodes.nodes[target].kill()
    time.sleep(hold_seconds)
    nodes.start_dead()


def pause(nodes: Nodes, targets: list[int], hold_seconds: float) -> None:
    for target in targets:
        nodes.nodes[target].signal(signal.SIGSTOP)
    time.sleep(hold_seconds)
    for target in targets:
        nodes.nodes[target].signal(signal.SIGCONT)


def restart(nodes: Nodes, targets: list[int], hold_seconds: float) -> None:
    for target in targets:
        nodes.nodes[target].signal(signal.SIGTERM)
    for target in targets:
        status = nodes.nodes[target].wait()
        assert status == 0, f"node {target} ended with {status}"
    time.sleep(hold_seconds)
    nodes.start_dead()


def restart_in_turn(nodes: Nodes, targets: list[int], hold_seconds: float) -> None:
    for target in targets:
        restart(nodes, [target], hold_seconds)
        nodes.wait_until_whole()


def cut_from_nodes(nodes: Nodes, targets: list[int], hold_seconds: float) -> None:
    _cut(nodes, targets, hold_seconds, (NODES,))


def cut_from_everybody(nodes: Nodes, targets: list[int], hold_seconds: float) -> None:
    _cut(nodes, targets, hold_seconds, (NODES, CLIENTS))


def _cut(nodes: Nodes, targets: list[int], hold_seconds: float, networks: tuple[int, ...]) -> None:
    assert isinstance(nodes.network, Namespaces)
    for target in targets:
        nodes.network.cut(target, networks)
    time.sleep(hold_seconds)
    for target in targets:
        nodes.network.heal(target)


def fill_disk(nodes: Nodes, targets: list[int], hold_seconds: float) -> None:
    """A node that cannot write its metadata log ends by itself; whoever looks after it starts it again."""
    for target in targets:
        nodes.fill_disk(target)
    time.sleep(hold_seconds)
    for target in targets:
        nodes.empty_disk(target)
    time.sleep(0.5)
    nodes.start_dead()


def cases() -> list[Case]:
    """Pauses and cuts outlast the nine seconds after which a silent broker is fenced, so that others take over."""
    matrix = [Case("kill -9", target, 2.0, kill) for target in TARGETS]
    matrix += [Case("pause (SIGSTOP)", target, 3.0 if target == "all" else 11.0, pause) for target in TARGETS]
    matrix += [Case("restart (SIGTERM)", target, 0.5, restart) for target in TARGETS]
    matrix += [Case("rolling restart", "all", 0.0, restart_in_turn)]
    matrix += [
        Case("cut off from the others", target, 4.0 if target == "all" else 11.0, cut_from_nodes, network=True)
        for target in TARGETS
    ]
    matrix += [
        Case("cut off from everybody", target, 11.0, cut_from_everybody, network=True)
        for target in ("leader", "controller")
    ]
    matrix += [Case("disk full", target, 4.0, fill_disk, small_disks=True) for target in TARGETS]
    return matrix


def targets_of(case: Case, nodes: Nodes) -> list[int]:
    """The leader is that of partition 0. Where it can be had, leader and follower are not the controller."""
    controller = nodes.controller_id()
    leaders = [nodes.leader_id(TOPIC, partition) for partition in range(PARTITIONS)]
    others = [id for id in IDS if id != controller]
    return {
        "leader": [next((leader for leader in leaders if leader != controller), leaders[0])],
        "follower": [others[-1]],
        "controller": [controller],
        "all": list(IDS),
    }[case.target]


def run(case: Case, keep_logs: Path | None = None) -> Result:
    began = time.monotonic()
    result = Result()
    network = Namespaces(IDS) if case.network else Loopback(IDS)
    with tempfile.TemporaryDirectory(prefix="barnabas-chaos-") as directory:
        nodes = Nodes(Path(directory), network, small_disks=case.small_disks)
        try:
            with network, nodes:
                _disturb(case, nodes, result)
        except AssertionError as error:
            result.wrong.append(str(error))
        for node in nodes.nodes.values():
            said = node.log.read_text(errors="replace")
            if "Traceback" in said and not case.small_disks:  # a node that ends for its disk says where that was
                result.wrong.append(f"node {node.node_id} logged an exception")
            if keep_logs is not None and result.wrong:
                keep_logs.mkdir(parents=True, exist_ok=True)
                (keep_logs / f"{case.name.replace(' ', '-')}-{node.node_id}.log").write_text(said)
    result.seconds = time.monotonic() - began
    return result


def _disturb(case: Case, nodes: Nodes, result: Result) -> None:
    admin = AdminClient(quiet(nodes.bootstrap))
    admin.create_topics([NewTopic(TOPIC, PARTITIONS, len(IDS))])[TOPIC].result(30)
    nodes.wait_until_whole()
    writer = Writer(nodes.bootstrap, TOPIC, PARTITIONS)
    reader = GroupReader(nodes.bootstrap, TOPIC)
    writer.start()
    reader.start()
    try:
        writer.wait_for_each(WRITE_AGAIN_SECONDS_MAX)
        time.sleep(BEFORE_SECONDS)
        for each in writer.acknowledged.values():
            each.silence_seconds = 0.0
        leaders = [nodes.leader_id(TOPIC, partition) for partition in range(PARTITIONS)]
        targets = targets_of(case, nodes)
        led = [partition for partition in range(PARTITIONS) if leaders[partition] in targets]
        result.takeover_seconds = _inflict(case, nodes, targets, led)
        writer.wait_for_each(WRITE_AGAIN_SECONDS_MAX)
        nodes.wait_until_whole()
    finally:
        writer.finish()
        unseen = reader.finish(writer)
    found = read_all(nodes.bootstrap, TOPIC, PARTITIONS)
    result.acknowledged = writer.count()
    result.found = sum(len(numbers) for numbers in found.values())
    result.silence_seconds = writer.silence_seconds(led)
    elsewhere = [partition for partition in range(PARTITIONS) if partition not in led]
    result.silence_elsewhere_seconds = writer.silence_seconds(elsewhere) if elsewhere else None
    result.wrong += [*writer.failures[:3], *reader.contradictions[:3], *check.records(writer.acknowledged, found)]
    if unseen:
        result.wrong.append(f"the group's reader did not see {unseen} acknowledged records")
    directories = [node.data for node in nodes.nodes.values()]
    wait_until(lambda: check.are_level(directories), "all replicas have as many bytes")
    nodes.stop()
    result.compared_bytes, differences = check.replicas(directories)
    result.wrong += differences


def _inflict(case: Case, nodes: Nodes, targets: list[int], led: list[int]) -> float | None:
    """Seconds until others led what the targets led."""
    witnesses = [node for id, node in nodes.nodes.items() if id not in targets]
    if not witnesses or not led:
        case.inflict(nodes, targets, case.hold_seconds)
        return None
    takeover = Takeover(witnesses[0], TOPIC, led, targets)
    takeover.start()
    try:
        case.inflict(nodes, targets, case.hold_seconds)
    finally:
        seconds = takeover.finish()
    return seconds


def runnable(case: Case, reasons: dict[str, str | None]) -> str | None:
    """None, or why this machine cannot run it."""
    if case.network:
        return reasons["network"]
    return reasons["disk"] if case.small_disks else None


def each_runnable(reasons: dict[str, str | None]) -> Iterator[tuple[Case, str | None]]:
    for case in cases():
        yield case, runnable(case, reasons)

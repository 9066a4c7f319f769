"""What goes wrong in a run: which kinds of faults, how often and for how long, all drawn from the seed.

Each run draws its own rates, and leaves some kinds out altogether, so that some runs see much of one kind, which an
even mixture never would. A fault that lasts has an end; `heal` ends all of them, and then everything must work again.

Where machines of a cluster lose power, and with it what they had not synced, no node ends uncleanly before all replicas
are in sync again: a cluster survives what one machine forgets, not what all of them do.
Does not know: what clients do, what is right.
"""

import asyncio
import errno
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import combinations
from random import Random

from barnabas.simulation.cluster import NodeState, SimulatedCluster, SimulatedNode
from barnabas.simulation.disk import Survival
from barnabas.simulation.loop import ProcessKilled, VirtualClock
from barnabas.simulation.network import NetworkProfile, SimulatedNetwork

# How much of each kind a run sees, compared with the others, where it sees it at all.
WEIGHTS = {
    "kill": 1.0,
    "kill at the disk": 1.0,
    "power": 1.0,
    "power at the disk": 2.0,
    "stop": 0.5,
    "pause": 1.0,
    "partition": 1.0,
    "partition one way": 1.0,
    "isolate": 1.0,
    "cut off": 1.0,
    "cut off one way": 1.0,
    "rolling restart": 0.2,
    "stall": 2.0,
    "reset": 3.0,
    "disk full": 0.5,
    "disk slow": 1.0,
    "disk error": 0.5,
    "clock jump": 0.5,
}
POWER = ("power", "power at the disk")  # what loses bytes that were not synced
BROKEN_DISK = ("disk full", "disk error")  # what may end a process at any moment
AMONG_NODES = ("cut off", "cut off one way", "rolling restart")
ROLLING_LOOK_MS, ROLLING_LOOKS_MAX = 100.0, 100
TRAPPED_OPERATIONS = ("write", "write", "sync", "sync", "truncate", "create", "rename", "remove")
TRAP_DELAY_MS_MAX = 20.0  # about what a sync and an answer take
DISK_CALLS = ("read", "write", "truncate", "sync", "create", "rename", "remove")
CLOCK_JUMP_MS_MAX = 20 * 60_000  # less than message.timestamp.after.max.ms: records stay acceptable


@dataclass(slots=True, kw_only=True)
class FaultPlan:
    rates: dict[str, float] = field(default_factory=dict)  # per second of virtual time
    forgets: bool = False  # whether machines forget what others must then remember
    downtime_ms_max: float = 5000.0
    duration_ms_max: float = 8000.0

    @classmethod
    def drawn(cls, random: Random, *, power: bool, nodes: int) -> "FaultPlan":
        left_out = (*(() if power else POWER), *(BROKEN_DISK if power and nodes > 1 else ()))
        if nodes == 1:
            left_out += AMONG_NODES
        weights = {}
        for kind, weight in WEIGHTS.items():
            chosen, share = random.random() < 0.5, random.random()
            if (chosen or kind in POWER) and kind not in left_out:
                weights[kind] = share * weight
        interval_ms = random.choice((400.0, 1000.0, 2000.0, 5000.0))
        total = sum(weights.values()) or 1.0
        rates = {kind: weight / total * 1000 / interval_ms for kind, weight in weights.items()}
        return cls(rates=rates, forgets=power and nodes > 1)


def drawn_network(random: Random) -> NetworkProfile:
    return NetworkProfile(
        delay_ms_min=random.choice((0.01, 0.1, 1.0)),
        delay_ms_max=random.choice((1.0, 2.0, 10.0, 50.0)),
        spike_rate=random.choice((0.0, 0.0, 0.001, 0.02)),
        spike_ms_max=random.choice((50.0, 500.0, 3000.0)),
        window_bytes=random.choice((1 << 12, 1 << 14, 1 << 18)),
        fragment_rate=random.choice((0.0, 0.05, 0.5)),
    )


class Nemesis:
    def __init__(
        self,
        *,
        cluster: SimulatedCluster,
        network: SimulatedNetwork,
        clock: VirtualClock,
        random: Random,
        plan: FaultPlan,
        client_hosts: list[str],
    ) -> None:
        self.counts: dict[str, int] = {}
        self._cluster = cluster
        self._network = network
        self._clock = clock
        self._random = random
        self._plan = plan
        self._hosts = [*(node.host for node in cluster.nodes.values()), *client_hosts]
        self._endings: dict[int, Callable[[], None]] = {}  # of faults that last, by number
        self._next_number = 0
        self._rolling: asyncio.Task[None] | None = None
        self._is_over = False
        self._damaged: dict[int, None] = {}  # nodes whose disk has failed them: they may need a restart

    async def run(self) -> None:
        total = sum(self._plan.rates.values())
        kinds = list(self._plan.rates)
        if total <= 0:
            return
        while True:
            await self._clock.sleep(self._random.expovariate(total) * 1000)
            if self._is_over:
                return
            kind = self._random.choices(kinds, [self._plan.rates[each] for each in kinds])[0]
            if self.inflict(kind):
                self.counts[kind] = self.counts.get(kind, 0) + 1

    def inflict(self, kind: str) -> bool:
        """Whether it could be done just now."""
        node = self._random.choice(list(self._cluster.nodes.values()))
        match kind:
            case "kill" | "power" | "stop" | "pause":
                return self._take_down(node, kind)
            case "kill at the disk" | "power at the disk":
                self._set_trap(node, kind.split()[0])
            case "partition" | "partition one way" | "isolate" | "stall" | "cut off" | "cut off one way":
                self._block(kind, node)
            case "rolling restart":
                return self._begin_rolling()
            case "reset":
                return self._network.reset_one() is not None
            case "clock jump":
                jump_ms = self._random.uniform(-CLOCK_JUMP_MS_MAX, CLOCK_JUMP_MS_MAX)
                node.clock.offset_ms += jump_ms
                self._lasting(lambda: _jump(node, -jump_ms), self._plan.duration_ms_max)
            case "disk slow":
                node.slowness = self._random.choice((10.0, 100.0, 1000.0))
                self._lasting(lambda: _set_slowness(node, 1.0), self._plan.duration_ms_max)
            case "disk full":
                self._damaged[node.id] = None
                node.disk.set_free_bytes(self._random.randint(0, 20_000))
                self._lasting(lambda: node.disk.set_free_bytes(1 << 40), self._plan.duration_ms_max)
            case "disk error":
                self._damaged[node.id] = None
                call = self._random.choice(DISK_CALLS)
                node.disk.fail(call, nth=self._random.randint(1, 20), error=errno.EIO)
            case _:
                raise AssertionError(kind)
        return True

    # Nodes

    def _take_down(self, node: SimulatedNode, kind: str) -> bool:
        cluster = self._cluster
        if node.state is NodeState.DOWN or (kind in ("kill", "power") and not self._may_end_uncleanly()):
            return False
        downtime_ms = self._plan.downtime_ms_max
        if kind == "pause":
            if node.is_paused:
                return False
            cluster.pause(node)
            process = node.process
            self._lasting(lambda: cluster.resume(node) if node.process is process else None, downtime_ms)
            return True
        if kind == "stop":
            if node.state is not NodeState.UP or node.is_paused:
                return False
            cluster.stop(node)
        elif kind == "power":
            cluster.cut_power(node, self._random.choice(list(Survival)))
        else:
            cluster.kill(node)
        node.stays_down = True
        self._damaged.pop(node.id, None)
        self._lasting(lambda: self._bring_up(node), downtime_ms)
        return True

    def _set_trap(self, node: SimulatedNode, kind: str) -> None:
        """Takes the node down in the very moment of one of its next disk operations, or right after it.

        That is where it matters: what was written may not be synced yet, and what is synced not be told yet.
        """
        operation = self._random.choice(TRAPPED_OPERATIONS)
        left = self._random.randint(1, 30)
        delay_ms = self._random.choice((0.0, self._random.uniform(0, TRAP_DELAY_MS_MAX)))
        before, disk, loop = node.disk.on_operation, node.disk, self._cluster.loop

        def snap() -> bool:
            return not self._is_over and node.disk is disk and self._take_down(node, kind)

        def count(done: str) -> None:
            nonlocal left
            left -= done == operation
            if left == 0 and not self._is_over:
                disk.on_operation = before
                if delay_ms > 0:
                    loop.call_later(delay_ms / 1000, snap, context=loop.world)
                elif snap():
                    raise ProcessKilled

        disk.on_operation = count

    def _may_end_uncleanly(self) -> bool:
        """Whether everybody else would remember what a node forgets now."""
        nodes = self._cluster.nodes.values()
        if not self._plan.forgets:
            return True
        if any(node.state is not NodeState.UP or node.broker is None for node in nodes):
            return False
        image = max((broker.controller.image for broker in self._cluster.brokers), key=lambda each: each.offset)
        return all(
            image.brokers[broker.node_id].epoch == broker.lifecycle.epoch for broker in self._cluster.brokers
        ) and all(set(state.isr) == set(state.replicas) for _name, state in image.partitions())

    def _bring_up(self, node: SimulatedNode) -> None:
        """An orderly stop may take longer than its downtime: then it is not waited for, unless that could do harm."""
        if node.state is NodeState.STOPPING:
            if self._plan.forgets:
                node.stays_down = False
                return
            self._cluster.kill(node)
        if node.state is NodeState.DOWN:
            self._cluster.start(node)

    def _begin_rolling(self) -> bool:
        if self._rolling is not None and not self._rolling.done():
            return False
        loop = self._cluster.loop
        self._rolling = loop.create_task(self._roll(), context=loop.world)
        return True

    async def _roll(self) -> None:
        """One node after the other is stopped in good order and started again, as for a new version."""
        for node in list(self._cluster.nodes.values()):
            if self._is_over:
                return
            if node.state is NodeState.UP and not node.is_paused:
                self._cluster.stop(node)
                node.stays_down = False  # once it has stopped, it starts
            for _ in range(ROLLING_LOOKS_MAX):
                await self._clock.sleep(ROLLING_LOOK_MS)
                if node.state is NodeState.UP:
                    break

    # Networks

    def _block(self, kind: str, node: SimulatedNode) -> None:
        random, network = self._random, self._network
        if kind == "isolate":
            pairs = [pair for other in self._hosts if other != node.host for pair in _both(node.host, other)]
        elif kind in ("cut off", "cut off one way"):
            others = [other.host for other in self._cluster.nodes.values() if other is not node]
            pairs = [pair for other in others for pair in _both(node.host, other)]
            if kind == "cut off one way":
                away = random.random() < 0.5  # it speaks and does not hear, or hears and does not speak
                pairs = [(source, target) for source, target in pairs if (source == node.host) == away]
        elif kind == "partition":
            group = {host for host in sorted(self._hosts) if random.random() < 0.5}
            pairs = [
                pair
                for one, other in combinations(self._hosts, 2)
                if (one in group) != (other in group)
                for pair in _both(one, other)
            ]
        else:
            one, other = random.sample(self._hosts, 2)
            pairs = [(one, other)] if kind == "partition one way" else _both(one, other)
        for source, target in pairs:
            network.block(source, target)
        duration_ms = 500.0 if kind == "stall" else self._plan.duration_ms_max

        def unblock() -> None:
            for source, target in pairs:
                network.unblock(source, target)

        self._lasting(unblock, duration_ms)

    # Ends

    def _lasting(self, end: Callable[[], None], duration_ms_max: float) -> None:
        number = self._next_number = self._next_number + 1
        self._endings[number] = end
        loop = self._cluster.loop
        delay_ms = self._random.uniform(0, duration_ms_max)
        loop.call_later(delay_ms / 1000, self._end, number, context=loop.world)

    def _end(self, number: int) -> None:
        end = self._endings.pop(number, None)
        if end is not None:
            end()

    def heal(self) -> None:
        """Everything is as it should be, and nothing more goes wrong."""
        self._is_over = True
        self._network.profile.spike_rate = 0
        for number in list(self._endings):
            self._end(number)
        for node in self._cluster.nodes.values():
            node.disk.heal()
            node.disk.set_free_bytes(1 << 40)
            node.stays_down = False
            if node.id in self._damaged and node.state is not NodeState.DOWN:
                self._cluster.kill(node)
            if node.state is NodeState.DOWN:
                self._cluster.start(node)


def _both(one: str, other: str) -> list[tuple[str, str]]:
    return [(one, other), (other, one)]


def _jump(node: SimulatedNode, jump_ms: float) -> None:
    node.clock.offset_ms += jump_ms


def _set_slowness(node: SimulatedNode, slowness: float) -> None:
    node.slowness = slowness

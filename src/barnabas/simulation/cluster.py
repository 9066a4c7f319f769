"""The nodes of a simulated cluster: the same `Broker` that runs on machines, started, stopped, killed and held up.

Always holds: a process that ended runs no more code, its connections are closed by its kernel (or, without power, by
nobody), and its disk is what the next process finds. A node that went down by itself, because its disk failed, comes
up again after a while, as a supervisor would have it. Any other end that nobody asked for fails the run.
Does not know: why faults happen, what clients do.
"""

import asyncio
from collections.abc import Callable, Mapping
from enum import Enum
from random import Random

from barnabas.config.broker import BrokerConfig
from barnabas.server.broker import Broker
from barnabas.server.quorum.metadata_log import DIRECTORY_NAME
from barnabas.simulation.disk import DiskFault, SimulatedDisk, Survival
from barnabas.simulation.loop import Process, VirtualClock, VirtualLoop
from barnabas.simulation.network import SimulatedNetwork
from barnabas.simulation.runtime import simulated_runtime
from barnabas.simulation.trace import Trace
from barnabas.types import BrokerId

BROKER_PORT = 9092
CONTROLLER_PORT = 9093
EPOCH_MS = 1_800_000_000_000  # the wall clock at second 0
RESTART_MS_MAX = 3000.0  # a supervisor starts again within this
DATA_DIRECTORY = "/data"
QUORUM_DIRECTORY = f"{DATA_DIRECTORY}/{DIRECTORY_NAME}"


class NodeState(Enum):
    DOWN = "down"
    STARTING = "starting"
    UP = "up"
    STOPPING = "stopping"


class SimulatedNode:
    """One machine: what it keeps when the process on it ends."""

    def __init__(self, node_id: BrokerId, clock: VirtualClock, disk: SimulatedDisk) -> None:
        self.id = node_id
        self.host = f"node-{node_id}"
        self.clock = clock
        self.disk = disk
        self.state = NodeState.DOWN
        self.broker: Broker | None = None  # while UP or STOPPING
        self.process: Process | None = None  # None while DOWN
        self.incarnation = 0
        self.stays_down = True  # whether whoever took it down will start it
        self.stop_asked: asyncio.Future[None] | None = None
        self.slowness = 1.0  # of its disk

    @property
    def is_paused(self) -> bool:
        return self.process is not None and self.process.is_paused

    @property
    def address(self) -> tuple[str, int]:
        return self.host, BROKER_PORT


class SimulatedCluster:
    def __init__(
        self,
        *,
        loop: VirtualLoop,
        network: SimulatedNetwork,
        trace: Trace,
        random: Random,
        node_count: int,
        settings: Mapping[str, str],
        sync_ms_max: float,
        configures_voters: bool = True,
        on_failure: Callable[[BaseException, str], None],
    ) -> None:
        self.loop = loop
        self.network = network
        self.nodes: dict[BrokerId, SimulatedNode] = {}
        self._trace = trace
        self._random = random
        self._settings = dict(settings)
        self._sync_ms_max = sync_ms_max
        self._configures_voters = configures_voters  # if not, the first node begins the quorum, and the others join it
        self._on_failure = on_failure  # told of an end that nobody asked for
        self.on_election: Callable[[], object] | None = None  # told when a voter has written down its election
        self.on_offloaded: Callable[[SimulatedNode], object] = lambda _node: None  # told when an offloaded call ended
        self.starts = 0
        self.is_ending = False  # once true, what ended stays so
        for node_id in range(1, node_count + 1):
            clock = VirtualClock(loop, now_ms=EPOCH_MS)
            self.nodes[node_id] = SimulatedNode(
                node_id, clock, self._watched(node_id, SimulatedDisk(now_ms=clock.now_ms))
            )

    def config(self, node_id: BrokerId) -> BrokerConfig:
        host = f"node-{node_id}"
        settings = {
            "node.id": str(node_id),
            "listeners": f"PLAINTEXT://{host}:{BROKER_PORT}",
            "log.dirs": DATA_DIRECTORY,
        }
        if len(self.nodes) > 1:
            settings["listeners"] += f",CONTROLLER://{host}:{CONTROLLER_PORT}"
            settings["controller.listener.names"] = "CONTROLLER"
            settings["inter.broker.listener.name"] = "PLAINTEXT"
            addresses = {node.id: f"{node.host}:{CONTROLLER_PORT}" for node in self.nodes.values()}
            if self._configures_voters:
                settings["controller.quorum.voters"] = ",".join(f"{id}@{at}" for id, at in addresses.items())
            else:
                settings["controller.quorum.bootstrap.servers"] = addresses[1]
        return BrokerConfig({**settings, **self._settings})

    @property
    def brokers(self) -> list[Broker]:
        """Those that serve now, paused or not."""
        return [node.broker for node in self.nodes.values() if node.broker is not None]

    @property
    def is_up(self) -> bool:
        return all(node.state is NodeState.UP and not node.is_paused for node in self.nodes.values())

    # Coming up

    def start(self, node: SimulatedNode) -> None:
        assert node.state is NodeState.DOWN
        node.state = NodeState.STARTING
        node.stays_down = False
        node.incarnation += 1
        self.starts += 1
        self._trace.note(f"{node.host} starts, incarnation {node.incarnation}")
        self.network.power_returned(node.host)
        process = node.process = Process(node.host)
        node.stop_asked = self.loop.create_future()
        task = self.loop.start(process, self._live(node, node.stop_asked))
        task.add_done_callback(lambda done: self._ended(node, process, done), context=self.loop.world)

    async def _live(self, node: SimulatedNode, stop_asked: "asyncio.Future[None]") -> None:
        """The life of one process, as `barnabas up` leads it."""
        random = Random(f"{self._random.random()} {node.id} {node.incarnation}")
        runtime = simulated_runtime(
            loop=self.loop,
            clock=node.clock,
            disk=node.disk,
            network=self.network.host(node.host),
            random=random,
            sync_ms=lambda: random.uniform(0.01, self._sync_ms_max) * node.slowness,
            on_offloaded=lambda: self.on_offloaded(node),
        )
        broker = Broker(self.config(node.id), runtime)
        await broker.start()
        node.broker = broker
        node.state = NodeState.UP
        self._trace.note(f"{node.host} is up")
        await asyncio.wait((broker.failed, stop_asked), return_when=asyncio.FIRST_COMPLETED)
        if broker.failed.done():
            raise broker.failed.result()
        node.state = NodeState.STOPPING
        await broker.stop()

    # Going down

    def stop(self, node: SimulatedNode) -> None:
        """Asks for an orderly end; it takes its time."""
        assert node.stop_asked is not None
        if not node.stop_asked.done():
            self._trace.note(f"{node.host} is asked to stop")
            node.stays_down = True
            node.stop_asked.set_result(None)

    def kill(self, node: SimulatedNode) -> None:
        """The process ends, the machine goes on: nothing that was written is lost."""
        self._trace.note(f"{node.host} is killed")
        self._end_process(node)

    def cut_power(self, node: SimulatedNode, survival: Survival) -> None:
        """The machine ends: what was not synced is lost, or some of it."""
        self._trace.note(f"{node.host} loses power, {survival.value} survives")
        assert node.process is not None
        self.loop.kill(node.process)
        self.network.power_lost(node.host)
        node.disk = self._watched(node.id, node.disk.crash(self._random, survival))
        self._is_down(node)

    def pause(self, node: SimulatedNode) -> None:
        assert node.process is not None
        self._trace.note(f"{node.host} is paused")
        self.loop.pause(node.process)

    def resume(self, node: SimulatedNode) -> None:
        assert node.process is not None
        self._trace.note(f"{node.host} goes on")
        self.loop.resume(node.process)

    def _end_process(self, node: SimulatedNode) -> None:
        assert node.process is not None
        self.loop.kill(node.process)
        self.network.process_ended(node.host)
        node.disk = self._watched(node.id, node.disk.kill())
        self._is_down(node)

    def _is_down(self, node: SimulatedNode) -> None:
        node.state = NodeState.DOWN
        node.process = None
        node.broker = None

    def _ended(self, node: SimulatedNode, process: Process, task: "asyncio.Task[None]") -> None:
        """The process has come to its own end, by itself or because it was asked to."""
        if node.process is not process:
            return
        error = task.exception()
        self._trace.note(f"{node.host} has ended: {error!r}")
        self._end_process(node)
        if error is None and node.stays_down:
            return
        if error is not None and not comes_from_disk_fault(error):
            self._on_failure(error, f"{node.host} ended")
        delay_ms = self._random.uniform(1, RESTART_MS_MAX)
        self.loop.call_later(delay_ms / 1000, self._restart, node, context=self.loop.world)

    def _restart(self, node: SimulatedNode) -> None:
        if node.state is NodeState.DOWN and not node.stays_down and not self.is_ending:
            self.start(node)

    # Disks

    def _watched(self, node_id: BrokerId, disk: SimulatedDisk) -> SimulatedDisk:
        def changed(kind: str, path: str) -> None:
            self._trace.note(f"disk node-{node_id} {kind} {path}")
            if kind == "sync" and path == QUORUM_DIRECTORY and self.on_election is not None:
                self.on_election()

        disk.on_change = changed
        return disk


def comes_from_disk_fault(error: BaseException | None) -> bool:
    """Whether somewhere at the bottom of this a disk failed that was meant to."""
    while error is not None:
        if isinstance(error, DiskFault):
            return True
        error = error.__cause__ or error.__context__
    return False

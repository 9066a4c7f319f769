"""A simulated cluster of three brokers under faults, for clients that know nothing of the simulation."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from random import Random
from typing import Any

from barnabas.runtime.interfaces import Runtime
from barnabas.runtime.memory_disk import MemoryDisk
from barnabas.simulation.cluster import EPOCH_MS, SimulatedCluster
from barnabas.simulation.faults import FaultPlan, Nemesis
from barnabas.simulation.loop import VirtualClock, VirtualLoop
from barnabas.simulation.network import NetworkProfile, SimulatedNetwork
from barnabas.simulation.runtime import simulated_runtime
from barnabas.simulation.trace import Trace

FAULTS = {"kill": 0.12, "stop": 0.05, "pause": 0.1, "reset": 1.0, "partition": 0.2}
SETTINGS = {
    "auto.create.topics.enable": "false",
    "offsets.topic.num.partitions": "2",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.num.partitions": "2",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "min.insync.replicas": "2",
    "group.initial.rebalance.delay.ms": "50",
    "group.min.session.timeout.ms": "1000",
    "group.consumer.session.timeout.ms": "6000",
    "group.consumer.heartbeat.interval.ms": "1000",
    "group.consumer.min.session.timeout.ms": "2000",
    "group.consumer.min.heartbeat.interval.ms": "500",
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
}


class World:
    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.loop = VirtualLoop()
        self.loop.set_exception_handler(self._unhandled)
        self.trace = Trace(self.loop.time)
        profile = NetworkProfile(delay_ms_min=0.1, delay_ms_max=self.random.choice((1.0, 5.0, 20.0)))
        self.network = SimulatedNetwork(self.loop, Random(self.random.random()), self.trace, profile)
        self.cluster = SimulatedCluster(
            loop=self.loop,
            network=self.network,
            trace=self.trace,
            random=Random(self.random.random()),
            node_count=3,
            settings=SETTINGS,
            sync_ms_max=5.0,
            on_failure=lambda error, _what: self.loop.fail(error),
        )
        self.clock = VirtualClock(self.loop, now_ms=EPOCH_MS)
        self.servers = ",".join(f"{host}:{port}" for host, port in (n.address for n in self.cluster.nodes.values()))
        self.nemesis = Nemesis(
            cluster=self.cluster,
            network=self.network,
            clock=self.clock,
            random=Random(self.random.random()),
            plan=FaultPlan(rates=FAULTS, duration_ms_max=4000.0),
            client_hosts=[],
        )

    def runtime(self, name: str) -> Runtime:
        disk = MemoryDisk(now_ms=self.clock.now_ms)
        return simulated_runtime(
            loop=self.loop,
            clock=self.clock,
            disk=disk,
            network=self.network.host(name),
            random=Random(self.random.random()),
            sync_ms=lambda: 1.0,
        )

    def settings(self, name: str) -> dict[str, Any]:
        return {"bootstrap_servers": self.servers, "runtime": self.runtime(name), "request_timeout_ms": 4000}

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = self.loop.create_task(work, context=self.loop.world)
        task.add_done_callback(self._done, context=self.loop.world)
        return task

    def _done(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self.loop.fail(error)

    def _unhandled(self, _loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        self.loop.fail(error if error is not None else AssertionError(str(context)))

    async def until(self, condition: Callable[[], bool], complaint: Callable[[], str], seconds: float) -> None:
        end = self.loop.time() + seconds
        while not condition():
            assert self.loop.time() < end, complaint()
            await self.clock.sleep(50)

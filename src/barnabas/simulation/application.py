"""An application that uses `barnabas.client`, on a host of its own.

Each life is a process with clients of its own. It ends by itself, by an error that its user would see, or because it is
killed in the middle of anything; now and then it is held up for longer than its group or its transaction waits.
Always holds: once faults are over nobody is killed or held up any more. What a process left undone when it ended is
told by `life_ended`. Does not know: what its clients do.
"""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from random import Random
from typing import Any

from barnabas.client.errors import KafkaError
from barnabas.runtime.memory_disk import MemoryDisk
from barnabas.simulation.history import PartitionId
from barnabas.simulation.loop import Process, VirtualClock, VirtualLoop
from barnabas.simulation.network import SimulatedNetwork
from barnabas.simulation.participants import Board, Participant, Topic
from barnabas.simulation.runtime import simulated_runtime
from barnabas.simulation.trace import Trace

RESTART_MS_MAX = 1000.0
LIFE_MS_MAX = 15_000.0
PAUSE_MS_MAX = 9000.0  # longer than sessions last
KILL_RATE = 0.3  # of lives
PAUSE_RATE = 0.3


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """The machine of one application."""

    name: str
    loop: VirtualLoop
    clock: VirtualClock
    network: SimulatedNetwork
    trace: Trace
    random: Random
    servers: str
    request_timeout_ms: int

    def settings(self) -> dict[str, Any]:
        """Of any client on this host."""
        runtime = simulated_runtime(
            loop=self.loop,
            clock=self.clock,
            disk=MemoryDisk(now_ms=self.clock.now_ms),
            network=self.network.host(self.name),
            random=Random(self.random.random()),
            sync_ms=lambda: 1.0,
        )
        return {
            "runtime": runtime,
            "bootstrap_servers": self.servers,
            "client_id": self.name,
            "request_timeout_ms": self.request_timeout_ms,
            "retry_backoff_ms": 20,
            "retry_backoff_max_ms": 300,
            "metadata_max_age_ms": 2000,
        }


class Application(Participant):
    def __init__(self, host: Host, board: Board) -> None:
        super().__init__(board)
        self.host = host
        self.random = host.random
        self.clock = host.clock
        self.lives = 0
        self._ends_at_ms = 0.0
        self._process: Process | None = None
        self._ended: asyncio.Future[None] | None = None

    @property
    def life_name(self) -> str:
        """Of this life: who starts anew knows nothing of what was before."""
        return f"{self.host.name}.{self.lives}"

    @property
    def goes_on(self) -> bool:
        return not self.is_stopping and self.clock.monotonic_ms() < self._ends_at_ms

    async def run(self) -> None:
        while not self.is_stopping:
            await self._one_life()
            if not self.is_stopping:
                await self.clock.sleep(self.random.uniform(1, RESTART_MS_MAX))

    async def _one_life(self) -> None:
        loop = self.host.loop
        self.lives += 1
        self._ends_at_ms = self.clock.monotonic_ms() + self.random.uniform(LIFE_MS_MAX / 5, LIFE_MS_MAX)
        process = self._process = Process(self.host.name)
        ended = self._ended = loop.create_future()
        task = loop.start(process, self._live())
        task.add_done_callback(lambda done: self._is_over(ended, done), context=loop.world)
        self._draw_fate(process)
        await ended
        self._process = None
        loop.kill(process)  # whatever it left behind
        self.host.network.process_ended(self.host.name)
        self.life_ended()

    async def _live(self) -> None:
        try:
            await self.live()
        except KafkaError as error:
            self.host.trace.note(f"{self.life_name} ends: {error!r}")

    def _is_over(self, ended: asyncio.Future[None], task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self.host.loop.fail(error)
        if not ended.done():
            ended.set_result(None)

    def _draw_fate(self, process: Process) -> None:
        """When it is killed or held up, if it is."""
        random = self.random
        is_killed, is_paused = random.random() < KILL_RATE, random.random() < PAUSE_RATE
        if is_killed:
            self._later(random.uniform(100, LIFE_MS_MAX), process, self._kill)
        if is_paused:
            self._later(random.uniform(100, LIFE_MS_MAX / 2), process, self._pause)

    def _later(self, delay_ms: float, process: Process, fate: Callable[[Process], None]) -> None:
        def meet() -> None:
            if self._process is process and not self.board.is_calm:
                fate(process)

        self.host.loop.call_later(delay_ms / 1000, meet, context=self.host.loop.world)

    def _kill(self, process: Process) -> None:
        self.host.trace.note(f"{self.life_name} is killed")
        self.host.loop.kill(process)
        if self._ended is not None and not self._ended.done():
            self._ended.set_result(None)

    def _pause(self, process: Process) -> None:
        self.host.trace.note(f"{self.life_name} is held up")
        loop = self.host.loop
        loop.pause(process)
        loop.call_later(self.random.uniform(100, PAUSE_MS_MAX) / 1000, loop.resume, process, context=loop.world)

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Within this life; whatever it raises ends the run."""
        assert self._process is not None
        task = self.host.loop.start(self._process, work)
        task.add_done_callback(self._spawned_ended, context=self.host.loop.world)
        return task

    def _spawned_ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self.host.loop.fail(error)

    async def think(self) -> None:
        await self.clock.sleep(self.random.uniform(0, self.board.habits.think_ms_max))

    @abstractmethod
    async def live(self) -> None:
        """Until `goes_on` is false, or something fails."""

    def life_ended(self) -> None:
        """The process is no more, for whatever reason."""

    # Topics that are there as long as the run

    def topics(self) -> list[Topic]:
        """By name, a topic that was created anew cannot be told from the one before."""
        return [topic for topic in self.board.topics.values() if topic.name not in self.board.habits.churn_names]

    def topic(self, name: str) -> Topic:
        known = (*self.board.topics.values(), *self.board.tables.values())
        return next(topic for topic in known if topic.name == name)

    def partition_id(self, name: str, partition: int) -> PartitionId:
        return PartitionId(self.topic(name).id, partition)

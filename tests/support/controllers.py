"""A controller's service on a disk of the test's choosing, with everything else held still."""

import asyncio
import itertools
from collections.abc import Awaitable, Callable
from random import Random
from typing import Any, TypeVar

from barnabas.config.broker import BrokerConfig
from barnabas.consensus.voters import ReplicaKey, Voter, VoterSet
from barnabas.metadata.delta import MetadataDelta
from barnabas.metadata.image import Endpoint, MetadataImage
from barnabas.runtime.interfaces import Disk, Runtime
from barnabas.server.controller_service import ControllerService

T = TypeVar("T")
DIRECTORY = "data"
DIRECTORY_ID = b"directory-id----"
ENDPOINT = Endpoint("PLAINTEXT", "127.0.0.1", 9092, 0)
_seeds = itertools.count()  # no two incarnations draw the same ids


class SteadyClock:
    """Moves by one with every question."""

    def __init__(self) -> None:
        self.milliseconds = 1_700_000_000_000

    def now_ms(self) -> int:
        self.milliseconds += 1
        return self.milliseconds

    def monotonic_ms(self) -> float:
        return float(self.now_ms())

    def call_later(self, delay_ms: float, callback: Callable[[], object]) -> Any:
        raise AssertionError("the controller needs no timer")

    async def sleep(self, delay_ms: float) -> None:
        raise AssertionError("the controller does not sleep")


class Offload:
    """Runs what it is given at once, or, while `hold` is set, when `release` is called."""

    def __init__(self) -> None:
        self.hold = False
        self.calls = 0
        self._waiting: list[asyncio.Future[None]] = []

    def __call__(self, function: Callable[[], T]) -> Awaitable[T]:
        return self._run(function)

    async def _run(self, function: Callable[[], T]) -> T:
        self.calls += 1
        if self.hold:
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append(waiter)
            await waiter
        return function()

    def release(self) -> None:
        waiting, self._waiting = self._waiting, []
        for waiter in waiting:
            waiter.set_result(None)


class Controller:
    """The service with what it told and how it may be held up."""

    def __init__(self, disk: Disk, *, overrides: dict[str, str] | None = None) -> None:
        self.disk = disk
        self.offload = Offload()
        self.changes: list[tuple[MetadataDelta, MetadataImage]] = []
        self.failures: list[Exception] = []
        disk.make_directories(DIRECTORY)
        disk.sync_directory("")  # whoever makes the data directory sees to that it stays
        self.service = ControllerService(
            config=BrokerConfig(overrides or {}),
            runtime=Runtime(
                clock=SteadyClock(),
                disk=disk,
                network=None,  # type: ignore[arg-type]
                random=Random(next(_seeds)),
                offload=self.offload,
            ),
            directory=DIRECTORY,
            cluster_id="cluster",
            voters=VoterSet([Voter(ReplicaKey(1))]),
            peers=None,  # type: ignore[arg-type]
            on_change=lambda delta, image: self.changes.append((delta, image)),
            on_failure=self.failures.append,
        )

    async def start(self) -> "Controller":
        await self.service.start(directory_ids=(DIRECTORY_ID,), endpoints=(ENDPOINT,))
        return self

    @property
    def image(self) -> MetadataImage:
        return self.service.image


async def settle() -> None:
    """Lets every task that can run do so."""
    for _ in range(20):
        await asyncio.sleep(0)

"""A controller's service on a disk of the test's choosing, with everything else held still."""

import asyncio
import itertools
from collections.abc import Awaitable, Callable
from random import Random
from typing import Any, TypeVar

from barnabas.config.broker import BrokerConfig
from barnabas.consensus.voters import ReplicaKey, Voter, VoterSet
from barnabas.controller import features, lifecycle, registration
from barnabas.controller.decision import Decision
from barnabas.controller.electorate import Electorate
from barnabas.errors import ErrorCode
from barnabas.metadata.delta import MetadataDelta
from barnabas.metadata.ids import new_uuid
from barnabas.metadata.image import Endpoint, MetadataImage
from barnabas.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from barnabas.protocol.messages.broker_registration import (
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
    Feature,
    Listener,
)
from barnabas.runtime.interfaces import Disk, Runtime
from barnabas.server.controller.controller_service import ControllerService
from barnabas.server.supervisor import Supervisor
from barnabas.types import Offset

T = TypeVar("T")
DIRECTORY = "data"
CLUSTER_ID = "cluster"
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
        """Time stands still: what is due later never is."""
        return asyncio.get_running_loop().call_later(3600, callback)

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
        self.config = BrokerConfig(overrides or {})
        self.broker_epoch = -1  # given at start
        self.runtime = Runtime(
            clock=SteadyClock(),
            disk=disk,
            network=None,  # type: ignore[arg-type]
            random=Random(next(_seeds)),
            offload=self.offload,
            background=None,  # type: ignore[arg-type]
        )
        self.service = ControllerService(
            config=self.config,
            runtime=self.runtime,
            directory=DIRECTORY,
            cluster_id=CLUSTER_ID,
            voters=VoterSet([Voter(ReplicaKey(1))]),
            peers=None,  # type: ignore[arg-type]
            supervisor=Supervisor(clock=self.runtime.clock, on_failure=self.failures.append),
            on_change=lambda delta, image: self.changes.append((delta, image)),
            on_failure=self.failures.append,
        )

    async def start(self) -> "Controller":
        """As the active controller of one node, whose broker has registered and may lead."""
        self.service.start()
        registered = await self.service.submit(self._register)
        assert registered.error_code == ErrorCode.NONE, registered
        self.broker_epoch = registered.broker_epoch
        await self.service.submit(self._heartbeat)
        return self

    def _register(self, image: MetadataImage, next_offset: Offset) -> Decision[BrokerRegistrationResponse]:
        request = BrokerRegistrationRequest(
            broker_id=1,
            cluster_id=CLUSTER_ID,
            incarnation_id=new_uuid(self.runtime.random),
            listeners=[Listener(name=ENDPOINT.listener, host=ENDPOINT.host, port=ENDPOINT.port)],
            features=[
                Feature(name=each.name, min_supported_version=each.min_version, max_supported_version=each.max_version)
                for each in features.SUPPORTED
            ],
            rack=self.config.broker_rack,
            log_dirs=[DIRECTORY_ID],
        )
        electorate = Electorate(image, self.config)
        return registration.register_broker(electorate, self.service.sessions, request, CLUSTER_ID, next_offset, 0)

    def _heartbeat(self, image: MetadataImage, next_offset: Offset) -> Decision[BrokerHeartbeatResponse]:
        request = BrokerHeartbeatRequest(
            broker_id=1, broker_epoch=self.broker_epoch, current_metadata_offset=self.broker_epoch
        )
        return lifecycle.heartbeat(Electorate(image, self.config), self.service.sessions, request, next_offset, 0)

    @property
    def image(self) -> MetadataImage:
        return self.service.image


async def settle() -> None:
    """Lets every task that can run do so."""
    for _ in range(20):
        await asyncio.sleep(0)

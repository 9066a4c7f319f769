"""The world of one simulated process, as `runtime.interfaces.Runtime` wants it.

Always holds: what is offloaded takes virtual time and overlaps with everything else, see `threads`. Before its result
is known the process may have died with the work done, half done or not done.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from random import Random
from typing import TypeVar

from barnabas.runtime.interfaces import Disk, Network, Runtime
from barnabas.runtime.slices import Throttle
from barnabas.simulation.disk import SimulatedDisk
from barnabas.simulation.loop import VirtualClock, VirtualLoop
from barnabas.simulation.threads import OffloadedCall, OffloadedCalls

A = TypeVar("A")
T = TypeVar("T")


class SimulatedOffload:
    def __init__(self, loop: VirtualLoop, calls: OffloadedCalls) -> None:
        self._loop = loop
        self._calls = calls

    def __call__(self, function: Callable[[], T]) -> Awaitable[T]:
        future: asyncio.Future[T] = self._loop.create_future()
        self._calls.begin(function, lambda call: self._loop.call_later(call.delay_ms / 1000, _resolve, future, call))
        return future


def _resolve(future: "asyncio.Future[T]", call: OffloadedCall) -> None:
    if future.done():
        return  # the task that waited was cancelled meanwhile
    if call.error is not None:
        future.set_exception(call.error)
    else:
        future.set_result(call.result)


class SimulatedBackground:
    """Work of another process: each step is an offloaded call, and the pause after it is as long as its bytes take."""

    def __init__(self, disk: Disk, clock: VirtualClock, offload: SimulatedOffload) -> None:
        self._disk = disk
        self._clock = clock
        self._offload = offload

    async def __call__(
        self, work: Callable[[Disk, A], Iterator[T | int]], argument: A, *, bytes_per_second: float
    ) -> AsyncGenerator[T, None]:
        throttle = Throttle(bytes_per_second, self._clock.monotonic_ms())
        steps = work(self._disk, argument)
        while (step := await self._offload(lambda: next(steps, None))) is not None:
            if isinstance(step, int):
                await self._clock.sleep(throttle.pause_ms(step, self._clock.monotonic_ms()))
            else:
                yield step


def simulated_runtime(
    *,
    loop: VirtualLoop,
    clock: VirtualClock,
    disk: Disk,
    network: Network,
    random: Random,
    sync_ms: Callable[[], float],
    on_offloaded: Callable[[], object] = lambda: None,  # told when a call has ended, before its caller is
) -> Runtime:
    calls = OffloadedCalls(loop, random, sync_ms=sync_ms, on_ended=on_offloaded)
    if isinstance(disk, SimulatedDisk):
        disk.before_operation = calls.before_operation
    offload = SimulatedOffload(loop, calls)
    return Runtime(
        clock=clock,
        disk=disk,
        network=network,
        random=random,
        offload=offload,
        background=SimulatedBackground(disk, clock, offload),
    )

"""The world of one simulated process, as `runtime.interfaces.Runtime` wants it.

Always holds: what is offloaded takes virtual time, and is done at some moment within it, in one step: before its
result is known the process may have died with the work done or not done, as with a thread that syncs a file.
"""

import asyncio
from collections.abc import Awaitable, Callable
from random import Random
from typing import TypeVar

from barnabas.runtime.interfaces import Disk, Network, Runtime
from barnabas.runtime.slices import SlicedBackground
from barnabas.simulation.loop import VirtualClock, VirtualLoop

T = TypeVar("T")


class SimulatedOffload:
    """`duration_ms` is asked anew for each call: the disk may become slow."""

    def __init__(self, loop: VirtualLoop, random: Random, duration_ms: Callable[[], float]) -> None:
        self._loop = loop
        self._random = random
        self._duration_ms = duration_ms

    def __call__(self, function: Callable[[], T]) -> Awaitable[T]:
        loop = self._loop
        future: asyncio.Future[T] = loop.create_future()
        duration = self._duration_ms() / 1000
        before = duration * self._random.random()

        def work() -> None:
            try:
                result = function()
            except Exception as error:
                loop.call_later(duration - before, _fail, future, error)
            else:
                loop.call_later(duration - before, _finish, future, result)

        loop.call_later(before, work)
        return future


def _finish(future: "asyncio.Future[T]", result: T) -> None:
    if not future.done():  # else whoever waited was cancelled meanwhile
        future.set_result(result)


def _fail(future: "asyncio.Future[T]", error: Exception) -> None:
    if not future.done():
        future.set_exception(error)


def simulated_runtime(
    *,
    loop: VirtualLoop,
    clock: VirtualClock,
    disk: Disk,
    network: Network,
    random: Random,
    duration_ms: Callable[[], float],
) -> Runtime:
    return Runtime(
        clock=clock,
        disk=disk,
        network=network,
        random=random,
        offload=SimulatedOffload(loop, random, duration_ms),
        background=SlicedBackground(disk, clock),
    )

"""The real world: this machine's clock, disk, network and randomness. No other package may reach them by itself."""

import asyncio
from collections.abc import Awaitable, Callable
from random import SystemRandom
from typing import TypeVar

from barnabas.runtime.interfaces import Disk, Runtime
from barnabas.runtime.system.background import SystemBackground
from barnabas.runtime.system.clock import SystemClock
from barnabas.runtime.system.disk import SystemDisk
from barnabas.runtime.system.network import SystemNetwork

T = TypeVar("T")


def system_runtime(loop: asyncio.AbstractEventLoop, disk: Disk | None = None) -> Runtime:
    """`disk` takes the place of the real one, for a broker that keeps everything in memory."""

    def offload(function: Callable[[], T]) -> Awaitable[T]:
        return loop.run_in_executor(None, function)

    clock = SystemClock(loop)
    disk = SystemDisk() if disk is None else disk
    return Runtime(
        clock=clock,
        disk=disk,
        network=SystemNetwork(loop),
        random=SystemRandom(),
        offload=offload,
        background=SystemBackground(disk, clock),
    )

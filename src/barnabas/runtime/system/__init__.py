"""The real world: this machine's clock, disk, network and randomness. No other package may reach them by itself."""

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from random import SystemRandom
from typing import TypeVar

from barnabas.runtime.interfaces import Disk, Runtime
from barnabas.runtime.slices import SlicedBackground
from barnabas.runtime.system.background import in_process
from barnabas.runtime.system.clock import SystemClock
from barnabas.runtime.system.disk import SystemDisk
from barnabas.runtime.system.network import SystemNetwork

T = TypeVar("T")

# Threads come as they are needed. Most of them wait for the platter, and a file system commits for all of them at once:
# on ext4, 16 threads sync a thousand small files in a thirtieth of the time that one takes.
OFFLOADED_AT_ONCE_MAX = 16


@cache
def offloaded() -> ThreadPoolExecutor:
    """Of this process."""
    return ThreadPoolExecutor(OFFLOADED_AT_ONCE_MAX, thread_name_prefix="offloaded")


def system_runtime(loop: asyncio.AbstractEventLoop, disk: Disk | None = None) -> Runtime:
    """`disk` takes the place of the real one, for a broker that keeps everything in memory."""

    def offload(function: Callable[[], T]) -> Awaitable[T]:
        return loop.run_in_executor(offloaded(), function)

    clock = SystemClock(loop)
    return Runtime(
        clock=clock,
        disk=SystemDisk() if disk is None else disk,
        network=SystemNetwork(loop),
        random=SystemRandom(),
        offload=offload,
        background=in_process if disk is None else SlicedBackground(disk, clock),
    )

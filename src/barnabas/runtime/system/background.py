"""Work of the processor beside the event loop, in a process of its own.

docs/decisions/0004-compaction-in-a-process.md has the figures. Always holds: when the iterator is closed the process is
gone. Does not know: what the work is; it must be a function that another process can import, of something to pickle.
"""

import asyncio
import sys
from collections.abc import AsyncGenerator, Callable, Iterator
from typing import TypeVar

from barnabas.runtime.interfaces import Disk

A = TypeVar("A")
T = TypeVar("T")


class WorkerLost(OSError):
    """The process ended before its work did: somebody killed it, or there was no memory for it."""


async def in_process(
    work: Callable[[Disk, A], Iterator[T | int]], argument: A, *, bytes_per_second: float
) -> AsyncGenerator[T, None]:
    import pickle  # on first use: a broker that compacts nothing needs neither

    from barnabas.runtime.system import worker

    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        worker.__name__,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        assert process.stdin is not None
        assert process.stdout is not None
        data = pickle.dumps((work, argument, bytes_per_second))
        process.stdin.write(worker.LENGTH.pack(len(data)) + data)  # and left open: its end would mean ours
        while True:
            try:
                (length,) = worker.LENGTH.unpack(await process.stdout.readexactly(worker.LENGTH.size))
                kind, value = pickle.loads(await process.stdout.readexactly(length))
            except asyncio.IncompleteReadError:
                raise WorkerLost(f"the process for background work ended with status {await process.wait()}") from None
            if kind == "done":
                return
            if kind == "error":
                raise value
            yield value
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()

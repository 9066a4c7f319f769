"""Work on the records inside a batch: off the event loop, and little of it at once.

Such work is Python for each record, and what a batch of a few kilobytes unpacks to may be large (`RECORDS_BYTES_MAX`).
Always holds: at most RECORD_WORK_AT_ONCE_MAX batches are unpacked at any time, so that neither memory nor the threads
that sync files run out, whatever clients send. Those that wait are served in the order in which they came.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from barnabas.runtime.interfaces import Runtime

T = TypeVar("T")

# More would not be faster: they share Python's lock.
RECORD_WORK_AT_ONCE_MAX = 2


class RecordWork:
    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._turns = asyncio.Semaphore(RECORD_WORK_AT_ONCE_MAX)

    async def do(self, function: Callable[[], T]) -> T:
        """The bytes that it works on must not lie in a buffer that is used again."""
        async with self._turns:
            return await self._runtime.offload(function)

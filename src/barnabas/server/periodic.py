"""Work that comes round: each job runs once an interval, never twice at a time, until it is stopped."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from barnabas.runtime.interfaces import Clock

logger = logging.getLogger(__name__)


class Periodic:
    """`interval_ms` is asked before each wait, so that a changed setting counts from the next round on."""

    def __init__(
        self, *, name: str, interval_ms: Callable[[], float], job: Callable[[], Awaitable[None]], clock: Clock
    ) -> None:
        self._name = name
        self._interval_ms = interval_ms
        self._job = job
        self._clock = clock
        self._task = asyncio.ensure_future(self._run())

    async def stop(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        while True:
            await self._clock.sleep(self._interval_ms())
            try:
                await self._job()
            except OSError as error:
                logger.error("%s: the disk failed, next try in %d ms: %s", self._name, self._interval_ms(), error)
            except Exception:
                logger.exception("%s: a bug; next try in %d ms", self._name, self._interval_ms())

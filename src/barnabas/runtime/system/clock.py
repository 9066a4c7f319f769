"""The machine's clocks, and the event loop's timers."""

import asyncio
import time
from collections.abc import Callable


class SystemClock:
    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> float:
        return time.monotonic() * 1000

    def call_later(self, delay_ms: float, callback: Callable[[], object]) -> asyncio.TimerHandle:
        return self._loop.call_later(delay_ms / 1000, callback)

    async def sleep(self, delay_ms: float) -> None:
        await asyncio.sleep(delay_ms / 1000)

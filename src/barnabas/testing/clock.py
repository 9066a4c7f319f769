"""A clock that a test can set: wall time jumps, what measures waits goes on as ever."""

import asyncio

from barnabas.runtime.system.clock import SystemClock


class JumpingClock(SystemClock):
    def __init__(self, loop: asyncio.AbstractEventLoop, ahead_ms: int) -> None:
        super().__init__(loop)
        self.ahead_ms = ahead_ms  # of the machine's clock; negative where it is behind

    def now_ms(self) -> int:
        return super().now_ms() + self.ahead_ms

"""A long poll: a fetch that waits on its partitions until there is enough to read, or its time is up.

Holds: a wait ends once. While it lasts it stands in `fetch_waits` of each of its partitions; afterwards in none.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from barnabas.protocol.messages.fetch import FetchResponse
from barnabas.runtime.interfaces import Clock

if TYPE_CHECKING:
    from barnabas.server.replicas.partition import Partition


class FetchWait:
    __slots__ = (
        "_answer",
        "_bytes_missing",
        "_clock",
        "_deadline_ms",
        "_done",
        "_is_worth_it",
        "_loop",
        "_partitions",
        "_timer",
        "future",
    )

    def __init__(
        self,
        *,
        partitions: list[Partition],
        bytes_missing: int,
        wait_ms_max: float,
        answer: Callable[[], FetchResponse],
        clock: Clock,
        is_worth_it: Callable[[], bool] | None = None,
    ) -> None:
        self._is_worth_it = is_worth_it  # None: whatever is appended may be read
        self._partitions = partitions
        self._bytes_missing = bytes_missing
        self._answer = answer
        self._clock = clock
        self._done = False
        self._deadline_ms = clock.monotonic_ms() + wait_ms_max
        self._loop = asyncio.get_running_loop()
        self.future: asyncio.Future[FetchResponse] = self._loop.create_future()
        self.future.add_done_callback(self._leave)  # also where the client hangs up
        for partition in partitions:
            partition.fetch_waits[self] = None
        self._timer = clock.call_later(wait_ms_max, self.finish)

    def appended(self, size_bytes: int) -> None:
        self._bytes_missing -= size_bytes
        if self._bytes_missing <= 0 and (self._is_worth_it is None or self._is_worth_it()):
            self.finish()

    def hurry(self, wait_ms: float) -> None:
        """There is something to tell, though not enough to answer for at once: waits so long from now at most."""
        deadline_ms = self._clock.monotonic_ms() + wait_ms
        if not self._done and deadline_ms < self._deadline_ms:
            self._deadline_ms = deadline_ms
            timer, self._timer = self._timer, self._clock.call_later(wait_ms, self.finish)
            timer.cancel()

    def finish(self) -> None:
        """Answers after the current burst of appends, so that one answer carries all of it."""
        if not self._done:
            self._done = True
            self._loop.call_soon(self._resolve)

    def answer_now(self) -> None:
        """Before anything else changes what there is to tell."""
        self._done = True
        self._resolve()

    def _resolve(self) -> None:
        if self.future.done():
            return
        try:
            self.future.set_result(self._answer())
        except Exception as error:  # the connection reports it: nobody else waits here
            self.future.set_exception(error)

    def _leave(self, _future: asyncio.Future[FetchResponse]) -> None:
        self._done = True
        self._timer.cancel()
        for partition in self._partitions:
            partition.fetch_waits.pop(self, None)

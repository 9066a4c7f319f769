"""Periodic work: each job runs once per interval, never twice at a time, until it is stopped. A round that fails is
logged, and the next one runs when it is due."""

from collections.abc import Awaitable, Callable

from barnabas.runtime.interfaces import Clock
from barnabas.server.supervisor import OnFailure, Supervisor, ended


class Periodic:
    """`interval_ms` is asked before each wait, so that a changed setting counts from the next round on."""

    def __init__(
        self,
        *,
        name: str,
        interval_ms: Callable[[], float],
        job: Callable[[], Awaitable[None]],
        clock: Clock,
        supervisor: Supervisor,
    ) -> None:
        self._name = name
        self._interval_ms = interval_ms
        self._job = job
        self._clock = clock
        self._supervisor = supervisor
        self._task = supervisor.start(name, self._run, OnFailure.RETRY)

    async def stop(self) -> None:
        await ended(self._task)

    async def _run(self) -> None:
        while True:
            await self._clock.sleep(self._interval_ms())
            try:
                await self._job()
            except Exception as error:
                self._supervisor.report(self._name, error, f"next try in {self._interval_ms():.0f} ms")

"""The background tasks of one broker. Each task has a name and a policy for its failure.

    start    work that no request waits for. An exception is logged, and then:
             RETRY        runs the work again, after a pause that doubles up to RETRY_MS_MAX
             STOP_BROKER  fails the broker, because what the work did must not stay undone
             ABANDON      ends the task; the next occasion starts a new one
    awaited  work whose caller awaits the result and handles its failure

A caller that waits for an expected failure, such as a lost connection, handles that itself: what arrives here is a bug
or a state that the work did not foresee. Log lines about one failure are limited to one per LOG_INTERVAL_MS.
Does not know: what the tasks do.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from enum import Enum
from typing import Any, TypeVar

from barnabas.runtime.interfaces import Clock

logger = logging.getLogger(__name__)

T = TypeVar("T")
Work = Callable[[], Coroutine[Any, Any, None]]

RETRY_MS_MIN = 50
RETRY_MS_MAX = 5_000
LOG_INTERVAL_MS = 30_000
FAILURES_REMEMBERED_MAX = 1_000  # names contain partitions; the oldest is forgotten, and then logged again


class OnFailure(Enum):
    """What follows the log line."""

    RETRY = "it is retried"
    STOP_BROKER = "the broker stops"
    ABANDON = "it is given up"


class TaskFailed(Exception):
    """The work of a task raised what it did not foresee; that is its cause."""


class _Logged:
    __slots__ = ("at_ms", "omitted")

    def __init__(self, at_ms: float) -> None:
        self.at_ms = at_ms
        self.omitted = 0  # failures since then without a line


class Supervisor:
    def __init__(self, *, clock: Clock, on_failure: Callable[[Exception], None]) -> None:
        self._clock = clock
        self._on_failure = on_failure
        self._tasks: dict[asyncio.Task[Any], None] = {}  # a dict for its order
        self._logged: dict[tuple[str, str], _Logged] = {}  # by name of the task and of the exception's type

    @property
    def names(self) -> list[str]:
        """Of the tasks that run, the oldest first."""
        return [task.get_name() for task in self._tasks]

    def start(self, name: str, work: Work, on_failure: OnFailure) -> "asyncio.Task[None]":
        """The task ends when the work returns, by its policy, or when it is cancelled. It raises nothing else."""
        return self._own(name, self._run(name, work, on_failure))

    def awaited(self, name: str, work: Coroutine[Any, Any, T]) -> "asyncio.Task[T]":
        return self._own(name, work)

    def report(self, name: str, error: Exception, consequence: str) -> None:
        """Logs a failure. For work that survives it without ending, as one partition of many."""
        now_ms = self._clock.monotonic_ms()
        key = (name, type(error).__name__)
        logged = self._logged.get(key)
        if logged is not None and now_ms - logged.at_ms < LOG_INTERVAL_MS:
            logged.omitted += 1
            return
        omitted = "" if logged is None or not logged.omitted else f" ({logged.omitted} more since the last line)"
        logger.error("%s failed, %s%s: %r", name, consequence, omitted, error, exc_info=error)
        self._logged.pop(key, None)
        self._logged[key] = _Logged(now_ms)
        if len(self._logged) > FAILURES_REMEMBERED_MAX:
            del self._logged[next(iter(self._logged))]

    async def stop(self) -> None:
        """Ends the tasks that their owners have not ended. Nothing may be started afterwards."""
        await ended(*self._tasks)

    def _own(self, name: str, work: Coroutine[Any, Any, T]) -> "asyncio.Task[T]":
        task = asyncio.create_task(work, name=name)
        self._tasks[task] = None
        task.add_done_callback(self._tasks.pop)
        return task

    async def _run(self, name: str, work: Work, on_failure: OnFailure) -> None:
        pause_ms = RETRY_MS_MIN
        while True:
            started_ms = self._clock.monotonic_ms()
            try:
                await work()
                return
            except Exception as error:
                self.report(name, error, on_failure.value)
                if on_failure is OnFailure.STOP_BROKER:
                    failure = TaskFailed(f"{name} failed: {error!r}")
                    failure.__cause__ = error
                    self._on_failure(failure)
            if on_failure is not OnFailure.RETRY:
                return
            if self._clock.monotonic_ms() - started_ms >= RETRY_MS_MAX:
                pause_ms = RETRY_MS_MIN  # it had worked for long: this failure is not the last one's continuation
            await self._clock.sleep(pause_ms)
            pause_ms = min(2 * pause_ms, RETRY_MS_MAX)


def is_running(task: "asyncio.Task[Any] | None") -> bool:
    return task is not None and not task.done()


async def ended(*tasks: "asyncio.Task[Any] | None") -> None:
    """Cancels the tasks and waits until they have ended, however they end."""
    running = [task for task in tasks if task is not None]
    for task in running:
        task.cancel()
    await asyncio.gather(*running, return_exceptions=True)

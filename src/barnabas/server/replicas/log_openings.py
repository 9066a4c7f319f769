"""Logs that are opened off the event loop, and recovered where the last end was not a clean one.

Always holds: at most OPENED_AT_ONCE_MAX at a time, in the order in which they were asked for. Of one name at most one
opening is under way; its end is told on the event loop, once. An opening that was discarded is told too: what it opened
must be deleted.
Does not know: what a partition does with its log.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Coroutine
from typing import Any, NamedTuple

from barnabas.log.log import Log
from barnabas.runtime.interfaces import Clock
from barnabas.server.supervisor import OnFailure, Supervisor, ended
from barnabas.types import TopicPartition, Uuid

logger = logging.getLogger(__name__)

# A recovery is more computing than waiting, and all threads share one interpreter: with more of them the event loop
# would wait longer for its turn, and the logs would be open no sooner.
OPENED_AT_ONCE_MAX = 4
PROGRESS_INTERVAL_MS = 5_000  # between two lines of the log


class Opening(NamedTuple):
    name: TopicPartition
    topic_id: Uuid


class LogOpenings:
    def __init__(
        self,
        *,
        open_log: Callable[[Opening], Coroutine[Any, Any, Log]],
        opened: Callable[[Opening, Log, bool], None],
        clock: Clock,
        supervisor: Supervisor,
        on_failure: Callable[[Opening, Exception], None],
    ) -> None:
        self._open_log = open_log
        self._opened = opened  # with whether it was discarded
        self._clock = clock
        self._supervisor = supervisor
        self._on_failure = on_failure
        self._waiting: dict[TopicPartition, Opening] = {}  # in order
        self._running: dict[TopicPartition, Opening] = {}
        self._discarded: dict[TopicPartition, None] = {}
        self._failed: dict[TopicPartition, None] = {}  # the broker stops for them
        self._tasks: list[asyncio.Task[None]] = []
        # Since none was under way:
        self._began_ms = self._told_ms = 0.0
        self._count = 0

    def __contains__(self, name: TopicPartition) -> bool:
        return name in self._waiting or name in self._running

    @property
    def names(self) -> Collection[TopicPartition]:
        """Of the logs that are not open yet, those included that cannot be opened."""
        return [*self._waiting, *self._running, *self._failed]

    def begin(self, opening: Opening) -> None:
        assert opening.name not in self
        if not self._tasks:
            self._began_ms = self._told_ms = self._clock.monotonic_ms()
            self._count = 0
        self._waiting[opening.name] = opening
        if len(self._tasks) < OPENED_AT_ONCE_MAX:
            self._tasks.append(self._supervisor.start("opening logs", self._work, OnFailure.ABANDON))

    def discard(self, opening: Opening) -> None:
        """Nothing where this very log is not being opened."""
        if opening in (self._waiting.get(opening.name), self._running.get(opening.name)):
            self._discarded[opening.name] = None

    async def stop(self) -> None:
        """Returns once no thread opens a log. What is not open yet stays as it is on the disk."""
        tasks, self._tasks = self._tasks, []
        await ended(*tasks)

    async def _work(self) -> None:
        try:
            while self._waiting:
                name, opening = next(iter(self._waiting.items()))
                del self._waiting[name]
                self._running[name] = opening
                await self._open(opening)
        finally:
            current = asyncio.current_task()
            if current in self._tasks:
                self._tasks.remove(current)
            if not self._tasks and not self._waiting:
                self._tell("all logs are open")

    async def _open(self, opening: Opening) -> None:
        work = self._supervisor.awaited(f"opening {opening.name}", self._open_log(opening))
        try:
            log = await asyncio.shield(work)
        except asyncio.CancelledError:
            await asyncio.wait([work])  # a thread must not go on in a directory that is somebody else's
            raise
        except Exception as error:
            del self._running[opening.name]
            self._failed[opening.name] = None
            self._on_failure(opening, error)
            return
        del self._running[opening.name]
        self._count += 1
        is_discarded = opening.name in self._discarded
        self._discarded.pop(opening.name, None)
        self._opened(opening, log, is_discarded)
        now_ms = self._clock.monotonic_ms()
        if now_ms - self._told_ms >= PROGRESS_INTERVAL_MS:
            self._told_ms = now_ms
            self._tell(f"{len(self._waiting) + len(self._running)} logs are still to be opened")

    def _tell(self, what: str) -> None:
        seconds = (self._clock.monotonic_ms() - self._began_ms) / 1000
        logger.info("%s; %d were opened in %.1f s", what, self._count, seconds)

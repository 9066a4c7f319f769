"""Tasks that a client keeps running beside its callers.

Always holds: one that ends with an exception, which is a failure that nothing else handles, is not forgotten: the next
caller is given the exception. After `close` none runs. Does not know: what they do.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Generator
from types import coroutine
from typing import Any

logger = logging.getLogger(__name__)


@coroutine
def let_others_run() -> Generator[None, None, None]:
    """A turn of the event loop: a caller in a tight loop must not keep answers from being read."""
    yield


class Workers:
    def __init__(self, on_failure: Callable[[], None]) -> None:
        self.is_closed = False
        self.failure: BaseException | None = None  # of the first that failed
        self._on_failure = on_failure
        self._tasks: dict[asyncio.Task[Any], None] = {}

    def start(self, work: Coroutine[Any, Any, None], name: str) -> "asyncio.Task[None]":
        assert not self.is_closed
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._tasks[task] = None
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: "asyncio.Task[None]") -> None:
        self._tasks.pop(task, None)
        if task.cancelled() or (error := task.exception()) is None:
            return
        logger.error("%s ended: %s", task.get_name(), error)
        if self.failure is None:
            self.failure = error
            self._on_failure()

    async def close(self) -> None:
        self.is_closed = True
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        for task in tasks:
            await asyncio.wait([task])

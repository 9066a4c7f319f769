"""Clients for code that blocks, as Spark's processes run it: one event loop in a thread, clusters kept between tasks.

Spark keeps its Python workers for the next task, so connections and metadata outlive the task that made them.
Always holds: a process that was forked begins with nothing of its parent's; one cluster for each set of settings, and
at most CLUSTERS_MAX of them. Does not know: what is asked of a cluster.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

from barnabas.client.cluster import Cluster
from barnabas.client.settings import ClientConfig

T = TypeVar("T")

CLUSTERS_MAX = 8  # a mirror needs two; more sets of settings than this in one worker means that they are passing by


class Connections:
    """The loop and the clusters of one process."""

    def __init__(self) -> None:
        self.process_id = os.getpid()
        self._clusters: dict[tuple[tuple[str, str], ...], Cluster] = {}  # the last used one last
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, name="barnabas-client", daemon=True).start()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Waits for it. What is asked of a cluster ends within its own time, so this does too."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def submit(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Begins it, and does not wait."""
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    async def cluster(self, config: ClientConfig) -> Cluster:
        key = (type(config).__name__, ""), *sorted(config.overrides.items())
        found = self._clusters.pop(key, None)
        if found is None:
            found = await self._started(config)
            if (other := self._clusters.pop(key, None)) is not None:  # asked for at the same time
                await found.close()
                found = other
        self._clusters[key] = found
        while len(self._clusters) > CLUSTERS_MAX:
            await self._clusters.pop(next(iter(self._clusters))).close()
        return found

    async def _started(self, config: ClientConfig) -> Cluster:
        found = Cluster(config)
        # A read has a limit for whole calls as well, and the first call is to find a broker.
        call_timeout_ms = getattr(config, "default_api_timeout_ms", config.request_timeout_ms)
        try:
            await found.start(min(config.request_timeout_ms, call_timeout_ms))
        except BaseException:
            await found.close()
            raise
        return found


_here: Connections | None = None


def connections() -> Connections:
    global _here
    if _here is None or _here.process_id != os.getpid():
        _here = Connections()
    return _here

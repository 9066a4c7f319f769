"""Which end of a connection says something about the broker that sent heartbeats on it."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from images import broker, cluster
from supervision import NotedSupervisor

from barnabas.controller.broker_sessions import BrokerSessions
from barnabas.runtime.system.clock import SystemClock
from barnabas.server.controller.sessions_watch import SessionsWatch
from barnabas.types import NO_LEADER, BrokerId

OLD, NEW, OTHER = ("10.0.0.1", 4001), ("10.0.0.1", 4002), ("10.0.0.2", 4001)


class Watched:
    def __init__(self) -> None:
        self.sessions = BrokerSessions()
        self.dialled: list[BrokerId] = []
        clock = SystemClock(asyncio.get_running_loop())
        self.watch = SessionsWatch(
            sessions=self.sessions,
            clock=clock,
            supervisor=NotedSupervisor(clock),
            fence_one=self._fence_none,
            is_gone=self._is_gone,
            on_gone=lambda _broker_id: None,
        )
        self.watch.begin(cluster(broker(1), broker(2)), own_id=9, former_id=NO_LEADER)

    async def dials(self) -> list[BrokerId]:
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        dialled, self.dialled = self.dialled, []
        return [broker_id for broker_id in dialled if broker_id != NO_LEADER]

    async def _fence_none(self) -> None:
        return None

    async def _is_gone(self, broker_id: BrokerId) -> bool:
        self.dialled.append(broker_id)
        return False


def watched(test: Callable[[Watched], Coroutine[Any, Any, None]]) -> None:
    async def scenario() -> None:
        found = Watched()
        try:
            await test(found)
        finally:
            found.watch.end()

    asyncio.run(scenario())


def test_the_end_of_an_earlier_connection_says_nothing() -> None:
    async def test(found: Watched) -> None:
        found.watch.heard(1, OLD)
        found.watch.heard(1, NEW)
        deadline_ms = found.sessions.next_deadline_ms()
        found.watch.connection_closed(OLD)
        assert await found.dials() == []
        assert found.sessions.next_deadline_ms() == deadline_ms

    watched(test)


def test_the_end_of_the_connection_that_was_heard_last_is_a_reason_to_dial() -> None:
    async def test(found: Watched) -> None:
        found.watch.heard(1, OLD)
        found.watch.heard(2, OTHER)
        found.watch.heard(1, NEW)
        found.watch.connection_closed(NEW)
        assert await found.dials() == [1]
        found.watch.connection_closed(NEW)
        found.watch.connection_closed(OLD)
        assert await found.dials() == []

    watched(test)

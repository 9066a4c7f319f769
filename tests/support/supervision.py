"""A supervisor for tests, with a note of each failure that would have stopped the broker."""

from __future__ import annotations

from barnabas.runtime.interfaces import Clock
from barnabas.server.supervisor import Supervisor


class NotedSupervisor(Supervisor):
    def __init__(self, clock: Clock) -> None:
        self.broker_failures: list[Exception] = []
        super().__init__(clock=clock, on_failure=self.broker_failures.append)

"""Who waits until a partition reaches an offset.

Always holds: who gave up, which cancels the future, is dropped once such waiters are as many as the others: memory is
bounded by those who still wait. Does not know: what the offset means.
"""

import asyncio
from collections import deque
from typing import NamedTuple

from barnabas.errors import ErrorCode
from barnabas.server.replicas.commit_wait import Commit
from barnabas.types import Offset

SWEPT_MIN = 64  # fewer are not worth a look


class Waiter(NamedTuple):
    offset: Offset
    commit: Commit


class Waiters:
    __slots__ = ("_is_ordered", "_sweep_at", "_waiting")

    def __init__(self, *, is_ordered: bool) -> None:
        """`is_ordered`: each waits for an offset that is no lower than the one before it."""
        self._is_ordered = is_ordered
        self._waiting: deque[Waiter] = deque()
        self._sweep_at = SWEPT_MIN

    def __len__(self) -> int:
        return len(self._waiting)

    def wait_for(self, offset: Offset) -> Commit:
        if len(self._waiting) >= self._sweep_at:
            self._waiting = deque(waiter for waiter in self._waiting if not waiter.commit.done())
            self._sweep_at = max(SWEPT_MIN, 2 * len(self._waiting))
        commit: Commit = asyncio.get_running_loop().create_future()
        self._waiting.append(Waiter(offset, commit))
        return commit

    def reached(self, offset: Offset) -> None:
        waiting = self._waiting
        if not self._is_ordered:
            self._waiting = deque(waiter for waiter in waiting if waiter.offset > offset)
            waiting = deque(waiter for waiter in waiting if waiter.offset <= offset)
        while waiting and waiting[0].offset <= offset:
            end(waiting.popleft().commit, ErrorCode.NONE)

    def fail(self, error: ErrorCode) -> None:
        while self._waiting:
            end(self._waiting.popleft().commit, error)


def end(commit: Commit, result: ErrorCode) -> None:
    if not commit.done():
        commit.set_result(result)

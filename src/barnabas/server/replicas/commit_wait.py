"""A produce request that waits until what it appended is committed, or its time is up.

Futures and callbacks rather than a task: every acknowledged request of a replicated topic passes here.
"""

from __future__ import annotations

import asyncio

from barnabas.errors import ErrorCode
from barnabas.protocol.messages.produce import PartitionProduceResponse, ProduceResponse
from barnabas.runtime.interfaces import Clock

Commit = asyncio.Future[ErrorCode]


class CommitWait:
    """`future` gives the response once each partition has been committed, has failed, or has timed out."""

    __slots__ = ("_remaining", "_response", "_timer", "future")

    def __init__(
        self,
        response: ProduceResponse,
        commits: list[tuple[Commit, PartitionProduceResponse]],
        timeout_ms: int,
        clock: Clock,
    ) -> None:
        self._response = response
        self._remaining = dict(commits)
        self.future: asyncio.Future[ProduceResponse] = asyncio.get_running_loop().create_future()
        self._timer = clock.call_later(timeout_ms, self._timed_out)
        for commit, _answer in commits:
            commit.add_done_callback(self._committed)

    def _committed(self, commit: Commit) -> None:
        answer = self._remaining.pop(commit, None)
        if answer is None:
            return  # it had timed out
        if commit.result() != ErrorCode.NONE:
            refuse(answer, commit.result())
        if not self._remaining:
            self._finish()

    def _timed_out(self) -> None:
        remaining, self._remaining = self._remaining, {}
        for commit, answer in remaining.items():
            refuse(answer, ErrorCode.REQUEST_TIMED_OUT)
            commit.cancel()  # the partition need not remember it
        self._finish()

    def _finish(self) -> None:
        self._timer.cancel()
        if not self.future.done():
            self.future.set_result(self._response)


def refuse(answer: PartitionProduceResponse, error: ErrorCode) -> None:
    answer.error_code = error
    answer.base_offset = -1
    answer.log_append_time_ms = -1
    answer.log_start_offset = -1

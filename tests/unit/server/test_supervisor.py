"""Background tasks under supervision: each failure is logged, and then retried, given up, or the end of the broker."""

from __future__ import annotations

import asyncio
import logging

import pytest
from replicas import ManualClock, settled
from supervision import NotedSupervisor

from barnabas.server.supervisor import (
    FAILURES_REMEMBERED_MAX,
    LOG_INTERVAL_MS,
    RETRY_MS_MAX,
    RETRY_MS_MIN,
    OnFailure,
    TaskFailed,
    ended,
    is_running,
)


class Bench:
    def __init__(self) -> None:
        self.clock = ManualClock()
        self.supervisor = NotedSupervisor(self.clock)
        self.begun_ms: list[float] = []  # when the work began, each time
        self.fails = True

    async def work(self) -> None:
        self.begun_ms.append(self.clock.ms)
        if self.fails:
            raise ValueError("a bug")

    async def endless(self) -> None:
        await asyncio.get_running_loop().create_future()


def test_work_that_returns_ends_its_task_and_is_forgotten() -> None:
    async def test() -> None:
        bench = Bench()
        bench.fails = False
        task = bench.supervisor.start("some work", bench.work, OnFailure.RETRY)
        assert is_running(task)
        assert bench.supervisor.names == ["some work"]
        await settled()
        assert not is_running(task)
        assert bench.supervisor.names == []
        assert bench.begun_ms == [0]

    asyncio.run(test())


def test_work_that_fails_is_retried_at_growing_intervals_up_to_a_bound() -> None:
    async def test() -> None:
        bench = Bench()
        task = bench.supervisor.start("some work", bench.work, OnFailure.RETRY)
        for _step in range(1_000):
            await bench.clock.advance(RETRY_MS_MIN)
        pauses = [later - earlier for earlier, later in zip(bench.begun_ms, bench.begun_ms[1:], strict=False)]
        assert pauses[:4] == [RETRY_MS_MIN, 2 * RETRY_MS_MIN, 4 * RETRY_MS_MIN, 8 * RETRY_MS_MIN]
        assert max(pauses) == pauses[-1] == RETRY_MS_MAX
        assert bench.supervisor.broker_failures == []
        bench.fails = False
        await bench.clock.advance(RETRY_MS_MAX)
        assert task.done()

    asyncio.run(test())


def test_a_failure_after_a_long_time_of_work_is_retried_soon() -> None:
    async def test() -> None:
        bench = Bench()
        works_ms = [0, 0, 0, 0, RETRY_MS_MAX, 0]  # for how long, each time

        async def work() -> None:
            bench.begun_ms.append(bench.clock.ms)
            await bench.clock.sleep(works_ms[len(bench.begun_ms) - 1])
            raise ValueError("a bug")

        bench.supervisor.start("some work", work, OnFailure.RETRY)
        while len(bench.begun_ms) < len(works_ms):
            await bench.clock.advance(RETRY_MS_MIN)
        assert bench.begun_ms[-1] - bench.begun_ms[-2] == RETRY_MS_MAX + RETRY_MS_MIN

    asyncio.run(test())


def test_work_that_must_not_stay_undone_stops_the_broker() -> None:
    async def test() -> None:
        bench = Bench()
        task = bench.supervisor.start("some work", bench.work, OnFailure.STOP_BROKER)
        await settled()
        [failure] = bench.supervisor.broker_failures
        assert isinstance(failure, TaskFailed)
        assert str(failure) == "some work failed: ValueError('a bug')"
        assert isinstance(failure.__cause__, ValueError)
        assert task.done()
        await bench.clock.advance(RETRY_MS_MAX)
        assert bench.begun_ms == [0]

    asyncio.run(test())


def test_work_that_may_be_given_up_ends_without_an_exception() -> None:
    async def test() -> None:
        bench = Bench()
        task = bench.supervisor.start("some work", bench.work, OnFailure.ABANDON)
        await task
        await bench.clock.advance(RETRY_MS_MAX)
        assert bench.begun_ms == [0]
        assert bench.supervisor.broker_failures == []

    asyncio.run(test())


def test_who_awaits_work_has_its_result_or_its_failure() -> None:
    async def test() -> None:
        bench = Bench()

        async def answer() -> int:
            return 42

        assert await bench.supervisor.awaited("a question", answer()) == 42
        with pytest.raises(ValueError, match="a bug"):
            await bench.supervisor.awaited("a question", bench.work())
        assert bench.supervisor.names == []

    asyncio.run(test())


def test_stopping_ends_all_that_runs_also_between_two_tries() -> None:
    async def test() -> None:
        bench = Bench()
        tasks = [
            bench.supervisor.start("endless", bench.endless, OnFailure.STOP_BROKER),
            bench.supervisor.start("failing", bench.work, OnFailure.RETRY),
            bench.supervisor.awaited("asked", bench.endless()),
        ]
        await settled()
        await bench.supervisor.stop()
        assert all(task.cancelled() for task in tasks)
        assert bench.supervisor.names == []
        assert bench.supervisor.broker_failures == []

    asyncio.run(test())


def test_ended_waits_for_what_a_task_does_when_it_is_cancelled() -> None:
    async def test() -> None:
        done = []

        async def work() -> None:
            try:
                await asyncio.get_running_loop().create_future()
            finally:
                await asyncio.sleep(0)
                done.append("tidied up")

        task = asyncio.ensure_future(work())
        await settled()
        await ended(task, None)
        assert done == ["tidied up"]

    asyncio.run(test())


def test_each_failure_is_logged_with_its_name_and_traceback(caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        bench = Bench()
        bench.supervisor.start("some work", bench.work, OnFailure.RETRY)
        await settled()
        [line] = caplog.records
        assert line.levelno == logging.ERROR
        assert line.getMessage() == "some work failed, it is retried: ValueError('a bug')"
        assert line.exc_info is not None

    asyncio.run(test())


def test_repeated_failures_share_a_line_that_counts_them(caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        bench = Bench()
        for _ in range(5):
            bench.supervisor.report("one", ValueError("a bug"), "it is retried")
            bench.supervisor.report("other", ValueError("a bug"), "it is retried")
        bench.supervisor.report("one", KeyError("another"), "it is retried")
        assert [line.getMessage().split(" ")[0] for line in caplog.records] == ["one", "other", "one"]
        bench.clock.ms += LOG_INTERVAL_MS
        bench.supervisor.report("one", ValueError("a bug"), "it is retried")
        assert caplog.records[-1].getMessage() == (
            "one failed, it is retried (4 more since the last line): ValueError('a bug')"
        )

    asyncio.run(test())


def test_names_without_number_take_bounded_memory() -> None:
    async def test() -> None:
        bench = Bench()
        for number in range(2 * FAILURES_REMEMBERED_MAX):
            bench.supervisor.report(f"partition {number}", ValueError("a bug"), "it is retried")
        assert len(bench.supervisor._logged) == FAILURES_REMEMBERED_MAX

    asyncio.run(test())

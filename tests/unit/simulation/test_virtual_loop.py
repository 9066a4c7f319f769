"""The event loop on a virtual clock: time, order, deadlocks, and processes that are paused or killed."""

import asyncio
import gc
from collections.abc import Awaitable, Callable

import pytest

from barnabas.simulation import loop as loop_module
from barnabas.simulation.loop import Deadlock, Livelock, Process, VirtualClock, VirtualLoop


def run(main: Callable[[VirtualLoop, VirtualClock], Awaitable[None]]) -> VirtualLoop:
    loop = VirtualLoop()

    async def started() -> None:
        await main(loop, VirtualClock(loop, now_ms=1000))

    loop.run(started())
    return loop


def test_time_passes_without_being_waited_for() -> None:
    async def main(loop: VirtualLoop, clock: VirtualClock) -> None:
        await clock.sleep(3_600_000)
        assert clock.monotonic_ms() == 3_600_000
        assert clock.now_ms() == 3_601_000
        clock.offset_ms -= 1_000_000
        assert clock.now_ms() == 2_601_000
        assert clock.monotonic_ms() == 3_600_000

    run(main)


def test_timers_fire_in_the_order_of_their_moments() -> None:
    seen: list[int] = []

    async def main(loop: VirtualLoop, clock: VirtualClock) -> None:
        for delay_ms in (30, 10, 20):
            clock.call_later(delay_ms, lambda delay_ms=delay_ms: seen.append(delay_ms))
        clock.call_later(15, lambda: seen.append(15)).cancel()
        await clock.sleep(25)
        assert seen == [10, 20]
        await clock.sleep(10)

    run(main)
    assert seen == [10, 20, 30]


def test_whoever_waits_for_nothing_is_told() -> None:
    async def main(loop: VirtualLoop, clock: VirtualClock) -> None:
        await loop.create_future()

    with pytest.raises(Deadlock):
        run(main)


def test_work_in_circles_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop_module, "STEPS_PER_MOMENT_MAX", 1000)

    async def main(loop: VirtualLoop, clock: VirtualClock) -> None:
        while True:
            await clock.sleep(0)

    with pytest.raises(Livelock):
        run(main)


def test_a_timeout_comes_in_virtual_time() -> None:
    async def main(loop: VirtualLoop, clock: VirtualClock) -> None:
        with pytest.raises(TimeoutError):
            await clock.within(50, loop.create_future())
        assert clock.monotonic_ms() == 50

    run(main)


async def count(clock: VirtualClock, seen: list[float]) -> None:
    try:
        while True:
            await clock.sleep(10)
            seen.append(clock.monotonic_ms())
    finally:
        seen.append(-1)


def test_a_paused_process_goes_on_where_it_was() -> None:
    seen: list[float] = []

    async def main(loop: VirtualLoop, clock: VirtualClock) -> None:
        process = Process("p")
        loop.start(process, count(clock, seen))
        await clock.sleep(25)
        loop.pause(process)
        await clock.sleep(100)
        assert seen == [10, 20]
        loop.resume(process)
        await clock.sleep(15)

    run(main)
    assert seen[:4] == [10, 20, 125, 135]


def test_a_dead_process_has_no_last_word() -> None:
    seen: list[float] = []

    async def main(loop: VirtualLoop, clock: VirtualClock) -> None:
        process = Process("p")
        loop.start(process, count(clock, seen))
        await clock.sleep(25)
        loop.kill(process)
        await clock.sleep(100)
        assert seen == [10, 20]

    run(main)


def test_nobody_misses_what_a_dead_process_had_not_asked_for_yet() -> None:
    """A task that failed in the very moment of the end: its outcome would have been taken a step later."""
    missed: list[object] = []

    async def main(loop: VirtualLoop, clock: VirtualClock) -> None:
        async def fail() -> None:
            loop.call_soon(loop.kill, process, context=loop.world)
            raise ValueError

        async def parent() -> None:
            asyncio.ensure_future(fail()).add_done_callback(lambda done: done.exception())

        loop.set_exception_handler(lambda _loop, context: missed.append(context))
        process = Process("p")
        loop.start(process, parent())
        await clock.sleep(10)
        gc.collect()

    run(main)
    assert missed == []


def test_what_a_process_starts_dies_with_it_and_the_world_goes_on() -> None:
    seen: list[float] = []

    async def main(loop: VirtualLoop, clock: VirtualClock) -> None:
        async def parent() -> None:
            child = asyncio.ensure_future(count(clock, seen))
            clock.call_later(10, lambda: seen.append(0))
            await child

        process, other = Process("p"), Process("q")
        loop.start(process, parent())
        loop.start(other, count(clock, seen))
        await clock.sleep(15)
        loop.kill(process)
        del seen[:]
        await clock.sleep(10)
        assert seen == [20]

    run(main)


def test_a_failure_ends_the_run_at_once() -> None:
    seen: list[str] = []

    async def main(loop: VirtualLoop, clock: VirtualClock) -> None:
        clock.call_later(1, lambda: loop.fail(ValueError("first")))
        clock.call_later(2, lambda: seen.append("too late"))
        await clock.sleep(10)

    with pytest.raises(ValueError, match="first"):
        run(main)
    assert seen == []

"""The watchdog measures every kind of turn, and names what blocked the loop."""

import asyncio
import logging
import os
import threading
from collections.abc import Awaitable, Callable
from time import monotonic, sleep

import pytest

from barnabas.runtime.system import watchdog
from barnabas.runtime.system.event_loop import WatchedEventLoop
from barnabas.runtime.system.watchdog import REPORTED_MS

BLOCKED_SECONDS = REPORTED_MS / 1000


@pytest.fixture
def sampled(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Set once the thread has looked at a turn that takes long."""
    event = threading.Event()
    place_of = watchdog.place_of

    def place(frame: object) -> str:
        found = place_of(frame)  # type: ignore[arg-type]
        event.set()
        return found

    monkeypatch.setattr(watchdog, "place_of", place)
    return event


def run(test: Callable[[WatchedEventLoop], Awaitable[None]]) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, WatchedEventLoop)
        loop.watchdog.take_longest()
        await test(loop)

    with asyncio.Runner(loop_factory=WatchedEventLoop) as runner:
        runner.run(main())


class Peer:
    """Its turn takes as long as is reported."""

    def __init__(self, sampled: threading.Event) -> None:
        self._sampled = sampled
        self.was_readable = asyncio.Event()

    def __str__(self) -> str:
        return "the peer at 192.0.2.1"

    def readable(self) -> None:
        until = monotonic() + BLOCKED_SECONDS
        self._sampled.wait()
        sleep(max(0.0, until - monotonic()))
        self.was_readable.set()


def by_reader(loop: WatchedEventLoop, callback: Callable[[], None]) -> None:
    descriptor = os.eventfd(1)

    def readable() -> None:
        loop.remove_reader(descriptor)
        os.close(descriptor)

    loop.add_reader(descriptor, lambda: (readable(), callback()))


@pytest.mark.parametrize(
    "schedule",
    [
        lambda loop, callback: loop.call_soon(callback),
        lambda loop, callback: loop.call_soon_threadsafe(callback),
        lambda loop, callback: loop.call_later(0.001, callback),
        lambda loop, callback: loop.call_at(loop.time() + 0.001, callback),
    ],
    ids=["call_soon", "call_soon_threadsafe", "call_later", "call_at"],
)
def test_a_callback_that_blocks_is_reported_once_with_its_owner_and_its_place(
    schedule: Callable[[WatchedEventLoop, Callable[[], None]], object],
    sampled: threading.Event,
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def test(loop: WatchedEventLoop) -> None:
        peer = Peer(sampled)
        schedule(loop, peer.readable)
        await peer.was_readable.wait()
        cause = loop.watchdog.take_longest().cause
        assert cause.startswith("Peer.readable of the peer at 192.0.2.1, at ")
        assert "test_watchdog.py" in cause

    with caplog.at_level(logging.WARNING, watchdog.__name__):
        run(test)
    (message,) = [record.getMessage() for record in caplog.records if "Peer.readable" in record.getMessage()]
    assert message.startswith("the event loop was blocked for ")


def test_a_reader_that_blocks_is_measured(sampled: threading.Event) -> None:
    async def test(loop: WatchedEventLoop) -> None:
        peer = Peer(sampled)
        by_reader(loop, peer.readable)
        await peer.was_readable.wait()
        assert "by_reader" in loop.watchdog.longest.cause

    run(test)


def test_a_step_of_a_task_is_named_by_its_task(sampled: threading.Event) -> None:
    async def compact() -> None:
        await asyncio.sleep(0)
        Peer(sampled).readable()

    async def test(loop: WatchedEventLoop) -> None:
        await asyncio.create_task(compact(), name="compaction")
        cause = loop.watchdog.longest.cause
        assert cause.startswith("task compaction (")
        assert "compact)" in cause

    run(test)


def test_a_turn_that_does_not_end_is_reported_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watchdog, "STUCK_SECONDS", 0.0)
    told = threading.Event()
    monkeypatch.setattr(watchdog.logger, "error", lambda *_: told.set())

    async def test(loop: WatchedEventLoop) -> None:
        loop.call_soon(told.wait)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert told.is_set()

    run(test)

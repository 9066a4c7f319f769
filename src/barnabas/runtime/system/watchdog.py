"""Measures every turn of an event loop, and reports the turns that are too long.

A turn is one run of one callback: a readable socket, a timer, a step of a task. While it runs nothing else on the loop
does. The loop writes down when a turn begins and ends. A thread looks at that from time to time, because only another
thread can see where a turn that does not end is stuck.

Always holds: a turn of REPORTED_MS or more is logged with its length, its callback and, unless it held the
interpreter's lock for all that time, a place in the source where it was. `longest` is the longest turn since it was
last taken.
"""

import asyncio
import logging
import sys
import threading
from collections.abc import Callable
from time import monotonic
from types import FrameType
from typing import Any, NamedTuple

logger = logging.getLogger(__name__)

REPORTED_MS = 100
SAMPLE_SECONDS = REPORTED_MS / 1000 / 2  # so that each reported turn is sampled while it runs
STUCK_SECONDS = 5.0  # a turn that is not over by then is reported before its end
FRAMES_MAX = 6


class Turn(NamedTuple):
    duration_ms: float
    cause: str


NO_TURN = Turn(0.0, "nothing has run")


class Watchdog:
    def __init__(self) -> None:
        self.longest = NO_TURN
        self._callback: Any = None  # of the turn that runs
        self._began = 0.0  # when it began; 0.0 between two turns
        self._longest_seconds = 0.0
        self._sample: tuple[float, str] = (0.0, "")  # when the turn began, and where it was
        self._thread_id = 0  # of the loop
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Called on the thread of the loop."""
        self._thread_id = threading.get_ident()
        self._stopped.clear()
        self._thread = threading.Thread(target=self._watch, name="event-loop-watchdog", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        assert self._thread is not None
        self._thread.join()

    def take_longest(self) -> Turn:
        """The longest turn since the last call. Called on the thread of the loop."""
        longest, self.longest = self.longest, NO_TURN
        self._longest_seconds = 0.0
        return longest

    def run(self, callback: Callable[..., object], *arguments: Any) -> None:
        """Runs one callback as a turn. Costs two looks at the clock."""
        self._callback = callback
        self._began = began = monotonic()
        try:
            callback(*arguments)
        finally:
            seconds = monotonic() - began
            self._began = 0.0
            if seconds > self._longest_seconds:
                self._ended(callback, began, seconds)
            elif seconds >= REPORTED_MS / 1000:
                self._report(callback, began, seconds)

    def _ended(self, callback: Any, began: float, seconds: float) -> None:
        self._longest_seconds = seconds
        self.longest = Turn(seconds * 1000, self._cause(callback, began))
        if seconds >= REPORTED_MS / 1000:
            self._report(callback, began, seconds)

    def _report(self, callback: Any, began: float, seconds: float) -> None:
        logger.warning("the event loop was blocked for %d ms by %s", seconds * 1000, self._cause(callback, began))

    def _cause(self, callback: Any, began: float) -> str:
        sampled, place = self._sample
        return f"{description(callback)}, at {place}" if sampled == began else description(callback)

    # In the thread of the watchdog

    def _watch(self) -> None:
        reported = 0.0
        while not self._stopped.wait(SAMPLE_SECONDS):
            began = self._began
            if began == 0.0 or monotonic() - began < SAMPLE_SECONDS:
                continue
            if self._sample[0] != began:
                self._sample = (began, place_of(sys._current_frames().get(self._thread_id)))
            if monotonic() - began > STUCK_SECONDS and reported != began:
                reported = began
                cause = self._cause(self._callback, began)
                logger.error("the event loop has been blocked for more than %d s by %s", STUCK_SECONDS, cause)


def description(callback: Any) -> str:
    """What a callback is: a task by its name and coroutine, a method by its name and the object that it belongs to."""
    owner = getattr(callback, "__self__", None)
    if isinstance(owner, asyncio.Task):
        coroutine = owner.get_coro()
        return f"task {owner.get_name()} ({getattr(coroutine, '__qualname__', coroutine)})"
    name = getattr(callback, "__qualname__", None) or type(callback).__name__
    if "__str__" in vars(type(owner)):
        return f"{name} of {owner}"
    return str(name)


def place_of(frame: FrameType | None) -> str:
    """The innermost frames, the innermost first."""
    places: list[str] = []
    while frame is not None and len(places) < FRAMES_MAX and frame.f_code is not Watchdog.run.__code__:
        code = frame.f_code
        places.append(f"{'/'.join(code.co_filename.split('/')[-2:])}:{frame.f_lineno} {code.co_name}")
        frame = frame.f_back
    return " < ".join(places)

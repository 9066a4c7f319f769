"""Offloaded calls on threads that take turns, so that they overlap with the event loop and with each other.

A call runs on a real thread, but only while the event loop has handed it the baton. Before each disk operation it
hands the baton back and waits; how long, and which call comes next, the seed decides. The event loop itself may be
interrupted before a disk operation of its own: then another call of the same process runs as far as its next one.

Always holds: one thread runs at a time, so the same seed gives the same run. A call whose process was killed stops
before its next disk operation and never goes on. Does not know: what a call does.
"""

import asyncio
import threading
from collections.abc import Callable
from contextvars import Context, copy_context
from random import Random
from typing import Any

from barnabas.simulation.loop import PROCESS, ProcessKilled, VirtualLoop

SYNC = "sync"
WAIT = "wait"  # until another thread has done something: no operation at all
SWITCH_RATE = 0.5  # of disk operations other than a sync: how often a call pauses before it
SWITCH_MS_MAX = 0.2  # about what it takes until the system gives a thread the processor again
INTERRUPTION_RATE = 0.2  # of disk operations on the event loop: how often another call runs meanwhile
LATE_RATE, LATE_FACTOR = 0.1, 20.0  # some syncs take much longer than those beside them
REAL_SECONDS_MAX = 60.0  # between two disk operations; a call that takes longer waits for another one, and for ever

_here = threading.local()  # `call`: the offloaded call that runs on this thread


class OffloadedCall:
    """One call, run in turns. `take_turn` gives it one; afterwards it has ended, or wants the next in `delay_ms`."""

    def __init__(self, function: Callable[[], Any], pause_ms: Callable[[str], tuple[float, float] | None]) -> None:
        self.result: Any = None
        self.error: BaseException | None = None
        self.has_ended = False
        self.delay_ms = 0.0
        self.timer: asyncio.TimerHandle | None = None  # of its next turn
        self._function = function
        self._pause_ms = pause_ms  # before and after an operation of this kind; None: it goes on at once
        self._after_ms = 0.0  # of the operation before
        self._context: Context = copy_context()
        self._is_abandoned = False
        self._go = threading.Lock()
        self._back = threading.Lock()
        self._go.acquire()
        self._back.acquire()
        self._thread: threading.Thread | None = None

    def take_turn(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, daemon=True)
            self._thread.start()
        self._go.release()
        if not self._back.acquire(timeout=REAL_SECONDS_MAX):
            raise RuntimeError(f"the offloaded call {self._function} waits for something other than the disk")
        if self.has_ended:
            self._thread.join()

    def abandon(self) -> None:
        """Ends its thread. Nothing that it still does reaches the disk."""
        self._is_abandoned = True
        if self._thread is not None and not self.has_ended:
            self.take_turn()

    # On its own thread

    def _run(self) -> None:
        _here.call = self
        self._go.acquire()
        try:
            self.result = self._context.run(self._function)
        except BaseException as error:
            self.error = error
        self.delay_ms = self._after_ms
        self.has_ended = True
        self._back.release()

    def before_operation(self, kind: str) -> None:
        if not self._is_abandoned:
            pause_ms = self._pause_ms(kind)
            if pause_ms is None and self._after_ms == 0:
                return
            before_ms, after_ms = pause_ms or (0.0, 0.0)
            self.delay_ms, self._after_ms = self._after_ms + before_ms, after_ms
            self._back.release()
            self._go.acquire()
        if self._is_abandoned:
            raise ProcessKilled


class OffloadedCalls:
    """Those of one process. `sync_ms` is asked anew for each sync: the disk may become slow."""

    def __init__(
        self, loop: VirtualLoop, random: Random, *, sync_ms: Callable[[], float], on_ended: Callable[[], object]
    ) -> None:
        self._on_ended = on_ended
        self._loop = loop
        self._random = random
        self._sync_ms = sync_ms
        self._running: dict[OffloadedCall, Callable[[OffloadedCall], object]] = {}  # with whom to tell of its end
        loop.at_end.append(self._abandon_all)

    def begin(self, function: Callable[[], Any], ended: Callable[[OffloadedCall], object]) -> None:
        """Tells when it has ended; never, where its process is killed before."""
        call = OffloadedCall(function, self._pause_ms)
        self._running[call] = ended
        self._later(call, self._random.uniform(0, SWITCH_MS_MAX))

    def _later(self, call: OffloadedCall, delay_ms: float) -> None:
        call.timer = self._loop.call_later(delay_ms / 1000, self._take_turn, call)

    def _take_turn(self, call: OffloadedCall) -> None:
        assert call.timer is not None
        call.timer.cancel()
        call.take_turn()
        if not call.has_ended:
            self._later(call, call.delay_ms)
            return
        ended = self._running.pop(call)
        if isinstance(call.error, ProcessKilled):
            raise call.error
        ended(call)
        self._on_ended()

    def before_operation(self, kind: str) -> None:
        """Of the disk: called on whichever thread uses it."""
        call: OffloadedCall | None = getattr(_here, "call", None)
        if call is not None:
            call.before_operation(kind)
        elif self._running and (kind == WAIT or self._random.random() < INTERRUPTION_RATE):
            self._interrupt()

    def _interrupt(self) -> None:
        process = PROCESS.get()
        if process is None or process.is_dead:
            return
        self._take_turn(self._random.choice(list(self._running)))
        if process.is_dead:
            raise ProcessKilled  # by what that call did

    def _pause_ms(self, kind: str) -> tuple[float, float] | None:
        random = self._random
        if kind == SYNC:
            duration_ms = self._sync_ms() * (LATE_FACTOR if random.random() < LATE_RATE else 1)
            before_ms = duration_ms * random.random()
            return before_ms, duration_ms - before_ms
        if kind == WAIT or random.random() < SWITCH_RATE:
            return random.uniform(0, SWITCH_MS_MAX), 0.0
        return None

    def _abandon_all(self) -> None:
        for call in list(self._running):
            call.abandon()

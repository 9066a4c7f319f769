"""An asyncio event loop on a virtual clock: where a real one would sleep, this one moves its clock.

Everything that a process of the simulated world starts (tasks, timers, callbacks) carries that process in its context.
So the loop can hold back all of a paused process, and drop all of a dead one, at any moment and without its help.

Always holds: the same callbacks in the same order give the same run. Time moves only while nothing is ready. Where
nothing is ready and nothing will ever be, `Deadlock` is raised; where time stands still for too long, `Livelock`.
Does not know: sockets, files, threads, signals.
"""

import asyncio
import gc
import sys
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Generator
from contextvars import Context, ContextVar, copy_context
from heapq import heapify, heappop
from typing import Any, TypeVar
from weakref import WeakSet

T = TypeVar("T")

STEPS_PER_MOMENT_MAX = 200_000  # a run that does more without a tick of the clock goes in circles
CANCELLED_TIMERS_MIN = 200  # below this a purge is not worth its time


class Deadlock(Exception):
    """Everybody waits, and nothing is scheduled that could end it."""


class Livelock(Exception):
    """Much is done, and no time passes."""


class ProcessKilled(BaseException):
    """Ends the step in which a process was killed, as far as that can be done from within."""


class Process:
    """What lives, sleeps and dies as one. Code belongs to it by running in `context`."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.is_dead = False
        self.is_paused = False
        self.held: deque[asyncio.Handle] = deque()  # what would have run while it was paused, in order
        self.tasks: WeakSet[asyncio.Task[Any]] = WeakSet()
        self.context: Context = copy_context()
        self.context.run(PROCESS.set, self)


PROCESS: ContextVar[Process | None] = ContextVar("PROCESS", default=None)  # None: the world itself


class VirtualLoop(asyncio.BaseEventLoop):
    # Kept by the base class; named here because the rest of this class works on them.
    _ready: "deque[asyncio.Handle]"
    _scheduled: "list[asyncio.TimerHandle]"
    _stopping: bool

    def __init__(self) -> None:
        super().__init__()
        self._now = 0.0
        self._steps_at_moment = 0
        self._timers_cancelled = 0
        self._failure: BaseException | None = None
        self._graveyard: list[asyncio.Task[Any]] = []  # tasks of dead processes: never run, never collected meanwhile
        self.unburied: list[str] = []  # what dead tasks said when they were closed at the very end
        self.steps = 0  # callbacks run so far
        self.at_end: list[Callable[[], None]] = []  # called when the run is over
        self.world: Context = copy_context()  # for what belongs to no process
        self.world.run(PROCESS.set, None)
        self.set_task_factory(_make_task)

    def time(self) -> float:
        return self._now

    def _asyncgen_finalizer_hook(self, agen: AsyncGenerator[Any, Any]) -> None:
        """A generator that nobody closed has lost its process. It ends without a word, whenever it is collected."""

    def fail(self, failure: BaseException) -> None:
        """Ends the run after the callback that runs now. The first failure counts."""
        if self._failure is None:
            self._failure = failure

    # Processes

    def start(self, process: Process, main: Coroutine[Any, Any, T]) -> "asyncio.Task[T]":
        return self.create_task(main, context=process.context)

    def pause(self, process: Process) -> None:
        process.is_paused = True

    def resume(self, process: Process) -> None:
        process.is_paused = False
        self._ready.extend(process.held)
        process.held.clear()

    def kill(self, process: Process) -> None:
        """Nothing of it runs any more: no callback, no `finally`, no last word."""
        process.is_dead = True
        process.held.clear()
        for task in process.tasks:
            if task.done():
                task._log_traceback = False  # whoever would have asked for it is dead
            else:
                self._graveyard.append(task)

    # Running

    def run(self, main: Coroutine[Any, Any, T]) -> T:
        """Runs `main` in the world, and leaves nothing behind."""
        task: asyncio.Task[T] = self.create_task(main, context=self.world)
        try:
            return self.run_until_complete(task)
        finally:
            self._bury()

    def _bury(self) -> None:
        for end in self.at_end:
            end()
        self._ready.clear()
        self._scheduled.clear()
        self.set_exception_handler(lambda _loop, _context: None)
        buried: dict[asyncio.Task[Any], None] = {}
        # As in a loop that runs, and more than once: what is closed may begin something, as its last word.
        asyncio._set_running_loop(self)
        complain, sys.unraisablehook = sys.unraisablehook, lambda _what: None  # the dead within the dead likewise
        while tasks := [task for task in (*self._graveyard, *asyncio.all_tasks(self)) if task not in buried]:
            for task in tasks:
                self._close(task)
            buried.update(dict.fromkeys(tasks))
        asyncio._set_running_loop(None)
        self._graveyard.clear()
        self.close()
        gc.collect()
        sys.unraisablehook = complain

    def _close(self, task: "asyncio.Task[Any]") -> None:
        task._log_destroy_pending = False  # type: ignore[attr-defined]
        coroutine = task.get_coro()
        assert coroutine is not None
        try:
            coroutine.close()
        except (Exception, asyncio.CancelledError) as error:
            # Whoever waits in a `finally` for something cannot be told to leave at once.
            self.unburied.append(repr(error))

    def _run_once(self) -> None:
        ready, scheduled = self._ready, self._scheduled
        self._drop_cancelled()
        if not ready and not self._stopping:
            if not scheduled:
                raise Deadlock("everybody waits and nothing is scheduled")
            self._move_clock(scheduled[0].when())
        while scheduled and scheduled[0].when() <= self._now:
            timer = heappop(scheduled)
            timer._scheduled = False  # type: ignore[attr-defined]
            ready.append(timer)
        for _ in range(len(ready)):
            handle = ready.popleft()
            if handle.cancelled():
                continue
            process: Process | None = handle._context.get(PROCESS)  # type: ignore[attr-defined]
            if process is not None:
                if process.is_dead:
                    continue
                if process.is_paused:
                    process.held.append(handle)
                    continue
            handle._run()
            self.steps += 1
            self._steps_at_moment += 1
            if self._failure is not None:
                raise self._failure
        if self._steps_at_moment > STEPS_PER_MOMENT_MAX:
            raise Livelock(f"{self._steps_at_moment} steps at second {self._now}")

    def _move_clock(self, when: float) -> None:
        if when > self._now:
            self._now = when
            self._steps_at_moment = 0

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        self._timers_cancelled += 1

    def _drop_cancelled(self) -> None:
        scheduled = self._scheduled
        if self._timers_cancelled > CANCELLED_TIMERS_MIN and self._timers_cancelled > len(scheduled) // 2:
            kept = [timer for timer in scheduled if not timer.cancelled()]
            heapify(kept)
            scheduled[:] = kept
            self._timers_cancelled = 0
        while scheduled and scheduled[0].cancelled():
            heappop(scheduled)
            self._timers_cancelled -= 1


def _make_task(
    loop: asyncio.AbstractEventLoop,
    coroutine: Coroutine[Any, Any, T] | Generator[Any, None, T],
    context: Context | None = None,
) -> "asyncio.Task[T]":
    task: asyncio.Task[T] = asyncio.Task(coroutine, loop=loop, context=context)
    process = (context.get(PROCESS) if context is not None else PROCESS.get()) or None
    if process is not None:
        process.tasks.add(task)
    return task


class VirtualClock:
    """The clock of one process; its timers die with it."""

    def __init__(self, loop: VirtualLoop, *, now_ms: int = 0) -> None:
        self._loop = loop
        self.offset_ms: float = now_ms  # the wall clock at second 0; a jump changes it

    def now_ms(self) -> int:
        return int(self.offset_ms + self._loop.time() * 1000)

    def monotonic_ms(self) -> float:
        return self._loop.time() * 1000

    def call_later(self, delay_ms: float, callback: Callable[[], object]) -> asyncio.TimerHandle:
        return self._loop.call_later(delay_ms / 1000, callback)

    async def sleep(self, delay_ms: float) -> None:
        woken = self._loop.create_future()
        timer = self._loop.call_later(max(delay_ms, 0) / 1000, _wake, woken)
        try:
            await woken
        finally:
            timer.cancel()

    async def within(self, timeout_ms: float, awaitable: Awaitable[T]) -> T:
        """TimeoutError where it takes longer."""
        async with asyncio.timeout(timeout_ms / 1000):
            return await awaitable


def _wake(future: "asyncio.Future[None]") -> None:
    if not future.done():
        future.set_result(None)

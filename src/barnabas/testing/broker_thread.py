"""One broker in a thread with an event loop of its own, and a disk in memory that outlives it.

So a test can do to it what it would do to a process: stop it in good order, end it at once, hold it still, start it
again with what it had written, while other brokers in other threads go on.
Always holds: when `stop` or `kill` returns, the thread has ended and its sockets are closed.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import dataclasses
import threading
from collections.abc import Awaitable, Callable
from enum import Enum
from typing import TypeVar

from barnabas.config.broker import BrokerConfig
from barnabas.runtime.interfaces import Runtime
from barnabas.runtime.memory_disk import MemoryDisk
from barnabas.runtime.slices import SlicedBackground
from barnabas.runtime.system import system_runtime
from barnabas.runtime.system.event_loop import WatchedEventLoop
from barnabas.runtime.system.watchdog import Turn
from barnabas.server.broker import Broker
from barnabas.testing.clock import JumpingClock
from barnabas.testing.faults import Faults
from barnabas.testing.network import SeverableNetwork

T = TypeVar("T")

START_SECONDS_MAX = 30.0  # a loaded machine may be slow; an idle one needs hundredths
CALL_SECONDS_MAX = 30.0


class End(Enum):
    STOP = "in good order, and others take over"
    STOP_WITH_ALL = "in good order, and the others stop too"
    KILL = "at once"


class BrokerStopped(Exception):
    """The broker does not run, so it cannot be asked; or it runs, and cannot be started."""


class BrokerThread:
    def __init__(self, config: BrokerConfig, faults: Faults) -> None:
        self.node_id = config.node_id
        self.is_paused = False
        self._config = config
        self._faults = faults
        self._disk = MemoryDisk()
        self.ahead_ms = 0  # how far its clock has jumped, in all
        self._gate = threading.Event()  # a broker that is held still waits for it
        self._thread: threading.Thread | None = None
        # While it runs:
        self._started: concurrent.futures.Future[Broker]
        self._lives: concurrent.futures.Future[None]  # from then on the next two are there
        self._loop: asyncio.AbstractEventLoop
        self._asked: asyncio.Future[End]
        self._network: SeverableNetwork

    @property
    def is_running(self) -> bool:
        return self._thread is not None

    @property
    def is_serving(self) -> bool:
        return self.is_running and not self.is_paused

    @property
    def broker(self) -> Broker:
        if self._thread is None:
            raise BrokerStopped(f"broker {self.node_id} does not run")
        return self._started.result()

    # Life and death

    def start(self) -> None:
        """Begins; `wait_until_started` ends it. Several brokers need each other to start."""
        if self._thread is not None:
            raise BrokerStopped(f"broker {self.node_id} runs already")
        self._started = concurrent.futures.Future()
        self._lives = concurrent.futures.Future()
        self._thread = threading.Thread(target=self._run, name=f"barnabas-broker-{self.node_id}", daemon=True)
        self._thread.start()

    def wait_until_started(self) -> None:
        try:
            self._started.result(START_SECONDS_MAX)
        except TimeoutError:
            self.ask_to_end(End.KILL)
            self.join()
            raise BrokerStopped(f"broker {self.node_id} did not start in {START_SECONDS_MAX:.0f} s") from None
        except BaseException:
            self.join()
            raise

    def stop(self) -> None:
        """In good order: others take over what it leads."""
        self.ask_to_end(End.STOP)
        self.join()

    def kill(self) -> None:
        """As SIGKILL: nothing more is written or said. What was written remains."""
        self.ask_to_end(End.KILL)
        self.join()
        self._disk.forget_locks()

    def ask_to_end(self, how: End) -> None:
        if self._thread is None:
            raise BrokerStopped(f"broker {self.node_id} does not run")
        self.resume()
        self._lives.result()
        with contextlib.suppress(RuntimeError):  # its loop is closed: it has ended by itself
            self._loop.call_soon_threadsafe(self._end, how)

    def join(self) -> None:
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def pause(self) -> None:
        """As SIGSTOP: it holds its connections and does nothing."""
        if self.is_paused:
            return
        reached = threading.Event()

        def wait() -> None:
            reached.set()
            self._gate.wait()

        self._gate.clear()
        self.broker  # noqa: B018  # says so where it does not run
        self._loop.call_soon_threadsafe(wait)
        reached.wait(CALL_SECONDS_MAX)
        self.is_paused = True

    def resume(self) -> None:
        self._gate.set()
        self.is_paused = False

    # What is asked of it

    def call(self, function: Callable[[Broker], Awaitable[T]]) -> T:
        """Runs in the broker's own thread."""
        broker = self.broker
        if self.is_paused:
            raise BrokerStopped(f"broker {self.node_id} is paused")

        async def run() -> T:
            return await function(broker)

        return asyncio.run_coroutine_threadsafe(run(), self._loop).result(CALL_SECONDS_MAX)

    def take_longest_turn(self) -> Turn:
        """The longest turn of its event loop since the last call, or its start: how long, and what it did."""

        async def take(_broker: Broker) -> Turn:
            loop = asyncio.get_running_loop()
            assert isinstance(loop, WatchedEventLoop)
            return loop.watchdog.take_longest()

        return self.call(take)

    def jump_clock(self, ms: int) -> None:
        self.ahead_ms += ms
        if self.is_running:
            self.call(self._set_clock)

    async def _set_clock(self, broker: Broker) -> None:
        clock = broker.runtime.clock
        assert isinstance(clock, JumpingClock)
        clock.ahead_ms = self.ahead_ms
        await broker.maintenance.apply_retention()

    # In the thread

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=WatchedEventLoop) as runner:
            runner.run(self._live())

    async def _live(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._asked = self._loop.create_future()
        self._lives.set_result(None)
        try:
            broker = Broker(self._config, self._runtime(), self._faults.around)
            starting = asyncio.ensure_future(broker.start())
            await asyncio.wait((starting, self._asked), return_when=asyncio.FIRST_COMPLETED)
            if not starting.done():  # for instance, the other brokers are not there
                starting.cancel()
                await asyncio.gather(starting, return_exceptions=True)
                raise BrokerStopped(f"broker {self.node_id} was stopped while it started")
            starting.result()
        except Exception as error:
            self._started.set_exception(error)
            return
        self._started.set_result(broker)
        await asyncio.wait((self._asked, broker.failed), return_when=asyncio.FIRST_COMPLETED)
        how = self._asked.result() if self._asked.done() else End.STOP
        if how is not End.KILL:
            await broker.stop(hand_over=how is End.STOP)
            return
        self._network.cut()
        broker.acceptor.close()
        broker.controller_acceptor.close()
        broker.peers.close()  # and whatever goes on is cancelled with the loop

    def _runtime(self) -> Runtime:
        clock = JumpingClock(self._loop, self.ahead_ms)
        self._disk.now_ms = clock.now_ms
        self._network = SeverableNetwork(self._loop)
        return dataclasses.replace(
            system_runtime(self._loop, self._disk),
            clock=clock,
            network=self._network,
            background=SlicedBackground(self._disk, clock),
        )

    def _end(self, how: End) -> None:
        if not self._asked.done():
            self._asked.set_result(how)

"""Which event loop does the work: uvloop's where that is installed, else asyncio's own; for brokers, a watched one."""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from barnabas.runtime.system.watchdog import Watchdog

if TYPE_CHECKING:
    EventLoop = asyncio.SelectorEventLoop
else:
    try:
        from uvloop import Loop as EventLoop
    except ImportError:
        from asyncio import SelectorEventLoop as EventLoop

# asyncio implements call_later by call_at, uvloop the other way round: wrapping both would count a turn twice.
_TIMER = "call_at" if issubclass(EventLoop, asyncio.BaseEventLoop) else "call_later"


def new_event_loop() -> asyncio.AbstractEventLoop:
    return EventLoop()


class WatchedEventLoop(EventLoop):
    """Runs every callback as a turn of its watchdog. Tasks and futures schedule their steps by `call_soon`."""

    def __init__(self) -> None:
        super().__init__()
        self.watchdog = Watchdog()
        run = self.watchdog.run
        for name in ("call_soon", "call_soon_threadsafe"):
            setattr(self, name, partial(getattr(self, name), run))  # a method of Python would double their cost
        for name in (_TIMER, "add_reader", "add_writer"):
            setattr(self, name, _with_second_argument(getattr(self, name), run))

    def run_forever(self) -> None:
        self.watchdog.start()
        try:
            super().run_forever()
        finally:
            self.watchdog.stop()


def _with_second_argument(function: Callable[..., Any], second: object) -> Callable[..., Any]:
    def call(first: object, *arguments: Any, **named: Any) -> Any:
        return function(first, second, *arguments, **named)

    return call

"""Long work in small steps: on the event loop between other things, or at most so many bytes a second.

Work is an iterator whose items are what it has to tell, or a number: how many bytes it has moved since.
Always holds: between two steps everybody else had a turn. Does not know: what the work is.
"""

from collections.abc import AsyncGenerator, Callable, Iterator
from typing import TypeVar

from barnabas.runtime.interfaces import Clock, Disk

A = TypeVar("A")
T = TypeVar("T")

PAUSE_MS = 2  # after a step of a millisecond or so: a third of the time, in turns that nobody notices


class Throttle:
    """How long to wait after each step, so that the bytes do not exceed their rate over all."""

    def __init__(self, bytes_per_second: float, now_ms: float) -> None:
        self._bytes_per_ms = bytes_per_second / 1000
        self._start_ms = now_ms
        self._moved_bytes = 0

    def pause_ms(self, size_bytes: int, now_ms: float) -> float:
        self._moved_bytes += size_bytes
        return max(0.0, self._start_ms + self._moved_bytes / self._bytes_per_ms - now_ms)


async def in_slices(
    work: Callable[[Disk, A], Iterator[T | int]], argument: A, disk: Disk, clock: Clock, bytes_per_second: float
) -> AsyncGenerator[T, None]:
    throttle = Throttle(bytes_per_second, clock.monotonic_ms())
    for step in work(disk, argument):
        if isinstance(step, int):
            await clock.sleep(max(PAUSE_MS, throttle.pause_ms(step, clock.monotonic_ms())))
        else:
            yield step


class SlicedBackground:
    """For a world without other processes: in memory, or simulated."""

    def __init__(self, disk: Disk, clock: Clock) -> None:
        self._disk = disk
        self._clock = clock

    def __call__(
        self,
        work: Callable[[Disk, A], Iterator[T | int]],
        argument: A,
        *,
        bytes_per_second: float,
    ) -> AsyncGenerator[T, None]:
        return in_slices(work, argument, self._disk, self._clock, bytes_per_second)

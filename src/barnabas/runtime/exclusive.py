"""Offloaded calls of one owner that must not overlap.

Always holds: one call at a time. A call whose caller is cancelled goes on, and the next one waits for it.
"""

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

from barnabas.runtime.interfaces import Offload

T = TypeVar("T")


class ExclusiveCalls:
    __slots__ = ("_under_way",)

    def __init__(self) -> None:
        self._under_way: asyncio.Future[Any] | None = None

    async def run(self, offload: Offload, function: Callable[[], T]) -> T:
        await self.ended()
        call: asyncio.Future[T] = asyncio.ensure_future(offload(function))
        self._under_way = call
        return await asyncio.shield(call)

    async def ended(self) -> None:
        """Returns once no call is under way."""
        while self._under_way is not None and not self._under_way.done():
            await asyncio.wait([self._under_way])

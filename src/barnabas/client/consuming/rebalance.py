"""What an application hears of its group, and how the consumer follows.

Always holds: what is taken away is not read any more when the listener hears of it, and, where the consumer commits by
itself, is committed before; what is given is read only once the listener knows of it. A change that was begun is
finished, also where the poll that began it is cancelled, and no change is told twice.
Does not know: why a change comes about.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from inspect import isawaitable
from typing import Any, Protocol

from barnabas.client.consuming.fetcher import Fetcher
from barnabas.client.consuming.group_member import Change, ChangeKind
from barnabas.client.consuming.membership import Membership
from barnabas.client.consuming.subscription import SubscriptionState
from barnabas.client.errors import ClientClosedError
from barnabas.types import TopicPartition

logger = logging.getLogger(__name__)


class ConsumerRebalanceListener:
    """Hears of partitions that come and go, while the application polls. Methods may be coroutines."""

    def on_partitions_assigned(self, partitions: tuple[TopicPartition, ...]) -> Any:
        """They are this consumer's from now on; it may seek in them."""

    def on_partitions_revoked(self, partitions: tuple[TopicPartition, ...]) -> Any:
        """They go to others afterwards; it may commit what was done."""

    def on_partitions_lost(self, partitions: tuple[TopicPartition, ...]) -> Any:
        """Others may have them already: nothing can be committed."""
        return self.on_partitions_revoked(partitions)


class Committing(Protocol):
    def __call__(self, partitions: tuple[TopicPartition, ...]) -> Awaitable[None]: ...


class Rebalancer:
    def __init__(
        self,
        *,
        subscription: SubscriptionState,
        fetcher: Fetcher,
        commit: Committing,
        on_assigned: Callable[[], None],
    ) -> None:
        self.listener = ConsumerRebalanceListener()
        self._subscription = subscription
        self._fetcher = fetcher
        self._commit = commit  # what was consumed of these, where that is the consumer's to do
        self._on_assigned = on_assigned
        self._task: asyncio.Task[None] | None = None  # the change under way

    async def follow(self, membership: Membership) -> None:
        """Makes what changes the group has in store, one by one. Raises what the listener raises, once that is made."""
        while self._task is not None or membership.member.change is not None:
            if self._task is None:
                made = self._make(membership.member.begin_change(), membership.change_done)
                self._task = asyncio.get_running_loop().create_task(made, name="rebalance")
            await self._end_of(self._task)

    async def _end_of(self, task: "asyncio.Task[None]") -> None:
        await asyncio.wait([task])  # a poll that is cancelled leaves it alone; the next one hears how it ended
        if self._task is task:
            self._task = None
        if task.cancelled():  # by `finish`: nobody else can
            raise ClientClosedError("this consumer was closed during a rebalance; make a new one")
        task.result()

    async def _make(self, change: Change, done: Callable[[], None]) -> None:
        kind, partitions = change
        try:
            if kind is ChangeKind.ASSIGNED:
                self._subscription.add(partitions, held=True)
                self._on_assigned()
                await self._tell(self.listener.on_partitions_assigned, partitions)
            else:
                self._subscription.hold(partitions, True)
                if kind is ChangeKind.REVOKED:
                    await self._commit(partitions)
                    await self._tell(self.listener.on_partitions_revoked, partitions)
                else:
                    await self._tell(self.listener.on_partitions_lost, partitions)
        finally:
            if kind is ChangeKind.ASSIGNED:
                self._subscription.hold(partitions, False)
                self._fetcher.wake()
            else:
                self._subscription.remove(partitions)
                self._fetcher.forget(partitions)
            done()

    async def _tell(
        self, hear: Callable[[tuple[TopicPartition, ...]], Any], partitions: tuple[TopicPartition, ...]
    ) -> None:
        result = hear(partitions)
        if isawaitable(result):
            await result

    async def say_good_bye(self, partitions: tuple[TopicPartition, ...], *, is_lost: bool, timeout_ms: float) -> None:
        """The consumer leaves by itself: the listener hears that what it had is taken from it."""
        self._subscription.hold(partitions, True)
        listener = self.listener
        try:
            async with asyncio.timeout(timeout_ms / 1000) as limit:
                await self._tell(listener.on_partitions_lost if is_lost else listener.on_partitions_revoked, partitions)
        except TimeoutError:
            if not limit.expired():
                raise
            logger.warning("the rebalance listener did not end within %.0f ms, and is cancelled", timeout_ms)

    async def finish(self, timeout_ms: float) -> None:
        """Waits for the change under way, before the consumer leaves; one that takes too long is cancelled."""
        task = self._task
        if task is None or task is asyncio.current_task():  # the listener itself may close its consumer
            return
        await asyncio.wait([task], timeout=timeout_ms / 1000)
        if not task.done():
            logger.warning("the rebalance listener did not end within %.0f ms, and is cancelled", timeout_ms)
            task.cancel()
            await asyncio.wait([task])
        if self._task is task:
            self._task = None
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.warning("the rebalance listener failed: %r", error)

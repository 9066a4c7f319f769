"""How a consumer follows its group while the application hears of a change: fenced, cancelled or closed meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from barnabas.client.consuming.group_member import Change, ChangeKind
from barnabas.client.consuming.rebalance import ConsumerRebalanceListener, Rebalancer
from barnabas.client.consuming.subscription import SubscriptionState
from barnabas.client.errors import ClientClosedError
from barnabas.simulation.loop import VirtualLoop
from barnabas.types import TopicPartition

P0, P1 = TopicPartition("letters", 0), TopicPartition("letters", 1)
GIVEN, LOST = ChangeKind.ASSIGNED, ChangeKind.LOST


class Group(ConsumerRebalanceListener):
    """A group whose changes the test makes up, and a listener that hears of them for as long as the test wants."""

    def __init__(self) -> None:
        self.changes: list[Change] = []
        self.heard: list[tuple[str, tuple[TopicPartition, ...]]] = []
        self.may_end = asyncio.Event()
        self.has_begun = asyncio.Event()
        self.subscription = SubscriptionState()
        self.rebalancer = Rebalancer(
            subscription=self.subscription,
            fetcher=self,  # type: ignore[arg-type]
            commit=self.commit,
            on_assigned=lambda: None,
        )
        self.rebalancer.listener = self

    async def commit(self, partitions: tuple[TopicPartition, ...]) -> None: ...

    def wake(self) -> None: ...

    def forget(self, partitions: tuple[TopicPartition, ...]) -> None: ...

    async def on_partitions_assigned(self, partitions: tuple[TopicPartition, ...]) -> None:
        self.heard.append(("assigned", partitions))
        self.has_begun.set()
        await self.may_end.wait()

    async def on_partitions_lost(self, partitions: tuple[TopicPartition, ...]) -> None:
        self.heard.append(("lost", partitions))

    # As a membership, and its member

    @property
    def member(self) -> Group:
        return self

    @property
    def change(self) -> Change | None:
        return self.changes[0] if self.changes else None

    def begin_change(self) -> Change:
        return self.changes[0]

    def change_done(self) -> None:
        self.changes.pop(0)

    async def poll(self) -> None:
        await self.rebalancer.follow(self)  # type: ignore[arg-type]


def play(scenario: Callable[[Group], Coroutine[Any, Any, None]]) -> None:
    async def run() -> None:
        async with asyncio.timeout(3600):
            await scenario(Group())

    VirtualLoop().run(run())


async def begun(group: Group, *changes: Change) -> asyncio.Task[None]:
    group.changes += changes
    group.has_begun.clear()
    task = asyncio.get_running_loop().create_task(group.poll())
    await group.has_begun.wait()
    return task


def test_what_is_lost_while_it_is_given_is_not_read() -> None:
    async def scenario(group: Group) -> None:
        polling = await begun(group, Change(GIVEN, (P0,)))
        group.changes.append(Change(LOST, (P0,)))
        group.may_end.set()
        await polling
        assert group.heard == [("assigned", (P0,)), ("lost", (P0,))]
        assert group.subscription.partitions == {}

    play(scenario)


def test_a_change_whose_poll_was_cancelled_is_finished_and_its_failure_told_by_the_next_poll() -> None:
    async def scenario(group: Group) -> None:
        polling = await begun(group, Change(GIVEN, (P0,)))
        polling.cancel()
        await asyncio.wait([polling])

        def fails(partitions: tuple[TopicPartition, ...]) -> None:
            raise ZeroDivisionError

        group.on_partitions_lost = fails  # type: ignore[assignment]
        group.may_end.set()
        await group.poll()
        assert (group.heard, group.change) == ([("assigned", (P0,))], None)
        group.changes.append(Change(LOST, (P0,)))
        polling = asyncio.get_running_loop().create_task(group.poll())
        await asyncio.sleep(0)
        polling.cancel()
        await asyncio.wait([polling])
        with pytest.raises(ZeroDivisionError):
            await group.poll()
        assert group.subscription.partitions == {}

    play(scenario)


def test_closing_waits_for_the_listener_but_not_for_ever() -> None:
    async def scenario(group: Group) -> None:
        polling = await begun(group, Change(GIVEN, (P0,)))
        asyncio.get_running_loop().call_later(1, group.may_end.set)
        await group.rebalancer.finish(5000)
        await polling
        assert set(group.subscription.partitions) == {P0}
        group.may_end.clear()
        group.heard.clear()
        polling = await begun(group, Change(GIVEN, (P1,)))
        await group.rebalancer.finish(5000)
        with pytest.raises(ClientClosedError, match="closed during a rebalance"):
            await polling

    play(scenario)

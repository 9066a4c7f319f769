"""Where to read from, with leaders that answer, do not answer, or are not known."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import Any

import pytest

from barnabas.client.consuming.positions import Positions
from barnabas.client.consuming.subscription import Phase, Position, SubscriptionState
from barnabas.client.errors import KafkaTimeoutError, OffsetOutOfRangeError
from barnabas.client.metadata import Leader
from barnabas.client.offset_requests import EpochEnd
from barnabas.client.offsets import OffsetAndMetadata, OffsetAndTimestamp
from barnabas.client.settings import ConsumerConfig
from barnabas.client.workers import Workers
from barnabas.simulation.loop import VirtualClock, VirtualLoop
from barnabas.types import TopicPartition

P0, P1, P2 = (TopicPartition("t", number) for number in range(3))


class World:
    """A cluster of two leaders, the second of which says nothing; nobody leads the third partition."""

    def __init__(self, loop: VirtualLoop, **settings: Any) -> None:
        self.clock = VirtualClock(loop)
        self.runtime = self
        self.leaders = {P0: Leader(1, 5), P1: Leader(2, 5)}
        self.committed_offsets: dict[TopicPartition, OffsetAndMetadata] = {}
        self.stale = 0
        self.subscription = SubscriptionState()
        self.workers = Workers(lambda: None)
        self.positions = Positions(
            requests=self,  # type: ignore[arg-type]
            config=ConsumerConfig(bootstrap_servers="x:1", **settings),
            subscription=self.subscription,
            cluster=self,  # type: ignore[arg-type]
            workers=self.workers,
            group_id="g",
            on_stale=self.is_stale,
            on_found=lambda: None,
        )
        self.workers.start(self.positions.work(), "positions")

    def is_stale(self) -> None:
        self.stale += 1

    def leader(self, topic: str, partition: int) -> Leader | None:
        return self.leaders.get(TopicPartition(topic, partition))

    def leader_epoch(self, partition: TopicPartition) -> int:
        return self.leaders[partition].epoch

    async def _answering(self, partitions: Iterable[TopicPartition], timeout_ms: float) -> None:
        if any(self.leaders[each].node_id == 2 for each in partitions):
            await asyncio.sleep(timeout_ms / 1000)
            raise KafkaTimeoutError("no answer")

    async def committed(self, _group: str, partitions: Iterable[TopicPartition], _timeout_ms: float) -> Any:
        return {each: self.committed_offsets.get(each) for each in partitions}

    async def list_offsets(self, asked: Mapping[TopicPartition, int], timeout_ms: float) -> Any:
        await self._answering(asked, timeout_ms)
        return {each: OffsetAndTimestamp(3, -1) for each in asked}

    async def epoch_ends(self, asked: Mapping[TopicPartition, int], timeout_ms: float) -> Any:
        await self._answering(asked, timeout_ms)
        return {each: EpochEnd(4, 7) for each in asked}

    def assign(self, *partitions: TopicPartition) -> None:
        self.subscription.assign(partitions)
        self.positions.wake()

    def phase(self, partition: TopicPartition) -> Phase:
        return self.subscription.state(partition).phase


def play(scenario: Callable[[World], Coroutine[Any, Any, None]], **settings: Any) -> None:
    loop = VirtualLoop()

    async def run() -> None:
        world = World(loop, auto_offset_reset=settings.pop("auto_offset_reset", "earliest"), **settings)
        await scenario(world)
        await world.workers.close()
        if world.workers.failure is not None:
            raise world.workers.failure

    loop.run(run())


def test_a_leader_that_is_silent_or_unknown_holds_up_no_other(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")

    async def scenario(world: World) -> None:
        world.assign(P0, P1, P2)
        await world.clock.sleep(10)
        assert [world.phase(each) for each in (P0, P1, P2)] == [Phase.READY, Phase.RESET, Phase.RESET]
        assert world.stale > 0
        world.leaders[P2] = Leader(1, 5)
        world.positions.wake()
        await world.clock.sleep(10)
        assert world.phase(P2) is Phase.READY, "though the question to the silent one is still out"
        world.leaders[P1] = Leader(1, 6)
        await world.clock.sleep(60_000)
        assert world.phase(P1) is Phase.READY

    play(scenario)
    assert "t-0: the position is reset to offset 3" in caplog.text


def test_what_a_broker_lost_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(world: World) -> None:
        world.assign(P0)
        state = world.subscription.state(P0)
        state.seek(Position(9, 4, 4))
        state.leader_changed(5)
        world.positions.wake()
        await world.clock.sleep(10)
        assert state.position == Position(7, 4, 5)

    play(scenario)
    assert "t-0: what was read before offset 9 is not in the log any more" in caplog.text
    assert "the position goes back to offset 7" in caplog.text


def test_a_failure_does_not_outlive_the_assignment() -> None:
    async def scenario(world: World) -> None:
        world.assign(P0)
        await world.clock.sleep(10)
        with pytest.raises(OffsetOutOfRangeError, match="nothing is committed"):
            world.positions.raise_failure()
        world.subscription.remove([P0])  # others have it, and commit
        world.committed_offsets[P0] = OffsetAndMetadata(2)
        world.subscription.add([P0], held=False)
        world.positions.wake()
        await world.clock.sleep(10)
        world.positions.raise_failure()
        assert world.phase(P0) is Phase.READY

    play(scenario, auto_offset_reset="none")

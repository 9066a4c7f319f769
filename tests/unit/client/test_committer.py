"""Commits one after the other, in virtual time: what a time limit covers, and what is waited for at the end."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from barnabas.client.consuming.committer import Committer
from barnabas.client.errors import KafkaTimeoutError
from barnabas.client.offsets import ConsumerGroupMetadata, OffsetAndMetadata
from barnabas.errors import ErrorCode
from barnabas.simulation.loop import VirtualClock, VirtualLoop
from barnabas.types import TopicPartition

P0 = TopicPartition("t", 0)


class World:
    """A cluster whose coordinator takes a second for a commit."""

    def __init__(self, loop: VirtualLoop) -> None:
        self.loop = loop
        self.clock = VirtualClock(loop)
        self.runtime = self.config = self
        self.request_timeout_ms = 30_000
        self.committed: list[int] = []
        who = ConsumerGroupMetadata("g")
        self.committer = Committer(cluster=self, requests=self, who=lambda: who, on_refused=lambda _code: False)  # type: ignore[arg-type]

    async def commit(self, _who: Any, offsets: dict[TopicPartition, OffsetAndMetadata], _timeout_ms: float) -> Any:
        await asyncio.sleep(1)
        self.committed.append(offsets[P0].offset)
        return {P0: ErrorCode.NONE}

    async def retry(self, attempt: Any, *, timeout_ms: float, **_more: Any) -> None:
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                await attempt()
        except TimeoutError:
            raise KafkaTimeoutError("the coordinator") from None


def test_the_time_of_a_commit_includes_those_before_it() -> None:
    loop = VirtualLoop()

    async def scenario() -> None:
        world = World(loop)
        for offset in range(5):
            world.committer.begin({P0: OffsetAndMetadata(offset)}, 60_000)
        await asyncio.sleep(0)
        began = loop.time()
        with pytest.raises(KafkaTimeoutError, match="still under way"):
            await world.committer.commit({P0: OffsetAndMetadata(9)}, 1500)
        assert loop.time() - began == pytest.approx(1.5)
        with pytest.raises(KafkaTimeoutError, match="the coordinator"):
            await world.committer.commit({P0: OffsetAndMetadata(9)}, 4000)  # of which half a second is left in its turn
        assert loop.time() - began == pytest.approx(5.5)
        await world.committer.finish(60_000)
        assert world.committed == [0, 1, 2, 3, 4]
        await world.committer.commit({P0: OffsetAndMetadata(9)}, 1500)

    loop.run(scenario())


def test_an_automatic_commit_that_fails_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    loop = VirtualLoop()

    async def scenario() -> None:
        world = World(loop)
        world.committer.begin_automatic({P0: OffsetAndMetadata(3)}, 500)
        await world.committer.finish(60_000)
        await asyncio.sleep(0)
        assert "offsets were not committed" in caplog.text

    loop.run(scenario())

"""The fetcher between a subscription and a broker that says what the test wants: turns, limits, refusals, drops."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from random import Random
from typing import Any

import pytest

from barnabas.client.consuming.fetcher import ANSWERS_WAITING_MAX, Fetcher
from barnabas.client.consuming.subscription import Phase, Position, SubscriptionState
from barnabas.client.errors import KafkaError, OffsetOutOfRangeError
from barnabas.client.metadata import ClusterMetadata, Leader, Node, PartitionMetadata, TopicMetadata
from barnabas.client.settings import ConsumerConfig
from barnabas.client.workers import Workers
from barnabas.errors import ErrorCode
from barnabas.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    LeaderIdAndEpoch,
    PartitionData,
)
from barnabas.protocol.record_batch import Record, encode_batch
from barnabas.simulation.loop import VirtualClock, VirtualLoop
from barnabas.types import TopicPartition

ID = b"i" * 16
P0, P1 = TopicPartition("letters", 0), TopicPartition("letters", 1)


class World:
    """A cluster of two brokers whose answers the test gives."""

    def __init__(self, loop: VirtualLoop, **settings: Any) -> None:
        self.config = ConsumerConfig(bootstrap_servers="x:1", **settings)
        self.clock = VirtualClock(loop)
        self.runtime = self
        self.random = Random(1)
        self.metadata = ClusterMetadata(brokers={number: Node(number, "x", number) for number in (1, 2)})
        partitions = {number: PartitionMetadata("letters", number, 1, 5, (1, 2), (1, 2)) for number in (0, 1)}
        self.metadata.topics["letters"] = TopicMetadata("letters", ID, False, partitions)
        self.asked: list[tuple[int, FetchRequest]] = []
        self._questions: asyncio.Queue[tuple[int, FetchRequest, asyncio.Future[FetchResponse]]] = asyncio.Queue()
        self.stale = self.resets = 0
        self.subscription = SubscriptionState()
        self.workers = Workers(lambda: None)
        self.fetcher = Fetcher(
            cluster=self,  # type: ignore[arg-type]
            config=self.config,
            subscription=self.subscription,
            workers=self.workers,
            on_stale=self._is_stale,
            on_reset=self._must_reset,
            on_arrival=lambda: None,
        )

    # What the fetcher asks of its cluster

    @property
    def brokers(self) -> dict[int, Node]:
        return self.metadata.brokers

    def topic(self, name: str) -> TopicMetadata | None:
        return self.metadata.topics.get(name)

    def leader(self, topic: str, partition: int) -> Leader | None:
        return self.metadata.leader(topic, partition)

    def pause_ms(self, _failures: int) -> float:
        return 100.0

    async def request(self, node_id: int, request: FetchRequest, **_bounds: Any) -> FetchResponse:
        answer: asyncio.Future[FetchResponse] = asyncio.get_running_loop().create_future()
        await self._questions.put((node_id, request, answer))
        return await answer

    def _is_stale(self) -> None:
        self.stale += 1

    def _must_reset(self) -> None:
        self.resets += 1

    # What the test does

    def read_from(self, offset: int, *partitions: TopicPartition) -> None:
        self.subscription.assign(partitions)
        for partition in partitions:
            self.subscription.state(partition).seek(Position(offset, 5, 5))
        self.fetcher.wake()

    async def answer(self, *data: PartitionData, error: ErrorCode = ErrorCode.NONE, session_id: int = 7) -> Any:
        """Answers the next request; gives who was asked, and for what."""
        async with asyncio.timeout(60):
            node_id, request, answer = await self._questions.get()
        topics = [FetchableTopicResponse(topic_id=ID, partitions=list(data))] if data else []
        answer.set_result(FetchResponse(error_code=error, session_id=session_id, responses=topics))
        await self.settle()
        wanted = [(each.partition, each.fetch_offset) for topic in request.topics for each in topic.partitions]
        return node_id, wanted

    async def settle(self) -> None:
        for _ in range(10):
            await self.clock.sleep(0)

    @property
    def is_asking(self) -> bool:
        return not self._questions.empty()


def batch(first: int, count: int = 3) -> bytes:
    records = [Record(first + index, 1000, None, b"%d" % (first + index)) for index in range(count)]
    return bytes(encode_batch(records, base_offset=first, leader_epoch=5))


def data(partition: int, first: int, count: int = 3, **fields: Any) -> PartitionData:
    return PartitionData(partition_index=partition, high_watermark=100, records=batch(first, count), **fields)


def refusal(error: ErrorCode, **fields: Any) -> PartitionData:
    return PartitionData(partition_index=0, error_code=error, **fields)


def play(scenario: Callable[[World], Coroutine[Any, Any, None]], **settings: Any) -> None:
    loop = VirtualLoop()

    async def run() -> None:
        world = World(loop, **settings)
        await scenario(world)
        await world.workers.close()
        if world.workers.failure is not None:
            raise world.workers.failure

    loop.run(run())


def offsets(world: World, count_max: int = 100) -> list[tuple[int, int]]:
    return [(record.partition, record.offset) for record in world.fetcher.take(count_max)]


def test_it_reads_ahead_and_no_further() -> None:
    async def scenario(world: World) -> None:
        world.read_from(10, P0)
        for number in range(ANSWERS_WAITING_MAX):
            assert await world.answer(data(0, 10 + number * 3)) == (1, [(0, 10 + number * 3)])
        assert not world.is_asking, "enough waits"
        assert world.subscription.state(P0).position == Position(10, 5, 5)
        assert offsets(world, 4) == [(0, 10), (0, 11), (0, 12), (0, 13)]
        assert world.subscription.state(P0).position == Position(14, 5, 5)
        await world.settle()
        assert world.is_asking, "there is room again"

    play(scenario)


def test_partitions_take_turns() -> None:
    async def scenario(world: World) -> None:
        world.read_from(0, P0, P1)
        assert await world.answer(data(0, 0), data(1, 0)) == (1, [(0, 0), (1, 0)])
        assert offsets(world, 2) == [(0, 0), (0, 1)]
        await world.answer(data(0, 3))
        assert offsets(world) == [(0, 2), (1, 0), (1, 1), (1, 2), (0, 3), (0, 4), (0, 5)]

    play(scenario)


def test_what_came_while_it_could_not_be_read_is_read_later() -> None:
    async def scenario(world: World) -> None:
        world.read_from(0, P0)
        await world.settle()
        state = world.subscription.state(P0)
        state.phase = Phase.UNCHECKED
        await world.answer(data(0, 0))
        assert offsets(world) == []
        state.checked(Position(0, 5, 5), 5)
        world.fetcher.wake()
        assert offsets(world) == [(0, 0), (0, 1), (0, 2)]

    play(scenario)


def test_what_was_sought_elsewhere_is_dropped() -> None:
    async def scenario(world: World) -> None:
        world.read_from(0, P0)
        await world.settle()
        world.subscription.state(P0).seek(Position(50, 5, 5))
        world.fetcher.forget([P0])
        await world.answer(data(0, 0))  # to the question before
        assert offsets(world) == []
        assert await world.answer(data(0, 50)) == (1, [(0, 50)])
        world.subscription.state(P0).seek(Position(70, 5, 5))
        assert offsets(world) == [], "it waits here, and is not wanted any more"

    play(scenario)


def test_what_was_taken_away_is_dropped() -> None:
    async def scenario(world: World) -> None:
        world.read_from(0, P0)
        await world.answer(data(0, 0))
        world.subscription.remove([P0])
        assert offsets(world) == []

    play(scenario)


def test_pausing_keeps_what_waits() -> None:
    async def scenario(world: World) -> None:
        world.read_from(0, P0)
        await world.answer(data(0, 0))
        world.subscription.state(P0).paused = True
        assert offsets(world) == []
        world.subscription.state(P0).paused = False
        world.fetcher.wake()
        assert offsets(world) == [(0, 0), (0, 1), (0, 2)]

    play(scenario)


def test_an_answer_that_names_the_leader_is_followed_at_once() -> None:
    async def scenario(world: World) -> None:
        world.read_from(0, P0)
        leader = LeaderIdAndEpoch(leader_id=2, leader_epoch=6)
        await world.answer(refusal(ErrorCode.NOT_LEADER_OR_FOLLOWER, current_leader=leader))
        assert world.subscription.state(P0).phase is Phase.UNCHECKED, "the new one may lack what was read"
        assert world.resets == 1
        world.subscription.state(P0).checked(Position(0, 5, 5), 6)
        world.fetcher.wake()
        assert await world.answer(data(0, 0)) == (2, [(0, 0)])
        assert world.stale == 0

    play(scenario)


def test_a_refusal_asks_for_metadata_and_waits_a_moment() -> None:
    async def scenario(world: World) -> None:
        world.read_from(0, P0)
        await world.answer(refusal(ErrorCode.NOT_LEADER_OR_FOLLOWER))
        assert world.stale == 1
        assert not world.is_asking
        await world.clock.sleep(150)
        assert world.is_asking

    play(scenario)


def test_a_nearer_replica_is_read_until_it_fails() -> None:
    async def scenario(world: World) -> None:
        world.read_from(0, P0)
        assert (await world.answer(PartitionData(partition_index=0, preferred_read_replica=2)))[0] == 1
        assert (await world.answer(data(0, 0)))[0] == 2
        assert offsets(world) == [(0, 0), (0, 1), (0, 2)]
        assert (await world.answer(refusal(ErrorCode.OFFSET_OUT_OF_RANGE)))[0] == 2
        assert (await world.answer(data(0, 3))) == (1, [(0, 3)]), "a follower may lag behind: the leader knows"

    play(scenario)


def test_out_of_range_resets_by_the_policy() -> None:
    async def scenario(world: World) -> None:
        world.read_from(9, P0)
        await world.answer(refusal(ErrorCode.OFFSET_OUT_OF_RANGE))
        state = world.subscription.state(P0)
        assert (state.phase, state.reset_timestamp_ms, world.resets) == (Phase.RESET, -2, 1)

    play(scenario, auto_offset_reset="earliest")


def test_out_of_range_without_a_policy_is_told() -> None:
    async def scenario(world: World) -> None:
        world.read_from(9, P0)
        await world.answer(refusal(ErrorCode.OFFSET_OUT_OF_RANGE))
        for _ in range(2):
            with pytest.raises(OffsetOutOfRangeError, match="letters-0: there is no offset 9"):
                world.fetcher.raise_failure()
        world.fetcher.forget([P0])
        world.fetcher.raise_failure()

    play(scenario, auto_offset_reset="none")


def broken() -> bytes:
    found = bytearray(batch(0))
    found[-1] ^= 1
    return bytes(found)


@pytest.mark.parametrize(
    ("answer", "code", "words"),
    [
        (PartitionData(records=broken()), ErrorCode.CORRUPT_MESSAGE, "to go on behind it, seek to 3"),
        (PartitionData(records=batch(0)[:-1]), ErrorCode.MESSAGE_TOO_LARGE, "raise max_partition_fetch_bytes"),
        (PartitionData(records=bytes(100)), ErrorCode.CORRUPT_MESSAGE, "message format 0"),
        (refusal(ErrorCode.TOPIC_AUTHORIZATION_FAILED), ErrorCode.TOPIC_AUTHORIZATION_FAILED, "ask for an ACL"),
    ],
)
def test_what_cannot_be_read_is_told(answer: PartitionData, code: ErrorCode, words: str) -> None:
    async def scenario(world: World) -> None:
        world.read_from(0, P0)
        await world.answer(answer)
        assert offsets(world) == []
        with pytest.raises(KafkaError, match=words) as raised:
            world.fetcher.raise_failure()
        assert raised.value.code == code
        world.subscription.state(P0).paused = True
        world.fetcher.raise_failure()  # whoever does not want to read it need not hear of it
        world.subscription.remove([P0])
        world.fetcher.raise_failure()

    play(scenario)


def test_a_lost_session_is_begun_anew() -> None:
    async def scenario(world: World) -> None:
        world.read_from(0, P0)
        await world.answer()
        assert await world.answer() == (1, []), "nothing has changed"
        assert await world.answer(error=ErrorCode.FETCH_SESSION_ID_NOT_FOUND) == (1, [])
        assert await world.answer() == (1, [(0, 0)])

    play(scenario)


def test_an_error_of_a_newer_broker_does_not_end_the_worker() -> None:
    async def scenario(world: World) -> None:
        world.read_from(0, P0)
        await world.answer(PartitionData(partition_index=0, error_code=9999))
        await world.clock.sleep(1000)
        await world.answer(data(0, 0))
        assert offsets(world) == [(0, 0), (0, 1), (0, 2)]

    play(scenario)


def test_a_position_that_is_out_of_range_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(world: World) -> None:
        world.read_from(9, P0)
        await world.answer(refusal(ErrorCode.OFFSET_OUT_OF_RANGE))
        assert world.subscription.state(P0).phase is Phase.RESET

    play(scenario, auto_offset_reset="earliest")
    assert "letters-0: there is no offset 9 (any more)" in caplog.text
    assert "auto_offset_reset=earliest" in caplog.text

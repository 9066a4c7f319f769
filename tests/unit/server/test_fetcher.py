"""A follower's side of fetching: what it names, when, and what it does with answers, without a network."""

import asyncio
from collections.abc import Callable
from typing import Any

from replicas import ManualClock, batch, image, partition, settled
from supervision import NotedSupervisor

from barnabas.client.connection import ConnectionLost
from barnabas.config.broker import BrokerConfig
from barnabas.errors import ErrorCode
from barnabas.protocol.messages.fetch import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from barnabas.replication.throttle import Throttle
from barnabas.server.replicas.fetcher import HOLD_MS_MAX, REST_MS_MIN, Fetcher
from barnabas.server.replicas.partition import Partition

TOPIC = b"t" * 16
LEADER, SELF = 2, 1


class Connection:
    """Takes requests down; the test answers them."""

    def __init__(self) -> None:
        self.requests: list[FetchRequest] = []
        self.waiting: list[tuple[Callable[[Any], None], asyncio.Future[None]]] = []
        self.is_closed = False

    def request_and_handle(
        self, message: FetchRequest, version: int, handle: Callable[[Any], None], timeout_ms: float
    ) -> "asyncio.Future[None]":
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.requests.append(message)
        self.waiting.append((handle, done))
        return done

    def close(self) -> None:
        self.is_closed = True


class Bench:
    def __init__(self) -> None:
        self.clock = ManualClock()
        self.connection = Connection()
        self.broker_epoch = 5
        self.throttle = Throttle()
        self.fetcher = Fetcher(
            leader_id=LEADER,
            node_id=SELF,
            peer=self,  # type: ignore[arg-type]
            config=lambda: BrokerConfig({}),
            broker_epoch=lambda: self.broker_epoch,
            throttle=self.throttle,
            clock=self.clock,  # type: ignore[arg-type]
            supervisor=NotedSupervisor(self.clock),
        )

    async def connected(self) -> Connection:
        if self.connection.is_closed:
            self.connection = Connection()
        return self.connection

    def succeeded(self) -> None: ...

    def follower(self, number: int, **facts: Any) -> Partition:
        made = partition(number, clock=self.clock, node_id=SELF, leader=LEADER, **facts)
        self.fetcher.follow(made)
        return made

    @property
    def named(self) -> dict[int, int]:
        """By the newest request: partitions, and what each asks for."""
        return {
            each.partition: each.fetch_offset
            for topic in self.connection.requests[-1].topics
            for each in topic.partitions
        }

    async def answer(self, *data: PartitionData, session_id: int = 3, error: ErrorCode = ErrorCode.NONE) -> None:
        handle, done = self.connection.waiting.pop(0)
        topics = [FetchableTopicResponse(topic_id=TOPIC, partitions=list(data))] if data else []
        try:
            handle(FetchResponse(error_code=error, session_id=session_id, responses=topics))
            done.set_result(None)
        except ConnectionLost as lost:
            done.set_exception(lost)
        await settled()


def records(
    number: int, base_offset: int, *, count: int = 1, watermark: int = 0, leader_epoch: int = 1
) -> PartitionData:
    return PartitionData(
        partition_index=number,
        high_watermark=watermark,
        log_start_offset=0,
        records=batch(count, base_offset, leader_epoch),
    )


def told(number: int, error: ErrorCode = ErrorCode.NONE, **facts: Any) -> PartitionData:
    return PartitionData(
        partition_index=number, error_code=error, high_watermark=-1, log_start_offset=-1, records=b"", **facts
    )


def run(scenario: Callable[[Bench], Any]) -> None:
    async def test() -> None:
        bench = Bench()
        await scenario(bench)
        await bench.fetcher.stop()

    asyncio.run(test())


def test_everything_is_named_once_and_then_only_what_moved() -> None:
    async def scenario(bench: Bench) -> None:
        first, second = bench.follower(0), bench.follower(1)
        await settled()
        assert bench.named == {0: 0, 1: 0}
        assert (bench.connection.requests[-1].session_id, bench.connection.requests[-1].session_epoch) == (0, 0)
        await bench.answer(records(0, 0, count=2, watermark=1))
        assert (first.log.log_end_offset, first.log.high_watermark, second.log.log_end_offset) == (2, 1, 0)
        assert bench.named == {0: 2}
        assert (bench.connection.requests[-1].session_id, bench.connection.requests[-1].session_epoch) == (3, 1)
        await bench.answer()
        assert bench.named == {}, "nothing moved"

    run(scenario)


def test_nothing_is_fetched_before_the_broker_is_registered() -> None:
    async def scenario(bench: Bench) -> None:
        bench.broker_epoch = -1
        bench.follower(0)
        await settled()
        await bench.clock.advance(REST_MS_MIN)
        assert bench.connection.requests == []
        bench.broker_epoch = 5
        await bench.clock.advance(REST_MS_MIN)
        state = bench.connection.requests[-1].replica_state
        assert state is not None
        assert (state.replica_id, state.replica_epoch) == (SELF, 5)

    run(scenario)


def test_one_that_comes_along_does_not_wait_and_one_that_goes_is_forgotten() -> None:
    async def scenario(bench: Bench) -> None:
        first = bench.follower(0)
        await settled()
        await bench.answer()
        bench.follower(1)
        await settled()
        assert len(bench.connection.waiting) == 2, "the leader answers the first at once"
        assert bench.named == {1: 0}
        bench.fetcher.unfollow(first)
        await bench.answer(records(0, 0))
        assert first.log.log_end_offset == 0, "it does not follow any more"
        [forgotten] = bench.connection.requests[-1].forgotten_topics_data
        assert forgotten.partitions == [0]

    run(scenario)


def test_an_answer_to_an_old_question_counts_for_nobody_who_began_anew() -> None:
    async def scenario(bench: Bench) -> None:
        follower = bench.follower(0)
        await settled()
        follower.apply(image(leader=LEADER, leader_epoch=2, epoch=2))
        bench.fetcher.follow(follower)
        await bench.answer(records(0, 0))
        assert follower.log.log_end_offset == 0
        assert bench.connection.requests[-1].topics[0].partitions[0].current_leader_epoch == 2
        await bench.answer(records(0, 0, leader_epoch=2))
        assert follower.log.log_end_offset == 1

    run(scenario)


def test_where_the_leaders_history_departs_the_log_is_cut_and_named_again() -> None:
    async def scenario(bench: Bench) -> None:
        follower = bench.follower(0)
        await settled()
        await bench.answer(records(0, 0), records(0, 1), records(0, 2))
        assert bench.named == {0: 3}
        await bench.answer(told(0, diverging_epoch=EpochEndOffset(epoch=1, end_offset=1)))
        assert (follower.log.log_end_offset, bench.named) == (1, {0: 1})

    run(scenario)


def test_who_fails_rests_longer_each_time() -> None:
    async def scenario(bench: Bench) -> None:
        bench.follower(0)
        await settled()
        for rest_ms in (REST_MS_MIN, 2 * REST_MS_MIN, 4 * REST_MS_MIN):
            await bench.answer(told(0, ErrorCode.NOT_LEADER_OR_FOLLOWER))
            await bench.clock.advance(rest_ms - 1)
            assert bench.named == {}
            await bench.clock.advance(1)
            assert bench.named == {0: 0}
            bench.connection.waiting.pop(0)  # the empty one that was out meanwhile
            bench.fetcher._in_flight -= 1

    run(scenario)


def test_a_session_that_is_lost_begins_anew_with_everything() -> None:
    async def scenario(bench: Bench) -> None:
        bench.follower(0)
        bench.follower(1)
        await settled()
        await bench.answer(records(0, 0))
        lost = bench.connection
        await bench.answer(error=ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        assert lost.is_closed
        await bench.clock.advance(REST_MS_MIN)
        assert bench.connection is not lost
        assert bench.named == {0: 1, 1: 0}
        assert bench.connection.requests[-1].session_epoch == 0

    run(scenario)


def test_who_is_throttled_is_named_when_its_turn_comes_unless_it_is_in_sync() -> None:
    async def scenario(bench: Bench) -> None:
        slow, fast = bench.follower(0, in_sync=(2,)), bench.follower(1)
        slow.is_follower_throttled = fast.is_follower_throttled = True
        bench.throttle.changed(1000, 0.0)
        await settled()
        await bench.answer(records(0, 0), records(1, 0))
        assert bench.named == {1: 1}
        wait_ms = bench.throttle.wait_ms(0.0)
        assert 0 < wait_ms < HOLD_MS_MAX
        await bench.clock.advance(wait_ms)
        assert bench.named == {0: 1}

    run(scenario)

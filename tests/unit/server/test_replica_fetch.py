"""The leader's side of followers' fetches: what wakes an answer, what it holds, and what it does not repeat."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

from peers import FakeCluster
from replicas import ManualClock, batch, image, partition, settled

from barnabas.errors import ErrorCode
from barnabas.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic, ReplicaState
from barnabas.replication.throttle import Throttle
from barnabas.server.replicas import replica_fetch
from barnabas.server.replicas.partition import Partition
from barnabas.server.replicas.replica_fetch import WATERMARK_NEWS_MS, ReplicaSessions

TOPIC = b"t" * 16
VERSION = 18


class Bench:
    """Broker 1 leads partitions; 2 and 3 follow."""

    def __init__(self, count: int = 1, **facts: Any) -> None:
        self.clock = ManualClock()
        self.cluster = FakeCluster()
        self.partitions = {
            number: partition(number, clock=self.clock, cluster=self.cluster, **facts) for number in range(count)
        }
        self.leader_throttle = Throttle()
        self.replica_sessions = ReplicaSessions(random.Random(1))
        self.runtime = SimpleNamespace(clock=self.clock)
        self.controller = SimpleNamespace(image=SimpleNamespace(topics_by_id={TOPIC: None}))
        self.sessions: dict[int, tuple[int, int]] = {}  # of each follower: id, and the next epoch

    def topic_by_id(self, topic_id: bytes) -> dict[int, Partition]:
        return self.partitions if topic_id == TOPIC else {}

    def fetch(self, replica: int, *, forget: tuple[int, ...] = (), epoch: int = 1, **offsets: int) -> Awaitable[Any]:
        """`p0=5` names partition 0 at offset 5."""
        session_id, session_epoch = self.sessions.get(replica, (0, 0))
        wanted = [
            FetchPartition(
                partition=int(name[1:]),
                current_leader_epoch=epoch,
                fetch_offset=offset,
                last_fetched_epoch=1 if offset else -1,
                log_start_offset=0,
                partition_max_bytes=1 << 20,
            )
            for name, offset in offsets.items()
        ]
        request = FetchRequest(
            replica_state=ReplicaState(replica_id=replica, replica_epoch=9),
            max_wait_ms=500,
            min_bytes=1,
            max_bytes=1 << 20,
            session_id=session_id,
            session_epoch=session_epoch,
            topics=[FetchTopic(topic_id=TOPIC, partitions=wanted)] if wanted else [],
            forgotten_topics_data=[ForgottenTopic(topic_id=TOPIC, partitions=list(forget))] if forget else [],
        )
        broker: Any = SimpleNamespace(**vars(self))
        broker.partitions = SimpleNamespace(topic_by_id=self.topic_by_id)
        answer = replica_fetch.handle(broker, VERSION, request, replica)
        self.sessions[replica] = (session_id, session_epoch + 1)
        if isinstance(answer, asyncio.Future):
            return answer
        done: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        done.set_result(answer)
        if session_id == 0:
            self.sessions[replica] = (answer.session_id, 1)
        return done

    async def begin(self, replica: int, **offsets: int) -> None:
        """A session in which the follower waits for news."""
        waiting = self.fetch(replica, **offsets)
        await self.clock.advance(500)
        self.sessions[replica] = ((await waiting).session_id, 1)


def told(answer: Any) -> dict[int, tuple[bool, int, int]]:
    """Of each partition in the answer: whether there are records, the watermark, and the error."""
    return {
        data.partition_index: (bool(data.records), data.high_watermark, data.error_code)
        for topic in answer.responses
        for data in topic.partitions
    }


def run(scenario: Callable[[], Any]) -> None:
    asyncio.run(scenario())


def test_an_append_wakes_those_who_follow_and_names_only_what_grew() -> None:
    async def scenario() -> None:
        bench = Bench(count=3)
        await bench.begin(2, p0=0, p1=0, p2=0)
        waiting = bench.fetch(2)
        await settled()
        assert not waiting.done()  # type: ignore[attr-defined]
        bench.partitions[1].append(batch(), -1)
        assert told(await waiting) == {1: (True, 0, 0)}
        waiting = bench.fetch(2)
        bench.partitions[1].append(batch(), -1)
        await settled()
        assert not waiting.done(), "it has not said what it did with the first one"  # type: ignore[attr-defined]
        assert told(await bench.fetch(2, p1=1)) == {1: (True, 0, 0)}
        assert told(await waiting) == {}, "the follower had more to say than to wait"

    run(scenario)


def test_a_watermark_alone_is_told_a_little_later_and_once() -> None:
    async def scenario() -> None:
        bench = Bench()
        bench.partitions[0].append(batch(), -1)
        assert told(await bench.fetch(2, p0=0)) == {0: (True, 0, 0)}
        second = bench.fetch(2, p0=1)
        assert told(await bench.fetch(3, p0=0)) == {0: (True, 0, 0)}
        third = bench.fetch(3, p0=1)
        await bench.clock.advance(WATERMARK_NEWS_MS - 1)
        assert not second.done()  # type: ignore[attr-defined]
        await bench.clock.advance(1)
        assert told(await second) == told(await third) == {0: (False, 1, 0)}
        waiting = bench.fetch(2)
        await bench.clock.advance(500)
        assert told(await waiting) == {}

    run(scenario)


def test_who_is_wrong_about_the_epoch_or_the_session_is_told_at_once() -> None:
    async def scenario() -> None:
        bench = Bench()
        assert told(await bench.fetch(2, p0=0, epoch=2)) == {0: (False, -1, ErrorCode.UNKNOWN_LEADER_EPOCH)}
        bench.partitions[0].apply(image(leader=1, leader_epoch=3, epoch=2))
        assert told(await bench.fetch(2, p0=0)) == {0: (False, -1, ErrorCode.FENCED_LEADER_EPOCH)}
        bench.sessions[2] = (bench.sessions[2][0], 7)
        assert (await bench.fetch(2)).error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH
        bench.sessions[2] = (12345, 1)
        assert (await bench.fetch(2)).error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND

    run(scenario)


def test_what_is_forgotten_is_not_watched_any_more() -> None:
    async def scenario() -> None:
        bench = Bench(count=2)
        await bench.begin(2, p0=0, p1=0)
        assert bench.partitions[0].watchers
        waiting = bench.fetch(2, forget=(0,))
        assert not bench.partitions[0].watchers
        bench.partitions[0].append(batch(), -1)
        bench.partitions[1].append(batch(), -1)
        assert told(await waiting) == {1: (True, 0, 0)}

    run(scenario)


def test_a_leader_that_ceases_says_so_to_who_waits() -> None:
    async def scenario() -> None:
        bench = Bench()
        await bench.begin(2, p0=0)
        waiting = bench.fetch(2)
        bench.partitions[0].apply(image(leader=3, leader_epoch=2, epoch=2))
        await bench.clock.advance(WATERMARK_NEWS_MS)
        assert told(await waiting) == {0: (False, -1, ErrorCode.FENCED_LEADER_EPOCH)}

    run(scenario)


def test_who_is_throttled_is_counted_but_gets_nothing_until_its_turn() -> None:
    async def scenario() -> None:
        bench = Bench(in_sync=(1, 3))
        bench.cluster.gone[2] = None  # so that it does not get in sync
        leader = bench.partitions[0]
        leader.is_leader_throttled = True
        bench.leader_throttle.changed(1000, 0.0)
        leader.append(batch(), 1)
        assert told(await bench.fetch(2, p0=0)) == {0: (True, 0, 0)}
        leader.append(batch(), 1)
        wait_ms = bench.leader_throttle.wait_ms(0.0)
        waiting = bench.fetch(2, p0=1)
        await settled()
        assert not waiting.done()  # type: ignore[attr-defined]
        assert told(await bench.fetch(3, p0=0)) == {0: (True, 0, 0)}, "who is in sync is not held back"
        await bench.clock.advance(wait_ms)
        assert told(await waiting) == {}, "what the other one got is to be paid for too"
        waiting = bench.fetch(2)
        await bench.clock.advance(bench.leader_throttle.wait_ms(bench.clock.ms))
        assert told(await waiting) == {0: (True, 0, 0)}

    run(scenario)

"""Asking the controller for other in-sync replicas: one request at a time, and again where no answer came."""

import asyncio
from typing import Any

from peers import FakeCluster
from replicas import ManualClock, image, partition, settled
from supervision import NotedSupervisor

from barnabas.client.connection import ConnectionLost
from barnabas.errors import ErrorCode
from barnabas.protocol.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    ResponsePartitionData,
    ResponseTopicData,
)
from barnabas.server.replicas.alter_partition import RETRY_MS, InSyncChanges
from barnabas.server.replicas.partition import Partition


class Bench:
    def __init__(self) -> None:
        self.clock = ManualClock()
        self.sent: list[tuple[AlterPartitionRequest, asyncio.Future[Any]]] = []
        self.changes = InSyncChanges(
            node_id=1,
            broker_epoch=lambda: 7,
            send=self._send,
            clock=self.clock,
            supervisor=NotedSupervisor(self.clock),
        )

    def _send(self, request: AlterPartitionRequest) -> "asyncio.Future[Any]":
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.sent.append((request, answer))
        return answer

    def leader(self, number: int) -> Partition:
        """One that has just seen replica 2 catch up."""
        made = partition(number, clock=self.clock, in_sync=(1,), cluster=FakeCluster())
        made.replica_fetched(2, 9, 0, 0)
        assert made.in_sync_wanted == (1, 2)
        return made

    def asked(self) -> list[tuple[int, list[tuple[int, int]]]]:
        """Of the newest request: which partitions, and which brokers in which epochs."""
        return [
            (each.partition_index, [(member.broker_id, member.broker_epoch) for member in each.new_isr_with_epochs])
            for topic in self.sent[-1][0].topics
            for each in topic.partitions
        ]

    async def answer(self, *partitions: ResponsePartitionData, error: ErrorCode = ErrorCode.NONE) -> None:
        topic = ResponseTopicData(topic_id=b"t" * 16, partitions=list(partitions))
        self.sent[-1][1].set_result(AlterPartitionResponse(error_code=error, topics=[topic]))
        await settled()


def granted(number: int) -> ResponsePartitionData:
    return ResponsePartitionData(partition_index=number, leader_id=1, leader_epoch=1, partition_epoch=2, isr=[1, 2])


def refused(number: int, error: ErrorCode) -> ResponsePartitionData:
    return ResponsePartitionData(partition_index=number, error_code=error)


def test_one_request_at_a_time_carries_all_that_is_wanted() -> None:
    async def test() -> None:
        bench = Bench()
        first, second, third = (bench.leader(number) for number in range(3))
        bench.changes.ask(first)
        await settled()
        assert bench.asked() == [(0, [(1, 7), (2, 9)])]
        for each in (second, third, second):
            bench.changes.ask(each)
        await settled()
        assert len(bench.sent) == 1
        await bench.answer(granted(0))
        assert first.in_sync == (1, 2)
        assert [number for number, _members in bench.asked()] == [1, 2]
        await bench.answer(granted(1), granted(2))
        assert (second.in_sync, third.in_sync, third.in_sync_wanted) == ((1, 2), (1, 2), None)
        assert len(bench.sent) == 2

    asyncio.run(test())


def test_what_got_no_answer_is_asked_again() -> None:
    async def test() -> None:
        bench = Bench()
        leader = bench.leader(0)
        bench.changes.ask(leader)
        await settled()
        bench.sent[-1][1].set_exception(ConnectionLost("the controller is gone"))
        await settled()
        assert (len(bench.sent), leader.in_sync_wanted) == (1, (1, 2)), "nobody knows whether it was done"
        await bench.clock.advance(RETRY_MS)
        assert len(bench.sent) == 2
        await bench.answer(error=ErrorCode.STALE_BROKER_EPOCH)
        await bench.clock.advance(RETRY_MS)
        await bench.answer(refused(0, ErrorCode.NOT_CONTROLLER))
        await bench.clock.advance(RETRY_MS)
        await bench.answer(granted(0))
        assert leader.in_sync == (1, 2)
        await bench.clock.advance(RETRY_MS)
        assert len(bench.sent) == 4

    asyncio.run(test())


def test_what_is_refused_may_be_asked_for_later_and_what_is_outdated_waits_for_the_metadata() -> None:
    async def test() -> None:
        bench = Bench()
        leader, outdated = bench.leader(0), bench.leader(1)
        for each in (leader, outdated):
            bench.changes.ask(each)
        await settled()
        await bench.answer(refused(0, ErrorCode.INELIGIBLE_REPLICA), refused(1, ErrorCode.FENCED_LEADER_EPOCH))
        assert (leader.in_sync, leader.in_sync_wanted) == ((1,), None)
        assert outdated.in_sync_wanted == (1, 2), "both sets count until it is known which holds"
        await bench.clock.advance(10 * RETRY_MS)
        assert len(bench.sent) == 1

    asyncio.run(test())


def test_an_answer_that_the_metadata_log_was_faster_than_changes_nothing() -> None:
    async def test() -> None:
        bench = Bench()
        leader = bench.leader(0)
        bench.changes.ask(leader)
        await settled()
        leader.apply(image(leader=1, in_sync=(1, 2, 3), epoch=3))
        await bench.answer(granted(0))
        assert (leader.in_sync, leader.partition_epoch) == ((1, 2, 3), 3)

    asyncio.run(test())

"""Transactions over several brokers: coordinators, leaders of partitions and of offsets are not the same, and come and
go."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from cluster import Cluster, until

from barnabas.errors import ErrorCode
from barnabas.protocol.messages.describe_transactions import DescribeTransactionsRequest
from barnabas.protocol.messages.end_txn import EndTxnRequest
from barnabas.protocol.messages.find_coordinator import FindCoordinatorRequest
from barnabas.protocol.messages.init_producer_id import InitProducerIdRequest
from barnabas.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from barnabas.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from barnabas.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from barnabas.protocol.record_batch import Record, encode_batch

ID = "transactional"
SETTINGS = {
    "transaction_state_log_num_partitions": "3",
    "transaction_state_log_replication_factor": "3",
    "offsets_topic_num_partitions": "3",
    "offsets_topic_replication_factor": "3",
}
PARTITIONS = 6
PASSING = (
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
)
GROUP, TRANSACTION = 0, 1


def run(test: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(asyncio.wait_for(test(), 60))


async def ask_until(ask: Callable[[], Coroutine[Any, Any, Any]], error_of: Callable[[Any], int]) -> Any:
    """As a client does, for as long as the answer says that it will be another one soon."""
    while True:
        answer = await ask()
        if error_of(answer) not in PASSING:
            return answer
        await asyncio.sleep(0.01)


async def coordinator(cluster: Cluster, key: str, key_type: int) -> int:
    node = cluster.running[0]
    request = FindCoordinatorRequest(coordinator_keys=[key], key_type=key_type)
    answer = await ask_until(lambda: node.ask(request, 6), lambda told: int(told.coordinators[0].error_code))
    return int(answer.coordinators[0].node_id)


class TransactionalProducer:
    """Of transaction version 2."""

    def __init__(self, cluster: Cluster, transactional_id: str = ID) -> None:
        self.cluster = cluster
        self.transactional_id = transactional_id
        self.id = self.epoch = -1
        self.sequences: dict[int, int] = {}  # by partition

    async def _to_coordinator(self, request: Any, version: int) -> Any:
        async def ask() -> Any:
            node = await coordinator(self.cluster, self.transactional_id, TRANSACTION)
            return await self.cluster.nodes[node].ask(request, version)

        return await ask_until(ask, lambda told: int(told.error_code))

    async def init(self) -> None:
        request = InitProducerIdRequest(transactional_id=self.transactional_id, transaction_timeout_ms=60_000)
        self._take(await self._to_coordinator(request, 5))

    def _take(self, answer: Any) -> None:
        assert answer.error_code == ErrorCode.NONE, answer
        self.id, self.epoch = answer.producer_id, answer.producer_epoch
        self.sequences = {}

    async def produce(self, partition: int, value: bytes) -> None:
        batch = encode_batch(
            [Record(0, 1, None, value, [])],
            producer_id=self.id,
            producer_epoch=self.epoch,
            base_sequence=self.sequences.get(partition, 0),
            transactional=True,
        )
        data = PartitionProduceData(index=partition, records=bytes(batch))
        request = ProduceRequest(
            transactional_id=self.transactional_id,
            acks=-1,
            timeout_ms=5_000,
            topic_data=[TopicProduceData(name="t", partition_data=[data])],
        )
        answer = await ask_until(
            lambda: self.cluster.leader("t", partition).ask(request, 12),
            lambda told: int(told.responses[0].partition_responses[0].error_code),
        )
        assert answer.responses[0].partition_responses[0].error_code == ErrorCode.NONE, answer
        self.sequences[partition] = self.sequences.get(partition, 0) + 1

    async def commit_offsets(self, group: str, offset: int) -> None:
        each = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=offset, committed_metadata="")
        request = TxnOffsetCommitRequest(
            transactional_id=self.transactional_id,
            group_id=group,
            producer_id=self.id,
            producer_epoch=self.epoch,
            topics=[TxnOffsetCommitRequestTopic(name="t", partitions=[each])],
        )

        async def ask() -> Any:
            node = await coordinator(self.cluster, group, GROUP)
            return await self.cluster.nodes[node].ask(request, 5)

        answer = await ask_until(ask, lambda told: int(told.topics[0].partitions[0].error_code))
        assert answer.topics[0].partitions[0].error_code == ErrorCode.NONE

    async def end(self, *, commit: bool) -> None:
        request = EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.id,
            producer_epoch=self.epoch,
            committed=commit,
        )
        self._take(await self._to_coordinator(request, 5))

    async def state(self) -> str:
        request = DescribeTransactionsRequest(transactional_ids=[self.transactional_id])
        node = await coordinator(self.cluster, self.transactional_id, TRANSACTION)
        (described,) = (await self.cluster.nodes[node].ask(request, 0)).transaction_states
        return str(described.transaction_state)

    async def settled(self, state: str) -> None:
        def is_other(told: str) -> int:
            return ErrorCode.NONE if told == state else ErrorCode.CONCURRENT_TRANSACTIONS

        await ask_until(self.state, is_other)


async def offset_of(cluster: Cluster, group: str) -> int:
    wanted = OffsetFetchRequestTopics(name="t", partition_indexes=[0])
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group, topics=[wanted])], require_stable=True)

    async def ask() -> Any:
        node = await coordinator(cluster, group, GROUP)
        return await cluster.nodes[node].ask(request, 9)

    def error_of(told: Any) -> int:
        unstable = told.groups[0].topics and told.groups[0].topics[0].partitions[0].error_code
        return int(told.groups[0].error_code or (ErrorCode.NOT_COORDINATOR if unstable else 0))

    answer = await ask_until(ask, error_of)
    return int(answer.groups[0].topics[0].partitions[0].committed_offset)


async def stable(cluster: Cluster, partitions: Sequence[int] = range(PARTITIONS)) -> None:
    """No replica of these has an open transaction."""
    for partition in partitions:
        alive = [each for each in cluster.state("t", partition).replicas if cluster.nodes[each].broker is not None]
        for replica in [cluster.replica(each, "t", partition) for each in alive]:
            await until(
                lambda replica=replica: replica.log.last_stable_offset == replica.log.log_end_offset,
                f"t-{partition} has no open transaction",
            )


def test_a_transaction_ends_on_every_broker() -> None:
    async def scenario() -> None:
        async with Cluster(3, **SETTINGS) as cluster:
            await cluster.create_topic("t", partitions=PARTITIONS)
            producer = TransactionalProducer(cluster)
            await producer.init()
            for turn, commit in enumerate((True, False, True)):
                for partition in range(PARTITIONS):
                    await producer.produce(partition, b"%d" % turn)
                for group in ("g", "h", "i", "j"):
                    await producer.commit_offsets(group, turn)
                await producer.end(commit=commit)
                await stable(cluster)
                for group in ("g", "h", "i", "j"):
                    assert await offset_of(cluster, group) == (turn if commit else 0)
            await producer.settled("CompleteCommit")
            for partition in range(PARTITIONS):
                await cluster.agree("t", partition)
                for replica in cluster.replicas("t", partition):
                    assert replica.log.log_end_offset == 6

    run(scenario)


def test_the_next_coordinator_goes_on() -> None:
    async def scenario() -> None:
        async with Cluster(3, **SETTINGS) as cluster:
            await cluster.create_topic("t", partitions=PARTITIONS)
            producer = TransactionalProducer(cluster)
            await producer.init()
            await producer.produce(0, b"a")
            await producer.commit_offsets("g", 7)
            first = await coordinator(cluster, ID, TRANSACTION)
            await cluster.nodes[first].stop()
            await producer.produce(1, b"b")
            await producer.produce(0, b"c")
            await producer.end(commit=True)
            await stable(cluster, (0, 1))
            assert await offset_of(cluster, "g") == 7
            await cluster.nodes[first].start()
            await stable(cluster, (0, 1))

    run(scenario)


def test_markers_reach_leaders_that_were_away() -> None:
    async def scenario() -> None:
        async with Cluster(3, **SETTINGS) as cluster:
            await cluster.create_topic("t", partitions=PARTITIONS, replicas=1)
            producer = TransactionalProducer(cluster)
            await producer.init()
            for partition in range(PARTITIONS):
                await producer.produce(partition, b"a")
            mine = await coordinator(cluster, ID, TRANSACTION)
            away = next(number for number in cluster.nodes if number != mine)
            orphans = [number for number in range(PARTITIONS) if cluster.leader_id("t", number) == away]
            assert orphans
            await cluster.nodes[away].stop()
            await producer.end(commit=True)
            await stable(cluster, [number for number in range(PARTITIONS) if number not in orphans])
            assert await producer.state() == "PrepareCommit"
            await cluster.nodes[away].start()
            await stable(cluster, orphans)
            await producer.settled("CompleteCommit")

    run(scenario)


def test_a_second_producer_fences_the_first_on_every_broker() -> None:
    async def scenario() -> None:
        async with Cluster(3, **SETTINGS) as cluster:
            await cluster.create_topic("t", partitions=PARTITIONS)
            first, second = TransactionalProducer(cluster), TransactionalProducer(cluster)
            await first.init()
            for partition in range(PARTITIONS):
                await first.produce(partition, b"zombie")
            await second.init()
            await stable(cluster)
            for partition in range(PARTITIONS):
                await second.produce(partition, b"a")
            await second.end(commit=True)
            await stable(cluster)
            for partition in range(PARTITIONS):
                leader = cluster.replica(cluster.leader_id("t", partition), "t", partition)
                assert [state.epoch for state in leader.log.producers] == [second.epoch]

    run(scenario)

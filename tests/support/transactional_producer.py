"""A transactional producer of one request after the other, for clusters within the process."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from cluster import Cluster

from barnabas.errors import ErrorCode
from barnabas.protocol.messages.describe_transactions import DescribeTransactionsRequest
from barnabas.protocol.messages.end_txn import EndTxnRequest
from barnabas.protocol.messages.find_coordinator import FindCoordinatorRequest
from barnabas.protocol.messages.init_producer_id import InitProducerIdRequest
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
            timeout_ms=60_000,
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

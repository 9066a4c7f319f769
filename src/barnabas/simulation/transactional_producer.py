"""The requests of a producer with a transactional id, one at a time: what each was answered, in Kafka's words.

    version 1   partitions and groups are added before they are written to; the epoch stays the same
    version 2   brokers add what is written; the epoch rises with each end (KIP-890)

Always holds: `is_in_doubt` from a request on whose fate is not known, until the next epoch begins.
Does not know: transactions, and what to do about errors.
"""

from __future__ import annotations

from typing import Any

from barnabas.errors import ErrorCode
from barnabas.protocol.message import Message
from barnabas.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from barnabas.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from barnabas.protocol.messages.end_txn import EndTxnRequest
from barnabas.protocol.messages.find_coordinator import FindCoordinatorRequest
from barnabas.protocol.messages.init_producer_id import InitProducerIdRequest
from barnabas.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from barnabas.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from barnabas.protocol.record_batch import encode_batch
from barnabas.runtime.interfaces import Address
from barnabas.simulation.client import Client, ClientConnection, Unavailable
from barnabas.simulation.history import Batch, PartitionId
from barnabas.simulation.participants import Topic, records_of
from barnabas.types import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, Offset

GROUP, TRANSACTION = 0, 1
FIND_COORDINATOR_VERSION = 4
INIT_PRODUCER_ID_VERSION = 5
ADD_PARTITIONS_VERSION = 3
ADD_OFFSETS_VERSION = 4
PRODUCE_VERSIONS = {1: 11, 2: 12}
OFFSET_COMMIT_VERSIONS = {1: 4, 2: 5}
END_VERSIONS = {1: 4, 2: 5}


class TransactionalProducer:
    def __init__(self, client: Client, *, transactional_id: str, version: int, timeout_ms: int) -> None:
        self.transactional_id = transactional_id
        self.version = version
        self.id = NO_PRODUCER_ID
        self.epoch = NO_PRODUCER_EPOCH
        self.is_in_doubt = False
        self._client = client
        self.timeout_ms = timeout_ms
        self._coordinators: dict[tuple[int, str], Address] = {}
        self._sequences: dict[PartitionId, int] = {}  # the next ones, in this epoch

    def forget(self) -> None:
        """As a process that starts anew."""
        self.id, self.epoch = NO_PRODUCER_ID, NO_PRODUCER_EPOCH

    def next_sequence(self, partition_id: PartitionId, count: int) -> int:
        sequence = self._sequences.get(partition_id, 0)
        self._sequences[partition_id] = sequence + count
        return sequence

    # Coordinators

    async def coordinator(self, kind: int, key: str) -> ClientConnection:
        found = self._coordinators.get((kind, key))
        if found is None:
            request = FindCoordinatorRequest(key_type=kind, coordinator_keys=[key])
            response = await self._client.call_any(request, FIND_COORDINATOR_VERSION)
            (answer,) = response.coordinators
            if answer.error_code != ErrorCode.NONE:
                raise Unavailable(f"no coordinator: {answer.error_code}")
            found = self._coordinators[kind, key] = (answer.host, answer.port)
        return await self._client.connection(found)

    def forget_coordinators(self) -> None:
        self._coordinators.clear()

    async def _ask(self, kind: int, key: str, request: Message, version: int) -> Any | None:
        """None where there is no answer."""
        try:
            connection = await self.coordinator(kind, key)
        except Unavailable:
            self.forget_coordinators()
            return None
        try:
            return await self._client.call(connection, request, version)
        except Unavailable:
            self.is_in_doubt = True
            self.forget_coordinators()
            return None

    # Requests

    async def initialize(self) -> ErrorCode:
        """The next epoch; of this producer's own, if it has one."""
        request = InitProducerIdRequest(
            transactional_id=self.transactional_id,
            transaction_timeout_ms=self.timeout_ms,
            producer_id=self.id,
            producer_epoch=self.epoch,
        )
        response = await self._ask(TRANSACTION, self.transactional_id, request, INIT_PRODUCER_ID_VERSION)
        return self._begun(response)

    def _begun(self, response: Any | None) -> ErrorCode:
        if response is None:
            return ErrorCode.NETWORK_EXCEPTION
        if response.error_code == ErrorCode.NONE:
            self.id, self.epoch = response.producer_id, response.producer_epoch
            self._sequences.clear()
            self.is_in_doubt = False
        return ErrorCode(response.error_code)

    async def add_partition(self, topic: Topic, partition_id: PartitionId) -> ErrorCode:
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=self.id,
            v3_and_below_producer_epoch=self.epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(name=topic.name, partitions=[partition_id.partition])],
        )
        response = await self._ask(TRANSACTION, self.transactional_id, request, ADD_PARTITIONS_VERSION)
        if response is None:
            return ErrorCode.NETWORK_EXCEPTION
        (answer,) = response.results_by_topic_v3_and_below
        return ErrorCode(answer.results_by_partition[0].partition_error_code)

    def produce_request(self, topic: Topic, batch: Batch) -> ProduceRequest:
        now_ms = self._client.clock.now_ms()
        records = encode_batch(
            records_of(batch, now_ms),
            producer_id=self.id,
            producer_epoch=self.epoch,
            base_sequence=batch.base_sequence,
            transactional=True,
        )
        data = PartitionProduceData(index=batch.partition_id.partition, records=bytes(records))
        return ProduceRequest(
            transactional_id=self.transactional_id,
            acks=batch.acks,
            timeout_ms=int(self._client.timeout_ms),
            topic_data=[TopicProduceData(name=topic.name, partition_data=[data])],
        )

    async def produce(self, topic: Topic, batch: Batch) -> tuple[ErrorCode, Offset]:
        request = self.produce_request(topic, batch)
        try:
            connection = await self._client.leader_connection(topic.name, topic.id, batch.partition_id.partition)
        except Unavailable:
            return ErrorCode.NETWORK_EXCEPTION, -1
        try:
            response = await self._client.call(connection, request, PRODUCE_VERSIONS[self.version])
        except Unavailable:
            self.is_in_doubt = True
            return ErrorCode.NETWORK_EXCEPTION, -1
        answer = response.responses[0].partition_responses[0]
        return ErrorCode(answer.error_code), answer.base_offset

    async def add_offsets(self, group: str) -> ErrorCode:
        request = AddOffsetsToTxnRequest(
            transactional_id=self.transactional_id, producer_id=self.id, producer_epoch=self.epoch, group_id=group
        )
        response = await self._ask(TRANSACTION, self.transactional_id, request, ADD_OFFSETS_VERSION)
        return ErrorCode.NETWORK_EXCEPTION if response is None else ErrorCode(response.error_code)

    async def commit_offsets(self, group: str, topic: Topic, offsets: dict[PartitionId, Offset]) -> ErrorCode:
        partitions = [
            TxnOffsetCommitRequestPartition(partition_index=partition_id.partition, committed_offset=offset)
            for partition_id, offset in offsets.items()
        ]
        request = TxnOffsetCommitRequest(
            transactional_id=self.transactional_id,
            group_id=group,
            producer_id=self.id,
            producer_epoch=self.epoch,
            topics=[TxnOffsetCommitRequestTopic(name=topic.name, partitions=partitions)],
        )
        response = await self._ask(GROUP, group, request, OFFSET_COMMIT_VERSIONS[self.version])
        if response is None:
            return ErrorCode.NETWORK_EXCEPTION
        errors = [ErrorCode(each.error_code) for topic in response.topics for each in topic.partitions]
        return next((error for error in errors if error != ErrorCode.NONE), ErrorCode.NONE)

    def end_request(self, *, committed: bool) -> EndTxnRequest:
        return EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.id,
            producer_epoch=self.epoch,
            committed=committed,
        )

    async def end(self, *, committed: bool) -> ErrorCode:
        request = self.end_request(committed=committed)
        response = await self._ask(TRANSACTION, self.transactional_id, request, END_VERSIONS[self.version])
        if self.version > 1:
            return self._begun(response)
        return ErrorCode.NETWORK_EXCEPTION if response is None else ErrorCode(response.error_code)

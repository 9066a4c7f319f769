"""Produce, versions 3 to 13.

Batches of a transaction are written only where its coordinator confirms it (`coordinators.transactional_produce`).
Record batches are appended as they came: the broker checks the CRC and the sequence, writes base offset and leader
epoch into the header, and never looks at a record. acks=0 gets no answer; an error then closes the connection, as
Kafka does, so that the client notices and refreshes its metadata.
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterable, Mapping
from typing import TYPE_CHECKING

from barnabas.errors import ErrorCode
from barnabas.log.append import AppendInfo, RecordError
from barnabas.protocol.messages.produce import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from barnabas.protocol.primitives import new
from barnabas.protocol.record_batch import HEADER_BYTES, TRANSACTIONAL_BIT
from barnabas.server.context import CloseConnection, RequestContext
from barnabas.server.replicas import leader_hints
from barnabas.server.replicas.commit_wait import Commit, CommitWait
from barnabas.types import TopicPartition

if TYPE_CHECKING:
    from barnabas.server.broker import Broker
    from barnabas.server.replicas.partition import Partition

TOPIC_ID_VERSION = 13
ADMIN_CLIENT_ID = "__admin_client"  # the only name under which Kafka lets a client write to internal topics
ACKS_NONE = 0
ACKS_VALID = (-1, 0, 1)
ATTRIBUTES_LOW_BYTE = 22  # of a batch
RETRIED = (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.CONCURRENT_TRANSACTIONS)  # the same batch comes again
Refused = Mapping[TopicPartition, ErrorCode]
NOTHING_REFUSED: Refused = {}


def handle(
    broker: Broker, context: RequestContext, request: ProduceRequest
) -> ProduceResponse | Awaitable[ProduceResponse] | Awaitable[ProduceResponse | None] | None:
    if request.transactional_id is None:
        return write(broker, context, request)
    from barnabas.server.coordinators import transactional_produce

    refused = transactional_produce.check(broker, request, context.api_version)
    if isinstance(refused, Mapping):
        return write(broker, context, request, refused)
    return write_verified(broker, context, request, refused)


async def write_verified(
    broker: Broker, context: RequestContext, request: ProduceRequest, refused: Awaitable[Refused]
) -> ProduceResponse | None:
    """Requests behind this one wait, so that the batches of a producer stay in order."""
    written = write(broker, context, request, await refused)
    return await written if isinstance(written, Awaitable) else written


def write(
    broker: Broker, context: RequestContext, request: ProduceRequest, refused: Refused = NOTHING_REFUSED
) -> ProduceResponse | Awaitable[ProduceResponse] | None:
    commits: list[tuple[Commit, PartitionProduceResponse]] = []
    topics = []
    failed = False
    acks = request.acks
    by_id = context.api_version >= TOPIC_ID_VERSION
    transactional = request.transactional_id is not None
    for topic in request.topic_data:
        partitions = broker.partitions.topic_by_id(topic.topic_id) if by_id else broker.partitions.topic(topic.name)
        answers = []
        for data in topic.partition_data:
            partition = partitions.get(data.index)
            if partition is None:
                name = topic.topic_id if by_id else topic.name
                info = AppendInfo.failed(leader_hints.missing(broker.controller.image, name, data.index))
            elif partition.is_internal and context.client_id != ADMIN_CLIENT_ID:
                info = AppendInfo.failed(ErrorCode.INVALID_TOPIC_EXCEPTION)
            elif refused and partition.name in refused:
                info = refuse(partition, data, refused[partition.name])
            else:
                info = append(partition, data, acks, transactional)
            answer = answer_for(data.index, info)
            answers.append(answer)
            if info.error:
                failed = True
            elif partition is not None and acks != ACKS_NONE:
                commit = partition.acknowledged(info.end_offset, acks)
                if commit is not None:
                    commits.append((commit, answer))
        topics.append(TopicProduceResponse(name=topic.name, topic_id=topic.topic_id, partition_responses=answers))
    response = ProduceResponse(responses=topics)
    if acks == ACKS_NONE:
        if failed:
            raise CloseConnection("a write that wants no acknowledgement failed")
        return None
    if failed and context.api_version >= leader_hints.PRODUCE_HINTS_SINCE_VERSION:
        name_leaders(broker, context, response)
    if commits:
        return CommitWait(response, commits, request.timeout_ms, broker.runtime.clock).future
    return response


def name_leaders(broker: Broker, context: RequestContext, response: ProduceResponse) -> None:
    hints = leader_hints.LeaderHints(broker, context)
    for topic in response.responses:
        for answer in topic.partition_responses:
            if answer.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER:
                hints.give(answer, topic.name or topic.topic_id, answer.index, LeaderIdAndEpoch)
    response.node_endpoints = hints.endpoints(NodeEndpoint)


def append(partition: Partition, data: PartitionProduceData, acks: int, transactional: bool) -> AppendInfo:
    if acks not in ACKS_VALID:
        return AppendInfo.failed(ErrorCode.INVALID_REQUIRED_ACKS)
    records = data.records
    if not records:
        return AppendInfo.failed(ErrorCode.INVALID_RECORD)
    assert isinstance(records, memoryview)
    if not transactional and len(records) >= HEADER_BYTES and records[ATTRIBUTES_LOW_BYTE] & TRANSACTIONAL_BIT:
        return AppendInfo.failed(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)  # of no transaction
    return partition.append(records, acks)


def refuse(partition: Partition, data: PartitionProduceData, error: ErrorCode) -> AppendInfo:
    if error in RETRIED and isinstance(data.records, memoryview):
        partition.log.refused(data.records)
    return AppendInfo.failed(error)


def answer_for(index: int, info: AppendInfo) -> PartitionProduceResponse:
    answer = new(PartitionProduceResponse)  # for each batch: a call of the class takes twice as long
    answer.index = index
    answer.error_code = info.error
    answer.base_offset = info.base_offset
    answer.log_append_time_ms = info.log_append_time_ms
    answer.log_start_offset = info.log_start_offset
    answer.record_errors = named(info.record_errors) if info.record_errors else []
    answer.error_message = info.error_message
    answer.current_leader = None
    return answer


def named(errors: Iterable[RecordError]) -> list[BatchIndexAndErrorMessage]:
    return [BatchIndexAndErrorMessage(batch_index=index, batch_index_error_message=text) for index, text in errors]

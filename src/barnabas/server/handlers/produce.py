"""Produce, versions 3 to 13.

Batches of a transaction are written only where its coordinator confirms it (`coordinators.transactional_produce`).
Record batches are appended as they came: the broker checks the CRC and the sequence, and writes base offset and leader
epoch into the header. Where the topic asks for a look at the records, that is done off the event loop
(`log.inspection`), before a transaction is verified; what else is in the request is appended meanwhile. Of a partition
that is named twice the last batch counts, and is answered once, as in Kafka.
acks=0 gets no answer; an error then closes the connection, as Kafka does, so that the client notices and refreshes its
metadata.
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from barnabas.errors import ErrorCode
from barnabas.log import inspection
from barnabas.log.append import NEEDS_INSPECTION, AppendInfo, AppendOrigin, RecordError
from barnabas.log.inspection import Inspected
from barnabas.protocol.compression import Codec
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
from barnabas.protocol.record_batch import CODEC_MASK, HEADER_BYTES, TRANSACTIONAL_BIT
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
ZSTD_SINCE_VERSION = 7
RETRIED = (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.CONCURRENT_TRANSACTIONS)  # the same batch comes again
Refused = Mapping[TopicPartition, ErrorCode]
NOTHING_REFUSED: Refused = {}
Inspections = dict[int, Inspected | AppendInfo]  # by the identity of the PartitionProduceData
NOTHING_INSPECTED: Inspections = {}


class Deferred(NamedTuple):
    """A batch that is appended once its records were looked at, and where its answer belongs."""

    partition: Partition
    data: PartitionProduceData
    answers: list[PartitionProduceResponse]
    number: int


def handle(
    broker: Broker, context: RequestContext, request: ProduceRequest
) -> ProduceResponse | Awaitable[ProduceResponse] | Awaitable[ProduceResponse | None] | None:
    if len(request.topic_data) > 1 or (request.topic_data and len(request.topic_data[0].partition_data) > 1):
        drop_repeated(request)
    if request.transactional_id is None:
        return Writing(broker, context, request).write()
    waiting = to_inspect(broker, context, request)
    if waiting:
        return write_inspected(broker, context, request, waiting)
    return write_checked(broker, context, request, NOTHING_INSPECTED)


def write_checked(
    broker: Broker, context: RequestContext, request: ProduceRequest, inspected: Inspections
) -> ProduceResponse | Awaitable[ProduceResponse] | Awaitable[ProduceResponse | None] | None:
    from barnabas.server.coordinators import transactional_produce

    refused = transactional_produce.check(broker, request, context.api_version)
    if isinstance(refused, Mapping):
        return Writing(broker, context, request, refused, inspected).write()
    return write_verified(broker, context, request, refused, inspected)


async def write_verified(
    broker: Broker,
    context: RequestContext,
    request: ProduceRequest,
    refused: Awaitable[Refused],
    inspected: Inspections,
) -> ProduceResponse | None:
    """Requests behind this one wait, so that the batches of a producer stay in order."""
    written = Writing(broker, context, request, await refused, inspected).write()
    return await written if isinstance(written, Awaitable) else written


async def write_inspected(
    broker: Broker,
    context: RequestContext,
    request: ProduceRequest,
    waiting: list[tuple[Partition, PartitionProduceData]],
) -> ProduceResponse | None:
    """Of a transaction: nothing may wait between the coordinator's word and the write, so the records come first."""
    written = write_checked(broker, context, request, await inspect(broker, waiting))
    return await written if isinstance(written, Awaitable) else written


def to_inspect(
    broker: Broker, context: RequestContext, request: ProduceRequest
) -> list[tuple[Partition, PartitionProduceData]]:
    """The batches whose records must be looked at. If there are any, all are kept: the request must wait for them."""
    by_id = context.api_version >= TOPIC_ID_VERSION
    now_ms = broker.runtime.clock.now_ms()
    found = []
    for topic in request.topic_data:
        partitions = broker.partitions.topic_by_id(topic.topic_id) if by_id else broker.partitions.topic(topic.name)
        for data in topic.partition_data:
            partition = partitions.get(data.index)
            records = data.records
            if partition is not None and isinstance(records, memoryview):
                needs_inspection = inspection.needs_inspection(records, partition.log.rules, now_ms)
                found += [(partition, data)] if needs_inspection else []
    if found:
        for topic in request.topic_data:
            for data in topic.partition_data:
                keep_records(data)
    return found


def keep_records(data: PartitionProduceData) -> None:
    """They may lie in a buffer that is used again."""
    if isinstance(data.records, memoryview):
        data.records = memoryview(bytearray(data.records))


async def inspect(broker: Broker, waiting: Iterable[tuple[Partition, PartitionProduceData]]) -> Inspections:
    inspected: Inspections = {}
    for partition, data in waiting:
        assert isinstance(data.records, memoryview)
        look = partial(inspection.inspect, data.records, partition.log.rules, broker.runtime.clock.now_ms())
        inspected[id(data)] = await broker.record_work.do(look)
    return inspected


def drop_repeated(request: ProduceRequest) -> None:
    """Of a partition that is named more than once only the last batch stays, as in Kafka."""
    seen: set[tuple[str, bytes, int]] = set()
    total = 0
    for topic in request.topic_data:
        total += len(topic.partition_data)
        seen.update([(topic.name, topic.topic_id, data.index) for data in topic.partition_data])
    if len(seen) == total:
        return
    seen.clear()
    for topic in reversed(request.topic_data):
        kept = []
        for data in reversed(topic.partition_data):
            name = (topic.name, topic.topic_id, data.index)
            if name not in seen:
                seen.add(name)
                kept.append(data)
        topic.partition_data = kept[::-1]
    request.topic_data = [topic for topic in request.topic_data if topic.partition_data]


class Writing:
    """One request on its way into the logs, and its answer."""

    __slots__ = ("_broker", "_commits", "_context", "_deferred", "_failed", "_inspected", "_refused", "_request")

    def __init__(
        self,
        broker: Broker,
        context: RequestContext,
        request: ProduceRequest,
        refused: Refused = NOTHING_REFUSED,
        inspected: Inspections = NOTHING_INSPECTED,
    ) -> None:
        self._broker = broker
        self._context = context
        self._request = request
        self._refused = refused
        self._inspected = inspected
        self._commits: list[tuple[Commit, PartitionProduceResponse]] = []
        self._deferred: list[Deferred] = []
        self._failed = False

    def write(self) -> ProduceResponse | Awaitable[ProduceResponse] | Awaitable[ProduceResponse | None] | None:
        broker, refused = self._broker, self._refused
        topics = []
        by_id = self._context.api_version >= TOPIC_ID_VERSION
        for topic in self._request.topic_data:
            partitions = broker.partitions.topic_by_id(topic.topic_id) if by_id else broker.partitions.topic(topic.name)
            answers: list[PartitionProduceResponse] = []
            for data in topic.partition_data:
                partition = partitions.get(data.index)
                if partition is None:
                    name = topic.topic_id if by_id else topic.name
                    info = AppendInfo.failed(leader_hints.missing(broker.controller.image, name, data.index))
                elif partition.is_internal and self._context.client_id != ADMIN_CLIENT_ID:
                    info = AppendInfo.failed(ErrorCode.INVALID_TOPIC_EXCEPTION)
                elif refused and partition.name in refused:
                    info = refuse(partition, data, refused[partition.name])
                else:
                    info = self._append(partition, data)
                    if info is NEEDS_INSPECTION:
                        keep_records(data)
                        self._deferred.append(Deferred(partition, data, answers, len(answers)))
                        answers.append(answer_for(data.index, info))
                        continue
                answers.append(self._answer(partition, data, info))
            topics.append(TopicProduceResponse(name=topic.name, topic_id=topic.topic_id, partition_responses=answers))
        response = ProduceResponse(responses=topics)
        return self._write_deferred(response) if self._deferred else self._finish(response)

    async def _write_deferred(self, response: ProduceResponse) -> ProduceResponse | None:
        self._inspected = await inspect(self._broker, [(each.partition, each.data) for each in self._deferred])
        for partition, data, answers, number in self._deferred:
            answers[number] = self._answer(partition, data, self._append(partition, data))
        finished = self._finish(response)
        return await finished if isinstance(finished, Awaitable) else finished

    def _append(self, partition: Partition, data: PartitionProduceData) -> AppendInfo:
        request = self._request
        acks = request.acks
        if acks not in ACKS_VALID:
            return AppendInfo.failed(ErrorCode.INVALID_REQUIRED_ACKS)
        records = data.records
        if not records:
            return AppendInfo.failed(ErrorCode.INVALID_RECORD)
        assert isinstance(records, memoryview)
        if len(records) >= HEADER_BYTES:
            attributes = records[ATTRIBUTES_LOW_BYTE]
            if attributes & TRANSACTIONAL_BIT and request.transactional_id is None:
                return AppendInfo.failed(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)  # of no transaction
            if self._context.api_version < ZSTD_SINCE_VERSION and attributes & CODEC_MASK == Codec.ZSTD:
                return AppendInfo.failed(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)
        if self._inspected:
            return partition.append(records, acks, AppendOrigin.CLIENT, self._inspected.get(id(data)))
        return partition.append(records, acks, defers=request.transactional_id is None)

    def _answer(
        self, partition: Partition | None, data: PartitionProduceData, info: AppendInfo
    ) -> PartitionProduceResponse:
        answer = answer_for(data.index, info)
        acks = self._request.acks
        if info.error:
            self._failed = True
        elif partition is not None and acks != ACKS_NONE:
            commit = partition.acknowledged(info.end_offset, acks)
            if commit is not None:
                self._commits.append((commit, answer))
        return answer

    def _finish(self, response: ProduceResponse) -> ProduceResponse | Awaitable[ProduceResponse] | None:
        if self._request.acks == ACKS_NONE:
            if self._failed:
                raise CloseConnection("a write that wants no acknowledgement failed")
            return None
        if self._failed and self._context.api_version >= leader_hints.PRODUCE_HINTS_SINCE_VERSION:
            name_leaders(self._broker, self._context, response)
        if self._commits:
            return CommitWait(response, self._commits, self._request.timeout_ms, self._broker.runtime.clock).future
        return response


def name_leaders(broker: Broker, context: RequestContext, response: ProduceResponse) -> None:
    hints = leader_hints.LeaderHints(broker, context)
    for topic in response.responses:
        for answer in topic.partition_responses:
            if answer.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER:
                hints.give(answer, topic.name or topic.topic_id, answer.index, LeaderIdAndEpoch)
    response.node_endpoints = hints.endpoints(NodeEndpoint)


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

"""TxnOffsetCommit, versions 0 to 5: offsets of a group that count once a transaction is committed.

Its coordinator is asked first whether the group's partition of `__consumer_offsets` belongs to the transaction; from
version 5 on it is added to it (KIP-890). Topics and partitions that do not exist are refused one by one.

Other than Kafka: while the transaction before is ending, a request of version 5 waits a moment before it is told
CONCURRENT_TRANSACTIONS; and where the transaction's coordinator cannot be had, that is COORDINATOR_LOAD_IN_PROGRESS
whatever the reason, for Kafka's NOT_COORDINATOR makes clients look for that of the group.
"""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from typing import TYPE_CHECKING

from barnabas.coordination.outcome import Producer
from barnabas.errors import ErrorCode
from barnabas.metadata.topic_names import OFFSETS_TOPIC
from barnabas.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from barnabas.server.context import RequestContext
from barnabas.server.coordinators import transaction_membership
from barnabas.server.coordinators.group_client import client_of
from barnabas.server.coordinators.transaction_errors import told_to_writer
from barnabas.server.coordinators.transaction_membership import Errors, Membership
from barnabas.server.replicas.verification import has_begun
from barnabas.types import TopicPartition

if TYPE_CHECKING:
    from barnabas.server.broker import Broker
    from barnabas.server.replicas.partition import Partition
    from barnabas.server.replicas.verification import Guard

ABORTABLE_SINCE_VERSION = 4
ADDS_SINCE_VERSION = 5


def handle(
    broker: Broker, context: RequestContext, request: TxnOffsetCommitRequest
) -> TxnOffsetCommitResponse | Awaitable[TxnOffsetCommitResponse]:
    refused = _take_unknown(broker, request)
    if not request.topics:
        return TxnOffsetCommitResponse(topics=refused)
    result = _commit(broker, context, request)
    if not refused:
        return result
    return _merged(refused, result) if isinstance(result, TxnOffsetCommitResponse) else _wait(refused, result)


def _commit(
    broker: Broker, context: RequestContext, request: TxnOffsetCommitRequest
) -> TxnOffsetCommitResponse | Awaitable[TxnOffsetCommitResponse]:
    if not request.group_id:
        return _failed(request, ErrorCode.INVALID_GROUP_ID)
    shard = broker.groups.shard_for(request.group_id)
    if shard is None or shard.error != ErrorCode.NONE:
        return _failed(request, ErrorCode.NOT_COORDINATOR if shard is None else shard.error)
    adds = context.api_version >= ADDS_SINCE_VERSION
    producer = Producer(request.producer_id, request.producer_epoch)
    begun = has_begun(shard.partition.log.producers.get(producer.id), producer)
    if begun or not (adds or broker.config.transaction_partition_verification_enable):
        return _write(broker, context, request)
    guard = shard.partition.verifications.begin(producer, adds=adds)
    membership = Membership(
        request.transactional_id,
        producer,
        [TopicPartition(OFFSETS_TOPIC, shard.partition.name.partition)],
        only_verify=not adds,
    )
    asked = transaction_membership.ask(broker, membership)
    if isinstance(asked, Mapping):
        return _write_verified(broker, context, request, shard.partition, guard, asked)
    return _verify_and_write(broker, context, request, shard.partition, guard, asked)


async def _verify_and_write(
    broker: Broker,
    context: RequestContext,
    request: TxnOffsetCommitRequest,
    partition: Partition,
    guard: Guard,
    asked: Awaitable[Errors],
) -> TxnOffsetCommitResponse:
    written = _write_verified(broker, context, request, partition, guard, await asked)
    return written if isinstance(written, TxnOffsetCommitResponse) else await written


def _write_verified(
    broker: Broker,
    context: RequestContext,
    request: TxnOffsetCommitRequest,
    partition: Partition,
    guard: Guard,
    errors: Errors,
) -> TxnOffsetCommitResponse | Awaitable[TxnOffsetCommitResponse]:
    producer = Producer(request.producer_id, request.producer_epoch)
    late = partition.verifications.end(producer, guard, partition.log.producers.get(producer.id))
    (error,) = errors.values()
    if error != ErrorCode.NONE:
        told = told_to_writer(
            error,
            unreachable=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
            knows_abortable=context.api_version >= ABORTABLE_SINCE_VERSION,
            adds=context.api_version >= ADDS_SINCE_VERSION,
        )
        return _failed(request, told)
    if late != ErrorCode.NONE and partition.is_leader:
        return _failed(request, late)
    return _write(broker, context, request)


def _write(
    broker: Broker, context: RequestContext, request: TxnOffsetCommitRequest
) -> TxnOffsetCommitResponse | Awaitable[TxnOffsetCommitResponse]:
    client = client_of(context)
    return broker.groups.submit(
        request.group_id,
        lambda shard, pending, now: shard.transactional_offset_commit(request, client, pending, now),
        lambda error: _failed(request, error),
    )


def _take_unknown(broker: Broker, request: TxnOffsetCommitRequest) -> list[TxnOffsetCommitResponseTopic]:
    """Leaves in the request what exists, and gives the answers to the rest."""
    image = broker.controller.image
    refused = []
    kept = []
    for topic in request.topics:
        known = [each for each in topic.partitions if image.partition(topic.name, each.partition_index) is not None]
        if len(known) < len(topic.partitions):
            unknown = [each for each in topic.partitions if each not in known]
            absent = TxnOffsetCommitRequestTopic(name=topic.name, partitions=unknown)
            refused.append(_refused(absent, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
            topic.partitions = known
        if known:
            kept.append(topic)
    request.topics = kept
    return refused


def _failed(request: TxnOffsetCommitRequest, error: ErrorCode) -> TxnOffsetCommitResponse:
    return TxnOffsetCommitResponse(topics=[_refused(topic, error) for topic in request.topics])


def _refused(topic: TxnOffsetCommitRequestTopic, error: ErrorCode) -> TxnOffsetCommitResponseTopic:
    return TxnOffsetCommitResponseTopic(
        name=topic.name,
        partitions=[
            TxnOffsetCommitResponsePartition(partition_index=each.partition_index, error_code=error)
            for each in topic.partitions
        ],
    )


async def _wait(
    refused: list[TxnOffsetCommitResponseTopic], result: Awaitable[TxnOffsetCommitResponse]
) -> TxnOffsetCommitResponse:
    return _merged(refused, await result)


def _merged(refused: list[TxnOffsetCommitResponseTopic], response: TxnOffsetCommitResponse) -> TxnOffsetCommitResponse:
    """A topic of which one partition exists and another does not stands in the answer once."""
    topics = {topic.name: topic for topic in refused}
    for topic in response.topics:
        known = topics.setdefault(topic.name, topic)
        if known is not topic:
            known.partitions += topic.partitions
    return TxnOffsetCommitResponse(topics=list(topics.values()))

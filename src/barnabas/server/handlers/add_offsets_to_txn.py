"""AddOffsetsToTxn, versions 0 to 4: the offsets of a group join a transaction, which is to say that the partition of
`__consumer_offsets` does which the group belongs to. From transaction version 2 on TxnOffsetCommit does it by itself.

The first who asks makes `__consumer_offsets`."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING

from barnabas.coordination.outcome import Producer
from barnabas.errors import ErrorCode
from barnabas.metadata.topic_names import OFFSETS_TOPIC
from barnabas.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from barnabas.server import auto_create
from barnabas.server.context import RequestContext
from barnabas.server.coordinators.transaction_errors import told_to_client
from barnabas.types import TopicPartition

if TYPE_CHECKING:
    from barnabas.server.broker import Broker

FENCED_SINCE_VERSION = 2
CLIENT_VERSION = 0  # a producer of transaction version 2 does not send this


def handle(
    broker: Broker, context: RequestContext, request: AddOffsetsToTxnRequest
) -> AddOffsetsToTxnResponse | Awaitable[AddOffsetsToTxnResponse]:
    if OFFSETS_TOPIC not in broker.controller.image.topics_by_name:
        return _create_and_add(broker, context, request)
    return _add(broker, context, request)


async def _create_and_add(
    broker: Broker, context: RequestContext, request: AddOffsetsToTxnRequest
) -> AddOffsetsToTxnResponse:
    await auto_create.create(broker, [OFFSETS_TOPIC])
    if OFFSETS_TOPIC not in broker.controller.image.topics_by_name:
        return AddOffsetsToTxnResponse(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE)
    added = _add(broker, context, request)
    return added if isinstance(added, AddOffsetsToTxnResponse) else await added


def _add(
    broker: Broker, context: RequestContext, request: AddOffsetsToTxnRequest
) -> AddOffsetsToTxnResponse | Awaitable[AddOffsetsToTxnResponse]:
    def failed(error: ErrorCode) -> AddOffsetsToTxnResponse:
        told = told_to_client(error, context.api_version, FENCED_SINCE_VERSION)
        return AddOffsetsToTxnResponse(error_code=told)

    if not request.transactional_id:
        return failed(ErrorCode.INVALID_REQUEST)
    partition = TopicPartition(OFFSETS_TOPIC, broker.groups.partition_for(request.group_id))
    producer = Producer(request.producer_id, request.producer_epoch)
    return broker.transactions.submit(
        request.transactional_id,
        lambda shard, pending, now: shard.add_partitions(
            request.transactional_id, producer, [partition], CLIENT_VERSION, pending, now
        ),
        failed,
    )

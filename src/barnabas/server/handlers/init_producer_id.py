"""InitProducerId, versions 0 to 5: an id for an idempotent producer, whose epoch is 0; for a transactional one the id
that belongs to its transactional id, with an epoch that fences all who had it before. Version 6, which Kafka has not
released, where `unstable.api.versions.enable` is set: transactions that an outside coordinator ends (KIP-939).

Differs from Kafka: a broker that has just started never answers COORDINATOR_LOAD_IN_PROGRESS for want of ids, the
client waits the few milliseconds instead.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING

from barnabas.errors import ErrorCode
from barnabas.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from barnabas.server.context import RequestContext
from barnabas.server.coordinators.transaction_errors import told_to_client
from barnabas.types import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, ProducerId

if TYPE_CHECKING:
    from barnabas.server.broker import Broker

FENCED_SINCE_VERSION = 4


def handle(
    broker: Broker, context: RequestContext, request: InitProducerIdRequest
) -> InitProducerIdResponse | Awaitable[InitProducerIdResponse]:
    has_id = request.producer_id != NO_PRODUCER_ID
    has_epoch = request.producer_epoch != NO_PRODUCER_EPOCH
    if has_id != has_epoch or request.transactional_id == "":
        return _failed(ErrorCode.INVALID_REQUEST)
    if request.transactional_id is not None:
        return _begin(broker, context, request)
    taken = broker.producer_ids.take()
    return _given(taken) if taken is not None else _wait(broker)


async def _wait(broker: Broker) -> InitProducerIdResponse:
    taken = await broker.producer_ids.next()
    return _failed(taken) if isinstance(taken, ErrorCode) else _given(taken)


def _begin(
    broker: Broker, context: RequestContext, request: InitProducerIdRequest
) -> InitProducerIdResponse | Awaitable[InitProducerIdResponse]:
    transactional_id = request.transactional_id or ""
    if not broker.producer_ids.has_any and broker.transactions.shard_for(transactional_id) is not None:
        return _begin_with_ids(broker, context, request)

    def failed(error: ErrorCode) -> InitProducerIdResponse:
        return _failed(told_to_client(error, context.api_version, FENCED_SINCE_VERSION))

    return broker.transactions.submit(
        transactional_id,
        lambda shard, pending, now: shard.init_producer_id(request, pending, now),
        failed,
    )


async def _begin_with_ids(
    broker: Broker, context: RequestContext, request: InitProducerIdRequest
) -> InitProducerIdResponse:
    error = await broker.producer_ids.refill()
    if error != ErrorCode.NONE:
        return _failed(error)
    begun = _begin(broker, context, request)
    return begun if isinstance(begun, InitProducerIdResponse) else await begun


def _given(producer_id: ProducerId) -> InitProducerIdResponse:
    return InitProducerIdResponse(producer_id=producer_id, producer_epoch=0)


def _failed(error: ErrorCode) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=error, producer_id=NO_PRODUCER_ID, producer_epoch=NO_PRODUCER_EPOCH)

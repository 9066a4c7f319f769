"""InitProducerId, versions 0 to 5, for idempotent producers: a new producer id with epoch 0.

A producer that already has an id gets a new one as well, as in Kafka: only transactions keep one.
A transactional id is answered NOT_COORDINATOR as by a Kafka broker that does not lead its partition of
`__transaction_state`; an empty one is INVALID_REQUEST.
Differs from Kafka: where no block of ids can be had, the error is COORDINATOR_NOT_AVAILABLE; a broker that has just
started never answers COORDINATOR_LOAD_IN_PROGRESS, the client waits the few milliseconds instead.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING

from barnabas.errors import ErrorCode
from barnabas.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from barnabas.server.context import RequestContext
from barnabas.types import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, ProducerId

if TYPE_CHECKING:
    from barnabas.server.broker import Broker


def handle(
    broker: Broker, context: RequestContext, request: InitProducerIdRequest
) -> InitProducerIdResponse | Awaitable[InitProducerIdResponse]:
    has_id = request.producer_id != NO_PRODUCER_ID
    has_epoch = request.producer_epoch != NO_PRODUCER_EPOCH
    if has_id != has_epoch or request.transactional_id == "":
        return _failed(ErrorCode.INVALID_REQUEST)
    if request.transactional_id is not None:
        return _failed(ErrorCode.NOT_COORDINATOR)
    taken = broker.producer_ids.take()
    return _given(taken) if taken is not None else _wait(broker)


async def _wait(broker: Broker) -> InitProducerIdResponse:
    taken = await broker.producer_ids.next()
    return _failed(taken) if isinstance(taken, ErrorCode) else _given(taken)


def _given(producer_id: ProducerId) -> InitProducerIdResponse:
    return InitProducerIdResponse(producer_id=producer_id, producer_epoch=0)


def _failed(error: ErrorCode) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=error, producer_id=NO_PRODUCER_ID, producer_epoch=NO_PRODUCER_EPOCH)

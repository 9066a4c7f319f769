"""AllocateProducerIds, version 0, on listeners of controllers: a broker gets a block of producer ids to give out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.controller import producer_ids
from barnabas.controller.decision import Refusal
from barnabas.controller.producer_ids import ProducerIdBlock
from barnabas.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from barnabas.server.context import RequestContext

if TYPE_CHECKING:
    from barnabas.server.broker import Broker


async def handle(
    broker: Broker, context: RequestContext, request: AllocateProducerIdsRequest
) -> AllocateProducerIdsResponse:
    block: ProducerIdBlock | Refusal = await broker.controller.respond(
        lambda image, _offset: producer_ids.allocate(image, request.broker_id, request.broker_epoch), Refusal
    )
    if isinstance(block, Refusal):
        return AllocateProducerIdsResponse(error_code=block.error)
    return AllocateProducerIdsResponse(producer_id_start=block.first, producer_id_len=block.end - block.first)

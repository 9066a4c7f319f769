"""UnregisterBroker, version 0: a broker that will not come back is forgotten.

As in Kafka, one that is alive can be unregistered too: it then leads nothing until it registers again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.controller import lifecycle
from barnabas.controller.decision import Decision, Refusal
from barnabas.controller.electorate import Electorate
from barnabas.errors import ErrorCode
from barnabas.metadata.image import MetadataImage
from barnabas.protocol.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse
from barnabas.server.context import RequestContext
from barnabas.types import Offset

if TYPE_CHECKING:
    from barnabas.server.broker import Broker


async def handle(broker: Broker, context: RequestContext, request: UnregisterBrokerRequest) -> UnregisterBrokerResponse:
    def decide(image: MetadataImage, _offset: Offset) -> Decision[Refusal | None]:
        electorate = Electorate(image, broker.static_config)
        return lifecycle.unregister_broker(electorate, broker.controller.sessions, request.broker_id)

    refusal = await broker.controller.respond(decide, Refusal) or Refusal(ErrorCode.NONE)
    return UnregisterBrokerResponse(error_code=refusal.error, error_message=refusal.message)

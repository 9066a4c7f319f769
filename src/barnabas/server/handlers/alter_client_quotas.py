"""AlterClientQuotas, versions 0 and 1: quotas are written down. The rules are in `controller.quotas`.

Differs from Kafka: quotas are kept and told, and no client is held to them.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING

from barnabas.controller import quotas
from barnabas.controller.decision import Refusal
from barnabas.protocol.messages.alter_client_quotas import AlterClientQuotasRequest, AlterClientQuotasResponse
from barnabas.server.context import RequestContext

if TYPE_CHECKING:
    from barnabas.server.broker import Broker


def handle(
    broker: Broker, context: RequestContext, request: AlterClientQuotasRequest
) -> Awaitable[AlterClientQuotasResponse]:
    return broker.controller.respond(
        lambda image, _offset: quotas.alter_client_quotas(image, request),
        lambda error: quotas.refused(request, Refusal(error)),
    )

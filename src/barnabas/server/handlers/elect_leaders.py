"""ElectLeaders, versions 0 to 2: preferred leaders lead again, or, from version 1 on, unclean ones where nobody leads.

The rules are in `controller.elections`. Version 0 knows preferred elections only.
Differs from Kafka: `timeout_ms` is not looked at, because a decision is either committed at once or fails.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING

from barnabas.controller import elections
from barnabas.controller.decision import Refusal
from barnabas.controller.electorate import Electorate
from barnabas.protocol.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse
from barnabas.server.context import RequestContext

if TYPE_CHECKING:
    from barnabas.server.broker import Broker


def handle(broker: Broker, context: RequestContext, request: ElectLeadersRequest) -> Awaitable[ElectLeadersResponse]:
    return broker.controller.respond(
        lambda image, _offset: elections.elect_leaders(Electorate(image, broker.static_config), request),
        lambda error: elections.refused(request, Refusal(error)),
    )

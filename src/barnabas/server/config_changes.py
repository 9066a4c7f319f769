"""Changes of configs carried out: levels of loggers here, everything else by the controller, wherever that is.

A broker answers for its own settings and loggers only, as in Kafka, and the controller for everybody's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from barnabas.controller import configs
from barnabas.controller.configs import Alteration
from barnabas.controller.decision import Decision, Refusal
from barnabas.errors import ErrorCode
from barnabas.metadata.image import MetadataImage, ResourceType
from barnabas.server import loggers
from barnabas.server.context import ListenerKind, RequestContext
from barnabas.types import Offset

if TYPE_CHECKING:
    from barnabas.server.broker import Broker

Outcomes = list[Refusal | None]  # None: done


async def alter(broker: Broker, context: RequestContext, request: Any, alterations: list[Alteration]) -> Outcomes:
    """What became of each alteration, in their order, which is that of the request's resources."""
    is_forwarded = context.listener is ListenerKind.CONTROLLERS
    outcomes = configs.check_form(alterations, None if is_forwarded else broker.node_id)
    for_controller: list[int] = []
    for index, alteration in enumerate(alterations):
        if outcomes[index] is not None:
            continue
        if alteration.resource.type == ResourceType.BROKER_LOGGER:
            outcomes[index] = loggers.alter(alteration.edits, validate_only=request.validate_only)
        else:
            for_controller.append(index)
    if for_controller:
        if is_forwarded or broker.controller.quorum.is_leader:
            decided = await _decide(broker, [alterations[index] for index in for_controller], request.validate_only)
        else:
            resources = [request.resources[index] for index in for_controller]
            decided = await _forward(broker, context, request, resources)
        for index, outcome in zip(for_controller, decided, strict=True):
            outcomes[index] = outcome
    return outcomes


async def _decide(broker: Broker, alterations: list[Alteration], validate_only: bool) -> Outcomes:
    def decide(image: MetadataImage, _offset: Offset) -> Decision[Outcomes]:
        decision = configs.alter(image, alterations, broker.static_config)
        return Decision([], decision.response) if validate_only else decision

    return await broker.controller.respond(decide, lambda error: [Refusal(error)] * len(alterations))


async def _forward(broker: Broker, context: RequestContext, request: Any, resources: list[Any]) -> Outcomes:
    forwarded = type(request)(resources=resources, validate_only=request.validate_only)
    answer = await broker.controller_channel.forward(context, forwarded)
    return [
        None if each.error_code == ErrorCode.NONE else Refusal(ErrorCode(each.error_code), each.error_message)
        for each in answer.responses
    ]

"""Changes of configs carried out: levels of loggers here, everything else by the controller."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.controller import configs
from barnabas.controller.configs import Alteration
from barnabas.controller.decision import Decision, Refusal
from barnabas.errors import ErrorCode
from barnabas.metadata.image import MetadataImage, ResourceType
from barnabas.server import loggers
from barnabas.types import Offset

if TYPE_CHECKING:
    from barnabas.server.broker import Broker

Outcomes = list[Refusal | None]  # None: done


async def alter(broker: Broker, alterations: list[Alteration], *, validate_only: bool) -> Outcomes:
    """What became of each alteration, in their order."""
    outcomes = configs.check_form(alterations, broker.node_id)
    for_controller: list[int] = []
    for index, alteration in enumerate(alterations):
        if outcomes[index] is not None:
            continue
        if alteration.resource.type == ResourceType.BROKER_LOGGER:
            outcomes[index] = loggers.alter(alteration.edits, validate_only=validate_only)
        else:
            for_controller.append(index)

    def decide(image: MetadataImage, _offset: Offset) -> Decision[Outcomes]:
        decision = configs.alter(image, [alterations[index] for index in for_controller], broker.static_config)
        return Decision([], decision.response) if validate_only else decision

    def failed(error: ErrorCode) -> Outcomes:
        return [Refusal(error)] * len(for_controller)

    if for_controller:
        decided: Outcomes = await broker.controller.respond(decide, failed)
        for index, outcome in zip(for_controller, decided, strict=True):
            outcomes[index] = outcome
    return outcomes

"""UpdateFeatures, versions 0 to 2: feature levels of the cluster. The rules are in `controller.feature_updates`.

`kraft.version` is raised last, where all the others could be: the quorum's records are not those of a decision.
Version 0 can only raise levels, in spite of its `allow_downgrade`, as in Kafka 4.
Differs from Kafka: `timeout_ms` is not looked at, because a decision is either committed at once or fails.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.controller import feature_updates
from barnabas.controller.features import KRAFT_VERSION
from barnabas.errors import ErrorCode
from barnabas.protocol.messages.update_features import UpdateFeaturesRequest, UpdateFeaturesResponse
from barnabas.server.context import RequestContext

if TYPE_CHECKING:
    from barnabas.server.broker import Broker


async def handle(broker: Broker, context: RequestContext, request: UpdateFeaturesRequest) -> UpdateFeaturesResponse:
    controller = broker.controller
    kraft_version = controller.quorum.voter_history.kraft_version
    asked = {update.feature: update.max_version_level for update in request.feature_updates}.get(KRAFT_VERSION, 0)
    refusal = controller.voter_changes.upgrade_refused() if asked > kraft_version else None
    if refusal is not None:
        return UpdateFeaturesResponse(error_code=refusal.error, error_message=refusal.message)
    response = await controller.respond(
        lambda image, _offset: feature_updates.update_features(image, kraft_version, request, broker.static_config),
        lambda error: UpdateFeaturesResponse(error_code=error, error_message=None),
    )
    if response.error_code == ErrorCode.NONE and asked > kraft_version and not request.validate_only:
        refusal = await controller.voter_changes.upgrade(asked)
        if refusal.error != ErrorCode.NONE:
            return UpdateFeaturesResponse(error_code=refusal.error, error_message=refusal.message)
    return response

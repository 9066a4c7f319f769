"""UpdateFeatures, versions 0 to 2: feature levels of the cluster. The rules are in `controller.feature_updates`.

Version 0 can only raise levels, in spite of its `allow_downgrade`, as in Kafka 4.
Differs from Kafka: `timeout_ms` is not looked at, because a decision is either committed at once or fails.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING

from barnabas.controller import feature_updates
from barnabas.protocol.messages.update_features import UpdateFeaturesRequest, UpdateFeaturesResponse
from barnabas.server.context import RequestContext

if TYPE_CHECKING:
    from barnabas.server.broker import Broker


def handle(
    broker: Broker, context: RequestContext, request: UpdateFeaturesRequest
) -> Awaitable[UpdateFeaturesResponse]:
    return broker.controller.respond(
        lambda image, _offset: feature_updates.update_features(image, request, broker.static_config),
        lambda error: UpdateFeaturesResponse(error_code=error, error_message=None),
    )

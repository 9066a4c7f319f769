"""ApiVersions, versions 0 to 4: which APIs are served at which versions, and the cluster's feature levels.

A version that is not known gets version 0's answer with UNSUPPORTED_VERSION (see `server.dispatch`).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from barnabas.controller import features
from barnabas.errors import ErrorCode
from barnabas.protocol import apis
from barnabas.protocol.apis import ApiKey
from barnabas.protocol.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)
from barnabas.server.context import ListenerKind, RequestContext
from barnabas.server.dispatch import served_on

if TYPE_CHECKING:
    from barnabas.server.broker import Broker

LEVEL_ZERO_SINCE_VERSION = 4  # clients before it take a lowest level of 0 for malformed
SOFTWARE_NAME_SINCE_VERSION = 3
SOFTWARE_NAME = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


def handle(broker: Broker, context: RequestContext, request: ApiVersionsRequest) -> ApiVersionsResponse:
    if context.api_version >= SOFTWARE_NAME_SINCE_VERSION and not (
        SOFTWARE_NAME.fullmatch(request.client_software_name)
        and SOFTWARE_NAME.fullmatch(request.client_software_version)
    ):
        return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST)
    image = broker.controller.image
    return ApiVersionsResponse(
        api_keys=served(context.listener, unstable=broker.config.unstable_api_versions_enable),
        supported_features=[
            SupportedFeatureKey(name=feature.name, min_version=feature.min_version, max_version=feature.max_version)
            for feature in features.SUPPORTED
            if feature.min_version > 0 or context.api_version >= LEVEL_ZERO_SINCE_VERSION
        ],
        finalized_features_epoch=image.offset,
        finalized_features=[
            FinalizedFeatureKey(name=name, max_version_level=level, min_version_level=level)
            for name, level in {**image.features, **quorum_features(broker)}.items()
        ],
    )


def quorum_features(broker: Broker) -> dict[str, int]:
    """The level that stands in control records of the quorum, not in the image; level 0 is not named."""
    level = broker.controller.quorum.voter_history.kraft_version
    return {features.KRAFT_VERSION: level} if level > 0 else {}


def unsupported_version() -> ApiVersionsResponse:
    """As Kafka: only of itself does it say which versions may be asked for instead."""
    lowest, highest = apis.advertised_versions(ApiKey.API_VERSIONS)
    known = ApiVersion(api_key=ApiKey.API_VERSIONS, min_version=lowest, max_version=highest)
    return ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=[known])


def served(listener: ListenerKind, *, unstable: bool) -> list[ApiVersion]:
    """There is no receiver of client metrics here, so the APIs for them are not named."""
    keys = [key for key in served_on(listener) if key not in apis.ADVERTISED_WITH_TELEMETRY_ONLY]
    ranges = ((key, *apis.advertised_versions(key, unstable=unstable)) for key in keys)
    return [ApiVersion(api_key=key, min_version=lowest, max_version=highest) for key, lowest, highest in ranges]

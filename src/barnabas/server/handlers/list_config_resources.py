"""ListConfigResources, versions 0 to 1: names of what has configs. Version 0 lists client metrics alone (KIP-1142).

Topics, brokers and loggers are listed whether or not anything is set on them; client metrics and groups only where
something is. No type named means all; an unknown type is UNSUPPORTED_VERSION, as in Kafka.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.errors import ErrorCode
from barnabas.metadata.image import MetadataImage, ResourceType
from barnabas.protocol.messages.list_config_resources import (
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)
from barnabas.server.context import RequestContext

if TYPE_CHECKING:
    from barnabas.server.broker import Broker


def handle(broker: Broker, context: RequestContext, request: ListConfigResourcesRequest) -> ListConfigResourcesResponse:
    types = list(dict.fromkeys(request.resource_types))
    if context.api_version == 0:
        types = [ResourceType.CLIENT_METRICS]
    elif not types:
        types = list(ResourceType)
    if any(each not in tuple(ResourceType) for each in types):
        return ListConfigResourcesResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    image = broker.controller.image
    return ListConfigResourcesResponse(
        config_resources=[
            ConfigResource(resource_type=each, resource_name=name) for each in types for name in _names(image, each)
        ]
    )


def _names(image: MetadataImage, resource_type: int) -> list[str]:
    match resource_type:
        case ResourceType.TOPIC:
            return list(image.topics_by_name)
        case ResourceType.BROKER | ResourceType.BROKER_LOGGER:
            return [str(broker_id) for broker_id in image.brokers]
        case _:
            return [resource.name for resource in image.configs if resource.type == resource_type]

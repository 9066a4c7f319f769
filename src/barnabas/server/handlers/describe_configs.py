"""DescribeConfigs, versions 1 to 4: settings of topics, this broker, all brokers, loggers, client metrics and groups,
each with its source, synonyms and help.

Another broker's settings are INVALID_REQUEST: it must be asked itself.
Differs from Kafka: broker settings that have no effect in Barnabas are not shown; `listeners` and
`listener.security.protocol.map` are read-only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.config import describe
from barnabas.config.describe import UNKNOWN_TYPE, BrokerLayers, ConfigSource, Entry
from barnabas.controller.decision import Refusal
from barnabas.errors import ErrorCode
from barnabas.metadata import topic_names
from barnabas.metadata.image import ResourceType
from barnabas.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)
from barnabas.server import loggers
from barnabas.server.config_description import broker_layers
from barnabas.server.context import RequestContext

if TYPE_CHECKING:
    from barnabas.server.broker import Broker


def handle(broker: Broker, context: RequestContext, request: DescribeConfigsRequest) -> DescribeConfigsResponse:
    layers = broker_layers(broker)
    return DescribeConfigsResponse(
        results=[_result(broker, layers, request, resource) for resource in request.resources]
    )


def _result(
    broker: Broker, layers: BrokerLayers, request: DescribeConfigsRequest, resource: DescribeConfigsResource
) -> DescribeConfigsResult:
    found = _entries(broker, layers, resource.resource_type, resource.resource_name)
    if isinstance(found, Refusal):
        return DescribeConfigsResult(
            error_code=found.error,
            error_message=found.message,
            resource_type=resource.resource_type,
            resource_name=resource.resource_name,
        )
    asked = resource.configuration_keys  # none named means all, whether the list is null or empty
    entries = [entry for entry in found if entry.name in asked] if asked else found
    return DescribeConfigsResult(
        error_message=None,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
        configs=[_row(request, entry) for entry in entries],
    )


def _entries(broker: Broker, layers: BrokerLayers, resource_type: int, name: str) -> list[Entry] | Refusal:
    match resource_type:
        case ResourceType.TOPIC:
            return _topic(broker, layers, name)
        case ResourceType.BROKER if not name:
            return describe.cluster_entries(layers.cluster)
        case ResourceType.BROKER:
            return _check_node(broker, name) or describe.broker_entries(layers)
        case ResourceType.BROKER_LOGGER:
            return _check_node(broker, name) or _loggers()
        case ResourceType.CLIENT_METRICS:
            overrides = broker.controller.image.config(ResourceType.CLIENT_METRICS, name)
            return _check_named(name) or describe.client_metrics_entries(overrides)
        case ResourceType.GROUP:
            overrides = broker.controller.image.config(ResourceType.GROUP, name)
            return _check_named(name) or describe.group_entries(overrides, layers)
        case unsupported:
            return Refusal(ErrorCode.INVALID_REQUEST, f"Resources of type {unsupported} have no configs.")


def _topic(broker: Broker, layers: BrokerLayers, name: str) -> list[Entry] | Refusal:
    fault = topic_names.fault(name)
    if fault is not None:
        return Refusal(ErrorCode.INVALID_TOPIC_EXCEPTION, f"The topic name {fault}.")
    image = broker.controller.image
    if name not in image.topics_by_name:
        return Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    return describe.topic_entries(image.config(ResourceType.TOPIC, name), layers)


def _loggers() -> list[Entry]:
    source = ConfigSource.DYNAMIC_BROKER_LOGGER_CONFIG
    return [
        Entry(name, level, source, UNKNOWN_TYPE, False, False, (), None) for name, level in loggers.levels().items()
    ]


def _check_node(broker: Broker, name: str) -> Refusal | None:
    if name != str(broker.node_id):
        return Refusal(ErrorCode.INVALID_REQUEST, f"This is broker {broker.node_id}; ask broker {name!r} itself.")
    return None


def _check_named(name: str) -> Refusal | None:
    return None if name else Refusal(ErrorCode.INVALID_REQUEST, "The resource must be named.")


def _row(request: DescribeConfigsRequest, entry: Entry) -> DescribeConfigsResourceResult:
    synonyms = entry.synonyms if request.include_synonyms else ()
    return DescribeConfigsResourceResult(
        name=entry.name,
        value=entry.value,
        read_only=entry.read_only,
        config_source=entry.source,
        is_sensitive=entry.sensitive,
        synonyms=[DescribeConfigsSynonym(name=each.name, value=each.value, source=each.source) for each in synonyms],
        config_type=entry.type,
        documentation=entry.help if request.include_documentation else None,
    )

"""The configs of this broker and its topics, in the forms in which responses carry them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from barnabas.config.describe import BrokerLayers, topic_entries
from barnabas.controller.configs import CLUSTER_DEFAULT
from barnabas.metadata.image import ResourceType
from barnabas.protocol.messages.create_topics import CreatableTopicConfigs

if TYPE_CHECKING:
    from barnabas.server.broker import Broker


def broker_layers(broker: Broker) -> BrokerLayers:
    image = broker.controller.image
    return BrokerLayers(
        broker=image.config(ResourceType.BROKER, str(broker.node_id)),
        cluster=image.config(ResourceType.BROKER, CLUSTER_DEFAULT),
        static=broker.static_config,
    )


def creatable_topic_configs(broker: Broker, overrides: Mapping[str, str]) -> list[CreatableTopicConfigs]:
    """All configs of a topic that is created with these."""
    return [
        CreatableTopicConfigs(
            name=entry.name,
            value=entry.value,
            read_only=entry.read_only,
            config_source=entry.source,
            is_sensitive=entry.sensitive,
        )
        for entry in topic_entries(overrides, broker_layers(broker))
    ]

"""What was set for this broker, layer by layer, as `config.describe` wants it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.config.describe import BrokerLayers
from barnabas.controller.configs import CLUSTER_DEFAULT
from barnabas.metadata.image import ResourceType

if TYPE_CHECKING:
    from barnabas.server.broker import Broker


def broker_layers(broker: Broker) -> BrokerLayers:
    image = broker.controller.image
    return BrokerLayers(
        broker=image.config(ResourceType.BROKER, str(broker.node_id)),
        cluster=image.config(ResourceType.BROKER, CLUSTER_DEFAULT),
        static=broker.static_config,
    )

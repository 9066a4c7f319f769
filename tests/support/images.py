"""Images of small clusters for tests of the controller's rules."""

from collections.abc import Mapping
from random import Random
from typing import Any

from barnabas.config.broker import BrokerConfig
from barnabas.controller.placement import ReplicaPlacer
from barnabas.controller.topics import TopicRules
from barnabas.metadata.apply import apply
from barnabas.metadata.ids import new_uuid
from barnabas.metadata.image import EMPTY, BrokerImage, Endpoint, MetadataImage


def broker(broker_id: int, *, rack: str | None = None, fenced: bool = False, **fields: Any) -> BrokerImage:
    described = BrokerImage(
        id=broker_id,
        epoch=broker_id * 10,
        incarnation_id=bytes([broker_id]) * 16,
        endpoints=(Endpoint("PLAINTEXT", f"host-{broker_id}", 9092, 0),),
        features={},
        rack=rack,
        fenced=fenced,
        in_controlled_shutdown=False,
        directories=(directory_of(broker_id),),
    )
    return described._replace(**fields)


def directory_of(broker_id: int) -> bytes:
    return b"directory" + bytes([broker_id]) * 7


def cluster(*brokers: BrokerImage) -> MetadataImage:
    return EMPTY._replace(brokers={each.id: each for each in brokers or (broker(1),)})


def after(image: MetadataImage, records: Any) -> MetadataImage:
    """What the image becomes when a decision is carried out."""
    return apply(image, records, offset=image.offset + len(records))[0]


def rules(overrides: Mapping[str, str] | None = None, *, describes: bool = False, seed: int = 1) -> TopicRules:
    random = Random(seed)
    return TopicRules(
        static_config=BrokerConfig(overrides or {}),
        placer=ReplicaPlacer(random),
        new_topic_id=lambda: new_uuid(random),
        describes=describes,
    )

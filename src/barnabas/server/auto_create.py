"""Topics made because somebody asked for them: by clients through Metadata, and the coordinators' own topics.

Always holds: a topic asked for by many at once is created once; the rest find it there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.controller import topics
from barnabas.controller.topics import TopicRules
from barnabas.metadata.ids import new_uuid
from barnabas.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from barnabas.server.metadata_log import MetadataUnavailable

if TYPE_CHECKING:
    from barnabas.server.broker import Broker


async def create(broker: Broker, names: list[str]) -> None:
    """Creates what can be created. What cannot, is not there afterwards either: the caller looks again."""
    request = CreateTopicsRequest(
        topics=[CreatableTopic(name=name, num_partitions=-1, replication_factor=-1) for name in names]
    )
    rules = topic_rules(broker, describes=False)
    try:
        await broker.controller.submit(lambda image, _offset: topics.create_topics(image, request, rules))
    except MetadataUnavailable:
        return  # logged where it happened; the client asks again


def topic_rules(broker: Broker, *, describes: bool) -> TopicRules:
    random = broker.runtime.random
    return TopicRules(
        static_config=broker.static_config,
        placer=broker.controller.placer,
        new_topic_id=lambda: new_uuid(random),
        describes=describes,
    )

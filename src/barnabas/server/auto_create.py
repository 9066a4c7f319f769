"""Topics made because somebody asked for them: by clients through Metadata, and the coordinators' own topics.

Always holds: a topic asked for by many at once is created once; the rest find it there.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from barnabas.client.connection import ConnectionLost
from barnabas.controller import topics
from barnabas.controller.topics import TopicRules
from barnabas.errors import ErrorCode
from barnabas.metadata.ids import new_uuid
from barnabas.metadata.topic_names import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from barnabas.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from barnabas.server.metadata_log import MetadataUnavailable

if TYPE_CHECKING:
    from barnabas.server.broker import Broker

logger = logging.getLogger(__name__)

PURPOSE = "forward"
AS_SET = -1  # by num.partitions and default.replication.factor


async def create(broker: Broker, names: list[str]) -> None:
    """Creates what can be created. What cannot, is not there afterwards either: the caller looks again."""
    request = CreateTopicsRequest(topics=[_topic(broker, name) for name in names])
    if not broker.controller.quorum.is_leader:
        await _forward(broker, request)
        return
    rules = topic_rules(broker, describes=False)
    try:
        response = await broker.controller.submit(lambda image, _offset: topics.create_topics(image, request, rules))
    except MetadataUnavailable:
        return  # logged where it happened; the client asks again
    _report(response)


async def _forward(broker: Broker, request: CreateTopicsRequest) -> None:
    """To the active controller. This node hears of the topic a little later, and the client asks until then."""
    try:
        response = await broker.controller_channel.request(request, PURPOSE)
    except ConnectionLost:
        return  # likewise
    _report(response)


def _report(response: CreateTopicsResponse) -> None:
    for result in response.topics:
        if result.error_code not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
            logger.warning("The topic %s cannot be created: %s", result.name, result.error_message)


def _topic(broker: Broker, name: str) -> CreatableTopic:
    config = broker.config
    if name == OFFSETS_TOPIC:
        return CreatableTopic(
            name=name,
            num_partitions=config.offsets_topic_num_partitions,
            replication_factor=config.offsets_topic_replication_factor,
            configs=[
                CreatableTopicConfig(name="cleanup.policy", value="compact"),
                CreatableTopicConfig(name="compression.type", value="producer"),
                CreatableTopicConfig(name="segment.bytes", value=str(config.offsets_topic_segment_bytes)),
            ],
        )
    if name == TRANSACTIONS_TOPIC:
        return CreatableTopic(
            name=name,
            num_partitions=config.transaction_state_log_num_partitions,
            replication_factor=config.transaction_state_log_replication_factor,
            configs=[
                CreatableTopicConfig(name="cleanup.policy", value="compact"),
                CreatableTopicConfig(name="compression.type", value="uncompressed"),
                CreatableTopicConfig(name="min.insync.replicas", value=str(config.transaction_state_log_min_isr)),
                CreatableTopicConfig(name="segment.bytes", value=str(config.transaction_state_log_segment_bytes)),
                CreatableTopicConfig(name="unclean.leader.election.enable", value="false"),
            ],
        )
    return CreatableTopic(name=name, num_partitions=AS_SET, replication_factor=AS_SET)


def topic_rules(broker: Broker, *, describes: bool) -> TopicRules:
    random = broker.runtime.random
    return TopicRules(
        static_config=broker.static_config,
        placer=broker.controller.placer,
        new_topic_id=lambda: new_uuid(random),
        describes=describes,
    )

"""Topics made because somebody asked for them: by clients through Metadata, and the coordinators' own topics.

Always holds: a topic asked for by many at once is created once; the rest find it there. The controller creates it,
wherever that is, and this node answers once it knows of it.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from barnabas.client.connection import ConnectionLost
from barnabas.controller.topics import TopicRules
from barnabas.errors import ErrorCode
from barnabas.metadata.ids import new_uuid
from barnabas.metadata.topic_names import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from barnabas.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest

if TYPE_CHECKING:
    from barnabas.server.broker import Broker

logger = logging.getLogger(__name__)

PURPOSE = "auto-create"
KNOWN_MS_MAX = 1000
THERE = (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS)
REFUSALS_LOGGED_MAX = 5  # of one request, which may name a hundred thousand topics
CONTROLLERS_DEFAULT = -1  # by num.partitions and default.replication.factor of the controller


async def create(broker: Broker, names: list[str]) -> None:
    """Creates what can be created. What cannot, is not there afterwards either: the caller looks again."""
    request = CreateTopicsRequest(topics=[_topic(broker, name) for name in names])
    try:
        response = await broker.controller_channel.request(request, PURPOSE)
    except ConnectionLost as error:
        logger.info("The controller cannot be asked to create topics now: %s", error)
        return  # the client asks again
    refused = [result for result in response.topics if result.error_code not in THERE]
    for result in refused[:REFUSALS_LOGGED_MAX]:
        logger.warning("The topic %s cannot be created: %s", result.name, result.error_message)
    if len(refused) > REFUSALS_LOGGED_MAX:
        logger.warning("%d more topics of that request cannot be created", len(refused) - REFUSALS_LOGGED_MAX)
    await _known(broker, [result.name for result in response.topics if result.error_code in THERE])


async def _known(broker: Broker, names: list[str]) -> None:
    """This node hears of a topic a little after the controller has it."""
    deadline_ms = broker.runtime.clock.monotonic_ms() + KNOWN_MS_MAX
    while any(name not in broker.controller.image.topics_by_name for name in names):
        left_ms = deadline_ms - broker.runtime.clock.monotonic_ms()
        if left_ms <= 0:
            return
        await asyncio.wait([broker.controller.quorum.news()], timeout=left_ms / 1000)


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
    # What the broker's own file says counts; what it leaves out, the controller knows.
    static = broker.static_config
    is_set = static.overrides.__contains__
    return CreatableTopic(
        name=name,
        num_partitions=static.num_partitions if is_set("num.partitions") else CONTROLLERS_DEFAULT,
        replication_factor=(
            static.default_replication_factor if is_set("default.replication.factor") else CONTROLLERS_DEFAULT
        ),
    )


def topic_rules(broker: Broker, *, describes: bool) -> TopicRules:
    random = broker.runtime.random
    return TopicRules(
        static_config=broker.static_config,
        placer=broker.controller.placer,
        new_topic_id=lambda: new_uuid(random),
        describes=describes,
    )

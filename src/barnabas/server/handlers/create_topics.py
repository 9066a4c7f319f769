"""CreateTopics, versions 2 to 7. The rules are in `controller.topics`.

Differs from Kafka: `timeout_ms` is not looked at, because a decision is either committed at once or fails.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING

from barnabas.controller import topics
from barnabas.errors import ErrorCode
from barnabas.protocol.messages.create_topics import CreatableTopicResult, CreateTopicsRequest, CreateTopicsResponse
from barnabas.server.auto_create import topic_rules
from barnabas.server.context import RequestContext

if TYPE_CHECKING:
    from barnabas.server.broker import Broker

CONFIGS_SINCE_VERSION = 5


def handle(broker: Broker, context: RequestContext, request: CreateTopicsRequest) -> Awaitable[CreateTopicsResponse]:
    rules = topic_rules(broker, describes=context.api_version >= CONFIGS_SINCE_VERSION)

    def failed(error: ErrorCode) -> CreateTopicsResponse:
        return CreateTopicsResponse(
            topics=[CreatableTopicResult(name=topic.name, error_code=error) for topic in request.topics]
        )

    return broker.controller.respond(lambda image, _offset: topics.create_topics(image, request, rules), failed)

"""DeleteTopics, versions 1 to 6; from version 6 on also by id. The rules are in `controller.topics`.

With `delete.topic.enable=false` nothing is deleted: TOPIC_DELETION_DISABLED, before version 3 INVALID_REQUEST.
Differs from Kafka: results come in the order of the request, where Kafka shuffles them; `timeout_ms` is not looked
at, because a decision is either committed at once or fails.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING

from barnabas.controller import topics
from barnabas.errors import ErrorCode
from barnabas.protocol.messages.delete_topics import DeletableTopicResult, DeleteTopicsRequest, DeleteTopicsResponse
from barnabas.server.context import RequestContext
from barnabas.types import ZERO_UUID, Uuid

if TYPE_CHECKING:
    from barnabas.server.broker import Broker

DISABLED_ERROR_SINCE_VERSION = 3


def handle(
    broker: Broker, context: RequestContext, request: DeleteTopicsRequest
) -> DeleteTopicsResponse | Awaitable[DeleteTopicsResponse]:
    def failed(error: ErrorCode) -> DeleteTopicsResponse:
        asked: list[tuple[str | None, Uuid]] = [(name, ZERO_UUID) for name in request.topic_names]
        asked += [(topic.name, topic.topic_id) for topic in request.topics]
        return DeleteTopicsResponse(
            responses=[DeletableTopicResult(name=name, topic_id=topic_id, error_code=error) for name, topic_id in asked]
        )

    if not broker.config.delete_topic_enable:
        named = context.api_version >= DISABLED_ERROR_SINCE_VERSION
        return failed(ErrorCode.TOPIC_DELETION_DISABLED if named else ErrorCode.INVALID_REQUEST)
    return broker.controller.respond(lambda image, _offset: topics.delete_topics(image, request), failed)

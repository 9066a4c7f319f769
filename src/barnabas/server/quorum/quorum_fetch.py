"""Fetch on a listener for controllers: the metadata log, read by the other voters and by observers.

A fetch that finds neither records nor a watermark that the reader does not know yet waits for them.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from barnabas.consensus.messages import FetchPosition, FetchVerdict
from barnabas.errors import ErrorCode
from barnabas.metadata.topic_names import METADATA_TOPIC_ID
from barnabas.protocol.messages.fetch import FetchRequest, FetchResponse
from barnabas.server.quorum import quorum_messages
from barnabas.types import Offset

if TYPE_CHECKING:
    from barnabas.server.broker import Broker


async def handle(broker: Broker, request: FetchRequest) -> FetchResponse:
    if request.cluster_id is not None and request.cluster_id != broker.cluster_id:
        return FetchResponse(error_code=ErrorCode.INCONSISTENT_CLUSTER_ID)
    asked = [(topic.topic_id, each.partition) for topic in request.topics for each in topic.partitions]
    if asked != [(METADATA_TOPIC_ID, 0)]:
        return FetchResponse(error_code=ErrorCode.INVALID_REQUEST)
    position, high_watermark_known = quorum_messages.decode_fetch(request)
    quorum = broker.controller.quorum
    clock = broker.runtime.clock
    deadline_ms = clock.monotonic_ms() + request.max_wait_ms
    while True:
        verdict = quorum.receive_fetch(position)
        wait_ms = deadline_ms - clock.monotonic_ms()
        if wait_ms <= 0 or _has_news(broker, position, verdict, high_watermark_known):
            return _respond(broker, position, verdict, request.max_bytes)
        await asyncio.wait([quorum.news()], timeout=wait_ms / 1000)


def _has_news(broker: Broker, position: FetchPosition, verdict: FetchVerdict, high_watermark_known: Offset) -> bool:
    return (
        verdict.error != ErrorCode.NONE
        or verdict.diverging is not None
        or verdict.snapshot is not None
        or position.offset < broker.controller.log.end_offset
        or verdict.high_watermark > high_watermark_known
    )


def _respond(broker: Broker, position: FetchPosition, verdict: FetchVerdict, size_bytes_max: int) -> FetchResponse:
    log = broker.controller.log
    plain = verdict.error == ErrorCode.NONE and verdict.diverging is None and verdict.snapshot is None
    records = log.read(position.offset, size_bytes_max) if plain else None
    told = () if plain else broker.controller.quorum.leader_endpoint()
    return quorum_messages.fetch_response(verdict, log.start_offset, records or b"", told)

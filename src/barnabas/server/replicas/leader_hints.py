"""What a client that asked the wrong broker is told: which error, who leads, and where to dial (KIP-951)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from barnabas.errors import ErrorCode
from barnabas.metadata.image import MetadataImage, PartitionImage
from barnabas.server import cluster_view
from barnabas.server.context import RequestContext
from barnabas.types import Uuid

if TYPE_CHECKING:
    from barnabas.server.broker import Broker

FETCH_HINTS_SINCE_VERSION = 16
PRODUCE_HINTS_SINCE_VERSION = 10


def missing(image: MetadataImage, topic: str | Uuid, partition: int) -> ErrorCode:
    """Why a partition is not on this broker: another has it, or nobody."""
    if isinstance(topic, str):
        found = image.topics_by_name.get(topic)
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    else:
        found = image.topics_by_id.get(topic)
        unknown = ErrorCode.UNKNOWN_TOPIC_ID
    if found is None:
        return unknown
    return ErrorCode.NOT_LEADER_OR_FOLLOWER if partition in found.partitions else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


class LeaderHints:
    """Collects, while one response is made, the leaders to name in it."""

    def __init__(self, broker: Broker, context: RequestContext) -> None:
        self._broker = broker
        self._context = context
        self._leaders: dict[int, None] = {}

    def give(self, answer: Any, topic: str | Uuid, partition: int, leader_and_epoch: Callable[..., Any]) -> None:
        """`leader_and_epoch` is the message's own class of `answer.current_leader`."""
        state = _partition(self._broker.controller.image, topic, partition)
        if state is not None:
            answer.current_leader = leader_and_epoch(leader_id=state.leader, leader_epoch=state.leader_epoch)
            self._leaders[state.leader] = None

    def endpoints(self, node_endpoint: Callable[..., Any]) -> list[Any]:
        if not self._leaders:
            return []
        return [
            node_endpoint(node_id=node.id, host=node.host, port=node.port, rack=node.rack)
            for node in cluster_view.nodes(self._broker, self._context, self._broker.controller.image)
            if node.id in self._leaders
        ]


def _partition(image: MetadataImage, topic: str | Uuid, partition: int) -> PartitionImage | None:
    found = image.topics_by_name.get(topic) if isinstance(topic, str) else image.topics_by_id.get(topic)
    return None if found is None else found.partitions.get(partition)

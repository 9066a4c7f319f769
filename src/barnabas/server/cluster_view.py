"""The cluster as a client sees it from the connection that it asks on: who is alive, and where to dial them.

Always holds: a fenced broker is not alive, leads nothing, and its replicas are offline.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, NamedTuple

from barnabas.config.endpoints import WILDCARD_HOSTS
from barnabas.metadata.image import (
    DIRECTORY_MIGRATING,
    DIRECTORY_UNASSIGNED,
    BrokerImage,
    MetadataImage,
    PartitionImage,
)
from barnabas.types import BrokerId

if TYPE_CHECKING:
    from barnabas.server.broker import Broker
    from barnabas.server.context import RequestContext

LOOK_AGAIN_SECONDS = 0.02


class Node(NamedTuple):
    id: BrokerId
    host: str
    port: int
    rack: str | None
    fenced: bool


def nodes(broker: Broker, context: RequestContext, image: MetadataImage, *, fenced: bool = False) -> list[Node]:
    """Brokers that are alive, or with `fenced` all that are registered, by id."""
    found = []
    for broker_id in sorted(image.brokers):
        registered = image.brokers[broker_id]
        if registered.fenced and not fenced:
            continue
        host, port = _address(broker, context, registered)
        found.append(Node(broker_id, host, port, registered.rack, registered.fenced))
    return found


def _address(broker: Broker, context: RequestContext, registered: BrokerImage) -> tuple[str, int]:
    """Of the listener that the client dialled here, or else the node's first one. A node without a host in its settings
    listens on every address of its machine: it is told by the host that was dialled here."""
    if registered.id == broker.node_id or not registered.endpoints:
        return broker.advertised(context)
    endpoint = registered.endpoint(broker.listener_name(context)) or registered.endpoints[0]
    host = context.local_address[0] if endpoint.host in WILDCARD_HOSTS else endpoint.host
    return host, endpoint.port


def is_unsettled(broker: Broker) -> bool:
    """Whether a broker that is held to be alive may have died just now, and its successors are about to be named."""
    return any(is_alive(broker.controller.image, node_id) for node_id in broker.peers.in_doubt())


async def settled(broker: Broker) -> None:
    """A client whose connection broke asks at once who leads now. If it is told the dead leader's name again, it may be
    long before it asks once more: so it is better told a little later. Doubts end soon, one way or the other."""
    while is_unsettled(broker):
        await asyncio.wait([broker.controller.quorum.news()], timeout=LOOK_AGAIN_SECONDS)


def is_alive(image: MetadataImage, broker_id: BrokerId) -> bool:
    registered = image.brokers.get(broker_id)
    return registered is not None and not registered.fenced


def offline_replicas(image: MetadataImage, partition: PartitionImage) -> list[BrokerId]:
    """Replicas that cannot serve now: their broker is away, or the directory that they lay in."""
    return [
        replica
        for replica, directory in zip(partition.replicas, partition.directories, strict=True)
        if not is_alive(image, replica) or _is_lost(image.brokers[replica], directory)
    ]


def _is_lost(registered: BrokerImage, directory: bytes) -> bool:
    """Not assigned yet is not lost; a real directory that the broker no longer has is."""
    if directory in (DIRECTORY_UNASSIGNED, DIRECTORY_MIGRATING):
        return False
    return directory not in registered.directories

"""From which replica a consumer had better read (KIP-392): one in its own rack, where `replica.selector.class` says so.

Always holds: only a leader sends a consumer elsewhere, and only to a live replica in sync that has the offset it wants.
"""

from barnabas.metadata.image import MetadataImage
from barnabas.server.replicas.partition import Partition
from barnabas.types import BrokerId, Offset

NOWHERE_ELSE: BrokerId = -1


def preferred(partition: Partition, image: MetadataImage, rack: str, fetch_offset: Offset) -> BrokerId:
    """The one in the rack that is furthest; NOWHERE_ELSE where the leader itself is in it, or nobody."""
    if not partition.is_leader or _rack_of(image, partition.leader_id) == rack:
        return NOWHERE_ELSE
    near = [
        (end_offset, -replica)
        for end_offset, replica in partition.replicas_with(fetch_offset)
        if _rack_of(image, replica) == rack
    ]
    return -max(near)[1] if near else NOWHERE_ELSE


def _rack_of(image: MetadataImage, broker_id: BrokerId) -> str | None:
    broker = image.brokers.get(broker_id)
    return None if broker is None or broker.fenced else broker.rack

"""The sticky assignor for members that go on reading while the group rebalances (KIP-429).

Always holds: a partition that one member still has is given to another only after the first has let go of it: in this
round nobody gets it, and the round that the first one's letting go brings about gives it to its new owner.
User data: generation i32, for leaders that do not know the field of the subscription.
"""

from collections.abc import Sequence
from struct import Struct

from barnabas.client.assignors import sticky
from barnabas.client.assignors.specification import (
    NO_GENERATION,
    NO_RACKS,
    Assignments,
    Assignor,
    Members,
    PartitionCounts,
    ReplicaRacks,
)
from barnabas.types import TopicPartition

_INT32 = Struct(">i")


def assign(partition_counts: PartitionCounts, members: Members, _racks: ReplicaRacks = NO_RACKS) -> Assignments:
    wanted = sticky.assign(partition_counts, members)
    claimed: dict[TopicPartition, dict[str, None]] = {}
    for member_id, member in members.items():
        for partition in member.owned:
            claimed.setdefault(partition, {})[member_id] = None
    return {
        member_id: [each for each in partitions if not _others(claimed.get(each, {}), member_id)]
        for member_id, partitions in wanted.items()
    }


def _others(claiming: dict[str, None], member_id: str) -> bool:
    return any(each != member_id for each in claiming)


def _encode_generation(_owned: Sequence[TopicPartition], generation: int) -> bytes:
    return _INT32.pack(generation)


def _decode_generation(data: bytes) -> tuple[None, int]:
    return None, _INT32.unpack_from(data)[0] if len(data) >= _INT32.size else NO_GENERATION


COOPERATIVE_STICKY = Assignor(
    name="cooperative-sticky",
    is_cooperative=True,
    assign=assign,
    user_data=_encode_generation,
    previously=_decode_generation,
)

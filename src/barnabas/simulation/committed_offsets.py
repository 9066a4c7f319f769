"""What a group has committed, asked once, with what transactions still hold back (KIP-447)."""

from __future__ import annotations

from dataclasses import dataclass

from barnabas.errors import ErrorCode
from barnabas.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from barnabas.simulation.client import Client, ClientConnection, Unavailable
from barnabas.simulation.history import CommittedAsked, CommittedRead, History, PartitionId
from barnabas.simulation.participants import Topic
from barnabas.types import Offset

OFFSET_FETCH_VERSION = 9


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetsQuestion:
    group: str
    member: str
    partition_ids: list[PartitionId]  # all of one topic


async def fetch_committed(
    client: Client, connection: ClientConnection, history: History, topic: Topic, question: OffsetsQuestion
) -> dict[PartitionId, Offset]:
    """-1 where nothing is committed; Unavailable where that cannot be said for all of them."""
    group, member = question.group, question.member
    for partition_id in question.partition_ids:
        history.tell(CommittedAsked(group=group, member=member, partition_id=partition_id))
    indexes = [partition_id.partition for partition_id in question.partition_ids]
    topics = [OffsetFetchRequestTopics(name=topic.name, partition_indexes=indexes)]
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group, topics=topics)], require_stable=True)
    (answer,) = (await client.call(connection, request, OFFSET_FETCH_VERSION)).groups
    if answer.error_code != ErrorCode.NONE:
        raise Unavailable(f"no offsets: {answer.error_code}")
    (found,) = answer.topics
    offsets: dict[PartitionId, Offset] = {}
    for partition in found.partitions:
        if partition.error_code != ErrorCode.NONE:
            raise Unavailable(f"no offset: {partition.error_code}")
        offsets[PartitionId(topic.id, partition.partition_index)] = partition.committed_offset
    for partition_id, offset in offsets.items():
        history.tell(CommittedRead(group=group, member=member, partition_id=partition_id, offset=offset))
    return offsets

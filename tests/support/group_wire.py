"""Requests to a group coordinator over a raw socket, each in one line."""

from __future__ import annotations

import struct
from typing import Any

from broker_process import wait_until
from wire import Wire

from barnabas.protocol.messages.consumer_protocol_subscription import ConsumerProtocolSubscription
from barnabas.protocol.messages.delete_groups import DeleteGroupsRequest
from barnabas.protocol.messages.describe_groups import DescribeGroupsRequest
from barnabas.protocol.messages.find_coordinator import FindCoordinatorRequest
from barnabas.protocol.messages.heartbeat import HeartbeatRequest
from barnabas.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from barnabas.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from barnabas.protocol.messages.list_groups import ListGroupsRequest
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from barnabas.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from barnabas.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from barnabas.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from barnabas.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

JOIN_VERSION = 9
SYNC_VERSION = 5
HEARTBEAT_VERSION = 4
LEAVE_VERSION = 5
COMMIT_VERSION = 9
FETCH_VERSION = 9
MEMBER_ID_REQUIRED = 79
COORDINATOR_LOAD_IN_PROGRESS = 14
COORDINATOR_NOT_AVAILABLE = 15
NOT_COORDINATOR = 16
Protocols = tuple[tuple[str, bytes], ...]
RANGE: Protocols = (("range", b""),)


def subscription(*topics: str) -> bytes:
    out = bytearray(struct.pack(">h", 1))
    ConsumerProtocolSubscription(topics=list(topics)).encode(out, 1)
    return bytes(out)


def find_coordinator(wire: Wire, group: str, version: int = 6, key_type: int = 0) -> Any:
    """Asks until there is one: Kafka makes the topic only when it is first asked."""
    batched = version >= 4
    request = FindCoordinatorRequest(key="" if batched else group, coordinator_keys=[group] if batched else [])
    request.key_type = key_type
    while True:
        response = wire.call(request, version)
        found = response.coordinators[0] if batched else response
        if found.error_code != COORDINATOR_NOT_AVAILABLE:
            return found


def await_coordinator(wire: Wire, group: str) -> None:
    """Kafka needs a moment after it has named itself."""
    find_coordinator(wire, group)
    missing = (COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR)
    wait_until(lambda: describe(wire, group).error_code not in missing, f"{group} has a coordinator")


def join_request(
    group: str,
    member: str = "",
    *,
    instance: str | None = None,
    protocols: Protocols = RANGE,
    protocol_type: str = "consumer",
    session_ms: int = 10_000,
    rebalance_ms: int = 20_000,
) -> JoinGroupRequest:
    return JoinGroupRequest(
        group_id=group,
        session_timeout_ms=session_ms,
        rebalance_timeout_ms=rebalance_ms,
        member_id=member,
        group_instance_id=instance,
        protocol_type=protocol_type,
        protocols=[JoinGroupRequestProtocol(name=name, metadata=metadata) for name, metadata in protocols],
    )


def join(wire: Wire, group: str, member: str = "", *, version: int = JOIN_VERSION, **settings: Any) -> Any:
    """Joins, with the id that it is given where one is required."""
    while True:
        response = wire.call(join_request(group, member, **settings), version)
        if response.error_code != MEMBER_ID_REQUIRED:
            return response
        member = response.member_id


def sync_request(
    group: str,
    member: str,
    generation: int,
    assignments: dict[str, bytes] | None = None,
    *,
    instance: str | None = None,
    protocol_type: str | None = "consumer",
    protocol: str | None = "range",
) -> SyncGroupRequest:
    return SyncGroupRequest(
        group_id=group,
        generation_id=generation,
        member_id=member,
        group_instance_id=instance,
        protocol_type=protocol_type,
        protocol_name=protocol,
        assignments=[
            SyncGroupRequestAssignment(member_id=each, assignment=data) for each, data in (assignments or {}).items()
        ],
    )


def sync(
    wire: Wire, group: str, member: str, generation: int, *words: Any, version: int = SYNC_VERSION, **s: Any
) -> Any:
    return wire.call(sync_request(group, member, generation, *words, **s), version)


def heartbeat(
    wire: Wire, group: str, member: str, generation: int, instance: str | None = None, version: int = HEARTBEAT_VERSION
) -> int:
    request = HeartbeatRequest(group_id=group, generation_id=generation, member_id=member, group_instance_id=instance)
    error: int = wire.call(request, version).error_code
    return error


def leave(wire: Wire, group: str, *members: tuple[str, str | None], version: int = LEAVE_VERSION) -> Any:
    if version < 3:
        return wire.call(LeaveGroupRequest(group_id=group, member_id=members[0][0]), version)
    identities = [MemberIdentity(member_id=member, group_instance_id=instance) for member, instance in members]
    return wire.call(LeaveGroupRequest(group_id=group, members=identities), version)


def topic_id(wire: Wire, topic: str) -> bytes:
    request = MetadataRequest(topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False)
    (found,) = wire.call(request, 12).topics
    return bytes(found.topic_id)


def commit(
    wire: Wire,
    group: str,
    offsets: dict[tuple[str | bytes, int], int],
    *,
    member: str = "",
    generation: int = -1,
    instance: str | None = None,
    metadata: str | None = None,
    leader_epoch: int = -1,
    retention_ms: int = -1,
    version: int = COMMIT_VERSION,
) -> dict[tuple[str | bytes, int], int]:
    """Error codes by topic (a name, or bytes: an id) and partition."""
    topics: dict[str | bytes, OffsetCommitRequestTopic] = {}
    for (topic, partition), offset in offsets.items():
        named = {"topic_id": topic} if isinstance(topic, bytes) else {"name": topic}
        entry = topics.setdefault(topic, OffsetCommitRequestTopic(partitions=[], **named))
        entry.partitions.append(
            OffsetCommitRequestPartition(
                partition_index=partition,
                committed_offset=offset,
                committed_metadata=metadata,
                committed_leader_epoch=leader_epoch,
            )
        )
    request = OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=generation,
        member_id=member,
        group_instance_id=instance,
        retention_time_ms=retention_ms,
        topics=list(topics.values()),
    )
    response = wire.call(request, version)
    return {
        (bytes(topic.topic_id) if version >= 10 else topic.name, each.partition_index): each.error_code
        for topic in response.topics
        for each in topic.partitions
    }


def fetch_group(group: str, topics: dict[str | bytes, list[int]] | None, **who: Any) -> OffsetFetchRequestGroup:
    asked = None
    if topics is not None:
        asked = [
            OffsetFetchRequestTopics(
                partition_indexes=partitions,
                **({"topic_id": topic} if isinstance(topic, bytes) else {"name": topic}),
            )
            for topic, partitions in topics.items()
        ]
    return OffsetFetchRequestGroup(group_id=group, topics=asked, **who)


def fetch(
    wire: Wire,
    group: str,
    topics: dict[str | bytes, list[int]] | None,
    *,
    version: int = FETCH_VERSION,
    require_stable: bool = False,
) -> tuple[int, dict[tuple[str | bytes, int], tuple[int, int, str, int]]]:
    """The group's error, and (offset, leader epoch, metadata, error) by topic and partition."""
    if version >= 8:
        request = OffsetFetchRequest(groups=[fetch_group(group, topics)], require_stable=require_stable)
        answer = wire.call(request, version).groups[0]
    else:
        asked = None
        if topics is not None:
            asked = [
                OffsetFetchRequestTopic(name=str(topic), partition_indexes=partitions)
                for topic, partitions in topics.items()
            ]
        answer = wire.call(OffsetFetchRequest(group_id=group, topics=asked, require_stable=require_stable), version)
    return answer.error_code, {
        (bytes(topic.topic_id) if version >= 10 else topic.name, each.partition_index): (
            each.committed_offset,
            each.committed_leader_epoch,
            each.metadata,
            each.error_code,
        )
        for topic in answer.topics
        for each in topic.partitions
    }


def describe(wire: Wire, group: str, version: int = 6, *, operations: bool = False) -> Any:
    request = DescribeGroupsRequest(groups=[group], include_authorized_operations=operations)
    (found,) = wire.call(request, version).groups
    return found


def listed(
    wire: Wire, group: str, version: int = 5, *, states: tuple[str, ...] = (), types: tuple[str, ...] = ()
) -> Any:
    """The group's entry in the list; None where it is not there."""
    response = wire.call(ListGroupsRequest(states_filter=list(states), types_filter=list(types)), version)
    assert response.error_code == 0
    return next((each for each in response.groups if each.group_id == group), None)


def delete_group(wire: Wire, group: str, version: int = 2) -> int:
    (result,) = wire.call(DeleteGroupsRequest(groups_names=[group]), version).results
    error: int = result.error_code
    return error


def delete_offsets(wire: Wire, group: str, topics: dict[str, list[int]]) -> tuple[int, dict[tuple[str, int], int]]:
    request = OffsetDeleteRequest(
        group_id=group,
        topics=[
            OffsetDeleteRequestTopic(
                name=topic, partitions=[OffsetDeleteRequestPartition(partition_index=index) for index in partitions]
            )
            for topic, partitions in topics.items()
        ],
    )
    response = wire.call(request, 0)
    return response.error_code, {
        (topic.name, each.partition_index): each.error_code for topic in response.topics for each in topic.partitions
    }

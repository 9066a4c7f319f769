"""OffsetCommit, OffsetFetch and OffsetDelete in one shard.

Always holds: whether somebody may commit is the group's to say; whether topics exist was looked at before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.errors import ErrorCode
from barnabas.groups.group import Group
from barnabas.groups.offsets import NO_EXPIRY, CommittedOffset, commit_record, tombstone
from barnabas.groups.outcome import Client, Moment, Outcome, Pending, answer
from barnabas.groups.records import GroupRecord
from barnabas.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from barnabas.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from barnabas.protocol.messages.offset_fetch import (
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from barnabas.types import NO_LEADER_EPOCH, NO_OFFSET, ZERO_UUID

if TYPE_CHECKING:
    from barnabas.groups.shard import GroupShard

DEFAULT_RETENTION_MS = -1
TIMESTAMP_MS_MAX = (1 << 63) - 1
MEMBER_EPOCH_VERSION = 9  # of OffsetCommit


def commit(shard: GroupShard, request: OffsetCommitRequest, client: Client, pending: Pending, now: Moment) -> Outcome:
    error = _check_commit(shard, request, client)
    if error != ErrorCode.NONE:
        return answer(pending, error)
    group = shard.groups.get(request.group_id)
    if group is not None:
        group.offsets_committed(request.member_id, now)
    records: list[GroupRecord] = []
    expire_timestamp_ms = NO_EXPIRY
    if request.retention_time_ms != DEFAULT_RETENTION_MS:
        expire_timestamp_ms = max(min(now.wall_ms + request.retention_time_ms, TIMESTAMP_MS_MAX), 0)
    topics = []
    for topic in request.topics:
        answers = []
        for partition in topic.partitions:
            error = ErrorCode.NONE
            if is_too_long(partition.committed_metadata, shard.surroundings.settings.offset_metadata_bytes_max):
                error = ErrorCode.OFFSET_METADATA_TOO_LARGE
            else:
                records.append(_record(request.group_id, topic, partition, now, expire_timestamp_ms))
            answers.append(OffsetCommitResponsePartition(partition_index=partition.partition_index, error_code=error))
        topics.append(OffsetCommitResponseTopic(name=topic.name, topic_id=topic.topic_id, partitions=answers))
    return answer(pending, OffsetCommitResponse(topics=topics), records)


def _check_commit(shard: GroupShard, request: OffsetCommitRequest, client: Client) -> ErrorCode:
    group = shard.groups.get(request.group_id)
    if group is not None:
        error = group.check_offset_commit(
            member_id=request.member_id,
            instance_id=request.group_instance_id,
            epoch=request.generation_id_or_member_epoch,
            transactional=False,
            api_version=client.api_version,
        )
        return _check_partitions(shard, group, request) if error == ErrorCode.NONE else error
    if request.generation_id_or_member_epoch >= 0:
        newer = client.api_version >= MEMBER_EPOCH_VERSION
        return ErrorCode.GROUP_ID_NOT_FOUND if newer else ErrorCode.ILLEGAL_GENERATION
    return ErrorCode.NONE if shard.surroundings.has_room else ErrorCode.POLICY_VIOLATION


def _check_partitions(shard: GroupShard, group: Group, request: OffsetCommitRequest) -> ErrorCode:
    for topic in request.topics:
        topic_id = topic.topic_id
        if topic_id == ZERO_UUID:  # as in versions that know topics by their names
            known = shard.surroundings.topics.by_name(topic.name)
            topic_id = ZERO_UUID if known is None else known.id
        for partition in topic.partitions:
            error = group.check_partition_commit(
                member_id=request.member_id,
                epoch=request.generation_id_or_member_epoch,
                topic_id=topic_id,
                partition=partition.partition_index,
            )
            if error != ErrorCode.NONE:
                return error
    return ErrorCode.NONE


def is_too_long(metadata: str | None, length_max: int) -> bool:
    """Kafka counts in the units of UTF-16."""
    if metadata is None:
        return False
    if metadata.isascii():
        return len(metadata) > length_max
    return len(metadata.encode("utf-16-le")) > 2 * length_max


def _record(
    group_id: str,
    topic: OffsetCommitRequestTopic,
    partition: OffsetCommitRequestPartition,
    now: Moment,
    expire_timestamp_ms: int,
) -> GroupRecord:
    return commit_record(
        group_id,
        topic.name,
        partition.partition_index,
        offset=partition.committed_offset,
        leader_epoch=partition.committed_leader_epoch,
        metadata=partition.committed_metadata,
        commit_timestamp_ms=now.wall_ms,
        expire_timestamp_ms=expire_timestamp_ms,
        topic_id=topic.topic_id,
    )


def fetch(shard: GroupShard, request: OffsetFetchRequestGroup, *, require_stable: bool) -> OffsetFetchResponseGroup:
    """A group that does not exist has committed nothing, which is no error."""
    response = OffsetFetchResponseGroup(group_id=request.group_id)
    group = shard.groups.get(request.group_id)
    if group is not None:
        response.error_code = group.check_offset_fetch(member_id=request.member_id, epoch=request.member_epoch)
        if response.error_code != ErrorCode.NONE:
            return response
    wanted = _all_topics(shard, request.group_id) if request.topics is None else request.topics
    response.topics = [
        OffsetFetchResponseTopics(
            name=topic.name,
            topic_id=topic.topic_id,
            partitions=[
                _fetched(shard, request.group_id, topic, partition, require_stable=require_stable)
                for partition in topic.partition_indexes
            ],
        )
        for topic in wanted
    ]
    return response


def _all_topics(shard: GroupShard, group_id: str) -> list[OffsetFetchRequestTopics]:
    return [
        OffsetFetchRequestTopics(name=name, partition_indexes=list(partitions))
        for name, partitions in shard.offsets.of_group(group_id).items()
    ]


def _fetched(
    shard: GroupShard, group_id: str, topic: OffsetFetchRequestTopics, partition: int, *, require_stable: bool
) -> OffsetFetchResponsePartitions:
    committed: CommittedOffset | None = shard.offsets.get(group_id, topic.name, partition)
    response = OffsetFetchResponsePartitions(
        partition_index=partition, committed_offset=NO_OFFSET, committed_leader_epoch=NO_LEADER_EPOCH, metadata=""
    )
    if require_stable and shard.offsets.is_unstable(group_id, topic.name, partition):
        response.error_code = ErrorCode.UNSTABLE_OFFSET_COMMIT
    elif committed is not None and not committed.is_of_another_topic(topic.topic_id):
        response.committed_offset = committed.offset
        response.committed_leader_epoch = committed.leader_epoch
        response.metadata = committed.metadata
    return response


def delete(shard: GroupShard, request: OffsetDeleteRequest, pending: Pending) -> Outcome:
    if not request.group_id:
        return answer(pending, ErrorCode.INVALID_GROUP_ID)
    group = shard.groups.get(request.group_id)
    error = ErrorCode.GROUP_ID_NOT_FOUND if group is None else group.check_offset_delete()
    if group is None or error != ErrorCode.NONE:
        return answer(pending, error)
    records = []
    topics = []
    for topic in request.topics:
        subscribed = group.is_subscribed(topic.name)
        error = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if subscribed else ErrorCode.NONE
        answers = []
        for partition in topic.partitions:
            index = partition.partition_index
            answers.append(OffsetDeleteResponsePartition(partition_index=index, error_code=error))
            known = shard.offsets.get(request.group_id, topic.name, index) is not None
            if not subscribed and (known or shard.offsets.is_unstable(request.group_id, topic.name, index)):
                records.append(tombstone(request.group_id, topic.name, index))
        topics.append(OffsetDeleteResponseTopic(name=topic.name, partitions=answers))
    return answer(pending, OffsetDeleteResponse(topics=topics), records)._replace(atomic=False)

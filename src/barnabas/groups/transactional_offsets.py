"""TxnOffsetCommit in one shard: offsets that count once the transaction of their producer is committed.

Always holds: whether the partition belongs to that transaction was asked of its coordinator before; whether topics
exist was looked at too. A producer that names no member commits for whoever owns the partitions, as before KIP-447.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.coordination.outcome import Client, Moment, Outcome, Pending, Producer, answer
from barnabas.errors import ErrorCode
from barnabas.groups.group import Group
from barnabas.groups.offset_requests import is_too_long
from barnabas.groups.offsets import commit_record
from barnabas.groups.records import GroupRecord
from barnabas.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from barnabas.types import ZERO_UUID

if TYPE_CHECKING:
    from barnabas.groups.shard import GroupShard


def commit(
    shard: GroupShard, request: TxnOffsetCommitRequest, client: Client, pending: Pending, now: Moment
) -> Outcome:
    error = _check(shard, request, client)
    if error != ErrorCode.NONE:
        return answer(pending, error)
    length_max = shard.surroundings.settings.offset_metadata_bytes_max
    records: list[GroupRecord] = []
    topics = []
    for topic in request.topics:
        answers = []
        for each in topic.partitions:
            error = ErrorCode.NONE
            if is_too_long(each.committed_metadata, length_max):
                error = ErrorCode.OFFSET_METADATA_TOO_LARGE
            else:
                record = commit_record(
                    request.group_id,
                    topic.name,
                    each.partition_index,
                    offset=each.committed_offset,
                    leader_epoch=each.committed_leader_epoch,
                    metadata=each.committed_metadata,
                    commit_timestamp_ms=now.wall_ms,
                )
                records.append(record)
            answers.append(TxnOffsetCommitResponsePartition(partition_index=each.partition_index, error_code=error))
        topics.append(TxnOffsetCommitResponseTopic(name=topic.name, partitions=answers))
    outcome = answer(pending, TxnOffsetCommitResponse(topics=topics), records)
    return outcome._replace(producer=Producer(request.producer_id, request.producer_epoch))


def _check(shard: GroupShard, request: TxnOffsetCommitRequest, client: Client) -> ErrorCode:
    group = shard.groups.get(request.group_id)
    if group is not None:
        error = group.check_offset_commit(
            member_id=request.member_id,
            instance_id=request.group_instance_id,
            epoch=request.generation_id,
            transactional=True,
            api_version=client.api_version,
        )
        if error == ErrorCode.NONE:
            error = _check_partitions(shard, group, request)
        # Producers do not know the newer word.
        return ErrorCode.ILLEGAL_GENERATION if error == ErrorCode.STALE_MEMBER_EPOCH else error
    if request.generation_id >= 0:
        return ErrorCode.ILLEGAL_GENERATION
    return ErrorCode.NONE if shard.surroundings.has_room else ErrorCode.POLICY_VIOLATION


def _check_partitions(shard: GroupShard, group: Group, request: TxnOffsetCommitRequest) -> ErrorCode:
    for topic in request.topics:
        known = shard.surroundings.topics.by_name(topic.name)
        for partition in topic.partitions:
            error = group.check_partition_commit(
                member_id=request.member_id,
                epoch=request.generation_id,
                topic_id=ZERO_UUID if known is None else known.id,
                partition=partition.partition_index,
            )
            if error != ErrorCode.NONE:
                return error
    return ErrorCode.NONE

"""Offsets: where partitions begin and end, what lies at a time, and what groups have committed."""

from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import NamedTuple

from barnabas.client.admin.base import AdminBase, Ask, by_topic
from barnabas.client.admin.results import Results
from barnabas.client.errors import CoordinatorError
from barnabas.client.offsets import OffsetAndMetadata
from barnabas.errors import ErrorCode
from barnabas.protocol import special_numbers
from barnabas.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from barnabas.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from barnabas.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)
from barnabas.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from barnabas.protocol.special_numbers import READ_COMMITTED, READ_UNCOMMITTED
from barnabas.types import BrokerId, LeaderEpoch, Offset, TopicPartition

NAMES_UP_TO_VERSION = 9  # later versions of OffsetFetch and OffsetCommit go by topic ids
GROUPS_SINCE_VERSION = 8


class OffsetSpec(IntEnum):
    """What ListOffsets asks for in place of a timestamp."""

    LATEST = special_numbers.LATEST_TIMESTAMP
    EARLIEST = special_numbers.EARLIEST_TIMESTAMP
    MAX_TIMESTAMP = special_numbers.MAX_TIMESTAMP
    EARLIEST_LOCAL = special_numbers.EARLIEST_LOCAL_TIMESTAMP
    LATEST_TIERED = special_numbers.LATEST_TIERED_TIMESTAMP


_SINCE_VERSION = {OffsetSpec.MAX_TIMESTAMP: 7, OffsetSpec.EARLIEST_LOCAL: 8, OffsetSpec.LATEST_TIERED: 9}


class ListedOffset(NamedTuple):
    """`offset` is -1 where no record is as late as the timestamp that was asked for."""

    offset: Offset
    timestamp_ms: int
    leader_epoch: LeaderEpoch


class Offsets(AdminBase):
    async def list_offsets(
        self,
        specs: Mapping[TopicPartition, int],
        *,
        read_committed: bool = False,
        timeout_ms: float | None = None,
    ) -> Results[TopicPartition, ListedOffset]:
        """By a spec, or by a timestamp in ms: the first record that is at least as late."""
        least = max((_SINCE_VERSION.get(OffsetSpec(each), 1) for each in specs.values() if each < 0), default=1)
        within_ms = int(self.within_ms(timeout_ms))

        async def ask(node_id: BrokerId, keys: list[TopicPartition]) -> Results[TopicPartition, ListedOffset]:
            topics = [
                ListOffsetsTopic(
                    name=name,
                    partitions=[
                        ListOffsetsPartition(partition_index=number, timestamp=specs[TopicPartition(name, number)])
                        for number in numbers
                    ],
                )
                for name, numbers in by_topic(keys).items()
            ]
            request = ListOffsetsRequest(
                replica_id=-1,
                isolation_level=READ_COMMITTED if read_committed else READ_UNCOMMITTED,
                topics=topics,
                timeout_ms=within_ms,
            )
            response = await self.cluster.request(node_id, request, version_min=max(least, 2 if read_committed else 1))
            found: Results[TopicPartition, ListedOffset] = Results()
            for topic in response.topics:
                for each in topic.partitions:
                    key = TopicPartition(topic.name, each.partition_index)
                    offset = ListedOffset(each.offset, each.timestamp, each.leader_epoch)
                    found.add(key, each.error_code, offset, about=f"partition {key}")
            return found

        return await self.carry_out(specs, self.to_leaders, ask, what="listing offsets", timeout_ms=timeout_ms)

    async def list_consumer_group_offsets(
        self,
        group_id: str,
        partitions: Iterable[TopicPartition] | None = None,
        *,
        require_stable: bool = False,
        timeout_ms: float | None = None,
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """All that the group has committed, or these partitions, where None says that nothing is."""
        wanted = None if partitions is None else list(partitions)

        async def ask(
            node_id: BrokerId, _ids: list[str]
        ) -> Results[str, dict[TopicPartition, OffsetAndMetadata | None]]:
            return self.heed(await self._fetch_offsets(node_id, group_id, wanted, require_stable))

        results = await self.carry_out(
            [group_id], self.to_coordinators, ask, what=f"offsets of group {group_id}", timeout_ms=timeout_ms
        )
        return results.one(group_id)

    async def _fetch_offsets(
        self, node_id: BrokerId, group_id: str, wanted: list[TopicPartition] | None, require_stable: bool
    ) -> Results[str, dict[TopicPartition, OffsetAndMetadata | None]]:
        _connection, versions = await self.cluster.connected(node_id)
        version = versions.best(OffsetFetchRequest.API_KEY, 7 if require_stable else 2, NAMES_UP_TO_VERSION)
        topics = None if wanted is None else by_topic(wanted).items()
        if version >= GROUPS_SINCE_VERSION:
            named = None
            if topics is not None:
                named = [OffsetFetchRequestTopics(name=name, partition_indexes=numbers) for name, numbers in topics]
            request = OffsetFetchRequest(
                groups=[OffsetFetchRequestGroup(group_id=group_id, topics=named)], require_stable=require_stable
            )
        else:
            plain = None
            if topics is not None:
                plain = [OffsetFetchRequestTopic(name=name, partition_indexes=numbers) for name, numbers in topics]
            request = OffsetFetchRequest(group_id=group_id, topics=plain, require_stable=require_stable)
        response = await self.cluster.request(node_id, request, version_max=version)
        answer = response.groups[0] if version >= GROUPS_SINCE_VERSION else response
        offsets: dict[TopicPartition, OffsetAndMetadata | None] = {}
        code = answer.error_code
        for topic in answer.topics:
            for each in topic.partitions:
                code = code or each.error_code
                committed = OffsetAndMetadata(each.committed_offset, each.metadata or "", each.committed_leader_epoch)
                key = TopicPartition(topic.name, each.partition_index)
                offsets[key] = committed if each.committed_offset >= 0 else None
        found: Results[str, dict[TopicPartition, OffsetAndMetadata | None]] = Results()
        found.add(group_id, code, offsets, about=f"group {group_id}")
        return found

    async def alter_consumer_group_offsets(
        self, group_id: str, offsets: Mapping[TopicPartition, OffsetAndMetadata], *, timeout_ms: float | None = None
    ) -> Results[TopicPartition, None]:
        """For a group without members; UNKNOWN_MEMBER_ID where it has some."""

        async def ask(node_id: BrokerId, _ids: list[str]) -> Results[str, Results[TopicPartition, None]]:
            topics = [
                OffsetCommitRequestTopic(
                    name=name,
                    partitions=[_committed(number, offsets[TopicPartition(name, number)]) for number in numbers],
                )
                for name, numbers in by_topic(offsets).items()
            ]
            request = OffsetCommitRequest(group_id=group_id, topics=topics)
            response = await self.cluster.request(node_id, request, version_max=NAMES_UP_TO_VERSION)
            return self.heed(_of_partitions(group_id, response))

        return await self._about_partitions(group_id, ask, "altering offsets", timeout_ms)

    async def delete_consumer_group_offsets(
        self, group_id: str, partitions: Iterable[TopicPartition], *, timeout_ms: float | None = None
    ) -> Results[TopicPartition, None]:
        """GROUP_SUBSCRIBED_TO_TOPIC while members of the group read that topic."""
        wanted = list(partitions)

        async def ask(node_id: BrokerId, _ids: list[str]) -> Results[str, Results[TopicPartition, None]]:
            topics = [
                OffsetDeleteRequestTopic(
                    name=name,
                    partitions=[OffsetDeleteRequestPartition(partition_index=number) for number in numbers],
                )
                for name, numbers in by_topic(wanted).items()
            ]
            response = await self.cluster.request(node_id, OffsetDeleteRequest(group_id=group_id, topics=topics))
            return self.heed(_of_partitions(group_id, response))

        return await self._about_partitions(group_id, ask, "deleting offsets", timeout_ms)

    async def _about_partitions(
        self, group_id: str, ask: "_AskAboutPartitions", what: str, timeout_ms: float | None
    ) -> Results[TopicPartition, None]:
        results = await self.carry_out(
            [group_id], self.to_coordinators, ask, what=f"{what} of group {group_id}", timeout_ms=timeout_ms
        )
        return results.one(group_id)


def _committed(number: int, offset: OffsetAndMetadata) -> OffsetCommitRequestPartition:
    return OffsetCommitRequestPartition(
        partition_index=number,
        committed_offset=offset.offset,
        committed_leader_epoch=offset.leader_epoch,
        committed_metadata=offset.metadata,
    )


def _of_partitions(
    group_id: str, response: OffsetCommitResponse | OffsetDeleteResponse
) -> Results[str, Results[TopicPartition, None]]:
    """A coordinator that is not there, or not any more, says so of every partition."""
    each: Results[TopicPartition, None] = Results()
    code = getattr(response, "error_code", ErrorCode.NONE)
    for topic in response.topics:
        for partition in topic.partitions:
            key = TopicPartition(topic.name, partition.partition_index)
            each.add(key, partition.error_code, None, about=f"partition {key} in group {group_id}")
            if isinstance(each.failed.get(key), CoordinatorError):
                code = partition.error_code
    found: Results[str, Results[TopicPartition, None]] = Results()
    found.add(group_id, code, each, about=f"group {group_id}")
    return found


_AskAboutPartitions = Ask[str, Results[TopicPartition, None]]

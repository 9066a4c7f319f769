"""Questions about offsets: where a partition begins, ends, or was at a moment; where an epoch ended; what a group has
committed; and the commit itself.

Always holds: each question goes to who can answer it, and again to whoever that is by then, until its time is up.
Does not know: what anybody wants to read.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import NamedTuple, TypeVar

from barnabas.client.cluster import GROUP, Cluster
from barnabas.client.errors import KafkaError, error_of, known_code
from barnabas.client.offsets import ConsumerGroupMetadata, OffsetAndMetadata, OffsetAndTimestamp
from barnabas.errors import ErrorCode
from barnabas.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from barnabas.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from barnabas.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from barnabas.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from barnabas.protocol.special_numbers import READ_COMMITTED
from barnabas.types import BrokerId, LeaderEpoch, Offset, TopicPartition

T = TypeVar("T")
V = TypeVar("V")

CONSUMER_ID = -1
GROUPS_VERSION = 8  # of OffsetFetch: the first that asks about groups in a list
NAMES_VERSION_MAX = 9  # of OffsetCommit and OffsetFetch: the next one has ids in place of names


class EpochEnd(NamedTuple):
    """Where an epoch ended on the leader; -1 and -1 where it knows nothing of it."""

    leader_epoch: LeaderEpoch
    end_offset: Offset


class OffsetRequests:
    def __init__(self, cluster: Cluster, *, isolation_level: int, allow_auto_topic_creation: bool = False) -> None:
        self._cluster = cluster
        self._isolation_level = isolation_level
        self._allow_auto_topic_creation = allow_auto_topic_creation

    # Of leaders

    async def list_offsets(
        self, timestamps_ms: Mapping[TopicPartition, int], timeout_ms: float
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """By ListOffsets' timestamps: the first record at or after it, or the beginning (-2), or the end (-1)."""

        async def ask(
            node_id: BrokerId, partitions: list[TopicPartition]
        ) -> dict[TopicPartition, OffsetAndTimestamp | KafkaError | None]:
            request = ListOffsetsRequest(
                replica_id=CONSUMER_ID,
                isolation_level=self._isolation_level,
                topics=[
                    ListOffsetsTopic(
                        name=topic,
                        partitions=[
                            ListOffsetsPartition(
                                partition_index=each.partition,
                                current_leader_epoch=self.leader_epoch(each),
                                timestamp=timestamps_ms[each],
                            )
                            for each in found
                        ],
                    )
                    for topic, found in _by_topic(partitions).items()
                ],
            )
            response = await self._cluster.request(node_id, request)
            results: dict[TopicPartition, OffsetAndTimestamp | KafkaError | None] = {}
            for topic in response.topics:
                for each in topic.partitions:
                    partition = TopicPartition(topic.name, each.partition_index)
                    if each.error_code != ErrorCode.NONE:
                        results[partition] = error_of(each.error_code, about=str(partition))
                    elif each.offset < 0:
                        results[partition] = None
                    else:
                        results[partition] = OffsetAndTimestamp(each.offset, each.timestamp, each.leader_epoch)
            return results

        return await self._of_leaders(list(timestamps_ms), ask, timeout_ms, "offsets")

    async def epoch_ends(
        self, epochs: Mapping[TopicPartition, LeaderEpoch], timeout_ms: float
    ) -> dict[TopicPartition, EpochEnd]:
        """Where each epoch ended, as the leader has it."""

        async def ask(
            node_id: BrokerId, partitions: list[TopicPartition]
        ) -> dict[TopicPartition, EpochEnd | KafkaError]:
            request = OffsetForLeaderEpochRequest(
                replica_id=CONSUMER_ID,
                topics=[
                    OffsetForLeaderTopic(
                        topic=topic,
                        partitions=[
                            OffsetForLeaderPartition(
                                partition=each.partition,
                                current_leader_epoch=self.leader_epoch(each),
                                leader_epoch=epochs[each],
                            )
                            for each in found
                        ],
                    )
                    for topic, found in _by_topic(partitions).items()
                ],
            )
            response = await self._cluster.request(node_id, request)
            results: dict[TopicPartition, EpochEnd | KafkaError] = {}
            for topic in response.topics:
                for each in topic.partitions:
                    partition = TopicPartition(topic.topic, each.partition)
                    if each.error_code != ErrorCode.NONE:
                        results[partition] = error_of(each.error_code, about=str(partition))
                    else:
                        results[partition] = EpochEnd(each.leader_epoch, each.end_offset)
            return results

        return await self._of_leaders(list(epochs), ask, timeout_ms, "ends of leader epochs")

    def leader_epoch(self, partition: TopicPartition) -> LeaderEpoch:
        leader = self._cluster.leader(partition.topic, partition.partition)
        return -1 if leader is None else leader.epoch

    async def _of_leaders(
        self,
        partitions: list[TopicPartition],
        ask: Callable[[BrokerId, list[TopicPartition]], Awaitable[Mapping[TopicPartition, V | KafkaError]]],
        timeout_ms: float,
        what: str,
    ) -> dict[TopicPartition, V]:
        """Asks each leader about its partitions, and again about those that failed for a passing reason."""
        found: dict[TopicPartition, V] = {}
        topics = sorted({each.topic for each in partitions})

        async def attempt() -> None:
            left = [each for each in partitions if each not in found]
            by_leader = await self._by_leader(left)
            answers = await asyncio.gather(
                *(ask(node_id, each) for node_id, each in by_leader.items()), return_exceptions=True
            )
            failure: BaseException | None = None
            for answer in answers:
                if isinstance(answer, BaseException):
                    failure = _worse(failure, answer)
                    continue
                for partition, result in answer.items():
                    if isinstance(result, KafkaError):
                        failure = _worse(failure, result)
                    else:
                        found[partition] = result
            if failure is not None:
                raise failure
            missing = [each for each in partitions if each not in found]
            if missing:
                raise error_of(ErrorCode.LEADER_NOT_AVAILABLE, "it has no leader now", about=str(missing[0]))

        await self._cluster.retry(attempt, what=f"{what} of {', '.join(topics)}", timeout_ms=timeout_ms, topics=topics)
        return {each: found[each] for each in partitions}

    async def _by_leader(self, partitions: list[TopicPartition]) -> dict[BrokerId, list[TopicPartition]]:
        unknown = {each.topic for each in partitions if self._cluster.leader(*each) is None}
        if unknown:
            await self._cluster.refresh(sorted(unknown), allow_auto_topic_creation=self._allow_auto_topic_creation)
            for topic in sorted(unknown):
                error = self._cluster.metadata.errors.get(topic)
                if error is not None:
                    raise error_of(error, about=f"topic {topic}")
        by_leader: dict[BrokerId, list[TopicPartition]] = {}
        for each in partitions:
            leader = self._cluster.leader(*each)
            known = self._cluster.topic(each.topic)
            if known is not None and each.partition not in known.partitions:
                words = f"topic {each.topic} has {known.partition_count} partitions"
                raise error_of(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, words, about=str(each))
            if leader is not None:
                by_leader.setdefault(leader.node_id, []).append(each)
        return by_leader

    # Of the group's coordinator

    async def committed(
        self, group_id: str, partitions: Iterable[TopicPartition], timeout_ms: float
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """Asked as nobody in particular: a member whose epoch moves meanwhile would be refused."""
        wanted = list(partitions)
        topics = [
            OffsetFetchRequestTopics(name=topic, partition_indexes=[each.partition for each in found])
            for topic, found in _by_topic(wanted).items()
        ]
        group = OffsetFetchRequestGroup(group_id=group_id, topics=topics)
        request = OffsetFetchRequest(groups=[group], require_stable=self._isolation_level == READ_COMMITTED)

        async def attempt() -> dict[TopicPartition, OffsetAndMetadata | None]:
            node_id = await self._cluster.coordinator(GROUP, group_id)
            response = await self._cluster.request(
                node_id, request, version_min=GROUPS_VERSION, version_max=NAMES_VERSION_MAX
            )
            (answer,) = response.groups
            if answer.error_code != ErrorCode.NONE:
                raise error_of(answer.error_code, about=f"group {group_id}")
            found: dict[TopicPartition, OffsetAndMetadata | None] = dict.fromkeys(wanted)
            for topic in answer.topics:
                for each in topic.partitions:
                    partition = TopicPartition(topic.name, each.partition_index)
                    if each.error_code != ErrorCode.NONE:
                        raise error_of(each.error_code, about=str(partition))
                    if each.committed_offset >= 0:
                        found[partition] = OffsetAndMetadata(
                            each.committed_offset, each.metadata or "", each.committed_leader_epoch
                        )
            return found

        return await self._cluster.retry(
            attempt,
            what=f"what group {group_id} has committed",
            timeout_ms=timeout_ms,
            coordinator=(GROUP, group_id),
        )

    async def commit(
        self, who: ConsumerGroupMetadata, offsets: Mapping[TopicPartition, OffsetAndMetadata], timeout_ms: float
    ) -> dict[TopicPartition, ErrorCode]:
        """One attempt; what became of each."""
        topics = [
            OffsetCommitRequestTopic(
                name=topic,
                partitions=[
                    OffsetCommitRequestPartition(
                        partition_index=each.partition,
                        committed_offset=offsets[each].offset,
                        committed_leader_epoch=offsets[each].leader_epoch,
                        committed_metadata=offsets[each].metadata,
                    )
                    for each in found
                ],
            )
            for topic, found in _by_topic(offsets).items()
        ]
        request = OffsetCommitRequest(
            group_id=who.group_id,
            generation_id_or_member_epoch=who.generation_id,
            member_id=who.member_id,
            group_instance_id=who.group_instance_id,
            topics=topics,
        )
        node_id = await self._cluster.coordinator(GROUP, who.group_id, timeout_ms=timeout_ms)
        response = await self._cluster.request(node_id, request, timeout_ms=timeout_ms, version_max=NAMES_VERSION_MAX)
        return {
            TopicPartition(topic.name, each.partition_index): known_code(each.error_code)
            for topic in response.topics
            for each in topic.partitions
        }


def _by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[TopicPartition]]:
    topics: dict[str, list[TopicPartition]] = {}
    for partition in sorted(partitions):
        topics.setdefault(partition.topic, []).append(partition)
    return topics


def _worse(one: BaseException | None, other: BaseException) -> BaseException:
    """Of several failures, the one that trying again does not help."""
    if one is None or (isinstance(one, KafkaError) and one.retriable):
        return other
    return one

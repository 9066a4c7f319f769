"""What a read asks of brokers, beside the records themselves: partitions, their bounds and sizes, committed offsets.

Always holds: every call ends within default.api.timeout.ms, with an answer for each partition or an error that names
one; leaders that moved are looked up again. Does not know: Spark, records.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

from barnabas.client.cluster import GROUP, Cluster
from barnabas.client.errors import KafkaError, StaleMetadataError, UnknownTopicError, error_of
from barnabas.errors import ErrorCode
from barnabas.protocol.messages.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from barnabas.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from barnabas.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from barnabas.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from barnabas.protocol.special_numbers import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, READ_UNCOMMITTED
from barnabas.spark.options import Options
from barnabas.spark.reading import selection
from barnabas.spark.reading.offsets import Bounds, ByTime
from barnabas.spark.reading.read_settings import ReadConfig
from barnabas.types import BrokerId, Offset, TopicPartition, Uuid

TOPIC_PATIENCE_MS = 3000  # a topic that was just made may not be known to the broker that is asked

T = TypeVar("T")


def is_unknown_topic(error: KafkaError) -> bool:
    """Whether this is what it came to, perhaps after many attempts."""
    return isinstance(error, UnknownTopicError) or isinstance(error.__cause__, UnknownTopicError)


class Brokers:
    """The questions, on one cluster."""

    def __init__(self, cluster: Cluster, config: ReadConfig) -> None:
        self._cluster = cluster
        self._config = config

    async def partitions(self, options: Options) -> dict[TopicPartition, Uuid]:
        """The partitions that are meant, with the ids of their topics. NoSuchTopic where one is not there."""
        names = selection.named_topics(options)
        if names is None:
            await self._retry(lambda: self._cluster.refresh(None), "the topics of the cluster", ())
        else:
            try:
                await self._cluster.topics(names, timeout_ms=self._topic_patience_ms)
            except KafkaError as error:
                if not is_unknown_topic(error):
                    raise
                await self._cluster.refresh(None)  # for a suggestion
        ids = self._ids()
        return {each: ids[each] for each in selection.chosen(options, ids)}

    async def existing(self, options: Options) -> dict[TopicPartition, Uuid]:
        """As `partitions`; what is named and not there is left out."""
        names = selection.named_topics(options)
        await self._retry(lambda: self._cluster.refresh(names), "the topics of the stream", ())
        unsure = [name for name in names or () if self._cluster.topic(name) is None]
        if unsure:  # the broker that was asked may lag behind
            try:
                await self._cluster.topics(unsure, timeout_ms=self._topic_patience_ms)
            except KafkaError as error:
                if not is_unknown_topic(error):
                    raise
        ids = self._ids()
        return {each: ids[each] for each in selection.present(options, ids)}

    @property
    def _topic_patience_ms(self) -> int:
        return min(TOPIC_PATIENCE_MS, self._config.default_api_timeout_ms)

    def _ids(self) -> dict[TopicPartition, Uuid]:
        return {
            TopicPartition(topic.name, number): topic.topic_id
            for topic in self._cluster.metadata.topics.values()
            for number in topic.partitions
        }

    async def bounds(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, Bounds]:
        earliest, latest = await asyncio.gather(
            self.list_offsets(dict.fromkeys(partitions, EARLIEST_TIMESTAMP)), self.latest(partitions)
        )
        return {each: Bounds(min(earliest[each] or 0, latest[each]), latest[each]) for each in partitions}

    async def latest(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, Offset]:
        found = await self.list_offsets(dict.fromkeys(partitions, LATEST_TIMESTAMP))
        return {each: offset or 0 for each, offset in found.items()}

    async def beyond_open_transactions(self, offsets: Mapping[TopicPartition, Offset]) -> set[TopicPartition]:
        """Of partitions where a place lies behind `latest`, those whose log has that offset: only committed records are
        read here, and a transaction before it is open."""
        if not offsets or not self._config.read_committed:
            return set()
        ends = await self.list_offsets(dict.fromkeys(offsets, LATEST_TIMESTAMP), isolation=READ_UNCOMMITTED)
        return {each for each, offset in offsets.items() if offset <= (ends[each] or 0)}

    async def by_time(self, asked: Collection[tuple[TopicPartition, int]]) -> ByTime:
        """The first offset as late as each time; None where none is."""
        found: dict[tuple[TopicPartition, int], Offset | None] = {}
        left = sorted(asked)
        while left:
            # One question of each partition at a time: a request may name a partition once.
            now = dict(reversed(left))
            answers = await self.list_offsets(now)
            found.update({(each, time_ms): answers[each] for each, time_ms in now.items()})
            left = [each for each in left if each not in found]
        return found

    async def list_offsets(
        self, asked: Mapping[TopicPartition, int], *, isolation: int | None = None
    ) -> dict[TopicPartition, Offset | None]:
        """One offset for each partition, by mark or by time; for readers of the isolation that is configured."""
        wanted = self._config.isolation if isolation is None else isolation
        return await self._of_leaders(asked, partial(self._list_offsets, wanted), "offsets")

    async def _list_offsets(
        self, isolation: int, node_id: BrokerId, asked: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, Offset | KafkaError | None]:
        topics = [
            ListOffsetsTopic(
                name=topic,
                partitions=[
                    ListOffsetsPartition(partition_index=each.partition, timestamp=asked[each]) for each in partitions
                ],
            )
            for topic, partitions in _by_topic(asked).items()
        ]
        request = ListOffsetsRequest(replica_id=-1, isolation_level=isolation, topics=topics)
        response = await self._cluster.request(node_id, request, version_min=2)
        found: dict[TopicPartition, Offset | KafkaError | None] = {}
        for topic in response.topics:
            for each in topic.partitions:
                name = TopicPartition(topic.name, each.partition_index)
                error = _error(each.error_code, name)
                found[name] = error if error is not None else each.offset if each.offset >= 0 else None
        return found

    async def sizes(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """Bytes of each partition's log, as its leader has it. Empty where brokers do not say."""
        try:
            return await self._of_leaders(dict.fromkeys(partitions), self._sizes, "sizes")
        except KafkaError as error:
            if error.retriable:
                raise
            return {}  # not allowed, or too old a broker: sizes only help to cut

    async def _sizes(
        self, node_id: BrokerId, asked: Mapping[TopicPartition, None]
    ) -> dict[TopicPartition, int | KafkaError]:
        topics = [
            DescribableLogDirTopic(topic=topic, partitions=[each.partition for each in partitions])
            for topic, partitions in _by_topic(asked).items()
        ]
        response = await self._cluster.request(node_id, DescribeLogDirsRequest(topics=topics))
        error = _error(getattr(response, "error_code", 0), None)
        if error is not None:
            raise error
        found: dict[TopicPartition, int | KafkaError] = dict.fromkeys(asked, 0)
        for directory in response.results:
            for topic in directory.topics:
                for each in topic.partitions:
                    if not each.is_future_key:
                        found[TopicPartition(topic.name, each.partition_index)] = each.partition_size
        return found

    async def _of_leaders(
        self,
        asked: Mapping[TopicPartition, Any],
        ask: Callable[[BrokerId, Mapping[TopicPartition, Any]], Awaitable[dict[TopicPartition, T | KafkaError]]],
        what: str,
    ) -> dict[TopicPartition, T]:
        """Asks each leader about its partitions, and again about those whose answer was an error that may pass."""
        found: dict[TopicPartition, T] = {}

        async def attempt() -> None:
            by_leader: dict[BrokerId, dict[TopicPartition, Any]] = {}
            for each, question in asked.items():
                if each not in found:
                    leader = self._cluster.leader(*each)
                    if leader is None:
                        raise StaleMetadataError(ErrorCode.LEADER_NOT_AVAILABLE, f"{each} has no leader at the moment")
                    by_leader.setdefault(leader.node_id, {})[each] = question
            problem: KafkaError | None = None
            answers = await asyncio.gather(*(ask(node, some) for node, some in by_leader.items()))
            for answer in answers:
                for each, value in answer.items():
                    if isinstance(value, KafkaError):
                        problem = value
                    else:
                        found[each] = value
            if problem is not None:
                raise problem

        await self._retry(attempt, what, sorted({each.topic for each in asked}))
        return found

    async def _retry(self, attempt: Callable[[], Awaitable[T]], what: str, topics: Sequence[str]) -> T:
        timeout_ms = self._config.default_api_timeout_ms
        return await self._cluster.retry(attempt, what=what, timeout_ms=timeout_ms, topics=topics)

    # Committed offsets

    async def committed(self, group_id: str, ids: Mapping[TopicPartition, Uuid]) -> dict[TopicPartition, Offset]:
        """What the group has committed; partitions without are missing."""

        async def attempt() -> dict[TopicPartition, Offset]:
            node_id = await self._cluster.coordinator(GROUP, group_id)
            by_topic = _by_topic(ids)
            new = [
                OffsetFetchRequestTopics(name=topic, partition_indexes=[each.partition for each in some])
                for topic, some in by_topic.items()
            ]
            old = [
                OffsetFetchRequestTopic(name=topic, partition_indexes=[each.partition for each in some])
                for topic, some in by_topic.items()
            ]
            _, versions = await self._cluster.connected(node_id)
            version = versions.best(OffsetFetchRequest.API_KEY, most=9)
            if version >= 8:
                request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group_id, topics=new)])
            else:
                request = OffsetFetchRequest(group_id=group_id, topics=old)
            response = await self._cluster.request(node_id, request, version_max=version)
            answer = response.groups[0] if version >= 8 else response
            return _committed(answer, group_id)

        timeout_ms = self._config.default_api_timeout_ms
        what = f"the offsets of group {group_id}"
        return await self._cluster.retry(attempt, what=what, timeout_ms=timeout_ms, coordinator=(GROUP, group_id))

    async def commit(self, group_id: str, offsets: Mapping[TopicPartition, Offset]) -> None:
        """As a client that is no member of the group, which therefore must have no members."""

        async def attempt() -> None:
            node_id = await self._cluster.coordinator(GROUP, group_id)
            topics = [
                OffsetCommitRequestTopic(
                    name=topic,
                    partitions=[
                        OffsetCommitRequestPartition(
                            partition_index=each.partition, committed_offset=offsets[each], committed_metadata=""
                        )
                        for each in some
                    ],
                )
                for topic, some in _by_topic(offsets).items()
            ]
            request = OffsetCommitRequest(group_id=group_id, topics=topics)
            response = await self._cluster.request(node_id, request, version_max=9)
            for topic in response.topics:
                for each in topic.partitions:
                    error = _error(each.error_code, TopicPartition(topic.name, each.partition_index))
                    if error is not None:
                        raise error

        timeout_ms = self._config.default_api_timeout_ms
        what = f"a commit of group {group_id}"
        await self._cluster.retry(attempt, what=what, timeout_ms=timeout_ms, coordinator=(GROUP, group_id))


def _committed(answer: Any, group_id: str) -> dict[TopicPartition, Offset]:
    error = _error(getattr(answer, "error_code", 0), None, f"group {group_id}")
    if error is not None:
        raise error
    found: dict[TopicPartition, Offset] = {}
    for topic in answer.topics:
        for each in topic.partitions:
            name = TopicPartition(topic.name, each.partition_index)
            error = _error(each.error_code, name)
            if error is not None:
                raise error
            if each.committed_offset >= 0:
                found[name] = each.committed_offset
    return found


def _error(code: int, partition: TopicPartition | None, about: str = "") -> KafkaError | None:
    return None if code == ErrorCode.NONE else error_of(code, about=about if partition is None else str(partition))


def _by_topic(partitions: Collection[TopicPartition]) -> dict[str, list[TopicPartition]]:
    found: dict[str, list[TopicPartition]] = {}
    for each in sorted(partitions):
        found.setdefault(each.topic, []).append(each)
    return found

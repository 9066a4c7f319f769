"""Topics, their partitions, and the records at their beginning."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from barnabas.client.admin.base import AdminBase, by_topic, listed
from barnabas.client.admin.results import Results
from barnabas.client.cluster import ANY
from barnabas.client.errors import UnsupportedVersionError, error_of
from barnabas.errors import ErrorCode
from barnabas.protocol.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from barnabas.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreatableTopicResult,
    CreateTopicsRequest,
)
from barnabas.protocol.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from barnabas.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from barnabas.protocol.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    RequestCursor,
    TopicRequest,
)
from barnabas.types import ZERO_UUID, BrokerId, LeaderEpoch, Offset, TopicPartition, Uuid, uuid_text

PARTITIONS_PER_PAGE = 2_000  # what one answer holds, unless the broker allows less
DELETE_BY_ID_SINCE_VERSION = 6
FROM_THE_HIGH_WATERMARK: Offset = -1  # as DeleteRecords has it: delete everything that is committed


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTopic:
    """-1 leaves a number to the broker. `assignments` names the replicas of each partition instead of both."""

    name: str
    partitions: int = -1
    replication_factor: int = -1
    configs: Mapping[str, str | None] = field(default_factory=dict)
    assignments: Mapping[int, Iterable[BrokerId]] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatedTopic:
    """Numbers are -1 where the broker is too old to tell them."""

    name: str
    topic_id: str | None
    partitions: int
    replication_factor: int
    configs: dict[str, str | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicListing:
    name: str
    topic_id: str | None
    is_internal: bool
    partitions: int
    replication_factor: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionDescription:
    partition: int
    leader: BrokerId | None
    leader_epoch: LeaderEpoch
    replicas: tuple[BrokerId, ...]
    isr: tuple[BrokerId, ...]
    eligible_leader_replicas: tuple[BrokerId, ...] | None  # None where the broker does not tell
    last_known_leaders: tuple[BrokerId, ...] | None
    offline_replicas: tuple[BrokerId, ...]

    @property
    def is_under_replicated(self) -> bool:
        return len(self.isr) < len(self.replicas)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicDescription:
    name: str
    topic_id: str | None
    is_internal: bool
    partitions: tuple[PartitionDescription, ...]

    @property
    def replication_factor(self) -> int:
        return max((len(partition.replicas) for partition in self.partitions), default=0)


def _new_topics(given: Iterable[NewTopic]) -> list[NewTopic]:
    topics = listed(given, "topics")
    for topic in topics:
        if not isinstance(topic, NewTopic):
            raise TypeError(f"a new topic must be a NewTopic(name={topic!r}), not {type(topic).__name__}")
    return topics


class Topics(AdminBase):
    async def create_topics(
        self, topics: Iterable[NewTopic], *, validate_only: bool = False, timeout_ms: float | None = None
    ) -> Results[str, CreatedTopic]:
        wanted = {topic.name: topic for topic in _new_topics(topics)}
        within_ms = int(self.within_ms(timeout_ms))

        async def ask(node_id: BrokerId, names: list[str]) -> Results[str, CreatedTopic]:
            request = CreateTopicsRequest(
                topics=[_creatable(wanted[name]) for name in names], timeout_ms=within_ms, validate_only=validate_only
            )
            response = await self.cluster.request(node_id, request)
            found: Results[str, CreatedTopic] = Results()
            for each in response.topics:
                found.add(each.name, each.error_code, _created(each), each.error_message, about=f"topic {each.name}")
            return found

        return await self.carry_out(wanted, self.to_controller, ask, what="creating topics", timeout_ms=timeout_ms)

    async def delete_topics(
        self, names: Iterable[str] = (), *, topic_ids: Iterable[Uuid] = (), timeout_ms: float | None = None
    ) -> Results[str, None]:
        """By name or by id; what was named by its id is in the results by the id's text."""
        by_name, ids = listed(names, "names"), {uuid_text(topic_id): topic_id for topic_id in topic_ids}
        within_ms = int(self.within_ms(timeout_ms))

        async def ask(node_id: BrokerId, keys: list[str]) -> Results[str, None]:
            plain = [key for key in keys if key not in ids]
            states = [DeleteTopicState(name=name) for name in plain]
            states += [DeleteTopicState(name=None, topic_id=ids[key]) for key in keys if key in ids]
            _connection, versions = await self.cluster.connected(node_id)
            least = DELETE_BY_ID_SINCE_VERSION if len(plain) < len(keys) else 0
            if versions.best(DeleteTopicsRequest.API_KEY, least) >= DELETE_BY_ID_SINCE_VERSION:
                request = DeleteTopicsRequest(topics=states, timeout_ms=within_ms)
            else:
                request = DeleteTopicsRequest(topic_names=plain, timeout_ms=within_ms)
            response = await self.cluster.request(node_id, request)
            found: Results[str, None] = Results()
            for each in response.responses:
                text = uuid_text(each.topic_id)
                key = text if text in ids else each.name
                found.add(key, each.error_code, None, each.error_message, about=f"topic {key}")
            return found

        return await self.carry_out(
            [*by_name, *ids], self.to_controller, ask, what="deleting topics", timeout_ms=timeout_ms
        )

    async def list_topics(self, *, internal: bool = False, timeout_ms: float | None = None) -> list[TopicListing]:
        """In the order of their names; those of the brokers themselves only where they are asked for."""
        topics = await self.cluster.topics(timeout_ms=self.within_ms(timeout_ms))
        return [
            TopicListing(
                name=name,
                topic_id=_id(topic.topic_id),
                is_internal=topic.is_internal,
                partitions=len(topic.partitions),
                replication_factor=max((len(each.replicas) for each in topic.partitions.values()), default=0),
            )
            for name, topic in sorted(topics.items())
            if internal or not topic.is_internal
        ]

    async def describe_topics(
        self,
        names: Iterable[str],
        *,
        partitions_per_page: int = PARTITIONS_PER_PAGE,
        timeout_ms: float | None = None,
    ) -> Results[str, TopicDescription]:
        """Page by page, so that topics with very many partitions do not come in one answer (KIP-966)."""
        wanted = sorted(set(listed(names, "names")))
        if not wanted:
            return Results()

        async def attempt() -> Results[str, TopicDescription]:
            try:
                return await self._describe_by_page(wanted, partitions_per_page)
            except UnsupportedVersionError:  # an older broker, which tells everything at once
                return await self._describe_by_metadata(wanted)

        return await self.cluster.retry(attempt, what="describing topics", timeout_ms=self.within_ms(timeout_ms))

    async def _describe_by_page(self, names: list[str], page_size: int) -> Results[str, TopicDescription]:
        found: Results[str, TopicDescription] = Results()
        left = names
        cursor: RequestCursor | None = None
        while left:
            request = DescribeTopicPartitionsRequest(
                topics=[TopicRequest(name=name) for name in left], response_partition_limit=page_size, cursor=cursor
            )
            response: DescribeTopicPartitionsResponse = await self.cluster.request(ANY, request)
            _add_page(found, response)
            after = response.next_cursor
            if after is None:
                break
            left = [name for name in left if name >= after.topic_name]
            cursor = RequestCursor(topic_name=after.topic_name, partition_index=after.partition_index)
        return found

    async def _describe_by_metadata(self, names: list[str]) -> Results[str, TopicDescription]:
        await self.cluster.refresh(names)
        found: Results[str, TopicDescription] = Results()
        for name in names:
            topic = self.cluster.topic(name)
            if topic is None:
                code = self.cluster.metadata.errors.get(name, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
                found.failed[name] = error_of(code, about=f"topic {name}")
                continue
            partitions = tuple(
                PartitionDescription(
                    partition=each.partition,
                    leader=each.leader if each.leader >= 0 else None,
                    leader_epoch=each.leader_epoch,
                    replicas=each.replicas,
                    isr=each.isr,
                    eligible_leader_replicas=None,
                    last_known_leaders=None,
                    offline_replicas=each.offline_replicas,
                )
                for each in topic.partitions.values()
            )
            found.done[name] = TopicDescription(
                name=name, topic_id=_id(topic.topic_id), is_internal=topic.is_internal, partitions=partitions
            )
        return found

    async def create_partitions(
        self,
        counts: Mapping[str, int],
        *,
        assignments: Mapping[str, Iterable[Iterable[BrokerId]]] | None = None,
        validate_only: bool = False,
        timeout_ms: float | None = None,
    ) -> Results[str, None]:
        """`counts` is how many each topic has afterwards; `assignments` the replicas of each new one, in order."""
        within_ms = int(self.within_ms(timeout_ms))
        given = assignments or {}

        def topic(name: str) -> CreatePartitionsTopic:
            replicas = given.get(name)
            placed = None
            if replicas is not None:
                placed = [CreatePartitionsAssignment(broker_ids=list(each)) for each in replicas]
            return CreatePartitionsTopic(name=name, count=counts[name], assignments=placed)

        async def ask(node_id: BrokerId, names: list[str]) -> Results[str, None]:
            request = CreatePartitionsRequest(
                topics=[topic(name) for name in names], timeout_ms=within_ms, validate_only=validate_only
            )
            response = await self.cluster.request(node_id, request)
            found: Results[str, None] = Results()
            for each in response.results:
                found.add(each.name, each.error_code, None, each.error_message, about=f"topic {each.name}")
            return found

        return await self.carry_out(counts, self.to_controller, ask, what="creating partitions", timeout_ms=timeout_ms)

    async def delete_records(
        self, before: Mapping[TopicPartition, Offset], *, timeout_ms: float | None = None
    ) -> Results[TopicPartition, Offset]:
        """Deletes what is before an offset, or everything for -1; where each partition begins from then on."""
        within_ms = int(self.within_ms(timeout_ms))

        async def ask(node_id: BrokerId, partitions: list[TopicPartition]) -> Results[TopicPartition, Offset]:
            topics = [
                DeleteRecordsTopic(
                    name=name,
                    partitions=[
                        DeleteRecordsPartition(partition_index=number, offset=before[TopicPartition(name, number)])
                        for number in numbers
                    ],
                )
                for name, numbers in by_topic(partitions).items()
            ]
            response = await self.cluster.request(node_id, DeleteRecordsRequest(topics=topics, timeout_ms=within_ms))
            found: Results[TopicPartition, Offset] = Results()
            for topic in response.topics:
                for each in topic.partitions:
                    key = TopicPartition(topic.name, each.partition_index)
                    found.add(key, each.error_code, each.low_watermark, about=f"partition {key}")
            return found

        return await self.carry_out(before, self.to_leaders, ask, what="deleting records", timeout_ms=timeout_ms)


def _id(topic_id: Uuid) -> str | None:
    return None if topic_id == ZERO_UUID else uuid_text(topic_id)


def _creatable(topic: NewTopic) -> CreatableTopic:
    assignments = [
        CreatableReplicaAssignment(partition_index=number, broker_ids=list(replicas))
        for number, replicas in (topic.assignments or {}).items()
    ]
    return CreatableTopic(
        name=topic.name,
        num_partitions=-1 if assignments else topic.partitions,
        replication_factor=-1 if assignments else topic.replication_factor,
        assignments=assignments,
        configs=[CreatableTopicConfig(name=name, value=value) for name, value in topic.configs.items()],
    )


def _created(result: CreatableTopicResult) -> CreatedTopic:
    return CreatedTopic(
        name=result.name,
        topic_id=_id(result.topic_id),
        partitions=result.num_partitions,
        replication_factor=result.replication_factor,
        configs={each.name: each.value for each in result.configs or ()},
    )


def _add_page(found: Results[str, TopicDescription], response: DescribeTopicPartitionsResponse) -> None:
    for topic in response.topics:
        name = topic.name or ""
        partitions = tuple(
            PartitionDescription(
                partition=each.partition_index,
                leader=each.leader_id if each.leader_id >= 0 else None,
                leader_epoch=each.leader_epoch,
                replicas=tuple(each.replica_nodes),
                isr=tuple(each.isr_nodes),
                eligible_leader_replicas=_tuple(each.eligible_leader_replicas),
                last_known_leaders=_tuple(each.last_known_elr),
                offline_replicas=tuple(each.offline_replicas),
            )
            for each in topic.partitions
        )
        before = found.done[name].partitions if name in found.done else ()  # a topic may go on over pages
        description = TopicDescription(
            name=name, topic_id=_id(topic.topic_id), is_internal=topic.is_internal, partitions=before + partitions
        )
        found.add(name, topic.error_code, description, about=f"topic {name}")


def _tuple(numbers: list[int] | None) -> tuple[int, ...] | None:
    return None if numbers is None else tuple(numbers)

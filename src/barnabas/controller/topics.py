"""CreateTopics and DeleteTopics: names, partitions, replicas and configs checked, then decided into records.

Always holds: a topic is created whole or not at all; each topic of a request succeeds or fails by itself, except that
a request which needs too many records fails as one, as in Kafka.
Does not know: authorization, and whether topics may be deleted here; the handlers ask that first.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from barnabas.config.broker import BrokerConfig
from barnabas.config.describe import BrokerLayers, Entry, topic_entries
from barnabas.config.topic import TopicConfig
from barnabas.config.validation import ConfigError
from barnabas.controller.decision import RECORDS_MAX, Decision, Refusal
from barnabas.controller.partitions import check_assignment, partition_records, place, too_many, too_many_partitions
from barnabas.controller.placement import ReplicaPlacer
from barnabas.errors import ErrorCode
from barnabas.metadata import topic_names
from barnabas.metadata.image import MetadataImage, Replicas, ResourceType
from barnabas.protocol.message import Message
from barnabas.types import ZERO_UUID, Uuid

if TYPE_CHECKING:
    from barnabas.protocol.messages.create_topics import (
        CreatableTopic,
        CreatableTopicConfig,
        CreatableTopicConfigs,
        CreatableTopicResult,
        CreateTopicsRequest,
        CreateTopicsResponse,
    )
    from barnabas.protocol.messages.delete_topics import (
        DeletableTopicResult,
        DeleteTopicsRequest,
        DeleteTopicsResponse,
    )

Overrides = tuple[tuple[str, str], ...]  # what a topic sets, as a key


class TopicRules(NamedTuple):
    """What CreateTopics takes from the world."""

    static_config: BrokerConfig  # of the node that answers
    placer: ReplicaPlacer
    new_topic_id: Callable[[], Uuid]
    describes: bool  # whether the response says which configs the topics have


class _Configs:
    """The configs of new topics: checked, and described. Most topics of a request set the same, or nothing at all."""

    def __init__(self, image: MetadataImage, static_config: BrokerConfig) -> None:
        node_id = str(static_config.node_id)
        self.layers = BrokerLayers(
            image.config(ResourceType.BROKER, node_id), image.config(ResourceType.BROKER, ""), static_config
        )
        self.broker = self.layers.config
        self._checked: set[Overrides] = set()
        self._described: dict[Overrides, list[Entry]] = {}

    def check(self, configs: "Sequence[CreatableTopicConfig]") -> dict[str, str] | Refusal:
        nulls = [config.name for config in configs if config.value is None]
        if nulls:
            return Refusal(ErrorCode.INVALID_CONFIG, f"A topic's configs cannot be null: {', '.join(nulls)}.")
        overrides = {config.name: config.value for config in configs if config.value is not None}
        key = tuple(overrides.items())
        if key not in self._checked:
            try:
                TopicConfig.checked(overrides, self.broker)
            except ConfigError as error:
                return Refusal(ErrorCode.INVALID_CONFIG, str(error))
            self._checked.add(key)
        return overrides

    def describe(self, overrides: Mapping[str, str]) -> "list[CreatableTopicConfigs]":
        from barnabas.protocol.messages.create_topics import CreatableTopicConfigs

        key = tuple(overrides.items())
        if key not in self._described:
            self._described[key] = sorted(topic_entries(overrides, self.layers))
        return [
            CreatableTopicConfigs(
                name=entry.name,
                value=entry.value,
                read_only=entry.read_only,
                config_source=entry.source,
                is_sensitive=entry.sensitive,
            )
            for entry in self._described[key]
        ]


def create_topics(
    image: MetadataImage, request: "CreateTopicsRequest", rules: TopicRules
) -> Decision["CreateTopicsResponse"]:
    from barnabas.protocol.messages.create_topics import CreatableTopicResult, CreateTopicsResponse

    seen: set[str] = set()
    twice = {topic.name for topic in request.topics if topic.name in seen or seen.add(topic.name)}  # type: ignore[func-returns-value]
    configs = _Configs(image, rules.static_config)
    partitions = sum(max(topic.num_partitions, len(topic.assignments), 1) for topic in request.topics)
    if partitions > RECORDS_MAX:
        return _all_refused(request, too_many_partitions())  # before they are placed, which would take its time
    records: list[Message] = []
    results: dict[str, CreatableTopicResult] = {}
    for topic in request.topics:
        created = (
            Refusal(ErrorCode.INVALID_REQUEST, f"The topic {topic.name!r} is named twice.")
            if topic.name in twice
            else _create_topic(image, topic, rules, configs)
        )
        if isinstance(created, Refusal):
            results[topic.name] = _refused(topic.name, created)
        else:
            topic_records, results[topic.name] = created
            records += topic_records
    if len(records) > RECORDS_MAX:
        return _all_refused(request, too_many_partitions())
    response = CreateTopicsResponse(topics=list(results.values()))
    return Decision([] if request.validate_only else records, response)


def _all_refused(request: "CreateTopicsRequest", refusal: Refusal) -> Decision["CreateTopicsResponse"]:
    from barnabas.protocol.messages.create_topics import CreateTopicsResponse

    names = dict.fromkeys(topic.name for topic in request.topics)
    return Decision([], CreateTopicsResponse(topics=[_refused(name, refusal) for name in names]))


def _refused(name: str, refusal: Refusal) -> "CreatableTopicResult":
    from barnabas.protocol.messages.create_topics import CreatableTopicResult

    return CreatableTopicResult(name=name, error_code=refusal.error, error_message=refusal.message)


def _create_topic(
    image: MetadataImage, topic: "CreatableTopic", rules: TopicRules, configs: _Configs
) -> "tuple[list[Message], CreatableTopicResult] | Refusal":
    from barnabas.protocol.messages.config_record import ConfigRecord
    from barnabas.protocol.messages.create_topics import CreatableTopicResult
    from barnabas.protocol.messages.topic_record import TopicRecord

    refusal = check_name(image, topic.name)
    if refusal is not None:
        return refusal
    overrides = configs.check(topic.configs)
    if isinstance(overrides, Refusal):
        return overrides
    placed = _assignments(image, topic) if topic.assignments else _placement(image, topic, configs.broker, rules.placer)
    if isinstance(placed, Refusal):
        return placed
    topic_id = rules.new_topic_id()
    # In Kafka's order, so that whoever reads a partition knows its configs already.
    records: list[Message] = [TopicRecord(name=topic.name, topic_id=topic_id)]
    for name, value in overrides.items():
        records.append(ConfigRecord(resource_type=ResourceType.TOPIC, resource_name=topic.name, name=name, value=value))
    records += partition_records(image, topic_id, 0, placed)
    result = CreatableTopicResult(
        name=topic.name,
        topic_id=topic_id,
        error_message=None,
        num_partitions=len(placed),
        replication_factor=len(placed[0]),
        configs=configs.describe(overrides) if rules.describes else [],
    )
    return records, result


def check_name(image: MetadataImage, name: str) -> Refusal | None:
    """Whether a topic of this name may be created."""
    if name == topic_names.METADATA_TOPIC:
        return Refusal(ErrorCode.INVALID_REQUEST, f"The topic {name} belongs to the cluster itself.")
    if name in image.topics_by_name:
        return Refusal(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
    fault = topic_names.fault(name)
    if fault is not None:
        return Refusal(ErrorCode.INVALID_TOPIC_EXCEPTION, f"The topic name {fault}.")
    unified = topic_names.unify_collisions(name)
    colliding = image.topics_by_unified_name.get(unified) if unified is not None else None
    if colliding:
        return Refusal(
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            f"Topic '{name}' collides with existing topic: {colliding[0]}",
        )
    return None


def _assignments(image: MetadataImage, topic: "CreatableTopic") -> list[Replicas] | Refusal:
    if topic.num_partitions != -1 or topic.replication_factor != -1:
        return Refusal(
            ErrorCode.INVALID_REQUEST,
            "Where replicas are assigned by hand, number of partitions and replication factor must both be -1.",
        )
    placed: dict[int, Replicas] = {}
    replication_factor = None
    for assignment in topic.assignments:
        partition, replicas = assignment.partition_index, tuple(assignment.broker_ids)
        if partition in placed:
            return Refusal(ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"Partition {partition} is assigned twice.")
        refusal = check_assignment(image, partition, replicas, replication_factor)
        if refusal is not None:
            return refusal
        replication_factor = len(replicas)
        placed[partition] = replicas
    if sorted(placed) != list(range(len(placed))):
        return Refusal(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT, "The assigned partitions are not numbered from 0 with no gap."
        )
    return [placed[partition] for partition in range(len(placed))]


def _placement(
    image: MetadataImage, topic: "CreatableTopic", config: BrokerConfig, placer: ReplicaPlacer
) -> list[Replicas] | Refusal:
    if topic.replication_factor < -1 or topic.replication_factor == 0:
        return Refusal(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"The replication factor is {topic.replication_factor}; it must be at least 1, or -1 for the default.",
        )
    if topic.num_partitions < -1 or topic.num_partitions == 0:
        return Refusal(
            ErrorCode.INVALID_PARTITIONS,
            f"The number of partitions is {topic.num_partitions}; it must be at least 1, or -1 for the default.",
        )
    partitions = config.num_partitions if topic.num_partitions == -1 else topic.num_partitions
    replication_factor = topic.replication_factor
    if replication_factor == -1:
        replication_factor = config.default_replication_factor
    return place(image, partitions, replication_factor, placer)


def delete_topics(image: MetadataImage, request: "DeleteTopicsRequest") -> Decision["DeleteTopicsResponse"]:
    """By name, or from version 6 on by id. What is named twice, in whichever way, is not deleted."""
    from barnabas.protocol.messages.delete_topics import DeleteTopicsResponse
    from barnabas.protocol.messages.remove_topic_record import RemoveTopicRecord

    results: list[DeletableTopicResult] = []
    found: dict[Uuid, None] = {}
    for name, topic_id, refusal in _resolve(image, request):
        if refusal is None:
            found[topic_id] = None
        results.append(_deleted(name, topic_id, refusal or Refusal(ErrorCode.NONE)))
    records = [RemoveTopicRecord(topic_id=topic_id) for topic_id in found]
    if len(records) > RECORDS_MAX:
        refusal = too_many(len(records))
        return Decision(
            [], DeleteTopicsResponse(responses=[_deleted(row.name, row.topic_id, refusal) for row in results])
        )
    return Decision(records, DeleteTopicsResponse(responses=results))


def _deleted(name: str | None, topic_id: Uuid, outcome: Refusal) -> "DeletableTopicResult":
    from barnabas.protocol.messages.delete_topics import DeletableTopicResult

    return DeletableTopicResult(name=name, topic_id=topic_id, error_code=outcome.error, error_message=outcome.message)


def _resolve(image: MetadataImage, request: "DeleteTopicsRequest") -> list[tuple[str | None, Uuid, Refusal | None]]:
    """One row for each topic asked for: its name and id, as far as there are, and what stands against its deletion."""
    asked: list[tuple[str | None, Uuid]] = [(name, ZERO_UUID) for name in request.topic_names]
    asked += [(topic.name, topic.topic_id) for topic in request.topics]
    rows: dict[tuple[str | None, Uuid], Refusal | None] = {}
    for key in asked:
        again = Refusal(ErrorCode.INVALID_REQUEST, "The topic is named twice.")
        rows[key] = again if key in rows else _check_deletable(image, *key)
    resolved: dict[tuple[str | None, Uuid], Refusal | None] = {}
    for (name, topic_id), refusal in rows.items():
        if refusal is None:
            topic = image.topics_by_name[name] if name is not None else image.topics_by_id[topic_id]
            name, topic_id = topic.name, topic.id
            if (name, topic_id) in resolved:
                refusal = Refusal(ErrorCode.INVALID_REQUEST, "The topic is named both by its name and by its id.")
        resolved[name, topic_id] = refusal
    return [(name, topic_id, refusal) for (name, topic_id), refusal in resolved.items()]


def _check_deletable(image: MetadataImage, name: str | None, topic_id: Uuid) -> Refusal | None:
    if name is None and topic_id == ZERO_UUID:
        return Refusal(ErrorCode.INVALID_REQUEST, "Neither a name nor an id is given.")
    if name is not None and topic_id != ZERO_UUID:
        return Refusal(ErrorCode.INVALID_REQUEST, "Both a name and an id are given.")
    if name is not None:
        known = name in image.topics_by_name
        return None if known else Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "There is no topic of this name.")
    known = topic_id in image.topics_by_id
    return None if known else Refusal(ErrorCode.UNKNOWN_TOPIC_ID, "There is no topic of this id.")

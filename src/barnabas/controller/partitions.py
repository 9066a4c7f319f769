"""New partitions: their replicas checked or chosen, their records, and CreatePartitions.

Always holds: a new partition's in-sync replicas are those of its replicas that are active, in the order of its
replicas, and the first of them leads. There is always one: otherwise the partition is refused.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from barnabas.controller.decision import RECORDS_MAX, Decision, Refusal
from barnabas.controller.placement import ReplicaPlacer, default_directory
from barnabas.errors import ErrorCode
from barnabas.metadata.image import MetadataImage, Replicas, TopicImage
from barnabas.protocol.message import Message
from barnabas.types import BrokerId, Uuid

if TYPE_CHECKING:
    from barnabas.protocol.messages.create_partitions import (
        CreatePartitionsRequest,
        CreatePartitionsResponse,
        CreatePartitionsTopic,
    )


def create_partitions(
    image: MetadataImage, request: "CreatePartitionsRequest", placer: ReplicaPlacer
) -> Decision["CreatePartitionsResponse"]:
    from barnabas.protocol.messages.create_partitions import CreatePartitionsResponse, CreatePartitionsTopicResult

    records: list[Message] = []
    outcomes: dict[str, Refusal] = {}
    names = [topic.name for topic in request.topics]
    for topic in request.topics:
        if names.count(topic.name) > 1:
            outcomes[topic.name] = Refusal(ErrorCode.INVALID_REQUEST, f"The topic {topic.name!r} is named twice.")
            continue
        decided = _partitions_of_topic(image, topic, placer)
        if isinstance(decided, Refusal):
            outcomes[topic.name] = decided
        else:
            outcomes[topic.name] = Refusal(ErrorCode.NONE)
            records += decided
    if len(records) > RECORDS_MAX:
        outcomes = dict.fromkeys(outcomes, too_many_partitions())
        records = []
    results = [
        CreatePartitionsTopicResult(name=name, error_code=outcome.error, error_message=outcome.message)
        for name, outcome in outcomes.items()
    ]
    return Decision([] if request.validate_only else records, CreatePartitionsResponse(results=results))


def _partitions_of_topic(
    image: MetadataImage, asked: "CreatePartitionsTopic", placer: ReplicaPlacer
) -> list[Message] | Refusal:
    topic = image.topics_by_name.get(asked.name)
    if topic is None:
        return Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    count = len(topic.partitions)
    added = asked.count - count
    if added <= 0:
        return Refusal(
            ErrorCode.INVALID_PARTITIONS,
            f"The topic {asked.name} currently has {count} partition(s); {asked.count} would not be an increase.",
        )
    if added > RECORDS_MAX:
        return too_many_partitions()
    if asked.assignments is None:
        placed = place(image, added, topic.replication_factor, placer)
    else:
        placed = _assigned(image, topic, [assignment.broker_ids for assignment in asked.assignments], added)
    if isinstance(placed, Refusal):
        return placed
    return partition_records(image, topic.id, count, placed)


def _assigned(
    image: MetadataImage, topic: TopicImage, assignments: Sequence[Sequence[BrokerId]], added: int
) -> list[Replicas] | Refusal:
    if len(assignments) != added:
        return Refusal(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"{added} partitions are to be added, but {len(assignments)} assignments are given.",
        )
    placed = [tuple(broker_ids) for broker_ids in assignments]
    for partition, replicas in enumerate(placed, start=len(topic.partitions)):
        refusal = check_assignment(image, partition, replicas, topic.replication_factor)
        if refusal is not None:
            return refusal
    return placed


def place(
    image: MetadataImage, partitions: int, replication_factor: int, placer: ReplicaPlacer
) -> list[Replicas] | Refusal:
    """Replicas as the placer chooses them."""
    placed = placer.place(image.brokers.values(), partitions, replication_factor)
    if isinstance(placed, str):
        return Refusal(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"Unable to replicate the partition {replication_factor} time(s): {placed}",
        )
    return placed


def check_assignment(
    image: MetadataImage, partition: int, replicas: Replicas, replication_factor: int | None
) -> Refusal | None:
    """Whether a partition may have the replicas that somebody wrote down; all partitions of a topic have as many."""
    if not replicas:
        fault = "has no replicas"
    elif len(set(replicas)) != len(replicas):
        fault = "names a broker twice"
    elif unknown := [broker_id for broker_id in replicas if broker_id not in image.brokers]:
        fault = f"names broker {unknown[0]}, which is not registered"
    elif replication_factor is not None and len(replicas) != replication_factor:
        fault = f"has {len(replicas)} replicas where other partitions have {replication_factor}"
    elif not any(image.brokers[broker_id].active for broker_id in replicas):
        fault = "has only replicas that are fenced or shutting down"
    else:
        return None
    return Refusal(ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"The assignment of partition {partition} {fault}.")


def partition_records(
    image: MetadataImage, topic_id: Uuid, first_partition: int, placed: Sequence[Replicas]
) -> list[Message]:
    """The records of new partitions, numbered from the first on."""
    from barnabas.protocol.messages.partition_record import PartitionRecord

    active = {broker.id for broker in image.brokers.values() if broker.active}
    directories = {broker_id: default_directory(image, broker_id) for broker_id in image.brokers}
    records: list[Message] = []
    for partition, replicas in enumerate(placed, start=first_partition):
        isr = [broker_id for broker_id in replicas if broker_id in active]
        assert isr, "a partition is placed where nobody can lead it"
        records.append(
            PartitionRecord(
                partition_id=partition,
                topic_id=topic_id,
                replicas=list(replicas),
                isr=isr,
                leader=isr[0],
                leader_epoch=0,
                partition_epoch=0,
                directories=[directories[broker_id] for broker_id in replicas],
            )
        )
    return records


def too_many_partitions() -> Refusal:
    return Refusal(ErrorCode.POLICY_VIOLATION, "Excessively large number of partitions per request.")


def too_many(records: int) -> Refusal:
    return Refusal(
        ErrorCode.POLICY_VIOLATION,
        f"The request asks for {records} changes of metadata; at most {RECORDS_MAX} may be made at once.",
    )

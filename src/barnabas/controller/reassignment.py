"""AlterPartitionReassignments and ListPartitionReassignments: replicas move from brokers to others.

    asked for    replicas: target, then those that go    adding: those that are new    removing: those that go
    in sync      replicas: target                        done: the change that brings the last new one in sync does it
    cancelled    replicas: as before                     those that were new are gone

Always holds: between asking and the end nobody is removed who may be needed; each partition of a request succeeds or
fails by itself. How a reassignment completes is in `partition_change`.
Differs from Kafka: where one reassignment turns into another, Kafka 4.3 may take a replica for one that comes and goes
at once, and then never ends; here `adding` and `removing` always are the differences to the replicas before the first.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from barnabas.controller.decision import RECORDS_MAX, Decision, Refusal
from barnabas.controller.electorate import Electorate, Place
from barnabas.controller.partition_change import Election, PartitionChange, without
from barnabas.controller.partitions import too_many
from barnabas.errors import ErrorCode
from barnabas.metadata.image import MetadataImage, PartitionImage, Replicas, TopicImage
from barnabas.protocol.message import Message
from barnabas.types import BrokerId

if TYPE_CHECKING:
    from barnabas.protocol.messages.alter_partition_reassignments import (
        AlterPartitionReassignmentsRequest,
        AlterPartitionReassignmentsResponse,
        ReassignablePartition,
    )
    from barnabas.protocol.messages.list_partition_reassignments import (
        ListPartitionReassignmentsRequest,
        ListPartitionReassignmentsResponse,
        OngoingTopicReassignment,
    )


def alter_reassignments(
    electorate: Electorate, request: "AlterPartitionReassignmentsRequest"
) -> Decision["AlterPartitionReassignmentsResponse"]:
    from barnabas.protocol.messages.alter_partition_reassignments import (
        AlterPartitionReassignmentsResponse,
        ReassignablePartitionResponse,
        ReassignableTopicResponse,
    )

    allow_factor_change = request.allow_replication_factor_change
    records: list[Message] = []
    responses: list[ReassignableTopicResponse] = []
    for topic in request.topics:
        answers: list[ReassignablePartitionResponse] = []
        for asked in topic.partitions:
            change = _change(electorate, topic.name, asked, allow_factor_change=allow_factor_change)
            refusal = change if isinstance(change, Refusal) else Refusal(ErrorCode.NONE)
            record = None if isinstance(change, Refusal) else change.record()
            if record is not None:
                records.append(record)
            answers.append(
                ReassignablePartitionResponse(
                    partition_index=asked.partition_index, error_code=refusal.error, error_message=refusal.message
                )
            )
        responses.append(ReassignableTopicResponse(name=topic.name, partitions=answers))
    if len(records) > RECORDS_MAX:
        refusal = too_many(len(records))
        return Decision(
            [], AlterPartitionReassignmentsResponse(error_code=refusal.error, error_message=refusal.message)
        )
    response = AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=allow_factor_change, error_message=None, responses=responses
    )
    return Decision(records, response)


def _change(
    electorate: Electorate, name: str, asked: "ReassignablePartition", *, allow_factor_change: bool
) -> PartitionChange | Refusal:
    topic = electorate.image.topics_by_name.get(name)
    if topic is None:
        return Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"There is no topic {name}.")
    if asked.partition_index not in topic.partitions:
        return Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"There is no partition {name}-{asked.partition_index}.")
    place = Place(topic, asked.partition_index)
    if asked.replicas is None:
        return _cancel(electorate, place)
    refusal = _check_target(electorate.image, asked.replicas)
    if refusal is None and not allow_factor_change:
        refusal = _check_factor(place.state, len(asked.replicas))
    return refusal or _reassign(electorate, place, tuple(asked.replicas))


def is_in_progress(state: PartitionImage) -> bool:
    return bool(state.adding_replicas or state.removing_replicas)


def _check_target(image: MetadataImage, replicas: Sequence[BrokerId]) -> Refusal | None:
    if not replicas:
        fault = "has no replicas"
    elif len(set(replicas)) != len(replicas):
        fault = "names a broker twice"
    elif unknown := [broker_id for broker_id in replicas if broker_id not in image.brokers]:
        fault = f"names broker {unknown[0]}, which is not registered"
    else:
        return None
    return Refusal(ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"The assignment {fault}.")


def _check_factor(state: PartitionImage, asked: int) -> Refusal | None:
    """What counts is how many replicas there will be when a reassignment under way is done."""
    present = len(without(state.replicas, state.removing_replicas))
    if asked == present:
        return None
    words = f"The replication factor would change from {present} to {asked}, which the request does not allow."
    return Refusal(ErrorCode.INVALID_REPLICATION_FACTOR, words)


def _reassign(electorate: Electorate, place: Place, target: tuple[BrokerId, ...]) -> PartitionChange:
    """A reassignment under way turns into this one: who was to come and is no longer wanted goes at once.

    Unless it holds what nobody else does: then it goes like others, when those that come are there.
    """
    state = place.state
    original = without(state.replicas, state.adding_replicas)
    unwanted = without(state.adding_replicas, target)
    change = electorate.change(place)
    if _holders(state) and not without(_holders(state), unwanted):
        original, unwanted = (*original, *unwanted), ()
    change.isr = without(state.isr, unwanted)
    change.adding = tuple(sorted(without(target, original)))
    change.removing = tuple(sorted(without(original, target)))
    change.replicas = (*target, *change.removing)
    return change


def _holders(state: PartitionImage) -> Replicas:
    """Who has what was committed, or as much of it as anybody."""
    return state.isr or state.eligible_leader_replicas or state.last_known_elr


def _cancel(electorate: Electorate, place: Place) -> PartitionChange | Refusal:
    state = place.state
    if not is_in_progress(state):
        return Refusal(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, "No reassignment of the partition is under way.")
    change = electorate.change(place)
    change.replicas = without(state.replicas, state.adding_replicas)
    change.isr = without(state.isr, state.adding_replicas)
    change.removing = change.adding = ()
    unclean_allowed = electorate.unclean_allowed(place.topic)
    if not without(_holders(state), state.adding_replicas):
        if not unclean_allowed:
            words = "Only replicas that are being added may lead: without them, records could be lost."
            return Refusal(ErrorCode.INVALID_REPLICA_ASSIGNMENT, words)
        change.isr = change.replicas[:1]
    if unclean_allowed:
        change.election = Election.UNCLEAN
    return change


def list_reassignments(
    image: MetadataImage, request: "ListPartitionReassignmentsRequest"
) -> "ListPartitionReassignmentsResponse":
    """What is under way: of the partitions named, or of all. What does not exist is left out."""
    from barnabas.protocol.messages.list_partition_reassignments import ListPartitionReassignmentsResponse

    asked: list[tuple[TopicImage, Sequence[int]]]
    if request.topics is None:
        asked = [(topic, list(topic.partitions)) for topic in image.topics_by_name.values()]
    else:
        known = (image.topics_by_name.get(topic.name) for topic in request.topics)
        asked = [
            (topic, named.partition_indexes)
            for topic, named in zip(known, request.topics, strict=True)
            if topic is not None
        ]
    found = [_ongoing(topic, numbers) for topic, numbers in asked]
    return ListPartitionReassignmentsResponse(error_message=None, topics=[topic for topic in found if topic.partitions])


def _ongoing(topic: TopicImage, numbers: Sequence[int]) -> "OngoingTopicReassignment":
    from barnabas.protocol.messages.list_partition_reassignments import (
        OngoingPartitionReassignment,
        OngoingTopicReassignment,
    )

    states = ((number, topic.partitions.get(number)) for number in numbers)
    return OngoingTopicReassignment(
        name=topic.name,
        partitions=[
            OngoingPartitionReassignment(
                partition_index=number,
                replicas=list(state.replicas),
                adding_replicas=list(state.adding_replicas),
                removing_replicas=list(state.removing_replicas),
            )
            for number, state in states
            if state is not None and is_in_progress(state)
        ],
    )

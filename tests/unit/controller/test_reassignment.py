"""Reassignments asked for, changed, cancelled and listed. Error codes are those of Apache Kafka 4.3.1."""

from typing import Any

import pytest
from images import after, broker, cluster, directory_of

from barnabas.config.broker import BrokerConfig
from barnabas.controller import reassignment
from barnabas.controller.electorate import Electorate
from barnabas.controller.features import AT_FORMAT
from barnabas.errors import ErrorCode
from barnabas.metadata.image import ConfigResource, MetadataImage, PartitionImage, ResourceType
from barnabas.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from barnabas.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from barnabas.protocol.messages.partition_record import PartitionRecord
from barnabas.protocol.messages.topic_record import TopicRecord
from barnabas.types import NO_LEADER

TOPIC = b"topic-----------"


def image_of(*, dead: tuple[int, ...] = (), unclean: bool = False, **fields: Any) -> MetadataImage:
    """Partition 0 of `topic` on brokers 1 and 2 of five."""
    defaults: dict[str, Any] = {"replicas": [1, 2], "isr": [1, 2], "leader": 1, "leader_epoch": 4, "partition_epoch": 7}
    defaults |= fields
    record = PartitionRecord(
        partition_id=0,
        topic_id=TOPIC,
        directories=[directory_of(each) for each in defaults["replicas"]],
        **defaults,
    )
    image = cluster(*(broker(each, fenced=each in dead) for each in range(1, 6)))._replace(features=AT_FORMAT)
    if unclean:
        overrides = {"unclean.leader.election.enable": "true"}
        image = image._replace(configs={ConfigResource(ResourceType.TOPIC, "topic"): overrides})
    return after(image, [TopicRecord(name="topic", topic_id=TOPIC), record])


def reassign(
    image: MetadataImage,
    *replicas: int,
    cancel: bool = False,
    topic: str = "topic",
    number: int = 0,
    allow_factor_change: bool = True,
) -> tuple[MetadataImage, int]:
    asked = ReassignablePartition(partition_index=number, replicas=None if cancel else list(replicas))
    request = AlterPartitionReassignmentsRequest(
        allow_replication_factor_change=allow_factor_change,
        topics=[ReassignableTopic(name=topic, partitions=[asked])],
    )
    decision = reassignment.alter_reassignments(Electorate(image, BrokerConfig({})), request)
    assert decision.response.error_code == ErrorCode.NONE
    assert decision.response.allow_replication_factor_change == allow_factor_change
    return after(image, decision.records), decision.response.responses[0].partitions[0].error_code


def partition_of(image: MetadataImage) -> PartitionImage:
    return image.topics_by_id[TOPIC].partitions[0]


def test_new_replicas_come_before_old_ones_go() -> None:
    image, error = reassign(image_of(), 3, 2)
    state = partition_of(image)
    assert error == ErrorCode.NONE
    assert (state.replicas, state.adding_replicas, state.removing_replicas) == ((3, 2, 1), (3,), (1,))
    assert (state.isr, state.leader, state.leader_epoch, state.partition_epoch) == ((1, 2), 1, 4, 8)
    assert state.directories == (directory_of(3), directory_of(2), directory_of(1))


def test_another_order_is_done_at_once() -> None:
    image, error = reassign(image_of(), 2, 1)
    state = partition_of(image)
    assert (error, state.replicas, state.leader, state.leader_epoch) == (ErrorCode.NONE, (2, 1), 1, 4)
    assert not reassignment.is_in_progress(state)


def test_the_same_replicas_change_nothing() -> None:
    before = image_of()
    image, error = reassign(before, 1, 2)
    assert error == ErrorCode.NONE
    assert partition_of(image) == partition_of(before)


def test_replicas_in_sync_go_at_once_in_a_new_leader_epoch() -> None:
    state = partition_of(reassign(image_of(), 2)[0])
    assert (state.replicas, state.isr, state.leader, state.leader_epoch) == ((2,), (2,), 2, 5)


def test_the_factor_may_grow_unless_that_is_forbidden() -> None:
    image, error = reassign(image_of(), 1, 2, 3)
    assert (error, partition_of(image).adding_replicas) == (ErrorCode.NONE, (3,))
    assert reassign(image, 1, 2, allow_factor_change=False)[1] == ErrorCode.INVALID_REPLICATION_FACTOR
    assert reassign(image, 3, 4, 5, allow_factor_change=False)[1] == ErrorCode.NONE
    assert reassign(image_of(), 1, 2, 3, allow_factor_change=False)[1] == ErrorCode.INVALID_REPLICATION_FACTOR
    assert reassign(image_of(), 3, 4, allow_factor_change=False)[1] == ErrorCode.NONE


@pytest.mark.parametrize(
    ("replicas", "fields", "error"),
    [
        ((1, 2), {"topic": "other"}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ((1, 2), {"number": 9}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ((), {"cancel": True}, ErrorCode.NO_REASSIGNMENT_IN_PROGRESS),
        ((), {}, ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ((1, 1), {}, ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ((1, 77), {}, ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ((-1,), {}, ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    ],
)
def test_what_cannot_be_done(replicas: tuple[int, ...], fields: dict[str, Any], error: ErrorCode) -> None:
    before = image_of()
    image, found = reassign(before, *replicas, **fields)
    assert found == error
    assert partition_of(image) == partition_of(before)


def test_to_brokers_that_are_away_it_waits() -> None:
    image, error = reassign(image_of(dead=(3,)), 3)
    assert error == ErrorCode.NONE
    assert (partition_of(image).replicas, partition_of(image).leader) == ((3, 1, 2), 1)


# A reassignment that is changed


def test_a_change_of_mind_back_to_where_it_was_ends_at_once() -> None:
    state = partition_of(reassign(reassign(image_of(dead=(3,)), 3, 2)[0], 1, 2)[0])
    assert (state.replicas, state.adding_replicas, state.removing_replicas) == ((1, 2), (), ())
    assert (state.leader, state.isr) == (1, (1, 2))


def test_who_is_no_longer_wanted_goes_at_once_and_the_rest_goes_on() -> None:
    state = partition_of(reassign(reassign(image_of(), 3, 4)[0], 4, 5)[0])
    assert (state.replicas, state.adding_replicas, state.removing_replicas) == ((4, 5, 1, 2), (4, 5), (1, 2))


def test_who_alone_is_in_sync_stays_until_others_are() -> None:
    moving = {"replicas": [3, 1, 2], "adding_replicas": [3], "removing_replicas": [1, 2]}
    image = image_of(**moving, isr=[3], leader=3, dead=(1, 2))
    state = partition_of(reassign(image, 4)[0])
    assert (state.replicas, state.adding_replicas, state.removing_replicas) == ((4, 1, 2, 3), (4,), (1, 2, 3))
    assert (state.leader, state.isr) == (3, (3,))
    gone = image_of(**moving, isr=[], leader=NO_LEADER, eligible_leader_replicas=[3], dead=(1, 2, 3))
    state = partition_of(reassign(gone, 4)[0])
    assert (state.replicas, state.eligible_leader_replicas) == ((4, 1, 2, 3), (3,))


# A reassignment that is cancelled


def test_a_cancelled_one_leaves_the_replicas_as_they_were() -> None:
    image, error = reassign(reassign(image_of(), 3, 2)[0], cancel=True)
    state = partition_of(image)
    assert (error, state.replicas, state.isr, state.leader) == (ErrorCode.NONE, (2, 1), (1, 2), 1)
    assert not reassignment.is_in_progress(state)
    assert state.leader_epoch == 5  # who was to come must notice


@pytest.mark.parametrize("unclean", [True, False])
def test_a_cancellation_that_would_lose_records_needs_leave(unclean: bool) -> None:
    moving = {"replicas": [3, 1], "adding_replicas": [3], "removing_replicas": [1], "isr": [3], "leader": 3}
    image, error = reassign(image_of(**moving, unclean=unclean), cancel=True)
    if unclean:
        assert (error, partition_of(image).leader) == (ErrorCode.NONE, 1)
    else:
        assert (error, partition_of(image).leader) == (ErrorCode.INVALID_REPLICA_ASSIGNMENT, 3)


def test_one_that_nobody_leads_is_cancelled_while_an_old_replica_is_eligible() -> None:
    moving = {"replicas": [3, 1], "adding_replicas": [3], "removing_replicas": [1]}
    gone = image_of(**moving, isr=[], leader=NO_LEADER, eligible_leader_replicas=[1, 3], dead=(1, 3))
    image, error = reassign(gone, cancel=True)
    state = partition_of(image)
    assert (error, state.replicas, state.eligible_leader_replicas) == (ErrorCode.NONE, (1,), (1,))


# What is under way


def listed(image: MetadataImage, *topics: tuple[str, list[int]], everything: bool = False) -> Any:
    asked = [ListPartitionReassignmentsTopics(name=name, partition_indexes=numbers) for name, numbers in topics]
    request = ListPartitionReassignmentsRequest(topics=None if everything else asked)
    response = reassignment.list_reassignments(image, request)
    assert response.error_code == ErrorCode.NONE
    return [
        (topic.name, each.partition_index, each.replicas, each.adding_replicas, each.removing_replicas)
        for topic in response.topics
        for each in topic.partitions
    ]


def test_what_is_under_way_is_listed() -> None:
    resting, moving = image_of(), reassign(image_of(), 3, 2)[0]
    assert listed(resting, everything=True) == []
    row = ("topic", 0, [3, 2, 1], [3], [1])
    assert listed(moving, everything=True) == [row]
    assert listed(moving, ("topic", [0, 9]), ("other", [0])) == [row]
    assert listed(moving, ("topic", [9])) == []
    assert listed(moving) == []

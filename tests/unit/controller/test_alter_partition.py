"""AlterPartition and AssignReplicasToDirs: who may change what, and what becomes of it."""

from typing import Any

import pytest
from images import after, broker, cluster, directory_of

from barnabas.config.broker import BrokerConfig
from barnabas.controller import alter_partition
from barnabas.controller.electorate import Electorate
from barnabas.controller.features import AT_FORMAT
from barnabas.errors import ErrorCode
from barnabas.metadata.image import DIRECTORY_LOST, MetadataImage, PartitionImage
from barnabas.protocol.messages import assign_replicas_to_dirs as directories
from barnabas.protocol.messages.alter_partition import (
    AlterPartitionRequest,
    BrokerState,
    RequestPartitionData,
    RequestTopicData,
)
from barnabas.protocol.messages.partition_record import PartitionRecord
from barnabas.protocol.messages.topic_record import TopicRecord
from barnabas.types import NO_LEADER

TOPIC = b"topic-----------"
CONFIG = BrokerConfig({"min.insync.replicas": "2"})


def image_of(*brokers: Any, **fields: Any) -> MetadataImage:
    """Partition 0 of `topic`, led by broker 1 in leader epoch 4 and partition epoch 7, all of 1, 2, 3 in sync."""
    defaults: dict[str, Any] = {
        "replicas": [1, 2, 3],
        "isr": [1, 2, 3],
        "leader": 1,
        "leader_epoch": 4,
        "partition_epoch": 7,
    }
    defaults |= fields
    record = PartitionRecord(
        partition_id=0,
        topic_id=TOPIC,
        directories=[directory_of(each) for each in defaults["replicas"]],
        **defaults,
    )
    known = {each: broker(each) for each in defaults["replicas"]} | {each.id: each for each in brokers}
    image = cluster(*known.values())._replace(features=AT_FORMAT)
    return after(image, [TopicRecord(name="topic", topic_id=TOPIC), record])


def partition_of(image: MetadataImage) -> PartitionImage:
    return image.topics_by_id[TOPIC].partitions[0]


def alter(
    image: MetadataImage, *isr: int | tuple[int, int], version: int = 3, **fields: Any
) -> tuple[MetadataImage, Any]:
    """Asked by broker 1, or another that the fields name. Members are ids, or ids with broker epochs."""
    members = [each if isinstance(each, tuple) else (each, -1) for each in isr]
    broker_id = fields.pop("broker_id", 1)
    broker_epoch = fields.pop("broker_epoch", broker_id * 10)
    topic_id = fields.pop("topic_id", TOPIC)
    asked = RequestPartitionData(**{"partition_index": 0, "leader_epoch": 4, "partition_epoch": 7, **fields})
    if version >= 3:
        asked.new_isr_with_epochs = [BrokerState(broker_id=each, broker_epoch=epoch) for each, epoch in members]
    else:
        asked.new_isr = [each for each, _epoch in members]
    request = AlterPartitionRequest(
        broker_id=broker_id,
        broker_epoch=broker_epoch,
        topics=[RequestTopicData(topic_id=topic_id, partitions=[asked])],
    )
    decision = alter_partition.alter_partition(Electorate(image, CONFIG), request, version)
    response = decision.response
    answer = response.topics[0].partitions[0] if response.topics else response
    return after(image, decision.records), answer


@pytest.mark.parametrize("version", [2, 3])
def test_the_leader_takes_out_and_in(version: int) -> None:
    image, answer = alter(image_of(), 1, 2, version=version)
    assert (answer.error_code, answer.leader_id, answer.isr) == (ErrorCode.NONE, 1, [1, 2])
    assert (answer.leader_epoch, answer.partition_epoch) == (4, 8)
    assert partition_of(image).isr == (1, 2)
    image, answer = alter(image, 1, 2, (3, 30), partition_epoch=8)
    assert (answer.error_code, answer.isr, answer.partition_epoch) == (ErrorCode.NONE, [1, 2, 3], 9)


def test_below_the_minimum_who_left_stays_eligible() -> None:
    image, _answer = alter(image_of(), 1)
    assert (partition_of(image).isr, partition_of(image).eligible_leader_replicas) == ((1,), (2, 3))
    image, _answer = alter(image, 1, 3, partition_epoch=8)
    assert (partition_of(image).isr, partition_of(image).eligible_leader_replicas) == ((1, 3), ())


def test_nothing_new_changes_nothing() -> None:
    before = image_of()
    image, answer = alter(before, 1, 2, 3)
    assert (answer.error_code, answer.isr, answer.partition_epoch) == (ErrorCode.NONE, [1, 2, 3], 7)
    assert partition_of(image) == partition_of(before)


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"topic_id": b"nothing---------"}, ErrorCode.UNKNOWN_TOPIC_ID),
        ({"partition_index": 9}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ({"leader_epoch": 5}, ErrorCode.NOT_CONTROLLER),
        ({"partition_epoch": 8}, ErrorCode.NOT_CONTROLLER),
        ({"leader_epoch": 3}, ErrorCode.FENCED_LEADER_EPOCH),
        ({"leader_epoch": 3, "partition_epoch": 8}, ErrorCode.NOT_CONTROLLER),
        ({"broker_id": 2}, ErrorCode.INVALID_REQUEST),
        ({"partition_epoch": 6}, ErrorCode.INVALID_UPDATE_VERSION),
        ({"leader_recovery_state": 1}, ErrorCode.INVALID_REQUEST),
        ({"leader_recovery_state": 2}, ErrorCode.INVALID_REQUEST),
        ({"broker_epoch": 9}, ErrorCode.STALE_BROKER_EPOCH),
        ({"broker_id": 7}, ErrorCode.STALE_BROKER_EPOCH),
    ],
)
def test_who_may_not_change_it(fields: dict[str, Any], error: ErrorCode) -> None:
    before = image_of()
    image, answer = alter(before, 1, 2, **fields)
    assert answer.error_code == error
    assert partition_of(image) == partition_of(before)


@pytest.mark.parametrize(
    ("isr", "error"),
    [
        ((1, 1), ErrorCode.INVALID_REQUEST),
        ((1, 7), ErrorCode.INVALID_REQUEST),
        ((2, 3), ErrorCode.INVALID_REQUEST),
        ((), ErrorCode.INVALID_REQUEST),
        ((1, (2, 19)), ErrorCode.INELIGIBLE_REPLICA),
        ((1, (2, 20)), ErrorCode.NONE),
        ((1, 4), ErrorCode.INELIGIBLE_REPLICA),
        ((1, 5), ErrorCode.INELIGIBLE_REPLICA),
        ((1, 6), ErrorCode.INELIGIBLE_REPLICA),
    ],
)
def test_who_can_be_in_sync(isr: tuple[Any, ...], error: ErrorCode) -> None:
    """4 is fenced, 5 shuts down, 6 is not registered."""
    image = image_of(broker(4, fenced=True), broker(5, in_controlled_shutdown=True), replicas=[1, 2, 3, 4, 5, 6])
    image = image._replace(brokers={each: found for each, found in image.brokers.items() if each != 6})
    assert alter(image, *isr)[1].error_code == error


def test_a_recovering_leader_is_alone_in_sync_until_it_has_recovered() -> None:
    before = image_of(isr=[1], leader_recovery_state=1)
    assert alter(before, 1, 2, leader_recovery_state=1)[1].error_code == ErrorCode.INVALID_REQUEST
    image, answer = alter(before, 1, 2, leader_recovery_state=0)
    assert (answer.error_code, answer.leader_recovery_state) == (ErrorCode.NONE, 0)
    assert (partition_of(image).isr, partition_of(image).leader_recovery_state) == ((1, 2), 0)


def test_the_last_to_come_completes_a_reassignment() -> None:
    before = image_of(replicas=[4, 1, 2], isr=[1, 2], adding_replicas=[4], removing_replicas=[2])
    image, answer = alter(before, 1, 2, 4)
    assert (answer.error_code, answer.isr, answer.leader_epoch) == (ErrorCode.NONE, [1, 4], 5)
    state = partition_of(image)
    assert (state.replicas, state.adding_replicas, state.removing_replicas) == ((4, 1), (), ())
    assert state.directories == (directory_of(4), directory_of(1))


def test_a_leader_that_is_reassigned_away_hears_that_another_was_elected() -> None:
    before = image_of(replicas=[4, 2, 1], isr=[1, 2], adding_replicas=[4], removing_replicas=[1])
    image, answer = alter(before, 1, 2, 4)
    assert answer.error_code == ErrorCode.NEW_LEADER_ELECTED
    state = partition_of(image)
    assert (state.replicas, state.leader, state.isr, state.leader_epoch) == ((4, 2), 4, (2, 4), 5)


def test_a_request_about_nothing_is_answered_without_a_look_at_who_asks() -> None:
    request = AlterPartitionRequest(broker_id=77, broker_epoch=1)
    decision = alter_partition.alter_partition(Electorate(image_of(), CONFIG), request, 3)
    assert (decision.response.error_code, decision.records) == (ErrorCode.NONE, [])


# Directories


def assign(
    image: MetadataImage, directory: bytes, *, broker_id: int = 1, topic_id: bytes = TOPIC, number: int = 0
) -> tuple[MetadataImage, int]:
    request = directories.AssignReplicasToDirsRequest(
        broker_id=broker_id,
        broker_epoch=broker_id * 10,
        directories=[
            directories.RequestDirectoryData(
                id=directory,
                topics=[
                    directories.RequestTopicData(
                        topic_id=topic_id, partitions=[directories.RequestPartitionData(partition_index=number)]
                    )
                ],
            )
        ],
    )
    decision = alter_partition.assign_replicas_to_dirs(Electorate(image, CONFIG), request)
    response = decision.response
    assert response.directories[0].id == directory
    return after(image, decision.records), response.directories[0].topics[0].partitions[0].error_code


def with_another_directory(directory: bytes) -> MetadataImage:
    return image_of(broker(1, directories=(directory_of(1), directory)))


def test_a_replica_moves_to_another_directory() -> None:
    other = b"other directory-"
    image, error = assign(with_another_directory(other), other)
    assert error == ErrorCode.NONE
    state = partition_of(image)
    assert (state.directories, state.leader, state.leader_epoch) == (
        (other, directory_of(2), directory_of(3)),
        1,
        4,
    )


@pytest.mark.parametrize("directory", [b"unknown---------", DIRECTORY_LOST])
def test_a_replica_in_a_directory_that_does_not_work_leads_nothing(directory: bytes) -> None:
    image, error = assign(image_of(), directory)
    assert error == ErrorCode.NONE
    state = partition_of(image)
    assert (state.leader, state.isr, state.directory(1)) == (2, (2, 3), directory)
    alone, _error = assign(image_of(replicas=[1], isr=[1]), directory)
    assert (partition_of(alone).leader, partition_of(alone).isr) == (NO_LEADER, ())


def test_assignments_that_do_not_fit() -> None:
    image = image_of(broker(4))
    assert assign(image, directory_of(1), topic_id=b"nothing---------")[1] == ErrorCode.UNKNOWN_TOPIC_ID
    assert assign(image, directory_of(1), number=9)[1] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert assign(image, directory_of(4), broker_id=4)[1] == ErrorCode.NOT_LEADER_OR_FOLLOWER
    request = directories.AssignReplicasToDirsRequest(broker_id=1, broker_epoch=9)
    decision = alter_partition.assign_replicas_to_dirs(Electorate(image, CONFIG), request)
    assert decision.response.error_code == ErrorCode.STALE_BROKER_EPOCH

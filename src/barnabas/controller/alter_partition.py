"""AlterPartition: a leader asks for other in-sync replicas. AssignReplicasToDirs: a broker says where replicas lie.

Always holds: only the leader of the present leader epoch, who has seen the last change of its partition, changes who is
in sync; and nobody gets in sync who is fenced, shuts down, or is another incarnation than the leader believes
(KIP-841, KIP-903). The leader itself stays in sync.
"""

from typing import TYPE_CHECKING

from barnabas.controller.brokers import check_epoch
from barnabas.controller.decision import Decision, Refusal
from barnabas.controller.electorate import Electorate, Place
from barnabas.controller.partition_change import NO_LEADER_CHANGE, RECOVERED, RECOVERING, Election
from barnabas.errors import ErrorCode
from barnabas.metadata.apply import changed_partition
from barnabas.metadata.image import BrokerImage, PartitionImage, TopicImage
from barnabas.protocol.message import Message
from barnabas.types import BrokerId, Uuid

if TYPE_CHECKING:
    from barnabas.protocol.messages.alter_partition import (
        AlterPartitionRequest,
        AlterPartitionResponse,
        RequestPartitionData,
        ResponsePartitionData,
    )
    from barnabas.protocol.messages.assign_replicas_to_dirs import (
        AssignReplicasToDirsRequest,
        AssignReplicasToDirsResponse,
    )

ANY_EPOCH = -1  # the leader does not know the broker's epoch
EPOCHS_SINCE_VERSION = 3


def alter_partition(
    electorate: Electorate, request: "AlterPartitionRequest", version: int
) -> Decision["AlterPartitionResponse"]:
    from barnabas.protocol.messages.alter_partition import (
        AlterPartitionResponse,
        BrokerState,
        ResponsePartitionData,
        ResponseTopicData,
    )

    if not request.topics:
        return Decision([], AlterPartitionResponse())
    broker = check_epoch(electorate.image, request.broker_id, request.broker_epoch)
    if isinstance(broker, Refusal):
        return Decision([], AlterPartitionResponse(error_code=broker.error))
    records: list[Message] = []
    topics: list[ResponseTopicData] = []
    for topic_data in request.topics:
        topic = electorate.image.topics_by_id.get(topic_data.topic_id)
        answers: list[ResponsePartitionData] = []
        for asked in topic_data.partitions:
            if version < EPOCHS_SINCE_VERSION:
                asked.new_isr_with_epochs = [BrokerState(broker_id=each) for each in asked.new_isr]
            error = _check(electorate, broker.id, topic, asked)
            if topic is None or error != ErrorCode.NONE:
                answers.append(ResponsePartitionData(partition_index=asked.partition_index, error_code=error))
            else:
                answers.append(_alter(electorate, broker.id, topic, asked, records))
        topics.append(ResponseTopicData(topic_id=topic_data.topic_id, partitions=answers))
    return Decision(records, AlterPartitionResponse(topics=topics))


def _check(
    electorate: Electorate, broker_id: BrokerId, topic: TopicImage | None, asked: "RequestPartitionData"
) -> ErrorCode:
    if topic is None:
        return ErrorCode.UNKNOWN_TOPIC_ID
    state = topic.partitions.get(asked.partition_index)
    if state is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if asked.leader_epoch > state.leader_epoch or asked.partition_epoch > state.partition_epoch:
        return ErrorCode.NOT_CONTROLLER  # the leader knows more: another is the active controller by now
    if asked.leader_epoch < state.leader_epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    if broker_id != state.leader:
        return ErrorCode.INVALID_REQUEST
    if asked.partition_epoch < state.partition_epoch:
        return ErrorCode.INVALID_UPDATE_VERSION
    return _check_isr(electorate, state, asked)


def _check_isr(electorate: Electorate, state: PartitionImage, asked: "RequestPartitionData") -> ErrorCode:
    isr = [member.broker_id for member in asked.new_isr_with_epochs]
    if len(set(isr)) != len(isr) or not set(isr) <= set(state.replicas) or state.leader not in isr:
        return ErrorCode.INVALID_REQUEST
    if asked.leader_recovery_state not in (RECOVERED, RECOVERING):
        return ErrorCode.INVALID_REQUEST
    if asked.leader_recovery_state == RECOVERING and (len(isr) > 1 or state.leader_recovery_state == RECOVERED):
        return ErrorCode.INVALID_REQUEST
    for member in asked.new_isr_with_epochs:
        registered = electorate.image.brokers.get(member.broker_id)
        if registered is None or not registered.active:
            return ErrorCode.INELIGIBLE_REPLICA
        if member.broker_epoch not in (ANY_EPOCH, registered.epoch):
            return ErrorCode.INELIGIBLE_REPLICA
    return ErrorCode.NONE


def _alter(
    electorate: Electorate,
    broker_id: BrokerId,
    topic: TopicImage,
    asked: "RequestPartitionData",
    records: list[Message],
) -> "ResponsePartitionData":
    from barnabas.protocol.messages.alter_partition import ResponsePartitionData

    place = Place(topic, asked.partition_index)
    change = electorate.change(place)
    change.isr = tuple(member.broker_id for member in asked.new_isr_with_epochs)
    change.leader_recovery_state = asked.leader_recovery_state
    if electorate.unclean_allowed(topic):
        change.election = Election.UNCLEAN
    record = change.record()
    state = place.state
    if record is not None:
        records.append(record)
        state = changed_partition(state, record)
        if record.leader not in (broker_id, NO_LEADER_CHANGE):
            # It completed a reassignment in which the leader itself goes. The change stands all the same.
            return ResponsePartitionData(partition_index=asked.partition_index, error_code=ErrorCode.NEW_LEADER_ELECTED)
    return ResponsePartitionData(
        partition_index=asked.partition_index,
        leader_id=state.leader,
        leader_epoch=state.leader_epoch,
        isr=list(state.isr),
        leader_recovery_state=state.leader_recovery_state,
        partition_epoch=state.partition_epoch,
    )


# Directories of replicas (KIP-858)


def assign_replicas_to_dirs(
    electorate: Electorate, request: "AssignReplicasToDirsRequest"
) -> Decision["AssignReplicasToDirsResponse"]:
    """A replica in a directory that does not work is neither leader nor in sync, from the same change on."""
    from barnabas.protocol.messages.assign_replicas_to_dirs import (
        AssignReplicasToDirsResponse,
        ResponseDirectoryData,
        ResponsePartitionData,
        ResponseTopicData,
    )

    broker = check_epoch(electorate.image, request.broker_id, request.broker_epoch)
    if isinstance(broker, Refusal):
        return Decision([], AssignReplicasToDirsResponse(error_code=broker.error))
    records: list[Message] = []
    directories: list[ResponseDirectoryData] = []
    for directory in request.directories:
        topics: list[ResponseTopicData] = []
        for topic in directory.topics:
            answers = [
                ResponsePartitionData(
                    partition_index=asked.partition_index,
                    error_code=_assign(
                        electorate, broker, directory.id, topic.topic_id, asked.partition_index, records
                    ),
                )
                for asked in topic.partitions
            ]
            topics.append(ResponseTopicData(topic_id=topic.topic_id, partitions=answers))
        directories.append(ResponseDirectoryData(id=directory.id, topics=topics))
    return Decision(records, AssignReplicasToDirsResponse(directories=directories))


def _assign(
    electorate: Electorate,
    broker: BrokerImage,
    directory: Uuid,
    topic_id: Uuid,
    number: int,
    records: list[Message],
) -> ErrorCode:
    topic = electorate.image.topics_by_id.get(topic_id)
    if topic is None:
        return ErrorCode.UNKNOWN_TOPIC_ID
    state = topic.partitions.get(number)
    if state is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if broker.id not in state.replicas:
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    works = electorate.is_online(broker.id, directory)
    change = electorate.change(
        Place(topic, number),
        is_alive=lambda broker_id: electorate.is_active(broker_id) and (works or broker_id != broker.id),
    )
    change.directories[broker.id] = directory
    if not works:
        change.isr = tuple(replica for replica in state.isr if replica != broker.id)
        if electorate.unclean_allowed(topic):
            change.election = Election.UNCLEAN
    record = change.record()
    if record is not None:
        records.append(record)
    return ErrorCode.NONE

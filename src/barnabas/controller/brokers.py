"""Brokers and controllers come and go: registration, and the partitions of a broker that is back.

Always holds: a broker's epoch is the offset at which its registration was decided, so a later incarnation always has
the larger one. It registers fenced, and is unfenced once it has caught up with the log.
"""

from typing import NamedTuple

from barnabas.controller import features
from barnabas.controller.decision import Decision, Refusal
from barnabas.errors import ErrorCode
from barnabas.metadata.image import NO_LEADER, BrokerImage, Endpoint, MetadataImage, PartitionImage
from barnabas.protocol.message import Message
from barnabas.types import BrokerId, Offset, Uuid

FENCE, UNFENCE = 1, -1  # as BrokerRegistrationChangeRecord has them


class Registration(NamedTuple):
    """What a starting broker says of itself."""

    broker_id: BrokerId
    incarnation_id: Uuid
    endpoints: tuple[Endpoint, ...]
    rack: str | None
    directories: tuple[Uuid, ...]


def check_epoch(image: MetadataImage, broker_id: BrokerId, broker_epoch: int) -> BrokerImage | Refusal:
    """Only the present incarnation of a broker is listened to."""
    broker = image.brokers.get(broker_id)
    if broker is None:
        return Refusal(ErrorCode.STALE_BROKER_EPOCH, f"Broker {broker_id} is not registered.")
    if broker.epoch != broker_epoch:
        words = f"Broker {broker_id} is registered in epoch {broker.epoch}, not {broker_epoch}."
        return Refusal(ErrorCode.STALE_BROKER_EPOCH, words)
    return broker


def register_broker(image: MetadataImage, registration: Registration, next_offset: Offset) -> Decision[int | Refusal]:
    """The response is the broker's epoch. The same incarnation asking again keeps its epoch and its state."""
    from barnabas.protocol.messages.register_broker_record import BrokerEndpoint, BrokerFeature, RegisterBrokerRecord

    for other in image.brokers.values():
        if other.id != registration.broker_id and set(other.directories) & set(registration.directories):
            refusal = f"Broker {other.id} is registered with one of these directories already."
            return Decision([], Refusal(ErrorCode.INVALID_REGISTRATION, refusal))
    before = image.brokers.get(registration.broker_id)
    again = before is not None and before.incarnation_id == registration.incarnation_id
    epoch = before.epoch if before is not None and again else next_offset
    record = RegisterBrokerRecord(
        broker_id=registration.broker_id,
        incarnation_id=registration.incarnation_id,
        broker_epoch=epoch,
        end_points=[
            BrokerEndpoint(
                name=endpoint.listener,
                host=endpoint.host,
                port=endpoint.port,
                security_protocol=endpoint.security_protocol,
            )
            for endpoint in registration.endpoints
        ],
        features=[
            BrokerFeature(
                name=feature.name,
                min_supported_version=feature.min_version,
                max_supported_version=feature.max_version,
            )
            for feature in features.SUPPORTED
        ],
        rack=registration.rack,
        fenced=before.fenced if before is not None and again else True,
        in_controlled_shutdown=before.in_controlled_shutdown if before is not None and again else False,
        log_dirs=list(registration.directories),
    )
    return Decision([record], epoch)


def unfence_broker(image: MetadataImage, broker_id: BrokerId, broker_epoch: int) -> Decision[ErrorCode]:
    """The broker has read the log: it may lead again.

    It leads, in a new leader epoch, each partition that it led when it went away and each that nobody leads and that
    it may lead. The new epoch is due even though nobody else led in between: records that were never flushed may be
    lost with the old incarnation, and consumers find that out by the epoch (KIP-320). Kafka writes two changes for
    it, leader gone and leader back; here they are one.
    """
    from barnabas.protocol.messages.broker_registration_change_record import BrokerRegistrationChangeRecord
    from barnabas.protocol.messages.partition_change_record import PartitionChangeRecord

    broker = image.brokers.get(broker_id)
    if broker is None:
        return Decision([], ErrorCode.BROKER_ID_NOT_REGISTERED)
    if broker.epoch != broker_epoch:
        return Decision([], ErrorCode.STALE_BROKER_EPOCH)
    if not broker.fenced:
        return Decision([], ErrorCode.NONE)
    records: list[Message] = [
        BrokerRegistrationChangeRecord(broker_id=broker_id, broker_epoch=broker_epoch, fenced=UNFENCE)
    ]
    for topic in image.topics_by_name.values():
        for number, state in topic.partitions.items():
            if may_lead_again(state, broker_id):
                change = PartitionChangeRecord(partition_id=number, topic_id=topic.id, leader=broker_id)
                if broker_id not in state.isr:
                    change.isr = [broker_id]
                if state.eligible_leader_replicas:
                    change.eligible_leader_replicas = []
                if state.last_known_elr:
                    change.last_known_elr = []
                records.append(change)
    return Decision(records, ErrorCode.NONE)


def may_lead_again(partition: PartitionImage, broker_id: BrokerId) -> bool:
    if partition.leader == broker_id:
        return True
    return partition.leader == NO_LEADER and (
        broker_id in partition.isr or broker_id in partition.eligible_leader_replicas
    )


def register_controller(
    image: MetadataImage, controller_id: BrokerId, incarnation_id: Uuid, endpoints: tuple[Endpoint, ...]
) -> Decision[None]:
    from barnabas.protocol.messages.register_controller_record import (
        ControllerEndpoint,
        ControllerFeature,
        RegisterControllerRecord,
    )

    record = RegisterControllerRecord(
        controller_id=controller_id,
        incarnation_id=incarnation_id,
        zk_migration_ready=False,
        end_points=[
            ControllerEndpoint(
                name=endpoint.listener,
                host=endpoint.host,
                port=endpoint.port,
                security_protocol=endpoint.security_protocol,
            )
            for endpoint in endpoints
        ],
        features=[
            ControllerFeature(
                name=feature.name,
                min_supported_version=feature.min_version,
                max_supported_version=feature.max_version,
            )
            for feature in features.SUPPORTED
        ],
    )
    return Decision([record], None)

"""An image as the records that make it: what a snapshot of the metadata log holds.

Always holds: applied to the empty image, in this order, they give the same image, in which topics stand in the same
order again. The order of kinds is Kafka's: features first, because they say how the rest is to be read.
Does not know: files, batches, versions of records.
"""

from collections.abc import Iterator

from barnabas.metadata.image import (
    BrokerImage,
    ControllerImage,
    Endpoint,
    MetadataImage,
    PartitionImage,
    TopicImage,
)
from barnabas.protocol.message import Message

METADATA_VERSION = "metadata.version"


def records(image: MetadataImage) -> Iterator[Message]:
    yield from _features(image)
    for broker in image.brokers.values():
        yield _broker(broker)
    for controller in image.controllers.values():
        yield _controller(controller)
    for topic in image.topics_by_name.values():
        yield from _topic(topic)
    yield from _configs(image)
    yield from _client_quotas(image)
    if image.next_producer_id > 0:
        from barnabas.protocol.messages.producer_ids_record import ProducerIdsRecord

        # Who asked for the last block does not matter any more.
        yield ProducerIdsRecord(broker_id=-1, broker_epoch=-1, next_producer_id=image.next_producer_id)


def _features(image: MetadataImage) -> Iterator[Message]:
    from barnabas.protocol.messages.feature_level_record import FeatureLevelRecord

    for name in sorted(image.features, key=lambda name: name != METADATA_VERSION):  # the rest as it is
        yield FeatureLevelRecord(name=name, feature_level=image.features[name])


def _broker(broker: BrokerImage) -> Message:
    from barnabas.protocol.messages.register_broker_record import BrokerEndpoint, BrokerFeature, RegisterBrokerRecord

    return RegisterBrokerRecord(
        broker_id=broker.id,
        incarnation_id=broker.incarnation_id,
        broker_epoch=broker.epoch,
        end_points=[
            BrokerEndpoint(name=each.listener, host=each.host, port=each.port, security_protocol=each.security_protocol)
            for each in broker.endpoints
        ],
        features=[
            BrokerFeature(name=name, min_supported_version=levels.min, max_supported_version=levels.max)
            for name, levels in broker.features.items()
        ],
        rack=broker.rack,
        fenced=broker.fenced,
        in_controlled_shutdown=broker.in_controlled_shutdown,
        log_dirs=list(broker.directories),
        cordoned_log_dirs=list(broker.cordoned_directories) or None,
    )


def _controller(controller: ControllerImage) -> Message:
    from barnabas.protocol.messages.register_controller_record import (
        ControllerEndpoint,
        ControllerFeature,
        RegisterControllerRecord,
    )

    def endpoint(each: Endpoint) -> ControllerEndpoint:
        return ControllerEndpoint(
            name=each.listener, host=each.host, port=each.port, security_protocol=each.security_protocol
        )

    return RegisterControllerRecord(
        controller_id=controller.id,
        incarnation_id=controller.incarnation_id,
        zk_migration_ready=False,
        end_points=[endpoint(each) for each in controller.endpoints],
        features=[
            ControllerFeature(name=name, min_supported_version=levels.min, max_supported_version=levels.max)
            for name, levels in controller.features.items()
        ],
    )


def _topic(topic: TopicImage) -> Iterator[Message]:
    from barnabas.protocol.messages.topic_record import TopicRecord

    yield TopicRecord(name=topic.name, topic_id=topic.id)
    for number, state in topic.partitions.items():
        yield _partition(topic, number, state)


def _partition(topic: TopicImage, number: int, state: PartitionImage) -> Message:
    from barnabas.protocol.messages.partition_record import PartitionRecord

    return PartitionRecord(
        partition_id=number,
        topic_id=topic.id,
        replicas=list(state.replicas),
        isr=list(state.isr),
        removing_replicas=list(state.removing_replicas),
        adding_replicas=list(state.adding_replicas),
        leader=state.leader,
        leader_recovery_state=state.leader_recovery_state,
        leader_epoch=state.leader_epoch,
        partition_epoch=state.partition_epoch,
        directories=list(state.directories),
        eligible_leader_replicas=list(state.eligible_leader_replicas) or None,
        last_known_elr=list(state.last_known_elr) or None,
    )


def _configs(image: MetadataImage) -> Iterator[Message]:
    from barnabas.protocol.messages.config_record import ConfigRecord

    for resource, configs in image.configs.items():
        for name, value in configs.items():
            yield ConfigRecord(resource_type=resource.type, resource_name=resource.name, name=name, value=value)


def _client_quotas(image: MetadataImage) -> Iterator[Message]:
    from barnabas.protocol.messages.client_quota_record import ClientQuotaRecord, EntityData

    for entity, quotas in image.client_quotas.items():
        for key, value in quotas.items():
            named = [EntityData(entity_type=kind, entity_name=name) for kind, name in entity]
            yield ClientQuotaRecord(entity=named, key=key, value=value, remove=False)

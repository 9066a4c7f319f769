"""Records applied to an image: the only way in which the state of the cluster changes, live and at replay alike.

Always holds: the image that one starts from is never changed; each of its dictionaries is copied at most once per
builder, and only if a record touches it. Records between BeginTransaction and EndTransaction count from the end on,
all together, or never (KIP-868).
Does not know: where records come from. A record that contradicts the image is a bug or a foreign log: it raises.
"""

from collections.abc import Callable, Iterable
from typing import Any

from barnabas.metadata import topic_names
from barnabas.metadata.delta import MetadataDelta, diff_of
from barnabas.metadata.image import (
    DIRECTORY_MIGRATING,
    EMPTY,
    BrokerImage,
    ConfigResource,
    ControllerImage,
    Endpoint,
    MetadataImage,
    PartitionImage,
    ResourceType,
    TopicImage,
    VersionRange,
)
from barnabas.protocol.metadata_records import RecordType
from barnabas.types import BrokerId, LeaderEpoch, Offset, Uuid

NO_LEADER_CHANGE = -2


class UnexpectedRecord(Exception):
    """The log holds a record that does not fit the image, or one that this version cannot keep."""


def apply(
    image: MetadataImage,
    records: Iterable[Any],
    *,
    offset: Offset,
    leader_epoch: LeaderEpoch = 0,
    timestamp_ms: int = 0,
) -> tuple[MetadataImage, MetadataDelta]:
    """The image after these records, and what they changed. `offset` is that of the last record."""
    builder = ImageBuilder(image)
    for record in records:
        builder.apply(record)
    return builder.build(offset=offset, leader_epoch=leader_epoch, timestamp_ms=timestamp_ms)


class ImageBuilder:
    """One image in the making. A replay of the whole log takes a single builder, so that it costs no copies."""

    def __init__(self, base: MetadataImage = EMPTY) -> None:
        self.base = base
        # Copies of the base's dictionaries, made when first touched; until then the base's own.
        self._topics_by_name: Any = base.topics_by_name
        self._topics_by_id: Any = base.topics_by_id
        self._unified_names: Any = base.topics_by_unified_name
        self._brokers: Any = base.brokers
        self._controllers: Any = base.controllers
        self._configs: Any = base.configs
        self._features: Any = base.features
        self._next_producer_id = base.next_producer_id
        self._client_quotas: Any = base.client_quotas
        # What was touched, in order: values are the partitions' and configs' own copies, None where removed.
        self._partitions: dict[Uuid, dict[int, PartitionImage] | None] = {}
        self._resources: dict[ConfigResource, None] = {}
        self._broker_ids: dict[BrokerId, None] = {}
        self._transaction: list[Any] | None = None  # records since BeginTransaction
        self._built = False

    @property
    def transaction_open(self) -> bool:
        return self._transaction is not None

    def apply(self, record: Any) -> None:
        assert not self._built
        record_type = record.API_KEY
        if record_type in _TRANSACTION_TYPES:
            self._apply_transaction(record_type)
        elif self._transaction is not None:
            self._transaction.append(record)
        else:
            function = _FUNCTIONS.get(record_type)
            if function is None:
                raise UnexpectedRecord(f"{type(record).__name__} cannot be kept by this version")
            function(self, record)

    def build(
        self, *, offset: Offset, leader_epoch: LeaderEpoch, timestamp_ms: int
    ) -> tuple[MetadataImage, MetadataDelta]:
        """Ends this builder: from here on the image owns what it made."""
        assert not self._built
        self._built = True
        for topic_id, partitions in self._partitions.items():
            if partitions is not None:
                name = self._topics_by_id[topic_id].name
                topic = TopicImage(name, topic_id, partitions)
                self._topics_by_id[topic_id] = self._topics_by_name[name] = topic
        image = MetadataImage(
            offset=offset,
            leader_epoch=leader_epoch,
            timestamp_ms=timestamp_ms,
            topics_by_name=self._topics_by_name,
            topics_by_id=self._topics_by_id,
            topics_by_unified_name=self._unified_names,
            brokers=self._brokers,
            controllers=self._controllers,
            configs=self._configs,
            features=self._features,
            next_producer_id=self._next_producer_id,
            client_quotas=self._client_quotas,
        )
        return image, diff_of(self.base, image, self._partitions, self._broker_ids, self._resources)

    # Transactions

    def _apply_transaction(self, record_type: int) -> None:
        if record_type == RecordType.BEGIN_TRANSACTION:
            if self._transaction is not None:
                raise UnexpectedRecord("a metadata transaction begins within another")
            self._transaction = []
            return
        if self._transaction is None:
            raise UnexpectedRecord("a metadata transaction ends that never began")
        records, self._transaction = self._transaction, None
        if record_type == RecordType.END_TRANSACTION:
            for record in records:
                self.apply(record)

    # Topics and partitions

    def topic(self, record: Any) -> None:
        if record.name in self._topics_by_name or record.topic_id in self._topics_by_id:
            raise UnexpectedRecord(f"topic {record.name} is created where it exists")
        self._own_topics()
        topic = TopicImage(record.name, record.topic_id, {})
        self._topics_by_name[record.name] = self._topics_by_id[record.topic_id] = topic
        self._partitions[record.topic_id] = {}
        unified = topic_names.unify_collisions(record.name)
        if unified is not None:
            self._unified_names = self._own(self._unified_names, self.base.topics_by_unified_name)
            self._unified_names[unified] = (*self._unified_names.get(unified, ()), record.name)

    def remove_topic(self, record: Any) -> None:
        self._own_topics()
        topic = self._topics_by_id.pop(record.topic_id, None)
        if topic is None:
            raise UnexpectedRecord(f"topic {record.topic_id.hex()} is removed where it does not exist")
        del self._topics_by_name[topic.name]
        self._partitions[record.topic_id] = None
        self._remove_resource(ConfigResource(ResourceType.TOPIC, topic.name))
        unified = topic_names.unify_collisions(topic.name)
        if unified is not None:
            self._unified_names = self._own(self._unified_names, self.base.topics_by_unified_name)
            left = tuple(name for name in self._unified_names[unified] if name != topic.name)
            if left:
                self._unified_names[unified] = left
            else:
                del self._unified_names[unified]

    def partition(self, record: Any) -> None:
        replicas = tuple(record.replicas)
        isr = tuple(record.isr)
        self._partitions_of(record.topic_id)[record.partition_id] = PartitionImage(
            replicas=replicas,
            isr=replicas if isr == replicas else isr,  # one tuple for both: there may be very many partitions
            leader=record.leader,
            leader_epoch=record.leader_epoch,
            partition_epoch=record.partition_epoch,
            directories=tuple(record.directories) or (DIRECTORY_MIGRATING,) * len(replicas),
            removing_replicas=tuple(record.removing_replicas),
            adding_replicas=tuple(record.adding_replicas),
            eligible_leader_replicas=tuple(record.eligible_leader_replicas or ()),
            last_known_elr=tuple(record.last_known_elr or ()),
            leader_recovery_state=record.leader_recovery_state,
        )

    def partition_change(self, record: Any) -> None:
        partitions = self._partitions_of(record.topic_id)
        before = partitions.get(record.partition_id)
        if before is None:
            raise UnexpectedRecord(
                f"partition {record.topic_id.hex()}-{record.partition_id} changes but does not exist"
            )
        partitions[record.partition_id] = changed_partition(before, record)

    def clear_elr(self, record: Any) -> None:
        """Of one topic, or of all where it names none."""
        if record.topic_name and record.topic_name not in self._topics_by_name:
            raise UnexpectedRecord(f"topic {record.topic_name} loses its eligible leaders but does not exist")
        topics = self._topics_by_name
        for topic in [topics[record.topic_name]] if record.topic_name else list(topics.values()):
            partitions = self._partitions_of(topic.id)
            for number, state in partitions.items():
                if state.eligible_leader_replicas or state.last_known_elr:
                    partitions[number] = state._replace(eligible_leader_replicas=(), last_known_elr=())

    def _partitions_of(self, topic_id: Uuid) -> dict[int, PartitionImage]:
        own = self._partitions.get(topic_id)
        if own is None:
            topic = self._topics_by_id.get(topic_id)
            if topic is None:
                raise UnexpectedRecord(f"a partition belongs to topic {topic_id.hex()}, which does not exist")
            self._own_topics()
            own = self._partitions[topic_id] = dict(topic.partitions)
        return own

    def _own_topics(self) -> None:
        self._topics_by_name = self._own(self._topics_by_name, self.base.topics_by_name)
        self._topics_by_id = self._own(self._topics_by_id, self.base.topics_by_id)

    # Brokers and controllers

    def register_broker(self, record: Any) -> None:
        self._put_broker(
            BrokerImage(
                id=record.broker_id,
                epoch=record.broker_epoch,
                incarnation_id=record.incarnation_id,
                endpoints=_endpoints(record),
                features=_features(record),
                rack=record.rack,
                fenced=record.fenced,
                in_controlled_shutdown=record.in_controlled_shutdown,
                directories=tuple(record.log_dirs),
                cordoned_directories=tuple(record.cordoned_log_dirs or ()),
            )
        )

    def unregister_broker(self, record: Any) -> None:
        broker = self._registered(record.broker_id, record.broker_epoch)
        self._brokers = self._own(self._brokers, self.base.brokers)
        del self._brokers[broker.id]
        self._broker_ids[broker.id] = None

    def broker_registration_change(self, record: Any) -> None:
        broker = self._registered(record.broker_id, record.broker_epoch)
        if record.fenced:
            broker = broker._replace(fenced=record.fenced > 0)
        if record.in_controlled_shutdown:
            broker = broker._replace(in_controlled_shutdown=record.in_controlled_shutdown > 0)
        if record.log_dirs:
            broker = broker._replace(directories=tuple(record.log_dirs))
        if record.cordoned_log_dirs is not None:
            broker = broker._replace(cordoned_directories=tuple(record.cordoned_log_dirs))
        self._put_broker(broker)

    def fence_broker(self, record: Any) -> None:
        self._put_broker(self._registered(record.id, record.epoch)._replace(fenced=True))

    def unfence_broker(self, record: Any) -> None:
        self._put_broker(self._registered(record.id, record.epoch)._replace(fenced=False))

    def register_controller(self, record: Any) -> None:
        self._controllers = self._own(self._controllers, self.base.controllers)
        self._controllers[record.controller_id] = ControllerImage(
            id=record.controller_id,
            incarnation_id=record.incarnation_id,
            endpoints=_endpoints(record),
            features=_features(record),
        )

    def _registered(self, broker_id: BrokerId, epoch: int) -> BrokerImage:
        broker: BrokerImage | None = self._brokers.get(broker_id)
        if broker is None or broker.epoch != epoch:
            raise UnexpectedRecord(f"broker {broker_id} changes in epoch {epoch}, in which it is not registered")
        return broker

    def _put_broker(self, broker: BrokerImage) -> None:
        self._brokers = self._own(self._brokers, self.base.brokers)
        self._brokers[broker.id] = broker
        self._broker_ids[broker.id] = None

    # Configs, features, producer ids, quotas

    def config(self, record: Any) -> None:
        resource = ConfigResource(record.resource_type, record.resource_name)
        configs = dict(self._configs.get(resource, ()))
        if record.value is None:
            configs.pop(record.name, None)
        else:
            configs[record.name] = record.value
        if not configs:
            self._remove_resource(resource)
            return
        self._configs = self._own(self._configs, self.base.configs)
        self._configs[resource] = configs
        self._resources[resource] = None

    def _remove_resource(self, resource: ConfigResource) -> None:
        if resource in self._configs:
            self._configs = self._own(self._configs, self.base.configs)
            del self._configs[resource]
            self._resources[resource] = None

    def feature_level(self, record: Any) -> None:
        self._features = self._own(self._features, self.base.features)
        if record.feature_level == 0:
            self._features.pop(record.name, None)
        else:
            self._features[record.name] = record.feature_level

    def producer_ids(self, record: Any) -> None:
        if record.next_producer_id <= self._next_producer_id:
            raise UnexpectedRecord(f"producer ids go from {self._next_producer_id} back to {record.next_producer_id}")
        self._next_producer_id = record.next_producer_id

    def client_quota(self, record: Any) -> None:
        entity = tuple(sorted({part.entity_type: part.entity_name for part in record.entity}.items()))
        quotas = dict(self._client_quotas.get(entity, ()))
        if record.remove:
            quotas.pop(record.key, None)
        else:
            quotas[record.key] = record.value
        self._client_quotas = self._own(self._client_quotas, self.base.client_quotas)
        if quotas:
            self._client_quotas[entity] = quotas
        else:
            self._client_quotas.pop(entity, None)

    def nothing(self, record: Any) -> None:
        """NoOp only moves the offset; the migration from ZooKeeper ended before this format began."""

    @staticmethod
    def _own(mapping: Any, base: Any) -> Any:
        return dict(mapping) if mapping is base else mapping


def changed_partition(before: PartitionImage, record: Any) -> PartitionImage:
    """Each field that is null in the record stays. Whoever is named leader, even anew, begins a leader epoch."""
    names_leader = record.leader != NO_LEADER_CHANGE
    replicas = before.replicas if record.replicas is None else tuple(record.replicas)
    directories = before.directories if record.directories is None else tuple(record.directories)
    return PartitionImage(
        replicas=replicas,
        isr=before.isr if record.isr is None else tuple(record.isr),
        leader=record.leader if names_leader else before.leader,
        leader_epoch=before.leader_epoch + names_leader,
        partition_epoch=before.partition_epoch + 1,
        directories=directories or (DIRECTORY_MIGRATING,) * len(replicas),
        removing_replicas=_or(record.removing_replicas, before.removing_replicas),
        adding_replicas=_or(record.adding_replicas, before.adding_replicas),
        eligible_leader_replicas=_or(record.eligible_leader_replicas, before.eligible_leader_replicas),
        last_known_elr=_or(record.last_known_elr, before.last_known_elr),
        leader_recovery_state=(
            before.leader_recovery_state if record.leader_recovery_state < 0 else record.leader_recovery_state
        ),
    )


def _or(changed: list[BrokerId] | None, before: tuple[BrokerId, ...]) -> tuple[BrokerId, ...]:
    return before if changed is None else tuple(changed)


def _endpoints(record: Any) -> tuple[Endpoint, ...]:
    return tuple(
        Endpoint(endpoint.name, endpoint.host, endpoint.port, endpoint.security_protocol)
        for endpoint in record.end_points
    )


def _features(record: Any) -> dict[str, VersionRange]:
    return {
        feature.name: VersionRange(feature.min_supported_version, feature.max_supported_version)
        for feature in record.features
    }


_TRANSACTION_TYPES = frozenset({RecordType.BEGIN_TRANSACTION, RecordType.END_TRANSACTION, RecordType.ABORT_TRANSACTION})

_FUNCTIONS: dict[int, Callable[[ImageBuilder, Any], None]] = {
    RecordType.REGISTER_BROKER: ImageBuilder.register_broker,
    RecordType.UNREGISTER_BROKER: ImageBuilder.unregister_broker,
    RecordType.TOPIC: ImageBuilder.topic,
    RecordType.PARTITION: ImageBuilder.partition,
    RecordType.CONFIG: ImageBuilder.config,
    RecordType.PARTITION_CHANGE: ImageBuilder.partition_change,
    RecordType.FENCE_BROKER: ImageBuilder.fence_broker,
    RecordType.UNFENCE_BROKER: ImageBuilder.unfence_broker,
    RecordType.REMOVE_TOPIC: ImageBuilder.remove_topic,
    RecordType.FEATURE_LEVEL: ImageBuilder.feature_level,
    RecordType.CLIENT_QUOTA: ImageBuilder.client_quota,
    RecordType.PRODUCER_IDS: ImageBuilder.producer_ids,
    RecordType.BROKER_REGISTRATION_CHANGE: ImageBuilder.broker_registration_change,
    RecordType.NO_OP: ImageBuilder.nothing,
    RecordType.ZK_MIGRATION_STATE: ImageBuilder.nothing,
    RecordType.REGISTER_CONTROLLER: ImageBuilder.register_controller,
    RecordType.CLEAR_ELR: ImageBuilder.clear_elr,
}

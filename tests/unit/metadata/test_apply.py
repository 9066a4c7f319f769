"""Records in, image and difference out. What a record does not touch stays the same object."""

from typing import Any

import pytest

from barnabas.metadata.apply import ImageBuilder, UnexpectedRecord, apply
from barnabas.metadata.delta import MetadataDelta, diff
from barnabas.metadata.image import DIRECTORY_MIGRATING, EMPTY, ConfigResource, MetadataImage, ResourceType
from barnabas.protocol.messages.abort_transaction_record import AbortTransactionRecord
from barnabas.protocol.messages.begin_transaction_record import BeginTransactionRecord
from barnabas.protocol.messages.broker_registration_change_record import BrokerRegistrationChangeRecord
from barnabas.protocol.messages.clear_elr_record import ClearElrRecord
from barnabas.protocol.messages.client_quota_record import ClientQuotaRecord, EntityData
from barnabas.protocol.messages.config_record import ConfigRecord
from barnabas.protocol.messages.delegation_token_record import DelegationTokenRecord
from barnabas.protocol.messages.end_transaction_record import EndTransactionRecord
from barnabas.protocol.messages.feature_level_record import FeatureLevelRecord
from barnabas.protocol.messages.fence_broker_record import FenceBrokerRecord
from barnabas.protocol.messages.no_op_record import NoOpRecord
from barnabas.protocol.messages.partition_change_record import PartitionChangeRecord
from barnabas.protocol.messages.partition_record import PartitionRecord
from barnabas.protocol.messages.producer_ids_record import ProducerIdsRecord
from barnabas.protocol.messages.register_broker_record import BrokerEndpoint, RegisterBrokerRecord
from barnabas.protocol.messages.remove_topic_record import RemoveTopicRecord
from barnabas.protocol.messages.topic_record import TopicRecord
from barnabas.protocol.messages.unfence_broker_record import UnfenceBrokerRecord
from barnabas.protocol.messages.unregister_broker_record import UnregisterBrokerRecord

ORDERS = b"orders".ljust(16, b".")
BILLS = b"bills".ljust(16, b".")
DIRECTORY = b"directory".ljust(16, b".")


def after(image: MetadataImage, *records: Any) -> MetadataImage:
    return step(image, *records)[0]


def step(image: MetadataImage, *records: Any) -> tuple[MetadataImage, MetadataDelta]:
    return apply(image, records, offset=image.offset + len(records), leader_epoch=1, timestamp_ms=5)


def topic(name: str, topic_id: bytes, partitions: int = 2) -> list[Any]:
    return [
        TopicRecord(name=name, topic_id=topic_id),
        *(
            PartitionRecord(
                partition_id=index,
                topic_id=topic_id,
                replicas=[1, 2],
                isr=[1, 2],
                leader=1,
                leader_epoch=0,
                partition_epoch=0,
                directories=[DIRECTORY, DIRECTORY],
            )
            for index in range(partitions)
        ),
    ]


def broker(broker_id: int = 1, epoch: int = 7) -> RegisterBrokerRecord:
    return RegisterBrokerRecord(
        broker_id=broker_id,
        broker_epoch=epoch,
        incarnation_id=bytes([broker_id]) * 16,
        end_points=[BrokerEndpoint(name="PLAINTEXT", host="here", port=9092)],
        rack="a",
        log_dirs=[DIRECTORY],
    )


@pytest.fixture
def two_topics() -> MetadataImage:
    return after(EMPTY, *topic("orders", ORDERS), *topic("bills", BILLS))


# Topics


def test_a_topic_is_found_by_name_and_by_id(two_topics: MetadataImage) -> None:
    assert two_topics.topics_by_name["orders"] is two_topics.topics_by_id[ORDERS]
    assert list(two_topics.topics_by_name["orders"].partitions) == [0, 1]
    assert two_topics.topics_by_name["orders"].replication_factor == 2
    assert [str(name) for name, _ in two_topics.partitions()] == ["orders-0", "orders-1", "bills-0", "bills-1"]


def test_a_change_touches_nothing_else(two_topics: MetadataImage) -> None:
    before = dict(two_topics.topics_by_name)
    image, delta = step(two_topics, PartitionChangeRecord(partition_id=1, topic_id=ORDERS, isr=[2], leader=2))
    assert two_topics.topics_by_name == before, "the earlier image has changed"
    assert image.topics_by_id[BILLS] is two_topics.topics_by_id[BILLS]
    assert image.topics_by_id[ORDERS].partitions[0] is two_topics.topics_by_id[ORDERS].partitions[0]
    assert image.brokers is two_topics.brokers
    assert image.configs is two_topics.configs
    [changed] = delta.topics_changed
    assert list(changed.partitions) == [1]
    assert changed.before is two_topics.topics_by_id[ORDERS]


def test_naming_a_leader_begins_an_epoch_even_if_it_is_the_same(two_topics: MetadataImage) -> None:
    state = after(two_topics, PartitionChangeRecord(partition_id=0, topic_id=ORDERS, leader=1)).partition("orders", 0)
    assert state is not None
    assert (state.leader, state.leader_epoch, state.partition_epoch) == (1, 1, 1)


def test_a_change_of_the_isr_keeps_the_leader_epoch(two_topics: MetadataImage) -> None:
    record = PartitionChangeRecord(partition_id=0, topic_id=ORDERS, isr=[1], eligible_leader_replicas=[2])
    state = after(two_topics, record).partition("orders", 0)
    assert state is not None
    assert (state.isr, state.eligible_leader_replicas) == ((1,), (2,))
    assert (state.leader, state.leader_epoch, state.partition_epoch) == (1, 0, 1)
    assert state.replicas == (1, 2)


def test_every_field_of_a_change(two_topics: MetadataImage) -> None:
    record = PartitionChangeRecord(
        partition_id=0,
        topic_id=ORDERS,
        isr=[3],
        leader=3,
        replicas=[3, 4],
        removing_replicas=[4],
        adding_replicas=[3],
        leader_recovery_state=1,
        directories=[BILLS, ORDERS],
        eligible_leader_replicas=[5],
        last_known_elr=[6],
    )
    state = after(two_topics, record).partition("orders", 0)
    assert state is not None
    assert state == (((3, 4)), (3,), 3, 1, 1, (BILLS, ORDERS), (4,), (3,), (5,), (6,), 1)
    assert state.directory(4) == ORDERS


def test_a_partition_from_before_directories_were_known() -> None:
    record = PartitionRecord(partition_id=0, topic_id=ORDERS, replicas=[1, 2], isr=[1], leader=1)
    state = after(EMPTY, TopicRecord(name="orders", topic_id=ORDERS), record).partition("orders", 0)
    assert state is not None
    assert state.directories == (DIRECTORY_MIGRATING, DIRECTORY_MIGRATING)


def test_a_removed_topic_takes_its_configs_along(two_topics: MetadataImage) -> None:
    set_config = ConfigRecord(resource_type=2, resource_name="orders", name="retention.ms", value="1")
    with_config = after(two_topics, set_config)
    assert with_config.config(ResourceType.TOPIC, "orders") == {"retention.ms": "1"}
    image, delta = step(with_config, RemoveTopicRecord(topic_id=ORDERS))
    assert list(image.topics_by_name) == ["bills"]
    assert list(image.topics_by_id) == [BILLS]
    assert not image.configs
    assert [gone.name for gone in delta.topics_deleted] == ["orders"]
    assert delta.configs_changed == (ConfigResource(2, "orders"),)
    assert not delta.topics_changed


def test_a_topic_deleted_and_created_again_is_in_both_lists(two_topics: MetadataImage) -> None:
    again = b"again".ljust(16, b".")
    image, delta = step(two_topics, RemoveTopicRecord(topic_id=ORDERS), *topic("orders", again))
    assert image.topics_by_name["orders"].id == again
    assert [gone.id for gone in delta.topics_deleted] == [ORDERS]
    assert [change.topic.id for change in delta.topics_changed] == [again]


def test_a_topic_that_came_and_went_leaves_no_trace() -> None:
    image, delta = step(EMPTY, *topic("a.b", ORDERS), RemoveTopicRecord(topic_id=ORDERS))
    assert delta.is_empty
    assert image.topics_by_name == image.topics_by_id == image.topics_by_unified_name == {}


def test_names_that_collide_are_remembered_until_the_last_is_gone() -> None:
    both = after(EMPTY, *topic("a.b", ORDERS), *topic("a_b", BILLS), *topic("plain", DIRECTORY))
    assert both.topics_by_unified_name == {"a_b": ("a.b", "a_b")}
    one = after(both, RemoveTopicRecord(topic_id=ORDERS))
    assert one.topics_by_unified_name == {"a_b": ("a_b",)}
    assert after(one, RemoveTopicRecord(topic_id=BILLS)).topics_by_unified_name == {}


@pytest.mark.parametrize("name", ["orders", ""])
def test_eligible_leaders_are_cleared(two_topics: MetadataImage, name: str) -> None:
    marked = after(
        two_topics,
        PartitionChangeRecord(partition_id=0, topic_id=ORDERS, eligible_leader_replicas=[2], last_known_elr=[1]),
        PartitionChangeRecord(partition_id=0, topic_id=BILLS, eligible_leader_replicas=[2], last_known_elr=[1]),
    )
    cleared = after(marked, ClearElrRecord(topic_name=name))
    orders, bills = cleared.partition("orders", 0), cleared.partition("bills", 0)
    assert orders is not None
    assert bills is not None
    assert (orders.eligible_leader_replicas, orders.last_known_elr) == ((), ())
    assert bills.eligible_leader_replicas == ((2,) if name else ())


# Brokers


def test_a_broker_registers_fenced_and_is_unfenced() -> None:
    fenced, delta = step(EMPTY, broker())
    assert fenced.brokers[1].fenced
    assert not fenced.brokers[1].active
    assert delta.brokers_changed == {1: fenced.brokers[1]}
    unfenced = after(fenced, BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=7, fenced=-1))
    assert unfenced.brokers[1].active
    assert unfenced.brokers[1].endpoint("PLAINTEXT") == ("PLAINTEXT", "here", 9092, 0)
    assert unfenced.brokers[1].endpoint("OTHER") is None
    leaving = after(unfenced, BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=7, in_controlled_shutdown=1))
    assert not leaving.brokers[1].active
    assert not leaving.brokers[1].fenced
    assert after(unfenced, FenceBrokerRecord(id=1, epoch=7)).brokers[1].fenced
    assert not after(fenced, UnfenceBrokerRecord(id=1, epoch=7)).brokers[1].fenced


def test_directories_change_with_the_registration() -> None:
    image = after(EMPTY, broker())
    change = BrokerRegistrationChangeRecord(
        broker_id=1, broker_epoch=7, log_dirs=[ORDERS, BILLS], cordoned_log_dirs=[BILLS]
    )
    changed = after(image, change).brokers[1]
    assert (changed.directories, changed.cordoned_directories) == ((ORDERS, BILLS), (BILLS,))
    assert changed.fenced


def test_an_unregistered_broker_is_gone() -> None:
    image, delta = step(after(EMPTY, broker()), UnregisterBrokerRecord(broker_id=1, broker_epoch=7))
    assert not image.brokers
    assert delta.brokers_changed == {1: None}


# Configs, features, producer ids


def test_configs_come_and_go() -> None:
    image = after(
        EMPTY,
        ConfigRecord(resource_type=4, resource_name="", name="a", value="1"),
        ConfigRecord(resource_type=4, resource_name="", name="b", value="2"),
    )
    assert image.config(ResourceType.BROKER, "") == {"a": "1", "b": "2"}
    less, delta = step(image, ConfigRecord(resource_type=4, resource_name="", name="a", value=None))
    assert less.config(ResourceType.BROKER, "") == {"b": "2"}
    assert delta.configs_changed == (ConfigResource(4, ""),)
    assert image.config(ResourceType.BROKER, "") == {"a": "1", "b": "2"}, "the earlier image has changed"
    assert after(less, ConfigRecord(resource_type=4, resource_name="", name="b", value=None)).configs == {}


def test_setting_a_config_to_what_it_is_changes_nothing() -> None:
    record = ConfigRecord(resource_type=2, resource_name="orders", name="a", value="1")
    assert step(after(EMPTY, record), record)[1].is_empty


def test_a_feature_at_level_0_is_not_there() -> None:
    image, delta = step(EMPTY, FeatureLevelRecord(name="group.version", feature_level=1))
    assert image.features == {"group.version": 1}
    assert delta.features_changed
    assert after(image, FeatureLevelRecord(name="group.version", feature_level=0)).features == {}


def test_producer_ids_only_rise() -> None:
    image = after(EMPTY, ProducerIdsRecord(broker_id=1, broker_epoch=7, next_producer_id=1000))
    assert image.next_producer_id == 1000
    with pytest.raises(UnexpectedRecord):
        after(image, ProducerIdsRecord(broker_id=1, broker_epoch=7, next_producer_id=1000))


# Where an image stands


def test_a_no_op_only_moves_the_offset(two_topics: MetadataImage) -> None:
    image, delta = step(two_topics, NoOpRecord())
    assert delta.is_empty
    assert image.offset == two_topics.offset + 1 == image.finalized_features_epoch
    assert (image.leader_epoch, image.timestamp_ms) == (1, 5)


# Transactions


def test_a_transaction_counts_from_its_end_on() -> None:
    builder = ImageBuilder()
    for record in (BeginTransactionRecord(name="x"), *topic("orders", ORDERS)):
        builder.apply(record)
        assert builder.transaction_open
    builder.apply(EndTransactionRecord())
    assert not builder.transaction_open
    image, delta = builder.build(offset=4, leader_epoch=1, timestamp_ms=0)
    assert list(image.topics_by_name) == ["orders"]
    assert len(delta.topics_changed) == 1


def test_an_aborted_transaction_counts_for_nothing() -> None:
    image = after(EMPTY, BeginTransactionRecord(name="x"), *topic("orders", ORDERS), AbortTransactionRecord())
    assert not image.topics_by_name


def test_what_a_transaction_left_open_holds_does_not_count() -> None:
    assert not after(EMPTY, BeginTransactionRecord(name="x"), *topic("orders", ORDERS)).topics_by_name


# Contradictions


@pytest.mark.parametrize(
    "records",
    [
        [*topic("orders", ORDERS), TopicRecord(name="orders", topic_id=BILLS)],
        [*topic("orders", ORDERS), TopicRecord(name="bills", topic_id=ORDERS)],
        [RemoveTopicRecord(topic_id=ORDERS)],
        [PartitionRecord(partition_id=0, topic_id=ORDERS)],
        [PartitionChangeRecord(partition_id=0, topic_id=ORDERS)],
        [*topic("orders", ORDERS), PartitionChangeRecord(partition_id=9, topic_id=ORDERS)],
        [*topic("orders", ORDERS), RemoveTopicRecord(topic_id=ORDERS), PartitionRecord(topic_id=ORDERS)],
        [broker(epoch=7), BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=6, fenced=-1)],
        [UnregisterBrokerRecord(broker_id=1, broker_epoch=1)],
        [ClearElrRecord(topic_name="orders")],
        [BeginTransactionRecord(), BeginTransactionRecord()],
        [EndTransactionRecord()],
        [AbortTransactionRecord()],
        [DelegationTokenRecord()],
    ],
    ids=lambda records: "+".join(type(record).__name__ for record in records[-2:]),
)
def test_a_record_that_contradicts_the_image_raises(records: list[Any]) -> None:
    with pytest.raises(UnexpectedRecord):
        after(EMPTY, *records)


# Differences


def test_the_difference_that_apply_gives_is_that_of_the_images(two_topics: MetadataImage) -> None:
    image, delta = step(
        two_topics,
        broker(),
        RemoveTopicRecord(topic_id=BILLS),
        *topic("new", DIRECTORY, 1),
        PartitionChangeRecord(partition_id=1, topic_id=ORDERS, leader=2),
        ConfigRecord(resource_type=2, resource_name="new", name="a", value="1"),
        FeatureLevelRecord(name="group.version", feature_level=1),
    )
    found = diff(two_topics, image)
    assert found.topics_deleted == delta.topics_deleted
    assert sorted(found.topics_changed) == sorted(delta.topics_changed)
    assert found.brokers_changed == delta.brokers_changed
    assert found.configs_changed == delta.configs_changed
    assert found.features_changed is delta.features_changed is True


def test_the_difference_from_nothing_is_everything(two_topics: MetadataImage) -> None:
    delta = diff(EMPTY, two_topics)
    assert [change.topic.name for change in delta.topics_changed] == ["orders", "bills"]
    assert all(change.partitions == change.topic.partitions for change in delta.topics_changed)
    assert diff(two_topics, two_topics).is_empty


def quota(key: str, value: float = 0.0, *, remove: bool = False, **entity: str | None) -> ClientQuotaRecord:
    parts = [EntityData(entity_type=kind.replace("_", "-"), entity_name=name) for kind, name in entity.items()]
    return ClientQuotaRecord(entity=parts, key=key, value=value, remove=remove)


def test_quotas_are_kept_by_entity_in_whichever_order_it_is_written() -> None:
    image = after(EMPTY, quota("a", 1.0, user="u", client_id="c"), quota("b", 2.0, client_id="c", user="u"))
    assert image.client_quotas == {(("client-id", "c"), ("user", "u")): {"a": 1.0, "b": 2.0}}


def test_the_default_of_users_is_not_a_user() -> None:
    image = after(EMPTY, quota("a", 1.0, user=None), quota("a", 2.0, user="u"))
    assert image.client_quotas == {(("user", None),): {"a": 1.0}, (("user", "u"),): {"a": 2.0}}


def test_an_entity_without_quotas_is_gone_and_older_images_keep_it() -> None:
    before = after(EMPTY, quota("a", 1.0, user="u"), quota("b", 2.0, user="u"))
    less = after(before, quota("a", remove=True, user="u"))
    none = after(less, quota("b", remove=True, user="u"), quota("c", remove=True, user="other"))
    assert before.client_quotas == {(("user", "u"),): {"a": 1.0, "b": 2.0}}
    assert less.client_quotas == {(("user", "u"),): {"b": 2.0}}
    assert none.client_quotas == {}

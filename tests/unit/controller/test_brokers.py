from typing import Any

from images import after, broker, cluster

from barnabas.config.broker import BrokerConfig
from barnabas.controller import bootstrap, brokers, features, producer_ids
from barnabas.controller.brokers import Registration
from barnabas.controller.decision import Refusal
from barnabas.controller.producer_ids import ProducerIdBlock
from barnabas.errors import ErrorCode
from barnabas.metadata.image import EMPTY, Endpoint, MetadataImage, ResourceType
from barnabas.protocol.messages.partition_change_record import PartitionChangeRecord
from barnabas.protocol.messages.partition_record import PartitionRecord
from barnabas.protocol.messages.topic_record import TopicRecord

FIRST, SECOND = b"first".ljust(16, b"."), b"second".ljust(16, b".")
DIRECTORY = b"directory".ljust(16, b".")
TOPIC = b"topic".ljust(16, b".")
ENDPOINT = Endpoint("PLAINTEXT", "here", 9092, 0)


def registration(incarnation_id: bytes = FIRST, broker_id: int = 1) -> Registration:
    return Registration(broker_id, incarnation_id, (ENDPOINT,), "rack", (DIRECTORY,))


def registered(image: MetadataImage, incarnation_id: bytes, next_offset: int) -> MetadataImage:
    decision = brokers.register_broker(image, registration(incarnation_id), next_offset)
    assert decision.response == after(image, decision.records).brokers[1].epoch
    return after(image, decision.records)


def unfenced(image: MetadataImage) -> MetadataImage:
    decision = brokers.unfence_broker(image, 1, image.brokers[1].epoch)
    assert decision.response == ErrorCode.NONE
    return after(image, decision.records)


def with_partition(image: MetadataImage, **fields: Any) -> MetadataImage:
    state = {"replicas": [1], "isr": [1], "leader": 1, "leader_epoch": 4, "partition_epoch": 9, **fields}
    return after(
        image, [TopicRecord(name="a", topic_id=TOPIC), PartitionRecord(partition_id=0, topic_id=TOPIC, **state)]
    )


# Registration


def test_a_broker_registers_fenced_with_the_offset_as_its_epoch() -> None:
    image = registered(EMPTY, FIRST, 14)
    assert image.brokers[1].epoch == 14
    assert image.brokers[1].fenced
    assert image.brokers[1].endpoints == (ENDPOINT,)
    assert image.brokers[1].rack == "rack"
    assert image.brokers[1].directories == (DIRECTORY,)
    assert set(image.brokers[1].features) == {feature.name for feature in features.SUPPORTED}


def test_a_new_incarnation_gets_a_new_epoch_and_is_fenced_again() -> None:
    again = registered(unfenced(registered(EMPTY, FIRST, 14)), SECOND, 30)
    assert again.brokers[1].epoch == 30
    assert again.brokers[1].fenced


def test_the_same_incarnation_keeps_epoch_and_state() -> None:
    again = registered(unfenced(registered(EMPTY, FIRST, 14)), FIRST, 30)
    assert again.brokers[1].epoch == 14
    assert not again.brokers[1].fenced


def test_a_directory_belongs_to_one_broker() -> None:
    image = registered(EMPTY, FIRST, 14)
    decision = brokers.register_broker(image, registration(SECOND, broker_id=2), 30)
    assert isinstance(decision.response, Refusal)
    assert decision.response.error == ErrorCode.INVALID_REGISTRATION
    assert not decision.records


def test_unfencing_needs_the_right_epoch_and_happens_once() -> None:
    image = registered(EMPTY, FIRST, 14)
    assert brokers.unfence_broker(image, 2, 14) == ([], ErrorCode.BROKER_ID_NOT_REGISTERED)
    assert brokers.unfence_broker(image, 1, 13) == ([], ErrorCode.STALE_BROKER_EPOCH)
    assert brokers.unfence_broker(unfenced(image), 1, 14) == ([], ErrorCode.NONE)


# Partitions of a broker that is back


def test_it_leads_again_in_a_new_epoch() -> None:
    image = unfenced(registered(with_partition(EMPTY), SECOND, 30))
    state = image.partition("a", 0)
    assert state is not None
    assert (state.leader, state.leader_epoch, state.isr) == (1, 5, (1,))


def test_it_leads_what_nobody_leads_if_it_may() -> None:
    offline = with_partition(EMPTY, leader=-1, isr=[], eligible_leader_replicas=[1], last_known_elr=[1])
    state = unfenced(registered(offline, SECOND, 30)).partition("a", 0)
    assert state is not None
    assert (state.leader, state.isr, state.eligible_leader_replicas, state.last_known_elr) == (1, (1,), (), ())


def test_it_leaves_alone_what_others_lead_or_what_it_may_not_lead() -> None:
    for fields in (
        {"replicas": [1, 2], "isr": [2], "leader": 2},
        {"replicas": [1, 2], "isr": [2], "leader": -1},
    ):
        image = registered(with_partition(EMPTY, **fields), SECOND, 30)
        decision = brokers.unfence_broker(image, 1, 30)
        assert not any(isinstance(record, PartitionChangeRecord) for record in decision.records)


# Controllers and the first records


def test_a_controller_registers() -> None:
    endpoint = Endpoint("CONTROLLER", "here", 9093, 0)
    image = after(EMPTY, brokers.register_controller(EMPTY, 1, FIRST, (endpoint,)).records)
    assert image.controllers[1].endpoints == (endpoint,)
    assert image.controllers[1].incarnation_id == FIRST
    assert set(image.controllers[1].features) == {feature.name for feature in features.SUPPORTED}


def test_a_new_cluster_has_its_features_and_one_default() -> None:
    image = after(EMPTY, bootstrap.records(BrokerConfig({"min.insync.replicas": "2"})))
    assert image.features == features.AT_FORMAT
    assert image.config(ResourceType.BROKER, "") == {"min.insync.replicas": "2"}


def test_a_new_cluster_starts_at_levels_that_are_supported() -> None:
    supported = {feature.name: feature for feature in features.SUPPORTED}
    for name, level in features.AT_FORMAT.items():
        assert supported[name].min_version <= level <= supported[name].max_version


# Producer ids


def test_blocks_follow_each_other() -> None:
    image = cluster(broker(1))
    first = producer_ids.allocate(image, 1, 10)
    assert first.response == ProducerIdBlock(0, 1000)
    second = producer_ids.allocate(after(image, first.records), 1, 10)
    assert second.response == ProducerIdBlock(1000, 2000)


def test_only_a_registered_broker_gets_a_block() -> None:
    image = cluster(broker(1))
    for broker_id, epoch in ((2, 10), (1, 9)):
        refusal = producer_ids.allocate(image, broker_id, epoch).response
        assert isinstance(refusal, Refusal)
        assert refusal.error == ErrorCode.STALE_BROKER_EPOCH


def test_ids_end_before_they_overflow() -> None:
    image = cluster(broker(1))._replace(next_producer_id=2**63 - 1000)
    decision = producer_ids.allocate(image, 1, 10)
    assert isinstance(decision.response, Refusal)
    assert not decision.records
    last = producer_ids.allocate(image._replace(next_producer_id=2**63 - 1001), 1, 10)
    assert last.response == ProducerIdBlock(2**63 - 1001, 2**63 - 1)

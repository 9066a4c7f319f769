from images import after, broker, cluster

from barnabas.config.broker import BrokerConfig
from barnabas.controller import bootstrap, brokers, features, producer_ids
from barnabas.controller.decision import Refusal
from barnabas.controller.producer_ids import ProducerIdBlock
from barnabas.errors import ErrorCode
from barnabas.metadata.image import EMPTY, Endpoint, ResourceType

FIRST = b"first".ljust(16, b".")


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

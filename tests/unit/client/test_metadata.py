"""What a client keeps of Metadata answers."""

from barnabas.client.metadata import ClusterMetadata, Leader, Node
from barnabas.errors import ErrorCode
from barnabas.protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from barnabas.types import TopicPartition

OLD, NEW = b"o" * 16, b"n" * 16


def answer(
    *leaders: tuple[int, int], name: str = "t", topic_id: bytes = OLD, error: int = 0, port: int = 1
) -> MetadataResponse:
    partitions = [
        MetadataResponsePartition(partition_index=index, leader_id=leader, leader_epoch=epoch, replica_nodes=[1, 2])
        for index, (leader, epoch) in enumerate(leaders)
    ]
    return MetadataResponse(
        brokers=[MetadataResponseBroker(node_id=1, host="a", port=port), MetadataResponseBroker(node_id=2, host="b")],
        topics=[MetadataResponseTopic(name=name, topic_id=topic_id, error_code=error, partitions=partitions)],
        controller_id=1,
    )


def test_racks_of_replicas() -> None:
    metadata = ClusterMetadata()
    told = answer((1, 5))
    metadata.apply(told)
    assert metadata.replica_racks() == {}, "no broker says where it is"
    told.brokers[1].rack = "a"
    metadata.apply(told)
    assert metadata.replica_racks() == {TopicPartition("t", 0): frozenset({"a"})}


def test_an_older_epoch_does_not_bring_back_its_leader() -> None:
    metadata = ClusterMetadata()
    metadata.apply(answer((2, 5)))
    metadata.apply(answer((1, 4)))
    assert metadata.leader("t", 0) == Leader(2, 5)
    metadata.apply(answer((1, 6)))
    assert metadata.leader("t", 0) == Leader(1, 6)


def test_a_topic_made_anew_begins_anew() -> None:
    metadata = ClusterMetadata()
    metadata.apply(answer((2, 5)))
    metadata.apply(answer((1, 0), topic_id=NEW))
    assert metadata.leader("t", 0) == Leader(1, 0)
    assert metadata.names == {NEW: "t"}


def test_a_partition_without_leader() -> None:
    metadata = ClusterMetadata()
    metadata.apply(answer((-1, 5)))
    assert metadata.leader("t", 0) is None
    assert metadata.leader("t", 1) is None
    assert metadata.leader("u", 0) is None


def test_a_leader_that_nobody_knows_the_place_of() -> None:
    metadata = ClusterMetadata()
    metadata.apply(answer((3, 5)))
    assert metadata.leader("t", 0) is None
    metadata.apply(answer((2, 6)))
    assert metadata.leader("t", 0) == Leader(2, 6)
    metadata.brokers = {}
    assert metadata.leader("t", 0) is None


def test_topics_that_are_refused_are_forgotten() -> None:
    metadata = ClusterMetadata()
    metadata.apply(answer((1, 5)))
    metadata.apply(answer(error=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
    assert metadata.topics == {}
    assert metadata.names == {}
    assert metadata.errors == {"t": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    metadata.apply(answer((1, 5)))
    assert metadata.errors == {}


def test_topics_are_gone_that_an_answer_about_everything_does_not_name() -> None:
    metadata = ClusterMetadata()
    metadata.apply(answer((1, 5)))
    metadata.apply(answer((1, 5), name="u", topic_id=NEW))
    assert list(metadata.topics) == ["t", "u"]
    metadata.apply(answer((1, 5), name="u", topic_id=NEW), everything=True)
    assert list(metadata.topics) == ["u"]


def test_brokers_that_moved_are_named() -> None:
    metadata = ClusterMetadata()
    assert metadata.apply(answer()) == []
    assert metadata.apply(answer(port=2)) == [1]
    assert metadata.brokers[1] == Node(1, "a", 2)


def test_a_leader_that_another_answer_tells() -> None:
    metadata = ClusterMetadata()
    metadata.apply(answer((1, 5)))
    assert not metadata.apply_leader("t", 0, Leader(2, 5))
    assert not metadata.apply_leader("t", 0, Leader(-1, 9))
    assert metadata.apply_leader("t", 0, Leader(2, 6))
    assert metadata.leader("t", 0) == Leader(2, 6)

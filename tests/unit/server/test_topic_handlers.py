"""Handlers that change topics, and those that show them. Codes and fields as Apache Kafka 4.3.1 answered."""

from typing import Any

from handlers import PartsBroker, call, run

from barnabas.errors import ErrorCode
from barnabas.protocol.messages.broker_registration_change_record import BrokerRegistrationChangeRecord
from barnabas.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from barnabas.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from barnabas.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from barnabas.protocol.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    RequestCursor,
    TopicRequest,
)
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from barnabas.server.handlers import (
    create_partitions,
    create_topics,
    delete_topics,
    describe_topic_partitions,
    metadata,
)
from barnabas.types import ZERO_UUID

NOT_ASKED = -(2**31)
TOPIC_OPERATIONS, CLUSTER_OPERATIONS = 3576, 8096  # what Kafka 4.3.1 answers without an authorizer


async def started(*topics: str, partitions: int = 3, **overrides: str) -> PartsBroker:
    broker = await PartsBroker(**overrides).start()
    for name in topics:
        asked = CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)
        response = await call(create_topics, broker, CreateTopicsRequest(topics=[asked]), 7)
        assert response.topics[0].error_code == 0
    return broker


def named(*names: str | None, **fields: Any) -> MetadataRequest:
    return MetadataRequest(topics=[MetadataRequestTopic(name=name) for name in names], **fields)


# Metadata


def test_brokers_and_cluster_in_every_version() -> None:
    async def test() -> None:
        broker = await started()
        for version in range(14):
            response = await call(metadata, broker, MetadataRequest(topics=[]), version)
            assert [(node.node_id, node.host, node.port) for node in response.brokers] == [(1, "dialled", 1234)]
            assert response.cluster_id == ("cluster" if version >= 2 else None)
            assert response.controller_id == (1 if version >= 1 else -1)
            assert response.topics == []

    run(test)


def test_all_topics_or_none() -> None:
    async def test() -> None:
        broker = await started("a", "b")
        for version in range(14):
            everything = MetadataRequest(topics=[] if version == 0 else None)
            response = await call(metadata, broker, everything, version)
            assert [topic.name for topic in response.topics] == ["a", "b"]
            partition = response.topics[0].partitions[2]
            assert (partition.partition_index, partition.leader_id, partition.error_code) == (2, 1, 0)
            assert (partition.replica_nodes, partition.isr_nodes, partition.offline_replicas) == ([1], [1], [])
            assert partition.leader_epoch == (0 if version >= 7 else -1)

    run(test)


def test_a_topic_made_by_asking_is_in_the_answer() -> None:
    async def test() -> None:
        broker = await started("a", num_partitions="4")
        for version, name in ((0, "zero"), (3, "three"), (12, "twelve")):
            response = await call(metadata, broker, named(name, "a"), version)
            assert [(topic.name, topic.error_code) for topic in response.topics] == [(name, 0), ("a", 0)]
            assert len(response.topics[0].partitions) == 4
            assert name in broker.controller.image.topics_by_name

    run(test)


def test_a_topic_that_may_not_be_made() -> None:
    async def test() -> None:
        broker = await started("a.b")
        off = await started(auto_create_topics_enable="false")
        forbidden = named("new", "bad name", "__consumer_offsets", allow_auto_topic_creation=False)
        response = await call(metadata, broker, forbidden, 12)
        assert [(topic.name, topic.error_code, topic.is_internal) for topic in response.topics] == [
            ("new", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, False),
            ("bad name", ErrorCode.INVALID_TOPIC_EXCEPTION, False),
            ("__consumer_offsets", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, True),
        ]
        [topic] = (await call(metadata, off, named("new"), 12)).topics
        assert topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        response = await call(
            metadata, broker, named("a_b", "__cluster_metadata", "bad name", "__consumer_offsets"), 12
        )
        assert [topic.error_code for topic in response.topics] == [3, 3, 17, 3]
        assert list(broker.controller.image.topics_by_name) == ["a.b"]

    run(test)


def test_by_id() -> None:
    async def test() -> None:
        broker = await started("a", "b")
        topic_id = broker.controller.image.topics_by_name["b"].id
        topics = [
            MetadataRequestTopic(name=None, topic_id=topic_id),
            MetadataRequestTopic(name=None, topic_id=b"?" * 16),
            MetadataRequestTopic(name="a"),
        ]
        response = await call(metadata, broker, MetadataRequest(topics=topics), 12)
        assert [(topic.name, topic.topic_id, topic.error_code) for topic in response.topics] == [
            (None, b"?" * 16, ErrorCode.UNKNOWN_TOPIC_ID),
            ("b", topic_id, ErrorCode.NONE),
        ]

    run(test)


def test_what_cannot_be_meant() -> None:
    async def test() -> None:
        broker = await started("a")
        for version, topic in (
            (10, MetadataRequestTopic(name=None, topic_id=b"?" * 16)),
            (11, MetadataRequestTopic(name="a", topic_id=b"?" * 16)),
            (12, MetadataRequestTopic(name=None, topic_id=ZERO_UUID)),
        ):
            response = await call(metadata, broker, MetadataRequest(topics=[topic]), version)
            assert [topic.error_code for topic in response.topics] == [ErrorCode.INVALID_REQUEST]
            assert response.brokers == []

    run(test)


def test_a_topic_named_twice_is_answered_once() -> None:
    async def test() -> None:
        response = await call(metadata, await started("a"), named("a", "a"), 12)
        assert len(response.topics) == 1

    run(test)


def test_operations_only_if_asked_for() -> None:
    async def test() -> None:
        broker = await started("a")
        asked = named(
            "a",
            "no",
            allow_auto_topic_creation=False,
            include_cluster_authorized_operations=True,
            include_topic_authorized_operations=True,
        )
        response = await call(metadata, broker, asked, 8)
        assert response.cluster_authorized_operations == CLUSTER_OPERATIONS
        assert [topic.topic_authorized_operations for topic in response.topics] == [TOPIC_OPERATIONS] * 2
        response = await call(metadata, broker, named("a"), 8)
        assert response.cluster_authorized_operations == NOT_ASKED
        assert response.topics[0].topic_authorized_operations == NOT_ASKED

    run(test)


def test_a_fenced_leader_is_none() -> None:
    async def test() -> None:
        broker = await started("a")
        service = broker.controller
        fence = BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=service.image.brokers[1].epoch, fenced=1)
        service._append([fence])
        service.image = service._head
        for version, error in ((0, 5), (1, 5), (5, 5), (6, 72), (13, 72)):
            response = await call(metadata, broker, named("a"), version)
            assert response.brokers == []
            partition = response.topics[0].partitions[0]
            assert (partition.leader_id, partition.error_code) == (-1, error)
            assert partition.replica_nodes == ([] if version == 0 else [1])
            assert partition.offline_replicas == ([1] if version >= 5 else [])

    run(test)


# Creation and deletion on the wire


def test_create_topics_in_every_version() -> None:
    async def test() -> None:
        broker = await started()
        for version in range(2, 8):
            asked = CreatableTopic(name=f"v{version}", num_partitions=2, replication_factor=1)
            response = await call(create_topics, broker, CreateTopicsRequest(topics=[asked]), version)
            [result] = response.topics
            assert (result.name, result.error_code, result.error_message) == (f"v{version}", 0, None)
            assert bool(result.configs) is (version >= 5)
            assert (result.topic_id == ZERO_UUID) is (version < 7)
        assert len(broker.controller.image.topics_by_name) == 6

    run(test)


def test_delete_topics_in_every_version() -> None:
    async def test() -> None:
        broker = await started(*(f"v{version}" for version in range(1, 7)))
        for version in range(1, 7):
            asked = (
                DeleteTopicsRequest(topics=[DeleteTopicState(name="v6")])
                if version == 6
                else DeleteTopicsRequest(topic_names=[f"v{version}"])
            )
            response = await call(delete_topics, broker, asked, version)
            assert [(result.name, result.error_code) for result in response.responses] == [(f"v{version}", 0)]
        assert not broker.controller.image.topics_by_name

    run(test)


def test_deletion_may_be_disabled() -> None:
    async def test() -> None:
        broker = await started("a", delete_topic_enable="false")
        for version, error in ((1, ErrorCode.INVALID_REQUEST), (5, ErrorCode.TOPIC_DELETION_DISABLED)):
            response = await call(delete_topics, broker, DeleteTopicsRequest(topic_names=["a"]), version)
            assert [result.error_code for result in response.responses] == [error]
        assert "a" in broker.controller.image.topics_by_name

    run(test)


def test_create_partitions_in_every_version() -> None:
    async def test() -> None:
        broker = await started("a", partitions=1)
        for version in range(4):
            asked = CreatePartitionsTopic(name="a", count=version + 2, assignments=None)
            response = await call(create_partitions, broker, CreatePartitionsRequest(topics=[asked]), version)
            assert [(result.name, result.error_code) for result in response.results] == [("a", 0)]
        assert len(broker.controller.image.topics_by_name["a"].partitions) == 5

    run(test)


def test_a_broken_log_is_a_storage_error() -> None:
    async def test() -> None:
        broker = await started("a")
        broker.controller.failure = OSError("gone")
        new = CreateTopicsRequest(topics=[CreatableTopic(name="b", num_partitions=1, replication_factor=1)])
        more = CreatePartitionsRequest(topics=[CreatePartitionsTopic(name="a", count=9, assignments=None)])
        gone = DeleteTopicsRequest(topics=[DeleteTopicState(name="a")])
        storage = ErrorCode.KAFKA_STORAGE_ERROR
        assert (await call(create_topics, broker, new, 7)).topics[0].error_code == storage
        assert (await call(create_partitions, broker, more, 3)).results[0].error_code == storage
        assert (await call(delete_topics, broker, gone, 6)).responses[0].error_code == storage
        [topic] = (await call(metadata, broker, named("new"), 12)).topics
        assert topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    run(test)


# DescribeTopicPartitions


def described(response: Any) -> list[tuple[str, list[int]]]:
    return [(topic.name, [partition.partition_index for partition in topic.partitions]) for topic in response.topics]


async def page(
    broker: PartsBroker, *names: str, limit: int = 2000, cursor: tuple[str, int] | None = None
) -> tuple[list[tuple[str, list[int]]], tuple[str, int] | None, Any]:
    request = DescribeTopicPartitionsRequest(
        topics=[TopicRequest(name=name) for name in names],
        response_partition_limit=limit,
        cursor=RequestCursor(topic_name=cursor[0], partition_index=cursor[1]) if cursor else None,
    )
    response = await call(describe_topic_partitions, broker, request, 0)
    following = response.next_cursor
    return described(response), (following.topic_name, following.partition_index) if following else None, response


def test_pages_of_partitions() -> None:
    async def test() -> None:
        broker = await started("b", "a")
        whole = [("a", [0, 1, 2]), ("b", [0, 1, 2])]
        assert (await page(broker))[:2] == (whole, None)
        assert (await page(broker, "b", "a", "a"))[:2] == (whole, None)
        assert (await page(broker, limit=4))[:2] == ([("a", [0, 1, 2]), ("b", [0])], ("b", 1))
        assert (await page(broker, limit=3))[:2] == ([("a", [0, 1, 2])], ("b", 0))
        assert (await page(broker, limit=0))[:2] == ([("a", [0])], ("a", 1))
        assert (await page(broker, limit=4, cursor=("b", 1)))[:2] == ([("b", [1, 2])], None)
        assert (await page(broker, cursor=("b", 9)))[:2] == ([("b", [])], None)
        assert (await page(broker, cursor=("aa", 0)))[:2] == ([("b", [0, 1, 2])], None)

    run(test)


def test_the_broker_limits_a_page_too() -> None:
    async def test() -> None:
        broker = await started("a", max_request_partition_size_limit="2")
        assert (await page(broker))[:2] == ([("a", [0, 1])], ("a", 2))

    run(test)


def test_following_the_cursor_sees_each_partition_once() -> None:
    async def test() -> None:
        broker = await started("a", "b", "c")
        seen: list[tuple[str, int]] = []
        cursor: tuple[str, int] | None = None
        for _ in range(20):
            topics, cursor, _ = await page(broker, limit=2, cursor=cursor)
            seen += [(name, index) for name, indexes in topics for index in indexes]
            if cursor is None:
                break
        assert seen == [(name, index) for name in "abc" for index in range(3)]

    run(test)


def test_unknown_and_bad_names_and_cursors() -> None:
    async def test() -> None:
        broker = await started("a")
        _, _, response = await page(broker, "a", "no", "a b")
        assert [(topic.name, topic.error_code) for topic in response.topics] == [("a", 0), ("a b", 17), ("no", 3)]
        assert {topic.topic_authorized_operations for topic in response.topics} == {TOPIC_OPERATIONS}
        for cursor in (("zz", 0), ("a", -1)):
            _, following, response = await page(broker, "a", cursor=cursor)
            assert [topic.error_code for topic in response.topics] == [ErrorCode.INVALID_REQUEST]
            assert following is None

    run(test)

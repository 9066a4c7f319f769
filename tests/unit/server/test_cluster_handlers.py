"""Handlers about the cluster, the disk and producer ids. Codes and fields as Apache Kafka 4.3.1 answered."""

import asyncio

from handlers import PartsBroker, call, run

from barnabas.errors import ErrorCode
from barnabas.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from barnabas.protocol.messages.describe_cluster import DescribeClusterRequest
from barnabas.protocol.messages.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from barnabas.protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    RequestPartitionData,
    RequestTopicData,
)
from barnabas.protocol.messages.init_producer_id import InitProducerIdRequest
from barnabas.server.handlers import (
    delete_records,
    describe_cluster,
    describe_log_dirs,
    describe_quorum,
    init_producer_id,
)

# DescribeCluster


def test_the_cluster_in_every_version() -> None:
    async def test() -> None:
        broker = await PartsBroker(broker_rack="r1").start()
        for version in range(3):
            asked = DescribeClusterRequest(include_cluster_authorized_operations=True)
            response = await call(describe_cluster, broker, asked, version)
            [node] = response.brokers
            assert (node.broker_id, node.host, node.port, node.rack) == (1, "dialled", 1234, "r1")
            assert (response.cluster_id, response.controller_id, response.error_code) == ("cluster", 1, 0)
            assert response.cluster_authorized_operations == 8096
        response = await call(describe_cluster, broker, DescribeClusterRequest(), 2)
        assert response.cluster_authorized_operations == -(2**31)

    run(test)


def test_fenced_brokers_only_if_asked_for() -> None:
    async def test() -> None:
        broker = await PartsBroker().start()
        image = broker.controller.image
        fenced = image.brokers[1]._replace(id=2, fenced=True)
        broker.controller.image = image._replace(brokers={**image.brokers, 2: fenced})
        response = await call(describe_cluster, broker, DescribeClusterRequest(), 2)
        assert [node.broker_id for node in response.brokers] == [1]
        response = await call(describe_cluster, broker, DescribeClusterRequest(include_fenced_brokers=True), 2)
        assert [(node.broker_id, node.host, node.is_fenced) for node in response.brokers] == [
            (1, "dialled", False),
            (2, "127.0.0.1", True),
        ]

    run(test)


def test_controllers_are_not_described_on_a_brokers_listener() -> None:
    async def test() -> None:
        broker = await PartsBroker().start()
        for kind, error in ((2, ErrorCode.MISMATCHED_ENDPOINT_TYPE), (3, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE)):
            response = await call(describe_cluster, broker, DescribeClusterRequest(endpoint_type=kind), 1)
            assert (response.error_code, response.brokers) == (error, [])

    run(test)


# DescribeQuorum


def quorum(*topics: tuple[str, int]) -> DescribeQuorumRequest:
    return DescribeQuorumRequest(
        topics=[
            RequestTopicData(topic_name=name, partitions=[RequestPartitionData(partition_index=index)])
            for name, index in topics
        ]
    )


def test_the_quorum_of_one() -> None:
    async def test() -> None:
        broker = await PartsBroker().start()
        for version in range(3):
            response = await call(describe_quorum, broker, quorum(("__cluster_metadata", 0)), version)
            [partition] = response.topics[0].partitions
            assert (partition.error_code, partition.leader_id, partition.leader_epoch) == (0, 1, 1)
            assert partition.high_watermark == 13
            [voter] = partition.current_voters
            assert (voter.replica_id, voter.log_end_offset) == (1, 13)
            assert (voter.last_fetch_timestamp > 0) is (version >= 1)
            assert partition.observers == []
            assert [node.node_id for node in response.nodes] == ([1] if version >= 2 else [])

    run(test)


def test_nothing_else_has_a_quorum() -> None:
    async def test() -> None:
        broker = await PartsBroker().start()
        for asked in ([("a", 0)], [("__cluster_metadata", 1)], [("__cluster_metadata", 0), ("a", 0)]):
            response = await call(describe_quorum, broker, quorum(*asked), 2)
            errors = [partition.error_code for topic in response.topics for partition in topic.partitions]
            assert errors == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION] * len(asked)
            assert response.nodes == []
        assert (await call(describe_quorum, broker, quorum(), 2)).topics == []

    run(test)


# DeleteRecords


async def delete(broker: PartsBroker, topic: str, *offsets: tuple[int, int], version: int = 2) -> list[tuple[int, int]]:
    partitions = [DeleteRecordsPartition(partition_index=index, offset=offset) for index, offset in offsets]
    request = DeleteRecordsRequest(topics=[DeleteRecordsTopic(name=topic, partitions=partitions)])
    response = await call(delete_records, broker, request, version)
    return [(result.low_watermark, result.error_code) for result in response.topics[0].partitions]


def test_records_before_an_offset_are_gone() -> None:
    async def test() -> None:
        broker = await PartsBroker().start()
        log = broker.add_log("a", 0, 10)
        for version in range(3):
            assert await delete(broker, "a", (0, version + 1), version=version) == [(version + 1, 0)]
        assert log.log_start_offset == 3
        assert await delete(broker, "a", (0, 2)) == [(3, 0)], "the start of a log never goes back"
        assert await delete(broker, "a", (0, -1)) == [(10, 0)]
        assert await delete(broker, "a", (0, 10), (0, 10)) == [(10, 0)]

    run(test)


def test_records_that_cannot_be_deleted() -> None:
    async def test() -> None:
        broker = await PartsBroker().start()
        broker.add_log("a", 0, 10).high_watermark = 10
        broker.add_log("compacted", 0, 10, cleanup_policy="compact")
        broker.add_log("__consumer_offsets", 0, 10)
        out_of_range = (-1, ErrorCode.OFFSET_OUT_OF_RANGE)
        assert await delete(broker, "a", (0, 11)) == [out_of_range]
        assert await delete(broker, "a", (0, -2)) == [out_of_range]
        assert await delete(broker, "a", (9, 1)) == [(-1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)]
        assert await delete(broker, "no", (0, 1)) == [(-1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)]
        assert await delete(broker, "compacted", (0, 1)) == [(-1, ErrorCode.POLICY_VIOLATION)]
        assert await delete(broker, "__consumer_offsets", (0, 1)) == [(-1, ErrorCode.INVALID_TOPIC_EXCEPTION)]

    run(test)


# DescribeLogDirs


def test_directories_and_sizes() -> None:
    async def test() -> None:
        broker = await PartsBroker().start()
        first, second = broker.add_log("a", 0, 3), broker.add_log("b", 1, 0)
        everything = {"a": [(0, first.size_bytes)], "b": [(1, second.size_bytes)]}
        some = [
            DescribableLogDirTopic(topic="a", partitions=[0, 7]),
            DescribableLogDirTopic(topic="no", partitions=[0]),
        ]
        for version in range(1, 6):
            for topics, expected in ((None, everything), ([], {}), (some, {"a": everything["a"]})):
                response = await call(describe_log_dirs, broker, DescribeLogDirsRequest(topics=topics), version)
                [result] = response.results
                assert result.error_code == 0
                assert result.log_dir == "data"
                assert {
                    topic.name: [(each.partition_index, each.partition_size) for each in topic.partitions]
                    for topic in result.topics
                } == expected
                assert (result.total_bytes > 0) is (version >= 4)
                assert all(not each.is_future_key for topic in result.topics for each in topic.partitions)
        assert first.size_bytes > 0

    run(test)


# InitProducerId


async def init(broker: PartsBroker, version: int = 5, **fields: object) -> tuple[int, int, int]:
    request = InitProducerIdRequest(**{"transactional_id": None, "transaction_timeout_ms": 1000, **fields})  # type: ignore[arg-type]
    response = await call(init_producer_id, broker, request, version)
    return response.error_code, response.producer_id, response.producer_epoch


def test_ids_are_new_in_every_version() -> None:
    async def test() -> None:
        broker = await PartsBroker().start()
        assert [await init(broker, version) for version in range(6)] == [(0, number, 0) for number in range(6)]
        assert await init(broker, producer_id=5, producer_epoch=3) == (0, 6, 0)

    run(test)


def test_ids_that_cannot_be_given() -> None:
    async def test() -> None:
        broker = await PartsBroker().start()
        assert await init(broker, producer_id=5) == (ErrorCode.INVALID_REQUEST, -1, -1)
        assert await init(broker, producer_epoch=5) == (ErrorCode.INVALID_REQUEST, -1, -1)
        assert await init(broker, transactional_id="") == (ErrorCode.INVALID_REQUEST, -1, -1)
        assert await init(broker, transactional_id="t") == (ErrorCode.NOT_COORDINATOR, -1, -1)
        broker.controller.failure = OSError("gone")
        assert await init(broker) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, -1, -1)

    run(test)


def test_many_at_once_ask_for_one_block_and_share_it() -> None:
    async def test() -> None:
        broker = await PartsBroker().start()
        answers = await asyncio.gather(*(init(broker) for _ in range(2500)))
        assert sorted(producer_id for _, producer_id, _ in answers) == list(range(2500))
        assert broker.controller.image.next_producer_id == 3000

    run(test)

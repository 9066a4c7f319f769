"""Replicas that move: they catch up, take over, and leave nothing behind where they were."""

from functools import partial

from cluster import Cluster, run, until

from barnabas.config.broker import BrokerConfig
from barnabas.errors import ErrorCode
from barnabas.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from barnabas.protocol.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from barnabas.protocol.messages.create_topics import CreatableReplicaAssignment, CreatableTopic, CreateTopicsRequest
from barnabas.protocol.messages.list_partition_reassignments import ListPartitionReassignmentsRequest


async def create(cluster: Cluster, *replicas: list[int], node: int = 1) -> ErrorCode:
    assignments = [
        CreatableReplicaAssignment(partition_index=number, broker_ids=ids) for number, ids in enumerate(replicas)
    ]
    topic = CreatableTopic(name="t", num_partitions=-1, replication_factor=-1, assignments=assignments)
    answer = await cluster.nodes[node].ask(CreateTopicsRequest(topics=[topic], timeout_ms=60_000), 7)
    return ErrorCode(answer.topics[0].error_code)


async def reassign(cluster: Cluster, replicas: list[int] | None, node: int = 1) -> ErrorCode:
    """Asks any broker, which hands it on to the controller."""
    topic = ReassignableTopic(name="t", partitions=[ReassignablePartition(partition_index=0, replicas=replicas)])
    answer = await cluster.nodes[node].ask(AlterPartitionReassignmentsRequest(timeout_ms=60_000, topics=[topic]), 1)
    assert answer.error_code == ErrorCode.NONE
    return ErrorCode(answer.responses[0].partitions[0].error_code)


async def under_way(cluster: Cluster) -> list[tuple[list[int], list[int], list[int]]]:
    answer = await cluster.controller.ask(ListPartitionReassignmentsRequest(timeout_ms=60_000, topics=None), 0)
    return [
        (each.replicas, each.adding_replicas, each.removing_replicas)
        for topic in answer.topics
        for each in topic.partitions
    ]


def files(cluster: Cluster, node: int, partition: int = 0) -> list[str]:
    return [name for name in cluster.nodes[node].disk.list_directory("/memory") if name.startswith(f"t-{partition}")]


def test_all_replicas_move_and_the_old_ones_leave_nothing() -> None:
    async def scenario() -> None:
        async with Cluster(4, log_segment_delete_delay_ms="0") as cluster:
            assert await create(cluster, [1, 2], node=3) == ErrorCode.NONE
            await cluster.in_sync("t", 1, 2)
            await cluster.produce("t", b"a", b"b")
            for node in (1, 2, 3, 4):
                assert await reassign(cluster, [3, 4], node=node) == ErrorCode.NONE, "asking twice changes nothing"
            await until(lambda: cluster.state("t").replicas == (3, 4), "it is done")
            state = cluster.state("t")
            assert (state.adding_replicas, state.removing_replicas) == ((), ())
            assert state.leader in (3, 4)
            await until(lambda: cluster.leader("t").running.partitions.get("t", 0), "the leader has it")
            await until(lambda: cluster.replica(cluster.leader_id("t"), "t").is_leader, "and knows that it leads")
            await cluster.in_sync("t", 3, 4)
            assert (await cluster.produce("t", b"c")).error_code == ErrorCode.NONE
            await cluster.agree("t")
            assert await cluster.values("t") == [b"a", b"b", b"c"]
            for node in (1, 2):
                await until(lambda node=node: cluster.nodes[node].running.partitions.get("t", 0) is None, "it is gone")
                assert all(name.endswith("-delete") for name in files(cluster, node))
                answer = await cluster.produce("t", b"x", node=node)
                assert answer.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
                await cluster.nodes[node].running.maintenance.remove_deleted_files()
                assert files(cluster, node) == []
            assert await under_way(cluster) == []

    run(scenario)


def test_one_that_stands_still_is_waited_for_and_may_be_given_up() -> None:
    async def scenario() -> None:
        async with Cluster() as cluster:
            assert await create(cluster, [1, 2]) == ErrorCode.NONE
            await cluster.in_sync("t", 1, 2)
            await cluster.produce("t", b"a")
            await cluster.pause_following(3)
            fetchers = cluster.nodes[3].running.fetchers
            fetchers.follow = lambda partition: None  # type: ignore[method-assign]
            assert await reassign(cluster, [3, 2]) == ErrorCode.NONE
            assert await under_way(cluster) == [([3, 2, 1], [3], [1])]
            assert (await cluster.produce("t", b"b")).error_code == ErrorCode.NONE, "who comes is not waited for"
            assert await reassign(cluster, None) == ErrorCode.NONE
            assert await reassign(cluster, None) == ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
            assert cluster.state("t").replicas == (2, 1), "those that stay, in the order that was asked for"
            await until(lambda: cluster.nodes[3].running.partitions.get("t", 0) is None, "the new one is gone")
            await cluster.produce("t", b"c")
            await cluster.agree("t")
            assert await cluster.values("t") == [b"a", b"b", b"c"]

    run(scenario)


def test_partitions_go_where_they_are_wanted_and_else_to_different_racks() -> None:
    racks = {1: "a", 2: "a", 3: "b", 4: "b"}

    async def scenario() -> None:
        cluster = Cluster(4)
        for number, rack in racks.items():
            cluster.nodes[number].settings["broker.rack"] = rack
        async with cluster:
            assert await create(cluster, [3, 1], [2, 4]) == ErrorCode.NONE
            assert await create(cluster, [1, 1]) in (
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                ErrorCode.TOPIC_ALREADY_EXISTS,
            )
            assert [cluster.state("t", number).replicas for number in range(2)] == [(3, 1), (2, 4)]
            more = CreatePartitionsTopic(name="t", count=3, assignments=[CreatePartitionsAssignment(broker_ids=[4, 1])])
            answer = await cluster.nodes[2].ask(CreatePartitionsRequest(topics=[more], timeout_ms=60_000), 3)
            assert answer.results[0].error_code == ErrorCode.NONE
            await until(lambda: cluster.state("t", 2), "all know of it")
            assert cluster.state("t", 2).replicas == (4, 1)
            await cluster.create_topic("u", partitions=12, replicas=2)
            for number in range(12):
                assert {racks[replica] for replica in cluster.state("u", number).replicas} == {"a", "b"}
            await cluster.agree("u", 11)

    run(scenario)


def test_a_throttled_reassignment_takes_its_time_until_the_throttle_is_lifted() -> None:
    async def scenario(side: str) -> None:
        async with Cluster(auto_leader_rebalance_enable="false") as cluster:
            assert await create(cluster, [1, 2]) == ErrorCode.NONE
            await cluster.in_sync("t", 1, 2)
            for _batch in range(4):
                await cluster.produce("t", b"x" * 10_000)
            throttled = 1 if side == "leader" else 3
            await cluster.set_topic_config("t", **{f"{side}_replication_throttled_replicas": f"0:{throttled}"})
            await cluster.set_broker_config(throttled, **{f"{side}_replication_throttled_rate": "1000"})
            for node in cluster.running:  # so that it takes more than one fetch
                node.running.config = BrokerConfig({**node.settings, "replica.fetch.max.bytes": "10000"})
            broker = cluster.nodes[throttled].running
            throttle = broker.leader_throttle if side == "leader" else broker.fetchers.throttle
            assert throttle.rate_bytes == 1000
            assert await reassign(cluster, [3, 2]) == ErrorCode.NONE
            await until(lambda: throttle.free_ms > broker.runtime.clock.monotonic_ms(), "the throttle holds back")
            assert (await cluster.produce("t", b"y")).error_code == ErrorCode.NONE, "who is in sync is not held back"
            await until(lambda: cluster.nodes[3].running.partitions.get("t", 0), "the new replica is there")
            new = cluster.replica(3, "t")
            assert new.log.log_end_offset < 4
            assert await under_way(cluster) != []
            await cluster.set_broker_config(throttled, **{f"{side}_replication_throttled_rate": "100000000"})
            await until(lambda: cluster.state("t").replicas == (3, 2), "it is done")

    for side in ("leader", "follower"):
        run(partial(scenario, side))

"""Transactions over several brokers: coordinators, leaders of partitions and of offsets are not the same, and come and
go."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cluster import Cluster, until
from transactional_producer import GROUP, ID, SETTINGS, TRANSACTION, TransactionalProducer, ask_until, coordinator, run

from barnabas.errors import ErrorCode
from barnabas.protocol.messages.describe_producers import DescribeProducersRequest, TopicRequest
from barnabas.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)

PARTITIONS = 6


async def offset_of(cluster: Cluster, group: str) -> int:
    wanted = OffsetFetchRequestTopics(name="t", partition_indexes=[0])
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group, topics=[wanted])], require_stable=True)

    async def ask() -> Any:
        node = await coordinator(cluster, group, GROUP)
        return await cluster.nodes[node].ask(request, 9)

    def error_of(told: Any) -> int:
        unstable = told.groups[0].topics and told.groups[0].topics[0].partitions[0].error_code
        return int(told.groups[0].error_code or (ErrorCode.NOT_COORDINATOR if unstable else 0))

    answer = await ask_until(ask, error_of)
    return int(answer.groups[0].topics[0].partitions[0].committed_offset)


async def stable(cluster: Cluster, partitions: Sequence[int] = range(PARTITIONS)) -> None:
    """No replica of these has an open transaction."""
    for partition in partitions:
        alive = [each for each in cluster.state("t", partition).replicas if cluster.nodes[each].broker is not None]
        for replica in [cluster.replica(each, "t", partition) for each in alive]:
            await until(
                lambda replica=replica: replica.log.last_stable_offset == replica.log.log_end_offset,
                f"t-{partition} has no open transaction",
            )


def test_every_replica_describes_the_producers_of_a_partition() -> None:
    """An administrator may ask a follower what it knows, as in Kafka."""

    async def scenario() -> None:
        async with Cluster(3, **SETTINGS) as cluster:
            await cluster.create_topic("t")
            producer = TransactionalProducer(cluster)
            await producer.init()
            await producer.produce(0, b"1")
            request = DescribeProducersRequest(topics=[TopicRequest(name="t", partition_indexes=[0])])
            for node in cluster.nodes.values():
                await until(
                    lambda node=node: cluster.replica(node.running.node_id, "t", 0).log.log_end_offset, "a copy"
                )
                (answer,) = (await node.ask(request, 0)).topics[0].partitions
                assert answer.error_code == ErrorCode.NONE
                assert [known.current_txn_start_offset for known in answer.active_producers] == [0]

    run(scenario)


def test_a_transaction_ends_on_every_broker() -> None:
    async def scenario() -> None:
        async with Cluster(3, **SETTINGS) as cluster:
            await cluster.create_topic("t", partitions=PARTITIONS)
            producer = TransactionalProducer(cluster)
            await producer.init()
            for turn, commit in enumerate((True, False, True)):
                for partition in range(PARTITIONS):
                    await producer.produce(partition, b"%d" % turn)
                for group in ("g", "h", "i", "j"):
                    await producer.commit_offsets(group, turn)
                await producer.end(commit=commit)
                await stable(cluster)
                for group in ("g", "h", "i", "j"):
                    assert await offset_of(cluster, group) == (turn if commit else 0)
            await producer.settled("CompleteCommit")
            for partition in range(PARTITIONS):
                await cluster.agree("t", partition)
                for replica in cluster.replicas("t", partition):
                    assert replica.log.log_end_offset == 6

    run(scenario)


def test_the_next_coordinator_goes_on() -> None:
    async def scenario() -> None:
        async with Cluster(3, **SETTINGS) as cluster:
            await cluster.create_topic("t", partitions=PARTITIONS)
            producer = TransactionalProducer(cluster)
            await producer.init()
            await producer.produce(0, b"a")
            await producer.commit_offsets("g", 7)
            first = await coordinator(cluster, ID, TRANSACTION)
            await cluster.nodes[first].stop()
            await producer.produce(1, b"b")
            await producer.produce(0, b"c")
            await producer.end(commit=True)
            await stable(cluster, (0, 1))
            assert await offset_of(cluster, "g") == 7
            await cluster.nodes[first].start()
            await stable(cluster, (0, 1))

    run(scenario)


def test_markers_reach_leaders_that_were_away() -> None:
    async def scenario() -> None:
        async with Cluster(3, **SETTINGS) as cluster:
            await cluster.create_topic("t", partitions=PARTITIONS, replicas=1)
            producer = TransactionalProducer(cluster)
            await producer.init()
            for partition in range(PARTITIONS):
                await producer.produce(partition, b"a")
            mine = await coordinator(cluster, ID, TRANSACTION)
            away = next(number for number in cluster.nodes if number != mine)
            orphans = [number for number in range(PARTITIONS) if cluster.leader_id("t", number) == away]
            assert orphans
            await cluster.nodes[away].stop()
            await producer.end(commit=True)
            await stable(cluster, [number for number in range(PARTITIONS) if number not in orphans])
            assert await producer.state() == "PrepareCommit"
            await cluster.nodes[away].start()
            await stable(cluster, orphans)
            await producer.settled("CompleteCommit")

    run(scenario)


def test_a_second_producer_fences_the_first_on_every_broker() -> None:
    async def scenario() -> None:
        async with Cluster(3, **SETTINGS) as cluster:
            await cluster.create_topic("t", partitions=PARTITIONS)
            first, second = TransactionalProducer(cluster), TransactionalProducer(cluster)
            await first.init()
            for partition in range(PARTITIONS):
                await first.produce(partition, b"zombie")
            await second.init()
            await stable(cluster)
            for partition in range(PARTITIONS):
                await second.produce(partition, b"a")
            await second.end(commit=True)
            await stable(cluster)
            for partition in range(PARTITIONS):
                leader = cluster.replica(cluster.leader_id("t", partition), "t", partition)
                assert [state.epoch for state in leader.log.producers] == [second.epoch]

    run(scenario)

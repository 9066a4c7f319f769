"""A group outlives its coordinator: the next leader of its partition knows members and offsets."""

import asyncio
from typing import Any

from cluster import Cluster, Node, run, until
from group_wire import fetch_group, join_request, sync_request

from barnabas.errors import ErrorCode
from barnabas.protocol.messages.find_coordinator import FindCoordinatorRequest
from barnabas.protocol.messages.heartbeat import HeartbeatRequest
from barnabas.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from barnabas.protocol.messages.offset_fetch import OffsetFetchRequest

GROUP = "g"
PASSING = (ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR)


async def coordinator_id(cluster: Cluster) -> int:
    """As every broker says that is asked."""
    while True:
        answers = [
            (await node.ask(FindCoordinatorRequest(coordinator_keys=[GROUP]), 6)).coordinators[0]
            for node in cluster.running
        ]
        named = {answer.node_id for answer in answers if answer.error_code == ErrorCode.NONE}
        if len(named) == 1 and named <= {number for number, node in cluster.nodes.items() if node in cluster.running}:
            return int(named.pop())
        await asyncio.sleep(0.01)


async def ask(node: Node, request: Any, version: int) -> Any:
    """Until the coordinator has loaded what it must know."""
    while True:
        answer = await node.ask(request, version)
        told = answer.groups[0] if isinstance(request, OffsetFetchRequest) else answer
        if getattr(told, "error_code", ErrorCode.NONE) not in PASSING:
            return told
        await asyncio.sleep(0.01)


async def commit(node: Node, member: str, offset: int) -> int:
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset, committed_metadata="m")
    request = OffsetCommitRequest(
        group_id=GROUP,
        generation_id_or_member_epoch=1,
        member_id=member,
        topics=[OffsetCommitRequestTopic(name="t", partitions=[partition])],
    )
    while True:
        answer = await node.ask(request, 9)
        error = int(answer.topics[0].partitions[0].error_code)
        if error not in PASSING:
            return error
        await asyncio.sleep(0.01)


async def committed(node: Node) -> tuple[int, str]:
    told = await ask(node, OffsetFetchRequest(groups=[fetch_group(GROUP, {"t": [0]})]), 9)
    assert told.error_code == ErrorCode.NONE
    [partition] = told.topics[0].partitions
    return partition.committed_offset, partition.metadata


def test_members_and_offsets_are_known_to_the_next_coordinator() -> None:
    async def scenario() -> None:
        settings = {"offsets_topic_replication_factor": "3", "offsets_topic_num_partitions": "2"}
        async with Cluster(3, group_initial_rebalance_delay_ms="0", **settings) as cluster:
            await cluster.create_topic("t")
            first = await coordinator_id(cluster)
            node = cluster.nodes[first]
            member = (await ask(node, join_request(GROUP), 9)).member_id
            joined = await ask(node, join_request(GROUP, member), 9)
            assert (joined.error_code, joined.generation_id) == (ErrorCode.NONE, 1)
            synced = await ask(node, sync_request(GROUP, member, 1, {member: b"all of it"}), 5)
            assert (synced.error_code, synced.assignment) == (ErrorCode.NONE, b"all of it")
            assert await commit(node, member, 41) == ErrorCode.NONE
            await cluster.nodes[first].stop()
            second = await coordinator_id(cluster)
            assert second != first
            node = cluster.nodes[second]
            assert await committed(node) == (41, "m")
            beat = await ask(node, HeartbeatRequest(group_id=GROUP, generation_id=1, member_id=member), 4)
            assert beat.error_code == ErrorCode.NONE
            assert await commit(node, member, 42) == ErrorCode.NONE
            await cluster.nodes[first].start()
            await cluster.nodes[second].stop()
            await until(lambda: len(cluster.running) == 2, "two are left")
            third = await coordinator_id(cluster)
            assert third != second
            assert await committed(cluster.nodes[third]) == (42, "m")

    run(scenario)


def test_whoever_does_not_coordinate_says_so() -> None:
    async def scenario() -> None:
        async with Cluster(3, offsets_topic_num_partitions="2") as cluster:
            await cluster.create_topic("t")
            first = await coordinator_id(cluster)
            request = OffsetFetchRequest(groups=[fetch_group(GROUP, {"t": [0]})])
            assert (await ask(cluster.nodes[first], request, 9)).error_code == ErrorCode.NONE
            for number in cluster.nodes.keys() - {first}:
                answer = await cluster.nodes[number].ask(request, 9)
                assert answer.groups[0].error_code == ErrorCode.NOT_COORDINATOR

    run(scenario)

"""What offsets a new leader tells: none that could be behind what its predecessor has shown."""

from typing import Any

from cluster import Cluster, run, until

from barnabas.errors import ErrorCode
from barnabas.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from barnabas.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from barnabas.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)

LATEST, EARLIEST = -1, -2


async def offset(cluster: Cluster, timestamp: int, *, node: int, version: int = 9, replica_id: int = -1) -> Any:
    wanted = ListOffsetsTopic(name="t", partitions=[ListOffsetsPartition(partition_index=0, timestamp=timestamp)])
    answer = await cluster.nodes[node].ask(ListOffsetsRequest(replica_id=replica_id, topics=[wanted]), version)
    found = answer.topics[0].partitions[0]
    return found.offset if found.error_code == ErrorCode.NONE else ErrorCode(found.error_code)


def test_a_new_leader_does_not_tell_a_watermark_that_may_be_old() -> None:
    async def scenario() -> None:
        async with Cluster() as cluster:
            await cluster.create_topic("t")
            await cluster.produce("t", b"a")
            await cluster.agree("t")
            first = cluster.leader_id("t")
            followers = cluster.followers("t")
            assert await offset(cluster, LATEST, node=first) == 1
            assert await offset(cluster, LATEST, node=followers[0]) == ErrorCode.NOT_LEADER_OR_FOLLOWER
            await cluster.produce("t", b"b", acks=1)
            await until(lambda: all(each.log.log_end_offset == 2 for each in cluster.replicas("t")), "all have it")
            for follower in followers:
                await cluster.pause_following(follower)
                cluster.replica(follower, "t").log._high_watermark = 1  # as if they had not heard of it
                cluster.nodes[follower].running.fetchers.follow = lambda _partition: None  # type: ignore[method-assign]
            await cluster.nodes[first].stop()
            await until(lambda: cluster.leader_id("t") in followers, "another leads")
            second = cluster.leader_id("t")
            await until(lambda: cluster.replica(second, "t").is_leader, "and knows it")
            assert await offset(cluster, LATEST, node=second) == ErrorCode.OFFSET_NOT_AVAILABLE
            assert await offset(cluster, LATEST, node=second, version=4) == ErrorCode.LEADER_NOT_AVAILABLE
            assert await offset(cluster, 99, node=second) == ErrorCode.OFFSET_NOT_AVAILABLE, "nothing is so late yet"
            assert await offset(cluster, 1, node=second) == 0
            assert await offset(cluster, EARLIEST, node=second) == 0
            assert await offset(cluster, LATEST, node=second, replica_id=-2) == 2
            for follower in followers:
                del cluster.nodes[follower].running.fetchers.follow
                cluster.resume_following(follower)
            await until(lambda: cluster.replica(second, "t").log.high_watermark == 2, "they have told")
            assert await offset(cluster, LATEST, node=second) == 2

    run(scenario)


async def epoch_end(cluster: Cluster, epoch: int) -> tuple[int, int]:
    wanted = [OffsetForLeaderPartition(partition=0, current_leader_epoch=-1, leader_epoch=epoch)]
    request = OffsetForLeaderEpochRequest(topics=[OffsetForLeaderTopic(topic="t", partitions=wanted)])
    found = (await cluster.nodes[1].ask(request, 4)).topics[0].partitions[0]
    return found.leader_epoch, found.end_offset


async def listed(cluster: Cluster, timestamp: int) -> tuple[int, int]:
    """Leader epoch and offset."""
    wanted = ListOffsetsTopic(name="t", partitions=[ListOffsetsPartition(partition_index=0, timestamp=timestamp)])
    found = (await cluster.nodes[1].ask(ListOffsetsRequest(replica_id=-1, topics=[wanted]), 9)).topics[0].partitions[0]
    return found.leader_epoch, found.offset


async def diverging(cluster: Cluster, fetch_offset: int, last_fetched_epoch: int) -> Any:
    wanted = FetchPartition(
        partition=0, fetch_offset=fetch_offset, last_fetched_epoch=last_fetched_epoch, partition_max_bytes=1
    )
    request = FetchRequest(session_epoch=-1, topics=[FetchTopic(topic="t", partitions=[wanted])], max_bytes=1)
    data = (await cluster.nodes[1].ask(request, 12)).responses[0].partitions[0]
    if data.error_code != ErrorCode.NONE:
        return ErrorCode(data.error_code)
    return data.diverging_epoch and (data.diverging_epoch.epoch, data.diverging_epoch.end_offset)


def test_a_leader_epoch_counts_before_anything_is_written_in_it() -> None:
    """As Apache Kafka answers the same requests."""

    async def scenario() -> None:
        async with Cluster(1) as cluster:
            await cluster.create_topic("t", replicas=1)
            await until(lambda: cluster.replica(1, "t").is_leader, "it is led")
            assert [await epoch_end(cluster, epoch) for epoch in (0, 1, -1)] == [(0, 0), (-1, -1), (-1, -1)]
            assert [await listed(cluster, timestamp) for timestamp in (-1, -2, -4)] == [(0, 0)] * 3
            assert await diverging(cluster, 0, 0) is None
            assert await diverging(cluster, 5, 0) == (0, 0)
            assert await diverging(cluster, 0, 1) == ErrorCode.OFFSET_OUT_OF_RANGE
            await cluster.produce("t", b"a")
            assert await epoch_end(cluster, 0) == (0, 1)
            await cluster.nodes[1].stop()
            await cluster.nodes[1].start()
            await until(lambda: cluster.running and cluster.nodes[1].running.partitions.get("t", 0), "it is back")
            epoch, end_offset = await listed(cluster, -1)
            assert (epoch > 0, end_offset) == (True, 1)
            assert await epoch_end(cluster, epoch) == (epoch, 1)
            assert await epoch_end(cluster, 0) == (0, 1)

    run(scenario)

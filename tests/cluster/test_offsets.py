"""What offsets a new leader tells: none that could be behind what its predecessor has shown."""

from typing import Any

from cluster import Cluster, run, until

from barnabas.errors import ErrorCode
from barnabas.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic

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

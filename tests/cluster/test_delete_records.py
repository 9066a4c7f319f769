"""Records deleted by request: gone on every replica before the answer says so."""

import asyncio
from typing import Any

from cluster import Cluster, run, until

from barnabas.errors import ErrorCode
from barnabas.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)


async def delete(cluster: Cluster, offset: int, *, node: int | None = None, timeout_ms: int = 10_000) -> Any:
    wanted = DeleteRecordsTopic(name="t", partitions=[DeleteRecordsPartition(partition_index=0, offset=offset)])
    target = cluster.leader("t") if node is None else cluster.nodes[node]
    answer = await target.ask(DeleteRecordsRequest(topics=[wanted], timeout_ms=timeout_ms), 2)
    return answer.topics[0].partitions[0]


def test_it_is_done_when_every_replica_begins_there() -> None:
    async def scenario() -> None:
        async with Cluster() as cluster:
            await cluster.create_topic("t")
            await cluster.produce("t", b"a", b"b", b"c")
            answer = await delete(cluster, 2)
            assert (answer.error_code, answer.low_watermark) == (ErrorCode.NONE, 2)
            assert [replica.log.log_start_offset for replica in cluster.replicas("t")] == [2, 2, 2]
            answer = await delete(cluster, -1)
            assert (answer.error_code, answer.low_watermark) == (ErrorCode.NONE, 3)
            assert (await delete(cluster, 4)).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
            follower = cluster.followers("t")[0]
            assert (await delete(cluster, 3, node=follower)).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER

    run(scenario)


def test_a_replica_that_stands_still_is_waited_for_until_it_is_gone_or_the_time_is_up() -> None:
    async def scenario() -> None:
        async with Cluster() as cluster:
            await cluster.create_topic("t")
            await cluster.produce("t", b"a", b"b", b"c")
            slow, _fast = cluster.followers("t")
            await cluster.pause_following(slow)
            answer = await delete(cluster, 1, timeout_ms=50)
            assert (answer.error_code, answer.low_watermark) == (ErrorCode.REQUEST_TIMED_OUT, 0)
            assert (await cluster.fetch("t", 1)).log_start_offset == 1, "it is done all the same"
            waiting = asyncio.ensure_future(delete(cluster, 2))
            leader = cluster.replica(cluster.leader_id("t"), "t")
            await until(lambda: leader.log.log_start_offset == 2, "the leader does it at once")
            assert not waiting.done()
            await cluster.nodes[slow].stop()
            answer = await waiting
            assert (answer.error_code, answer.low_watermark) == (ErrorCode.NONE, 2), "who is not alive does not count"

    run(scenario)

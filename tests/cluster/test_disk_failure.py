"""A broker whose disk fails goes in good order, and others lead what it led."""

import asyncio
import errno
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any
from unittest.mock import patch

from cluster import WAIT_SECONDS_MAX, Cluster, run, until

from barnabas.errors import ErrorCode
from barnabas.log.log import Log
from barnabas.server.replicas.log_directory import DirectoryFailed


@contextmanager
def failing(log: Log, method: str, error: int) -> Iterator[None]:
    """The method of this one log fails meanwhile."""
    original = getattr(Log, method)

    def fail(self: Log, *arguments: Any) -> Any:
        if self is log:
            raise OSError(error, "the disk fails in this test")
        return original(self, *arguments)

    with patch.object(Log, method, fail):
        yield


def test_a_leader_that_cannot_write_gives_way() -> None:
    async def scenario(error: int) -> None:
        async with Cluster() as cluster:
            await cluster.create_topic("t", min_insync_replicas="2")
            await cluster.produce("t", b"a")
            first = cluster.leader_id("t")
            broker = cluster.nodes[first].running
            with failing(cluster.replica(first, "t").log, "append_as_leader", error):
                assert (await cluster.produce("t", b"b")).error_code == ErrorCode.KAFKA_STORAGE_ERROR
            failure = await asyncio.wait_for(broker.failed, WAIT_SECONDS_MAX)
            assert isinstance(failure, DirectoryFailed)
            assert "/memory failed at t-0" in str(failure)
            await cluster.nodes[first].stop()
            await until(lambda: cluster.leader_id("t") not in (first, -1), "another leads")
            await until(lambda: cluster.replica(cluster.leader_id("t"), "t").is_leader, "and knows it")
            assert (await cluster.produce("t", b"c")).error_code == ErrorCode.NONE
            await cluster.nodes[first].start()
            await cluster.in_sync("t", 1, 2, 3)
            assert await cluster.values("t", node=first) == [b"a", b"c"]

    for error in (errno.EIO, errno.ENOSPC):
        run(partial(scenario, error))


def test_a_full_disk_alone_is_waited_out() -> None:
    async def scenario() -> None:
        async with Cluster() as cluster:
            await cluster.create_topic("t", replicas=1)
            [replica] = cluster.replicas("t")
            with failing(replica.log, "append_as_leader", errno.ENOSPC):
                assert (await cluster.produce("t", b"a")).error_code == ErrorCode.KAFKA_STORAGE_ERROR
            assert (await cluster.produce("t", b"b")).error_code == ErrorCode.NONE
            assert not cluster.leader("t").running.failed.done(), "nobody else could do better"

            await cluster.create_topic("u")
            follower = cluster.replica(cluster.followers("u")[0], "u")
            with failing(follower.log, "append_as_follower", errno.ENOSPC):
                waiting = asyncio.ensure_future(cluster.produce("u", b"a"))
                leader = cluster.replica(cluster.leader_id("u"), "u")
                await until(lambda: leader.log.log_end_offset == 1, "the leader has it")
            assert (await waiting).error_code == ErrorCode.NONE, "the follower has tried again"

    run(scenario)

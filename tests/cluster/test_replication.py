"""Three brokers in one process: what one is given, all have."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from cluster import Cluster, until

from barnabas.errors import ErrorCode


def run(test: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(asyncio.wait_for(test(), 60))


def test_what_is_acknowledged_is_on_every_broker() -> None:
    async def scenario() -> None:
        async with Cluster() as cluster:
            await cluster.create_topic("t")
            answer = await cluster.produce("t", b"a", b"b")
            assert (answer.error_code, answer.base_offset) == (ErrorCode.NONE, 0)
            for replica in cluster.replicas("t"):
                assert replica.log.log_end_offset == 2
                await until(lambda replica=replica: replica.log.high_watermark == 2, "all learn the watermark")
            assert await cluster.values("t") == [b"a", b"b"]

    run(scenario)

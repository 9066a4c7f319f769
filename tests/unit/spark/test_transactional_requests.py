"""What sinks ask of brokers about transactions, and what they remember of the answers."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

from barnabas.client.cluster import Cluster
from barnabas.client.connection import ConnectionLost
from barnabas.spark.writing import transactional_requests
from barnabas.spark.writing.transactional_requests import TIMEOUT_MS_DEFAULT, timeout_ms_max


class Brokers:
    """Broker 1 is gone at first, and allows transactions of a minute later on."""

    def __init__(self) -> None:
        self.metadata = SimpleNamespace(cluster_id="of this test alone")
        self.brokers = {1: None}
        self.asked = 0

    async def request(self, _node_id: int, _message: object) -> Any:
        self.asked += 1
        if self.asked == 1:
            raise ConnectionLost("it is gone")
        entry = SimpleNamespace(name=transactional_requests.TIMEOUT_SETTING, value="60000")
        return SimpleNamespace(results=[SimpleNamespace(configs=[entry])])


def test_a_timeout_that_nobody_told_is_not_remembered() -> None:
    brokers = Brokers()
    found = [asyncio.run(timeout_ms_max(cast("Cluster", brokers))) for _ in range(3)]
    assert found == [TIMEOUT_MS_DEFAULT, 60_000, 60_000]
    assert brokers.asked == 2

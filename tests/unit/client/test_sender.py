"""The sender and a connection that breaks at the wrong moment."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

from barnabas.client.connection import ConnectionLost
from barnabas.client.metadata import ClusterMetadata
from barnabas.client.producing.accumulator import Accumulator, Batch, Identity
from barnabas.client.producing.sender import Link, Sender
from barnabas.client.settings import ProducerConfig
from barnabas.protocol.messages.produce import ProduceResponse
from barnabas.simulation.loop import VirtualClock, VirtualLoop


class Bench:
    """A sender with one batch to send, and a connection that does what the test says."""

    def __init__(self, loop: VirtualLoop, acks: int | str, connection: Any) -> None:
        accumulator = self.accumulator = Accumulator(
            batch_size=100, linger_ms=0, delivery_timeout_ms=1000, retries=5, is_idempotent=False
        )
        accumulator.identity = Identity(7, 0)
        self.lane = accumulator.lane("t", 0)
        accumulator.open_batch(self.lane, 10, 0).append(None, b"v", None, 0, 10)
        cluster: Any = SimpleNamespace(
            runtime=SimpleNamespace(clock=VirtualClock(loop)),
            metadata=ClusterMetadata(),
            peer=lambda _node_id, _purpose: SimpleNamespace(succeeded=lambda: None),
        )
        config = ProducerConfig(bootstrap_servers="x:1", acks=acks, enable_idempotence=False)
        self.sender = Sender(cluster, accumulator, config)
        self.sender.stale = lambda _topic: None  # type: ignore[method-assign]
        self.sender.wake = lambda: None  # type: ignore[method-assign]
        self.link = Link()
        self.link.connection = connection
        self.link.versions = SimpleNamespace(best=lambda _key, most: 9)  # type: ignore[assignment]

    def send(self) -> Batch:
        batch = self.accumulator.take(self.lane)
        self.sender._send(1, self.link, [batch])
        return batch


def test_without_acknowledgements_what_the_connection_did_not_take_is_sent_again() -> None:
    loop = VirtualLoop()

    def tell(_request: object, _version: int) -> None:
        raise ConnectionLost("the request before this one broke it")

    async def scenario() -> None:
        bench = Bench(loop, 0, SimpleNamespace(tell=tell))
        batch = bench.send()
        assert batch.outcome is None
        assert list(bench.lane.queue) == [batch]
        assert not bench.lane.in_flight

    loop.run(scenario())


def test_an_answer_that_cannot_be_used_is_counted_once() -> None:
    loop = VirtualLoop()

    async def scenario() -> None:
        answer: asyncio.Future[None] = loop.create_future()

        def request_and_handle(_request: object, _version: int, handle: Any, _timeout_ms: float) -> Any:
            try:
                handle(ProduceResponse(responses=None))  # type: ignore[arg-type]
            except TypeError as error:
                answer.set_exception(error)
            return answer

        bench = Bench(loop, "all", SimpleNamespace(request_and_handle=request_and_handle))
        bench.send()
        await asyncio.sleep(0.01)
        assert bench.link.in_flight == 0

    loop.run(scenario())

"""Handlers called directly: a broker of parts, without sockets."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from controllers import Controller
from peers import FakeCluster
from supervision import NotedSupervisor

from barnabas.config.broker import BrokerConfig
from barnabas.config.topic import TopicConfig
from barnabas.errors import ErrorCode
from barnabas.log.log import Log
from barnabas.metadata.image import PartitionImage
from barnabas.protocol.message import Message
from barnabas.protocol.record_batch import Record, encode_batch
from barnabas.runtime.interfaces import Address
from barnabas.runtime.memory_disk import MemoryDisk
from barnabas.server.context import ListenerKind, RequestContext
from barnabas.server.controller.controller_channel import ControllerChannel
from barnabas.server.coordinators.producer_ids import ProducerIds
from barnabas.server.coordinators.transaction_coordinator import TransactionCoordinator
from barnabas.server.peers import Peers
from barnabas.server.replicas.partition import Partition
from barnabas.server.replicas.record_work import RecordWork
from barnabas.types import TopicPartition


class FakePartitions(dict[tuple[str, int], Partition]):
    def get(self, topic: str, partition: int) -> Partition | None:  # type: ignore[override]
        return super().get((topic, partition))

    def topic(self, name: str) -> dict[int, Partition]:
        return {partition: found for (topic, partition), found in self.items() if topic == name}

    def __iter__(self) -> Any:
        return iter(self.values())


class Registered:
    epoch = -1


class FakeDirectory:
    path = "data"


class PartsBroker:
    """The controller is the real one, on a disk in memory; partitions are added by the test."""

    node_id = 1
    cluster_id = "cluster"

    def __init__(self, **overrides: str) -> None:
        names = {name.replace("_", "."): value for name, value in overrides.items()}
        self.config = self.static_config = BrokerConfig(names)
        self.disk = MemoryDisk()
        self._controller = Controller(self.disk, overrides=names)
        self.controller = self._controller.service
        self.runtime = self.controller._runtime
        self.peers = Peers(node_id=self.node_id, runtime=self.runtime, address_of=lambda _node_id, _purpose: None)
        self.supervisor = NotedSupervisor(self.runtime.clock)
        self.partitions = FakePartitions()
        self.record_work = RecordWork(self.runtime)
        self.directory = FakeDirectory()
        self.controller_channel = ControllerChannel(self)  # type: ignore[arg-type]
        self.producer_ids = ProducerIds(self)  # type: ignore[arg-type]
        self.transactions = TransactionCoordinator(self)  # type: ignore[arg-type]
        self.lifecycle = Registered()

    async def start(self) -> "PartsBroker":
        await self._controller.start()
        self.lifecycle.epoch = self._controller.broker_epoch
        return self

    def advertised(self, context: RequestContext) -> Address:
        return context.local_address

    def listener_name(self, context: RequestContext) -> str:
        return "PLAINTEXT"

    def add_log(self, topic: str, partition: int, records: int, **configs: str) -> Log:
        """A partition with as many records of one byte, all below its high watermark."""
        settings = {name.replace("_", "."): value for name, value in configs.items()}
        log = Log.open(self.disk, f"data/{topic}-{partition}", TopicConfig(settings, self.config), 0)
        for _ in range(records):
            info = log.append_as_leader(memoryview(encode_batch([Record(0, 1, b"k", b"x")])), 0, 1)
            assert info.error == ErrorCode.NONE
        self.partitions[topic, partition] = added = Partition(
            name=TopicPartition(topic, partition),
            topic_id=bytes(16),
            log=log,
            high_watermark=log.log_end_offset,
            cluster=FakeCluster(),
            runtime=self.runtime,
            supervisor=self.supervisor,
        )
        added.apply(PartitionImage((1,), (1,), 1, 0, 0, (bytes(16),)))
        return log


async def call(handler: Any, broker: PartsBroker, request: Message, version: int) -> Any:
    """The response as the wire would carry it in that version: encoded and decoded again."""
    context = RequestContext(
        api_key=request.API_KEY,
        api_version=version,
        correlation_id=1,
        client_id="test",
        listener=ListenerKind.BROKERS,
        local_address=("dialled", 1234),
        peer_address=("127.0.0.1", 5),
    )
    sent = bytearray()
    request.encode(sent, version)
    received, _ = type(request).decode(memoryview(sent), 0, version)
    response = handler.handle(broker, context, received)
    if isinstance(response, Awaitable):
        response = await response
    out = bytearray()
    response.encode(out, version)
    return type(response).decode(memoryview(out), 0, version)[0]


def run(test: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(asyncio.wait_for(test(), 60))

"""Several brokers in one event loop, over loopback, each with a disk in memory; and a client that asks any of them.

Holds: every wait ends, with what was waited for or by failing the test.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from barnabas.cli.ports import Ports
from barnabas.client.connection import ClientConnection
from barnabas.config.broker import BrokerConfig
from barnabas.errors import ErrorCode
from barnabas.log.checkpoint import CLEAN_SHUTDOWN_FILE_NAME
from barnabas.metadata.image import ResourceType
from barnabas.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from barnabas.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from barnabas.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from barnabas.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from barnabas.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from barnabas.protocol.record_batch import Record, decode_records, encode_batch, read_header
from barnabas.runtime.frame_reader import FrameBuffers
from barnabas.runtime.memory_disk import MemoryDisk
from barnabas.runtime.system import system_runtime
from barnabas.server.broker import Broker
from barnabas.server.replicas.partition import Partition

WAIT_SECONDS_MAX = 60.0
SCENARIO_SECONDS_MAX = 240.0
PRODUCE_VERSION = 12
FETCH_VERSION = 12
REQUEST_MS_MAX = 60_000
SET = 0  # as IncrementalAlterConfigs has it


_kept = Ports("127.0.0.1")


def free_ports(count: int) -> list[int]:
    """Nobody else gets them while the scenario lasts."""
    ports = [_kept.take(0) for _ in range(count)]
    _kept.settle()
    return ports


def run(scenario: Callable[[], Coroutine[Any, Any, None]]) -> None:
    try:
        asyncio.run(asyncio.wait_for(scenario(), SCENARIO_SECONDS_MAX))
    finally:
        _kept.close()


async def until(condition: Callable[[], Any], what: str) -> Any:
    """Waits for the condition to hold and gives what it gave."""
    deadline = asyncio.get_running_loop().time() + WAIT_SECONDS_MAX
    while True:
        found = condition()
        if found:
            return found
        assert asyncio.get_running_loop().time() < deadline, f"it never happened: {what}"
        await asyncio.sleep(0.005)


class Node:
    def __init__(self, settings: dict[str, str]) -> None:
        self.settings = settings
        self.disk = MemoryDisk()
        self.broker: Broker | None = None
        self._connection: ClientConnection | None = None

    @property
    def running(self) -> Broker:
        assert self.broker is not None
        return self.broker

    async def start(self) -> None:
        runtime = system_runtime(asyncio.get_running_loop(), self.disk)
        self.broker = Broker(BrokerConfig(self.settings), runtime)
        await self.broker.start()

    async def stop(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        if self.broker is not None:
            broker, self.broker = self.broker, None
            await broker.stop()

    def forget_clean_end(self) -> None:
        """As if the process, while it is down, had not ended in good order."""
        self.disk.remove(f"/memory/{CLEAN_SHUTDOWN_FILE_NAME}")

    async def ask(self, request: Any, version: int) -> Any:
        if self._connection is None or self._connection.is_closed:
            runtime = self.running.runtime
            self._connection = ClientConnection(
                socket=await runtime.network.connect(*self.running.addresses[0]),
                clock=runtime.clock,
                client_id="test",
                buffers=FrameBuffers(),
            )
        return await self._connection.request(request, version, REQUEST_MS_MAX)


class Cluster:
    """`async with Cluster(3) as cluster:` with nodes 1 to 3."""

    def __init__(self, count: int = 3, *, racks: bool = False, **settings: str) -> None:
        ports = free_ports(2 * count)
        voters = ",".join(f"{number + 1}@127.0.0.1:{ports[count + number]}" for number in range(count))
        listeners = [
            f"PLAINTEXT://127.0.0.1:{ports[number]},CONTROLLER://127.0.0.1:{ports[count + number]}"
            for number in range(count)
        ]
        self.voters = voters
        self._settings = {name.replace("_", "."): value for name, value in settings.items()}
        self.nodes = {
            number + 1: Node(
                {
                    "node.id": str(number + 1),
                    "listeners": listeners[number],
                    "controller.listener.names": "CONTROLLER",
                    "inter.broker.listener.name": "PLAINTEXT",
                    "controller.quorum.voters": voters,
                    "log.dirs": "/memory",
                    **({"broker.rack": f"rack-{number + 1}"} if racks else {}),
                    **self._settings,
                }
            )
            for number in range(count)
        }

    def further_broker(self, number: int, **settings: str) -> Node:
        """A node that does not vote, not started yet."""
        [port] = free_ports(1)
        node = self.nodes[number] = Node(
            {
                "node.id": str(number),
                "process.roles": "broker",
                "listeners": f"PLAINTEXT://127.0.0.1:{port}",
                "controller.listener.names": "CONTROLLER",
                "inter.broker.listener.name": "PLAINTEXT",
                "controller.quorum.voters": self.voters,
                "log.dirs": "/memory",
                **self._settings,
                **{name.replace("_", "."): value for name, value in settings.items()},
            }
        )
        return node

    async def __aenter__(self) -> Cluster:
        await asyncio.wait_for(asyncio.gather(*(node.start() for node in self.nodes.values())), WAIT_SECONDS_MAX)
        for node in self.running:
            await until(
                lambda broker=node.running: (
                    sum(not each.fenced for each in broker.controller.image.brokers.values()) == len(self.nodes)
                ),
                "every broker knows of all of them",
            )
        return self

    async def __aexit__(self, *_error: object) -> None:
        await asyncio.wait_for(asyncio.gather(*(node.stop() for node in self.running)), WAIT_SECONDS_MAX)

    @property
    def running(self) -> list[Node]:
        return [node for node in self.nodes.values() if node.broker is not None]

    # What clients do

    async def ask_controller(self, request: Any, version: int) -> Any:
        """Whoever it is, once there is one."""
        await until(lambda: any(node.running.controller.quorum.is_leader for node in self.running), "somebody leads")
        return await self.controller.ask(request, version)

    async def create_topic(
        self, name: str, partitions: int = 1, replicas: int = 3, nodes: list[Node] | None = None, **configs: str
    ) -> None:
        """Known to these nodes, or to all, when it returns."""
        request = CreateTopicsRequest(
            topics=[
                CreatableTopic(
                    name=name,
                    num_partitions=partitions,
                    replication_factor=replicas,
                    configs=[
                        CreatableTopicConfig(name=key.replace("_", "."), value=value) for key, value in configs.items()
                    ],
                )
            ],
            timeout_ms=REQUEST_MS_MAX,
        )
        answer = await self.ask_controller(request, 7)
        assert answer.topics[0].error_code == ErrorCode.NONE, answer
        for node in self.running if nodes is None else nodes:
            await until(
                lambda broker=node.running: broker.controller.image.topics_by_name.get(name), "all know of the topic"
            )

    async def delete_topic(self, name: str) -> None:
        request = DeleteTopicsRequest(topics=[DeleteTopicState(name=name)], timeout_ms=REQUEST_MS_MAX)
        answer = await self.ask_controller(request, 6)
        assert answer.responses[0].error_code == ErrorCode.NONE, answer

    async def produce(
        self,
        topic: str,
        *values: bytes,
        partition: int = 0,
        acks: int = -1,
        node: int | None = None,
        timeout_ms: int = REQUEST_MS_MAX,
    ) -> Any:
        """To the leader, or to the node given; the answer for the partition."""
        target = self.leader(topic, partition) if node is None else self.nodes[node]
        batch = encode_batch([Record(number, 1, None, value, []) for number, value in enumerate(values)])
        data = PartitionProduceData(index=partition, records=batch)
        request = ProduceRequest(
            acks=acks, timeout_ms=timeout_ms, topic_data=[TopicProduceData(name=topic, partition_data=[data])]
        )
        answer = await target.ask(request, PRODUCE_VERSION)
        return answer.responses[0].partition_responses[0]

    async def set_topic_config(self, topic: str, **configs: str) -> None:
        await self._set_config(ResourceType.TOPIC, topic, configs)

    async def set_broker_config(self, node: int, **configs: str) -> None:
        """Known to the broker itself when it returns."""
        await self._set_config(ResourceType.BROKER, str(node), configs)
        image = self.controller.running.controller.image
        await until(lambda: self.nodes[node].running.controller.image.offset >= image.offset, "the broker knows")

    async def _set_config(self, resource_type: ResourceType, name: str, configs: dict[str, str]) -> None:
        resource = AlterConfigsResource(
            resource_type=resource_type,
            resource_name=name,
            configs=[
                AlterableConfig(name=key.replace("_", "."), config_operation=SET, value=value)
                for key, value in configs.items()
            ],
        )
        ask = self.nodes[int(name)].ask if resource_type == ResourceType.BROKER else self.ask_controller
        answer = await ask(IncrementalAlterConfigsRequest(resources=[resource]), 1)
        assert answer.responses[0].error_code == ErrorCode.NONE, answer

    async def fetch(
        self,
        topic: str,
        offset: int = 0,
        *,
        partition: int = 0,
        node: int | None = None,
        max_wait_ms: int = 0,
        rack: str = "",
    ) -> Any:
        target = self.leader(topic, partition) if node is None else self.nodes[node]
        wanted = FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=1 << 20)
        request = FetchRequest(
            max_wait_ms=max_wait_ms,
            min_bytes=1,
            max_bytes=1 << 24,
            rack_id=rack,
            topics=[FetchTopic(topic=topic, partitions=[wanted])],
        )
        answer = await target.ask(request, FETCH_VERSION)
        return answer.responses[0].partitions[0]

    async def values(self, topic: str, partition: int = 0, node: int | None = None) -> list[bytes | None]:
        data = await self.fetch(topic, partition=partition, node=node)
        assert data.error_code == ErrorCode.NONE, ErrorCode(data.error_code)
        found: list[bytes | None] = []
        position = 0
        while data.records and position < len(data.records):
            found += [record.value for record in decode_records(data.records, position)]
            position += read_header(data.records, position).size_bytes
        return found

    # What they are

    @property
    def controller(self) -> Node:
        return next(node for node in self.running if node.running.controller.quorum.is_leader)

    def state(self, topic: str, partition: int = 0) -> Any:
        """As whoever has heard most knows it."""
        image = max((node.running.controller.image for node in self.running), key=lambda each: each.offset)
        return image.partition(topic, partition)

    def leader_id(self, topic: str, partition: int = 0) -> int:
        leader = self.state(topic, partition).leader
        assert isinstance(leader, int)
        return leader

    def leader(self, topic: str, partition: int = 0) -> Node:
        return self.nodes[self.leader_id(topic, partition)]

    def followers(self, topic: str, partition: int = 0) -> list[int]:
        state = self.state(topic, partition)
        return [replica for replica in state.replicas if replica != state.leader]

    def replica(self, node: int, topic: str, partition: int = 0) -> Partition:
        found = self.nodes[node].running.partitions.get(topic, partition)
        assert found is not None
        return found

    def replicas(self, topic: str, partition: int = 0) -> list[Partition]:
        return [self.replica(replica, topic, partition) for replica in self.state(topic, partition).replicas]

    async def pause_following(self, node: int) -> None:
        """Its replicas take no more from their leaders, though the broker lives."""
        await self.nodes[node].running.fetchers.stop()

    def resume_following(self, node: int) -> None:
        broker = self.nodes[node].running
        broker.fetchers._stopped = False  # a broker that stops does so for good
        for partition in broker.partitions:
            if not partition.is_leader:
                broker.fetchers.follow(partition)

    def on_change(self, node: int, told: Callable[[], None]) -> None:
        """Calls after each difference of the metadata that the node has carried out."""
        partitions = self.nodes[node].running.partitions
        apply = partitions.apply

        def apply_and_tell(*args: Any) -> None:
            apply(*args)
            told()

        partitions.apply = apply_and_tell  # type: ignore[method-assign]

    async def in_sync(self, topic: str, *replicas: int, partition: int = 0) -> None:
        """Waits until the metadata, and the leader, say so."""

        def is_so() -> bool:
            leader = self.leader(topic, partition).running.partitions.get(topic, partition)
            if leader is None:
                return False  # its broker has not heard of it yet
            return all(sorted(each) == sorted(replicas) for each in (self.state(topic, partition).isr, leader.in_sync))

        await until(is_so, f"{replicas} are in sync of {topic}")

    async def agree(self, topic: str, partition: int = 0) -> None:
        """Waits until every replica has the same records, byte for byte, and the same watermark at their end."""
        replicas = self.replicas(topic, partition)
        await until(
            lambda: (
                len({(each.log.log_end_offset, each.log.high_watermark) for each in replicas}) == 1
                and replicas[0].log.high_watermark == replicas[0].log.log_end_offset
            ),
            "all replicas have everything",
        )
        assert len({content(each) for each in replicas}) == 1, "replicas differ"


def content(partition: Partition) -> bytes:
    log = partition.log
    found = bytearray()
    for segment in log.segments:
        found += segment.file().read(0, segment.size_bytes)
    return bytes(found)


async def die(cluster: Cluster, node_id: int) -> None:
    """As a killed process: all of its sockets are closed in one moment, and say no more than that."""
    broker = cluster.nodes[node_id].running
    cluster.nodes[node_id].broker = None
    for acceptor in (broker.acceptor, broker.controller_acceptor):
        acceptor.close()
        acceptor.close = lambda: None  # type: ignore[method-assign]
    broker.peers.close()
    await broker.stop(hand_over=False)

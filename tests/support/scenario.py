"""A simulated cluster and one client, for tests that say themselves what goes wrong and when."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from random import Random

from barnabas.errors import ErrorCode
from barnabas.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from barnabas.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from barnabas.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from barnabas.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from barnabas.protocol.record_batch import Record, encode_batch
from barnabas.simulation.client import Client, Unavailable
from barnabas.simulation.cluster import SimulatedCluster, SimulatedNode
from barnabas.simulation.consumer import Consumer
from barnabas.simulation.disk import Survival
from barnabas.simulation.history import Fetched, History, PartitionId
from barnabas.simulation.loop import VirtualClock, VirtualLoop
from barnabas.simulation.network import NetworkProfile, SimulatedNetwork
from barnabas.simulation.participants import Board, Habits, Topic
from barnabas.simulation.run import WatchedLogs
from barnabas.simulation.trace import Trace

WAIT_MS_MAX = 60_000.0


class Scenario:
    def __init__(self, *, nodes: int = 1, settings: Mapping[str, str] | None = None, seed: int = 0) -> None:
        self.loop = VirtualLoop()
        self.loop.set_exception_handler(lambda _loop, context: self.failures.append(str(context)))
        self.trace = Trace(self.loop.time)
        self.clock = VirtualClock(self.loop, now_ms=1_800_000_000_000)
        self.failures: list[str] = []  # what ended or complained without a reason
        self.network = SimulatedNetwork(self.loop, Random(seed), self.trace, NetworkProfile())
        self.cluster = SimulatedCluster(
            loop=self.loop,
            network=self.network,
            trace=self.trace,
            random=Random(seed),
            node_count=nodes,
            settings={"auto.create.topics.enable": "false", **(settings or {})},
            sync_ms_max=1.0,
            on_failure=lambda error, what: self.failures.append(f"{what}: {error!r}"),
        )
        self.history = History(self.trace.note)
        self.board = Board(self.history, Habits(seek_rate=0))
        self.client = Client(
            loop=self.loop,
            clock=self.clock,
            network=self.network.host("client"),
            random=Random(seed),
            name="client",
            bootstrap=[node.address for node in self.cluster.nodes.values()],
            timeout_ms=5000,
        )

    def run(self, main: Callable[[Scenario], Awaitable[None]]) -> None:
        async def started() -> None:
            for node in self.cluster.nodes.values():
                self.cluster.start(node)
            await self.until(lambda: self.cluster.is_up)
            await main(self)

        with WatchedLogs(self.trace, self.loop):
            self.loop.run(started())
        assert self.failures == [], self.failures

    @property
    def node(self) -> SimulatedNode:
        """The first one."""
        return self.cluster.nodes[1]

    async def until(self, condition: Callable[[], bool]) -> None:
        end_ms = self.clock.monotonic_ms() + WAIT_MS_MAX
        while not condition():
            assert self.clock.monotonic_ms() < end_ms, "it does not come about"
            await self.clock.sleep(10)

    async def patiently(self, ask: Callable[[], Awaitable[bool]]) -> None:
        """Until the answer is yes; brokers may be away for a while."""
        end_ms = self.clock.monotonic_ms() + WAIT_MS_MAX
        while True:
            try:
                if await ask():
                    return
            except Unavailable as error:
                self.trace.note(f"test: {error}")
            assert self.clock.monotonic_ms() < end_ms, "it does not come about"
            await self.clock.sleep(50)

    # Nodes

    async def cut_power(self, survival: Survival = Survival.NONE) -> None:
        """And brings the first node up again."""
        self.cluster.cut_power(self.node, survival)
        self.cluster.start(self.node)
        await self.until(lambda: self.cluster.is_up)

    async def kill(self) -> None:
        """The first node's process, and starts it again."""
        self.cluster.kill(self.node)
        self.cluster.start(self.node)
        await self.until(lambda: self.cluster.is_up)

    async def restart(self) -> None:
        """The first node, in good order."""
        self.cluster.stop(self.node)
        await self.until(lambda: self.node.process is None)
        self.cluster.start(self.node)
        await self.until(lambda: self.cluster.is_up)

    # Requests

    async def create_topic(self, name: str, *, on: Sequence[int] = (), **settings: str) -> Topic:
        """Of one partition, on these nodes, the preferred leader first; or on three."""
        configs = [CreatableTopicConfig(name=key.replace("_", "."), value=value) for key, value in settings.items()]
        assignments = [CreatableReplicaAssignment(partition_index=0, broker_ids=list(on))] if on else []
        topic = CreatableTopic(
            name=name,
            num_partitions=-1 if on else 1,
            replication_factor=-1 if on else min(3, len(self.cluster.nodes)),
            assignments=assignments,
            configs=configs,
        )
        response = await self.client.call_any(CreateTopicsRequest(topics=[topic], timeout_ms=5000), 7)
        (created,) = response.topics
        assert created.error_code == ErrorCode.NONE, created
        made = Topic(name=name, id=created.topic_id, partition_count=1)
        self.board.topics[made.id] = made
        return made

    async def delete_topic(self, topic: Topic) -> None:
        request = DeleteTopicsRequest(topics=[DeleteTopicState(topic_id=topic.id)], timeout_ms=5000)
        response = await self.client.call_any(request, 6)
        assert response.responses[0].error_code == ErrorCode.NONE, response
        del self.board.topics[topic.id]

    async def delete_records(self, topic: Topic, offset: int) -> None:
        """All before the offset."""
        connection = await self.client.leader_connection(topic.name, topic.id, 0)
        partition = DeleteRecordsPartition(partition_index=0, offset=offset)
        request = DeleteRecordsRequest(
            topics=[DeleteRecordsTopic(name=topic.name, partitions=[partition])], timeout_ms=5000
        )
        response = await self.client.call(connection, request, 2)
        assert response.topics[0].partitions[0].error_code == ErrorCode.NONE, response

    async def produce(self, topic: Topic, *values: bytes, acks: int = -1, **sequenced: int) -> ErrorCode:
        """One batch into the first partition, once."""
        connection = await self.client.leader_connection(topic.name, topic.id, 0)
        records = [Record(number, self.clock.now_ms(), None, value, []) for number, value in enumerate(values)]
        data = PartitionProduceData(index=0, records=bytes(encode_batch(records, **sequenced)))
        request = ProduceRequest(
            acks=acks, timeout_ms=5000, topic_data=[TopicProduceData(topic_id=topic.id, partition_data=[data])]
        )
        response = await self.client.call(connection, request, 13)
        return ErrorCode(response.responses[0].partition_responses[0].error_code)

    async def write(self, topic: Topic, *values: bytes) -> None:
        """As `produce`, until it is accepted: a leader may not know yet that it is one."""

        async def accepted() -> bool:
            self.client.forget_leader(topic.id, 0)
            return await self.produce(topic, *values) == ErrorCode.NONE

        await self.patiently(accepted)

    async def read(self, topic: Topic, *, at_least: int = 0) -> list[bytes]:
        """All values of the first partition, which begin at offset 0; once there are so many."""
        partition_id = PartitionId(topic.id, 0)
        reader = Consumer(self.client, self.board, with_sessions=False, name="reader")
        values: dict[int, bytes] = {}
        self.history.observers.append(
            lambda event: values.update(event.records) if isinstance(event, Fetched) else None
        )

        async def poll() -> bool:
            await reader.poll([topic], wait_ms=0)
            return reader.is_caught_up(partition_id) and len(values) >= at_least

        await self.patiently(poll)
        self.history.observers.pop()
        assert sorted(values) == list(range(len(values)))
        return [values[offset] for offset in sorted(values)]

"""Groups of aiokafka's consumers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRebalanceListener, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from aiokafka.errors import CommitFailedError, IllegalOperation
from client_libraries import aiokafka

assert aiokafka
WAIT_SECONDS = 120
PARTITIONS = 4
QUICK = {
    "auto_offset_reset": "earliest",
    "session_timeout_ms": 30_000,
    "heartbeat_interval_ms": 100,
    "retry_backoff_ms": 20,
    "fetch_max_wait_ms": 50,
    "metadata_max_age_ms": 1_000,
    "enable_auto_commit": False,
}


class Listener(ConsumerRebalanceListener):
    def __init__(self) -> None:
        self.assignments: list[frozenset[int]] = []

    async def on_partitions_revoked(self, revoked: set[TopicPartition]) -> None:
        pass

    async def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:
        self.assignments.append(frozenset(each.partition for each in assigned))


class Member:
    def __init__(self, served: str, group: str, topic: str, **settings: object) -> None:
        self.consumer = AIOKafkaConsumer(bootstrap_servers=served, group_id=group, **{**QUICK, **settings})
        self.listener = Listener()
        self.consumer.subscribe([topic], listener=self.listener)
        self.values: list[bytes] = []
        self.task: asyncio.Task[None] | None = None

    async def start(self) -> Member:
        await self.consumer.start()
        self.task = asyncio.ensure_future(self._run())
        return self

    async def _run(self) -> None:
        while True:
            message = await self.consumer.getone()
            self.values.append(message.value)
            try:
                await self.consumer.commit({TopicPartition(message.topic, message.partition): message.offset + 1})
            except (CommitFailedError, IllegalOperation):
                continue  # a rebalance came between; whoever is next reads it again

    async def stop(self) -> None:
        assert self.task is not None
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)
        await self.consumer.stop()

    @property
    def owned(self) -> frozenset[int]:
        return frozenset(each.partition for each in self.consumer.assignment())


@asynccontextmanager
async def member(served: str, topic: str, **settings: object) -> AsyncIterator[Member]:
    found = await Member(served, topic, topic, **settings).start()
    try:
        yield found
    finally:
        await found.stop()


async def until(condition: Callable[[], bool], what: str) -> None:
    deadline = asyncio.get_running_loop().time() + WAIT_SECONDS
    while not condition():
        assert asyncio.get_running_loop().time() < deadline, f"waited in vain: {what}"
        await asyncio.sleep(0.005)


async def fill(served: str, topic: str, count: int, first: int = 0) -> list[bytes]:
    values = [b"%06d" % number for number in range(first, first + count)]
    async with AIOKafkaProducer(bootstrap_servers=served) as producer:
        for number, value in enumerate(values):
            await producer.send_and_wait(topic, value, partition=number % PARTITIONS)
    return values


def share(*members: Member) -> bool:
    counts = [len(each.owned) for each in members]
    return len(frozenset().union(*(each.owned for each in members))) == sum(counts) == PARTITIONS and min(counts) > 0


@pytest.mark.parametrize(
    "assignor",
    [RangePartitionAssignor, RoundRobinPartitionAssignor, StickyPartitionAssignor],
    ids=lambda each: each.name,
)
def test_members_share_and_take_over(served: str, new_topic: Callable[..., str], assignor: type) -> None:
    topic = new_topic(partitions=PARTITIONS)
    settings = {"partition_assignment_strategy": (assignor,)}

    async def scenario() -> None:
        values = await fill(served, topic, 20)
        async with member(served, topic, **settings) as second:
            async with member(served, topic, **settings) as first:
                await until(lambda: sorted(set(first.values + second.values)) == values, "everything is read")
                await until(lambda: share(first, second), "they share")
                values.extend(await fill(served, topic, 20, first=20))
                await until(lambda: sorted(set(first.values + second.values)) == values, "each reads its part")
            await until(lambda: len(second.owned) == PARTITIONS, "the other takes over")
            values.extend(await fill(served, topic, 20, first=40))
            await until(lambda: sorted(set(first.values + second.values)) == values, "and reads on")
            places = [TopicPartition(topic, index) for index in range(PARTITIONS)]
            await until_committed(second, places, 15)

    asyncio.run(scenario())


async def until_committed(reader: Member, places: list[TopicPartition], offset: int) -> None:
    for place in places:
        for _ in range(1_000):
            if await reader.consumer.committed(place) == offset:
                break
            await asyncio.sleep(0.005)
        else:
            raise AssertionError(f"{place} has {await reader.consumer.committed(place)}")


def test_a_static_member(served: str, new_topic: Callable[..., str]) -> None:
    """It leaves when it stops, and joins as somebody new: aiokafka does so with an instance id too."""
    topic = new_topic(partitions=PARTITIONS)

    async def scenario() -> None:
        async with member(served, topic) as other:
            await until(lambda: len(other.owned) == PARTITIONS, "the first has everything")
            async with member(served, topic, group_instance_id="one") as one:
                await until(lambda: share(other, one), "they share")
            async with member(served, topic, group_instance_id="one") as one:
                await until(lambda: share(other, one), "they share again")

    asyncio.run(scenario())


def test_administration(served: str, new_topic: Callable[..., str]) -> None:
    topic = new_topic(partitions=PARTITIONS)

    async def scenario() -> None:
        await fill(served, topic, 8)
        admin = AIOKafkaAdminClient(bootstrap_servers=served)
        await admin.start()
        try:
            async with member(served, topic) as one:
                await until(lambda: len(one.values) == 8, "everything is read")
                assert (topic, "consumer") in await admin.list_consumer_groups()
                (described,) = await admin.describe_consumer_groups([topic])
                (group,) = described.groups
                assert (group[1], group[2]) == (topic, "Stable")
            offsets = await admin.list_consumer_group_offsets(topic)
            assert {place.partition: found.offset for place, found in offsets.items()} == dict.fromkeys(range(4), 2)
        finally:
            await admin.close()

    asyncio.run(scenario())

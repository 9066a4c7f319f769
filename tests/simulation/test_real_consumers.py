"""Our own consumers and producer in a simulated cluster under faults: nothing is skipped, nothing comes out of order.

Who is assigned partitions by hand sees each offset once. Members of a group may see what was not committed again, after
a rebalance, and never anything else: within what one member was given once, each offset follows the one before.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from client_world import World
from fresh_seeds import fresh_seed

from barnabas.client.admin import Admin
from barnabas.client.admin.topics import NewTopic
from barnabas.client.consuming.consumer import Consumer
from barnabas.client.consuming.rebalance import ConsumerRebalanceListener
from barnabas.client.consuming.record_decoder import ConsumerRecord
from barnabas.client.errors import CommitFailedError, KafkaError
from barnabas.client.producing.producer import Producer
from barnabas.types import TopicPartition

TOPIC = "letters"
PARTITIONS = 3
RECORDS = 60  # of each partition
CALM_SECONDS_MAX = 240


class Readings:
    """What the readers of one group, or one reader alone, have seen."""

    def __init__(self, name: str, *, once: bool) -> None:
        self.name = name
        self.once = once
        self.values: dict[tuple[str, int], dict[int, bytes]] = {}

    def add(self, record: ConsumerRecord) -> None:
        seen = self.values.setdefault((record.topic, record.partition), {})
        assert record.offset <= len(seen), f"{self.name}: {record} where {len(seen)} was the next"
        assert not self.once or record.offset == len(seen), f"{self.name}: {record} a second time"
        known = seen.setdefault(record.offset, record.value or b"")
        assert known == record.value, f"{self.name}: {record} had been {known!r}"

    def counts(self) -> tuple[str, list[int]]:
        return self.name, [len(seen) for seen in self.values.values()]

    def is_complete(self, values: dict[int, list[bytes]]) -> bool:
        return all(
            list(self.values.get((TOPIC, number), {}).values()) == expected for number, expected in values.items()
        )


class Following(ConsumerRebalanceListener):
    """Within what it was given once, each offset follows the one before."""

    def __init__(self) -> None:
        self.last: dict[TopicPartition, int] = {}
        self.rebalances = 0

    def on_partitions_assigned(self, partitions: tuple[TopicPartition, ...]) -> None:
        self.rebalances += 1
        assert not set(partitions) & set(self.last), "given what it has"
        self.last.update(dict.fromkeys(partitions, -1))

    def on_partitions_revoked(self, partitions: tuple[TopicPartition, ...]) -> None:
        for partition in partitions:
            del self.last[partition]

    def add(self, record: ConsumerRecord) -> None:
        partition = TopicPartition(record.topic, record.partition)
        assert partition in self.last, f"{record} is not its to read"
        before = self.last[partition]
        assert before in (-1, record.offset - 1), f"{record} after {before}"
        self.last[partition] = record.offset


async def produce(world: World, values: dict[int, list[bytes]]) -> None:
    random = Random(world.random.random())
    async with Producer(**world.settings("producer"), linger_ms=2, delivery_timeout_ms=200_000) as producer:
        for number in range(RECORDS):
            futures = []
            for partition in range(PARTITIONS):
                value = b"%d of %d" % (number, partition)
                values[partition].append(value)
                futures.append(await producer.send(TOPIC, value, partition=partition))
            await asyncio.gather(*futures)
            await world.clock.sleep(random.uniform(1, 700))


async def read_alone(world: World, readings: Readings, is_over: Callable[[], bool]) -> None:
    settings = world.settings(readings.name)
    async with Consumer(auto_offset_reset="earliest", fetch_max_wait_ms=200, **settings) as consumer:
        consumer.assign([(TOPIC, number) for number in range(PARTITIONS)])
        while not is_over():
            for record in await consumer.poll(500):
                readings.add(record)


async def read_in_group(
    world: World, readings: Readings, name: str, is_over: Callable[[], bool], stays: bool, **settings: Any
) -> None:
    """Comes and goes, unless it stays; goes on from what was committed."""
    random = Random(f"{world.random.random()}")
    while not is_over():
        following = Following()
        consumer = Consumer(
            TOPIC,
            listener=following,
            group_id=readings.name,
            auto_offset_reset="earliest",
            fetch_max_wait_ms=200,
            max_poll_interval_ms=10_000,
            default_api_timeout_ms=20_000,
            enable_auto_commit=random.random() < 0.5,
            auto_commit_interval_ms=500,
            **world.settings(name),
            **settings,
        )
        try:
            async with consumer:
                end = world.loop.time() + (float("inf") if stays else random.uniform(5, 25))
                while not is_over() and world.loop.time() < end:
                    for record in await consumer.poll(500, random.choice((1, 10, None))):
                        following.add(record)
                        readings.add(record)
                    await commit(consumer, random)
        except KafkaError as error:
            if not error.retriable and not isinstance(error, CommitFailedError):
                raise  # a last commit that came too late is the only reason to end so


async def commit(consumer: Consumer, random: Random) -> None:
    if random.random() < 0.5:
        try:
            await consumer.commit()
        except CommitFailedError:
            return  # the group went on without it: the next poll tells


async def live(world: World, group_settings: dict[str, dict[str, Any]]) -> None:
    for node in world.cluster.nodes.values():
        world.cluster.start(node)
    async with Admin(**world.settings("admin")) as admin:
        await admin.create_topics([NewTopic(name=TOPIC, partitions=PARTITIONS, replication_factor=3)])
    values: dict[int, list[bytes]] = {number: [] for number in range(PARTITIONS)}
    readings = [Readings("alone", once=True), *(Readings(group, once=False) for group in group_settings)]
    over = False
    world.spawn(world.nemesis.run())
    producing = world.spawn(produce(world, values))
    reading = [world.spawn(read_alone(world, readings[0], lambda: over))]
    for group in readings[1:]:
        for number in range(3):
            name = f"{group.name}-{number}"
            task = read_in_group(world, group, name, lambda: over, stays=number == 0, **group_settings[group.name])
            reading.append(world.spawn(task))
    await world.until(producing.done, lambda: "the producer does not get on", CALM_SECONDS_MAX)
    world.nemesis.heal()
    await world.until(lambda: world.cluster.is_up, lambda: "not every node is up", CALM_SECONDS_MAX)
    await world.until(
        lambda: all(each.is_complete(values) for each in readings),
        lambda: f"not everything was read: {[each.counts() for each in readings]}",
        CALM_SECONDS_MAX,
    )
    over = True
    await world.until(lambda: all(task.done() for task in reading), lambda: "not every reader ends", CALM_SECONDS_MAX)
    world.cluster.is_ending = True


@pytest.mark.parametrize("number", range(3))
def test_nothing_is_skipped_and_nothing_out_of_order(number: int) -> None:
    read_under_faults(fresh_seed(f"real consumers {number}"))


def test_a_seed_that_once_failed() -> None:
    """4252194533: all brokers were forgotten while a fetch was under way, and its partition never fetched again."""
    read_under_faults(4252194533)


def read_under_faults(seed: int) -> None:
    strategies = (["cooperative-sticky"], ["range"], ["sticky"])
    world = World(seed)
    groups = {
        "classic": {
            "partition_assignment_strategy": strategies[seed % 3],
            "session_timeout_ms": 6000,
            "heartbeat_interval_ms": 1000,
        },
        "modern": {"group_protocol": "consumer"},
    }
    try:
        world.loop.run(live(world, groups))
    except BaseException as error:
        raise AssertionError(f"seed {seed}, second {world.loop.time():.3f}: {error!r}") from error
    assert world.nemesis.counts, "no fault at all"

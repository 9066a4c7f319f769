"""Our own clients copy a topic exactly once, in a simulated cluster under faults.

A copier reads, writes what it read to another topic, and commits its offsets, all in one transaction; now and then it
aborts, or is replaced by another of the same name in the midst of things. What is committed is the source, once, in
order.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from random import Random

import pytest
from client_world import World
from fresh_seeds import fresh_seed

from barnabas.client.admin import Admin
from barnabas.client.admin.topics import NewTopic
from barnabas.client.consuming.consumer import Consumer
from barnabas.client.errors import KafkaError
from barnabas.client.producing.producer import Producer
from barnabas.types import TopicPartition

SOURCE, COPY = "source", "copy"
PARTITIONS = 2
RECORDS = 40  # of each partition
CALM_SECONDS_MAX = 600
GROUP = "copiers"


async def fill(world: World) -> None:
    random = Random(world.random.random())
    async with Producer(**world.settings("filler"), delivery_timeout_ms=400_000) as producer:
        for number in range(RECORDS):
            futures = [
                await producer.send(SOURCE, b"%d" % number, partition=partition) for partition in range(PARTITIONS)
            ]
            await asyncio.gather(*futures)
            await world.clock.sleep(random.uniform(1, 400))


class Copier:
    """One process that copies, until it fails or is done: whoever comes after it goes on from what was committed."""

    def __init__(self, world: World, name: str, is_over: Callable[[], bool]) -> None:
        self.world = world
        self.name = name
        self.random = Random(f"{world.random.random()} {name}")
        self.is_over = is_over
        self.lives = 0
        self.commits = 0

    async def run(self) -> None:
        while not self.is_over():
            self.lives += 1
            try:
                await self._live()
            except KafkaError as error:
                self.world.trace.note(f"{self.name} ends: {error!r}")
            await self.world.clock.sleep(self.random.uniform(10, 500))

    async def _live(self) -> None:
        """Reads from the offsets that the group has; a group without members, so that names alone fence."""
        settings = self.world.settings(self.name)
        async with (
            Producer(
                transactional_id="copy",
                transaction_timeout_ms=self.random.choice((3000, 20_000)),
                max_block_ms=30_000,
                linger_ms=1,
                **settings,
            ) as producer,
            Consumer(
                group_id=GROUP,
                auto_offset_reset="earliest",
                enable_auto_commit=False,
                fetch_max_wait_ms=100,
                default_api_timeout_ms=30_000,
                **settings,
            ) as consumer,
        ):
            await producer.init_transactions()
            consumer.assign([TopicPartition(SOURCE, partition) for partition in range(PARTITIONS)])
            end = self.world.loop.time() + self.random.uniform(2, 20)
            while not self.is_over() and self.world.loop.time() < end:
                records = await consumer.poll(300, self.random.choice((1, 5, 20)))
                if records:
                    await producer.begin_transaction()
                    offsets = {}
                    for record in records:
                        await producer.send(COPY, record.value, partition=record.partition)
                        offsets[TopicPartition(record.topic, record.partition)] = record.offset + 1
                    await producer.send_offsets_to_transaction(offsets, GROUP)
                    if self.random.random() < 0.15:
                        await producer.flush()
                        await producer.abort_transaction()
                        return  # its position is ahead of what the group has
                    await producer.commit_transaction()
                    self.commits += 1


async def read_committed(world: World, values: dict[int, list[bytes | None]], is_over: Callable[[], bool]) -> None:
    async with Consumer(
        auto_offset_reset="earliest",
        isolation_level="read_committed",
        fetch_max_wait_ms=200,
        **world.settings("reader"),
    ) as consumer:
        consumer.assign([TopicPartition(COPY, partition) for partition in range(PARTITIONS)])
        while not is_over():
            for record in await consumer.poll(500):
                seen = values[record.partition]
                assert record.value == b"%d" % len(seen), f"{record} where {len(seen)} was the next"
                seen.append(record.value)


async def live(world: World, copiers: list[Copier], over: list[bool]) -> None:
    for node in world.cluster.nodes.values():
        world.cluster.start(node)
    async with Admin(**world.settings("admin")) as admin:
        topics = [NewTopic(name=name, partitions=PARTITIONS, replication_factor=3) for name in (SOURCE, COPY)]
        await admin.create_topics(topics)
    values: dict[int, list[bytes | None]] = {partition: [] for partition in range(PARTITIONS)}
    world.spawn(world.nemesis.run())
    filling = world.spawn(fill(world))
    working = [world.spawn(copier.run()) for copier in copiers]
    reading = world.spawn(read_committed(world, values, lambda: over[0]))
    await world.until(filling.done, lambda: "the source is not filled", CALM_SECONDS_MAX)
    world.nemesis.heal()
    await world.until(
        lambda: all(len(seen) == RECORDS for seen in values.values()),
        lambda: f"not everything is copied: { {number: len(seen) for number, seen in values.items()} }",
        CALM_SECONDS_MAX,
    )
    over[0] = True
    await world.until(
        lambda: all(task.done() for task in (*working, reading)), lambda: "not everybody ends", CALM_SECONDS_MAX
    )
    world.cluster.is_ending = True


def play(seed: int) -> list[Copier]:
    world = World(seed)
    over = [False]
    copiers = [Copier(world, name, lambda: over[0]) for name in ("copier", "twin")[: 1 + seed % 2]]
    try:
        world.loop.run(live(world, copiers, over))
    except BaseException as error:
        raise AssertionError(f"seed {seed}, second {world.loop.time():.3f}: {error!r}") from error
    return copiers


@pytest.mark.parametrize("number", range(2))
def test_a_topic_is_copied_exactly_once(number: int) -> None:
    copiers = play(fresh_seed(f"real transactions {number}"))
    assert sum(copier.commits for copier in copiers) > 0

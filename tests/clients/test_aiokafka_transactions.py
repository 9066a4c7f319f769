"""aiokafka's transactional producer, and its consumer with read_committed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.errors import ProducerFenced
from client_libraries import aiokafka

WAIT_SECONDS = 120
END = b"end"
assert aiokafka


async def read(served: str, topic: str, isolation_level: str) -> list[bytes]:
    """All values up to the one that says that it is the last."""
    consumer = AIOKafkaConsumer(
        bootstrap_servers=served, group_id=None, auto_offset_reset="earliest", isolation_level=isolation_level
    )
    await consumer.start()
    try:
        consumer.assign([TopicPartition(topic, 0)])
        values: list[bytes] = []
        while END not in values:
            values.append((await asyncio.wait_for(consumer.getone(), WAIT_SECONDS)).value)
        return values
    finally:
        await consumer.stop()


def test_commits_and_aborts(served: str, new_topic: Callable[..., str]):
    topic = new_topic()

    async def scenario() -> None:
        async with AIOKafkaProducer(bootstrap_servers=served, transactional_id=topic) as producer:
            for number in range(6):
                await producer.begin_transaction()
                await producer.send_and_wait(topic, f"{number}".encode(), partition=0)
                await (producer.abort_transaction() if number % 2 else producer.commit_transaction())
            async with producer.transaction():
                await producer.send_and_wait(topic, END, partition=0)
        assert await read(served, topic, "read_committed") == [b"0", b"2", b"4", END]
        assert await read(served, topic, "read_uncommitted") == [b"0", b"1", b"2", b"3", b"4", b"5", END]

    asyncio.run(asyncio.wait_for(scenario(), 2 * WAIT_SECONDS))


def test_offsets_belong_to_the_transaction(served: str, new_topic: Callable[..., str]):
    topic = new_topic()
    source, group = TopicPartition(topic, 0), f"group-{topic}"

    async def scenario() -> None:
        async with AIOKafkaProducer(bootstrap_servers=served, transactional_id=topic) as producer:
            consumer = AIOKafkaConsumer(bootstrap_servers=served, group_id=group, enable_auto_commit=False)
            await consumer.start()
            consumer.assign([source])
            for offset, commit in ((3, True), (7, False)):
                await producer.begin_transaction()
                await producer.send_and_wait(topic, b"x", partition=0)
                await producer.send_offsets_to_transaction({source: offset}, group)
                await (producer.commit_transaction() if commit else producer.abort_transaction())
            assert await consumer.committed(source) == 3
            await consumer.stop()

    asyncio.run(asyncio.wait_for(scenario(), 2 * WAIT_SECONDS))


def test_the_second_one_fences_the_first(served: str, new_topic: Callable[..., str]):
    topic = new_topic()

    async def scenario() -> None:
        first = AIOKafkaProducer(bootstrap_servers=served, transactional_id=topic)
        await first.start()
        await first.begin_transaction()
        await first.send_and_wait(topic, b"first", partition=0)
        async with AIOKafkaProducer(bootstrap_servers=served, transactional_id=topic) as second:
            async with second.transaction():
                await second.send_and_wait(topic, END, partition=0)
            with pytest.raises(ProducerFenced):
                await first.commit_transaction()
        await first.stop()
        assert await read(served, topic, "read_committed") == [END]

    asyncio.run(asyncio.wait_for(scenario(), 2 * WAIT_SECONDS))

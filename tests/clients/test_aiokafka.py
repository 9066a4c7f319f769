"""aiokafka's producer, consumer and admin client, without groups."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.errors import MessageSizeTooLargeError, TopicAlreadyExistsError
from client_libraries import aiokafka

WAIT_SECONDS = 120
assert aiokafka


@asynccontextmanager
async def open_consumer(served: str, topic: str, **settings: object) -> AsyncIterator[AIOKafkaConsumer]:
    consumer = AIOKafkaConsumer(
        bootstrap_servers=served, group_id=None, auto_offset_reset="earliest", enable_auto_commit=False, **settings
    )
    await consumer.start()
    try:
        consumer.assign([TopicPartition(topic, 0)])
        yield consumer
    finally:
        await consumer.stop()


async def take(consumer: AIOKafkaConsumer, count: int) -> list:
    return [await asyncio.wait_for(consumer.getone(), WAIT_SECONDS) for _ in range(count)]


@pytest.mark.parametrize("idempotent", [False, True])
@pytest.mark.parametrize("codec", [None, "gzip", "snappy", "lz4", "zstd"])
def test_every_codec(served: str, new_topic: Callable[..., str], codec: str | None, idempotent: bool):
    topic = new_topic()
    values = [bytes([number % 256]) * (number * 53 % 4_000) for number in range(300)]

    async def scenario() -> None:
        settings = {"compression_type": codec, "enable_idempotence": idempotent, "linger_ms": 5}
        async with AIOKafkaProducer(bootstrap_servers=served, **settings) as producer:
            futures = [await producer.send(topic, value) for value in values]
            sent = [await asyncio.wait_for(future, WAIT_SECONDS) for future in futures]
        assert [metadata.offset for metadata in sent] == list(range(300))
        async with open_consumer(served, topic) as consumer:
            assert [message.value for message in await take(consumer, 300)] == values

    asyncio.run(scenario())


def test_headers_timestamps_and_nulls(served: str, new_topic: Callable[..., str]):
    topic = new_topic()

    async def scenario() -> None:
        async with AIOKafkaProducer(bootstrap_servers=served) as producer:
            await producer.send_and_wait(topic, None, key=b"k", timestamp_ms=1_234, headers=[("h", b"1"), ("h", b"")])
            await producer.send_and_wait(topic, b"", key=None, timestamp_ms=5)
        async with open_consumer(served, topic) as consumer:
            first, second = await take(consumer, 2)
        assert (first.key, first.value, first.timestamp) == (b"k", None, 1_234)
        assert list(first.headers) == [("h", b"1"), ("h", b"")]
        assert (second.key, second.value, second.timestamp, list(second.headers)) == (None, b"", 5, [])

    asyncio.run(scenario())


def test_seek_positions_and_times(served: str, new_topic: Callable[..., str]):
    topic = new_topic()
    partition = TopicPartition(topic, 0)
    base = 1_700_000_000_000

    async def scenario() -> None:
        async with AIOKafkaProducer(bootstrap_servers=served) as producer:
            for number in range(30):
                await producer.send_and_wait(topic, b"%d" % number, timestamp_ms=base + number)
        async with open_consumer(served, topic) as consumer:
            consumer.seek(partition, 20)
            assert [message.value for message in await take(consumer, 3)] == [b"20", b"21", b"22"]
            await consumer.seek_to_beginning(partition)
            assert (await take(consumer, 1))[0].value == b"0"
            assert await consumer.end_offsets([partition]) == {partition: 30}
            assert await consumer.beginning_offsets([partition]) == {partition: 0}
            found = (await consumer.offsets_for_times({partition: base + 12}))[partition]
            assert (found.offset, found.timestamp) == (12, base + 12)

    asyncio.run(scenario())


def test_many_waiting_consumers_are_woken(served: str, new_topic: Callable[..., str]):
    topic = new_topic()

    async def scenario() -> None:
        async with AIOKafkaProducer(bootstrap_servers=served) as producer:
            consumers = [open_consumer(served, topic, fetch_max_wait_ms=60_000) for _ in range(5)]
            opened = [await each.__aenter__() for each in consumers]
            for number in range(5):
                waiting = [asyncio.create_task(take(consumer, 1)) for consumer in opened]
                await producer.send_and_wait(topic, b"%d" % number)
                for answer in await asyncio.wait_for(asyncio.gather(*waiting), WAIT_SECONDS):
                    assert answer[0].value == b"%d" % number
            for each in consumers:
                await each.__aexit__(None, None, None)

    asyncio.run(scenario())


def test_too_large_a_message(served: str, new_topic: Callable[..., str]):
    topic = new_topic(config={"max.message.bytes": "2000"})

    async def scenario() -> None:
        async with AIOKafkaProducer(bootstrap_servers=served) as producer:
            with pytest.raises(MessageSizeTooLargeError):
                await producer.send_and_wait(topic, b"x" * 3_000)
            await producer.send_and_wait(topic, b"x" * 1_000)

    asyncio.run(scenario())


def test_admin(served: str, topic_name: Callable[[], str]):
    topic = topic_name()

    async def scenario() -> None:
        admin = AIOKafkaAdminClient(bootstrap_servers=served)
        await admin.start()
        try:
            await admin.create_topics([NewTopic(topic, 2, 1)])
            answer = await admin.create_topics([NewTopic(topic, 2, 1)])
            assert answer.topic_errors[0][1] == TopicAlreadyExistsError.errno
            assert topic in await admin.list_topics()
            described = (await admin.describe_topics([topic]))[0]
            assert len(described["partitions"]) == 2
            assert (await admin.describe_cluster())["brokers"]
            await admin.delete_topics([topic])
        finally:
            await admin.close()

    asyncio.run(scenario())

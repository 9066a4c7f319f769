"""Our producer, by asyncio and for scripts, as other clients see what it wrote; the same against Apache Kafka."""

from __future__ import annotations

import asyncio
import itertools
import os
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "support"))

from client_libraries import confluent_kafka as ck
from confluent_io import DELIVERY_SECONDS_MAX, create_topic, deliver, open_consumer, read

from barnabas.client import synchronous
from barnabas.client.cluster import Cluster
from barnabas.client.errors import BrokersUnreachableError, ClientClosedError, KafkaTimeoutError, ProducerFencedError
from barnabas.client.producing.producer import Producer
from barnabas.client.producing.transaction import end_transaction
from barnabas.client.settings import AdminConfig
from barnabas.types import TopicPartition

_numbers = itertools.count(1)
WAIT_SECONDS_MAX = 60.0


def new_topic(servers: str, partitions: int = 1) -> str:
    name = f"producer-{os.getpid()}-{next(_numbers)}"
    create_topic(ck.admin.AdminClient({"bootstrap.servers": servers}), name, partitions)
    return name


def consumed(servers: str, topic: str, count: int, partition: int = 0, **settings: object) -> list[ck.Message]:
    consumer = open_consumer(servers, **settings)
    try:
        return read(consumer, topic, count, partition=partition)
    finally:
        consumer.close()


def transactional_id() -> str:
    return f"transactions-{os.getpid()}-{next(_numbers)}"


# Scenarios, each for a broker that may be any


async def records(servers: str) -> None:
    topic = new_topic(servers)
    headers = [("a", b"1"), ("a", None), ("ü", b"")]
    async with Producer(bootstrap_servers=servers) as producer:
        one = await producer.send_and_wait(topic, b"value", key=b"key", headers=headers, timestamp_ms=1_700_000_000_000)
        two = await producer.send_and_wait(topic)
    first, second = consumed(servers, topic, 2)
    assert (one.offset, two.offset) == (0, 1)
    assert (first.key(), first.value(), first.headers()) == (b"key", b"value", headers)
    assert first.timestamp() == (ck.TIMESTAMP_CREATE_TIME, 1_700_000_000_000)
    assert (second.key(), second.value()) == (None, None)


async def codecs(servers: str) -> None:
    values = [b"%d" % number * 30 for number in range(500)]
    names = ("none", "gzip", "snappy", "lz4", "zstd")
    topic = new_topic(servers, len(names))
    for partition, codec in enumerate(names):
        async with Producer(bootstrap_servers=servers, compression_type=codec) as producer:
            written = await (await producer.send_many(topic, values, partition=partition))
        assert [each.offset for each in written] == list(range(500)), codec
    consumer = open_consumer(servers)
    for partition, codec in enumerate(names):
        assert [message.value() for message in read(consumer, topic, 500, partition=partition)] == values, codec
    consumer.close()


async def keys(servers: str) -> None:
    """Both clients send the same key to the same partition."""
    topic = new_topic(servers, 7)
    other = ck.Producer({"bootstrap.servers": servers, "partitioner": "murmur2_random"})
    sent = [b"key-%d" % number for number in range(60)] + [b"\x00", b"\xff" * 9]
    delivered = deliver(other, topic, [{"key": key, "value": b"theirs"} for key in sent])
    async with Producer(bootstrap_servers=servers) as producer:
        written = await (await producer.send_many(topic, [b"ours"] * len(sent), keys=sent))
    places = {message.key(): message.partition() for message in delivered}
    assert places == {key: each.partition for key, each in zip(sent, written, strict=True)}


async def transactions(servers: str) -> None:
    topic = new_topic(servers)
    name = transactional_id()
    async with Producer(bootstrap_servers=servers, transactional_id=name) as producer:
        for turn in range(6):
            try:
                async with producer.transaction():
                    await producer.send_many(topic, [b"%d" % turn] * 10)
                    await producer.send_offsets_to_transaction({TopicPartition(topic, 0): turn}, f"group-of-{name}")
                    await producer.flush()
                    assert turn % 2 == 0, "aborted"
            except AssertionError:
                continue
        async with Producer(bootstrap_servers=servers, transactional_id=name) as newer:
            await newer.init_transactions()
            await producer.begin_transaction()
            with pytest.raises(ProducerFencedError):
                await producer_goes_on(producer, topic)
    seen = consumed(servers, topic, 30, isolation_level="read_committed")
    assert [message.value() for message in seen] == [b"0"] * 10 + [b"2"] * 10 + [b"4"] * 10
    consumer = ck.Consumer({"bootstrap.servers": servers, "group.id": f"group-of-{name}"})
    [offset] = consumer.committed([ck.TopicPartition(topic, 0)], DELIVERY_SECONDS_MAX)
    consumer.close()
    assert offset.offset == 4


async def producer_goes_on(producer: Producer, topic: str) -> None:
    await producer.send(topic, b"too late")
    try:
        await producer.commit_transaction()
    except ProducerFencedError:
        raise
    except Exception:
        await producer.abort_transaction()  # where it is told which it is
        raise


async def handed_on(servers: str) -> None:
    topic = new_topic(servers)
    async with Producer(bootstrap_servers=servers, transactional_id=transactional_id()) as producer:
        await producer.init_transactions()
        await producer.begin_transaction()
        await producer.send(topic, b"a")
        transaction = await producer.detach_transaction()
    async with Cluster(AdminConfig(bootstrap_servers=servers)) as cluster:
        for _ in range(2):
            await end_transaction(cluster, transaction, committed=True, timeout_ms=20_000)
    [message] = consumed(servers, topic, 1, isolation_level="read_committed")
    assert message.value() == b"a"


async def many(servers: str) -> None:
    """More than the buffer holds, to several partitions, with all that is in flight at a time."""
    topic = new_topic(servers, 3)
    values = [b"%06d" % number * 16 for number in range(20_000)]
    async with Producer(bootstrap_servers=servers, buffer_memory=200_000) as producer:
        written = await (await producer.send_many(topic, values))
    found: dict[int, list[bytes]] = {0: [], 1: [], 2: []}
    for value, each in zip(values, written, strict=True):
        assert each.offset == len(found[each.partition])
        found[each.partition].append(value)
    for partition, expected in found.items():
        if expected:
            assert [each.value() for each in consumed(servers, topic, len(expected), partition)] == expected


SCENARIOS: list[Callable[[str], Awaitable[None]]] = [records, codecs, keys, transactions, handed_on, many]


async def run(scenario: Callable[[str], Awaitable[None]], servers: str) -> None:
    async with asyncio.timeout(WAIT_SECONDS_MAX):
        await scenario(servers)


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda each: each.__name__)
def test_producer(scenario: Callable[[str], Awaitable[None]], served_by_either: str) -> None:
    asyncio.run(run(scenario, served_by_either))


# For scripts


def test_a_script(served: str) -> None:
    topic = new_topic(served)
    with synchronous.Producer(bootstrap_servers=served) as producer:
        future = producer.send(topic, b"a", key=b"k")
        assert future.result(DELIVERY_SECONDS_MAX).offset == 0
        assert future.done()
        assert future.exception() is None
        assert producer.send_and_wait(topic, b"b").offset == 1
        futures = producer.send_many(topic, [b"c", b"d"])
        assert [each.offset for each in futures.result()] == [2, 3]
        assert len(futures) == 2
        assert futures[1].result().offset == 3
        producer.flush()
        assert [each.partition for each in producer.partitions_for(topic)] == [0]
        with pytest.raises(TypeError, match="value must be bytes"):
            producer.send(topic, "text")
        with pytest.raises(TypeError, match="cannot be iterated"):
            next(iter(producer))
    producer.close()
    with pytest.raises(ClientClosedError):
        producer.send(topic, b"e")
    assert [message.value() for message in consumed(served, topic, 4)] == [b"a", b"b", b"c", b"d"]


def test_transactions_of_a_script(served: str) -> None:
    topic = new_topic(served)
    with synchronous.Producer(bootstrap_servers=served, transactional_id=transactional_id()) as producer:
        with producer.transaction() as same:
            assert same is producer
            producer.send(topic, b"a")
            assert producer.open_transaction.producer_epoch == 0
        with pytest.raises(ZeroDivisionError):
            aborted(producer, topic)
        with producer.transaction():
            producer.send(topic, b"c")
    seen = consumed(served, topic, 2, isolation_level="read_committed")
    assert [message.value() for message in seen] == [b"a", b"c"]


def aborted(producer: synchronous.Face, topic: str) -> None:
    with producer.transaction():  # type: ignore[attr-defined]
        producer.send(topic, b"b")  # type: ignore[attr-defined]
        raise ZeroDivisionError


def test_a_script_without_a_broker() -> None:
    with pytest.raises(BrokersUnreachableError):
        synchronous.Producer(bootstrap_servers="127.0.0.1:1", max_block_ms=100)


def test_a_script_that_waits_too_briefly(served: str) -> None:
    topic = new_topic(served)
    with synchronous.Producer(bootstrap_servers=served, linger_ms=20_000) as producer:
        future = producer.send(topic, b"a")
        with pytest.raises(KafkaTimeoutError):
            future.result(0.01)
        assert not future.done()
    assert len(consumed(served, topic, 1)) == 1


def test_a_script_that_forgets_to_close(served: str) -> None:
    topic = new_topic(served)
    producer = synchronous.Producer(bootstrap_servers=served, linger_ms=20_000)
    producer.send(topic, b"a")
    del producer
    assert len(consumed(served, topic, 1)) == 1


def test_every_client_has_a_face_for_scripts() -> None:
    for name in dir(synchronous):
        face = getattr(synchronous, name)
        asynchronous = face.ASYNC_CLASS
        missing = [each for each in dir(asynchronous) if not each.startswith("_") and not hasattr(face, each)]
        assert missing in ([], ["start"])
        assert face.__doc__ == asynchronous.__doc__
    with pytest.raises(AttributeError):
        synchronous.Nothing  # noqa: B018

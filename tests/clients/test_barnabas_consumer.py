"""Our consumer: what it reads, where from, and in groups with others; the same against Apache Kafka."""

from __future__ import annotations

import asyncio
import itertools
import os
import re
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "support"))

from aiokafka import AIOKafkaConsumer
from client_libraries import aiokafka
from group_consumers import GroupConsumer

from barnabas.client import synchronous
from barnabas.client.admin import Admin
from barnabas.client.admin.topics import NewTopic
from barnabas.client.consuming.consumer import Consumer
from barnabas.client.consuming.rebalance import ConsumerRebalanceListener
from barnabas.client.consuming.record_decoder import ConsumerRecord
from barnabas.client.errors import (
    BrokersUnreachableError,
    ClientClosedError,
    CommitFailedError,
    GroupFencedError,
    IllegalStateError,
    KafkaError,
    OffsetOutOfRangeError,
)
from barnabas.client.offsets import OffsetAndMetadata
from barnabas.client.producing.producer import Producer
from barnabas.config.validation import ConfigError
from barnabas.types import TopicPartition

assert aiokafka
_numbers = itertools.count(1)
WAIT_SECONDS_MAX = 180.0  # Kafka looks for topics that match a pattern every ten seconds
QUICK = {"auto_offset_reset": "earliest", "fetch_max_wait_ms": 50, "retry_backoff_max_ms": 200}
CLASSIC = {"session_timeout_ms": 10_000, "heartbeat_interval_ms": 100}
MODERN = {"group_protocol": "consumer"}


def name(stem: str) -> str:
    return f"consumer-{stem}-{os.getpid()}-{next(_numbers)}"


async def new_topic(servers: str, partitions: int = 1, stem: str = "topic") -> str:
    topic = name(stem)
    async with Admin(bootstrap_servers=servers) as admin:
        await admin.create_topics([NewTopic(name=topic, partitions=partitions, replication_factor=1)])
    return topic


async def send(servers: str, topic: str, *values: bytes, partitions: int = 1, **settings: Any) -> None:
    async with Producer(bootstrap_servers=servers, **settings) as producer:
        for number, value in enumerate(values):
            await producer.send(topic, value, partition=number % partitions, timestamp_ms=1000 + number)


async def read(consumer: Consumer, count: int) -> list[ConsumerRecord]:
    found: list[ConsumerRecord] = []
    while len(found) < count:
        found += await consumer.poll(1000)
    return found


def values(records: list[ConsumerRecord]) -> list[bytes | None]:
    return [record.value for record in records]


class Heard(ConsumerRebalanceListener):
    def __init__(self) -> None:
        self.owned: set[int] = set()
        self.words: list[str] = []

    def on_partitions_assigned(self, partitions: tuple[TopicPartition, ...]) -> None:
        self.owned |= {each.partition for each in partitions}
        self.words.append("assigned")

    async def on_partitions_revoked(self, partitions: tuple[TopicPartition, ...]) -> None:
        self.owned -= {each.partition for each in partitions}
        self.words.append("revoked")

    async def on_partitions_lost(self, partitions: tuple[TopicPartition, ...]) -> None:
        self.owned -= {each.partition for each in partitions}
        self.words.append("lost")


class Reader:
    """A consumer in a group that polls in the background until it is closed."""

    def __init__(self, servers: str, group: str, topic: str, **settings: Any) -> None:
        self.heard = Heard()
        self.values: list[bytes | None] = []
        self.consumer = Consumer(
            topic, listener=self.heard, bootstrap_servers=servers, group_id=group, **{**QUICK, **settings}
        )
        self._task = asyncio.ensure_future(self._work())

    async def _work(self) -> None:
        async with self.consumer:
            while True:
                self.values += values(await self.consumer.poll(200))

    async def owns(self, count: int) -> None:
        await until(lambda: len(self.heard.owned) == count)

    async def close(self) -> None:
        self._task.cancel()
        await asyncio.wait([self._task])
        assert self._task.cancelled(), self._task.exception()


async def until(condition: Callable[[], bool]) -> None:
    while not condition():  # noqa: ASYNC110  # what is waited for happens in other processes as well
        await asyncio.sleep(0.02)


# Scenarios, each for a broker that may be any


async def records(servers: str) -> None:
    topic = await new_topic(servers)
    headers = [("a", b"1"), ("a", None), ("ü", b"")]
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        async with Producer(bootstrap_servers=servers, compression_type=codec) as producer:
            await producer.send(topic, b"value" * 30, key=b"key", headers=headers, timestamp_ms=1_700_000_000_000)
            await producer.send(topic, None)
    async with Consumer(bootstrap_servers=servers, **QUICK) as consumer:
        consumer.assign([(topic, 0)])
        found = await read(consumer, 10)
        assert [record.offset for record in found] == list(range(10))
        first, second = found[0], found[1]
        assert (first.topic, first.partition, first.key, first.value) == (topic, 0, b"key", b"value" * 30)
        assert (first.headers, first.timestamp_ms, first.timestamp_type) == (headers, 1_700_000_000_000, 0)
        assert (second.key, second.value, second.headers) == (None, None, ())
        consumer.seek_to_beginning()
        batches = []
        while sum(len(batch.offsets) for batch in batches) < 10:
            batches += await consumer.poll_batches(1000)
        assert [record for batch in batches for record in batch.records()] == found


async def positions(servers: str) -> None:
    topic = await new_topic(servers, 2)
    await send(servers, topic, *(b"%d" % number for number in range(20)), partitions=2)
    zero, one = TopicPartition(topic, 0), TopicPartition(topic, 1)
    async with Consumer(bootstrap_servers=servers, **QUICK) as consumer:
        assert await consumer.partitions_for(topic) == [zero, one]
        consumer.assign([zero, one])
        assert await consumer.beginning_offsets([zero, one]) == {zero: 0, one: 0}
        assert await consumer.end_offsets([zero, one]) == {zero: 10, one: 10}
        at = await consumer.offsets_for_times({zero: 1004, one: 5000})
        assert at[one] is None
        assert at[zero] is not None
        assert (at[zero].offset, at[zero].timestamp_ms) == (2, 1004)
        consumer.pause(one)
        assert {record.partition for record in await read(consumer, 10)} == {0}
        assert await consumer.poll(200) == []
        assert (await consumer.position(zero), await consumer.position(one)) == (10, 0)
        assert (await consumer.lag(zero), await consumer.lag(one)) == (0, 10)
        consumer.resume(one)
        assert values(await read(consumer, 10)) == [b"%d" % number for number in range(1, 20, 2)]
        consumer.seek(zero, 8)
        assert values(await read(consumer, 2)) == [b"16", b"18"]
        consumer.seek_to_end(zero)
        assert await consumer.position(zero) == 10
        assert values(await consumer.poll(200, 3)) == []
        consumer.seek_to_beginning(zero)
        assert values(await read(consumer, 1))[0] == b"0"


async def commits(servers: str) -> None:
    topic = await new_topic(servers)
    zero = TopicPartition(topic, 0)
    group = name("group")
    await send(servers, topic, *(b"%d" % number for number in range(10)))
    settings = {"bootstrap_servers": servers, "group_id": group, **QUICK, **CLASSIC}
    async with Consumer(topic, enable_auto_commit=False, max_poll_records=4, **settings) as consumer:
        assert len(await read(consumer, 4)) == 4
        assert await consumer.committed([zero]) == {zero: None}
        await consumer.commit()
        committed = (await consumer.committed([zero]))[zero]
        assert committed is not None
        assert (committed.offset, committed.leader_epoch) == (4, 0)
        await consumer.commit({zero: OffsetAndMetadata(6, "half way")})
        await consumer.commit_async({zero: 5})
        await consumer.commit_async({zero: OffsetAndMetadata(6, "half way")})
        assert (await consumer.committed([zero]))[zero] == OffsetAndMetadata(6, "half way")
    async with Consumer(topic, **settings) as consumer:
        assert values(await read(consumer, 4)) == [b"6", b"7", b"8", b"9"]
    async with Consumer(bootstrap_servers=servers, group_id=group, **QUICK) as consumer:
        consumer.assign([zero])
        assert await consumer.position(zero) == 10, "close has committed"


async def iteration(servers: str) -> None:
    topic = await new_topic(servers)
    await send(servers, topic, *(b"%d" % number for number in range(10)))
    settings = {"bootstrap_servers": servers, "group_id": name("group"), **QUICK, **CLASSIC}
    async with Consumer(topic, **settings) as consumer:
        async for record in consumer:
            if record.offset == 3:
                break
        assert await consumer.position((topic, 0)) == 4
    async with Consumer(topic, **settings) as consumer:
        seen = []
        async for record in consumer:
            seen.append(record.offset)
            if record.offset == 5:
                consumer.seek((topic, 0), 9)
            if record.offset == 9:
                break
        assert seen == [4, 5, 9]


async def transactions(servers: str) -> None:
    topic = await new_topic(servers)
    async with Producer(bootstrap_servers=servers, transactional_id=name("id")) as producer:
        await producer.init_transactions()
        for number in range(4):
            await producer.begin_transaction()
            for _ in range(2):
                await producer.send_and_wait(topic, b"%d" % number)
            await (producer.commit_transaction if number % 2 else producer.abort_transaction)()
    settings = {"bootstrap_servers": servers, **QUICK}
    async with Consumer(isolation_level="read_committed", **settings) as consumer:
        consumer.assign([(topic, 0)])
        assert values(await read(consumer, 4)) == [b"1", b"1", b"3", b"3"]
        assert await consumer.poll(100) == []
        assert await consumer.position((topic, 0)) == 12, "behind the last marker"
    async with Consumer(**settings) as consumer:
        consumer.assign([(topic, 0)])
        assert len(await read(consumer, 8)) == 8


async def resets(servers: str) -> None:
    topic = await new_topic(servers)
    zero = TopicPartition(topic, 0)
    await send(servers, topic, b"0", b"1")
    async with Consumer(bootstrap_servers=servers, auto_offset_reset="none") as consumer:
        consumer.assign([zero])
        with pytest.raises(OffsetOutOfRangeError, match="auto_offset_reset is none; seek"):
            await consumer.poll(5000)
        consumer.seek(zero, 99)
        with pytest.raises(OffsetOutOfRangeError, match="there is no offset 99"):
            await consumer.poll(5000)
        consumer.seek(zero, 1)
        assert values(await read(consumer, 1)) == [b"1"]
    async with Consumer(bootstrap_servers=servers, **QUICK) as consumer:
        consumer.assign([zero])
        consumer.seek(zero, 99)
        assert values(await read(consumer, 2)) == [b"0", b"1"]
    async with Consumer(bootstrap_servers=servers, fetch_max_wait_ms=50) as consumer:
        consumer.assign([zero])
        assert await consumer.position(zero) == 2, "the end, by default"
    async with Consumer(bootstrap_servers=servers, auto_offset_reset="by_duration:PT1S") as consumer:
        consumer.assign([zero])
        assert await consumer.position(zero) == 2, "nothing is that new"


async def cancellation(servers: str) -> None:
    topic = await new_topic(servers)
    async with Consumer(bootstrap_servers=servers, **QUICK) as consumer:
        consumer.assign([(topic, 0)])
        waiting = asyncio.ensure_future(consumer.poll(None))
        await asyncio.sleep(0)
        with pytest.raises(IllegalStateError, match="one at a time"):
            await consumer.poll()
        waiting.cancel()
        await asyncio.wait([waiting])
        await send(servers, topic, b"0")
        assert values(await read(consumer, 1)) == [b"0"]
        waiting = asyncio.ensure_future(consumer.poll(None))
        await asyncio.sleep(0)
    with pytest.raises(ClientClosedError):
        await waiting


def group_of(**settings: Any) -> Callable[[str], Awaitable[None]]:
    async def group(servers: str) -> None:
        topic = await new_topic(servers, 4)
        group_id = name("group")
        first = Reader(servers, group_id, topic, **settings)
        await until(lambda: first.heard.owned == {0, 1, 2, 3})
        await send(servers, topic, *(b"%d" % number for number in range(8)), partitions=4)
        await until(lambda: len(first.values) == 8)
        second = Reader(servers, group_id, topic, **settings)
        await until(lambda: len(first.heard.owned) == len(second.heard.owned) == 2)
        assert not first.heard.owned & second.heard.owned
        await send(servers, topic, *(b"%d" % number for number in range(8, 16)), partitions=4)
        await until(lambda: len(first.values) + len(second.values) >= 16)
        assert second.values, "it reads what it was given"
        await first.close()
        assert first.heard.words[-1] == "revoked"
        await until(lambda: second.heard.owned == {0, 1, 2, 3})
        await send(servers, topic, *(b"%d" % number for number in range(16, 20)), partitions=4)
        await until(lambda: len(first.values) + len(second.values) >= 20)
        assert sorted(first.values + second.values, key=lambda each: int(each or 0)) == [b"%d" % n for n in range(20)]
        assert "lost" not in first.heard.words + second.heard.words
        await second.close()

    group.__name__ = "group_of_" + "_".join(str(each) for each in settings.values())
    return group


async def patterns(servers: str) -> None:
    stem = name("pattern")
    one = await new_topic(servers, stem=f"{stem}-x")
    settings = {"bootstrap_servers": servers, **QUICK, "metadata_max_age_ms": 100}
    for number, pattern in enumerate((re.compile(f"consumer-{stem}.*"), f"consumer-{stem}.*")):
        protocol = MODERN if isinstance(pattern, str) else CLASSIC
        async with Consumer(group_id=name("group"), **settings, **protocol) as consumer:
            consumer.subscribe(pattern=pattern)
            assert await consumer.poll(100) == []
            await send(servers, one, b"1")
            found = await read(consumer, 1 + number * 2)
            late = await new_topic(servers, stem=f"{stem}-y")
            await send(servers, late, b"2")
            found += await read(consumer, 1)
            assert {record.topic for record in found} >= {one, late}


async def silence(servers: str) -> None:
    """Who does not poll is taken its partitions, hears that they are lost, and comes back."""
    topic = await new_topic(servers)
    group_id = name("group")
    heard = Heard()
    settings = {**QUICK, **CLASSIC, "max_poll_interval_ms": 500}
    async with Consumer(topic, listener=heard, bootstrap_servers=servers, group_id=group_id, **settings) as consumer:
        while not heard.owned:
            await consumer.poll(100)
        other = Reader(servers, group_id, topic, **{**settings, "max_poll_interval_ms": 60_000})
        await until(lambda: other.heard.owned == {0})
        with pytest.raises(CommitFailedError):
            await consumer.commit({TopicPartition(topic, 0): 0})
        await consumer.poll(100)
        assert heard.words[:2] == ["assigned", "lost"]
        await other.close()
        while not heard.owned:
            await consumer.poll(100)


async def static_members(servers: str) -> None:
    topic = await new_topic(servers, 2)
    settings = {**QUICK, **CLASSIC, "group_instance_id": "one"}
    group_id = name("group")
    first = Reader(servers, group_id, topic, **settings)
    await until(lambda: first.heard.owned == {0, 1})
    generation = first.consumer.group_metadata().generation_id
    await first.close()
    again = Reader(servers, group_id, topic, **settings)
    await until(lambda: again.heard.owned == {0, 1})
    assert again.consumer.group_metadata().generation_id == generation, "the group has not noticed"
    await again.close()


async def fenced(servers: str) -> None:
    """Two with one instance id: the later one has it, and the earlier one hears so, also at its end."""
    topic = await new_topic(servers)
    await send(servers, topic, b"0")
    settings = {"bootstrap_servers": servers, "group_id": name("group"), "group_instance_id": "one", **QUICK, **CLASSIC}
    heard = Heard()

    async def be_usurped() -> None:
        async with Consumer(topic, listener=heard, **settings) as first:
            assert values(await read(first, 1)) == [b"0"]
            async with Consumer(topic, **settings) as second:
                while not second.assignment():
                    await second.poll(100)
                while True:
                    await first.poll(100)

    with pytest.raises(GroupFencedError, match="give each its own"):
        await be_usurped()
    assert heard.words == ["assigned", "lost"]


async def with_confluent(servers: str) -> None:
    await _with_librdkafka(servers, "range")


async def with_confluent_cooperatively(servers: str) -> None:
    await _with_librdkafka(servers, "cooperative-sticky")


async def _with_librdkafka(servers: str, strategy: str) -> None:
    """Each of the two leads once: whoever comes first does."""
    topic = await new_topic(servers, 4)
    for ours_first in (True, False):
        group_id = name("group")
        settings = {"partition_assignment_strategy": strategy}
        ours = [Reader(servers, group_id, topic, **settings, **CLASSIC)] if ours_first else []
        if ours:
            await ours[0].owns(4)
        with GroupConsumer(servers, group_id, topic, **settings) as theirs:
            if not ours:
                await until(lambda theirs=theirs: len(theirs.owned) == 4)
                ours = [Reader(servers, group_id, topic, **settings, **CLASSIC)]
            await ours[0].owns(2)
            await until(lambda theirs=theirs: len(theirs.owned) == 2)
            assert {number for _topic, number in theirs.owned} | ours[0].heard.owned == {0, 1, 2, 3}
        await ours[0].owns(4)
        await ours[0].close()


async def with_aiokafka(servers: str) -> None:
    topic = await new_topic(servers, 4)
    group_id = name("group")
    theirs = AIOKafkaConsumer(
        topic, bootstrap_servers=servers, group_id=group_id, heartbeat_interval_ms=100, metadata_max_age_ms=500
    )
    await theirs.start()
    ours = Reader(servers, group_id, topic, partition_assignment_strategy=["range", "roundrobin"], **CLASSIC)
    try:
        await until(lambda: len(ours.heard.owned) == len(theirs.assignment()) == 2)
    finally:
        await theirs.stop()
    await until(lambda: len(ours.heard.owned) == 4)
    await ours.close()


SCENARIOS: list[Callable[[str], Awaitable[None]]] = [
    records,
    positions,
    commits,
    iteration,
    transactions,
    resets,
    cancellation,
    group_of(partition_assignment_strategy="range", **CLASSIC),
    group_of(partition_assignment_strategy="cooperative-sticky", **CLASSIC),
    group_of(**MODERN),
    patterns,
    silence,
    static_members,
    fenced,
    with_confluent,
    with_confluent_cooperatively,
    with_aiokafka,
]


async def run(scenario: Callable[[str], Awaitable[None]], servers: str) -> None:
    async with asyncio.timeout(WAIT_SECONDS_MAX):
        await scenario(servers)


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda each: each.__name__)
def test_consumer(scenario: Callable[[str], Awaitable[None]], served_by_either: str) -> None:
    asyncio.run(run(scenario, served_by_either))


# For scripts


def test_a_script(served: str) -> None:
    topic = asyncio.run(new_topic(served))
    asyncio.run(send(served, topic, *(b"%d" % number for number in range(10))))
    settings = {"bootstrap_servers": served, "group_id": name("group"), **QUICK, **CLASSIC}
    with synchronous.Consumer(topic, **settings) as consumer:
        for record in consumer:
            if record.offset == 3:
                break
        assert consumer.position((topic, 0)) == 4
        consumer.commit_async().result(WAIT_SECONDS_MAX)
        assert consumer.committed([(topic, 0)])[TopicPartition(topic, 0)].offset == 4
        assert values(consumer.poll(1000, 2)) == [b"4", b"5"]
    with synchronous.Consumer(topic, **settings) as consumer:
        assert values(consumer.poll(10_000)) == [b"6", b"7", b"8", b"9"]


# Bad input


def test_settings_that_make_no_sense() -> None:
    with pytest.raises(ConfigError, match="did you mean group_id"):
        Consumer(bootstrap_servers="x:1", grup_id="a")
    with pytest.raises(ConfigError, match="set on the broker; leave it out"):
        Consumer(bootstrap_servers="x:1", group_protocol="consumer", session_timeout_ms=1000)
    with pytest.raises(ConfigError, match="less than session_timeout_ms"):
        Consumer(bootstrap_servers="x:1", heartbeat_interval_ms=50_000)
    with pytest.raises(ConfigError, match="it must be one of earliest"):
        Consumer(bootstrap_servers="x:1", auto_offset_reset="somewhere")
    with pytest.raises(ConfigError, match="a whole number"):
        Consumer(bootstrap_servers="x:1", max_poll_records=1.5)


def test_a_consumer_that_is_not_started_or_closed(served: str) -> None:
    async def use() -> None:
        consumer = Consumer(bootstrap_servers=served, group_id="a")
        consumer.assign([("t", 0)])
        with pytest.raises(ClientClosedError, match="not started"):
            await consumer.poll()
        await consumer.close()
        await consumer.close()
        with pytest.raises(ClientClosedError, match="closed"):
            await consumer.poll()
        with pytest.raises(ClientClosedError, match="closed"):
            consumer.subscribe(["t"])

    asyncio.run(use())


def test_calls_that_make_no_sense(served: str) -> None:
    async def use() -> None:
        async with Consumer(bootstrap_servers=served) as consumer:
            with pytest.raises(IllegalStateError, match="subscribe to topics or assign partitions first"):
                await consumer.poll()
            with pytest.raises(IllegalStateError, match="set group_id"):
                consumer.subscribe(["t"])
            with pytest.raises(IllegalStateError, match="no group to commit for"):
                await consumer.commit()
            with pytest.raises(IllegalStateError, match="t-0 is not assigned"):
                consumer.seek(TopicPartition("t", 0), 1)
        async with Consumer(bootstrap_servers=served, group_id="g") as consumer:
            with pytest.raises(IllegalStateError, match="a list of names"):
                consumer.subscribe("letters")
            with pytest.raises(IllegalStateError, match="topics or a pattern"):
                consumer.subscribe([], pattern=None)
            with pytest.raises(KafkaError, match=r"'c\(\*': nothing to repeat.*INVALID_REGULAR_EXPRESSION"):
                consumer.subscribe(pattern="c(*")
            consumer.subscribe(["letters"])
            with pytest.raises(IllegalStateError, match="unsubscribe"):
                consumer.assign([("t", 0)])

    asyncio.run(use())


def test_values_that_cannot_be(served: str) -> None:
    """Each is refused where it is given, and the consumer goes on."""

    async def use() -> None:
        topic = await new_topic(served)
        here = TopicPartition(topic, 0)
        async with Consumer(bootstrap_servers=served, group_id="g") as consumer:
            consumer.assign([here])
            for offset in (None, "5", 1.5):
                with pytest.raises(TypeError, match="an offset must be a whole number"):
                    consumer.seek(here, offset)  # type: ignore[arg-type]
                with pytest.raises(TypeError, match="an offset must be a whole number"):
                    await consumer.commit({here: offset})  # type: ignore[dict-item]
            for offset in (-1, 1 << 63):
                with pytest.raises(IllegalStateError, match="is no offset"):
                    consumer.seek(here, offset)
                with pytest.raises(IllegalStateError, match="is no offset to commit for"):
                    await consumer.commit({here: offset})
            for partition in (topic, ("t",), (b"t", 0), [here]):
                with pytest.raises(TypeError, match="a partition must be a TopicPartition"):
                    consumer.pause(partition)  # type: ignore[arg-type]
            with pytest.raises(TypeError, match="the partition of t must be a whole number, not str"):
                await consumer.end_offsets([("t", "0")])  # type: ignore[list-item]
            with pytest.raises(IllegalStateError, match="is no moment"):
                await consumer.offsets_for_times({here: 1 << 63})
            with pytest.raises(IllegalStateError, match="a string of 40000 bytes"):
                await consumer.commit({here: OffsetAndMetadata(1, "x" * 40_000)})
            with pytest.raises(IllegalStateError, match="at least 1"):
                await consumer.poll(max_records=0)
            await consumer.commit({here: 0})
            consumer.seek(here, 0)
            assert await consumer.poll() == []
            await consumer.unsubscribe()
            with pytest.raises(TypeError, match="the topic must be text, not NoneType"):
                consumer.subscribe([None])  # type: ignore[list-item]

    asyncio.run(use())


def test_no_broker_there() -> None:
    async def use() -> None:
        async with Consumer(bootstrap_servers="127.0.0.1:1", request_timeout_ms=200):
            raise AssertionError("who answered?")

    with pytest.raises(BrokersUnreachableError, match=r"127\.0\.0\.1:1"):
        asyncio.run(use())

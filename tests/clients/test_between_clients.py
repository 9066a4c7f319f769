"""What one client writes another reads: three codebases agree on the bytes that the broker stored."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
from collections.abc import Callable
from contextlib import closing

import pytest
from client_libraries import aiokafka, kafka
from confluent_io import DELIVERY_SECONDS_MAX, deliver, open_consumer, read

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")
Row = tuple[bytes | None, bytes | None, int, list[tuple[str, bytes]]]  # key, value, timestamp, headers
HEADERS = [("trace", b"\x00\x01"), ("trace", b"")]
ROWS: list[Row] = [
    (b"key %d" % number, None if number % 7 == 3 else b"v" * (number * 31 % 3_000), 1_700_000_000_000 + number, HEADERS)
    for number in range(100)
]


def write_confluent(served: str, topic: str, codec: str, new_producer) -> None:
    records = [
        {"key": key, "value": value, "timestamp": timestamp, "headers": headers}
        for key, value, timestamp, headers in ROWS
    ]
    deliver(new_producer(compression_type=codec), topic, records)


def write_kafka_python(served: str, topic: str, codec: str, _: object) -> None:
    chosen = None if codec == "none" else codec
    if chosen and not getattr(kafka.codec, f"has_{chosen}")():
        pytest.skip(f"kafka-python finds no library for {codec} here")
    with closing(kafka.KafkaProducer(bootstrap_servers=served, compression_type=chosen)) as producer:
        futures = [
            producer.send(topic, key=key, value=value, timestamp_ms=timestamp, headers=headers)
            for key, value, timestamp, headers in ROWS
        ]
        for future in futures:
            future.get(timeout=DELIVERY_SECONDS_MAX)


def write_aiokafka(served: str, topic: str, codec: str, _: object) -> None:
    async def scenario() -> None:
        chosen = None if codec == "none" else codec
        async with aiokafka.AIOKafkaProducer(bootstrap_servers=served, compression_type=chosen) as producer:
            for key, value, timestamp, headers in ROWS:
                await producer.send(topic, value, key=key, timestamp_ms=timestamp, headers=headers)
            await producer.flush()

    asyncio.run(scenario())


def rows_by_confluent(served: str, topic: str) -> list[Row]:
    consumer = open_consumer(served, check_crcs=True)
    try:
        messages = read(consumer, topic, len(ROWS))
        return [(each.key(), each.value(), each.timestamp()[1], each.headers()) for each in messages]
    finally:
        consumer.close()


def rows_by_kafka_python(served: str, topic: str) -> list[Row]:
    settings = {"auto_offset_reset": "earliest", "consumer_timeout_ms": 1000 * int(DELIVERY_SECONDS_MAX)}
    with closing(kafka.KafkaConsumer(bootstrap_servers=served, group_id=None, **settings)) as consumer:
        consumer.assign([kafka.TopicPartition(topic, 0)])
        messages = [next(consumer) for _ in ROWS]
        return [(each.key, each.value, each.timestamp, list(each.headers)) for each in messages]


def rows_by_aiokafka(served: str, topic: str) -> list[Row]:
    async def scenario() -> list[Row]:
        consumer = aiokafka.AIOKafkaConsumer(bootstrap_servers=served, auto_offset_reset="earliest")
        await consumer.start()
        try:
            consumer.assign([aiokafka.TopicPartition(topic, 0)])
            messages = [await asyncio.wait_for(consumer.getone(), DELIVERY_SECONDS_MAX) for _ in ROWS]
            return [(each.key, each.value, each.timestamp, list(each.headers)) for each in messages]
        finally:
            await consumer.stop()

    return asyncio.run(scenario())


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("write", [write_confluent, write_kafka_python, write_aiokafka], ids=lambda each: each.__name__)
def test_every_client_reads_what_every_client_wrote(
    served: str, new_topic: Callable[..., str], new_producer, write, codec: str
):
    topic = new_topic()
    write(served, topic, codec, new_producer)
    assert rows_by_confluent(served, topic) == ROWS
    assert rows_by_aiokafka(served, topic) == ROWS
    if codec == "none" or getattr(kafka.codec, f"has_{codec}")():
        assert rows_by_kafka_python(served, topic) == ROWS


KCAT = shutil.which("kcat") or shutil.which("kafkacat")


@pytest.mark.skipif(KCAT is None, reason="kcat is not installed")
def test_kcat(served: str, new_topic: Callable[..., str]):
    topic = new_topic()
    lines = "".join(f"key{number}:value{number}\n" for number in range(100))

    def run(*arguments: str, text: str = "") -> str:
        command = [str(KCAT), "-b", served, *arguments]
        done = subprocess.run(
            command, input=text, capture_output=True, text=True, timeout=250, check=True, env={**os.environ}
        )
        return done.stdout

    run("-P", "-t", topic, "-K", ":", "-z", "lz4", text=lines)
    assert run("-C", "-t", topic, "-p", "0", "-o", "beginning", "-e", "-q", "-K", ":") == lines
    assert run("-C", "-t", topic, "-p", "0", "-o", "-5", "-e", "-q", "-K", ":") == "".join(lines.splitlines(True)[-5:])
    assert f'topic "{topic}" with 1 partitions' in run("-L", "-t", topic)

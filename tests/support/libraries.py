"""Two client libraries that nobody here wrote, and ours, behind the few verbs with which tests of switches speak.

Holds: every wait ends, with what was waited for or by failing the test. Errors come as Kafka's codes.
"""

from __future__ import annotations

import asyncio
from typing import Protocol

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.errors import KafkaError
from client_libraries import aiokafka
from client_libraries import confluent_kafka as ck
from confluent_io import DELIVERY_SECONDS_MAX

from barnabas.client import errors, synchronous

assert aiokafka
BACKOFF_MS = 10
NONE = 0


class Library(Protocol):
    def send(self, servers: str, topic: str, *values: str, idempotent: bool = False) -> int:
        """One after the other; the code of the first error, or 0."""

    def read(self, servers: str, topic: str, count: int) -> list[str]:
        """From the beginning, at least so many."""


class Confluent:
    def send(self, servers: str, topic: str, *values: str, idempotent: bool = False) -> int:
        codes: list[int] = []
        producer = ck.Producer(
            {
                "bootstrap.servers": servers,
                "linger.ms": 0,
                "enable.idempotence": idempotent,
                "retry.backoff.ms": BACKOFF_MS,
                "retry.backoff.max.ms": 10 * BACKOFF_MS,
                "reconnect.backoff.ms": BACKOFF_MS,
                "reconnect.backoff.max.ms": 10 * BACKOFF_MS,
                "topic.metadata.refresh.fast.interval.ms": BACKOFF_MS,
            }
        )
        for value in values:
            producer.produce(topic, value, on_delivery=lambda error, _message: codes.append(error and error.code()))
            assert producer.flush(DELIVERY_SECONDS_MAX) == 0, "no answer in time"
        return next((code for code in codes if code), NONE)

    def read(self, servers: str, topic: str, count: int) -> list[str]:
        consumer = ck.Consumer(
            {
                "bootstrap.servers": servers,
                "group.id": "unused",
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "fetch.error.backoff.ms": BACKOFF_MS,
                "reconnect.backoff.ms": BACKOFF_MS,
            }
        )
        try:
            consumer.assign([ck.TopicPartition(topic, 0, ck.OFFSET_BEGINNING)])
            values: list[str] = []
            while len(values) < count:
                for message in consumer.consume(count - len(values), DELIVERY_SECONDS_MAX) or [None]:
                    assert message is not None, f"{len(values)} of {count} came"
                    assert message.error() is None, message.error()
                    values.append(message.value().decode())
            return values
        finally:
            consumer.close()


class Aiokafka:
    def send(self, servers: str, topic: str, *values: str, idempotent: bool = False) -> int:
        async def send() -> int:
            async with AIOKafkaProducer(
                bootstrap_servers=servers, enable_idempotence=idempotent, retry_backoff_ms=BACKOFF_MS
            ) as producer:
                try:
                    for value in values:
                        await asyncio.wait_for(producer.send_and_wait(topic, value.encode()), DELIVERY_SECONDS_MAX)
                except KafkaError as error:
                    return error.errno
            return NONE

        return asyncio.run(send())

    def read(self, servers: str, topic: str, count: int) -> list[str]:
        async def read() -> list[str]:
            consumer = AIOKafkaConsumer(
                bootstrap_servers=servers,
                group_id=None,
                auto_offset_reset="earliest",
                enable_auto_commit=False,
                retry_backoff_ms=BACKOFF_MS,
            )
            await consumer.start()
            try:
                consumer.assign([TopicPartition(topic, 0)])
                found = [await asyncio.wait_for(consumer.getone(), DELIVERY_SECONDS_MAX) for _ in range(count)]
                return [record.value.decode() for record in found]
            finally:
                await consumer.stop()

        return asyncio.run(read())


class Barnabas:
    def send(self, servers: str, topic: str, *values: str, idempotent: bool = False) -> int:
        with synchronous.Producer(
            bootstrap_servers=servers,
            enable_idempotence=idempotent,
            linger_ms=0,
            retry_backoff_ms=BACKOFF_MS,
            reconnect_backoff_ms=BACKOFF_MS,
        ) as producer:
            try:
                for value in values:
                    producer.send(topic, value.encode()).result(DELIVERY_SECONDS_MAX)
            except errors.KafkaError as error:
                return error.code
        return NONE

    def read(self, servers: str, topic: str, count: int) -> list[str]:
        with synchronous.Consumer(
            bootstrap_servers=servers,
            auto_offset_reset="earliest",
            retry_backoff_ms=BACKOFF_MS,
            reconnect_backoff_ms=BACKOFF_MS,
        ) as consumer:
            consumer.assign([(topic, 0)])
            values: list[str] = []
            while len(values) < count:
                records = consumer.poll(timeout_ms=1000 * DELIVERY_SECONDS_MAX, max_records=count - len(values))
                assert records, f"{len(values)} of {count} came"
                values += [record.value.decode() for record in records]
            return values

"""The services: kitchen, delivery and billing, each a consumer group that turns one topic into the next.

    python examples/food_delivery/service.py kitchen --bootstrap-server localhost:9092 --member 1

What a service reads, writes and commits is one transaction, so each order passes each stage once, whatever fails. A
transaction that fails is aborted, and the service goes back to what is committed. SIGTERM ends it cleanly.
"""

import argparse
import asyncio
import signal
import sys
from collections.abc import Callable
from typing import NamedTuple

from business import COOKED, DELIVERED, ORDERS, PAYMENTS, Order, decode

from barnabas.client import Consumer, ConsumerRecord, OffsetAndMetadata, Producer, TopicPartition
from barnabas.client.errors import IllegalStateError, KafkaError, ProducerFencedError

RECORDS_PER_TRANSACTION = 200
POLL_MS = 200


class Stage(NamedTuple):
    reads: str
    writes: str
    when_ms: Callable[[Order], int]  # in the time of the business


STAGES = {
    "kitchen": Stage(ORDERS, COOKED, lambda order: order.cooked_ms),
    "delivery": Stage(COOKED, DELIVERED, lambda order: order.delivered_ms),
    "billing": Stage(DELIVERED, PAYMENTS, lambda order: order.delivered_ms),
}


async def serve(name: str, servers: str, member: int, stopped: asyncio.Event) -> None:
    stage = STAGES[name]
    consumer = Consumer(
        stage.reads,
        bootstrap_servers=servers,
        group_id=name,
        client_id=f"{name}-{member}",
        isolation_level="read_committed",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    )
    producer = Producer(bootstrap_servers=servers, transactional_id=f"{name}-{member}", client_id=f"{name}-{member}")
    async with consumer, producer:
        while not stopped.is_set():
            records = await consumer.poll(POLL_MS, RECORDS_PER_TRANSACTION)
            if not records:
                continue
            try:
                await handle(stage, records, consumer, producer)
            except (ProducerFencedError, IllegalStateError):
                raise  # once more would end the same way: another member has this number, or a transaction timed out
            except KafkaError as error:
                print(f"{name} {member}: once more, for {error}", file=sys.stderr, flush=True)
                await rewind(consumer)


async def handle(stage: Stage, records: list[ConsumerRecord], consumer: Consumer, producer: Producer) -> None:
    async with producer.transaction():
        ends: dict[TopicPartition, int] = {}
        for record in records:
            order = decode(record.value)
            when_ms = stage.when_ms(order)
            await producer.send(stage.writes, order.encode(), key=record.key, timestamp_ms=when_ms)
            ends[TopicPartition(record.topic, record.partition)] = record.offset + 1
        await producer.send_offsets_to_transaction(ends, consumer.group_metadata())


async def rewind(consumer: Consumer) -> None:
    """To what is committed: what was aborted is read again."""
    assigned = consumer.assignment()
    committed = await consumer.committed(assigned)
    for partition in assigned:
        place: OffsetAndMetadata | None = committed.get(partition)
        if place is None:
            consumer.seek_to_beginning(partition)
        else:
            consumer.seek(partition, place)


async def run(name: str, servers: str, member: int) -> None:
    stopped = asyncio.Event()
    for each in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(each, stopped.set)
    await serve(name, servers, member, stopped)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("service", choices=STAGES)
    parser.add_argument("--bootstrap-server", default="localhost:9092")
    parser.add_argument("--member", type=int, default=1, help="its number; each member of a group has its own")
    options = parser.parse_args()
    asyncio.run(run(options.service, options.bootstrap_server, options.member))


if __name__ == "__main__":
    main()

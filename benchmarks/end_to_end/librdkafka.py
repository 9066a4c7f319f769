"""One producer or one consumer on librdkafka (confluent-kafka), as a process of its own. Prints one line of JSON.

    librdkafka.py produce HOST:PORT TOPIC RECORDS VALUE_BYTES
    librdkafka.py single  HOST:PORT TOPIC RECORDS VALUE_BYTES      produce, one record a request
    librdkafka.py consume HOST:PORT TOPIC RECORDS VALUE_BYTES

Holds: the same client with the same settings whichever broker it meets. Messages go in by the thousand and come out
without callbacks, so that the client's share of the machine is as small as Python allows.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping
from types import MappingProxyType

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, Producer, TopicPartition

GROUP = 1_000  # messages handed over at once, all to one partition
WAIT_SECONDS_MAX = 120.0


def partitions_of(client: Producer | Consumer, topic: str) -> list[int]:
    return sorted(client.list_topics(topic, WAIT_SECONDS_MAX).topics[topic].partitions)


def single(address: str, topic: str, records: int, value_bytes: int) -> float:
    """As `produce`; a request of librdkafka holds one batch, and here that one record."""
    return produce(address, topic, records, value_bytes, {"linger.ms": 0, "batch.num.messages": 1})


def produce(
    address: str, topic: str, records: int, value_bytes: int, settings: Mapping[str, int] = MappingProxyType({})
) -> float:
    """Seconds from the first message to the last acknowledgement."""
    failures: list[object] = []
    producer = Producer(
        {
            "bootstrap.servers": address,
            "acks": "all",
            "linger.ms": 5,
            "batch.size": 1_000_000,
            "batch.num.messages": 100_000,
            "queue.buffering.max.messages": 1_000_000,
            "queue.buffering.max.kbytes": 1 << 20,
            "error_cb": failures.append,
            **settings,
        }
    )
    partitions = partitions_of(producer, topic)
    group = [
        {"value": bytes(65 + (number * 7 + place) % 26 for place in range(value_bytes))} for number in range(GROUP)
    ]
    began = time.monotonic()
    for number in range(records // GROUP):
        queued = 0
        while queued < GROUP:
            some = group[queued:] if queued else group
            queued += producer.produce_batch(topic, some, partition=partitions[number % len(partitions)])
            producer.poll(0.01 if queued < GROUP else 0)  # its queue is full, of acknowledgements too
    if producer.flush(WAIT_SECONDS_MAX) or failures:
        sys.exit(f"not everything was delivered: {failures}")
    return time.monotonic() - began


def consume(address: str, topic: str, records: int, value_bytes: int) -> float:
    """Seconds from the assignment to the last message."""
    consumer = Consumer(
        {
            "bootstrap.servers": address,
            "group.id": "unused",
            "enable.auto.commit": False,
            "fetch.message.max.bytes": 1 << 20,
            "queued.min.messages": 500_000,
            "queued.max.messages.kbytes": 256 << 10,
        }
    )
    partitions = partitions_of(consumer, topic)
    began = time.monotonic()
    consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING) for partition in partitions])
    left = records
    while left > 0:
        messages = consumer.consume(10_000, WAIT_SECONDS_MAX)
        if not messages:
            sys.exit(f"{left} of {records} messages did not come")
        left -= len(messages)
    seconds = time.monotonic() - began
    if messages[-1].error():
        raise KafkaException(messages[-1].error())
    if len(messages[-1].value()) != value_bytes:
        sys.exit(f"a value of {len(messages[-1].value())} bytes where {value_bytes} were sent")
    consumer.close()
    return seconds


def main() -> None:
    action, address, topic, records, value_bytes = sys.argv[1:]
    measure = {"produce": produce, "single": single, "consume": consume}[action]
    print(json.dumps({"seconds": measure(address, topic, int(records), int(value_bytes))}))


if __name__ == "__main__":
    main()

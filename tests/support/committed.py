"""What readers of committed records see of a topic, as librdkafka tells it: everything up to the last stable offset.

Holds: every partition was read to its end, or the test fails.
"""

from __future__ import annotations

import time
from collections import Counter

from broker_process import WAIT_SECONDS_MAX
from client_libraries import confluent_kafka as ck

READ_SECONDS_MAX = 30.0


def create_topic(address: str, name: str, partitions: int, **config: str) -> None:
    admin = ck.admin.AdminClient({"bootstrap.servers": address})
    settings = {key.replace("_", "."): value for key, value in config.items()}
    admin.create_topics([ck.admin.NewTopic(name, partitions, config=settings)])[name].result(READ_SECONDS_MAX)


def committed(address: str, topic: str) -> list[ck.Message]:
    consumer = ck.Consumer(
        {
            "bootstrap.servers": address,
            "group.id": "unused",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
            "log_level": 0,
        }
    )
    try:
        partitions = consumer.list_topics(topic, READ_SECONDS_MAX).topics[topic].partitions
        consumer.assign([ck.TopicPartition(topic, index, ck.OFFSET_BEGINNING) for index in partitions])
        found: list[ck.Message] = []
        at_end: set[int] = set()
        deadline = time.monotonic() + READ_SECONDS_MAX
        while len(at_end) < len(partitions):
            assert time.monotonic() < deadline, f"{topic}: only {sorted(at_end)} were read to the end"
            for message in consumer.consume(10_000, 0.5):
                if message.error() is None:
                    found.append(message)
                elif message.error().code() == ck.KafkaError._PARTITION_EOF:
                    at_end.add(message.partition())
        return found
    finally:
        consumer.close()


def values(address: str, topic: str) -> list[str]:
    """Sorted, so that what comes twice stands side by side."""
    return sorted(message.value().decode() for message in committed(address, topic))


def wait_for_committed(address: str, topic: str, count: int) -> list[ck.Message]:
    """When there are so many, and no more; tells what there is in the log where they do not come."""
    deadline = time.monotonic() + WAIT_SECONDS_MAX
    while len(found := committed(address, topic)) < count and time.monotonic() < deadline:
        pass
    assert len(found) == count, f"{len(found)} committed records, not {count}: {described(address, topic, found)}"
    return found


def described(address: str, topic: str, found: list[ck.Message]) -> str:
    """Of each partition: how many committed records were read, the last one's offset, and the high watermark."""
    counts = Counter(each.partition() for each in found)
    last = {each.partition(): each.offset() for each in found}
    consumer = ck.Consumer({"bootstrap.servers": address, "group.id": "unused", "log_level": 0})
    try:
        partitions = sorted(consumer.list_topics(topic, READ_SECONDS_MAX).topics[topic].partitions)
        ends = {
            index: consumer.get_watermark_offsets(ck.TopicPartition(topic, index), READ_SECONDS_MAX)[1]
            for index in partitions
        }
    finally:
        consumer.close()
    return ", ".join(
        f"{topic}-{index}: {counts[index]}, the last one at {last.get(index)}, high watermark {ends[index]}"
        for index in partitions
    )

"""Short ways to write and read through librdkafka: every record acknowledged, every record read, or the test fails.

Does not know: which broker it talks to. Consumers are assigned, never subscribed.
"""

from __future__ import annotations

from client_libraries import confluent_kafka as ck

DELIVERY_SECONDS_MAX = 120.0


def open_consumer(address: str, **settings: object) -> ck.Consumer:
    settings = {name.replace("_", "."): value for name, value in settings.items()}
    quick = {"fetch.wait.max.ms": 50}  # it ends a fetch that waits at a partition's end before it begins at another one
    unused = {"group.id": "unused", "enable.auto.commit": False}
    return ck.Consumer({"bootstrap.servers": address, **unused, **quick, **settings})


def create_topic(
    admin: ck.admin.AdminClient, name: str, partitions: int = 1, config: dict[str, str] | None = None
) -> None:
    topic = ck.admin.NewTopic(name, partitions, 1, config=config or {})
    admin.create_topics([topic])[name].result(DELIVERY_SECONDS_MAX)


def deliver(producer: ck.Producer, topic: str, records: list[dict[str, object]]) -> list[ck.Message]:
    """Sends keyword arguments of `Producer.produce`; every one must be acknowledged. In order of acknowledgement."""
    delivered: list[ck.Message] = []
    failed: list[ck.KafkaError] = []

    def report(error: ck.KafkaError | None, message: ck.Message) -> None:
        if error is not None:
            failed.append(error)
        else:
            delivered.append(message)

    for record in records:
        producer.produce(topic, on_delivery=report, **record)
        producer.poll(0)
    assert producer.flush(DELIVERY_SECONDS_MAX) == 0, "not delivered in time"
    assert not failed, failed
    assert len(delivered) == len(records)
    return delivered


def read(
    consumer: ck.Consumer, topic: str, count: int, *, partition: int = 0, offset: int = ck.OFFSET_BEGINNING
) -> list[ck.Message]:
    """Exactly `count` messages of one partition from an offset on; fails if they do not come."""
    consumer.list_topics(topic, DELIVERY_SECONDS_MAX)  # or it finds no leader to ask, and asks half a second later
    consumer.assign([ck.TopicPartition(topic, partition, offset)])
    messages: list[ck.Message] = []
    while len(messages) < count:
        some = consumer.consume(count - len(messages), DELIVERY_SECONDS_MAX)
        assert some, f"{len(messages)} of {count} messages of {topic}-{partition} came"
        for message in some:
            assert message.error() is None, message.error()
        messages += some
    return messages

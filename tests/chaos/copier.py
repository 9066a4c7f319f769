"""Consumes, transforms and produces in transactions, until everything is copied: a process that may be killed.

    copier.py BOOTSTRAP SOURCE OUTPUT

librdkafka with its default settings, apart from a shorter session. What must be aborted is, and read again; what is
fatal ends the process, as its user's would, and whoever looks after it starts the next one. So does a call that does
not return: `send_offsets_to_transaction` may wait for ever, whatever its timeout, for a group coordinator that is no
longer in the metadata (librdkafka's issues 5511 and 5456, in 2.16.0).
"""

from __future__ import annotations

import faulthandler
import os
import sys
import time

from clients import quiet
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

GROUP = TRANSACTIONAL_ID = "copier"
RECORDS_PER_TRANSACTION = 50
SECONDS_MAX = 60.0
TURN_SECONDS_MAX = 30.0  # a transaction has ten
FATAL = 3  # the exit code


def committed_of(consumer: Consumer, partitions: list[TopicPartition]) -> dict[int, int]:
    return {each.partition: max(each.offset, 0) for each in consumer.committed(partitions, SECONDS_MAX)}


def is_done(consumer: Consumer) -> bool:
    partitions = consumer.assignment()
    if not partitions:
        return False
    committed = committed_of(consumer, partitions)
    return all(consumer.get_watermark_offsets(each, 10.0)[1] == committed[each.partition] for each in partitions)


def copy(producer: Producer, consumer: Consumer, output: str, messages: list) -> None:
    producer.begin_transaction()
    for message in messages:
        producer.produce(output, message.value(), partition=message.partition())
    positions = consumer.position(consumer.assignment())
    producer.send_offsets_to_transaction(positions, consumer.consumer_group_metadata(), SECONDS_MAX)
    producer.commit_transaction(SECONDS_MAX)


def retry(step, *arguments: object) -> None:
    """As long as librdkafka says that the same call may succeed."""
    deadline = time.monotonic() + SECONDS_MAX
    while True:
        try:
            step(*arguments)
            return
        except KafkaException as error:
            if not error.args[0].retriable() or time.monotonic() > deadline:
                raise


def end_at_once() -> None:
    """Without a farewell: a producer that was fenced may wait for ever for what it can no longer send."""
    os._exit(FATAL)


def main(bootstrap: str, source: str, output: str) -> int:
    producer = Producer({**quiet(bootstrap), "transactional.id": TRANSACTIONAL_ID, "transaction.timeout.ms": 10_000})
    settings = {"group.id": GROUP, "auto.offset.reset": "earliest", "enable.auto.commit": False}
    consumer = Consumer(
        {**quiet(bootstrap), **settings, "isolation.level": "read_committed", "session.timeout.ms": 6_000}
    )
    retry(producer.init_transactions, SECONDS_MAX)
    consumer.subscribe([source])
    while True:
        faulthandler.dump_traceback_later(TURN_SECONDS_MAX, exit=True)
        messages = [each for each in consumer.consume(RECORDS_PER_TRANSACTION, 0.5) if each.error() is None]
        if not messages:
            if is_done(consumer):
                consumer.close()
                return 0
            continue
        try:
            copy(producer, consumer, output, messages)
        except KafkaException as error:
            if not error.args[0].txn_requires_abort():
                end_at_once()
            try:
                retry(producer.abort_transaction, SECONDS_MAX)
                for partition, offset in committed_of(consumer, consumer.assignment()).items():
                    consumer.seek(TopicPartition(source, partition, offset))
            except KafkaException:
                end_at_once()


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))

"""Python clients side by side on one broker: `python benchmarks/clients.py [--records N] [--only produce]`.

Each measurement is a process of its own with the broker in another; the clients take turns, and the table has the best
of their rounds. All have acks=all, linger of 5 ms, batches of 64 KiB, 6 partitions, and records of 100 B without keys.
What counts is the time from the first record to the last acknowledgement, or from the assignment to the last record.
Only ratios of one run mean something.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import os
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "support"))

VALUE_BYTES = 100
PARTITIONS = 6
LINGER_MS = 5
BATCH_BYTES = 64 * 1024
WAIT_SECONDS_MAX = 120
CHUNK = 1_000  # records handed over at once, where a client can do that
Measurement = Callable[[str, str, int], float]  # address, topic, records; seconds


def value(number: int) -> bytes:
    return bytes(65 + (number * 7 + place) % 26 for place in range(VALUE_BYTES))


VALUES = [value(number) for number in range(CHUNK)]


# Produce


def produce_barnabas(address: str, topic: str, records: int, *, many: bool) -> float:
    from barnabas.client import Producer

    async def run() -> float:
        async with Producer(bootstrap_servers=address, linger_ms=LINGER_MS, batch_size=BATCH_BYTES) as producer:
            await producer.partitions_for(topic)
            began = time.perf_counter()
            for _ in range(records // CHUNK):
                if many:
                    await producer.send_many(topic, VALUES)
                else:
                    for each in VALUES:
                        await producer.send(topic, each)
            await producer.flush()
            return time.perf_counter() - began

    return run_loop(run())


def produce_aiokafka(address: str, topic: str, records: int) -> float:
    from aiokafka import AIOKafkaProducer

    async def run() -> float:
        producer = AIOKafkaProducer(
            bootstrap_servers=address, acks="all", linger_ms=LINGER_MS, max_batch_size=BATCH_BYTES
        )
        await producer.start()
        try:
            await producer.partitions_for(topic)
            began = time.perf_counter()
            for _ in range(records // CHUNK):
                for each in VALUES:
                    await producer.send(topic, each)
            await producer.flush()
            return time.perf_counter() - began
        finally:
            await producer.stop()

    return run_loop(run())


def produce_kafka_python(address: str, topic: str, records: int) -> float:
    import kafka

    producer = kafka.KafkaProducer(
        bootstrap_servers=address, acks="all", linger_ms=LINGER_MS, batch_size=BATCH_BYTES, enable_idempotence=False
    )
    producer.partitions_for(topic)
    began = time.perf_counter()
    for _ in range(records // CHUNK):
        for each in VALUES:
            producer.send(topic, each)
    producer.flush()
    seconds = time.perf_counter() - began
    producer.close()
    return seconds


def produce_confluent(address: str, topic: str, records: int, *, many: bool) -> float:
    from confluent_kafka import Producer

    producer = Producer(
        {
            "bootstrap.servers": address,
            "acks": "all",
            "linger.ms": LINGER_MS,
            "batch.size": BATCH_BYTES,
            "queue.buffering.max.messages": 1_000_000,
        }
    )
    producer.list_topics(topic, WAIT_SECONDS_MAX)
    group = [{"value": each} for each in VALUES]
    began = time.perf_counter()
    for _ in range(records // CHUNK):
        if many:
            queued = 0
            while queued < CHUNK:
                queued += producer.produce_batch(topic, group[queued:] if queued else group)
                producer.poll(0.01 if queued < CHUNK else 0)
            continue
        for each in VALUES:
            while True:
                try:
                    producer.produce(topic, each)
                    break
                except BufferError:
                    producer.poll(0.01)
        producer.poll(0)
    assert producer.flush(WAIT_SECONDS_MAX) == 0, "not everything was delivered"
    return time.perf_counter() - began


# Consume: every value is looked at, and the bytes of all are counted


def consume_barnabas(address: str, topic: str, records: int, *, how: str) -> float:
    from barnabas.client import Consumer

    async def run() -> float:
        count = size = 0
        async with Consumer(bootstrap_servers=address, auto_offset_reset="earliest") as consumer:
            began = time.perf_counter()
            consumer.assign([(topic, number) for number in range(PARTITIONS)])
            while count < records:
                if how == "batches":
                    for batch in await consumer.poll_batches(1000, CHUNK):
                        count += len(batch.values)
                        size += sum(map(len, batch.values))
                elif how == "poll":
                    found = await consumer.poll(1000, CHUNK)
                    count += len(found)
                    size += sum([len(record.value) for record in found])
                else:
                    async for record in consumer:
                        count += 1
                        size += len(record.value)
                        if count == records:
                            break
            assert size == records * VALUE_BYTES, size
            return time.perf_counter() - began

    return run_loop(run())


def consume_aiokafka(address: str, topic: str, records: int) -> float:
    from aiokafka import AIOKafkaConsumer, TopicPartition

    async def run() -> float:
        count = size = 0
        consumer = AIOKafkaConsumer(bootstrap_servers=address, auto_offset_reset="earliest")
        await consumer.start()
        try:
            began = time.perf_counter()
            consumer.assign([TopicPartition(topic, number) for number in range(PARTITIONS)])
            while count < records:
                for found in (await consumer.getmany(timeout_ms=1000, max_records=CHUNK)).values():
                    count += len(found)
                    size += sum([len(record.value) for record in found])
            assert size == records * VALUE_BYTES, size
            return time.perf_counter() - began
        finally:
            await consumer.stop()

    return run_loop(run())


def consume_kafka_python(address: str, topic: str, records: int) -> float:
    import kafka

    count = size = 0
    consumer = kafka.KafkaConsumer(bootstrap_servers=address, auto_offset_reset="earliest")
    began = time.perf_counter()
    consumer.assign([kafka.TopicPartition(topic, number) for number in range(PARTITIONS)])
    while count < records:
        for found in consumer.poll(timeout_ms=1000, max_records=CHUNK).values():
            count += len(found)
            size += sum([len(record.value) for record in found])
    seconds = time.perf_counter() - began
    assert size == records * VALUE_BYTES, size
    consumer.close()
    return seconds


def consume_confluent(address: str, topic: str, records: int) -> float:
    from confluent_kafka import Consumer, TopicPartition

    count = size = 0
    consumer = Consumer({"bootstrap.servers": address, "group.id": "none", "auto.offset.reset": "earliest"})
    began = time.perf_counter()
    consumer.assign([TopicPartition(topic, number, 0) for number in range(PARTITIONS)])
    while count < records:
        found = consumer.consume(CHUNK, 1.0)
        count += len(found)
        size += sum([len(message.value()) for message in found])
    seconds = time.perf_counter() - began
    assert size == records * VALUE_BYTES, size
    consumer.close()
    return seconds


CONSUMERS: dict[str, Measurement] = {
    "barnabas poll_batches": lambda *what: consume_barnabas(*what, how="batches"),
    "barnabas poll": lambda *what: consume_barnabas(*what, how="poll"),
    "barnabas async for": lambda *what: consume_barnabas(*what, how="for"),
    "confluent-kafka consume": consume_confluent,
    "aiokafka getmany": consume_aiokafka,
    "kafka-python poll": consume_kafka_python,
}
PRODUCERS: dict[str, Measurement] = {
    "barnabas send_many": lambda *what: produce_barnabas(*what, many=True),
    "barnabas send": lambda *what: produce_barnabas(*what, many=False),
    "confluent-kafka produce_batch": lambda *what: produce_confluent(*what, many=True),
    "confluent-kafka produce": lambda *what: produce_confluent(*what, many=False),
    "aiokafka send": produce_aiokafka,
    "kafka-python send": produce_kafka_python,
}
KINDS: dict[str, dict[str, Measurement]] = {"produce": PRODUCERS, "consume": CONSUMERS}
SLOW = ("aiokafka", "kafka-python")  # a tenth of the records takes them as long


def run_loop(work: Any) -> float:
    try:
        import uvloop
    except ImportError:
        return float(asyncio.run(work))
    return float(uvloop.run(work))


# The run


def measure(kind: str, name: str, address: str, topic: str, records: int) -> float:
    """Records a second, by a process of its own."""
    command = [sys.executable, __file__, "--measure", kind, name, address, topic, str(records)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=10 * WAIT_SECONDS_MAX, check=False)
    if done.returncode:
        sys.exit(f"{name}: {done.stderr[-2000:]}")
    return records / float(json.loads(done.stdout.splitlines()[-1]))


def create_topic(address: str, topic: str) -> None:
    from confluent_kafka.admin import AdminClient, NewTopic

    admin = AdminClient({"bootstrap.servers": address})  # must outlive what it does
    admin.create_topics([NewTopic(topic, PARTITIONS, 1)])[topic].result(WAIT_SECONDS_MAX)


def run_all(kinds: Sequence[str], records: int, rounds: int, wanted: str) -> dict[tuple[str, str], float]:
    import tempfile

    from broker_process import BrokerProcess

    best: dict[tuple[str, str], float] = {}
    topics = (f"clients-{number}" for number in itertools.count(1))
    with (
        tempfile.TemporaryDirectory(prefix="barnabas-clients-") as directory,
        BrokerProcess(data=Path(directory)) as broker,
    ):
        for _ in range(rounds):
            for kind, name in [(each, name) for each in kinds for name in KINDS[each] if wanted in name]:
                topic = next(topics)
                create_topic(broker.address, topic)
                count = records // 10 if name.startswith(SLOW) else records
                if kind == "consume":
                    produce_barnabas(broker.address, topic, count, many=True)
                rate = measure(kind, name, broker.address, topic, count)
                print(f"{kind} {name}: {rate:,.0f} records/s", file=sys.stderr)
                best[kind, name] = max(best.get((kind, name), 0.0), rate)
    return best


def table(best: dict[tuple[str, str], float]) -> str:
    lines = [f"load average {os.getloadavg()[0]:.1f}", "", f"{'':38}{'records/s':>12}{'MB/s':>8}{'of the best':>13}"]
    for kind in dict.fromkeys(kind for kind, _name in best):
        rates = {name: rate for (each, name), rate in best.items() if each == kind}
        for name, rate in rates.items():
            share = rate / max(rates.values())
            lines.append(f"{kind + ' ' + name:38}{rate:12,.0f}{rate * VALUE_BYTES / 1e6:8.0f}{share:13.2f}")
        lines += goals(kind, rates)
    return "\n".join(lines)


def goals(kind: str, rates: dict[str, float]) -> list[str]:
    def best(*names: str) -> float:
        return max((rate for name, rate in rates.items() if name.startswith(names)), default=0.0)

    ours, plain, confluent = best("barnabas"), best("aiokafka", "kafka-python"), best("confluent")
    if not (ours and plain and confluent):
        return []
    return [
        f"{kind}: {ours / plain:.1f} times the better of aiokafka and kafka-python (goal 4.0), "
        f"{ours / confluent:.2f} of confluent-kafka (goal 0.50)",
        "",
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=500_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", choices=list(KINDS))
    parser.add_argument("--client", default="", help="part of the name of the clients to measure")
    parser.add_argument("--measure", nargs=5, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.measure:
        kind, name, address, topic, records = given.measure
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            print(json.dumps(KINDS[kind][name](address, topic, int(records))))
        return
    kinds = [given.only] if given.only else list(KINDS)
    print(table(run_all(kinds, given.records // CHUNK * CHUNK, given.rounds, given.client)))


if __name__ == "__main__":
    main()

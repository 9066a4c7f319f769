"""What `make demo` shows: a broker starts, a real Kafka client writes and reads, the broker restarts, nothing is lost.

The client is confluent-kafka (librdkafka): it does not know that this is not Apache Kafka. Ends with a check of itself.
"""

import contextlib
import json
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

TOPIC = "orders"
PARTITIONS = 3
ORDERS = 100_000
RESTAURANTS = ("Brückenhof", "Herrenhof", "Zum Landvermesser", "Goldenes Gässchen")


def say(text: str) -> None:
    print(f"\033[1m›\033[0m {text}" if sys.stdout.isatty() else f"> {text}", flush=True)


@contextlib.contextmanager
def broker(directory: Path) -> Iterator[str]:
    """A broker process on a free port; gives its address."""
    started = time.perf_counter()
    command = [
        sys.executable,
        "-m",
        "barnabas",
        "up",
        "--data",
        str(directory),
        "--port",
        "0",
        "--log-level",
        "warning",
    ]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        line = process.stdout.readline().split()
        if line[:1] != ["ready"]:
            raise SystemExit("the broker did not start; what it said is above")
        say(f"broker ready at {line[1]} after {time.perf_counter() - started:.2f} s")
        yield line[1]
    finally:
        process.terminate()
        code = process.wait(timeout=30)
        say(f"broker stopped with exit code {code}")


def create_topic(address: str) -> None:
    admin = AdminClient({"bootstrap.servers": address})
    admin.create_topics([NewTopic(TOPIC, PARTITIONS)])[TOPIC].result(timeout=30)
    say(f"topic {TOPIC!r} with {PARTITIONS} partitions")


def produce(address: str) -> None:
    failures: list[KafkaError] = []

    def delivered(error: KafkaError | None, _message: object) -> None:
        if error is not None:
            failures.append(error)

    producer = Producer(
        {
            "bootstrap.servers": address,
            "enable.idempotence": True,
            "compression.type": "lz4",
            "linger.ms": 5,
            "queue.buffering.max.messages": ORDERS,
        }
    )
    started = time.perf_counter()
    for number in range(ORDERS):
        restaurant = RESTAURANTS[number % len(RESTAURANTS)]
        order = {"order": number, "restaurant": restaurant, "cents": 500 + number % 2000}
        producer.produce(TOPIC, key=restaurant, value=json.dumps(order), on_delivery=delivered)
        producer.poll(0)
    producer.flush(60)
    if failures:
        raise SystemExit(f"{len(failures)} orders were not acknowledged, the first with: {failures[0]}")
    seconds = time.perf_counter() - started
    say(f"{ORDERS:,} orders acknowledged in {seconds:.2f} s, idempotent, lz4 ({ORDERS / seconds:,.0f} a second)")


def consume(address: str) -> Counter[str]:
    consumer = Consumer({"bootstrap.servers": address, "group.id": "demo", "enable.auto.commit": False})
    try:
        consumer.assign([TopicPartition(TOPIC, index, OFFSET_BEGINNING) for index in range(PARTITIONS)])
        started = time.perf_counter()
        seen: set[int] = set()
        cents: Counter[str] = Counter()
        while len(seen) < ORDERS:
            messages = consumer.consume(10_000, timeout=30)
            if not messages:
                raise SystemExit(f"only {len(seen):,} of {ORDERS:,} orders came back")
            for message in messages:
                if message.error() is not None:
                    raise KafkaException(message.error())
                order = json.loads(message.value())
                seen.add(order["order"])
                cents[order["restaurant"]] += order["cents"]
        say(f"{len(seen):,} orders read back in {time.perf_counter() - started:.2f} s, each once")
        return cents
    finally:
        consumer.close()


def show(cents: Counter[str]) -> None:
    largest = max(cents.values())
    for restaurant, sum_cents in cents.most_common():
        bar = "█" * round(30 * sum_cents / largest)
        print(f"    {restaurant:<20} {sum_cents / 100:>12,.2f} € {bar}")


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="barnabas-demo-") as directory:
        data = Path(directory)
        with broker(data) as address:
            create_topic(address)
            produce(address)
            before = consume(address)
            show(before)
        files = sorted((data / "node-1" / f"{TOPIC}-0").iterdir())
        say("its files are Kafka's own: " + ", ".join(file.name for file in files))
        with broker(data) as address:
            after = consume(address)
    if before != after:
        raise SystemExit(f"the sums differ after the restart: {before} and {after}")
    say("the same sums after a restart: nothing was lost")


if __name__ == "__main__":
    main()

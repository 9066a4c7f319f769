"""What `make demo` shows: a broker starts, a real Kafka client writes and reads, the broker restarts, nothing is lost.
Then the same with three brokers, of which one is killed while the client writes.

The client is confluent-kafka (librdkafka): it does not know that this is not Apache Kafka. Ends with a check of itself.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
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
def brokers(directory: Path, count: int = 1) -> Iterator[str]:
    """Broker processes on free ports; gives their addresses."""
    started = time.perf_counter()
    command = [
        sys.executable,
        "-m",
        "barnabas",
        "up",
        "--data",
        str(directory),
        "--brokers",
        str(count),
        "--port",
        "0",
        "--log-level",
        "error",
    ]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        line = process.stdout.readline().split()
        if line[:1] != ["ready"]:
            raise SystemExit("it did not start; what it said is above")
        say(f"ready at {line[1]} after {time.perf_counter() - started:.2f} s")
        yield line[1]
    finally:
        process.terminate()
        code = process.wait(timeout=30)
        say(f"stopped with exit code {code}")


def create_topic(address: str, replicas: int) -> None:
    admin = AdminClient({"bootstrap.servers": address})
    admin.create_topics([NewTopic(TOPIC, PARTITIONS, replicas)])[TOPIC].result(timeout=30)
    say(f"topic {TOPIC!r} with {PARTITIONS} partitions, {replicas} replica{'s' if replicas > 1 else ''} each")


def produce(address: str, halfway: Callable[[], None] | None = None) -> None:
    """Until every order is acknowledged. `halfway` is what happens in the middle of it."""
    failures: list[KafkaError] = []
    last, longest = 0.0, 0.0

    def delivered(error: KafkaError | None, _message: object) -> None:
        nonlocal last, longest
        if error is not None:
            failures.append(error)
        now = time.perf_counter()
        last, longest = now, max(longest, now - (last or now))

    producer = Producer(
        {
            **client(address),
            "enable.idempotence": True,
            "compression.type": "lz4",
            "linger.ms": 5,
            "queue.buffering.max.messages": ORDERS,
        }
    )
    started = time.perf_counter()
    for number in range(ORDERS):
        if halfway is not None and number == ORDERS // 2:
            halfway()
        restaurant = RESTAURANTS[number % len(RESTAURANTS)]
        order = {"order": number, "restaurant": restaurant, "cents": 500 + number % 2000}
        producer.produce(TOPIC, key=restaurant, value=json.dumps(order), on_delivery=delivered)
        producer.poll(0)
    producer.flush(60)
    if failures:
        raise SystemExit(f"{len(failures)} orders were not acknowledged, the first with: {failures[0]}")
    seconds = time.perf_counter() - started
    say(f"{ORDERS:,} orders acknowledged in {seconds:.2f} s, idempotent, lz4 ({ORDERS / seconds:,.0f} a second)")
    if halfway is not None:
        say(f"the longest wait between two acknowledgements: {longest:.2f} s")


def consume(address: str) -> Counter[str]:
    consumer = Consumer({**client(address), "group.id": "demo", "enable.auto.commit": False})
    try:
        consumer.assign([TopicPartition(TOPIC, index, OFFSET_BEGINNING) for index in range(PARTITIONS)])
        started = time.perf_counter()
        seen: Counter[int] = Counter()
        cents: Counter[str] = Counter()
        while len(seen) < ORDERS:
            messages = consumer.consume(10_000, timeout=30)
            if not messages:
                raise SystemExit(f"only {len(seen):,} of {ORDERS:,} orders came back")
            for message in messages:
                if message.error() is not None:
                    raise KafkaException(message.error())
                order = json.loads(message.value())
                seen[order["order"]] += 1
                cents[order["restaurant"]] += order["cents"]
        if seen.total() != ORDERS:
            raise SystemExit(f"{seen.total() - ORDERS:,} orders came twice")
        say(f"{len(seen):,} orders read back in {time.perf_counter() - started:.2f} s, each once")
        return cents
    finally:
        consumer.close()


def show(cents: Counter[str]) -> None:
    largest = max(cents.values())
    for restaurant, sum_cents in cents.most_common():
        bar = "█" * round(30 * sum_cents / largest)
        print(f"    {restaurant:<20} {sum_cents / 100:>12,.2f} € {bar}")


def client(address: str) -> dict[str, object]:
    """Without the log lines of connections that break: that is what is shown."""
    return {"bootstrap.servers": address, "log_level": 0, "error_cb": lambda _error: None}


def one_broker(data: Path) -> Counter[str]:
    with brokers(data) as address:
        create_topic(address, replicas=1)
        produce(address)
        before = consume(address)
        show(before)
    files = sorted((data / "node-1" / f"{TOPIC}-0").iterdir())
    say("its files are Kafka's own: " + ", ".join(file.name for file in files))
    with brokers(data) as address:
        after = consume(address)
    if before != after:
        raise SystemExit(f"the sums differ after the restart: {before} and {after}")
    say("the same sums after a restart: nothing was lost")
    return after


def three_brokers(data: Path, expected: Counter[str]) -> None:
    """One process for each; the one that leads the first partition is killed while orders arrive."""
    with brokers(data, count=3) as address:
        create_topic(address, replicas=3)

        def kill_leader() -> None:
            found = AdminClient({"bootstrap.servers": address}).list_topics(TOPIC, timeout=30)
            leader = found.topics[TOPIC].partitions[0].leader
            os.kill(int((data / f"node-{leader}" / "pid").read_text()), signal.SIGKILL)
            say(f"broker {leader}, which leads partition 0, is killed with kill -9")

        produce(address, halfway=kill_leader)
        if consume(address) != expected:
            raise SystemExit("the sums differ after the death of a broker")
        say("the same sums though a broker died: nothing was lost, nothing came twice")


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="barnabas-demo-") as directory:
        say("one broker")
        sums = one_broker(Path(directory) / "one")
        say("three brokers")
        three_brokers(Path(directory) / "three", sums)


if __name__ == "__main__":
    main()

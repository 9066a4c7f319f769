"""A food-delivery business from end to end, on three brokers in memory, one of which is killed on the way.

    customers → orders → kitchen → cooked → delivery → delivered → billing → payments
                    └────────────── Spark: orders by minute, time to the door, revenue → topics, Parquet ──┘

Shows what happens as it happens, and ends with a check of itself: every order paid exactly once, counts equal at each
stage. Exit code 0 says that all is well.
"""

import argparse
import asyncio
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import unquote, urlparse

from business import ANALYTICS, ORDERS, PARTITIONS, PAYMENTS, STAGES, order
from ledger import TOPICS, Ledger

from barnabas.client import Admin, Consumer, Producer, TopicPartition
from barnabas.client.admin.topics import NewTopic

HERE = Path(__file__).resolve().parent
BROKERS = 3
SERVICES = (("kitchen", 1), ("kitchen", 2), ("delivery", 1), ("billing", 1))
FLOWS = ("per_minute", "deliveries", "revenue", "lake")  # of analytics.py
KILL_AT = 0.6  # of all orders paid
SHOW_SECONDS = 2.0
PATIENCE_SECONDS = 600.0  # a minute on a machine with nothing else to do


def say(text: str) -> None:
    print(f"\033[1m›\033[0m {text}" if sys.stdout.isatty() else f"> {text}", flush=True)


@contextmanager
def process(words: list[str], log: Path, **environment: str) -> Iterator[subprocess.Popen[str]]:
    """A child that ends with the block. What it says on standard error goes to a file."""
    with log.open("w") as errors:
        child = subprocess.Popen(
            [sys.executable, *words],
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            env={**os.environ, **environment},
        )
        try:
            yield child
        finally:
            if child.poll() is None:
                child.terminate()
            child.wait(timeout=60)


def children(pid: int) -> list[int]:
    listed = subprocess.run(["ps", "-A", "-o", "pid=,ppid="], capture_output=True, text=True, check=True).stdout
    return [int(line.split()[0]) for line in listed.splitlines() if int(line.split()[1]) == pid]


class NotDone(Exception):
    """Orders are still on their way after all that time."""


class Business:
    """The run: who is up, what came by, and when a broker goes."""

    def __init__(self, servers: str, supervisor: int, orders: int, per_second: int) -> None:
        self.servers = servers
        self.supervisor = supervisor
        self.orders = orders
        self.per_second = per_second
        self.ledger = Ledger()
        self.killed_after = 0.0  # seconds from the first order; 0: not yet
        self.longest_gap = 0.0  # seconds without a payment, once payments come

    async def open(self) -> None:
        async with Admin(bootstrap_servers=self.servers) as admin:
            plain = [NewTopic(name=name, partitions=PARTITIONS, replication_factor=BROKERS) for name in STAGES]
            compact = {"cleanup.policy": "compact"}
            last = [
                NewTopic(name=name, partitions=1, replication_factor=BROKERS, configs=compact) for name in ANALYTICS
            ]
            (await admin.create_topics([*plain, *last])).unwrap()
        say(f"topics {', '.join(STAGES)}: {PARTITIONS} partitions each, on all {BROKERS} brokers")

    async def customers(self) -> None:
        """Orders, a steady stream of them, each acknowledged."""
        async with Producer(bootstrap_servers=self.servers, client_id="customers", linger_ms=20) as producer:
            started = time.monotonic()
            for number in range(self.orders):
                placed = order(number, self.per_second)
                key = str(number).encode()
                await producer.send(ORDERS, placed.encode(), key=key, timestamp_ms=placed.ordered_ms)
                ahead = number / self.per_second - (time.monotonic() - started)
                if ahead > 0.01:
                    await asyncio.sleep(ahead)
            await producer.flush()
        say(f"the last of {self.orders:,} orders is placed")

    async def watch(self) -> None:
        """Until everything has come by, everywhere."""
        started = shown = paid_at = time.monotonic()
        paid = 0
        async with Consumer(
            bootstrap_servers=self.servers, isolation_level="read_committed", auto_offset_reset="earliest"
        ) as consumer:
            partitions = [each for topic in TOPICS for each in await consumer.partitions_for(topic)]
            consumer.assign([TopicPartition(*each[:2]) for each in partitions])
            while not self.ledger.is_complete(self.orders):
                await self.ledger.read(consumer, 200)
                now = time.monotonic()
                if self.ledger.count(PAYMENTS) > paid:
                    self.longest_gap = max(self.longest_gap, now - paid_at if paid else 0.0)
                    paid, paid_at = self.ledger.count(PAYMENTS), now
                if now - shown >= SHOW_SECONDS:
                    shown = now
                    say(self.ledger.line())
                if not self.killed_after and paid >= KILL_AT * self.orders:
                    self.killed_after = now - started
                    await self.kill_a_broker()
                if now - started > PATIENCE_SECONDS:
                    raise NotDone(f"not done after {PATIENCE_SECONDS:.0f} s: {self.ledger.wrong(self.orders)}")
        say(self.ledger.line())

    async def kill_a_broker(self) -> None:
        victim = children(self.supervisor)[0]
        os.kill(victim, signal.SIGKILL)
        say(f"*** kill -9 of a broker (process {victim}), with {self.ledger.count(PAYMENTS):,} orders paid ***")


async def trade(business: Business) -> None:
    customers = asyncio.create_task(business.customers())
    try:
        await business.watch()
        await customers
    finally:
        customers.cancel()


def parquet_files(folder: Path) -> list[str]:
    """Those that count: Spark lists them in a log of its own, batch by batch."""
    found: dict[str, None] = {}
    for batch in sorted((folder / "_spark_metadata").glob("[0-9]*")):
        for line in batch.read_text().splitlines()[1:]:
            found[unquote(urlparse(json.loads(line)["path"]).path)] = None
    return list(found)


def count_parquet(folder: Path) -> tuple[int, int]:
    """Rows, and different orders."""
    import pyarrow.parquet as pq

    numbers = [pq.ParquetFile(path).read(["number"]).column("number") for path in parquet_files(folder)]
    rows = [number for column in numbers for number in column.to_pylist()]
    return len(rows), len(set(rows))


def wait_for_spark(spark: subprocess.Popen[str], data: Path) -> None:
    """Until each of its queries has begun, which leaves a file."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not all((data / "checkpoints" / "food-delivery" / flow / "metadata").exists() for flow in FLOWS):
        if spark.poll() is not None or time.monotonic() > deadline:
            raise NotDone("Spark did not start")
        time.sleep(0.2)


def wait_for_files(business: Business, data: Path) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while count_parquet(data / "payments")[0] < business.orders:
        if time.monotonic() > deadline:
            raise NotDone(f"only {count_parquet(data / 'payments')[0]} payments are in the files")
        time.sleep(0.2)


def summary(business: Business, data: Path, seconds: float) -> int:
    print()
    for line in business.ledger.table():
        print(line)
    print()
    wrong = business.ledger.wrong(business.orders)
    rows, different = count_parquet(data / "payments")
    if (rows, different) != (business.orders, business.orders):
        wrong.append(f"Parquet: {rows} rows of {different} orders, not {business.orders}")
    for line in wrong:
        say(f"WRONG: {line}")
    if wrong:
        return 1
    say(
        f"{business.orders:,} orders, each cooked, delivered and paid exactly once, through the death of a broker "
        f"(no payment for {business.longest_gap:.1f} s at most)"
    )
    say(f"Spark counts the same orders and the same revenue, in three topics and in {rows:,} rows of Parquet")
    say(f"all is well, after {seconds:.0f} s")
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--orders", type=int, default=6000)
    parser.add_argument("--per-second", type=int, default=200)
    options = parser.parse_args()
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="food-delivery-") as directory:
        data = Path(directory)
        up = ["-m", "barnabas", "up", "--memory", "--brokers", str(BROKERS), "--port", "0", "--log-level", "error"]
        with process(up, data / "brokers.log") as brokers:
            assert brokers.stdout is not None
            line = brokers.stdout.readline().split()
            if line[:1] != ["ready"]:
                raise SystemExit(f"the brokers did not start: {(data / 'brokers.log').read_text()}")
            servers = line[1]
            say(f"{BROKERS} brokers in memory, ready at {servers} after {time.monotonic() - started:.1f} s")
            business = Business(servers, brokers.pid, options.orders, options.per_second)
            asyncio.run(business.open())
            return work(business, data, started)


def work(business: Business, data: Path, started: float) -> int:
    from contextlib import ExitStack

    with ExitStack() as running:
        analytics = ["-m", "barnabas", "pipeline", "run", str(HERE / "analytics.py"), "--master", "local[2]"]
        environment = {"FOOD_DELIVERY_SERVERS": business.servers, "FOOD_DELIVERY_DATA": str(data)}
        spark = running.enter_context(process(analytics, data / "analytics.log", **environment))
        say("Spark starts, which takes longer than everything else together")
        for name, member in SERVICES:
            words = [str(HERE / "service.py"), name, "--bootstrap-server", business.servers, "--member", str(member)]
            running.enter_context(process(words, data / f"{name}-{member}.log"))
        say(f"services: {', '.join(f'{name} {member}' for name, member in SERVICES)}")
        try:
            wait_for_spark(spark, data)
            say(f"analytics on Spark: {', '.join(FLOWS)}; after {time.monotonic() - started:.0f} s")
            asyncio.run(trade(business))
            wait_for_files(business, data)
        except NotDone as problem:
            say(f"WRONG: {problem}")
            for log in sorted(data.glob("*.log")):
                print(f"--- {log.name}\n{log.read_text()[-2000:]}", file=sys.stderr)
            return 1
    return summary(business, data, time.monotonic() - started)


if __name__ == "__main__":
    sys.exit(main())

"""Writes, as part of `make bench-spark` or alone: batches of many records, and streams of many small batches.

Each case writes what the other writes, to a topic of its own on the same broker, in the same session: Spark's own sink,
this data source at least once, and exactly once. Micro-batches are as fast as they come, from a topic that is fed all
the time to another one; what counts is Spark's own measure of a batch, the median of BATCHES of them.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

REPOSITORY = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(REPOSITORY / name) for name in ("benchmarks", "tests/support", "src")]

import spark_connector  # noqa: E402
from broker_process import BrokerProcess  # noqa: E402
from committed import create_topic  # noqa: E402
from run import say  # noqa: E402

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PARTITIONS = 4
VALUE_BYTES = 100
OURS, EXACTLY_ONCE, THEIRS = "barnabas", "barnabas, exactlyOnce", "Spark's connector"
# What a producer is set to for throughput; this data source has its own defaults for that.
THEIR_SETTINGS = {"kafka.linger.ms": "5", "kafka.batch.size": str(256 << 10), "kafka.acks": "all"}
FEED_SECONDS = 0.02
BATCHES = 40
BATCHES_QUICK = 5
ROUNDS = 5
BATCHES_SKIPPED = 10  # the first ones start processes
STREAM_SECONDS_MAX = 300.0


def sinks(broker: BrokerProcess, topic: str, with_connector: bool) -> dict[str, tuple[str, dict[str, str]]]:
    servers = {"kafka.bootstrap.servers": broker.address, "topic": topic}
    found = {THEIRS: ("kafka", {**servers, **THEIR_SETTINGS})} if with_connector else {}
    found[OURS] = ("barnabas", servers)
    found[EXACTLY_ONCE] = ("barnabas", {**servers, "exactlyOnce": "true", "sinkId": f"benchmark of {topic}"})
    return found


def measure_writes(
    spark: SparkSession, broker: BrokerProcess, count: int, rounds: int, with_connector: bool
) -> dict[str, list[float]]:
    """Seconds of each case."""
    from pyspark.sql import functions as F

    create_topic(broker.address, "written", PARTITIONS)
    rows = spark.range(0, count, 1, 4).select(F.lit(bytearray(range(VALUE_BYTES))).alias("value"))

    def write(name: str) -> Callable[[], None]:
        format, options = cases[name]
        return lambda: rows.write.format(format).options(**options).mode("append").save()

    cases = sinks(broker, "written", with_connector)
    seconds: dict[str, list[float]] = {name: [] for name in cases}
    for name in cases:
        say(f"warming up: write by {name}")
        write(name)()
    for number in range(rounds):
        for name in cases:
            began = time.monotonic()
            write(name)()
            seconds[name].append(time.monotonic() - began)
            rate = count / seconds[name][-1] / 1e6
            say(f"round {number + 1} of {rounds}: write by {name} {rate:.2f}M records a second")
    return seconds


@contextmanager
def fed(address: str, topic: str) -> Iterator[None]:
    """A few records every few milliseconds."""
    from confluent_kafka import Producer

    stop = threading.Event()
    producer = Producer({"bootstrap.servers": address, "linger.ms": 0, "log_level": 0})

    def feed() -> None:
        number = 0
        while not stop.wait(FEED_SECONDS):
            for _ in range(PARTITIONS):
                producer.produce(topic, bytes(VALUE_BYTES), partition=number % PARTITIONS)
                number += 1
            producer.poll(0)
        producer.flush(30)

    thread = threading.Thread(target=feed, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def measure_batches(
    spark: SparkSession, broker: BrokerProcess, batches: int, with_connector: bool
) -> dict[str, list[float]]:
    """Milliseconds of each batch of each case, one case after the other."""
    create_topic(broker.address, "fed", PARTITIONS)
    create_topic(broker.address, "copied", PARTITIONS)
    found: dict[str, list[float]] = {}
    for name, (format, options) in sinks(broker, "copied", with_connector).items():
        say(f"micro-batches by {name}")
        source = spark.readStream.format(format).option("kafka.bootstrap.servers", broker.address)
        rows = source.option("subscribe", "fed").option("startingOffsets", "latest").load().select("key", "value")
        with tempfile.TemporaryDirectory() as checkpoint, fed(broker.address, "fed"):
            found[name] = _batches(rows, format, {**options, "checkpointLocation": checkpoint}, batches)
    return found


def _batches(rows: DataFrame, format: str, options: dict[str, str], batches: int) -> list[float]:
    query = rows.writeStream.format(format).options(**options).trigger(processingTime="0 seconds").start()
    seen: dict[int, float] = {}
    deadline = time.monotonic() + STREAM_SECONDS_MAX
    try:
        while len(seen) < batches + BATCHES_SKIPPED and time.monotonic() < deadline:
            error = query.exception()
            if error is not None:
                raise error
            for each in query.recentProgress:
                if each.numInputRows:
                    seen[each.batchId] = float(each.batchDuration)
            time.sleep(0.2)
    finally:
        query.stop()
    return [seen[batch] for batch in sorted(seen)[BATCHES_SKIPPED:]] or list(seen.values())


def write_table(seconds: dict[str, list[float]], count: int) -> list[str]:
    lines = ["| batch write | records a second | times Spark's connector |", "|---|---|---|"]
    base = seconds.get(THEIRS)
    for name, found in seconds.items():
        middle = statistics.median(found)
        times = f"{statistics.median(base) / middle:.2f}" if base else "not measured"
        lines.append(f"| {name} | {count / middle / 1e6:.2f}M | {times} |")
    return lines


def batch_table(found: dict[str, list[float]]) -> list[str]:
    lines = ["| micro-batch, topic to topic | median ms | least ms | times Spark's connector |", "|---|---|---|---|"]
    base = found.get(THEIRS)
    for name, each in found.items():
        middle = statistics.median(each)
        times = f"{middle / statistics.median(base):.2f}" if base else "not measured"
        lines.append(f"| {name} | {middle:.0f} | {min(each):.0f} | {times} |")
    return lines


def measured(spark: SparkSession, count: int, rounds: int, quick: bool, with_connector: bool) -> list[str]:
    """Both tables, from a broker of their own."""
    with tempfile.TemporaryDirectory() as directory, BrokerProcess(data=Path(directory)) as broker:
        written = measure_writes(spark, broker, count, rounds, with_connector)
        batches = measure_batches(spark, broker, BATCHES_QUICK if quick else BATCHES, with_connector)
    return [*write_table(written, count), "", *batch_table(batches)]


def main() -> None:
    """Writes alone, for who works on them."""
    from barnabas.spark.session import session

    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--quick", action="store_true", help="few records, one round")
    arguments.add_argument("--records", type=int, default=4_000_000)
    options = arguments.parse_args()
    with_connector = spark_connector.why_unavailable() is None
    if with_connector:
        spark_connector.fetch_jars()
    spark = session("writes", master="local[2]", settings=spark_connector.setting() if with_connector else {})
    try:
        count, rounds = (100_000, 1) if options.quick else (options.records, ROUNDS)
        print("\n".join(measured(spark, count, rounds, options.quick, with_connector)))
    finally:
        spark.stop()


if __name__ == "__main__":
    main()

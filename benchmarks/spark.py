"""`make bench-spark`: the data source beside Spark's own Kafka connector, in one session, on the same Barnabas topic.

    benchmarks/spark.py               rounds of every case in turn, medians
    benchmarks/spark.py --quick       few records, one round: shows that everything works

Cases: batch reads by Spark's connector, by this data source, and by a direct scan of the segment files; records a
second, and how many times Spark's connector that is; of a topic with several partitions and of one with a single one,
which the connector reads in one task. Beside them, as a bound, a Python source that has its rows ready
(`spark_bound.py`). Writes and micro-batches likewise (`spark_writes.py`). Also the largest resident memory of a Python
worker, which must not grow with the topic. Without Maven and the connector's jars only our own cases are measured.
Prints a table and writes it to benchmarks/results/DATE-COMMIT-spark.md; a quick run is not kept.
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
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

REPOSITORY = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(REPOSITORY / name) for name in ("benchmarks", "tests/support", "src")]

import spark_bound  # noqa: E402
import spark_connector  # noqa: E402
import spark_writes  # noqa: E402
from broker_process import BrokerProcess, resident_bytes  # noqa: E402
from committed import create_topic  # noqa: E402
from run import circumstances, output_of, say  # noqa: E402

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TOPICS = {"bench": 4, "bench-one-partition": 1}  # how many partitions each has
VALUE_BYTES = 100
ROUNDS = 5
WARM_UPS = 12  # after four rounds Java's compiler still had a seventh of the processor time
THEIRS, BOUND = "Spark's connector", "rows that are ready: the bound"
MASTER = "local[2]"
TASKS = 8  # of the bound: as many as `barnabas` cuts 4 million records into
WATERMARK_SECONDS_MAX = 30.0


def produce(address: str, topic: str, count: int) -> None:
    from confluent_kafka import Producer

    settings = {"linger.ms": 20, "batch.size": 256 << 10, "queue.buffering.max.messages": 1_000_000, "acks": "all"}
    producer = Producer({"bootstrap.servers": address, **settings})
    value = bytes(range(VALUE_BYTES))
    for number in range(count):
        while True:
            try:
                producer.produce(topic, value, partition=number % TOPICS[topic])
                break
            except BufferError:
                producer.poll(0.1)
        if number % 10_000 == 0:
            producer.poll(0)
    assert producer.flush(300) == 0


class WorkerMemory:
    """The largest resident memory of any Python worker while it is watched."""

    def __init__(self) -> None:
        self.most_bytes = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def _watch(self) -> None:
        while not self._stop.wait(0.05):
            for pid in self._workers():
                try:
                    self.most_bytes = max(self.most_bytes, resident_bytes(pid))
                except (OSError, ValueError):
                    continue  # it has just ended

    def _workers(self) -> Iterator[int]:
        for command in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                if b"pyspark.daemon" in command.read_bytes():
                    yield int(command.parent.name)
            except OSError:
                continue

    def stop(self) -> int:
        self._stop.set()
        self._thread.join()
        return self.most_bytes


def read_seconds(load: Callable[[], Any]) -> float:
    """One whole read, every column of every row handed to a sink that does nothing."""
    began = time.monotonic()
    load().write.format("noop").mode("overwrite").save()
    return time.monotonic() - began


def read_cases(
    spark: SparkSession, broker: BrokerProcess, topic: str, with_connector: bool
) -> dict[str, Callable[[], Any]]:
    def of(name: str, **given: str) -> Callable[[], Any]:
        return lambda: spark.read.format(name).options(**given).option("subscribe", topic).load()

    servers = {"kafka.bootstrap.servers": broker.address}
    cases = {THEIRS: of("kafka", **servers)} if with_connector else {}
    cases["barnabas"] = of("barnabas", **servers)
    cases["barnabas, columns=value"] = of("barnabas", **servers, columns="value")
    cases["direct scan"] = of("barnabas", logDirs=str(broker.node_directory))
    cases["direct scan, columns=value"] = of("barnabas", logDirs=str(broker.node_directory), columns="value")
    cases[BOUND] = lambda: spark.read.format(spark_bound.NAME).load()
    return cases


@contextmanager
def session(with_connector: bool) -> Iterator[SparkSession]:
    from barnabas.spark.session import session as made

    settings = spark_connector.setting() if with_connector else {}
    found = made("benchmark", master=MASTER, settings=settings)
    try:
        yield found
    finally:
        found.stop()


def wait_for_checkpoint(broker: BrokerProcess, topic: str, count: int) -> None:
    """Direct scans read up to the checkpoint of the high watermark, which brokers write every few seconds."""
    deadline = time.monotonic() + WATERMARK_SECONDS_MAX
    path = broker.node_directory / "replication-offset-checkpoint"
    while True:
        lines = path.read_text().splitlines()[2:] if path.exists() else []
        if sum(int(line.split()[2]) for line in lines if line.startswith(f"{topic} ")) == count:
            return
        assert time.monotonic() < deadline, "the checkpoint of the high watermark did not come"
        time.sleep(0.1)


Seconds = dict[str, list[float]]  # of each case, round by round


def measure_reads(count: int, rounds: int, with_connector: bool) -> tuple[dict[str, Seconds], int]:
    """For each topic; and the most memory of a worker."""
    with tempfile.TemporaryDirectory() as directory, BrokerProcess(data=Path(directory)) as broker:
        for topic, partition_count in TOPICS.items():
            create_topic(broker.address, topic, partition_count)
            say(f"writing {count:,} records of {VALUE_BYTES} B to {topic}")
            produce(broker.address, topic, count)
            wait_for_checkpoint(broker, topic, count)
        with session(with_connector) as spark:
            spark_bound.register(spark, row_count=count, task_count=TASKS, value_bytes=VALUE_BYTES)
            cases = {topic: read_cases(spark, broker, topic, with_connector) for topic in TOPICS}
            for name, load in next(iter(cases.values())).items():
                say(f"warming up: {name}")
                assert load().count() == count, name
                for _ in range(WARM_UPS if rounds > 1 else 0):
                    read_seconds(load)
            memory = WorkerMemory()
            seconds = {topic: measure_topic(topic, found, count, rounds) for topic, found in cases.items()}
            return seconds, memory.stop()


def measure_topic(topic: str, cases: dict[str, Callable[[], Any]], count: int, rounds: int) -> Seconds:
    seconds: Seconds = {name: [] for name in cases}
    for number in range(rounds):
        for name, load in cases.items():
            seconds[name].append(read_seconds(load))
            rate = count / seconds[name][-1] / 1e6
            say(f"{topic}, round {number + 1} of {rounds}: {name} {rate:.2f}M records a second")
    return seconds


def read_table(topic: str, seconds: Seconds, count: int) -> list[str]:
    partitions = f"{TOPICS[topic]} partition{'s' if TOPICS[topic] > 1 else ''}"
    lines = [f"| batch read, {partitions} | records a second | times Spark's connector |", "|---|---|---|"]
    base = seconds.get(THEIRS)
    for name, found in seconds.items():
        middle = statistics.median(found)
        times = f"{statistics.median(base) / middle:.1f}" if base else "not measured"
        lines.append(f"| {name} | {count / middle / 1e6:.2f}M | {times} |")
    return [*lines, ""]


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--quick", action="store_true", help="few records, one round; not kept")
    arguments.add_argument("--records", type=int, default=4_000_000)
    options = arguments.parse_args()
    count, rounds = (100_000, 1) if options.quick else (options.records, ROUNDS)
    why_not = spark_connector.why_unavailable()
    if why_not is None:
        spark_connector.fetch_jars()
    else:
        say(f"without Spark's connector: {why_not}")
    seconds, memory_bytes = measure_reads(count, rounds, why_not is None)
    with session(why_not is None) as spark:
        writes = spark_writes.measured(spark, count, rounds, options.quick, why_not is None)
    lines = [
        *circumstances(options.quick, False, "not measured here"),
        f"- {'with' if why_not is None else 'without'} Spark's own Kafka connector{f': {why_not}' if why_not else ''}",
        "",
        f"{count:,} records of {VALUE_BYTES} B, `{MASTER}`, warm, medians of {rounds}.",
        "",
        *(line for topic, found in seconds.items() for line in read_table(topic, found, count)),
        f"Most resident memory of a Python worker: {memory_bytes / 2**20:.0f} MB.",
        "",
        *writes,
    ]
    print("\n".join(lines))
    if not options.quick:
        commit = output_of("git", "rev-parse", "--short", "HEAD")
        day = datetime.now(UTC).date().isoformat()
        (REPOSITORY / "benchmarks" / "results" / f"{day}-{commit}-spark.md").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()

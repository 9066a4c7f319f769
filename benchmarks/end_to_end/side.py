"""One side of the comparison: brokers of one kind, one or three, started fresh for each round, and what is measured.

Holds: both kinds are started, filled and asked by the same code with the same clients. A figure is measured or absent;
nothing is estimated.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from apache_kafka import ApacheKafka, ApacheKafkaCluster, is_answering, run_tool
from broker_process import BrokerProcess, peak_bytes
from cluster_process import ClusterProcess
from confluent_kafka.admin import AdminClient, NewTopic

PARTITIONS = 6
LIBRDKAFKA = Path(__file__).resolve().parent / "librdkafka.py"
PERFORMANCE = "org.apache.kafka.tools.ProducerPerformance"
LATENCY = "org.apache.kafka.tools.EndToEndLatency"
TOOL_SECONDS_MAX = 600.0
READS = 3  # of the same topic, in each round
IDLE_SECONDS = 3.0  # after the first answer, before idle memory is read: what was started has settled by then
Broker = BrokerProcess | ApacheKafka | ApacheKafkaCluster
Figures = dict[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """How much work each measurement is; 0 leaves it out."""

    records_100: int
    records_1024: int
    performance_100: int
    performance_1024: int
    single_records: int
    latency_records: int


FULL = Sizes(
    records_100=4_000_000,
    records_1024=600_000,
    performance_100=3_000_000,
    performance_1024=500_000,
    single_records=200_000,
    latency_records=10_000,
)
QUICK = Sizes(
    records_100=300_000,
    records_1024=50_000,
    performance_100=200_000,
    performance_1024=50_000,
    single_records=20_000,
    latency_records=500,
)

THREE = Sizes(
    records_100=2_000_000,
    records_1024=0,
    performance_100=1_500_000,
    performance_1024=250_000,
    single_records=0,
    latency_records=10_000,
)
THREE_QUICK = Sizes(
    records_100=200_000,
    records_1024=0,
    performance_100=100_000,
    performance_1024=30_000,
    single_records=0,
    latency_records=500,
)
THREE_CONFIG = {"num.partitions": PARTITIONS, "min.insync.replicas": 2}


def open_barnabas(directory: Path) -> Broker:
    return BrokerProcess(data=directory, config={"num.partitions": PARTITIONS})


def open_kafka(directory: Path) -> Broker:
    return ApacheKafka(directory / "node", config={"num.partitions": PARTITIONS})


def open_three_barnabas(directory: Path) -> Broker:
    return ClusterProcess(data=directory, config=THREE_CONFIG)


def open_three_kafka(directory: Path) -> Broker:
    return ApacheKafkaCluster(directory, config=THREE_CONFIG)


def measure_round(
    name: str,
    open_broker: Callable[[Path], Broker],
    sizes: Sizes,
    java: bool,
    say: Callable[[str], None],
    *,
    replicas: int = 1,
) -> Figures:
    """The life of one broker, or of three that replicate: start, idle, load of every kind, end."""
    with tempfile.TemporaryDirectory(prefix="barnabas-bench-") as directory:
        broker = open_broker(Path(directory))
        say(f"{name}: start")
        with broker:
            load = Load(broker.address, sizes, replicas, lambda text: say(f"{name}: {text}"))
            load.figures["start"] = first_answer_seconds(broker)
            time.sleep(IDLE_SECONDS)
            load.figures["memory_idle"] = broker.resident_bytes() / 1e6
            load.measure_librdkafka()
            if java:
                load.measure_java()
            load.figures["memory_loaded"] = sum(peak_bytes(pid) for pid in broker.pids) / 1e6
    return load.figures


def first_answer_seconds(broker: Broker) -> float:
    """From the start of the process. Kafka was asked until it answered; Barnabas says when it may be asked."""
    if not isinstance(broker, BrokerProcess):
        return broker.ready_seconds
    began = time.monotonic()
    for address in broker.address.split(","):
        assert is_answering(int(address.rpartition(":")[2]))
    return broker.ready_seconds + time.monotonic() - began


class Load:
    """What one kind of broker is asked, and how it did. Replicated topics are asked less: see `sizes`."""

    def __init__(self, address: str, sizes: Sizes, replicas: int, say: Callable[[str], None]) -> None:
        self.figures: Figures = {}
        self._address = address
        self._sizes = sizes
        self._replicas = replicas
        self._say = say

    def create_topic(self, topic: str, partitions: int) -> None:
        admin = AdminClient({"bootstrap.servers": self._address})
        config = {"min.insync.replicas": "2"} if self._replicas == 3 else {}
        admin.create_topics([NewTopic(topic, partitions, self._replicas, config=config)])[topic].result(60)

    def measure_librdkafka(self) -> None:
        for value_bytes, records in ((100, self._sizes.records_100), (1024, self._sizes.records_1024)):
            if not records:
                continue
            topic = f"librdkafka-{value_bytes}"
            self.create_topic(topic, PARTITIONS)
            scale = 1.0 if value_bytes == 100 else value_bytes / 1e6
            seconds = self.librdkafka("produce", topic, records, value_bytes)
            self.figures[f"produce_{value_bytes}"] = records / seconds * scale
            os.sync()  # else who produced faster is read while more of it is still being written to the disk
            seconds = median(self.librdkafka("consume", topic, records, value_bytes) for _ in range(READS))
            self.figures[f"consume_{value_bytes}"] = records / seconds * scale
        if records := self._sizes.single_records:
            self.create_topic("librdkafka-single", PARTITIONS)
            self.figures["single"] = records / self.librdkafka("single", "librdkafka-single", records, 100)

    def librdkafka(self, action: str, topic: str, records: int, value_bytes: int) -> float:
        """Seconds."""
        self._say(f"librdkafka {action} {value_bytes} B")
        command = [sys.executable, LIBRDKAFKA, action, self._address, topic, str(records), str(value_bytes)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=TOOL_SECONDS_MAX)
        if done.returncode != 0:
            raise RuntimeError(f"{action} against {self._address}: {done.stderr}")
        return float(json.loads(done.stdout)["seconds"])

    def measure_java(self) -> None:
        batched = ["linger.ms=5", "batch.size=65536"]
        self._say("ProducerPerformance 100 B")
        self.figures["performance_100"] = self.performance(self._sizes.performance_100, 100, batched)[0]
        self._say("ProducerPerformance 1 KiB")
        self.figures["performance_1024"] = self.performance(self._sizes.performance_1024, 1024, batched)[1]
        if self._sizes.single_records:
            self._say("ProducerPerformance, one record a batch")
            one = ["linger.ms=0", "batch.size=1"]
            self.figures["performance_single"] = self.performance(self._sizes.single_records, 100, one)[0]
        self._say("EndToEndLatency")
        self.measure_latency()

    def measure_latency(self) -> None:
        self.create_topic("latency", 1)
        records = ["--topic", "latency", "--num-records", str(self._sizes.latency_records), "--record-size", "100"]
        asked = ["--bootstrap-server", self._address, *records, "--producer-acks", "all"]
        printed = run_tool(LATENCY, *asked, seconds=TOOL_SECONDS_MAX, flags=("-Xmx512m",))
        average = re.search(r"Avg latency: ([\d.]+) ms", printed)
        percentiles = re.search(r"99th = ([\d.]+), 99.9th = ([\d.]+)", printed)
        assert average is not None, printed
        assert percentiles is not None, printed
        self.figures["latency_average"] = float(average[1])
        self.figures["latency_99"] = float(percentiles[1])
        self.figures["latency_999"] = float(percentiles[2])

    def performance(self, records: int, record_bytes: int, settings: list[str]) -> tuple[float, float]:
        """Records a second and MB (10^6 bytes) a second of Kafka's own producer, acks=all."""
        topic = f"performance-{record_bytes}-{settings[-1].partition('=')[2]}"
        self.create_topic(topic, PARTITIONS)
        printed = run_tool(
            PERFORMANCE,
            *("--topic", topic, "--num-records", str(records), "--record-size", str(record_bytes)),
            *("--throughput", "-1", "--bootstrap-server", self._address, "--command-property", "acks=all", *settings),
            seconds=TOOL_SECONDS_MAX,
            flags=("-Xmx512m",),
        )
        totals = re.findall(r"^(\d+) records sent, ([\d.]+) records/sec", printed, re.MULTILINE)
        assert totals, printed
        assert int(totals[-1][0]) == records, printed
        rate = float(totals[-1][1])
        return rate, rate * record_bytes / 1e6

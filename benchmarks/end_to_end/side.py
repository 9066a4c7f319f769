"""One side of the comparison: a broker of one kind, started fresh for each round, and what is measured of it.

Holds: both kinds are started, filled and asked by the same code with the same clients. A figure is measured or absent;
nothing is estimated.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from apache_kafka import ApacheKafka, is_answering, run_tool
from broker_process import BrokerProcess
from confluent_kafka.admin import AdminClient, NewTopic

PARTITIONS = 6
LIBRDKAFKA = Path(__file__).resolve().parent / "librdkafka.py"
PERFORMANCE = "org.apache.kafka.tools.ProducerPerformance"
LATENCY = "org.apache.kafka.tools.EndToEndLatency"
TOOL_SECONDS_MAX = 600.0
IDLE_SECONDS = 3.0  # after the first answer, before idle memory is read: what was started has settled by then
Broker = BrokerProcess | ApacheKafka
Figures = dict[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """How much work each measurement is."""

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


def open_barnabas(directory: Path) -> Broker:
    return BrokerProcess(data=directory, config={"num.partitions": PARTITIONS})


def open_kafka(directory: Path) -> Broker:
    return ApacheKafka(directory / "node", config={"num.partitions": PARTITIONS})


def measure_round(
    name: str, open_broker: Callable[[Path], Broker], sizes: Sizes, java: bool, say: Callable[[str], None]
) -> Figures:
    """One broker's life: start, idle, load of every kind, end."""
    with tempfile.TemporaryDirectory(prefix="barnabas-bench-") as directory:
        broker = open_broker(Path(directory))
        say(f"{name}: start")
        with broker:
            figures = {"start": first_answer_seconds(broker)}
            time.sleep(IDLE_SECONDS)
            figures["memory_idle"] = broker.resident_bytes() / 1e6
            measure_librdkafka(broker.address, sizes, figures, lambda text: say(f"{name}: {text}"))
            if java:
                measure_java(broker.address, sizes, figures, lambda text: say(f"{name}: {text}"))
            figures["memory_loaded"] = peak_bytes(broker) / 1e6
    return figures


def first_answer_seconds(broker: Broker) -> float:
    """From the start of the process. Kafka was asked until it answered; Barnabas says when it may be asked."""
    if isinstance(broker, ApacheKafka):
        return broker.ready_seconds
    began = time.monotonic()
    assert is_answering(broker.port)
    return broker.ready_seconds + time.monotonic() - began


def peak_bytes(broker: Broker) -> int:
    """The most memory that was ever resident."""
    assert broker.process is not None
    for line in Path(f"/proc/{broker.process.pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    raise ProcessLookupError(broker.process.pid)


def create_topic(address: str, topic: str, partitions: int) -> None:
    admin = AdminClient({"bootstrap.servers": address})
    admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result(60)


def measure_librdkafka(address: str, sizes: Sizes, figures: Figures, say: Callable[[str], None]) -> None:
    for value_bytes, records in ((100, sizes.records_100), (1024, sizes.records_1024)):
        topic = f"librdkafka-{value_bytes}"
        create_topic(address, topic, PARTITIONS)
        for action in ("produce", "consume"):
            say(f"librdkafka {action} {value_bytes} B")
            command = [sys.executable, LIBRDKAFKA, action, address, topic, str(records), str(value_bytes)]
            done = subprocess.run(command, capture_output=True, text=True, timeout=TOOL_SECONDS_MAX)
            if done.returncode != 0:
                raise RuntimeError(f"{action} against {address}: {done.stderr}")
            seconds = json.loads(done.stdout)["seconds"]
            scale = 1.0 if value_bytes == 100 else value_bytes / 1e6
            figures[f"{action}_{value_bytes}"] = records / seconds * scale


def measure_java(address: str, sizes: Sizes, figures: Figures, say: Callable[[str], None]) -> None:
    batched = ["linger.ms=5", "batch.size=65536"]
    say("ProducerPerformance 100 B")
    figures["performance_100"] = performance(address, sizes.performance_100, 100, batched)[0]
    say("ProducerPerformance 1 KiB")
    figures["performance_1024"] = performance(address, sizes.performance_1024, 1024, batched)[1]
    say("ProducerPerformance, one record a request")
    figures["single"] = performance(address, sizes.single_records, 100, ["linger.ms=0", "batch.size=1"])[0]
    say("EndToEndLatency")
    create_topic(address, "latency", 1)
    asked = ["--bootstrap-server", address, "--topic", "latency", "--num-records", str(sizes.latency_records)]
    printed = run_tool(
        LATENCY, *asked, "--producer-acks", "all", "--record-size", "100", seconds=TOOL_SECONDS_MAX, flags=("-Xmx512m",)
    )
    average = re.search(r"Avg latency: ([\d.]+) ms", printed)
    percentiles = re.search(r"99th = ([\d.]+), 99.9th = ([\d.]+)", printed)
    assert average is not None, printed
    assert percentiles is not None, printed
    figures["latency_average"] = float(average[1])
    figures["latency_99"] = float(percentiles[1])
    figures["latency_999"] = float(percentiles[2])


def performance(address: str, records: int, record_bytes: int, settings: list[str]) -> tuple[float, float]:
    """Records a second and MB (10^6 bytes) a second of Kafka's own producer, acks=all, one partition each run."""
    topic = f"performance-{record_bytes}-{settings[-1].partition('=')[2]}"
    create_topic(address, topic, PARTITIONS)
    printed = run_tool(
        PERFORMANCE,
        *("--topic", topic, "--num-records", str(records), "--record-size", str(record_bytes), "--throughput", "-1"),
        *("--bootstrap-server", address, "--command-property", "acks=all", *settings),
        seconds=TOOL_SECONDS_MAX,
        flags=("-Xmx512m",),
    )
    totals = re.findall(r"^(\d+) records sent, ([\d.]+) records/sec", printed, re.MULTILINE)
    assert totals, printed
    assert int(totals[-1][0]) == records, printed
    rate = float(totals[-1][1])
    return rate, rate * record_bytes / 1e6

"""Transactional copiers while brokers, or they themselves, are killed: every record is copied once, in order.

A topic of numbers is copied into another, offsets in the transactions, by a process of librdkafka (`copier.py`) or by
Kafka's own TransactionalMessageCopier; a process that ends early is started again. Holds in the end: who reads the copy
with read_committed finds in each partition what the source holds there, each record once, in its order.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import apache_kafka
import cases
import check
from broker_process import wait_until
from cases import IDS, PARTITIONS, Result
from clients import READ_SECONDS_MAX, VALUE_BYTES, quiet
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from nodes import Nodes
from places import Loopback

from barnabas.server.coordinators.coordinator import java_hash

SOURCE, OUTPUT = "source", "copy"
RECORDS = 12_000
KILLS = 3  # of a copier, or of brokers in turn
BETWEEN_KILLS_SECONDS = 1.0
COPY_SECONDS_MAX = 180.0
LIBRDKAFKA, JAVA = "librdkafka", "TransactionalMessageCopier"
COPIER = Path(__file__).with_name("copier.py")
HEADER = ["fault", "target", "copied by", "records", "found", "processes", "seconds", "compared, MB", "verdict"]
HOW_TO_READ = """\
Each line is a cluster of its own. A topic of numbers is copied into another in transactions that hold the offsets too,
by librdkafka with its default settings or by Kafka's own TransactionalMessageCopier, while brokers are killed, or the
copier itself is. *Found* is what a consumer with read_committed reads from the copy: each record must be there once, in
its order. *Processes* is how many copiers it took; one that was killed, fenced or hangs is started again."""


class TransactionalCase(NamedTuple):
    fault: str
    target: str
    client: str

    @property
    def name(self) -> str:
        return f"transactions, {self.fault}, {self.target}, {self.client}"


def all_cases() -> list[TransactionalCase]:
    targets = ("leader", "controller", "all", "the copier", "coordinator")
    matrix = [TransactionalCase("kill -9", target, LIBRDKAFKA) for target in targets]
    matrix += [TransactionalCase("pause (SIGSTOP)", "coordinator", LIBRDKAFKA)]
    matrix += [TransactionalCase("rolling restart", "all", LIBRDKAFKA)]
    return matrix + [TransactionalCase("kill -9", target, JAVA) for target in ("leader", "the copier")]


class Copier:
    """The process at work, started again until it has ended well."""

    def __init__(self, client: str, bootstrap: str) -> None:
        self._command = _command(client, bootstrap)
        self._process = subprocess.Popen(self._command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.processes = 1

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def tend(self) -> bool:
        """Whether everything is copied. Who ended otherwise is replaced."""
        if self._process.poll() is None:
            return False
        if self._process.returncode == 0:
            return True
        self._process = subprocess.Popen(self._command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.processes += 1
        return False


def _command(client: str, bootstrap: str) -> list[str]:
    if client == LIBRDKAFKA:
        return [sys.executable, str(COPIER), bootstrap, SOURCE, OUTPUT]
    arguments = ["--broker-list", bootstrap, "--input-topic", SOURCE, "--input-partition", "-1", "--output-topic"]
    arguments += [OUTPUT, "--transactional-id", "copier", "--consumer-group", "copier", "--transaction-size", "50"]
    arguments += ["--transaction-timeout", "10000", "--group-mode", "--use-group-metadata", "--enable-random-aborts"]
    return apache_kafka.java_command(
        "org.apache.kafka.tools.TransactionalMessageCopier", *arguments, flags=apache_kafka.QUICK_TOOL_FLAGS
    )


def run(case: TransactionalCase, keep_logs: Path | None = None) -> tuple[Result, int]:
    """What came of it, and how many copiers it took."""
    began = time.monotonic()
    result = Result()
    processes = 0
    with tempfile.TemporaryDirectory(prefix="barnabas-chaos-") as directory:
        network = Loopback(IDS)
        nodes = Nodes(Path(directory), network)
        try:
            with network, nodes:
                processes = _copy(case, nodes, result)
        except AssertionError as error:
            result.wrong.append(str(error))
        for node in nodes.nodes.values():
            said = node.log.read_text(errors="replace")
            if "Traceback" in said:
                result.wrong.append(f"node {node.node_id} logged an exception")
            if keep_logs is not None and result.wrong:
                keep_logs.mkdir(parents=True, exist_ok=True)
                (keep_logs / f"{case.name.replace(' ', '-')}-{node.node_id}.log").write_text(said)
    result.seconds = time.monotonic() - began
    return result, processes


def _copy(case: TransactionalCase, nodes: Nodes, result: Result) -> int:
    admin = AdminClient(quiet(nodes.bootstrap))
    created = admin.create_topics([NewTopic(name, PARTITIONS, len(IDS)) for name in (SOURCE, OUTPUT)])
    for future in created.values():
        future.result(30)
    nodes.wait_until_whole()
    _fill(nodes.bootstrap)
    copier = Copier(case.client, nodes.bootstrap)
    try:
        wait_until(lambda: _has_begun(nodes.bootstrap), "something is copied", COPY_SECONDS_MAX)
        _disturb(case, nodes, copier)
        wait_until(copier.tend, "everything is copied", COPY_SECONDS_MAX)
    finally:
        copier.kill()
    nodes.wait_until_whole()
    source = read_committed(nodes.bootstrap, SOURCE)
    found = read_committed(nodes.bootstrap, OUTPUT)
    result.acknowledged = sum(map(len, source.values()))
    result.found = sum(map(len, found.values()))
    result.wrong += [
        f"partition {partition}: {len(numbers)} records are copied as {len(found[partition])}, or in another order"
        for partition, numbers in source.items()
        if numbers != found[partition]
    ]
    directories = [node.data for node in nodes.nodes.values()]
    wait_until(lambda: check.are_level(directories), "all replicas have as many bytes")
    nodes.stop()
    result.compared_bytes, differences = check.replicas(directories)
    result.wrong += differences
    return copier.processes


def _fill(bootstrap: str) -> None:
    producer = Producer({**quiet(bootstrap), "acks": "all", "enable.idempotence": True, "linger.ms": 5})
    for number in range(RECORDS):
        producer.produce(SOURCE, str(number).encode().ljust(VALUE_BYTES), partition=number % PARTITIONS)
    assert producer.flush(60) == 0, "the source could not be filled"


def _has_begun(bootstrap: str) -> bool:
    return any(read_committed(bootstrap, OUTPUT).values())


def read_committed(bootstrap: str, topic: str) -> dict[int, list[int]]:
    """The numbers in each partition up to its end, which markers may be beyond the last record."""
    settings = {"group.id": "unused", "enable.auto.commit": False, "enable.partition.eof": True}
    consumer = Consumer({**quiet(bootstrap), **settings, "isolation.level": "read_committed"})
    consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING) for partition in range(PARTITIONS)])
    found: dict[int, list[int]] = {partition: [] for partition in range(PARTITIONS)}
    ended: set[int] = set()
    deadline = time.monotonic() + READ_SECONDS_MAX
    while len(ended) < PARTITIONS and time.monotonic() < deadline:
        for message in consumer.consume(10_000, timeout=0.5):
            error = message.error()
            if error is None:
                found[message.partition()].append(int(message.value()))
            elif error.code() == KafkaError._PARTITION_EOF:
                ended.add(message.partition())
    consumer.close()
    return found


def _disturb(case: TransactionalCase, nodes: Nodes, copier: Copier) -> None:
    faults: dict[str, Callable[[Nodes, list[int], float], None]] = {
        "kill -9": cases.kill,
        "pause (SIGSTOP)": cases.pause,
        "rolling restart": cases.restart_in_turn,
    }
    for _ in range(1 if case.fault != "kill -9" else KILLS):
        if case.target == "the copier":
            copier.kill()
            copier.tend()
            time.sleep(BETWEEN_KILLS_SECONDS)
            continue
        hold_seconds = {"kill -9": 1.0, "pause (SIGSTOP)": 11.0, "rolling restart": 0.0}[case.fault]
        faults[case.fault](nodes, _targets(case, nodes), hold_seconds)
        nodes.wait_until_whole()
        copier.tend()


def _targets(case: TransactionalCase, nodes: Nodes) -> list[int]:
    match case.target:
        case "leader":
            return [nodes.leader_id(OUTPUT, 0)]
        case "coordinator":
            return [nodes.leader_id("__transaction_state", _partition_of("copier"))]
        case "controller":
            return [nodes.controller_id()]
        case _:
            return list(IDS)


def _partition_of(transactional_id: str) -> int:
    return java_hash(transactional_id) % 50


def line(case: TransactionalCase, result: Result, processes: int) -> str:
    verdict = "; ".join(result.wrong) or "each once, in order"
    figures = [f"{result.acknowledged:,}", f"{result.found:,}", str(processes), f"{result.seconds:.0f}"]
    return (
        "| "
        + " | ".join([case.fault, case.target, case.client, *figures, f"{result.compared_bytes / 1e6:.1f}", verdict])
        + " |"
    )


def table(only: str, keep: Path | None, say: Callable[[str], None]) -> tuple[list[str], bool]:
    """Lines of the table, and whether all went well."""
    lines = ["| " + " | ".join(HEADER) + " |", "|---" * len(HEADER) + "|"]
    good = True
    reason = apache_kafka.why_unavailable()
    for case in all_cases():
        if only not in case.name:
            continue
        if case.client == JAVA and reason is not None:
            lines.append(f"| {case.fault} | {case.target} | {case.client} | | | | | | skipped: {reason} |")
            continue
        if case.client == JAVA:
            apache_kafka.fetch_jars()
        result, processes = run(case, keep)
        lines.append(line(case, result, processes))
        say(lines[-1])
        good = good and not result.wrong
    return lines, good

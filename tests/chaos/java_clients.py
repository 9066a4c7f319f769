"""Kafka's own VerifiableProducer and VerifiableConsumer against a cluster one of whose brokers is killed.

Both print a line of JSON for what they were told. Holds: what the producer counts as acknowledged, the consumer sees.
"""

from __future__ import annotations

import itertools
import json
import subprocess
import tempfile
import time
from pathlib import Path

import check
from apache_kafka import QUICK_TOOL_FLAGS, java_command
from broker_process import wait_until
from cases import IDS, PARTITIONS, Result, quiet
from confluent_kafka.admin import AdminClient, NewTopic
from nodes import Nodes
from places import Loopback

TOPIC = "verifiable"
PRODUCER = "org.apache.kafka.tools.VerifiableProducer"
CONSUMER = "org.apache.kafka.tools.VerifiableConsumer"
RECORDS = 6_000
RECORDS_PER_SECOND = 1_000
ON_THE_WAY_MAX = 100  # a tenth of a second
WAIT_SECONDS_MAX = 60.0


def run(who: str) -> Result:
    """The leader of the first partition, or the controller, is killed while records flow, and started again."""
    began = time.monotonic()
    result = Result()
    with (
        tempfile.TemporaryDirectory(prefix="barnabas-chaos-") as directory,
        Loopback(IDS) as network,
        Nodes(Path(directory), network) as nodes,
    ):
        admin = AdminClient(quiet(nodes.bootstrap))
        admin.create_topics([NewTopic(TOPIC, PARTITIONS, len(IDS))])[TOPIC].result(30)
        nodes.wait_until_whole()
        server = ["--bootstrap-server", nodes.bootstrap, "--topic", TOPIC]
        said = Path(directory) / "consumer.json"
        with said.open("wb") as output:
            consumer = subprocess.Popen(
                java_command(
                    CONSUMER, *server, "--group-id", "g", "--reset-policy", "earliest", flags=QUICK_TOOL_FLAGS
                ),
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        limits = ["--max-messages", str(RECORDS), "--throughput", str(RECORDS_PER_SECOND), "--acks", "-1"]
        sent = Path(directory) / "producer.json"  # a pipe that nobody reads would fill, and hold the producer up
        with sent.open("wb") as output:
            producer = subprocess.Popen(java_command(PRODUCER, *server, *limits, flags=QUICK_TOOL_FLAGS), stdout=output)
        try:
            _kill_meanwhile(nodes, who, producer, sent, said, result)
        except (AssertionError, subprocess.TimeoutExpired) as error:
            result.wrong.append(str(error))
        finally:
            for process in (producer, consumer):
                process.kill()
                process.wait()
        if not result.wrong:
            directories = [node.data for node in nodes.nodes.values()]
            wait_until(lambda: check.are_level(directories), "all replicas have as many bytes")
            nodes.stop()
            result.compared_bytes, differences = check.replicas(directories)
            result.wrong += differences
    result.seconds = time.monotonic() - began
    return result


def _kill_meanwhile(
    nodes: Nodes, who: str, producer: subprocess.Popen[bytes], sent: Path, said: Path, result: Result
) -> None:
    wait_until(lambda: "producer_send_success" in sent.read_text(), "the producer is at work", WAIT_SECONDS_MAX)
    time.sleep(1.5)
    target = nodes.leader_id(TOPIC) if who == "leader" else nodes.controller_id()
    nodes.nodes[target].kill()
    time.sleep(2.0)
    nodes.start_dead()
    producer.wait(WAIT_SECONDS_MAX)
    lines = [json.loads(line) for line in sent.read_text().splitlines() if line.startswith("{")]
    acknowledged = {line["value"] for line in lines if line["name"] == "producer_send_success"}
    result.acknowledged = len(acknowledged)
    # It never tries again (retries=0), so what is on its way to a broker that dies may be there or not.
    if RECORDS - len(acknowledged) > ON_THE_WAY_MAX:
        result.wrong.append(f"{RECORDS - len(acknowledged)} of {RECORDS} records were not acknowledged")
    moments = sorted(line["timestamp"] for line in lines if line["name"] == "producer_send_success")
    result.silence_seconds = max((after - before) / 1000 for before, after in itertools.pairwise(moments))
    nodes.wait_until_whole()
    wait_until(lambda: consumed(said) >= len(acknowledged), "the consumer sees everything", WAIT_SECONDS_MAX)
    result.found = consumed(said)
    if not len(acknowledged) <= result.found <= RECORDS:
        result.wrong.append(f"{result.found} records were found")


def consumed(said: Path) -> int:
    """By offsets, so that what is delivered again after a rebalance counts once."""
    ends: dict[int, int] = {}
    for line in said.read_text().splitlines():
        found = json.loads(line) if line.startswith("{") and line.endswith("}") else {}
        if found.get("name") == "records_consumed":
            for each in found["partitions"]:
                ends[each["partition"]] = max(ends.get(each["partition"], 0), each["maxOffset"] + 1)
    return sum(ends.values())

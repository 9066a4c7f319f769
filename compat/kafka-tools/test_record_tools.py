"""Records through Kafka's Java clients: console producer and consumer, offsets, verifiable and performance tools."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable

import pytest
from apache_kafka import ApacheKafka, run_tool
from broker_process import BrokerProcess

PRODUCER = "org.apache.kafka.tools.ConsoleProducer"
CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"
OFFSETS = "org.apache.kafka.tools.GetOffsetShell"
TOPICS = "org.apache.kafka.tools.TopicCommand"
DUMP = "org.apache.kafka.tools.DumpLogSegments"
Both = Callable[..., tuple[str, str]]
_numbers = itertools.count(1)
pytestmark = [pytest.mark.java, pytest.mark.timeout(300)]


@pytest.fixture
def topic(both: Both, request: pytest.FixtureRequest) -> str:
    name = f"{request.node.originalname.removeprefix('test_').replace('_', '-')}-{next(_numbers)}"
    both(TOPICS, "--bootstrap-server", "{bootstrap}", "--create", "--topic", name, "--partitions", "1")
    return name


def produce(both: Both, topic: str, text: str, *arguments: str) -> None:
    own, kafkas = both(PRODUCER, "--bootstrap-server", "{bootstrap}", "--topic", topic, *arguments, text=text)
    assert own == kafkas


def consume(both: Both, topic: str, *arguments: str) -> str:
    """By partition and offset: no group takes part."""
    asked = ["--bootstrap-server", "{bootstrap}", "--topic", topic, "--partition", "0", *arguments]
    own, kafkas = both(CONSUMER, *asked)
    assert own == kafkas
    return own


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_console_producer_and_consumer(both: Both, topic: str, codec: str):
    lines = "".join(f"line {number}\n" for number in range(50))
    produce(both, topic, lines, "--compression-codec", codec)
    printed = consume(both, topic, "--offset", "earliest", "--max-messages", "50")
    assert printed == lines + "Processed a total of 50 messages\n"
    printed = consume(both, topic, "--offset", "45", "--max-messages", "5")
    assert printed.splitlines()[0] == "line 45"


def test_keys_headers_and_offsets_as_printed(both: Both, topic: str):
    text = "h1:a,h2:b\tkey1\tvalue1\nh1:c\tkey2\tvalue2\n"
    produce(both, topic, text, "--reader-property", "parse.key=true", "--reader-property", "parse.headers=true")
    shown = [f"print.{name}=true" for name in ("key", "headers", "offset", "partition", "value")]
    properties = [part for each in shown for part in ("--formatter-property", each)]
    printed = consume(both, topic, "--offset", "earliest", "--max-messages", "2", *properties)
    assert printed.splitlines()[0] == "Partition:0\tOffset:0\th1:a,h2:b\tkey1\tvalue1"


@pytest.mark.parametrize("acks", ["0", "1", "-1"])
def test_acknowledgements(both: Both, topic: str, acks: str):
    produce(
        both, topic, "one\ntwo\n", "--request-required-acks", acks, "--command-property", "enable.idempotence=false"
    )
    assert consume(both, topic, "--offset", "earliest", "--max-messages", "2").splitlines()[:2] == ["one", "two"]


def test_offsets(both: Both, topic: str):
    produce(both, topic, "a\nb\nc\n")
    for time, expected in (("-1", 3), ("-2", 0), ("latest", 3), ("earliest", 0), ("0", 0), ("99999999999999", None)):
        own, kafkas = both(OFFSETS, "--bootstrap-server", "{bootstrap}", "--topic", topic, "--time", time)
        assert own == kafkas
        if expected is not None:
            assert own.strip() == f"{topic}:0:{expected}"
    own, kafkas = both(OFFSETS, "--bootstrap-server", "{bootstrap}", "--topic", topic, "--time", "max-timestamp")
    assert re.fullmatch(rf"{re.escape(topic)}:0:[012]", own.strip())
    assert re.fullmatch(rf"{re.escape(topic)}:0:[012]", kafkas.strip())


def test_verifiable_producer(both: Both, topic: str):
    """Every message acknowledged, at the offset that follows the one before."""
    asked = ["--bootstrap-server", "{bootstrap}", "--topic", topic, "--max-messages", "200", "--throughput", "-1"]
    for printed in both("org.apache.kafka.tools.VerifiableProducer", *asked):
        events = [json.loads(line) for line in printed.splitlines() if line.startswith("{")]
        sent = [event for event in events if event["name"] == "producer_send_success"]
        assert [event["offset"] for event in sent] == list(range(200))
        (total,) = [event for event in events if event["name"] == "tool_data"]
        assert total["sent"] == total["acked"] == 200


def test_producer_performance(barnabas: BrokerProcess, both: Both, topic: str):
    printed = run_tool(
        "org.apache.kafka.tools.ProducerPerformance", "--topic", topic, "--num-records", "50000",
        "--record-size", "100", "--throughput", "-1", "--bootstrap-server", barnabas.address,
        "--command-property", "acks=all",
    )  # fmt: skip
    assert "50000 records sent" in printed
    asked = ["--bootstrap-server", barnabas.address, "--topic", topic]
    assert run_tool(OFFSETS, *asked).strip() == f"{topic}:0:50000"


def test_end_to_end_latency(barnabas: BrokerProcess, both: Both, topic: str):
    printed = run_tool(
        "org.apache.kafka.tools.EndToEndLatency", "--bootstrap-server", barnabas.address, "--topic", topic,
        "--num-records", "200", "--producer-acks", "all", "--record-size", "100",
    )  # fmt: skip
    assert "Avg latency" in printed


def test_log_segments_on_disk_say_the_same(barnabas: BrokerProcess, kafka: ApacheKafka, both: Both, topic: str):
    """The same records, written by the same client, are the same batches to Kafka's dump tool, times apart."""
    produce(both, topic, "".join(f"line {number}\n" for number in range(30)), "--batch-size", "1")
    dumps = []
    for broker in (barnabas, kafka):
        file = broker.node_directory / f"{topic}-0" / "00000000000000000000.log"
        dumped = run_tool(DUMP, "--files", str(file), "--deep-iteration", "--print-data-log")
        dumped = re.sub(r"(Dumping|producerId:|CreateTime:|crc:) \S+", r"\1", dumped)
        dumps.append(dumped)
    assert "payload: line 29" in dumps[0]
    assert dumps[0] == dumps[1]

"""kafka-topics, kafka-configs and kafka-delete-records say about Barnabas what they say about Apache Kafka."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

TOPICS = "org.apache.kafka.tools.TopicCommand"
CONFIGS = "kafka.admin.ConfigCommand"
DELETE_RECORDS = "org.apache.kafka.tools.DeleteRecordsCommand"
OFFSETS = "org.apache.kafka.tools.GetOffsetShell"
PRODUCER = "org.apache.kafka.tools.ConsoleProducer"
Both = Callable[..., tuple[str, str]]
_numbers = itertools.count(1)
pytestmark = [pytest.mark.java, pytest.mark.timeout(300)]


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    return f"{request.node.originalname.removeprefix('test_').replace('_', '-')}-{next(_numbers)}"


def same(both: Both, *arguments: str, **settings: object) -> str:
    """Runs the tool against both, which must make it print the same; what that was."""
    own, kafkas = both(*arguments, **settings)
    assert own == kafkas
    return own


def topics(both: Both, *arguments: str, **settings: object) -> str:
    return same(both, TOPICS, "--bootstrap-server", "{bootstrap}", *arguments, **settings)


def configs(both: Both, *arguments: str, **settings: object) -> str:
    return same(both, CONFIGS, "--bootstrap-server", "{bootstrap}", *arguments, **settings)


def test_create_describe_alter_delete(both: Both, topic: str):
    assert topics(both, "--create", "--topic", topic, "--partitions", "2", "--config", "retention.ms=1234567")
    described = topics(both, "--describe", "--topic", topic)
    assert "PartitionCount: 2" in described
    assert "retention.ms=1234567" in described
    assert "Leader: 1" in described
    topics(both, "--alter", "--topic", topic, "--partitions", "4")
    assert "PartitionCount: 4" in topics(both, "--describe", "--topic", topic)
    assert topics(both, "--list", "--topic", topic).strip() == topic
    topics(both, "--delete", "--topic", topic)
    assert topics(both, "--list", "--topic", topic).strip() == ""


def test_topics_with_overrides_only(both: Both, topic: str):
    topics(both, "--create", "--topic", topic, "--config", "cleanup.policy=compact", "--config", "segment.ms=99999")
    described = topics(both, "--describe", "--topic", topic, "--topics-with-overrides")
    assert "cleanup.policy=compact" in described


@pytest.mark.parametrize(
    "arguments",
    [
        ["--create", "--topic", "bad name"],
        ["--create", "--topic", "t" * 250],
        ["--create", "--topic", "fine", "--replication-factor", "3"],
        ["--create", "--topic", "fine", "--partitions", "1", "--config", "retention.ms=soon"],
        ["--create", "--topic", "fine", "--partitions", "1", "--config", "no.such.config=1"],
        ["--create", "--topic", "fine", "--replica-assignment", "7"],
        ["--describe", "--topic", "no-such-topic"],
        ["--delete", "--topic", "no-such-topic"],
        ["--alter", "--topic", "no-such-topic", "--partitions", "3"],
    ],
    ids=lambda arguments: " ".join(each[:30] for each in arguments),
)
def test_what_kafka_topics_refuses(both: Both, arguments: list[str]):
    """Both refuse and give a reason. The tool shows only the words, which are each broker's own."""
    for printed in both(TOPICS, "--bootstrap-server", "{bootstrap}", *arguments, check=False):
        assert re.match(r"Error while executing topic command : \S+", printed)


def test_creating_twice(both: Both, topic: str):
    topics(both, "--create", "--topic", topic, "--partitions", "1")
    for printed in both(TOPICS, "--bootstrap-server", "{bootstrap}", "--create", "--topic", topic, check=False):
        assert re.match(rf"Error while .*'{topic}' already exists", printed)
    topics(both, "--create", "--topic", topic, "--if-not-exists")


def test_topic_configs(both: Both, topic: str):
    topics(both, "--create", "--topic", topic, "--partitions", "1")
    entity = ["--entity-type", "topics", "--entity-name", topic]
    configs(both, *entity, "--alter", "--add-config", "retention.ms=5000,cleanup.policy=[compact,delete]")
    described = configs(both, *entity, "--describe")
    assert "retention.ms=5000" in described
    configs(both, *entity, "--alter", "--delete-config", "retention.ms")
    assert "retention.ms" not in configs(both, *entity, "--describe")


def test_all_topic_configs_with_their_synonyms(both: Both, topic: str):
    """Every name, value, sensitivity and synonym of a topic's configuration equals Kafka's."""
    topics(both, "--create", "--topic", topic, "--partitions", "1")
    own, kafkas = both(
        CONFIGS, "--bootstrap-server", "{bootstrap}", "--entity-type", "topics", "--entity-name", topic,
        "--describe", "--all",
    )  # fmt: skip
    assert sorted(own.splitlines()) == sorted(kafkas.splitlines())


def test_dynamic_broker_configs(both: Both):
    for entity in (["--entity-name", "1"], ["--entity-default"]):
        broker = ["--entity-type", "brokers", *entity]
        configs(both, *broker, "--alter", "--add-config", "log.segment.delete.delay.ms=61000")
        assert "log.segment.delete.delay.ms=61000" in configs(both, *broker, "--describe")
        configs(both, *broker, "--alter", "--delete-config", "log.segment.delete.delay.ms")
        assert "61000" not in configs(both, *broker, "--describe")


@pytest.mark.parametrize(
    "change", ["retention.ms=soon", "no.such.config=1", "min.insync.replicas=0", "compression.type=rar"]
)
def test_what_kafka_configs_refuses(both: Both, topic: str, change: str):
    topics(both, "--create", "--topic", topic, "--partitions", "1")
    own, kafkas = both(
        CONFIGS, "--bootstrap-server", "{bootstrap}", "--entity-type", "topics", "--entity-name", topic,
        "--alter", "--add-config", change, check=False,
    )  # fmt: skip
    named = re.compile(r"[A-Z]\w+Exception")
    assert set(named.findall(own)) == set(named.findall(kafkas)) != set()


def test_delete_records(both: Both, topic: str, tmp_path: Path):
    topics(both, "--create", "--topic", topic, "--partitions", "1")
    lines = "".join(f"{number}\n" for number in range(20))
    same(both, PRODUCER, "--bootstrap-server", "{bootstrap}", "--topic", topic, text=lines)
    wanted = {"version": 1, "partitions": [{"topic": topic, "partition": 0, "offset": 8}]}
    file = tmp_path / "records.json"
    file.write_text(json.dumps(wanted))
    printed = same(both, DELETE_RECORDS, "--bootstrap-server", "{bootstrap}", "--offset-json-file", str(file))
    assert "low_watermark: 8" in printed
    asked = ["--bootstrap-server", "{bootstrap}", "--topic", topic, "--time"]
    assert same(both, OFFSETS, *asked, "earliest").strip() == f"{topic}:0:8"
    assert same(both, OFFSETS, *asked, "latest").strip() == f"{topic}:0:20"

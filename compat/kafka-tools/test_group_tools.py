"""Classic groups through Kafka's Java consumer and tools, and `__consumer_offsets` as Kafka's formatters read it."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable, Iterator
from typing import Any

import group_wire
import pytest
from apache_kafka import ApacheKafka, run_tool
from broker_process import BrokerProcess, wait_until
from wire import Wire, create_topic, fetch, leaders

from barnabas.server.coordinators.coordinator import java_hash

PRODUCER = "org.apache.kafka.tools.ConsoleProducer"
CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"
OFFSETS_FORMATTER = "org.apache.kafka.tools.consumer.OffsetsMessageFormatter"
GROUPS_FORMATTER = "org.apache.kafka.tools.consumer.GroupMetadataMessageFormatter"
GROUPS = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
PERFORMANCE = "org.apache.kafka.tools.ConsumerPerformance"
VERIFIABLE = "org.apache.kafka.tools.VerifiableConsumer"
TOPICS = "org.apache.kafka.tools.TopicCommand"
OFFSETS_PARTITIONS = 50
Both = Callable[..., tuple[str, str]]
_numbers = itertools.count(1)
pytestmark = [pytest.mark.java, pytest.mark.timeout(300)]
# What no two brokers can have in common: moments, ids of topics, the random half of member ids.
VARIABLE_FIELDS = {"commitTimestamp", "currentStateTimestamp", "expireTimestamp", "topicId"}
RANDOM = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")


@pytest.fixture
def topic(both: Both) -> str:
    name = f"classic-{next(_numbers)}"
    both(TOPICS, "--bootstrap-server", "{bootstrap}", "--create", "--topic", name, "--partitions", "1")
    both(PRODUCER, "--bootstrap-server", "{bootstrap}", "--topic", name, text="one\ntwo\nthree\n")
    return name


def play(broker: BrokerProcess | ApacheKafka, group: str, topic: str) -> None:
    """The life of a group: members of both kinds, offsets with and without everything, tombstones."""
    with Wire(broker.address) as wire:
        create_topic(wire, topic, partitions=2)
        wait_until(lambda: leaders(wire, topic), f"{topic} is known")
        group_wire.await_coordinator(wire, group)
        protocols = (("range", group_wire.subscription(topic)), ("sticky", b"\x00\x01"))
        joined = group_wire.join(wire, group, instance="instance", protocols=protocols)
        member, generation = joined.member_id, joined.generation_id
        group_wire.sync(wire, group, member, generation, {member: b"\x00\x01assignment"})
        who = {"member": member, "generation": generation}
        group_wire.commit(wire, group, {(topic, 0): 42}, metadata="a note", leader_epoch=7, **who)
        group_wire.commit(wire, group, {(topic, 1): 5}, retention_ms=1_000, version=4, **who)
        group_wire.commit(wire, group, {(topic, 1): 6}, **who)
        group_wire.leave(wire, group, ("", "instance"))
        group_wire.delete_offsets(wire, group, {topic: [1]})
        group_wire.delete_group(wire, group)


def read(broker: BrokerProcess | ApacheKafka, formatter: str, group: str) -> list[Any]:
    """The records of a group, as the formatter tells them."""
    partition = java_hash(group) % OFFSETS_PARTITIONS
    with Wire(broker.address) as wire:
        count = fetch(wire, "__consumer_offsets", {partition: 0})[partition].high_watermark
    printed = run_tool(
        CONSUMER,
        *("--bootstrap-server", broker.address, "--topic", "__consumer_offsets", "--partition", str(partition)),
        *("--offset", "earliest", "--max-messages", str(count), "--timeout-ms", "60000", "--formatter", formatter),
    )
    return [neutral(each) for each in documents(printed) if each["key"]["data"]["group"] == group]


def documents(text: str) -> Iterator[Any]:
    """The formatters write one after the other, with nothing between them."""
    position = text.find("{")
    while position >= 0:
        document, end = json.JSONDecoder().raw_decode(text, position)
        yield document
        position = text.find("{", end)


def neutral(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: neutral(each) for name, each in value.items() if name not in VARIABLE_FIELDS}
    if isinstance(value, list):
        return [neutral(each) for each in value]
    return RANDOM.sub("ID", value) if isinstance(value, str) else value


@pytest.mark.parametrize("formatter", [OFFSETS_FORMATTER, GROUPS_FORMATTER], ids=["offsets", "groups"])
def test_formatters_read_the_same(barnabas: BrokerProcess, kafka: ApacheKafka, formatter: str) -> None:
    group = f"formatted-{formatter.rpartition('.')[2]}"
    for broker in (barnabas, kafka):
        play(broker, group, f"{group}-topic")
    own, kafkas = (read(broker, formatter, group) for broker in (barnabas, kafka))
    assert own == kafkas
    assert len(own) >= 3


def test_groups_command(both: Both, topic: str) -> None:
    group = f"command-{topic}"
    consume = ["--topic", topic, "--group", group, "--from-beginning", "--max-messages", "3", "--timeout-ms", "60000"]
    own, kafkas = both(CONSUMER, "--bootstrap-server", "{bootstrap}", *consume)
    assert sorted(own.splitlines()) == sorted(kafkas.splitlines())
    where = ["--bootstrap-server", "{bootstrap}", "--group", group]
    reset = ["--reset-offsets", "--all-topics", "--execute"]
    for arguments in (
        ["--describe"],
        [*reset, "--to-earliest"],
        ["--delete-offsets", "--topic", f"{topic}:0"],
        ["--describe", "--offsets"],
        ["--delete"],
    ):
        own, kafkas = both(GROUPS, *where, *arguments, check=False)
        assert words(own) == words(kafkas)


def words(text: str) -> list[list[str]]:
    """Lines in any order, whatever the spaces; without the address, whose length differs."""
    return sorted(
        [word for word in line.split() if "ADDRESS" not in word and "127.0.0.1" not in word]
        for line in text.splitlines()
    )


def test_consumer_performance(both: Both, topic: str) -> None:
    arguments = ["--bootstrap-server", "{bootstrap}", "--topic", topic, "--messages", "3", "--timeout", "20000"]
    own, kafkas = both(PERFORMANCE, *arguments, "--group", f"performance-{topic}")
    assert counted(own) == counted(kafkas) == "3"


def counted(text: str) -> str:
    """The column of messages consumed."""
    return text.splitlines()[-1].split(", ")[4]


@pytest.mark.parametrize("strategy", ["RangeAssignor", "CooperativeStickyAssignor"])
def test_verifiable_consumer(barnabas: BrokerProcess, kafka: ApacheKafka, topic: str, strategy: str) -> None:
    """It says what it was given, read and committed."""
    events = []
    for broker in (barnabas, kafka):
        printed = run_tool(
            VERIFIABLE,
            *("--bootstrap-server", broker.address, "--topic", topic, "--group-id", f"verifiable-{strategy}-{topic}"),
            *("--max-messages", "3", "--reset-policy", "earliest"),
            *("--assignment-strategy", f"org.apache.kafka.clients.consumer.{strategy}"),
        )
        events.append([json.loads(line) for line in printed.splitlines() if line.startswith("{")])
    for found in events:
        given = next(event["partitions"] for event in found if event["name"] == "partitions_assigned")
        assert [each["partition"] for each in given] == [0]
        assert sum(event["count"] for event in found if event["name"] == "records_consumed") == 3
        assert all(event["success"] for event in found if event["name"] == "offsets_committed")

"""The newer group protocol (KIP-848) through Kafka's Java consumer and tools, and its records as Kafka reads them."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import group_wire
import pytest
from apache_kafka import ApacheKafka, run_tool
from broker_process import BrokerProcess, wait_until
from live_consumer_script import differences
from wire import Wire, create_topic, leaders

from barnabas.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, RequestTopicPartitions
from barnabas.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from barnabas.server.coordinators.coordinator import java_hash

PRODUCER = "org.apache.kafka.tools.ConsoleProducer"
CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"
GROUPS = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
TOPICS = "org.apache.kafka.tools.TopicCommand"
CONFIGS = "kafka.admin.ConfigCommand"
DUMP = "org.apache.kafka.tools.DumpLogSegments"
METADATA_VERSION = 12
OFFSETS_PARTITIONS = 50
PLAYS_MAX = 20  # what falls one way or the other falls as written in one of them
Both = Callable[..., tuple[str, str]]
_numbers = itertools.count(1)
pytestmark = [pytest.mark.java, pytest.mark.timeout(300)]


@pytest.fixture
def topic(both: Both) -> str:
    name = f"newer-{next(_numbers)}"
    both(TOPICS, "--bootstrap-server", "{bootstrap}", "--create", "--topic", name, "--partitions", "1")
    return name


def consume(both: Both, topic: str, group: str, protocol: str, count: int) -> str:
    own, kafkas = both(
        CONSUMER,
        *("--bootstrap-server", "{bootstrap}", "--topic", topic, "--group", group, "--from-beginning"),
        *("--command-property", f"group.protocol={protocol}", "--max-messages", str(count), "--timeout-ms", "60000"),
    )
    assert own == kafkas
    return "".join(line for line in own.splitlines(keepends=True) if "group.protocol=consumer" not in line)  # an advert


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_console_consumer_goes_on_where_it_stopped(both: Both, topic: str, protocol: str):
    group = f"console-{protocol}-{topic}"
    for part in range(2):
        lines = "".join(f"line {part} {number}\n" for number in range(20))
        both(PRODUCER, "--bootstrap-server", "{bootstrap}", "--topic", topic, text=lines)
        assert consume(both, topic, group, protocol, 20) == lines + "Processed a total of 20 messages\n"
    for arguments in (
        ["--describe"],
        ["--describe", "--state"],
        ["--describe", "--members"],
        ["--describe", "--offsets"],
    ):
        own, kafkas = both(GROUPS, "--bootstrap-server", "{bootstrap}", "--group", group, *arguments)
        assert columns(own) == columns(kafkas)
    own, kafkas = both(GROUPS, "--bootstrap-server", "{bootstrap}", "--group", group, "--delete")
    assert own == kafkas


def test_a_group_is_consumed_by_one_protocol_after_the_other(both: Both, topic: str):
    group = f"changes-{topic}"
    for part, protocol in enumerate(["classic", "consumer", "classic"]):
        both(PRODUCER, "--bootstrap-server", "{bootstrap}", "--topic", topic, text=f"part {part}\n")
        assert consume(both, topic, group, protocol, 1).startswith(f"part {part}\n")


def columns(text: str) -> list[list[str]]:
    """The words of each line, whatever the spaces between them; without the address, whose length differs."""
    return [
        [word for word in line.split() if "ADDRESS" not in word and "127.0.0.1" not in word]
        for line in text.splitlines()
    ]


def test_settings_of_a_group(both: Both, topic: str):
    where = ["--bootstrap-server", "{bootstrap}", "--entity-type", "groups", "--entity-name", f"set-{topic}"]
    own, kafkas = both(CONFIGS, *where, "--alter", "--add-config", "consumer.heartbeat.interval.ms=6000")
    assert own == kafkas
    own, kafkas = both(CONFIGS, *where, "--describe")
    assert "consumer.heartbeat.interval.ms=6000" in own
    shown = [line for line in kafkas.splitlines() if "share." not in line and "streams." not in line]
    assert own.splitlines() == shown


class Member:
    """A member of the newer protocol, with an id that it chose itself."""

    def __init__(self, wire: Wire, group: str, topic: str, topic_id: bytes, member_id: str) -> None:
        self.wire, self.group, self.topic, self.topic_id, self.member_id = wire, group, topic, topic_id, member_id
        self.epoch = 0
        self.owned: list[int] = []

    def beat(self, *, instance_id: str | None = None, tells: bool = False, **fields: Any) -> None:
        joins = self.epoch == 0
        owned = [RequestTopicPartitions(topic_id=self.topic_id, partitions=self.owned)] if self.owned else []
        request = ConsumerGroupHeartbeatRequest(
            group_id=self.group,
            member_id=self.member_id,
            member_epoch=self.epoch,
            instance_id=instance_id,
            rebalance_timeout_ms=60_000 if joins else -1,
            subscribed_topic_names=[self.topic] if joins else None,
            topic_partitions=owned if joins or tells else None,
        )
        for name, value in fields.items():
            setattr(request, name, value)
        response = self.wire.call(request, 1)
        assert response.error_code == 0, response
        self.epoch = max(response.member_epoch, 0)
        if response.assignment is not None:
            self.owned = [each for topic in response.assignment.topic_partitions for each in topic.partitions]


def wait_for_shard(wire: Wire, group: str, topic: str, topic_id: bytes) -> None:
    """Until the shard of a group knows a new topic: Kafka's hear of it some time after clients do."""
    others = (f"scout-{number}" for number in itertools.count())
    scouts = next(name for name in others if shard_of(name) == shard_of(group))
    scout = Member(wire, scouts, topic, topic_id, f"scout-{topic}")

    def is_assigned() -> bool:
        scout.beat()
        return bool(scout.owned)

    wait_until(is_assigned, f"the shard of {group} knows {topic}")
    scout.beat(member_epoch=-1)


def shard_of(group: str) -> int:
    return java_hash(group) % OFFSETS_PARTITIONS


def play(broker: BrokerProcess | ApacheKafka, group: str, topic: str) -> None:
    """The life of a group: every kind of record that a consumer group has."""
    with Wire(broker.address) as wire:
        create_topic(wire, topic, partitions=6)
        wait_until(lambda: leaders(wire, topic), f"{topic} is known")
        request = MetadataRequest(topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False)
        topic_id = wire.call(request, METADATA_VERSION).topics[0].topic_id
        group_wire.await_coordinator(wire, group)
        wait_for_shard(wire, group, topic, topic_id)
        first = Member(wire, group, topic, topic_id, "first")
        second = Member(wire, group, topic, topic_id, "second")
        first.beat(rack_id="rack")
        second.beat(instance_id="instance", server_assignor="uniform")
        first.beat()
        first.beat(tells=True)
        second.beat(instance_id="instance")
        metadata = group_wire.subscription(topic)
        protocols = [JoinGroupRequestProtocol(name="range", metadata=metadata)]
        joined = JoinGroupRequest(
            group_id=group,
            member_id="third",
            session_timeout_ms=10_000,
            rebalance_timeout_ms=60_000,
            protocol_type="consumer",
            protocols=protocols,
        )
        assert wire.call(joined, 9).error_code == 0
        second.beat(instance_id="instance", member_epoch=-2)
        first.beat(member_epoch=-1)


def dumped(broker: BrokerProcess | ApacheKafka, group: str) -> list[Any]:
    """Keys and values of a group as Kafka's own decoder of `__consumer_offsets` gives them."""
    log = broker.node_directory / f"__consumer_offsets-{shard_of(group)}" / "00000000000000000000.log"
    text = run_tool(DUMP, "--files", str(log), "--offsets-decoder", "--print-data-log")
    found = re.findall(r"key: (\{.*?\}) payload: (\{.*\}|null|<DELETE>)", text)
    pairs = [(json.loads(key), None if value in ("null", "<DELETE>") else json.loads(value)) for key, value in found]
    return [(key, value) for key, value in pairs if key["data"].get("groupId", key["data"].get("group")) == group]


def without_chance(record: Any) -> Any:
    """Without what must differ: ids of topics, hashes of them, moments, addresses."""
    if isinstance(record, dict):
        left = ("topicId", "metadataHash", "assignmentTimestamp", "clientHost")
        return {name: without_chance(value) for name, value in record.items() if name not in left}
    if isinstance(record, list | tuple):
        return [without_chance(each) for each in record]
    return record


def test_records_are_those_of_kafka(barnabas: BrokerProcess, kafka: ApacheKafka):
    group, topic = f"records-{next(_numbers)}", f"recorded-{next(_numbers)}"
    records = []
    for broker in (barnabas, kafka):
        configs = ["--entity-type", "groups", "--entity-name", group, "--alter"]
        run_tool(
            CONFIGS,
            *("--bootstrap-server", broker.address, *configs, "--add-config", "consumer.assignment.interval.ms=0"),
        )
        play(broker, group, topic)
        records.append(dumped(broker, group))
    own, kafkas = records
    assert len(own) > 15
    assert sorted(map(repr, without_chance(own))) == sorted(map(repr, without_chance(kafkas)))
    assert [key for key, _value in own if key["type"] == "3"] == [key for key, _value in kafkas if key["type"] == "3"]
    types = {key["type"] for key, _value in own}
    assert types == {"3", "5", "6", "7", "8"}


@pytest.mark.parametrize(
    "name", ["join", "fenced", "bad_requests", "offsets", "upgrade", "upgrade_during_rebalance", "downgrade_static"]
)
def test_the_dialogues_are_those_of_kafka(barnabas: BrokerProcess, kafka: ApacheKafka, name: str):
    """Request by request over the wire. Time tells whether an answer waits: this needs a calm machine."""
    script = Path(__file__).resolve().parents[2] / "tests" / "scripts" / "consumer_groups" / f"{name}.txt"
    text = script.read_text(encoding="utf-8")
    assert differences(text, barnabas.address) == []
    # In Kafka it is the order of random ids that decides who leads a group which became a classic one again.
    for _ in range(PLAYS_MAX):
        found = differences(text, kafka.address)
        if not found:
            break
    assert found == []

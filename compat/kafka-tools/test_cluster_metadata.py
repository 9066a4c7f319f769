"""The metadata log before the eyes of Apache Kafka: its dump tool, its quorum tool, and Kafka itself as successor."""

from __future__ import annotations

import json
from itertools import groupby
from pathlib import Path

import apache_kafka
import pytest
from apache_kafka import ApacheKafka, run_tool
from broker_process import BrokerProcess, wait_until
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    ResourceType,
)

from barnabas.protocol.metadata_records import decode_record
from barnabas.protocol.record_batch import decode_records, read_header

WHY_NOT = apache_kafka.why_unavailable()
pytestmark = [
    pytest.mark.java,
    pytest.mark.skipif(WHY_NOT is not None, reason=str(WHY_NOT)),
    pytest.mark.timeout(300),
]


@pytest.fixture(scope="module", autouse=True)
def jars() -> None:
    apache_kafka.fetch_jars()


def admin(broker: BrokerProcess | ApacheKafka) -> AdminClient:
    return AdminClient({"bootstrap.servers": broker.address})


def work(broker: BrokerProcess) -> None:
    """Something of every kind that reaches the metadata log."""
    client = admin(broker)
    new = [NewTopic("orders", 3, 1, config={"retention.ms": "100000"}), NewTopic("bills", 1, 1), NewTopic("gone", 2, 1)]
    for future in client.create_topics(new).values():
        future.result()
    for future in client.create_partitions([NewPartitions("bills", 4)]).values():
        future.result()
    for future in client.delete_topics(["gone"]).values():
        future.result()
    for kind, name in ((ResourceType.TOPIC, "orders"), (ResourceType.BROKER, "1")):
        entry = ConfigEntry("compression.type", "lz4", incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(kind, name, incremental_configs=[entry])
        for future in client.incremental_alter_configs([resource]).values():
            future.result()
    produce(broker, 10)


def produce(broker: BrokerProcess | ApacheKafka, count: int) -> None:
    producer = Producer({"bootstrap.servers": broker.address, "enable.idempotence": True})
    for number in range(count):
        producer.produce("orders", f"{number}".encode(), partition=0)
    assert producer.flush(30) == 0


def consume(broker: BrokerProcess | ApacheKafka) -> int:
    """How many records orders-0 has."""
    consumer = Consumer({"bootstrap.servers": broker.address, "group.id": "none", "enable.partition.eof": True})
    consumer.assign([TopicPartition("orders", 0, 0)])
    count = 0
    while True:
        message = consumer.poll(30)
        assert message is not None, "nothing more comes, not even the end"
        if message.error():
            consumer.close()
            return count
        count += 1


def metadata_log(broker: BrokerProcess) -> Path:
    return broker.node_directory / "__cluster_metadata-0" / "00000000000000000000.log"


def own_reading(path: Path) -> list[str]:
    view, position, names = memoryview(path.read_bytes()), 0, []
    while position < len(view):
        header = read_header(view, position)
        if not header.is_control:
            records = decode_records(view, position)
            names += [type(decode_record(record.value or b"")).__name__ for record in records]
        position += header.size_bytes
    return names


def test_the_dump_tool_reads_every_record(tmp_path: Path) -> None:
    broker = BrokerProcess(data=tmp_path)
    with broker:
        work(broker)
        broker.restart()
        produce(broker, 1)
        broker.kill()
        broker.start()
    log = metadata_log(broker)
    dump = run_tool(
        "org.apache.kafka.tools.DumpLogSegments", "--cluster-metadata-decoder", "--deep-iteration", "--files", str(log)
    )
    lines = dump.splitlines()
    assert not [line for line in lines if "isvalid: false" in line or "xception" in line or "Error" in line]
    payloads = [json.loads(line.partition("payload: ")[2]) for line in lines if "payload: " in line]
    decoded = ["".join(word.capitalize() for word in payload["type"].split("_")) for payload in payloads]
    assert decoded == own_reading(log)
    assert sum("LeaderChange: " in line for line in lines) == 3
    assert {"TopicRecord", "PartitionRecord", "ConfigRecord", "RemoveTopicRecord", "ProducerIdsRecord"} <= set(decoded)
    topic = next(payload["data"] for payload in payloads if payload["data"].get("name") == "orders")
    assert len(topic["topicId"]) == 22


# Many snapshots, of which one is kept; and a segment for each batch, so that the log is cut behind it.
SNAPSHOTS = {
    "metadata.log.max.record.bytes.between.snapshots": 1000,
    "metadata.max.retention.bytes": 0,
    "metadata.log.segment.ms": 1,
}


def snapshot_of(broker: BrokerProcess) -> Path:
    """The only one, as soon as the log begins with it."""

    def found() -> list[Path]:
        directory = broker.node_directory / "__cluster_metadata-0"
        return [] if metadata_log(broker).exists() else sorted(directory.glob("*.checkpoint"))

    return wait_until(lambda: len(found()) == 1 and found(), "a snapshot takes the place of the log")[0]


def test_the_dump_tool_reads_a_snapshot(tmp_path: Path) -> None:
    broker = BrokerProcess(data=tmp_path, config=SNAPSHOTS)
    with broker:
        work(broker)
        snapshot_of(broker)
    [*_, path] = sorted((broker.node_directory / "__cluster_metadata-0").glob("*.checkpoint"))
    lines = run_tool(
        "org.apache.kafka.tools.DumpLogSegments", "--cluster-metadata-decoder", "--files", str(path)
    ).splitlines()
    end_offset, epoch = (int(part) for part in path.stem.split("-"))
    assert lines[1] == f"Snapshot end offset: {end_offset}, epoch: {epoch}"
    assert not [line for line in lines if "isvalid: false" in line or "xception" in line or "Error" in line]
    assert "SnapshotHeader" in lines[3]
    assert "SnapshotFooter" in lines[-1]
    payloads = [json.loads(line.partition("payload: ")[2]) for line in lines if "payload: " in line]
    decoded = ["".join(word.capitalize() for word in payload["type"].split("_")) for payload in payloads]
    assert decoded == own_reading(path)
    assert payloads[0]["data"]["name"] == "metadata.version"
    kinds = [name for name, _ in groupby(decoded) if name not in ("TopicRecord", "PartitionRecord")]
    features_first = ["FeatureLevelRecord", "RegisterBrokerRecord", "RegisterControllerRecord", "ConfigRecord"]
    assert kinds[:4] == features_first, "the order in which Kafka writes them"


def test_the_quorum_tool_describes_it(tmp_path: Path) -> None:
    with BrokerProcess(data=tmp_path) as broker:
        tool = ("org.apache.kafka.tools.MetadataQuorumCommand", "--bootstrap-server", broker.address, "describe")
        status = dict(line.split(":", 1) for line in run_tool(*tool, "--status").splitlines() if ":" in line)
        assert status["LeaderId"].strip() == "1"
        assert status["LeaderEpoch"].strip() == "1"
        assert int(status["HighWatermark"]) > 10
        assert status["MaxFollowerLag"].strip() == "0"
        replication = run_tool(*tool, "--replication").splitlines()
        row = next(line.split() for line in replication if line.startswith("1"))
        assert row[-1] == "Leader"


@pytest.mark.parametrize("config", [{}, SNAPSHOTS], ids=["log", "snapshot"])
def test_kafka_takes_over_the_directory_and_gives_it_back(tmp_path: Path, config: dict[str, int]) -> None:
    broker = BrokerProcess(data=tmp_path, config=config)
    with broker:
        work(broker)
        before = partitions(broker)
        if config:
            snapshot_of(broker)
    kafka = ApacheKafka(tmp_path / "kafka")
    kafka.directory.mkdir()
    settings = {
        "process.roles": "broker,controller",
        "node.id": 1,
        "controller.quorum.voters": "1@127.0.0.1:{controller}",
        "listeners": "PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}",
        "controller.listener.names": "CONTROLLER",
        "log.dirs": broker.node_directory,
        "offsets.topic.replication.factor": 1,
        "broker.session.timeout.ms": 1000,  # it waits for the session of its predecessor to end
        "broker.heartbeat.interval.ms": 200,
        **{name: value for name, value in config.items() if name == "metadata.log.max.record.bytes.between.snapshots"},
    }
    lines = "".join(f"{name}={value}\n" for name, value in settings.items())
    filled = lines.format(port=kafka.port, controller=apache_kafka.free_port())
    (kafka.directory / "server.properties").write_text(filled)
    with kafka:
        wait_until(lambda: partitions(kafka) == before, "Kafka finds the topics that Barnabas left", 60)
        assert consume(kafka) == 10
        produce(kafka, 5)
        client = admin(kafka)
        for future in client.create_topics([NewTopic("made-by-kafka", 2, 1)]).values():
            future.result()
    with broker:
        assert partitions(broker) == {**before, "made-by-kafka": 2}
        assert consume(broker) == 15


def partitions(broker: BrokerProcess | ApacheKafka) -> dict[str, int]:
    topics = admin(broker).list_topics(timeout=30).topics
    return {name: len(topic.partitions) for name, topic in topics.items() if not name.startswith("__")}

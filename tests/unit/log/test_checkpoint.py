"""The small files of a data directory, against those that Kafka wrote."""

import json
from pathlib import Path

import pytest

from barnabas.log import checkpoint
from barnabas.log.checkpoint import CheckpointError, MetaProperties, QuorumState
from barnabas.types import ZERO_UUID, TopicPartition, uuid_from_text, uuid_text

KAFKA = Path(__file__).parents[2] / "data" / "kafka-4.3.1"


# Offsets


@pytest.mark.parametrize("name", ["recovery-point-offset-checkpoint", "log-start-offset-checkpoint"])
def test_offsets_are_kafkas_bytes(name: str) -> None:
    data = (KAFKA / name).read_bytes()
    offsets = checkpoint.decode_offsets(data, name)
    assert checkpoint.encode_offsets(offsets) == data


def test_offsets_mean_what_kafka_means() -> None:
    offsets = checkpoint.decode_offsets((KAFKA / "recovery-point-offset-checkpoint").read_bytes(), "x")
    assert len(offsets) == 61
    assert offsets[TopicPartition("idempotent", 0)] == 21
    assert offsets[TopicPartition("transactions", 0)] == 14


def test_no_offsets() -> None:
    assert checkpoint.encode_offsets({}) == b"0\n0\n"
    assert checkpoint.decode_offsets(b"0\n0\n", "x") == {}
    assert checkpoint.decode_offsets(b"0\n", "x") == {}
    assert checkpoint.decode_offsets(b"", "x") == {}


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"1\n0\n", "f: line 1: version '1' instead of 0"),
        (b"\n0\n", "f: line 1: version '' instead of 0"),
        (b"0\nmany\n", "f: line 2: 'many' is not a number of entries"),
        (b"0\n-1\n", "f: line 2: '-1' is not a number of entries"),
        (b"0\n2\na 0 5\n", "f: line 2: 2 entries are announced, 1 follow"),
        (b"0\n1\na 0 5\nb 0 5\n", "f: line 2: 1 entries are announced, 2 follow"),
        (b"0\n1\na 0\n", "f: line 3: 'a 0' is not a topic, a partition and an offset"),
        (b"0\n2\na 0 5\na 1 five\n", "f: line 4: 'a 1 five' is not a topic, a partition and an offset"),
        (b"0\n1\na b 5\n", "f: line 3: 'a b 5' is not a topic, a partition and an offset"),
        (b"\xff\n", "f: not UTF-8 text"),
    ],
)
def test_broken_offsets_are_named(data: bytes, message: str) -> None:
    with pytest.raises(CheckpointError) as caught:
        checkpoint.decode_offsets(data, "f")
    assert str(caught.value) == message


# partition.metadata


def test_partition_metadata_is_kafkas_bytes() -> None:
    data = (KAFKA / "idempotent-0" / "partition.metadata").read_bytes()
    topic_id = checkpoint.decode_partition_metadata(data)
    assert uuid_text(topic_id).encode() in data
    assert checkpoint.encode_partition_metadata(topic_id) == data


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"version: 0",
        b"topic_id: AAAAAAAAAAAAAAAAAAAAAQ",
        b"version: x\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ",
        b"version: 0\ntopic_id: AAAA",
        b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAA",
    ],
)
def test_broken_partition_metadata_is_refused(data: bytes) -> None:
    with pytest.raises(CheckpointError):
        checkpoint.decode_partition_metadata(data)


# meta.properties


def test_meta_properties_of_kafka_are_read() -> None:
    data = (KAFKA / "meta.properties").read_bytes()
    properties = checkpoint.decode_meta_properties(data)
    assert properties.node_id == 1
    assert f"cluster.id={properties.cluster_id}".encode() in data
    assert f"directory.id={uuid_text(properties.directory_id)}".encode() in data
    again = checkpoint.encode_meta_properties(properties)
    assert sorted(again.splitlines()) == sorted(line for line in data.splitlines() if not line.startswith(b"#"))


def test_meta_properties_round_trip_any_cluster_id() -> None:
    for cluster_id in ("P-Z7KqsqQo-aDofNuXGX2Q", " blank", "a=b:c#d!e\\", "täglich\t\n", "𝄞"):
        properties = MetaProperties(cluster_id, 7, uuid_from_text("AAAAAAAAAAAAAAAAAAAAAQ"))
        decoded = checkpoint.decode_meta_properties(checkpoint.encode_meta_properties(properties))
        assert decoded.cluster_id.encode("utf-16", "surrogatepass").decode("utf-16") == cluster_id
        assert decoded[1:] == properties[1:]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "m: version is missing"),
        (b"version=0\n", "m: line 1: version '0' instead of 1"),
        (b"version=1\n", "m: node.id is missing"),
        (b"#\nversion=1\nnode.id=one\n", "m: line 3: node.id is 'one', not a number"),
        (b"version=1\nnode.id=1\n", "m: directory.id is missing"),
        (b"version=1\nnode.id=1\ndirectory.id=xx\ncluster.id=c\n", "m: line 3: 'xx' is not a UUID"),
        (b"version=1\nnode.id=1\ndirectory.id=AAAAAAAAAAAAAAAAAAAAAQ\n", "m: cluster.id is missing"),
        (b"version=\\u00zz\n", "m: line 1: \\u00zz is not a character"),
    ],
)
def test_broken_meta_properties_are_named(data: bytes, message: str) -> None:
    with pytest.raises(CheckpointError) as caught:
        checkpoint.decode_meta_properties(data, "m")
    assert str(caught.value) == message


def test_properties_are_read_as_java_reads_them() -> None:
    text = (
        b"# comment\n! another\r\n\n"
        b"a=1\n"
        b"  b : two words  \n"
        b"c three\r"
        b"d=x\\\n   y\\\\\n"
        b"e\\ f\\=g=\\u0041\\t\\q\n"
        b"empty\n"
        b"a=2\n"
        b"last=\\"
    )
    assert checkpoint.decode_properties(text, "p") == {
        "a": ("2", 11),
        "b": ("two words  ", 5),
        "c": ("three", 6),
        "d": ("xy\\", 7),
        "e f=g": ("A\tq", 9),
        "empty": ("", 10),
        "last": ("", 12),
    }


# .kafka_cleanshutdown


def test_clean_shutdown_is_kafkas_bytes() -> None:
    data = (KAFKA / "kafka_cleanshutdown").read_bytes()
    assert checkpoint.decode_clean_shutdown(data) == 12
    assert checkpoint.encode_clean_shutdown(12) == data


@pytest.mark.parametrize("data", [b"", b"\xff", b"[]", b"{}", b'{"brokerEpoch":"x"}'])
def test_an_older_clean_shutdown_has_no_epoch(data: bytes) -> None:
    assert checkpoint.decode_clean_shutdown(data) == -1


# quorum-state


def test_quorum_states_are_kafkas_bytes() -> None:
    static = (KAFKA / "quorum-state-0").read_bytes()
    assert checkpoint.decode_quorum_state(static) == QuorumState(1, 1, -1, ZERO_UUID, (1,), 0)
    dynamic = (KAFKA / "quorum-state-1").read_bytes()
    assert checkpoint.decode_quorum_state(dynamic) == QuorumState(leader_id=1, leader_epoch=1)
    for data in (static, dynamic):
        assert checkpoint.encode_quorum_state(checkpoint.decode_quorum_state(data)) == data


def test_a_vote_is_remembered() -> None:
    state = QuorumState(-1, 7, 3, uuid_from_text("AAAAAAAAAAAAAAAAAAAAAQ"))
    assert checkpoint.decode_quorum_state(checkpoint.encode_quorum_state(state)) == state


@pytest.mark.parametrize(
    "content",
    [
        [],
        {"leaderId": 1, "leaderEpoch": 1, "votedId": 1},
        {"leaderId": 1, "leaderEpoch": 1, "votedId": 1, "data_version": 2},
        {"leaderId": 1, "leaderEpoch": 1, "votedId": "x", "votedDirectoryId": "", "data_version": 1},
        {"leaderId": 1, "leaderEpoch": 1, "votedId": 1, "data_version": 1},
        {"leaderId": 1, "leaderEpoch": 1, "votedId": 1, "votedDirectoryId": 5, "data_version": 1},
        {"leaderId": True, "leaderEpoch": 1, "votedId": 1, "data_version": 0},
        {"leaderId": 1, "leaderEpoch": 1, "votedId": 1, "currentVoters": [1], "data_version": 0},
        {"leaderId": 1, "leaderEpoch": 1, "votedId": 1, "currentVoters": 1, "data_version": 0},
    ],
)
def test_broken_quorum_states_are_refused(content: object) -> None:
    with pytest.raises(CheckpointError, match="quorum-state: line 1"):
        checkpoint.decode_quorum_state(json.dumps(content).encode())


@pytest.mark.parametrize("data", [b"", b"{", b"\xff\xfe"])
def test_what_is_not_json_is_refused(data: bytes) -> None:
    with pytest.raises(CheckpointError, match="not JSON"):
        checkpoint.decode_quorum_state(data)

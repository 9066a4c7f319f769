"""The small files of a data directory, as bytes in Kafka's formats.

Owns the text of offset checkpoints (`recovery-point-offset-checkpoint`, `log-start-offset-checkpoint`,
`replication-offset-checkpoint`, `cleaner-offset-checkpoint`), `partition.metadata`, `meta.properties`,
`.kafka_cleanshutdown` and `quorum-state`.
Always holds: what encode wrote, Kafka 4.3 reads, and the other way round; what cannot be read raises CheckpointError
with file, line and problem. Does not know: the disk. Callers write these atomically.
"""

import json
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from barnabas.types import ZERO_UUID, Offset, TopicPartition, Uuid, uuid_from_text, uuid_text

RECOVERY_POINT_FILE_NAME = "recovery-point-offset-checkpoint"
LOG_START_OFFSET_FILE_NAME = "log-start-offset-checkpoint"
HIGH_WATERMARK_FILE_NAME = "replication-offset-checkpoint"
CLEANER_OFFSET_FILE_NAME = "cleaner-offset-checkpoint"
PARTITION_METADATA_FILE_NAME = "partition.metadata"
META_PROPERTIES_FILE_NAME = "meta.properties"
CLEAN_SHUTDOWN_FILE_NAME = ".kafka_cleanshutdown"
QUORUM_STATE_FILE_NAME = "quorum-state"

LINES_VERSION = 0
META_PROPERTIES_VERSION = 1
QUORUM_STATE_VERSIONS = (0, 1)


class CheckpointError(ValueError):
    """A file of the data directory that cannot be read. Line 0 means the file as a whole."""

    def __init__(self, path: str, line: int, problem: str) -> None:
        super().__init__(f"{path}: {f'line {line}: ' if line else ''}{problem}")
        self.path = path
        self.line = line
        self.problem = problem


def encode_lines(entries: Collection[str]) -> bytes:
    """Version, number of entries, entries; a line each."""
    return "".join(f"{line}\n" for line in (str(LINES_VERSION), str(len(entries)), *entries)).encode()


def decode_lines(data: bytes, path: str) -> list[tuple[int, str]]:
    """Line number and text of each entry. Kafka creates these files empty before it writes them: that is no entry."""
    lines = _lines(_text(data, path))
    if not lines:
        return []
    if lines[0] != str(LINES_VERSION):
        raise CheckpointError(path, 1, f"version {lines[0]!r} instead of {LINES_VERSION}")
    if len(lines) == 1:
        return []
    if not lines[1].isdecimal():
        raise CheckpointError(path, 2, f"{lines[1]!r} is not a number of entries")
    if int(lines[1]) != len(lines) - 2:
        raise CheckpointError(path, 2, f"{lines[1]} entries are announced, {len(lines) - 2} follow")
    return list(enumerate(lines[2:], start=3))


def encode_offsets(offsets: Mapping[TopicPartition, Offset]) -> bytes:
    return encode_lines([f"{topic} {partition} {offset}" for (topic, partition), offset in offsets.items()])


def decode_offsets(data: bytes, path: str) -> dict[TopicPartition, Offset]:
    offsets: dict[TopicPartition, Offset] = {}
    for number, line in decode_lines(data, path):
        fields = line.split()
        if len(fields) != 3 or not (fields[1].isdecimal() and fields[2].isdecimal()):
            raise CheckpointError(path, number, f"{line!r} is not a topic, a partition and an offset")
        offsets[TopicPartition(fields[0], int(fields[1]))] = int(fields[2])
    return offsets


def encode_partition_metadata(topic_id: Uuid) -> bytes:
    assert topic_id != ZERO_UUID
    return f"version: 0\ntopic_id: {uuid_text(topic_id)}".encode()


def decode_partition_metadata(data: bytes, path: str = PARTITION_METADATA_FILE_NAME) -> Uuid:
    """The id of the topic that this directory belongs to."""
    lines = _lines(_text(data, path))
    fields = dict(line.split(": ", 1) for line in lines if ": " in line)
    if not fields.get("version", "").strip().isdecimal():
        raise CheckpointError(path, 1, "no version here")
    topic_id = _uuid(fields.get("topic_id", "").strip(), path, 2)
    if topic_id == ZERO_UUID:
        raise CheckpointError(path, 2, "a topic id of zero")
    return topic_id


class MetaProperties(NamedTuple):
    """To which cluster, node and directory these files belong."""

    cluster_id: str
    node_id: int
    directory_id: Uuid


def encode_meta_properties(properties: MetaProperties) -> bytes:
    pairs = {
        "version": str(META_PROPERTIES_VERSION),
        "cluster.id": properties.cluster_id,
        "node.id": str(properties.node_id),
        "directory.id": uuid_text(properties.directory_id),
    }
    return "".join(f"{name}={_escaped(value)}\n" for name, value in pairs.items()).encode("latin-1")


def decode_meta_properties(data: bytes, path: str = META_PROPERTIES_FILE_NAME) -> MetaProperties:
    found = decode_properties(data, path)

    def required(name: str) -> tuple[str, int]:
        if name not in found:
            raise CheckpointError(path, 0, f"{name} is missing")
        return found[name]

    version, line = required("version")
    if version != str(META_PROPERTIES_VERSION):
        raise CheckpointError(path, line, f"version {version!r} instead of {META_PROPERTIES_VERSION}")
    node_id, line = required("node.id")
    if not node_id.isdecimal():
        raise CheckpointError(path, line, f"node.id is {node_id!r}, not a number")
    directory_id, line = required("directory.id")
    return MetaProperties(required("cluster.id")[0], int(node_id), _uuid(directory_id, path, line))


_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def decode_properties(data: bytes, path: str) -> dict[str, tuple[str, int]]:
    """A Java properties file: name to value and the line that it begins on. A later one wins."""
    found: dict[str, tuple[str, int]] = {}
    lines = iter(enumerate(_lines(data.decode("latin-1")), start=1))
    for number, line in lines:
        text = line.lstrip(" \t\f")
        if not text or text[0] in "#!":
            continue
        while (len(text) - len(text.rstrip("\\"))) % 2:
            _, more = next(lines, (0, ""))
            text = text[:-1] + more.lstrip(" \t\f")
        name, value = _split_property(text)
        found[_unescaped(name, path, number)] = (_unescaped(value, path, number), number)
    return found


def _split_property(text: str) -> tuple[str, str]:
    """The name ends at the first `=`, `:` or blank that no backslash protects."""
    position = 0
    while position < len(text) and text[position] not in "=: \t\f":
        position += 2 if text[position] == "\\" else 1
    rest = text[position:].lstrip(" \t\f")
    if rest[:1] in ("=", ":"):
        rest = rest[1:].lstrip(" \t\f")
    return text[:position], rest


def _unescaped(text: str, path: str, line: int) -> str:
    if "\\" not in text:
        return text
    parts = []
    position = 0
    while position < len(text):
        character = text[position]
        position += 1
        if character != "\\":
            parts.append(character)
            continue
        escaped = text[position : position + 1]
        position += 1
        if escaped == "u":
            digits = text[position : position + 4]
            position += 4
            if len(digits) != 4 or any(digit not in "0123456789abcdefABCDEF" for digit in digits):
                raise CheckpointError(path, line, f"\\u{digits} is not a character")
            parts.append(chr(int(digits, 16)))
        else:
            parts.append(_ESCAPES.get(escaped, escaped))
    return "".join(parts)


def _escaped(value: str) -> str:
    """As Java escapes a value: the characters that would end or begin something, and all beyond ASCII."""
    parts = []
    for index, character in enumerate(value):
        if character in "\\=:#!" or (character == " " and index == 0):
            parts.append("\\" + character)
        elif " " <= character <= "~":
            parts.append(character)
        else:
            units = character.encode("utf-16-be", "surrogatepass")
            parts.extend(f"\\u{units[at : at + 2].hex().upper()}" for at in range(0, len(units), 2))
    return "".join(parts)


def encode_clean_shutdown(broker_epoch: int) -> bytes:
    return _json({"version": 0, "brokerEpoch": broker_epoch})


def decode_clean_shutdown(data: bytes) -> int:
    """The broker's epoch when it stopped; -1 where the file does not say. That it is there at all says: cleanly."""
    try:
        content = json.loads(data)
    except ValueError:
        return -1
    epoch = content.get("brokerEpoch") if isinstance(content, dict) else None
    return epoch if isinstance(epoch, int) else -1


class QuorumState(NamedTuple):
    """What a voter must remember of elections. Version 0 has static voters, version 1 has them in the metadata log."""

    leader_id: int = -1
    leader_epoch: int = 0
    voted_id: int = -1
    voted_directory_id: Uuid = ZERO_UUID
    voters: tuple[int, ...] = ()
    version: int = 1


def encode_quorum_state(state: QuorumState) -> bytes:
    if state.version == 0:
        return _json(
            {
                "clusterId": "",
                "leaderId": state.leader_id,
                "leaderEpoch": state.leader_epoch,
                "votedId": state.voted_id,
                "appliedOffset": 0,
                "currentVoters": [{"voterId": voter} for voter in state.voters],
                "data_version": 0,
            }
        )
    assert state.version == 1
    return _json(
        {
            "leaderId": state.leader_id,
            "leaderEpoch": state.leader_epoch,
            "votedId": state.voted_id,
            "votedDirectoryId": uuid_text(state.voted_directory_id),
            "data_version": 1,
        }
    )


def decode_quorum_state(data: bytes, path: str = QUORUM_STATE_FILE_NAME) -> QuorumState:
    try:
        content = json.loads(data)
    except ValueError as problem:
        raise CheckpointError(path, 1, f"not JSON: {problem}") from None
    if not isinstance(content, dict):
        raise CheckpointError(path, 1, "not a JSON object")
    version = _number(content, "data_version", path)
    if version not in QUORUM_STATE_VERSIONS:
        raise CheckpointError(path, 1, f"data_version {version} is not among {QUORUM_STATE_VERSIONS}")
    leader_id, leader_epoch, voted_id = (
        _number(content, name, path) for name in ("leaderId", "leaderEpoch", "votedId")
    )
    if version == 1:
        voted_directory_id = _uuid(content.get("votedDirectoryId", ""), path, 1)
        return QuorumState(leader_id, leader_epoch, voted_id, voted_directory_id, (), 1)
    voters = content.get("currentVoters") or []
    if not isinstance(voters, list) or not all(isinstance(voter, dict) for voter in voters):
        raise CheckpointError(path, 1, "currentVoters is not a list of voters")
    voter_ids = tuple(_number(voter, "voterId", path) for voter in voters)
    return QuorumState(leader_id, leader_epoch, voted_id, ZERO_UUID, voter_ids, 0)


def _json(content: Mapping[str, Any]) -> bytes:
    return json.dumps(content, separators=(",", ":")).encode()


def _number(content: Mapping[str, Any], name: str, path: str) -> int:
    value = content.get(name)
    if not isinstance(value, int) or isinstance(value, bool):
        raise CheckpointError(path, 1, f"{name} is {value!r}, not a number")
    return value


def _text(data: bytes, path: str) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        raise CheckpointError(path, 0, "not UTF-8 text") from None


def _lines(text: str) -> list[str]:
    """As Java reads lines: `str.splitlines` would also split at characters that mean nothing to it."""
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    if not lines[-1]:
        lines.pop()
    return lines


def _uuid(text: Any, path: str, line: int) -> Uuid:
    try:
        return uuid_from_text(text)
    except (ValueError, TypeError):
        raise CheckpointError(path, line, f"{text!r} is not a UUID") from None

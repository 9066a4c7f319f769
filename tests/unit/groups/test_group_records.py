"""Records of `__consumer_offsets`. The bytes were written by Apache Kafka 4.3.1."""

import pytest

from barnabas.groups.records import GROUP_METADATA, OFFSET_COMMIT, GroupRecord, decode, encode
from barnabas.protocol.message import DecodeError
from barnabas.protocol.messages.group_metadata_key import GroupMetadataKey
from barnabas.protocol.messages.group_metadata_value import GroupMetadataValue
from barnabas.protocol.messages.offset_commit_key import OffsetCommitKey
from barnabas.protocol.messages.offset_commit_value import OffsetCommitValue

TOPIC_ID = bytes.fromhex("2b209e700a4e46caa6a6bf99d3e19d2f")
MEMBER_ID = "i1-cdfe2700-f594-49ec-b20b-cefb4ef64941"
KAFKA_OFFSET_KEY = "0001000664756d702d67000664756d702d7400000000"
KAFKA_OFFSET = "0004000000000000000500000003026d000001a1e0fcf1b80100102b209e700a4e46caa6a6bf99d3e19d2f"
KAFKA_OFFSET_WITH_EXPIRY = "000100000000000000050000000001a1e0fcf1b9000001a1e0fe7859"
KAFKA_GROUP_KEY = "0002000664756d702d67"
KAFKA_NEW_GROUP = "0003000000000000ffffffff000001a1e0fcf1b100000000"
KAFKA_GROUP = (
    "00030008636f6e73756d657200000001000572616e6765002769312d63646665323730302d663539342d343965632d623230622d63656662"
    "346566363439343100 0001a1e0fcf1b200000001002769312d63646665323730302d663539342d343965632d623230622d636566623465"
    "66363439343100026931000477697265000a2f3132372e302e302e3100004e200000271000000016000100000001000664756d702d74ffff"
    "ffff00000000000000024141"
).replace(" ", "")


def kafka(key: str, value: str | None) -> GroupRecord:
    record = decode(bytes.fromhex(key), None if value is None else bytes.fromhex(value))
    assert record is not None
    return record


def test_an_offset() -> None:
    record = kafka(KAFKA_OFFSET_KEY, KAFKA_OFFSET)
    assert record.type == OFFSET_COMMIT
    assert record.key == OffsetCommitKey(group="dump-g", topic="dump-t", partition=0)
    assert record.value == OffsetCommitValue(
        offset=5, leader_epoch=3, metadata="m", commit_timestamp=0x1A1E0FCF1B8, topic_id=TOPIC_ID
    )


def test_a_group() -> None:
    record = kafka(KAFKA_GROUP_KEY, KAFKA_GROUP)
    assert record.type == GROUP_METADATA
    assert record.key == GroupMetadataKey(group="dump-g")
    value = record.value
    assert isinstance(value, GroupMetadataValue)
    assert (value.protocol_type, value.generation, value.protocol, value.leader) == ("consumer", 1, "range", MEMBER_ID)
    (member,) = value.members
    assert (member.member_id, member.group_instance_id, member.client_host) == (MEMBER_ID, "i1", "/127.0.0.1")
    assert (member.rebalance_timeout, member.session_timeout, member.assignment) == (20_000, 10_000, b"AA")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (KAFKA_OFFSET_KEY, KAFKA_OFFSET),
        (KAFKA_OFFSET_KEY, KAFKA_OFFSET_WITH_EXPIRY),
        (KAFKA_OFFSET_KEY, None),
        (KAFKA_GROUP_KEY, KAFKA_NEW_GROUP),
        (KAFKA_GROUP_KEY, KAFKA_GROUP),
        (KAFKA_GROUP_KEY, None),
    ],
)
def test_what_kafka_wrote_is_written_the_same(key: str, value: str | None) -> None:
    encoded_key, encoded_value = encode(kafka(key, value))
    assert encoded_key.hex() == key
    assert (None if encoded_value is None else encoded_value.hex()) == value


def test_offsets_of_long_ago() -> None:
    record = decode(
        bytes.fromhex("0000" + KAFKA_OFFSET_KEY[4:]), bytes.fromhex("0000" + "00" * 7 + "2a0000" + "00" * 8)
    )
    assert record is not None
    assert record.type == OFFSET_COMMIT
    assert isinstance(record.value, OffsetCommitValue)
    assert record.value.offset == 42


def test_types_of_the_future_are_left_alone() -> None:
    assert decode(b"\x7f\x00anything", b"anything") is None


@pytest.mark.parametrize(
    ("key", "value"), [(b"", b""), (b"\x00", b""), (b"\x00\x01", b""), (b"\x00\x02\x00\x01g", b"\x00\x09")]
)
def test_damage(key: bytes, value: bytes) -> None:
    with pytest.raises(DecodeError):
        decode(key, value)

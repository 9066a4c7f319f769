"""What every message promises: defaults, equality, versions, and refusals by name."""

import pytest

from barnabas.protocol.message import DecodeError, EncodeError, UnsupportedVersionError
from barnabas.protocol.messages.consumer_group_member_metadata_value import (
    ClassicMemberMetadata,
    ConsumerGroupMemberMetadataValue,
)
from barnabas.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from barnabas.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    LeaderIdAndEpoch,
    PartitionData,
    ReplicaState,
)
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from barnabas.protocol.messages.partition_change_record import PartitionChangeRecord
from barnabas.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from barnabas.protocol.messages.vote import VoteRequest
from barnabas.protocol.primitives import Output
from barnabas.types import ZERO_UUID


def encoded(message: object, version: int) -> bytearray:
    out = bytearray()
    message.encode(out, version)  # type: ignore[attr-defined]
    return out


def test_defaults_are_fresh_objects() -> None:
    first, second = FetchRequest(), FetchRequest()
    first.topics.append(None)  # type: ignore[arg-type]
    assert second.topics == []
    assert second.max_bytes == 0x7FFFFFFF
    assert second.replica_state is None
    assert MetadataRequest().topics == []
    assert MetadataRequest(topics=None).topics is None
    assert TopicProduceData().topic_id == ZERO_UUID
    assert ConsumerGroupMemberMetadataValue().classic_member_metadata == ClassicMemberMetadata()


def test_equality_and_readable_form() -> None:
    first = PartitionProduceData(index=1, records=memoryview(b"ab"))
    assert first == PartitionProduceData(index=1, records=b"ab")
    assert first != PartitionProduceData(index=2, records=b"ab")
    assert first != TopicProduceData()
    assert repr(first) == "PartitionProduceData(index=1, records=b'ab')"
    assert repr(PartitionProduceData(records=b"x" * 100)) == "PartitionProduceData(index=0, records=<100 bytes>)"
    with pytest.raises(TypeError):
        hash(first)


@pytest.mark.parametrize("version", [-1, 2, 14])
def test_a_version_that_does_not_exist(version: int) -> None:
    with pytest.raises(UnsupportedVersionError, match=f"ProduceRequest has no version {version}"):
        ProduceRequest().encode(bytearray(), version)
    with pytest.raises(UnsupportedVersionError):
        ProduceRequest.decode(memoryview(b""), 0, version)


def test_a_field_that_the_version_lacks_is_refused_unless_it_may_be_dropped() -> None:
    request = FetchRequest(replica_state=ReplicaState(replica_id=3))
    with pytest.raises(UnsupportedVersionError, match="FetchRequest version 14: no field replica_state"):
        request.encode(bytearray(), 14)
    request.encode(bytearray(), 15)
    FetchRequest(replica_state=ReplicaState()).encode(bytearray(), 14)
    assert encoded(FetchRequest(rack_id="dropped"), 10) == encoded(FetchRequest(), 10)
    with pytest.raises(UnsupportedVersionError, match="leader"):
        response(PartitionData(current_leader=LeaderIdAndEpoch(leader_id=1))).encode(bytearray(), 11)


def test_null_where_the_version_has_none() -> None:
    assert encoded(MetadataRequest(topics=None), 1) == bytes.fromhex("ffffffff")
    with pytest.raises(EncodeError, match="MetadataRequest version 0: topics: null"):
        MetadataRequest(topics=None).encode(bytearray(), 0)
    with pytest.raises(EncodeError, match="name: null"):
        MetadataRequest(topics=[MetadataRequestTopic(name=None)]).encode(bytearray(), 9)
    MetadataRequest(topics=[MetadataRequestTopic(name=None)]).encode(bytearray(), 10)


@pytest.mark.parametrize(
    "message",
    [
        CreateTopicsRequest(timeout_ms=2**31),
        CreateTopicsRequest(topics=[CreatableTopic(name="x" * 32768)]),
        CreateTopicsRequest(topics=[CreatableTopic(name="\ud800")]),
        CreateTopicsRequest(topics=[CreatableTopic(name=None)]),  # type: ignore[arg-type]
        CreateTopicsRequest(topics=None),  # type: ignore[arg-type]
    ],
)
@pytest.mark.parametrize("version", [4, 5])
def test_a_value_that_the_wire_cannot_carry(message: CreateTopicsRequest, version: int) -> None:
    with pytest.raises(EncodeError, match="CreateTopicsRequest version"):
        message.encode(bytearray(), version)


def test_a_uuid_of_another_size_is_not_padded() -> None:
    with pytest.raises(EncodeError, match="topic_id"):
        ProduceRequest(topic_data=[TopicProduceData(topic_id=b"short")]).encode(bytearray(), 13)
    with pytest.raises(EncodeError, match="directories"):
        PartitionChangeRecord(directories=[b"short"]).encode(bytearray(), 1)


def response(partition: PartitionData) -> FetchResponse:
    return FetchResponse(responses=[FetchableTopicResponse(partitions=[partition])])


def test_tagged_fields_are_written_in_order_and_only_where_not_default() -> None:
    plain = encoded(response(PartitionData(records=b"")), 16)
    assert encoded(response(PartitionData(records=b"", current_leader=LeaderIdAndEpoch())), 16) == plain
    record = PartitionChangeRecord(leader=7, isr=[], directories=None)
    assert encoded(record, 2)[-10:] == bytes.fromhex("02 00 01 01 01 04 00000007")
    assert PartitionChangeRecord.decode(memoryview(encoded(record, 2)), 0, 2)[0] == record


def test_unknown_tagged_fields_are_skipped() -> None:
    data = encoded(VoteRequest(cluster_id="c"), 0)
    assert data[-1] == 0
    data[-1:] = bytes.fromhex("02 09 02 abcd 7f 00")
    assert VoteRequest.decode(memoryview(data), 0, 0) == (VoteRequest(cluster_id="c"), len(data))


def test_a_tagged_field_must_have_the_size_it_says() -> None:
    record = PartitionChangeRecord(leader=7)
    data = encoded(record, 0)
    at = data.index(bytes.fromhex("01 01 04 00000007")) + 2
    for wrong in (3, 5, 0):
        damaged = bytearray(data)
        damaged[at] = wrong
        with pytest.raises(DecodeError):
            PartitionChangeRecord.decode(memoryview(damaged + bytes(8)), 0, 0)


def test_a_tagged_structure_may_be_null() -> None:
    """Kafka marks it with 0 or 1 there, and with -1 or 1 where the field is not tagged."""
    absent = encoded(ConsumerGroupMemberMetadataValue(), 0)
    assert absent.hex() == "010101010101ffffffff0100"
    null = encoded(ConsumerGroupMemberMetadataValue(classic_member_metadata=None), 0)
    assert null.hex() == "010101010101ffffffff0101000100"
    decoded, _ = ConsumerGroupMemberMetadataValue.decode(memoryview(null), 0, 0)
    assert decoded.classic_member_metadata is None
    with pytest.raises(DecodeError):
        ConsumerGroupMemberMetadataValue.decode(memoryview(null[:-2] + b"\x02\x00"), 0, 0)


def test_huge_counts_are_refused_before_anything_is_allocated() -> None:
    for version, text in ((0, "7fffffff"), (9, "ffffffff07"), (9, "ffffffff0f")):
        with pytest.raises(DecodeError, match="topics"):
            MetadataRequest.decode(memoryview(bytes.fromhex(text) + bytes(100)), 0, version)


def test_a_negative_size_is_null_or_refused() -> None:
    with pytest.raises(DecodeError, match="name"):
        MetadataRequest.decode(memoryview(bytes.fromhex("00000001 ffff")), 0, 0)
    with pytest.raises(DecodeError, match="topics"):
        MetadataRequest.decode(memoryview(bytes.fromhex("ffffffff")), 0, 0)
    assert MetadataRequest.decode(memoryview(bytes.fromhex("ffffffff")), 0, 1)[0].topics is None


def test_decoded_records_are_a_view_of_the_input() -> None:
    request = ProduceRequest(topic_data=[TopicProduceData(partition_data=[PartitionProduceData(records=b"abc")])])
    data = bytearray(encoded(request, 9))
    decoded, _ = ProduceRequest.decode(memoryview(data), 0, 9)
    records = decoded.topic_data[0].partition_data[0].records
    assert isinstance(records, memoryview)
    data[data.index(b"abc")] = ord("x")
    assert records == b"xbc"


class Range:
    size_bytes = 1 << 20


def test_a_fetch_answer_leaves_records_in_their_file() -> None:
    source, out = Range(), Output()
    response(PartitionData(records=source)).encode(out, 12)
    ((position, found),) = out.splices
    assert found is source
    assert out[position - 3 : position] == bytes.fromhex("818040")
    assert out.size_bytes == len(out) + (1 << 20)

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.protocol.message import DecodeError
from barnabas.protocol.messages.feature_level_record import FeatureLevelRecord
from barnabas.protocol.messages.topic_record import TopicRecord
from barnabas.protocol.metadata_records import RecordType, decode_record, encode_record

FEATURE = bytes.fromhex("010c00") + b"\x11metadata.version" + bytes.fromhex("001e00")  # as Kafka 4.3.1 writes it


def test_frame_and_message() -> None:
    record = FeatureLevelRecord(name="metadata.version", feature_level=30)
    assert encode_record(record) == FEATURE
    assert decode_record(FEATURE) == record


@pytest.mark.parametrize("record_type", RecordType, ids=lambda record_type: record_type.name)
def test_every_type_has_its_class(record_type: RecordType) -> None:
    """A version that cannot be is refused only once the class is known."""
    with pytest.raises(DecodeError, match=r"Record has version 99"):
        decode_record(bytes((1, record_type, 99)))


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (b"", "ends within"),
        (b"\x01", "ends within"),
        (b"\x01\x0c", "ends within"),
        (b"\x02\x0c\x00" + FEATURE[3:], "frame version"),
        (b"\x01\x06\x00" + FEATURE[3:], "unknown"),
        (b"\x01\x7f\x00" + FEATURE[3:], "unknown"),
        (b"\x01\x0c\x01" + FEATURE[3:], "version 1"),
        (FEATURE + b"\x00", "1 bytes too many"),
        (FEATURE[:-1], "ends within"),
        (b"\x01" + b"\xff" * 9, "varint"),
    ],
)
def test_anything_else_than_one_whole_record_is_refused(value: bytes, words: str) -> None:
    with pytest.raises(DecodeError, match=words):
        decode_record(value)


@given(st.binary(max_size=60))
def test_random_bytes_decode_or_raise_decode_error(value: bytes) -> None:
    for prefix in (b"", b"\x01", b"\x01\x03\x02", b"\x01\x00\x04"):
        with contextlib.suppress(DecodeError):
            decode_record(prefix + value)


@given(st.text(max_size=40), st.binary(min_size=16, max_size=16))
def test_round_trip(name: str, topic_id: bytes) -> None:
    record = TopicRecord(name=name, topic_id=topic_id)
    assert decode_record(memoryview(encode_record(record))) == record

"""Control records: keys, transaction markers, and what is not one."""

from pathlib import Path

import pytest

from barnabas.protocol.control_records import (
    ControlRecordKind,
    TransactionMarker,
    decode_control_key,
    decode_transaction_marker,
    encode_control_key,
    encode_transaction_marker,
)
from barnabas.protocol.record_batch import (
    InvalidRecordBatch,
    Record,
    crc_matches,
    decode_records,
    read_header,
    read_headers,
)

KAFKA_LOG = Path(__file__).parents[2] / "data" / "kafka-4.3.1" / "transactions-0" / "00000000000000000000.log"


@pytest.mark.parametrize("committed", [True, False])
def test_markers_round_trip(committed: bool) -> None:
    marker = TransactionMarker(committed, 77)
    batch = encode_transaction_marker(marker, producer_id=5, producer_epoch=2, timestamp_ms=123, base_offset=9)
    header = read_header(batch)
    assert header.is_control
    assert header.is_transactional
    assert (header.base_offset, header.producer_id, header.producer_epoch, header.base_sequence) == (9, 5, 2, -1)
    assert crc_matches(memoryview(batch), 0, header)
    [record] = decode_records(batch)
    assert record.timestamp_ms == 123
    assert decode_transaction_marker(record) == marker


def test_markers_are_the_bytes_that_kafka_writes() -> None:
    data = memoryview(KAFKA_LOG.read_bytes())
    seen = []
    for position, header in read_headers(data):
        if not header.is_control:
            continue
        marker = decode_transaction_marker(decode_records(data, position)[0])
        assert marker is not None
        again = encode_transaction_marker(
            marker,
            producer_id=header.producer_id,
            producer_epoch=header.producer_epoch,
            timestamp_ms=header.max_timestamp_ms,
            base_offset=header.base_offset,
            leader_epoch=header.leader_epoch,
        )
        assert again == data[position : position + header.size_bytes]
        seen.append(marker.committed)
    assert seen == [True, False, False, True]


@pytest.mark.parametrize("kind", list(ControlRecordKind))
def test_keys_round_trip(kind: ControlRecordKind) -> None:
    assert decode_control_key(encode_control_key(kind)) is kind


def test_kinds_of_a_newer_kafka_are_nobodys_marker() -> None:
    assert decode_control_key(b"\0\0\0\x20") is None
    assert decode_transaction_marker(Record(0, 0, b"\0\0\0\x20", b"")) is None
    assert decode_transaction_marker(Record(0, 0, encode_control_key(ControlRecordKind.LEADER_CHANGE), b"")) is None


@pytest.mark.parametrize("key", [None, b"", b"\0\0\0", b"\xff\xff\0\0", b"\0\0\xff\xff"])
def test_bad_keys_are_refused(key: bytes | None) -> None:
    with pytest.raises(InvalidRecordBatch):
        decode_control_key(key)


@pytest.mark.parametrize("value", [None, b"", b"\0\0\0\0\0", b"\xff\xff\0\0\0\0"])
def test_bad_markers_are_refused(value: bytes | None) -> None:
    with pytest.raises(InvalidRecordBatch):
        decode_transaction_marker(Record(0, 0, encode_control_key(ControlRecordKind.COMMIT), value))

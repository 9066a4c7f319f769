"""Record batches: headers read and patched, records encoded and decoded, bad bytes refused."""

from pathlib import Path

import pytest
from aiokafka.record.legacy_records import LegacyRecordBatchBuilder

from barnabas.protocol.compression import Codec
from barnabas.protocol.record_batch import (
    CRC_START,
    HEADER_BYTES,
    INT32_MAX,
    BatchHeader,
    InvalidRecordBatch,
    OldMessageFormat,
    Record,
    assign,
    crc_matches,
    decode_records,
    encode_batch,
    read_header,
    read_headers,
    recompress,
    set_append_time,
)

KAFKA_BATCHES = Path(__file__).parents[2] / "data" / "kafka-4.3.1" / "batches"
RECORDS = [
    Record(0, 1_700_000_000_000, b"key", b"value", [("a", b"1"), ("b", None), ("", b"")]),
    Record(1, 1_700_000_000_300, None, None, []),
    Record(2, 1_699_999_999_000, b"", b"x" * 300, []),
]


def test_header_fields_lie_where_kafka_puts_them() -> None:
    batch = encode_batch(
        RECORDS,
        base_offset=0,
        codec=Codec.NONE,
        leader_epoch=7,
        producer_id=99,
        producer_epoch=3,
        base_sequence=41,
        transactional=True,
    )
    header = read_header(batch)
    assert header == BatchHeader(
        base_offset=0,
        batch_length=len(batch) - 12,
        leader_epoch=7,
        magic=2,
        crc=int.from_bytes(batch[17:21], "big"),
        attributes=0x10,
        last_offset_delta=2,
        base_timestamp_ms=1_700_000_000_000,
        max_timestamp_ms=1_700_000_000_300,
        producer_id=99,
        producer_epoch=3,
        base_sequence=41,
        record_count=3,
    )
    assert header.size_bytes == len(batch)
    assert (header.last_offset, header.next_offset, header.last_sequence) == (2, 3, 43)
    assert (header.is_transactional, header.is_control, header.is_log_append_time) == (True, False, False)
    assert header.has_producer_id
    assert header.codec is Codec.NONE


def test_sequences_wrap_after_the_highest_32_bit_number() -> None:
    header = read_header(encode_batch(RECORDS, producer_id=1, producer_epoch=0, base_sequence=INT32_MAX))
    assert header.last_sequence == 1
    assert read_header(encode_batch(RECORDS)).last_sequence == -1


@pytest.mark.parametrize("codec", list(Codec))
def test_records_survive_each_codec(codec: Codec) -> None:
    batch = encode_batch(RECORDS, codec=codec)
    header = read_header(batch)
    assert header.codec is codec
    assert crc_matches(memoryview(batch), 0, header)
    assert decode_records(batch) == RECORDS


def test_offsets_may_have_gaps_and_a_base() -> None:
    records = [Record(1_000, 5, None, b"a", []), Record(1_007, 6, None, b"b", [])]
    batch = encode_batch(records, base_offset=998)
    assert read_header(batch).last_offset == 1_007
    assert decode_records(batch) == records


def test_header_keys_that_are_not_utf8_survive_a_copy() -> None:
    key = b"\xff\xfe".decode("utf-8", "surrogateescape")
    batch = encode_batch([Record(0, 0, None, b"", [(key, b"1")])])
    assert b"\xff\xfe" in batch
    assert decode_records(batch)[0].headers == [(key, b"1")]


def test_assign_changes_offset_and_epoch_and_nothing_else() -> None:
    before = encode_batch(RECORDS)
    after = bytearray(before)
    assign(memoryview(after), 0, 123_456_789_012, 5)
    header = read_header(after)
    assert (header.base_offset, header.leader_epoch) == (123_456_789_012, 5)
    assert crc_matches(memoryview(after), 0, header)
    assert (after[8:12], after[16:]) == (before[8:12], before[16:])
    assert decode_records(after)[2].offset == 123_456_789_014


def test_assign_finds_a_batch_among_others() -> None:
    first, second = encode_batch(RECORDS), encode_batch(RECORDS[:1])
    both = first + second
    assign(memoryview(both), len(first), 10, 1)
    assert [(position, header.base_offset) for position, header in read_headers(both)] == [(0, 0), (len(first), 10)]


def test_append_time_is_every_records_timestamp_and_the_crc_holds() -> None:
    batch = bytearray(b"??") + encode_batch(RECORDS, codec=Codec.GZIP)
    set_append_time(memoryview(batch), 2, 1_800_000_000_000)
    header = read_header(batch, 2)
    assert header.is_log_append_time
    assert header.codec is Codec.GZIP
    assert header.max_timestamp_ms == 1_800_000_000_000
    assert header.base_timestamp_ms == RECORDS[0].timestamp_ms
    assert crc_matches(memoryview(batch), 2, header)
    assert {record.timestamp_ms for record in decode_records(batch, 2)} == {1_800_000_000_000}


@pytest.mark.parametrize("target", list(Codec))
@pytest.mark.parametrize("source", list(Codec))
def test_recompression_keeps_everything_but_the_codec(source: Codec, target: Codec) -> None:
    batch = encode_batch(RECORDS, codec=source, producer_id=4, producer_epoch=1, base_sequence=9, leader_epoch=2)
    again = recompress(b"!" + batch, target, position=1)
    header, before = read_header(again), read_header(batch)
    assert header.codec is target
    assert crc_matches(memoryview(again), 0, header)
    assert header._replace(batch_length=0, crc=0, attributes=0) == before._replace(batch_length=0, crc=0, attributes=0)
    assert decode_records(again) == RECORDS


@pytest.mark.parametrize("position", range(CRC_START, HEADER_BYTES + 3))
def test_a_flipped_bit_under_the_crc_is_seen(position: int) -> None:
    batch = encode_batch(RECORDS)
    header = read_header(batch)
    batch[position] ^= 4
    assert not crc_matches(memoryview(batch), 0, header)


def test_half_a_batch_has_no_matching_crc() -> None:
    batch = memoryview(encode_batch(RECORDS))
    assert not crc_matches(batch[:-1], 0, read_header(batch))


def test_a_batch_that_claims_more_than_is_there_has_no_matching_crc() -> None:
    """Its CRC fits the bytes that are there: the length is not under it."""
    batch = encode_batch(RECORDS)
    batch[8:12] = (len(batch) - 12 + 10).to_bytes(4, "big")
    assert not crc_matches(memoryview(batch), 0, read_header(batch))


@pytest.mark.parametrize("path", sorted(KAFKA_BATCHES.iterdir()), ids=lambda path: path.stem)
def test_batches_of_real_clients(path: Path) -> None:
    data = memoryview(path.read_bytes())
    client, codec = path.stem.split("-")
    [(position, header)] = read_headers(data)
    assert header.codec is Codec[codec.upper()]
    assert crc_matches(data, position, header)
    records = decode_records(data)
    assert [record.offset for record in records] == [0, 1, 2, 3, 4]
    assert [record.key for record in records] == [b"key-%d" % number for number in range(5)]
    repetitions = 20 if client == "java" else 200
    assert [record.value for record in records] == [b"value %d " % number + b"abc" * repetitions for number in range(5)]
    headers = [("source", b"console"), ("empty", b"")] if client == "java" else [("h", b"\x00\xff"), ("null", None)]
    assert all(record.headers == headers for record in records)


def test_uncompressed_batch_of_kafkas_client_is_encoded_to_the_same_bytes() -> None:
    data = (KAFKA_BATCHES / "java-none.log").read_bytes()
    header = read_header(data)
    again = encode_batch(
        decode_records(data),
        leader_epoch=header.leader_epoch,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
    )
    assert bytes(again) == data


@pytest.mark.parametrize("magic", [0, 1])
def test_old_message_formats_are_recognised(magic: int) -> None:
    builder = LegacyRecordBatchBuilder(magic=magic, compression_type=0, batch_size=10_000)
    builder.append(0, timestamp=1, key=b"k", value=b"v")
    short = bytes(builder.build())
    assert len(short) < HEADER_BYTES
    with pytest.raises(OldMessageFormat, match=str(magic)):
        read_header(short)
    with pytest.raises(OldMessageFormat, match=str(magic)):
        read_header(short + bytes(100))


@pytest.mark.parametrize("size", range(HEADER_BYTES))
def test_half_a_header_is_refused(size: int) -> None:
    with pytest.raises(InvalidRecordBatch):
        read_header(encode_batch(RECORDS)[:size])


@pytest.mark.parametrize("position", [-100, 5, 10_000])
def test_a_position_outside_is_refused(position: int) -> None:
    with pytest.raises(InvalidRecordBatch):
        read_header(encode_batch(RECORDS[:1])[:HEADER_BYTES], position)


@pytest.mark.parametrize("length", [-(2**31), -1, 0, 48])
def test_a_length_shorter_than_the_header_is_refused(length: int) -> None:
    batch = encode_batch(RECORDS)
    batch[8:12] = length.to_bytes(4, "big", signed=True)
    with pytest.raises(InvalidRecordBatch, match="length"):
        read_header(batch)


@pytest.mark.parametrize("magic", [3, 127, 128, 255])
def test_formats_of_the_future_are_refused(magic: int) -> None:
    batch = encode_batch(RECORDS)
    batch[16] = magic
    with pytest.raises(InvalidRecordBatch, match="unknown message format"):
        read_header(batch)


def test_the_last_batch_must_be_whole() -> None:
    batch = encode_batch(RECORDS)
    with pytest.raises(InvalidRecordBatch, match="are left"):
        list(read_headers(batch + batch[:-1]))


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_unknown_codecs_are_refused(codec: int) -> None:
    batch = encode_batch(RECORDS)
    batch[22] |= codec
    with pytest.raises(InvalidRecordBatch, match="codec"):
        decode_records(batch)


@pytest.mark.parametrize("count", [-1, -(2**31), 2, 4, INT32_MAX])
def test_a_wrong_number_of_records_is_refused(count: int) -> None:
    batch = encode_batch(RECORDS)
    batch[57:61] = count.to_bytes(4, "big", signed=True)
    with pytest.raises(InvalidRecordBatch):
        decode_records(batch)


def _batch_of(body: bytes) -> bytearray:
    """One record of these bytes, its length apart, in an otherwise sound batch."""
    batch = encode_batch([Record(0, 0, None, b"")])
    del batch[HEADER_BYTES:]
    batch += bytes([len(body) << 1]) + body
    batch[8:12] = (len(batch) - 12).to_bytes(4, "big")
    return batch


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        (b"\0\0\0\1\1\0\0", "ends at"),  # a byte too many
        (b"\0\0\0\1\x03\0", "length of -2"),
        (b"\0\0\0\x10\1\0", "8 bytes where"),  # a key longer than the record
        (b"\0\0\0\1\1\x01", "headers"),  # -1 headers
        (b"\0\0\0\1\1\x08\0\0", "4 headers"),
        (b"\0\0\0\1\1\x02\1\0", "without a key"),
        (b"\0" + b"\xff" * 11 + b"\0\1\1\0", "ten bytes"),
        (b"\0\0\0\1\1", "cannot lie in"),
    ],
)
def test_malformed_records_are_refused(body: bytes, problem: str) -> None:
    with pytest.raises(InvalidRecordBatch, match=problem):
        decode_records(_batch_of(body))


def test_a_batch_cannot_unpack_to_more_than_allowed() -> None:
    batch = encode_batch([Record(0, 0, None, bytes(1_000_000))], codec=Codec.ZSTD)
    assert len(batch) < 1_000
    assert len(decode_records(batch)) == 1
    with pytest.raises(InvalidRecordBatch):
        decode_records(batch, size_max=999_999)

"""Record batches against themselves, against three implementations that nobody here wrote, and against noise."""

import io
import warnings
from contextlib import suppress
from datetime import UTC, datetime

import kio.records.schema as kio_schema
import pytest
from aiokafka.record.default_records import DefaultRecordBatch as AiokafkaBatch
from aiokafka.record.default_records import DefaultRecordBatchBuilder as AiokafkaBuilder
from hypothesis import assume, given
from hypothesis import strategies as st
from kio.records.readers import read_batch as kio_read_batch
from kio.records.writers import write_batch as kio_write_batch

from barnabas.protocol.compression import Codec, DecompressionError, decompress
from barnabas.protocol.record_batch import (
    InvalidRecordBatch,
    Record,
    assign,
    crc_matches,
    decode_records,
    encode_batch,
    read_header,
    read_headers,
    recompress,
)

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # kafka-python reads its schemas in a way that Python deprecates
    from kafka.record.default_records import DefaultRecordBatch as KafkaPythonBatch
    from kafka.record.default_records import DefaultRecordBatchBuilder as KafkaPythonBuilder

payload = st.none() | st.binary(max_size=200)
header_key = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
headers = st.lists(st.tuples(header_key, payload), max_size=3)
timestamp_ms = st.integers(0, 2**42)
fields = st.tuples(timestamp_ms, payload, payload, headers)
codecs = st.sampled_from(list(Codec))


def numbered(rows: list[tuple[int, bytes | None, bytes | None, list[tuple[str, bytes | None]]]]) -> list[Record]:
    return [Record(offset, *row) for offset, row in enumerate(rows)]


batches = st.lists(fields, min_size=1, max_size=8).map(numbered)


@given(
    records=batches,
    codec=codecs,
    gap=st.integers(0, 2**20),
    base_offset=st.integers(0, 2**40),
    leader_epoch=st.integers(-1, 2**31 - 1),
    producer_id=st.integers(-1, 2**63 - 1),
    producer_epoch=st.integers(-1, 2**15 - 1),
    base_sequence=st.integers(-1, 2**31 - 1),
    flags=st.tuples(st.booleans(), st.booleans()),
)
def test_round_trip(
    records: list[Record],
    codec: Codec,
    gap: int,
    base_offset: int,
    leader_epoch: int,
    producer_id: int,
    producer_epoch: int,
    base_sequence: int,
    flags: tuple[bool, bool],
) -> None:
    placed = [record._replace(offset=base_offset + gap + record.offset) for record in records]
    batch = encode_batch(
        placed,
        base_offset=base_offset,
        codec=codec,
        leader_epoch=leader_epoch,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        transactional=flags[0],
        control=flags[1],
    )
    header = read_header(batch)
    assert crc_matches(memoryview(batch), 0, header)
    assert header.size_bytes == len(batch)
    assert header.last_offset == placed[-1].offset
    assert header.max_timestamp_ms == max(record.timestamp_ms for record in records)
    assert (header.leader_epoch, header.producer_id) == (leader_epoch, producer_id)
    assert (header.producer_epoch, header.base_sequence) == (producer_epoch, base_sequence)
    assert (header.is_transactional, header.is_control) == flags
    assert decode_records(batch) == placed


@given(records=batches, first=codecs, second=codecs)
def test_recompression_keeps_the_records(records: list[Record], first: Codec, second: Codec) -> None:
    batch = recompress(encode_batch(records, codec=first), second)
    assert crc_matches(memoryview(batch), 0, read_header(batch))
    assert decode_records(batch) == records


@given(records=batches, codec=codecs)
def test_aiokafka_reads_what_we_write(records: list[Record], codec: Codec) -> None:
    theirs = AiokafkaBatch(bytes(encode_batch(records, codec=codec)))
    assert theirs.validate_crc()
    assert [Record(r.offset, r.timestamp, r.key, r.value, list(r.headers)) for r in theirs] == records


@given(records=batches, codec=codecs)
def test_we_read_what_aiokafka_writes(records: list[Record], codec: Codec) -> None:
    builder = AiokafkaBuilder(
        magic=2,
        compression_type=codec,
        is_transactional=False,
        producer_id=7,
        producer_epoch=1,
        base_sequence=3,
        batch_size=1 << 20,
    )
    for record in records:
        builder.append(record.offset, record.timestamp_ms, record.key, record.value, list(record.headers))
    batch = bytes(builder.build())
    header = read_header(batch)
    assert crc_matches(memoryview(batch), 0, header)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (7, 1, 3)
    assert decode_records(batch) == records


@given(records=batches, codec=st.sampled_from([Codec.NONE, Codec.GZIP]))
def test_kafka_python_reads_what_we_write(records: list[Record], codec: Codec) -> None:
    theirs = KafkaPythonBatch(bytes(encode_batch(records, codec=codec)))
    assert theirs.validate_crc()
    assert [Record(r.offset, r.timestamp, r.key, r.value, list(r.headers)) for r in theirs] == records


@given(records=batches, codec=st.sampled_from([Codec.NONE, Codec.GZIP]))
def test_we_read_what_kafka_python_writes(records: list[Record], codec: Codec) -> None:
    builder = KafkaPythonBuilder(
        magic=2,
        compression_type=codec,
        is_transactional=True,
        producer_id=7,
        producer_epoch=1,
        base_sequence=3,
        batch_size=1 << 20,
    )
    for record in records:
        builder.append(record.offset, record.timestamp_ms, record.key, record.value, list(record.headers))
    batch = bytes(builder.build())
    header = read_header(batch)
    assert crc_matches(memoryview(batch), 0, header)
    assert header.is_transactional
    assert decode_records(batch) == records


def _in_whole_seconds(records: list[Record]) -> list[Record]:
    """kio drops what is finer."""
    return [record._replace(timestamp_ms=record.timestamp_ms // 1_000 * 1_000) for record in records]


def _to_kio(record: Record) -> kio_schema.Record:
    return kio_schema.Record(
        attributes=0,
        timestamp=datetime.fromtimestamp(record.timestamp_ms // 1_000, UTC),
        offset=record.offset,
        key=record.key,
        value=record.value,
        headers=tuple(kio_schema.RecordHeader(key=key.encode(), value=value) for key, value in record.headers),
    )


@given(records=batches.map(_in_whole_seconds))
def test_kio_reads_what_we_write(records: list[Record]) -> None:
    theirs, _ = kio_read_batch(bytes(encode_batch(records, producer_id=5, leader_epoch=2)), 0)
    assert (theirs.producer_id, theirs.partition_leader_epoch) == (5, 2)
    assert list(theirs.records) == [_to_kio(record) for record in records]


@given(records=batches.map(_in_whole_seconds))
def test_we_write_the_bytes_that_kio_writes(records: list[Record]) -> None:
    out = io.BytesIO()
    batch = kio_schema.NewRecordBatch(
        producer_id=5,
        producer_epoch=1,
        partition_leader_epoch=2,
        base_sequence=9,
        attributes=0,
        records=tuple(_to_kio(record) for record in records),
    )
    kio_write_batch(out, batch)
    ours = encode_batch(records, producer_id=5, producer_epoch=1, leader_epoch=2, base_sequence=9)
    assert bytes(ours) == out.getvalue()
    assert decode_records(out.getvalue()) == records


@given(records=batches, codec=codecs, data=st.data())
def test_damage_is_seen_by_the_crc_and_never_crashes_the_decoder(
    records: list[Record], codec: Codec, data: st.DataObject
) -> None:
    batch = encode_batch(records, codec=codec)
    header = read_header(batch)
    position = data.draw(st.integers(21, len(batch) - 1))
    batch[position] ^= data.draw(st.integers(1, 255))
    assert not crc_matches(memoryview(batch), 0, header)
    with suppress(InvalidRecordBatch):
        decode_records(batch, size_max=1 << 20)


@given(records=batches, codec=codecs, data=st.data())
def test_every_cut_is_refused(records: list[Record], codec: Codec, data: st.DataObject) -> None:
    batch = encode_batch(records, codec=codec)
    cut = bytes(batch[: data.draw(st.integers(1, len(batch) - 1))])
    with pytest.raises(InvalidRecordBatch):
        list(read_headers(cut))


@given(noise=st.binary(max_size=300), codec=codecs)
def test_noise_behind_a_sound_header_never_crashes_the_decoder(noise: bytes, codec: Codec) -> None:
    batch = encode_batch([Record(0, 0, None, b"")])[:61] + noise
    batch[8:12] = (len(batch) - 12).to_bytes(4, "big")
    batch[22] = codec
    with suppress(InvalidRecordBatch):
        decode_records(batch, size_max=1 << 20)


@given(noise=st.binary(max_size=300), codec=codecs)
def test_noise_never_crashes_a_codec(noise: bytes, codec: Codec) -> None:
    assume(codec is not Codec.NONE)
    with suppress(DecompressionError):
        assert len(decompress(codec, noise, 10_000)) <= 10_000


@given(records=batches, offset=st.integers(0, 2**62), epoch=st.integers(0, 2**31 - 1), lead=st.binary(max_size=9))
def test_assigning_moves_every_record_and_keeps_the_crc(
    records: list[Record], offset: int, epoch: int, lead: bytes
) -> None:
    batch = bytearray(lead) + encode_batch(records)
    assign(memoryview(batch), len(lead), offset, epoch)
    header = read_header(batch, len(lead))
    assert crc_matches(memoryview(batch), len(lead), header)
    assert header.leader_epoch == epoch
    assert [record.offset for record in decode_records(batch, len(lead))] == [offset + r.offset for r in records]

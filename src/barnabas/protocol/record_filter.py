"""Taking records out of a batch: what compaction leaves of it.

Owns the places of records in unpacked bytes, and batches made of some of another's records. Such a batch keeps base
offset, last offset, sequence, producer and leader epoch of the whole one, whatever is left: a reader finds the same
offsets, a producer's last sequence is not lost. Base and largest timestamp are those of the records that are left.
With a delete horizon (KIP-534) the base timestamp is the moment from which on tombstones and markers may go.
Always holds: records are copied as they are, but for their timestamp's delta where the base timestamp changes.
Does not know: which records are to stay.
"""

from collections.abc import Sequence
from typing import NamedTuple

from barnabas.protocol.checksum import Buffer
from barnabas.protocol.compression import Codec, compress
from barnabas.protocol.record_batch import (
    BODY,
    CODEC_MASK,
    DELETE_HORIZON_BIT,
    NULL_LENGTH,
    RECORD_BYTES_MIN,
    RECORDS_BYTES_MAX,
    BatchHeader,
    InvalidRecordBatch,
    append_varint,
    finish_batch,
    read_varint,
    unpacked_records,
)
from barnabas.types import NO_TIMESTAMP_MS


class PlacedRecord(NamedTuple):
    """Where one record lies in the unpacked bytes, and what decides whether it stays."""

    offset_delta: int
    key: bytes | None
    has_value: bool
    timestamp_delta_ms: int
    start: int
    end: int


_new_tuple = tuple.__new__  # a quarter of the cost of calling the class


def unpack(batch: memoryview, header: BatchHeader) -> tuple[bytes, list[PlacedRecord]]:
    """The unpacked bytes of a batch, and its records' places in them."""
    data = unpacked_records(batch, 0, header, RECORDS_BYTES_MAX)
    if not 0 <= header.record_count * RECORD_BYTES_MIN <= len(data):
        raise InvalidRecordBatch(f"{header.record_count} records cannot lie in {len(data)} bytes")
    try:
        return data, _places(data, header.record_count)
    except IndexError:
        raise InvalidRecordBatch("the batch ends within a record") from None


def _places(data: bytes, record_count: int) -> list[PlacedRecord]:
    """One-byte numbers are taken in line, as most are.  # benchmarks/compaction.py"""
    places = []
    position = 0
    data_end = len(data)
    for _ in range(record_count):
        start = position
        size, position = read_varint(data, position)
        end = position + size
        if size < RECORD_BYTES_MIN - 1 or end > data_end:
            raise InvalidRecordBatch(f"a record of {size} bytes where {data_end - position} are left")
        position += 1
        if (byte := data[position]) < 0x80:
            timestamp_delta_ms = byte >> 1 ^ -(byte & 1)
            position += 1
        else:
            timestamp_delta_ms, position = read_varint(data, position)
        if (byte := data[position]) < 0x80:
            offset_delta = byte >> 1 ^ -(byte & 1)
            position += 1
        else:
            offset_delta, position = read_varint(data, position)
        key = None
        if (byte := data[position]) == NULL_LENGTH:
            position += 1
        else:
            key_size, position = read_varint(data, position)
            key = data[position : position + key_size]
            position += key_size
            if key_size < 0 or position >= end:
                raise InvalidRecordBatch(f"a key of {key_size} bytes in a record of {size}")
        has_value = data[position] != NULL_LENGTH
        record: PlacedRecord = _new_tuple(PlacedRecord, (offset_delta, key, has_value, timestamp_delta_ms, start, end))
        places.append(record)
        position = end
    if position != data_end:
        raise InvalidRecordBatch(f"{data_end - position} bytes follow the last record")
    return places


def batch_of(
    header: BatchHeader, data: bytes, records: Sequence[PlacedRecord], delete_horizon_ms: int | None
) -> bytearray:
    """The batch with these of its records, at least one; packed as it was."""
    assert records, "an empty batch is made by `empty_batch`"
    if header.is_log_append_time:
        timestamps_ms = [header.max_timestamp_ms] * len(records)
    else:
        timestamps_ms = [header.base_timestamp_ms + record.timestamp_delta_ms for record in records]
    base_timestamp_ms = timestamps_ms[0] if delete_horizon_ms is None else delete_horizon_ms
    if base_timestamp_ms == header.base_timestamp_ms and not header.is_log_append_time:
        kept = b"".join([data[record.start : record.end] for record in records])
    else:
        kept = _restamped(data, records, [time_ms - base_timestamp_ms for time_ms in timestamps_ms])
    attributes = header.attributes & ~DELETE_HORIZON_BIT
    if delete_horizon_ms is not None:
        attributes |= DELETE_HORIZON_BIT
    body = BODY.pack(
        attributes,
        header.last_offset_delta,
        base_timestamp_ms,
        max(timestamps_ms),
        header.producer_id,
        header.producer_epoch,
        header.base_sequence,
        len(records),
    )
    packed: Buffer = compress(header.codec, kept) if header.codec else kept
    return finish_batch(header.base_offset, header.leader_epoch, body, packed)


def _restamped(data: bytes, records: Sequence[PlacedRecord], timestamp_deltas_ms: Sequence[int]) -> bytes:
    out = bytearray()
    for record, timestamp_delta_ms in zip(records, timestamp_deltas_ms, strict=True):
        _, position = read_varint(data, record.start)
        body = bytearray(data[position : position + 1])  # attributes
        append_varint(body, timestamp_delta_ms)
        _, position = read_varint(data, position + 1)
        append_varint(out, len(body) + record.end - position)
        out += body
        out += data[position : record.end]
    return bytes(out)


def empty_batch(header: BatchHeader) -> bytearray:
    """The header alone: offsets, producer and sequence stay known though no record is left."""
    body = BODY.pack(
        header.attributes & ~(CODEC_MASK | DELETE_HORIZON_BIT) | Codec.NONE,
        header.last_offset_delta,
        NO_TIMESTAMP_MS,
        header.max_timestamp_ms,
        header.producer_id,
        header.producer_epoch,
        header.base_sequence,
        0,
    )
    return finish_batch(header.base_offset, header.leader_epoch, body, b"")

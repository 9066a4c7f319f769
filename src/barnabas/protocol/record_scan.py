"""The records of one batch, looked at one after the other without a copy of any: what a broker checks and searches.

Owns the budgets of that work. A batch of a few kilobytes may claim, and unpack to, millions of records, so the number
of records that a header may claim, the bytes that they may unpack to, and the headers of all records are bounded.
Always holds: malformed bytes raise InvalidRecordBatch, what is beyond a budget raises TooManyRecords, and nothing else
is raised. A scan that its caller gives up early has cost no more than what it gave.
Does not know: which records are right, files, offsets of a log.
"""

from collections.abc import Iterator
from typing import NamedTuple

from barnabas.protocol.checksum import Buffer
from barnabas.protocol.compression import DecompressionError, TooMuchData, unpack
from barnabas.protocol.record_batch import (
    HEADER_BYTES,
    NULL_LENGTH,
    RECORD_BYTES_MIN,
    RECORDS_BYTES_MAX,
    BatchHeader,
    InvalidRecordBatch,
    read_varint,
)

# A batch of 1 MiB, Kafka's default limit, holds 150,000 of the smallest records if it is not compressed.
RECORDS_MAX = 1 << 20
RECORD_HEADERS_MAX = 1 << 20  # of all records of a batch


class TooManyRecords(InvalidRecordBatch):
    """There is more in the batch than a broker looks at."""


class ScannedRecord(NamedTuple):
    """What a broker needs to know of a record; key and value themselves are none of its business."""

    offset_delta: int
    timestamp_delta_ms: int
    has_key: bool


_new_tuple = tuple.__new__  # a quarter of the cost of calling the class


def scan(batch: Buffer, header: BatchHeader) -> Iterator[ScannedRecord]:
    """Each record in order. Whether header and CRC are right is the caller's to ask."""
    count = header.record_count
    if count > RECORDS_MAX:
        raise TooManyRecords(f"a batch of {count} records where {RECORDS_MAX} are allowed")
    data = records_in(batch, header)
    if not 0 <= count * RECORD_BYTES_MIN <= len(data):
        raise InvalidRecordBatch(f"{count} records cannot lie in {len(data)} bytes")
    try:
        yield from _scan(data, count)
    except IndexError:
        raise InvalidRecordBatch("the batch ends within a record") from None


def records_in(batch: Buffer, header: BatchHeader, size_max: int = RECORDS_BYTES_MAX) -> Buffer:
    """The unpacked records of a batch, without a copy where they are not compressed."""
    view = memoryview(batch)
    if header.size_bytes > len(view):
        raise InvalidRecordBatch(f"a batch of {header.size_bytes} bytes where {len(view)} are left")
    try:
        return unpack(header.codec, view[HEADER_BYTES : header.size_bytes], size_max)
    except TooMuchData as problem:
        raise TooManyRecords(str(problem)) from None
    except DecompressionError as problem:
        raise InvalidRecordBatch(str(problem)) from None


def _scan(data: Buffer, record_count: int) -> Iterator[ScannedRecord]:
    """One-byte numbers are taken in line: sizes, deltas and keys of most records are such."""
    headers_left = RECORD_HEADERS_MAX
    position = 0
    data_end = len(data)
    for _ in range(record_count):
        if (byte := data[position]) < 0x80:
            size = byte >> 1 ^ -(byte & 1)
            position += 1
        else:
            size, position = read_varint(data, position)
        end = position + size
        if size < RECORD_BYTES_MIN - 1 or end > data_end:
            raise InvalidRecordBatch(f"a record of {size} bytes where {data_end - position} are left")
        position += 1  # attributes: no bit of them has a meaning yet
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
        has_key = data[position] != NULL_LENGTH
        position = _skip_bytes(data, position, end) if has_key else position + 1
        position = _skip_bytes(data, position, end)
        if position < end and data[position] == 0:
            position += 1
        else:
            count, position = read_varint(data, position)
            headers_left -= count
            if headers_left < 0:
                raise TooManyRecords(f"a batch of more than {RECORD_HEADERS_MAX} record headers")
            position = _skip_headers(data, position, end, count)
        if position != end:
            raise InvalidRecordBatch(f"a record of {size} bytes ends at {position}, not at {end}")
        record: ScannedRecord = _new_tuple(ScannedRecord, (offset_delta, timestamp_delta_ms, has_key))
        yield record
    if position != data_end:
        raise InvalidRecordBatch(f"{data_end - position} bytes follow the last record")


def _skip_bytes(data: Buffer, position: int, end: int) -> int:
    if (byte := data[position]) < 0x80:
        size = byte >> 1 ^ -(byte & 1)
        position += 1
    else:
        size, position = read_varint(data, position)
    if size < 0:
        if size != -1:
            raise InvalidRecordBatch(f"a length of {size}")
        return position
    if size > end - position:
        raise InvalidRecordBatch(f"a field of {size} bytes where the record has {end - position} left")
    return position + size


def _skip_headers(data: Buffer, position: int, end: int, count: int) -> int:
    if not 0 <= count <= (end - position) // 2:
        raise InvalidRecordBatch(f"{count} headers where the record has {end - position} bytes left")
    for _ in range(count):
        if data[position] == NULL_LENGTH:
            raise InvalidRecordBatch("a header without a key")
        position = _skip_bytes(data, position, end)
        position = _skip_bytes(data, position, end)
    return position

"""Records out of the bytes of batches, in bulk: as tuples, or as a column per field.

Always holds: bytes that are no records raise InvalidRecordBatch, and nothing else.
Where all records of a stretch have one layout (keys and values of one size, no headers), their fields lie a constant
number of bytes apart and are cut out without looking at each record; everything else goes through one loop.
Measured by benchmarks/record_decoder.py. Does not know: CRCs, transactions, which of the records are wanted.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import chain, repeat
from struct import iter_unpack
from typing import NamedTuple

from barnabas.protocol.record_batch import (
    LOG_APPEND_TIME_BIT,
    NULL_LENGTH,
    RECORD_BYTES_MIN,
    RECORDS_BYTES_MAX,
    BatchHeader,
    Header,
    InvalidRecordBatch,
    read_bytes,
    read_record_headers,
    read_varint,
    unpacked_records,
)
from barnabas.types import TopicPartition

CREATE_TIME = 0
LOG_APPEND_TIME = 1
NO_HEADERS: Sequence[Header] = ()

# Offset deltas below 64 take one byte, and below 8192 two: a stretch that ends there may have one layout.
FIRST_STRETCH = 64
STRETCH = 1024
STRETCH_MIN = 8  # shorter ones are not worth the look
MIXED_STRETCH = 256  # decoded one by one before the next look

# Numbers are zigzag: of the bytes below 0x80, the even ones stand for 0, 1, 2, and the odd ones are negative.
_ONE_BYTE_POSITIVE = bytes(range(0, 0x80, 2))
_CONTINUED_POSITIVE = bytes(range(0x80, 0x100, 2))  # the first byte of several
_HALVED = bytes(number >> 1 for number in range(256))
# The bytes of consecutive offset deltas: one byte for the first 64, two for the others.
DELTAS_MAX = 1 << 13
_DELTAS_OF_ONE_BYTE = _ONE_BYTE_POSITIVE
_DELTAS_LOW = _CONTINUED_POSITIVE * (DELTAS_MAX // FIRST_STRETCH)
_DELTAS_HIGH = b"".join(bytes([number]) * FIRST_STRETCH for number in range(DELTAS_MAX // FIRST_STRETCH))


class ConsumerRecord(NamedTuple):
    """One record, as a consumer is given it."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    timestamp_type: int  # CREATE_TIME or LOG_APPEND_TIME
    key: bytes | None
    value: bytes | None
    headers: Sequence[Header]
    leader_epoch: int  # -1 where the broker did not say


_new_record = partial(tuple.__new__, ConsumerRecord)  # a quarter of the cost of calling the class


class ConsumerBatch(NamedTuple):
    """Records of one partition as columns of one length: what a consumer in a hurry iterates over."""

    topic: str
    partition: int
    leader_epoch: int
    timestamp_type: int
    offsets: Sequence[int]
    timestamps_ms: Sequence[int]
    keys: Sequence[bytes | None]
    values: Sequence[bytes | None]
    headers: Sequence[Sequence[Header]]

    def records(self) -> list[ConsumerRecord]:
        columns = zip(
            repeat(self.topic),
            repeat(self.partition),
            self.offsets,
            self.timestamps_ms,
            repeat(self.timestamp_type),
            self.keys,
            self.values,
            self.headers,
            repeat(self.leader_epoch),
            strict=False,
        )
        return list(map(tuple.__new__, repeat(ConsumerRecord), columns))  # a quarter of the cost of calling the class

    def from_index(self, index: int) -> "ConsumerBatch":
        """The same without the first records."""
        return self._replace(
            offsets=self.offsets[index:],
            timestamps_ms=self.timestamps_ms[index:],
            keys=self.keys[index:],
            values=self.values[index:],
            headers=self.headers[index:],
        )


Stretch = ConsumerBatch | list[ConsumerRecord]


def stretches(partition: TopicPartition, view: memoryview, position: int, header: BatchHeader) -> Iterator[Stretch]:
    """The records of one batch, each stretch in the form in which it was found quickest. Whether the CRC matches is the
    caller's to ask."""
    data = unpacked_records(view, position, header, RECORDS_BYTES_MAX)
    count = header.record_count
    if not 0 <= count * RECORD_BYTES_MIN <= len(data):
        raise InvalidRecordBatch(f"{count} records cannot lie in {len(data)} bytes")
    try:
        position = index = 0
        while index < count:
            stretch_end = FIRST_STRETCH if index < FIRST_STRETCH else index - index % STRETCH + STRETCH
            wanted = min(stretch_end, count) - index
            layout = shared_layout(data, position, index, wanted) if wanted >= STRETCH_MIN else None
            if layout is None:
                wanted = min(wanted, MIXED_STRETCH)
                records, position = decode_each(data, position, wanted, partition, header)
                yield records
            else:
                yield cut_out(data, position, layout, index, wanted, partition, header)
                position += layout.stride * wanted
            index += wanted
    except IndexError:
        raise InvalidRecordBatch("the batch ends within a record") from None
    if position != len(data):
        raise InvalidRecordBatch(f"{len(data) - position} bytes follow the last record")


def timestamp_type(header: BatchHeader) -> int:
    return LOG_APPEND_TIME if header.attributes & LOG_APPEND_TIME_BIT else CREATE_TIME


class Layout(NamedTuple):
    """Where the fields of a record lie, counted from its first byte."""

    stride: int  # from one record to the next
    timestamp_at: int
    timestamp_bytes: int  # one or two
    key_start: int
    key_size: int  # -1: there is none
    value_start: int
    value_size: int


def shared_layout(data: bytes, start: int, index: int, count: int) -> Layout | None:
    """The layout of the first of these records, if all `count` of them have it and their offsets are consecutive."""
    size, position = read_varint(data, start)
    stride = position - start + size
    end = start + stride * count
    # The quick way out: in most mixed stretches the last record does not lie where it would.
    if size < RECORD_BYTES_MIN - 1 or end > len(data) or data[end - stride] != data[start] or index >= DELTAS_MAX:
        return None
    timestamp_at = position + 1
    timestamp_bytes = 1 if data[timestamp_at] < 0x80 else 2
    delta_at = timestamp_at + timestamp_bytes
    key_at = delta_at + (1 if index < FIRST_STRETCH else 2)
    key_size, key_start = read_varint(data, key_at)
    value_at = key_start + max(key_size, 0)
    value_size, value_start = read_varint(data, value_at)
    last = start + stride - 1
    if key_size < -1 or value_size < 0 or value_start + value_size != last or data[last] != 0:
        return None
    # All that says how a record is laid out must be the same in each of them: the lengths, and that it has no headers.
    for at in (*range(start, position), *range(key_at, key_start), *range(value_at, value_start), last):
        if data[at:end:stride].count(data[at]) != count:
            return None
    first_bytes = data[timestamp_at:end:stride]
    if timestamp_bytes == 1 and first_bytes.translate(None, _ONE_BYTE_POSITIVE):
        return None
    if timestamp_bytes == 2 and (
        first_bytes.translate(None, _CONTINUED_POSITIVE) or not data[timestamp_at + 1 : end : stride].isascii()
    ):
        return None
    low = data[delta_at:end:stride]
    if index < FIRST_STRETCH:
        if low != _DELTAS_OF_ONE_BYTE[index : index + count]:
            return None
    elif low != _DELTAS_LOW[index : index + count] or (
        data[delta_at + 1 : end : stride] != _DELTAS_HIGH[index : index + count]
    ):
        return None
    return Layout(
        stride,
        timestamp_at - start,
        timestamp_bytes,
        key_start - start,
        key_size,
        value_start - start,
        value_size,
    )


def cut_out(
    data: bytes,
    start: int,
    layout: Layout,
    index: int,
    count: int,
    partition: TopicPartition,
    header: BatchHeader,
) -> ConsumerBatch:
    stride, timestamp_at, timestamp_bytes, key_start, key_size, value_start, value_size = layout
    end = start + stride * count
    base_timestamp_ms = header.base_timestamp_ms
    first_bytes = data[start + timestamp_at : end : stride]
    timestamps_ms: list[int]
    if header.attributes & LOG_APPEND_TIME_BIT:
        timestamps_ms = [header.max_timestamp_ms] * count
    elif timestamp_bytes == 2:
        second_bytes = data[start + timestamp_at + 1 : end : stride]
        deltas_ms = [(one & 0x7F | two << 7) >> 1 for one, two in zip(first_bytes, second_bytes, strict=True)]
        timestamps_ms = list(map(base_timestamp_ms.__add__, deltas_ms))
    elif first_bytes.count(first_bytes[0]) == count:
        timestamps_ms = [base_timestamp_ms + (first_bytes[0] >> 1)] * count
    else:
        timestamps_ms = list(map(base_timestamp_ms.__add__, first_bytes.translate(_HALVED)))
    return ConsumerBatch(
        partition.topic,
        partition.partition,
        header.leader_epoch,
        timestamp_type(header),
        range(header.base_offset + index, header.base_offset + index + count),
        timestamps_ms,
        [None] * count if key_size < 0 else every(data[start:end], stride, key_start, key_size),
        every(data[start:end], stride, value_start, value_size),
        [NO_HEADERS] * count,
    )


def every(data: bytes, stride: int, start: int, size: int) -> list[bytes | None]:
    """The field of `size` bytes at `start` of each record."""
    return list(chain.from_iterable(iter_unpack(f"{start}x{size}s{stride - start - size}x", data)))


def decode_each(
    data: bytes, position: int, count: int, partition: TopicPartition, header: BatchHeader
) -> tuple[list[ConsumerRecord], int]:
    """Numbers of one or two bytes are taken in line: all of most records are such. Gives the position after them."""
    topic, index = partition
    leader_epoch, base_offset, base_timestamp_ms = header.leader_epoch, header.base_offset, header.base_timestamp_ms
    kind, append_time_ms = timestamp_type(header), header.max_timestamp_ms
    records: list[ConsumerRecord] = []
    add, new, data_end = records.append, _new_record, len(data)
    for _ in range(count):
        size, position = read_varint(data, position)
        end = position + size
        if end > data_end or size < RECORD_BYTES_MIN - 1:
            raise InvalidRecordBatch(f"a record of {size} bytes where {data_end - position} are left")
        position += 1  # attributes: no bit of them has a meaning yet
        if (number := data[position]) < 0x80:
            position += 1
            timestamp_ms = base_timestamp_ms + (number >> 1 ^ -(number & 1))
        else:
            number, position = read_varint(data, position)
            timestamp_ms = base_timestamp_ms + number
        if (number := data[position]) < 0x80:
            position += 1
            offset = base_offset + (number >> 1 ^ -(number & 1))
        elif (byte := data[position + 1]) < 0x80 and not number & 1:
            position += 2
            offset = base_offset + (number >> 1 & 0x3F | byte << 6)
        else:
            number, position = read_varint(data, position)
            offset = base_offset + number
        if (number := data[position]) == NULL_LENGTH:
            position += 1
            key = None
        elif number < 0x80 and not number & 1:
            position += 1
            key = data[position : (position := position + (number >> 1))]
        else:
            key, position = read_bytes(data, position, end)
        if (number := data[position]) & 1:
            value, position = read_bytes(data, position, end)
        elif number < 0x80:
            position += 1
            value = data[position : (position := position + (number >> 1))]
        elif (byte := data[position + 1]) < 0x80:
            position += 2
            value = data[position : (position := position + (number >> 1 & 0x3F | byte << 6))]
        else:
            value, position = read_bytes(data, position, end)
        headers: Sequence[Header] = NO_HEADERS
        if data[position] == 0:
            position += 1
        else:
            headers, position = read_record_headers(data, position, end)
        if position != end:
            raise InvalidRecordBatch(f"a record ends at {position}, not at {end}")
        if kind:
            timestamp_ms = append_time_ms
        add(new((topic, index, offset, timestamp_ms, kind, key, value, headers, leader_epoch)))
    return records, position

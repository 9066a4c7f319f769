"""Record batches, format 2: what producers send, segments hold and consumers read.

    0  base_offset i64          21  attributes i16            57  record_count i32
    8  batch_length i32         23  last_offset_delta i32     61  records, packed by the codec
   12  leader_epoch i32         27  base_timestamp_ms i64
   16  magic i8 = 2             35  max_timestamp_ms i64      batch_length counts from 12,
   17  crc u32, CRC32C of       43  producer_id i64           so a batch takes 12 + batch_length bytes.
       everything from 21       51  producer_epoch i16
                                53  base_sequence i32
    attributes: codec (bits 0 to 2), log append time (3), transactional (4), control (5), delete horizon (6)

Owns the reading and patching of headers (per batch, hot) and the encoding and decoding of records (for clients,
coordinators and recompression; what a broker looks at is in `record_scan`).
Always holds: malformed bytes raise InvalidRecordBatch and nothing else. Base offset and leader epoch lie outside the
CRC, so assigning them needs no new checksum. Does not know: files, offsets of a log, sequence rules.
"""

from collections.abc import Iterable, Iterator, Sequence
from struct import Struct, error
from typing import NamedTuple

from barnabas.protocol.checksum import Buffer, crc32c
from barnabas.protocol.compression import Codec, DecompressionError, compress, decompress

MAGIC = 2
HEADER_BYTES = 61
LOG_OVERHEAD_BYTES = 12  # base_offset and batch_length: what batch_length itself leaves out
CRC_START = 21
NULL_LENGTH = 1  # -1, zigzag
RECORD_BYTES_MIN = 7  # one byte each: length, attributes, two deltas, two null lengths, header count
# What one batch may unpack to unless the caller says otherwise: 128 times Kafka's largest message by default.
RECORDS_BYTES_MAX = 128 << 20
# As in Java: sequences and offset deltas are 32 bit numbers.
INT32_MAX = 2**31 - 1

CODEC_MASK = 0x07
LOG_APPEND_TIME_BIT = 0x08
TRANSACTIONAL_BIT = 0x10
CONTROL_BIT = 0x20
DELETE_HORIZON_BIT = 0x40

_HEADER = Struct(">qiibIhiqqqhii")
BODY = Struct(">hiqqqhii")
_BASE_OFFSET = Struct(">q")
_LEADER_EPOCH = Struct(">i")
_UINT32 = Struct(">I")
_INT16 = Struct(">h")
_INT64 = Struct(">q")
_CODECS = tuple(Codec)

assert _HEADER.size == HEADER_BYTES


class InvalidRecordBatch(ValueError):
    """These bytes are no record batch of format 2."""


class OldMessageFormat(InvalidRecordBatch):
    """A message set of format 0 or 1, which Kafka 4 no longer accepts."""


class BatchHeader(NamedTuple):
    base_offset: int
    batch_length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp_ms: int
    max_timestamp_ms: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def size_bytes(self) -> int:
        return LOG_OVERHEAD_BYTES + self.batch_length

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        return self.base_offset + self.last_offset_delta + 1

    @property
    def codec(self) -> Codec:
        number = self.attributes & CODEC_MASK
        if number >= len(_CODECS):
            raise InvalidRecordBatch(f"unknown codec {number}")
        return _CODECS[number]

    @property
    def is_log_append_time(self) -> bool:
        return bool(self.attributes & LOG_APPEND_TIME_BIT)

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & TRANSACTIONAL_BIT)

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & CONTROL_BIT)

    @property
    def delete_horizon_ms(self) -> int | None:
        """When tombstones and markers in here may go; compaction keeps it in place of the base timestamp."""
        return self.base_timestamp_ms if self.attributes & DELETE_HORIZON_BIT else None

    @property
    def has_producer_id(self) -> bool:
        return self.producer_id >= 0

    @property
    def last_sequence(self) -> int:
        """Sequences follow the highest 32 bit number with 0. A batch without sequences has -1 here too."""
        if self.base_sequence < 0:
            return self.base_sequence
        return (self.base_sequence + self.last_offset_delta) & INT32_MAX


Header = tuple[str, bytes | None]


class Record(NamedTuple):
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: Sequence[Header] = ()


_new_tuple = tuple.__new__  # a quarter of the cost of calling the class


def read_header(view: Buffer, position: int = 0) -> BatchHeader:
    """The header of the batch at this position; what follows the header need not be there."""
    try:
        header: BatchHeader = _new_tuple(BatchHeader, _HEADER.unpack_from(view, position))
    except error:
        raise _short_header(view, position) from None
    if header[3] != MAGIC or header[1] < HEADER_BYTES - LOG_OVERHEAD_BYTES:
        raise _bad_header(header[3], header[1])
    return header


def _short_header(view: Buffer, position: int) -> InvalidRecordBatch:
    left = len(view) - position
    if position >= 0 and left > 16:
        # A message of an old format may be shorter than our header; its magic lies at the same place.
        magic = memoryview(view)[position + 16]
        if magic in (0, 1):
            return OldMessageFormat(f"message format {magic}")
    return InvalidRecordBatch(f"a header takes {HEADER_BYTES} bytes where {left} are left")


def _bad_header(magic: int, batch_length: int) -> InvalidRecordBatch:
    if magic in (0, 1):
        return OldMessageFormat(f"message format {magic}")
    if magic != MAGIC:
        return InvalidRecordBatch(f"unknown message format {magic}")
    return InvalidRecordBatch(f"a batch length of {batch_length} is shorter than the header")


def read_headers(view: Buffer, position: int = 0) -> Iterator[tuple[int, BatchHeader]]:
    """Position and header of each batch to the end of the view; the last one must be whole."""
    end = len(view)
    while position < end:
        header = read_header(view, position)
        if header.size_bytes > end - position:
            raise InvalidRecordBatch(f"a batch of {header.size_bytes} bytes where {end - position} are left")
        yield position, header
        position += header.size_bytes


def crc_matches(view: memoryview, position: int, header: BatchHeader) -> bool:
    """False also where the batch is not all there."""
    end = position + LOG_OVERHEAD_BYTES + header[1]
    return end <= len(view) and crc32c(view[position + CRC_START : end]) == header[4]


def assign(view: memoryview, position: int, base_offset: int, leader_epoch: int) -> None:
    """Gives a batch its place in the log, in place. Neither field is under the CRC."""
    _BASE_OFFSET.pack_into(view, position, base_offset)
    _LEADER_EPOCH.pack_into(view, position + 12, leader_epoch)


def set_append_time(view: memoryview, position: int, timestamp_ms: int) -> None:
    """Marks a whole batch as stamped by the broker, in place: every record in it then has this timestamp."""
    header = read_header(view, position)
    end = position + header.size_bytes
    if end > len(view):
        raise InvalidRecordBatch(f"a batch of {header.size_bytes} bytes where {len(view) - position} are left")
    _INT16.pack_into(view, position + CRC_START, header.attributes | LOG_APPEND_TIME_BIT)
    _INT64.pack_into(view, position + 35, timestamp_ms)
    _UINT32.pack_into(view, position + 17, crc32c(view[position + CRC_START : end]))


def unpacked_records(view: memoryview, position: int, header: BatchHeader, size_max: int) -> bytes:
    end = position + header.size_bytes
    if end > len(view):
        raise InvalidRecordBatch(f"a batch of {header.size_bytes} bytes where {len(view) - position} are left")
    packed = view[position + HEADER_BYTES : end]
    try:
        return decompress(header.codec, packed, size_max)
    except DecompressionError as problem:
        raise InvalidRecordBatch(str(problem)) from None


def decode_records(view: Buffer, position: int = 0, *, size_max: int = RECORDS_BYTES_MAX) -> list[Record]:
    """The records of the one batch at this position. Whether its CRC matches is the caller's to ask."""
    header = read_header(view, position)
    data = unpacked_records(memoryview(view), position, header, size_max)
    if not 0 <= header.record_count * RECORD_BYTES_MIN <= len(data):
        raise InvalidRecordBatch(f"{header.record_count} records cannot lie in {len(data)} bytes")
    try:
        return _decode_all(data, header)
    except IndexError:
        raise InvalidRecordBatch("the batch ends within a record") from None


def _decode_all(data: bytes, header: BatchHeader) -> list[Record]:
    """One-byte numbers and nulls are taken in line: deltas, keys and header counts of most records are such."""
    base_offset = header.base_offset
    base_timestamp_ms = header.base_timestamp_ms
    append_time_ms = header.max_timestamp_ms if header.is_log_append_time else None
    records = []
    position = 0
    data_end = len(data)
    for _ in range(header.record_count):
        size, position = read_varint(data, position)
        end = position + size
        if size < RECORD_BYTES_MIN - 1 or end > data_end:
            raise InvalidRecordBatch(f"a record of {size} bytes where {data_end - position} are left")
        position += 1  # attributes: no bit of them has a meaning yet
        if (byte := data[position]) < 0x80:
            timestamp_ms = base_timestamp_ms + (byte >> 1 ^ -(byte & 1))
            position += 1
        else:
            timestamp_delta_ms, position = read_varint(data, position)
            timestamp_ms = base_timestamp_ms + timestamp_delta_ms
        if (byte := data[position]) < 0x80:
            offset = base_offset + (byte >> 1 ^ -(byte & 1))
            position += 1
        else:
            offset_delta, position = read_varint(data, position)
            offset = base_offset + offset_delta
        key = value = None
        if data[position] == NULL_LENGTH:
            position += 1
        else:
            key, position = read_bytes(data, position, end)
        if data[position] == NULL_LENGTH:
            position += 1
        else:
            value, position = read_bytes(data, position, end)
        headers: list[Header] = []
        if data[position] == 0:
            position += 1
        else:
            headers, position = read_record_headers(data, position, end)
        if position != end:
            raise InvalidRecordBatch(f"a record of {size} bytes ends at {position}, not at {end}")
        if append_time_ms is not None:
            timestamp_ms = append_time_ms
        records.append(_new_tuple(Record, (offset, timestamp_ms, key, value, headers)))
    if position != data_end:
        raise InvalidRecordBatch(f"{data_end - position} bytes follow the last record")
    return records


def read_varint(data: Buffer, position: int) -> tuple[int, int]:
    """A zigzag varint of at most 64 bits; IndexError where the data ends within it."""
    number = data[position]
    if number < 0x80:
        return number >> 1 ^ -(number & 1), position + 1
    byte = data[position + 1]
    position += 2
    number = number & 0x7F | (byte & 0x7F) << 7
    shift = 14
    while byte >= 0x80:
        if shift > 63:
            raise InvalidRecordBatch("a variable-length number of more than ten bytes")
        byte = data[position]
        position += 1
        number |= (byte & 0x7F) << shift
        shift += 7
    if shift > 63:
        number &= 0xFFFF_FFFF_FFFF_FFFF
    return number >> 1 ^ -(number & 1), position


def read_bytes(data: bytes, position: int, end: int) -> tuple[bytes | None, int]:
    size, position = read_varint(data, position)
    if size < 0:
        if size != -1:
            raise InvalidRecordBatch(f"a length of {size}")
        return None, position
    if size > end - position:
        raise InvalidRecordBatch(f"a field of {size} bytes where the record has {end - position} left")
    return data[position : position + size], position + size


def read_record_headers(data: bytes, position: int, end: int) -> tuple[list[Header], int]:
    count, position = read_varint(data, position)
    if not 0 <= count <= (end - position) // 2:
        raise InvalidRecordBatch(f"{count} headers where the record has {end - position} bytes left")
    headers: list[Header] = []
    for _ in range(count):
        key, position = read_bytes(data, position, end)
        if key is None:
            raise InvalidRecordBatch("a header without a key")
        value, position = read_bytes(data, position, end)
        # Nothing on the way here checks that a key is UTF-8: what is not must survive a copy unharmed.
        headers.append((key.decode("utf-8", "surrogateescape"), value))
    return headers, position


def encode_batch(
    records: Iterable[Record],
    *,
    base_offset: int = 0,
    codec: Codec = Codec.NONE,
    level: int | None = None,
    leader_epoch: int = -1,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    transactional: bool = False,
    control: bool = False,
    log_append_time: bool = False,
) -> bytearray:
    """One batch of at least one record. Offsets ascend from `base_offset` on, with gaps where the caller wants them."""
    data = bytearray()
    count = 0
    offset = base_offset - 1
    base_timestamp_ms = max_timestamp_ms = -1
    for record in records:
        if count == 0:
            base_timestamp_ms = max_timestamp_ms = record.timestamp_ms
        assert record.offset > offset, f"offset {record.offset} after {offset}"
        offset = record.offset
        max_timestamp_ms = max(max_timestamp_ms, record.timestamp_ms)
        _append_record(data, record, offset - base_offset, record.timestamp_ms - base_timestamp_ms)
        count += 1
    assert count > 0, "a batch has at least one record"
    assert offset - base_offset <= INT32_MAX
    attributes = int(codec)
    attributes |= LOG_APPEND_TIME_BIT if log_append_time else 0
    attributes |= TRANSACTIONAL_BIT if transactional else 0
    attributes |= CONTROL_BIT if control else 0
    body = BODY.pack(
        attributes,
        offset - base_offset,
        base_timestamp_ms,
        max_timestamp_ms,
        producer_id,
        producer_epoch,
        base_sequence,
        count,
    )
    return finish_batch(base_offset, leader_epoch, body, compress(codec, data, level) if codec else data)


def finish_batch(base_offset: int, leader_epoch: int, body: bytes, packed: Buffer) -> bytearray:
    """A whole batch of its header's second part and its records."""
    batch = bytearray(CRC_START)
    batch += body
    batch += packed
    _HEAD.pack_into(
        batch,
        0,
        base_offset,
        len(batch) - LOG_OVERHEAD_BYTES,
        leader_epoch,
        MAGIC,
        crc32c(memoryview(batch)[CRC_START:]),
    )
    return batch


_HEAD = Struct(">qiibI")


def _append_record(out: bytearray, record: Record, offset_delta: int, timestamp_delta_ms: int) -> None:
    body = bytearray(1)  # attributes
    append_varint(body, timestamp_delta_ms)
    append_varint(body, offset_delta)
    _append_bytes(body, record.key)
    _append_bytes(body, record.value)
    headers = record.headers
    if headers:
        append_varint(body, len(headers))
        for key, value in headers:
            _append_bytes(body, key.encode("utf-8", "surrogateescape"))
            _append_bytes(body, value)
    else:
        body.append(0)
    append_varint(out, len(body))
    out += body


def append_varint(out: bytearray, number: int) -> None:
    zigzag = number << 1 if number >= 0 else (-number << 1) - 1
    while zigzag > 0x7F:
        out.append(zigzag & 0x7F | 0x80)
        zigzag >>= 7
    out.append(zigzag)


def _append_bytes(out: bytearray, data: bytes | None) -> None:
    if data is None:
        out.append(NULL_LENGTH)
    else:
        append_varint(out, len(data))
        out += data


def recompress(
    view: Buffer, codec: Codec, *, position: int = 0, level: int | None = None, size_max: int = RECORDS_BYTES_MAX
) -> bytearray:
    """The batch at this position with its records packed otherwise; everything else as it was, and a new CRC."""
    whole = memoryview(view)
    header = read_header(whole, position)
    data = unpacked_records(whole, position, header, size_max)
    body = BODY.pack(header.attributes & ~CODEC_MASK | codec, *header[6:])
    return finish_batch(header.base_offset, header.leader_epoch, body, compress(codec, data, level))

"""Columns of records into one record batch, as producers send it: the hot path of a producer, per record.

Where all values have one length, and all keys another or none, nothing is done per record in Python: what stands
between two values comes from tables, and one join puts everything together. `benchmarks/clients.py` measures it.
Always holds: the bytes are those of `record_batch.encode_batch` for the same records.
Does not know: partitions, sequences to come (`stamp` writes them later), buffers.
"""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import groupby
from struct import Struct
from typing import Final

from barnabas.protocol.checksum import crc32c
from barnabas.protocol.compression import Codec, compress
from barnabas.protocol.record_batch import (
    BODY,
    CRC_START,
    NULL_LENGTH,
    TRANSACTIONAL_BIT,
    Header,
    append_varint,
    finish_batch,
)
from barnabas.types import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE

TABLE_SIZE: Final = 4096  # varints kept ready: offsets within a batch, and most lengths
TABLES_MAX: Final = 64  # kept at a time, one for each length of values
ONE_BYTE_MAX: Final = 64  # from here on a zigzag varint takes two bytes
TWO_BYTES_MAX: Final = 8192
UNIFORM_MIN: Final = 4  # below this the tables cost more than they save
_PRODUCER = Struct(">qhi")
_PRODUCER_START: Final = 43
_CRC = Struct(">I")
_CRC_FIELD: Final = 17
_ATTRIBUTES = Struct(">h")


def varint(number: int) -> bytes:
    if 0 <= number < TABLE_SIZE:
        return _VARINTS[number]
    out = bytearray()
    append_varint(out, number)
    return bytes(out)


def _all_varints() -> list[bytes]:
    found = []
    for number in range(TABLE_SIZE):
        out = bytearray()
        append_varint(out, number)
        found.append(bytes(out))
    return found


_VARINTS: Final = _all_varints()


def encode_records(
    values: Sequence[bytes | None],
    keys: Sequence[bytes | None] | None,
    headers: Sequence[Sequence[Header]] | None,
    timestamps_ms: Sequence[int],
) -> bytes | bytearray:
    """What follows the header of a batch, not compressed. `keys` and `headers` are None where no record has any."""
    count = len(values)
    if headers is None and UNIFORM_MIN <= count <= TABLE_SIZE and None not in values:
        value_bytes = _one_length(values)
        key_bytes = -1 if keys is None else _one_length(keys) if None not in keys else None
        if value_bytes is not None and key_bytes is not None:
            return _encode_uniform(values, value_bytes, keys, key_bytes, timestamps_ms)
    if headers is None and count <= TABLE_SIZE:
        return _encode_plain(values, keys, timestamps_ms)
    return _encode_each(values, keys, headers, timestamps_ms)


def _one_length(column: Sequence[bytes | None]) -> int | None:
    """The length that all of them have, none of which is null."""
    lengths = set(map(len, column))  # type: ignore[arg-type]
    return lengths.pop() if len(lengths) == 1 else None


def _encode_uniform(
    values: Sequence[bytes | None],
    value_bytes: int,
    keys: Sequence[bytes | None] | None,
    key_bytes: int,
    timestamps_ms: Sequence[int],
) -> bytes:
    """Each record is a beginning (length, attributes, timestamp), its offset with the key's length, and the rest.

    Beginnings are the same for a stretch of records: of one timestamp, and of offsets that take as many bytes.
    """
    count = len(values)
    step = 3 if keys is None else 5
    pieces: list[bytes | None] = [None] * (step * count + 1)
    begins: list[bytes] = []
    base_ms = timestamps_ms[0]
    between = _offsets_and_lengths(key_bytes, value_bytes)
    rest_bytes = 3 + len(varint(key_bytes)) + max(key_bytes, 0) + len(varint(value_bytes)) + value_bytes
    for timestamp_ms, size in _stretches(timestamps_ms):
        delta = varint(timestamp_ms - base_ms)
        at = len(begins)
        for offset_bytes, last in ((1, ONE_BYTE_MAX), (2, TWO_BYTES_MAX)):
            here = min(at + size, last) - len(begins)
            if here > 0:
                length = rest_bytes + len(delta) + offset_bytes - 1
                begins += [b"\0" + varint(length) + b"\0" + delta] * here
    begins[0] = begins[0][1:]  # each but the first begins with the header count of the record before it
    pieces[0:-1:step] = begins
    pieces[1:-1:step] = between[:count]
    if keys is None:
        pieces[2:-1:3] = values
    else:
        pieces[2:-1:5] = keys
        pieces[3:-1:5] = [varint(value_bytes)] * count
        pieces[4:-1:5] = values
    pieces[-1] = b"\0"
    return b"".join(pieces)  # type: ignore[arg-type]


def _stretches(timestamps_ms: Sequence[int]) -> Iterable[tuple[int, int]]:
    first = timestamps_ms[0]
    if timestamps_ms[-1] == first and timestamps_ms.count(first) == len(timestamps_ms):
        return ((first, len(timestamps_ms)),)
    return ((timestamp_ms, sum(1 for _ in same)) for timestamp_ms, same in groupby(timestamps_ms))


@lru_cache(TABLES_MAX)
def _offsets_and_lengths(key_bytes: int, value_bytes: int) -> list[bytes]:
    """By offset within the batch: the offset, the key's length, and the value's where no key stands between them."""
    lengths = varint(-1) + varint(value_bytes) if key_bytes < 0 else varint(key_bytes)
    return [offset + lengths for offset in _VARINTS]


def _encode_plain(
    values: Sequence[bytes | None], keys: Sequence[bytes | None] | None, timestamps_ms: Sequence[int]
) -> bytes:
    """Records of any size without headers: a few pieces for each, looked up."""
    varints = _VARINTS
    pieces: list[bytes] = []
    append = pieces.append
    base_ms = timestamps_ms[0]
    last_ms, begin = base_ms, b"\0\0"  # attributes and the timestamp's delta
    null, key_part = varint(-1), varint(-1)
    for place, value in enumerate(values):
        if timestamps_ms[place] != last_ms:
            last_ms = timestamps_ms[place]
            begin = b"\0" + varint(last_ms - base_ms)
        if keys is not None:
            key = keys[place]
            key_part = null if key is None else varint(len(key)) + key
        if value is None:
            value, head = b"", null
        else:
            size = len(value)
            head = varints[size] if size < TABLE_SIZE else varint(size)
        offset = varints[place]
        size = len(begin) + len(offset) + len(key_part) + len(head) + len(value) + 1
        append(varints[size] if size < TABLE_SIZE else varint(size))
        append(begin)
        append(offset)
        append(key_part)
        append(head)
        append(value)
        append(b"\0")
    return b"".join(pieces)


def _encode_each(
    values: Sequence[bytes | None],
    keys: Sequence[bytes | None] | None,
    headers: Sequence[Sequence[Header]] | None,
    timestamps_ms: Sequence[int],
) -> bytearray:
    out = bytearray()
    base_ms = timestamps_ms[0]
    null = varint(-1)
    assert null[0] == NULL_LENGTH
    for offset, value in enumerate(values):
        key = None if keys is None else keys[offset]
        key_head = null if key is None else varint(len(key))
        value_head = null if value is None else varint(len(value))
        timestamp, place = varint(timestamps_ms[offset] - base_ms), varint(offset)
        of_record = headers[offset] if headers is not None else None
        tail = _encode_headers(of_record) if of_record else b"\0"
        body_bytes = 1 + len(timestamp) + len(place) + len(key_head) + len(value_head) + len(tail)
        body_bytes += (0 if key is None else len(key)) + (0 if value is None else len(value))
        out += varint(body_bytes)
        out += b"\0"
        out += timestamp
        out += place
        out += key_head
        if key is not None:
            out += key
        out += value_head
        if value is not None:
            out += value
        out += tail
    return out


def _encode_headers(headers: Sequence[Header]) -> bytearray:
    out = bytearray(varint(len(headers)))
    for name, value in headers:
        encoded = name.encode("utf-8", "surrogateescape")
        out += varint(len(encoded))
        out += encoded
        out += varint(-1 if value is None else len(value))
        if value is not None:
            out += value
    return out


def encode_columns(
    values: Sequence[bytes | None],
    keys: Sequence[bytes | None] | None,
    headers: Sequence[Sequence[Header]] | None,
    timestamps_ms: Sequence[int],
    *,
    codec: Codec = Codec.NONE,
    level: int | None = None,
    transactional: bool = False,
) -> bytearray:
    """A batch that belongs to no producer yet."""
    data = encode_records(values, keys, headers, timestamps_ms)
    count = len(values)
    body = BODY.pack(
        int(codec) | (TRANSACTIONAL_BIT if transactional else 0),
        count - 1,
        timestamps_ms[0],
        max(timestamps_ms),
        NO_PRODUCER_ID,
        NO_PRODUCER_EPOCH,
        NO_SEQUENCE,
        count,
    )
    return finish_batch(0, -1, body, compress(codec, data, level) if codec else data)


def stamp(batch: bytearray, producer_id: int, producer_epoch: int, base_sequence: int) -> None:
    """Says whose the batch is and which are its sequences, in place."""
    _PRODUCER.pack_into(batch, _PRODUCER_START, producer_id, producer_epoch, base_sequence)
    _CRC.pack_into(batch, _CRC_FIELD, crc32c(memoryview(batch)[CRC_START:]))

"""The four codecs of record batches, with a bound on what they may unpack to.

Owns the framing that each codec has in Kafka:
    gzip    RFC 1952, any number of members
    snappy  xerial's chunks as Kafka's Java client writes, or one raw block as librdkafka writes:
            82 "SNAPPY" 00 | version i32 = 1 | compatible i32 = 1 | (length i32, raw block)*
    lz4     LZ4 frames; written with independent 64 KiB blocks and no checksums, since Kafka refuses linked blocks
    zstd    RFC 8878 frames

Always holds: `decompress` returns at most `size_max` bytes and never allocates much more on the way, whatever the
input claims; bad input raises DecompressionError and nothing else.
Does not know: records or batches.
"""

import zlib
from collections.abc import Callable
from enum import IntEnum
from struct import Struct, error
from typing import TYPE_CHECKING

from barnabas.protocol.checksum import Buffer

if TYPE_CHECKING:
    from types import ModuleType


class Codec(IntEnum):
    """The low three bits of a batch's attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


class DecompressionError(ValueError):
    """The bytes are not what the codec wrote, or unpack to more than was allowed."""


class TooMuchData(DecompressionError):
    """They unpack to more than was allowed, or might: where they are corrupt as well, nobody knows."""


# Kafka's defaults (compression.gzip.level, compression.zstd.level); Java's -1 for gzip means 6.
GZIP_LEVEL = 6
ZSTD_LEVEL = 3
# Kafka's default for LZ4 is 9, yet at 9 its client takes the fast compressor: only other levels mean the thorough one.
LZ4_LEVEL_FAST = 9

# zlib copies what follows a member out of its input: small slices keep a thousand tiny members from costing much.
GZIP_CHUNK_BYTES = 16 * 1024

XERIAL_MAGIC = b"\x82SNAPPY\x00"
XERIAL_HEADER = XERIAL_MAGIC + b"\x00\x00\x00\x01\x00\x00\x00\x01"
XERIAL_CHUNK_BYTES = 32 * 1024
# The densest element takes three bytes and stands for 64: no honest block unpacks to more than this many times itself.
SNAPPY_RATIO_MAX = 22

LZ4_MAGIC = 0x184D2204
# Version 1, independent blocks of at most 64 KiB, no checksums but the header's own, which is the last byte.
LZ4_HEADER = b"\x04\x22\x4d\x18\x60\x40\x82"
LZ4_CHUNK_BYTES = 64 * 1024
LZ4_BLOCK_BYTES_MAX = {4: 64 << 10, 5: 256 << 10, 6: 1 << 20, 7: 4 << 20}
LZ4_UNCOMPRESSED_BIT = 0x8000_0000

ZSTD_MAGIC = 0xFD2FB528
ZSTD_BLOCK_BYTES_MAX = 128 << 10

_INT32 = Struct(">i")
_UINT32_LE = Struct("<I")


def compress(codec: Codec, data: Buffer, level: int | None = None) -> bytes:
    """Level is the codec's own scale, as in Kafka's `compression.<codec>.level`; Snappy has none."""
    if codec == Codec.GZIP:
        compressor = zlib.compressobj(GZIP_LEVEL if level is None else level, zlib.DEFLATED, 31)
        return compressor.compress(data) + compressor.flush()
    if codec == Codec.SNAPPY:
        return _compress_xerial(data)
    if codec == Codec.LZ4:
        return _compress_lz4(data, level)
    if codec == Codec.ZSTD:
        return bytes(_cramjam().zstd.compress(data, level=ZSTD_LEVEL if level is None else level))
    assert codec == Codec.NONE
    return bytes(data)


def decompress(codec: Codec, data: Buffer, size_max: int) -> bytes:
    """The unpacked bytes; DecompressionError where they are malformed or more than `size_max`."""
    return bytes(unpack(codec, data, size_max))


def unpack(codec: Codec, data: Buffer, size_max: int) -> bytes | bytearray:
    """As `decompress`, in whatever the codec gives: a large batch is in memory once."""
    if codec == Codec.GZIP:
        return _decompress_gzip(data, size_max)
    if codec == Codec.SNAPPY:
        return _decompress_snappy(memoryview(data), size_max)
    if codec == Codec.LZ4:
        bound = _unpacked_bound(memoryview(data), "lz4", LZ4_MAGIC, _lz4_frame)
        return _decompress_bounded("lz4", data, bound, size_max)
    if codec == Codec.ZSTD:
        bound = _unpacked_bound(memoryview(data), "zstd", ZSTD_MAGIC, _zstd_frame)
        return _decompress_bounded("zstd", data, bound, size_max)
    assert codec == Codec.NONE
    if len(data) > size_max:
        raise TooMuchData(f"{len(data)} bytes where at most {size_max} are allowed")
    return bytes(data)


def _cramjam() -> "ModuleType":
    # On first use: most brokers never unpack a batch, and need not carry the library.
    import cramjam

    return cramjam


def _decompress_gzip(data: Buffer, size_max: int) -> bytes:
    view = memoryview(data)
    parts = []
    room = size_max
    position = 0
    member = zlib.decompressobj(31)
    while position < len(view):
        if member.eof:
            member = zlib.decompressobj(31)
        chunk = view[position : position + GZIP_CHUNK_BYTES]
        try:
            part = member.decompress(chunk, room + 1)
        except zlib.error as problem:
            raise DecompressionError(f"gzip: {problem}") from None
        room -= len(part)
        if room < 0:
            raise TooMuchData(f"gzip: unpacks to more than {size_max} bytes")
        parts.append(part)
        position += len(chunk) - len(member.unused_data)
    if not member.eof:
        raise DecompressionError("gzip: the data ends within a member")
    return b"".join(parts)


def _compress_xerial(data: Buffer) -> bytes:
    compress_raw = _cramjam().snappy.compress_raw
    view = memoryview(data)
    out = bytearray(XERIAL_HEADER)
    for start in range(0, len(view), XERIAL_CHUNK_BYTES):
        block = memoryview(compress_raw(view[start : start + XERIAL_CHUNK_BYTES]))
        out += _INT32.pack(len(block))
        out += block
    return bytes(out)


def _decompress_snappy(data: memoryview, size_max: int) -> bytes:
    if data[:8] != XERIAL_MAGIC:
        return _decompress_snappy_block(data, size_max)
    parts = []
    room = size_max
    position = 0
    while position < len(data):
        # Streams written one after the other each bring their own header.
        if data[position : position + 8] == XERIAL_MAGIC:
            position += len(XERIAL_HEADER)
            continue
        try:
            (size,) = _INT32.unpack_from(data, position)
        except error:
            raise DecompressionError("snappy: the data ends within a chunk's length") from None
        position += 4
        if not 0 <= size <= len(data) - position:
            raise DecompressionError(f"snappy: a chunk of {size} bytes where {len(data) - position} are left")
        part = _decompress_snappy_block(data[position : position + size], room)
        room -= len(part)
        parts.append(part)
        position += size
    if position != len(data):
        raise DecompressionError("snappy: the data ends within a header")
    return b"".join(parts)


def _decompress_snappy_block(block: memoryview, size_max: int) -> bytes:
    cramjam = _cramjam()
    if not block:
        raise DecompressionError("snappy: an empty block")
    try:
        size = cramjam.snappy.decompress_raw_len(block)
        if size > size_max:
            raise TooMuchData(f"snappy: unpacks to {size} bytes where at most {size_max} are allowed")
        if size > SNAPPY_RATIO_MAX * len(block):
            raise DecompressionError(f"snappy: {len(block)} bytes cannot hold the {size} that they claim")
        return bytes(cramjam.snappy.decompress_raw(block))
    except cramjam.DecompressionError as problem:
        raise DecompressionError(str(problem)) from None


def _decompress_bounded(name: str, data: Buffer, bound: int, size_max: int) -> bytearray:
    """Unpacks into a buffer of fixed size, so that a bomb hits its end instead of growing it."""
    cramjam = _cramjam()
    out = bytearray(min(bound, size_max))
    try:
        size = getattr(cramjam, name).decompress_into(data, out)
    except cramjam.DecompressionError as problem:
        if bound > size_max:
            raise TooMuchData(f"{name}: {problem}, or unpacks to more than {size_max} bytes") from None
        raise DecompressionError(f"{name}: {problem}") from None
    del out[size:]
    return out


def _compress_lz4(data: Buffer, level: int | None) -> bytes:
    lz4 = _cramjam().lz4
    if level is not None and level != LZ4_LEVEL_FAST:
        # The library heeds the level only here. These frames have block checksums, which Kafka reads as well.
        thorough = lz4.Compressor(level=level, content_checksum=False, block_linked=False)
        thorough.compress(bytes(data))
        return bytes(thorough.finish())
    view = memoryview(data)
    out = bytearray(LZ4_HEADER)
    for start in range(0, len(view), LZ4_CHUNK_BYTES):
        chunk = view[start : start + LZ4_CHUNK_BYTES]
        block = memoryview(lz4.compress_block(chunk, store_size=False))
        if len(block) < len(chunk):
            out += _UINT32_LE.pack(len(block))
            out += block
        else:
            out += _UINT32_LE.pack(len(chunk) | LZ4_UNCOMPRESSED_BIT)
            out += chunk
    out += bytes(4)  # a block of no bytes ends the frame
    return bytes(out)


def _unpacked_bound(
    data: memoryview, name: str, frame_magic: int, read_frame: Callable[[memoryview, int], tuple[int, int]]
) -> int:
    """At most how many bytes these LZ4 or Zstandard frames unpack to, from the headers of their blocks alone."""
    bound = 0
    position = 0
    try:
        while position < len(data):
            (magic,) = _UINT32_LE.unpack_from(data, position)
            if magic & 0xFFFF_FFF0 == 0x184D2A50:  # a frame of either that carries somebody's notes
                position += 8 + int(_UINT32_LE.unpack_from(data, position + 4)[0])
                continue
            if magic != frame_magic:
                raise DecompressionError(f"{name}: no frame here")
            position, frame_bound = read_frame(data, position)
            bound += frame_bound
    except (error, IndexError):
        raise DecompressionError(f"{name}: the data ends within a header") from None
    return bound


def _lz4_frame(data: memoryview, position: int) -> tuple[int, int]:
    """End of one frame, and at most how many bytes it unpacks to."""
    flags, block_descriptor = data[position + 4], data[position + 5]
    block_bytes_max = LZ4_BLOCK_BYTES_MAX.get(block_descriptor >> 4 & 7)
    if block_bytes_max is None or flags >> 6 != 1:
        raise DecompressionError("lz4: a frame of unknown version or block size")
    has_block_checksum, has_content_size, has_content_checksum = flags & 0x10, flags & 0x08, flags & 0x04
    has_dictionary = flags & 0x01
    position += 7 + (8 if has_content_size else 0) + (4 if has_dictionary else 0)
    bound = 0
    while True:
        (size,) = _UINT32_LE.unpack_from(data, position)
        position += 4
        if size == 0:
            return position + (4 if has_content_checksum else 0), bound
        stored = size & ~LZ4_UNCOMPRESSED_BIT
        bound += stored if size & LZ4_UNCOMPRESSED_BIT else block_bytes_max
        position += stored + (4 if has_block_checksum else 0)


def _zstd_frame(data: memoryview, position: int) -> tuple[int, int]:
    """End of one frame, and at most how many bytes it unpacks to. RFC 8878, section 3.1.1."""
    descriptor = data[position + 4]
    single_segment = descriptor & 0x20
    window_bytes = 0 if single_segment else 1
    dictionary_bytes = (0, 1, 2, 4)[descriptor & 3]
    content_size_bytes = (1 if single_segment else 0, 2, 4, 8)[descriptor >> 6]
    position += 5 + window_bytes + dictionary_bytes + content_size_bytes
    bound = 0
    last = False
    while not last:
        header = data[position] | data[position + 1] << 8 | data[position + 2] << 16
        last, kind, size = bool(header & 1), header >> 1 & 3, header >> 3
        if kind == 3:
            raise DecompressionError("zstd: a block of the reserved kind")
        bound += ZSTD_BLOCK_BYTES_MAX if kind == 2 else size
        position += 3 + (1 if kind == 1 else size)
    return position + (4 if descriptor & 0x04 else 0), bound

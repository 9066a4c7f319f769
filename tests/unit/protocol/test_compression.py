"""Each codec: its framing, the variants that others write, bombs and broken input."""

import gzip
import tracemalloc
import zlib

import cramjam
import pytest

from barnabas.protocol.compression import XERIAL_HEADER, Codec, DecompressionError, compress, decompress

PACKED = [codec for codec in Codec if codec is not Codec.NONE]
TEXT = b"the same words again and again, " * 10_000
INPUTS = {"empty": b"", "byte": b"x", "text": TEXT, "zeros": bytes(100_000), "noise": zlib.compress(TEXT, 9) * 9}


@pytest.mark.parametrize("data", INPUTS.values(), ids=INPUTS.keys())
@pytest.mark.parametrize("codec", list(Codec))
def test_what_goes_in_comes_out(codec: Codec, data: bytes) -> None:
    for kind in (bytes, bytearray, memoryview):
        packed = compress(codec, kind(data))
        assert decompress(codec, kind(packed), len(data)) == data


@pytest.mark.parametrize("level", [1, 9, 12])
@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.LZ4, Codec.ZSTD])
def test_levels_are_the_codecs_own(codec: Codec, level: int) -> None:
    level = min(level, 9) if codec is Codec.GZIP else level
    assert decompress(codec, compress(codec, TEXT, level), len(TEXT)) == TEXT


@pytest.mark.parametrize("codec", PACKED)
def test_the_limit_holds_to_the_byte(codec: Codec) -> None:
    packed = compress(codec, TEXT)
    assert decompress(codec, packed, len(TEXT)) == TEXT
    with pytest.raises(DecompressionError):
        decompress(codec, packed, len(TEXT) - 1)


def test_the_limit_holds_without_a_codec() -> None:
    assert decompress(Codec.NONE, b"12", 2) == b"12"
    with pytest.raises(DecompressionError):
        decompress(Codec.NONE, b"123", 2)


@pytest.mark.parametrize("codec", PACKED)
def test_a_bomb_does_not_eat_memory(codec: Codec) -> None:
    bomb = compress(codec, bytes(64 << 20))
    tracemalloc.start()
    try:
        with pytest.raises(DecompressionError):
            decompress(codec, bomb, 1 << 20)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 4 << 20


def test_a_snappy_block_cannot_claim_more_than_it_could_hold() -> None:
    with pytest.raises(DecompressionError, match="cannot hold"):
        decompress(Codec.SNAPPY, b"\xff\xff\xff\x7f\x00x", 1 << 30)


@pytest.mark.parametrize("codec", PACKED)
def test_every_prefix_is_refused(codec: Codec) -> None:
    packed = compress(codec, TEXT[:2_000])
    # A xerial stream may end after its header or after any chunk: there is no end mark to miss.
    whole_anyway = {0, len(XERIAL_HEADER)} if codec is Codec.SNAPPY else {0}
    for size in range(len(packed)):
        if size not in whole_anyway:
            with pytest.raises(DecompressionError):
                decompress(codec, packed[:size], 10_000)


def test_gzip_of_several_members() -> None:
    members = b"".join(gzip.compress(b"part %d " % number) for number in range(3))
    assert decompress(Codec.GZIP, members, 100) == b"part 0 part 1 part 2 "
    with pytest.raises(DecompressionError):
        decompress(Codec.GZIP, members, 20)
    with pytest.raises(DecompressionError):
        decompress(Codec.GZIP, members + b"junk", 100)


def test_gzip_of_ten_thousand_members_takes_no_time() -> None:
    assert decompress(Codec.GZIP, gzip.compress(b"") * 10_000, 100) == b""


def test_snappy_of_both_framings() -> None:
    raw = bytes(cramjam.snappy.compress_raw(TEXT))
    assert decompress(Codec.SNAPPY, raw, len(TEXT)) == TEXT
    framed = compress(Codec.SNAPPY, TEXT)
    assert framed.startswith(b"\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01")
    assert decompress(Codec.SNAPPY, framed + framed, 2 * len(TEXT)) == TEXT + TEXT


@pytest.mark.parametrize("size", [b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff", b"\x00\x00\x00\x00", b"\x00\x00\x00"])
def test_a_wrong_chunk_length_is_refused(size: bytes) -> None:
    with pytest.raises(DecompressionError):
        decompress(Codec.SNAPPY, XERIAL_HEADER + size + b"abc", 100)


def test_lz4_is_written_as_kafka_can_read_it() -> None:
    """Version 1, independent blocks of 64 KiB, no checksums: what Kafka's client writes. It refuses linked blocks."""
    assert compress(Codec.LZ4, TEXT).startswith(b"\x04\x22\x4d\x18\x60\x40\x82")
    assert compress(Codec.LZ4, b"").endswith(b"\x82" + bytes(4))
    assert len(compress(Codec.LZ4, INPUTS["noise"])) <= len(INPUTS["noise"]) + 15


def test_lz4_levels_other_than_the_default_pack_tighter() -> None:
    assert compress(Codec.LZ4, TEXT, 9) == compress(Codec.LZ4, TEXT)
    numbers = b" ".join(b"%d" % (number * number) for number in range(10_000))
    assert len(compress(Codec.LZ4, numbers, 12)) < len(compress(Codec.LZ4, numbers))


@pytest.mark.parametrize("linked", [True, False])
@pytest.mark.parametrize("checksum", [True, False])
def test_lz4_variants_are_read(linked: bool, checksum: bool) -> None:
    compressor = cramjam.lz4.Compressor(level=1, content_checksum=checksum, block_linked=linked)
    compressor.compress(TEXT)
    packed = bytes(compressor.finish())
    assert decompress(Codec.LZ4, packed, len(TEXT)) == TEXT
    assert decompress(Codec.LZ4, packed + packed, 2 * len(TEXT)) == TEXT * 2


def test_lz4_with_content_size_and_block_checksums_is_read() -> None:
    data = b"hello hello hello hello"
    block = bytes(cramjam.lz4.compress_block(data, store_size=False))
    descriptor = b"\x7c\x40" + len(data).to_bytes(8, "little")
    header = b"\x04\x22\x4d\x18" + descriptor + _xxh32(descriptor)[1:2]
    packed = header + len(block).to_bytes(4, "little") + block + _xxh32(block) + bytes(4) + _xxh32(data)
    assert decompress(Codec.LZ4, packed, len(data)) == data


def _xxh32(data: bytes) -> bytes:
    """xxHash, 32 bits, seed 0, little endian: LZ4's checksum, of which no library is at hand."""
    mask, one, two, three, four, five = 2**32 - 1, 2654435761, 2246822519, 3266489917, 668265263, 374761393

    def rotated(number: int, by: int) -> int:
        return (number << by | number >> (32 - by)) & mask

    position = 0
    if len(data) >= 16:
        lanes = [(one + two) & mask, two, 0, -one & mask]
        while position + 16 <= len(data):
            for lane in range(4):
                word = int.from_bytes(data[position : position + 4], "little")
                lanes[lane] = rotated((lanes[lane] + word * two) & mask, 13) * one & mask
                position += 4
        total = sum(rotated(lane, by) for lane, by in zip(lanes, (1, 7, 12, 18), strict=True)) & mask
    else:
        total = five
    total = (total + len(data)) & mask
    while position + 4 <= len(data):
        word = int.from_bytes(data[position : position + 4], "little")
        total = rotated((total + word * three) & mask, 17) * four & mask
        position += 4
    for byte in data[position:]:
        total = rotated((total + byte * five) & mask, 11) * one & mask
    total = (total ^ total >> 15) * two & mask
    total = (total ^ total >> 13) * three & mask
    return ((total ^ total >> 16) & mask).to_bytes(4, "little")


def test_zstd_frames_with_and_without_content_size_are_read() -> None:
    streamed = cramjam.zstd.Compressor(level=3)
    streamed.compress(TEXT)
    packed = bytes(streamed.finish())
    assert decompress(Codec.ZSTD, packed, len(TEXT)) == TEXT
    assert decompress(Codec.ZSTD, packed + compress(Codec.ZSTD, TEXT), 2 * len(TEXT)) == TEXT * 2


@pytest.mark.parametrize("codec", [Codec.LZ4, Codec.ZSTD])
def test_skippable_frames_are_skipped(codec: Codec) -> None:
    note = b"\x53\x2a\x4d\x18" + (5).to_bytes(4, "little") + b"notes"
    assert decompress(codec, note + compress(codec, TEXT), len(TEXT)) == TEXT


@pytest.mark.parametrize("codec", PACKED)
@pytest.mark.parametrize("junk", [b"x", b"\x00" * 40, b"\xff" * 40, b"plain text of some length, 40 bytes in all"])
def test_what_no_codec_wrote_is_refused(codec: Codec, junk: bytes) -> None:
    with pytest.raises(DecompressionError):
        decompress(codec, junk, 10_000)

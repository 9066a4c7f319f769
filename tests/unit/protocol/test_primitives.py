"""Varints, tagged fields and the two forms of records, at the edges of what the wire allows."""

import pytest

from barnabas.protocol.message import DecodeError, EncodeError
from barnabas.protocol.primitives import (
    Output,
    read_string_size,
    read_tag,
    read_uvarint,
    skip_tags,
    write_compact_records,
    write_records,
    write_string_size,
    write_uvarint,
)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "00"),
        (127, "7f"),
        (128, "8001"),
        (16383, "ff7f"),
        (16384, "808001"),
        (2**31 - 1, "ffffffff07"),
        (2**32 - 1, "ffffffff0f"),
    ],
)
def test_uvarint(value: int, text: str) -> None:
    data = bytes.fromhex(text)
    out = bytearray()
    write_uvarint(out, value)
    assert out == data
    assert read_uvarint(memoryview(b"x" + data), 1) == (value, len(data))
    for size in range(len(data)):
        with pytest.raises(IndexError):  # the door to decoding turns it into DecodeError
            read_uvarint(memoryview(data)[:size], 0)


@pytest.mark.parametrize("text", ["ffffffff10", "ffffffff7f", "8080808080", "ffffffffff01"])
def test_uvarint_too_large(text: str) -> None:
    with pytest.raises(DecodeError):
        read_uvarint(memoryview(bytes.fromhex(text)), 0)


def test_a_varint_longer_than_needed_is_read() -> None:
    assert read_uvarint(memoryview(bytes.fromhex("8000")), 0) == (0, 1)


def test_strings_have_a_limit() -> None:
    out = bytearray()
    write_string_size(out, 32767)
    assert read_string_size(memoryview(out), 0) == (32768, 2)
    with pytest.raises(EncodeError):
        write_string_size(out, 32768)
    out.clear()
    write_uvarint(out, 32769)
    with pytest.raises(DecodeError):
        read_string_size(memoryview(out), 0)


def test_tagged_fields() -> None:
    view = memoryview(bytes.fromhex("02 00 00 05 02 aabb"))
    assert read_tag(view, 1, len(view)) == (0, 3, 3)
    assert read_tag(view, 3, len(view)) == (5, 5, 7)
    assert skip_tags(view, 0, len(view)) == 7
    with pytest.raises(DecodeError):
        skip_tags(view[:-1], 0, len(view) - 1)


class Range:
    size_bytes = 300


@pytest.mark.parametrize(
    ("write", "null", "empty", "long"),
    [(write_records, "ffffffff", "00000000", "0000012c"), (write_compact_records, "00", "01", "ad02")],
)
def test_records(write: object, null: str, empty: str, long: str) -> None:
    assert callable(write)
    for records, text in ((None, null), (b"", empty)):
        out = bytearray()
        write(out, records, True)
        assert out == bytes.fromhex(text)
    for records in (b"\x07" * 300, bytearray(b"\x07" * 300), memoryview(b"\x07" * 300)):
        out = bytearray()
        write(out, records, False)
        assert out == bytes.fromhex(long) + b"\x07" * 300
    with pytest.raises(EncodeError):
        write(bytearray(), None, False)


@pytest.mark.parametrize(("write", "text"), [(write_records, "0000012c"), (write_compact_records, "ad02")])
def test_records_in_a_file_stay_there(write: object, text: str) -> None:
    assert callable(write)
    out, source = Output(), Range()
    write(out, source, True)
    assert out == bytes.fromhex(text)
    assert out.splices == [(len(out), source)]
    assert out.spliced_bytes == 300
    with pytest.raises(EncodeError):
        write(bytearray(), source, True)

"""The slow paths of the generated code, and the buffer that answers are written to.

Generated functions handle the common case inline (sizes of one byte, no tagged fields) and call these for the rest.
A size on the wire is an unsigned varint of at most five bytes; in compact strings, bytes and arrays it is one more than
the number of elements, and zero means null.

    varint    0xxxxxxx  or  1xxxxxxx 1xxxxxxx … 0xxxxxxx, least significant seven bits first
    tags      count, then for each: tag, size, that many bytes; all three are unsigned varints

Always holds: nothing here reads beyond the view, and every loop is bounded by the bytes that are there.
Does not know: any particular message.
"""

from struct import Struct
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from barnabas.protocol.message import DecodeError, EncodeError

T = TypeVar("T")

STRING_BYTES_MAX = 32767  # Kafka's own limit, whatever the width of the size field


# Arrays of int32 are mostly short lists of replicas: these save building a format for each. Indexed by the count.
INT32_COUNT_READY: Final = 9
PACK_INT32: Final = tuple(Struct(f">{count}i").pack for count in range(INT32_COUNT_READY))
UNPACK_INT32: Final = tuple(Struct(f">{count}i").unpack_from for count in range(INT32_COUNT_READY))


class Spliceable(Protocol):
    """Bytes that stay where they are (a range of a file) until the connection sends them."""

    @property
    def size_bytes(self) -> int: ...


Records = bytes | bytearray | memoryview | Spliceable
BYTES_LIKE: Final = (bytes, bytearray, memoryview)


class Output(bytearray):
    """An answer being written. Bytes that are sent from a file are remembered with their place, not copied."""

    __slots__ = ("spliced_bytes", "splices")

    def __init__(self) -> None:
        super().__init__()
        self.splices: list[tuple[int, Spliceable]] = []  # ascending positions: the object goes before that byte
        self.spliced_bytes = 0

    def splice(self, source: Spliceable) -> None:
        self.splices.append((len(self), source))
        self.spliced_bytes += source.size_bytes

    @property
    def size_bytes(self) -> int:
        """What the peer will receive."""
        return len(self) + self.spliced_bytes


if TYPE_CHECKING:

    def new(message_class: type[T]) -> T:
        """An instance whose slots are not yet filled: a decoder fills them all."""

else:
    new = object.__new__


def read_uvarint(view: memoryview, position: int) -> tuple[int, int]:
    """The value that begins at `position`, and the position of its last byte. benchmarks/message_codec.py"""
    first = view[position]
    if first < 0x80:
        return first, position
    second = view[position + 1]
    if second < 0x80:
        return first & 0x7F | second << 7, position + 1
    third = view[position + 2]
    if third < 0x80:
        return first & 0x7F | (second & 0x7F) << 7 | third << 14, position + 2
    fourth = view[position + 3]
    value = first & 0x7F | (second & 0x7F) << 7 | (third & 0x7F) << 14 | (fourth & 0x7F) << 21
    if fourth < 0x80:
        return value, position + 3
    fifth = view[position + 4]
    if fifth > 0x0F:
        raise DecodeError("a varint does not fit in 32 bits")
    return value | fifth << 28, position + 4


def read_string_size(view: memoryview, position: int) -> tuple[int, int]:
    """As `read_uvarint`, for the size of a compact string."""
    size, position = read_uvarint(view, position)
    if size > STRING_BYTES_MAX + 1:
        raise DecodeError(f"a string of {size - 1} bytes; at most {STRING_BYTES_MAX} are allowed")
    return size, position


def read_tag(view: memoryview, position: int, end: int) -> tuple[int, int, int]:
    """A tagged field's tag, the position of its value, and the position after its value."""
    tag, position = read_uvarint(view, position)
    size, position = read_uvarint(view, position + 1)
    position += 1
    if size > end - position:
        raise DecodeError(f"tagged field {tag} of {size} bytes; {end - position} are left")
    return tag, position, position + size


def skip_tags(view: memoryview, position: int, end: int) -> int:
    """The position after a section of tagged fields, none of which is known."""
    count, position = read_uvarint(view, position)
    position += 1
    for _ in range(count):
        _tag, _start, position = read_tag(view, position, end)
    return position


def write_uvarint(out: bytearray, value: int) -> None:
    if value < 0x80:
        out.append(value)
    elif value < 0x4000:
        out += bytes((value & 0x7F | 0x80, value >> 7))
    elif value < 0x200000:
        out += bytes((value & 0x7F | 0x80, value >> 7 & 0x7F | 0x80, value >> 14))
    else:
        while value > 0x7F:
            out.append(value & 0x7F | 0x80)
            value >>= 7
        out.append(value)


def write_string_size(out: bytearray, size_bytes: int) -> None:
    """The size of a compact string."""
    if size_bytes > STRING_BYTES_MAX:
        raise EncodeError(f"a string of {size_bytes} bytes; at most {STRING_BYTES_MAX} are allowed")
    write_uvarint(out, size_bytes + 1)


def write_tagged(out: bytearray, tag: int, value: bytearray) -> None:
    write_uvarint(out, tag)
    write_uvarint(out, len(value))
    out += value


def write_records(out: bytearray, records: Records | None, nullable: bool) -> None:
    """Records before the flexible versions: a size of four bytes, -1 for null."""
    if isinstance(records, BYTES_LIKE):
        out += len(records).to_bytes(4, "big", signed=True)
        out += records
    elif records is None:
        _require(nullable)
        out += b"\xff\xff\xff\xff"
    else:
        out += records.size_bytes.to_bytes(4, "big", signed=True)
        _splice(out, records)


def write_compact_records(out: bytearray, records: Records | None, nullable: bool) -> None:
    """Records in flexible versions: their size plus one as a varint, 0 for null."""
    if isinstance(records, BYTES_LIKE):
        write_uvarint(out, len(records) + 1)
        out += records
    elif records is None:
        _require(nullable)
        out.append(0)
    else:
        write_uvarint(out, records.size_bytes + 1)
        _splice(out, records)


def _require(nullable: bool) -> None:
    if not nullable:
        raise EncodeError("records: null")


def _splice(out: bytearray, source: Spliceable) -> None:
    if not isinstance(out, Output):
        raise EncodeError("records that stay in a file can only be written to an Output")
    out.splice(source)

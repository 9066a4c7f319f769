"""What all generated messages share: equality, a readable form, and the door through which they are coded.

Always holds: whatever the bytes, decoding returns a message or raises DecodeError (a version that the message does not
have is UnsupportedVersionError); it never reads beyond the view. Encoding a value that the wire cannot carry raises
EncodeError or UnsupportedVersionError, and then `out` may end in a part of the message. In strings that are not UTF-8,
U+FFFD stands for what is wrong, as in Kafka.
Does not know: any particular message, headers, frames.
"""

from codecs import register_error
from collections.abc import Callable, Mapping
from struct import error as StructError
from typing import Any, ClassVar, Final, Self

NEVER_FLEXIBLE: Final = 32768  # above every version, so that `version >= FLEXIBLE_FROM` is right for all messages

# Stands for "not given" where None is a value, or where the default must be a fresh object for each message.
UNSET: Final[Any] = type("Unset", (), {"__slots__": (), "__repr__": lambda self: "UNSET"})()

Decoder = Callable[[memoryview, int], tuple[Any, int]]
Encoder = Callable[[Any, bytearray], None]


class DecodeError(Exception):
    """The bytes are not the message that they were said to be."""


class EncodeError(Exception):
    """A value that the wire cannot carry: out of range, too long, null where null is not allowed."""


class UnsupportedVersionError(Exception):
    """The message has no such version, or a field is set that this version cannot carry and that may not be dropped."""


class Structure:
    """A structure of the protocol. Its slots are its fields, in Kafka's order.

    A tagged structure that is not nullable is None while it is absent; Kafka would have one full of defaults there.
    """

    __slots__: tuple[str, ...] = ()
    __hash__ = None  # type: ignore[assignment]  # fields may be assigned

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in self.__slots__)

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={_short(getattr(self, name))}" for name in self.__slots__)
        return f"{type(self).__name__}({fields})"


class Message(Structure):
    """A message that stands by itself: a request, a response, a header, a record."""

    __slots__ = ()

    API_KEY: ClassVar[int] = -1  # of a record: its type within its topic; -1 where there is neither
    MIN_VERSION: ClassVar[int]
    MAX_VERSION: ClassVar[int]
    FLEXIBLE_FROM: ClassVar[int] = NEVER_FLEXIBLE

    _decoders: ClassVar[Mapping[int, Decoder]]
    _encoders: ClassVar[Mapping[int, Encoder]]

    @classmethod
    def decode(cls, view: memoryview, position: int, version: int) -> tuple[Self, int]:
        """The message that begins at `position`, and the position after it."""
        decoder = cls._decoders.get(version)
        if decoder is None:
            raise UnsupportedVersionError(f"{cls.__name__} has no version {version}")
        try:
            return decoder(view, position)
        except (IndexError, StructError) as error:
            raise DecodeError(f"{cls.__name__} version {version}: the input ends within the message") from error
        except (ValueError, DecodeError) as error:
            raise DecodeError(f"{cls.__name__} version {version}: {error}") from error

    def encode(self, out: bytearray, version: int) -> None:
        """Appends the message to `out`."""
        encoder = self._encoders.get(version)
        if encoder is None:
            raise UnsupportedVersionError(f"{type(self).__name__} has no version {version}")
        try:
            encoder(self, out)
        except UnsupportedVersionError as error:
            raise UnsupportedVersionError(f"{type(self).__name__} version {version}: {error}") from None
        except (StructError, ValueError, TypeError, AttributeError, EncodeError) as error:
            raise EncodeError(f"{type(self).__name__} version {version}: {error}") from error


_REPLACEMENT: Final = "\ufffd"
SURROGATE_FIRST_BYTE: Final = 0xED


def _replace_malformed(error: UnicodeError) -> tuple[str, int]:
    """As Java decodes: of a surrogate's bytes, which are no UTF-8, all have one replacement."""
    if not isinstance(error, UnicodeDecodeError):
        raise error
    data, start = error.object, error.start
    if data[start] == SURROGATE_FIRST_BYTE and b"\xa0" <= data[start + 1 : start + 2] <= b"\xbf":
        third = data[start + 2 : start + 3]
        return _REPLACEMENT, start + (3 if b"\x80" <= third <= b"\xbf" else 2)
    return _REPLACEMENT, error.end


register_error("kafka", _replace_malformed)


def _short(value: object) -> str:
    """Long byte strings would drown the rest of the message."""
    if isinstance(value, bytes | bytearray | memoryview) and len(value) > 32:
        return f"<{len(value)} bytes>"
    return repr(bytes(value)) if isinstance(value, memoryview) else repr(value)

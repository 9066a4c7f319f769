"""Random but well-formed batches and messages, as seeds for mutation."""

import random
import types
import typing

from barnabas.protocol import apis
from barnabas.protocol.compression import Codec
from barnabas.protocol.message import EncodeError, Message, Structure, UnsupportedVersionError
from barnabas.protocol.record_batch import Record, encode_batch

TOPIC = "fuzz"
STRINGS = (TOPIC, TOPIC, TOPIC, "", "a", "..", "a" * 249, "a" * 300, "__consumer_offsets", "über", "\x00", "PLAIN")
NUMBERS = (0, 0, 0, 1, 1, 2, 3, -1, -2, 5, 100, 127, 1_000)
LIST_MAX = 3
DEPTH_MAX = 5


def random_batch(chance: random.Random) -> bytearray:
    records = []
    offset = -1
    for _ in range(chance.randint(1, 8)):
        offset += chance.choice((1, 1, 1, 5))
        headers = [(chance.choice(STRINGS), _payload(chance)) for _ in range(chance.choice((0, 0, 1, 3)))]
        timestamp_ms = chance.choice((1_700_000_000_000, 0, -1, 2**62)) + chance.randint(0, 1_000)
        records.append(Record(offset, timestamp_ms, _payload(chance), _payload(chance), headers))
    has_producer = chance.random() < 0.5
    return encode_batch(
        records,
        codec=chance.choice(list(Codec)),
        producer_id=chance.randint(0, 3) if has_producer else -1,
        producer_epoch=chance.randint(0, 2) if has_producer else -1,
        base_sequence=chance.choice((0, 1, 5, 2**31 - 1)) if has_producer else -1,
        transactional=has_producer and chance.random() < 0.3,
        control=chance.random() < 0.1,
    )


def _payload(chance: random.Random) -> bytes | None:
    kind = chance.randrange(4)
    if kind == 0:
        return None
    if kind == 1:
        return chance.randbytes(chance.randint(0, 40))
    return bytes([chance.randrange(256)]) * chance.choice((0, 1, 60, 300, 70_000))


def random_message(message_class: type[Message], version: int, chance: random.Random) -> bytes:
    """An encoded message, as full as this version allows: what it cannot carry is left at its default."""
    for fullness in (1.0, 0.5, 0.2):
        out = bytearray()
        try:
            _structure(message_class, chance, fullness, 0).encode(out, version)  # type: ignore[attr-defined]
        except (EncodeError, UnsupportedVersionError):
            continue
        return bytes(out)
    out = bytearray()
    try:
        message_class().encode(out, version)
    except (EncodeError, UnsupportedVersionError):
        return b""
    return bytes(out)


_hints: dict[type, dict[str, object]] = {}


def _structure(structure: type[Structure], chance: random.Random, fullness: float, depth: int) -> Structure:
    hints = _hints.get(structure)
    if hints is None:
        hints = _hints[structure] = typing.get_type_hints(structure.__init__)
    values = {
        name: _value(hint, chance, fullness, depth)
        for name, hint in hints.items()
        if name != "return" and chance.random() < fullness
    }
    return structure(**values)


def _value(hint: object, chance: random.Random, fullness: float, depth: int) -> object:
    if isinstance(hint, types.UnionType):
        choices = typing.get_args(hint)
        if bytes in choices and memoryview in choices:
            return _records(chance)
        concrete = [choice for choice in choices if choice is not type(None)]
        return None if chance.random() < 0.2 else _value(concrete[0], chance, fullness, depth)
    if typing.get_origin(hint) is list:
        (element,) = typing.get_args(hint)
        count = 0 if depth >= DEPTH_MAX else chance.choice((0, 1, 1, 2, LIST_MAX))
        return [_value(element, chance, fullness, depth + 1) for _ in range(count)]
    if hint is bool:
        return chance.random() < 0.5
    if hint is int:
        return chance.choice(NUMBERS)
    if hint is float:
        return chance.random()
    if hint is str:
        return chance.choice(STRINGS)
    if hint is bytes:
        return bytes(16) if chance.random() < 0.5 else chance.randbytes(16)
    if isinstance(hint, type) and issubclass(hint, Structure):
        return _structure(hint, chance, fullness, depth + 1)
    raise AssertionError(f"no values for {hint}")


def _records(chance: random.Random) -> bytes | None:
    return chance.choice((None, b"", bytes(random_batch(chance)), bytes(random_batch(chance) * 2)))


def random_request(key: int, version: int, chance: random.Random) -> bytes:
    return random_message(apis.request_class(key), version, chance)

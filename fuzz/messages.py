"""Feeds damaged messages of every API and version to the generated decoders.

A finding is any exception but DecodeError, a decoder that reads beyond its input, or a message that was decoded and
does not survive being encoded and decoded again.
"""

import random
from importlib import import_module
from pkgutil import iter_modules

from harness import arguments, mutated, run
from values import random_message

import barnabas.protocol.messages
from barnabas.protocol.framing import decode_request_header, encode_request_header
from barnabas.protocol.message import DecodeError, EncodeError, Message


def _message_classes() -> list[type[Message]]:
    found = []
    for module in iter_modules(barnabas.protocol.messages.__path__):
        if not module.name.startswith("_"):
            contents = vars(import_module(f"barnabas.protocol.messages.{module.name}")).values()
            found += [
                value
                for value in contents
                if isinstance(value, type) and issubclass(value, Message) and value is not Message
            ]
    return sorted(set(found), key=lambda message_class: message_class.__name__)


CLASSES = _message_classes()


def case(chance: random.Random) -> str:
    if chance.random() < 0.05:
        return _header(chance)
    message_class = chance.choice(CLASSES)
    if message_class.MAX_VERSION < message_class.MIN_VERSION:
        return "removed API"
    version = chance.randint(message_class.MIN_VERSION, message_class.MAX_VERSION)
    sound = random_message(message_class, version, chance)
    if sound:
        _, end = message_class.decode(memoryview(sound), 0, version)
        assert end == len(sound), f"{message_class.__name__} version {version}: {end} of {len(sound)} bytes were read"
    return _damaged(message_class, version, mutated(sound, chance))


def _damaged(message_class: type[Message], version: int, data: bytes) -> str:
    try:
        message, end = message_class.decode(memoryview(data), 0, version)
    except DecodeError:
        return "refused"
    assert 0 <= end <= len(data)
    once = bytearray()
    try:
        message.encode(once, version)
    except EncodeError as problem:
        raise AssertionError(f"{message!r} was read but cannot be written") from problem
    again, end = message_class.decode(memoryview(once), 0, version)
    assert end == len(once)
    # Compared as bytes: a float may be NaN, which equals nothing.
    twice = bytearray()
    again.encode(twice, version)
    assert once == twice, f"{message!r} became {again!r}"
    return "read"


def _header(chance: random.Random) -> str:
    out = bytearray()
    client_id = chance.choice((None, "", "client", "ü" * 100))
    encode_request_header(out, chance.randint(-1, 95), chance.randint(-1, 20), chance.randint(-5, 5), client_id)
    try:
        header = decode_request_header(memoryview(mutated(bytes(out), chance)), 0)
    except DecodeError:
        return "header refused"
    assert header.end >= 0
    return "header read"


if __name__ == "__main__":
    run(case, arguments(__doc__.splitlines()[0]))

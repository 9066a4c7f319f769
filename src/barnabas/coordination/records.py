"""Records of a coordinator's topic: Kafka's keys and values.

    key:   int16 type | message of that type, version 0
    value: int16 version | message of that version, or nothing: a tombstone

Always holds: what `encode` writes is what Kafka 4.3 writes for the same key and value. A record of a type that is not
in the table is left alone by `decode`: a newer broker may have written it.
Does not know: what a record means.
"""

from collections.abc import Mapping
from importlib import import_module
from typing import NamedTuple

from barnabas.protocol.message import DecodeError, Message, UnsupportedVersionError

_KEY_VERSION = 0


class CoordinatorRecord(NamedTuple):
    key: Message
    value: Message | None  # None: a tombstone
    value_version: int = 0

    @property
    def type(self) -> int:
        return self.key.API_KEY


def encode(record: CoordinatorRecord) -> tuple[bytes, bytes | None]:
    """The key and the value as they stand in the log."""
    key = bytearray(record.type.to_bytes(2, "big"))
    record.key.encode(key, _KEY_VERSION)
    if record.value is None:
        return bytes(key), None
    assert record.type == record.value.API_KEY
    value = bytearray(record.value_version.to_bytes(2, "big"))
    record.value.encode(value, record.value_version)
    return bytes(key), bytes(value)


class RecordTypes:
    """The module of each type, before `_key` and `_value`; imported when the first record of the type is seen."""

    def __init__(self, modules: Mapping[int, str]) -> None:
        self._modules = modules
        self._classes: dict[int, tuple[type[Message], type[Message]]] = {}

    def decode(self, key: bytes, value: bytes | None) -> CoordinatorRecord | None:
        """None where the type is unknown. DecodeError where the bytes are not a record of their type."""
        record_type = _int16(key, "key")
        if record_type not in self._modules:
            return None
        key_class, value_class = self._classes_of(record_type)
        decoded_key, _end = key_class.decode(memoryview(key), 2, _KEY_VERSION)
        if value is None:
            return CoordinatorRecord(decoded_key, None)
        version = _int16(value, "value")
        try:
            decoded_value, _end = value_class.decode(memoryview(value), 2, version)
        except UnsupportedVersionError as error:
            raise DecodeError(str(error)) from None
        return CoordinatorRecord(decoded_key, decoded_value, version)

    def _classes_of(self, record_type: int) -> tuple[type[Message], type[Message]]:
        found = self._classes.get(record_type)
        if found is None:
            module = self._modules[record_type]
            found = self._classes[record_type] = (_load(f"{module}_key"), _load(f"{module}_value"))
        return found


def _int16(data: bytes, what: str) -> int:
    if len(data) < 2:
        raise DecodeError(f"a {what} of {len(data)} bytes has no type")
    return int.from_bytes(data[:2], "big", signed=True)


def _load(module: str) -> type[Message]:
    name = "".join(word.capitalize() for word in module.split("_"))
    loaded: type[Message] = getattr(import_module(f"barnabas.protocol.messages.{module}"), name)
    return loaded

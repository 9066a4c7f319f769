"""The records of `__consumer_offsets`: Kafka's keys and values.

    key:   int16 type | message of that type, version 0
    value: int16 version | message of that version, or nothing: a tombstone

Always holds: what `encode` writes is what Kafka 4.3 writes for the same key and value. A record of a type that is not
in the table is left alone by `decode`: a newer broker may have written it.
Does not know: what a record means. That is `apply` of each kind of group.
"""

from importlib import import_module
from typing import NamedTuple

from barnabas.protocol.message import DecodeError, Message, UnsupportedVersionError

OFFSET_COMMIT_LEGACY = 0  # written by brokers of long ago: the same layout, and read as OFFSET_COMMIT
OFFSET_COMMIT = 1
GROUP_METADATA = 2
CONSUMER_GROUP_METADATA = 3
CONSUMER_GROUP_PARTITION_METADATA = 4
CONSUMER_GROUP_MEMBER_METADATA = 5
CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA = 6
CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER = 7
CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT = 8
CONSUMER_GROUP_REGULAR_EXPRESSION = 16

# The module of each type, before `_key` and `_value`; imported when the first record of the type is seen.
_MODULES = {
    OFFSET_COMMIT_LEGACY: "offset_commit",
    OFFSET_COMMIT: "offset_commit",
    GROUP_METADATA: "group_metadata",
    CONSUMER_GROUP_METADATA: "consumer_group_metadata",
    CONSUMER_GROUP_PARTITION_METADATA: "consumer_group_partition_metadata",
    CONSUMER_GROUP_MEMBER_METADATA: "consumer_group_member_metadata",
    CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA: "consumer_group_target_assignment_metadata",
    CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER: "consumer_group_target_assignment_member",
    CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT: "consumer_group_current_member_assignment",
    CONSUMER_GROUP_REGULAR_EXPRESSION: "consumer_group_regular_expression",
}
_KEY_VERSION = 0
_classes: dict[int, tuple[type[Message], type[Message]]] = {}


class GroupRecord(NamedTuple):
    key: Message
    value: Message | None  # None: a tombstone
    value_version: int = 0

    @property
    def type(self) -> int:
        return self.key.API_KEY


def encode(record: GroupRecord) -> tuple[bytes, bytes | None]:
    """The key and the value as they stand in the log."""
    key = bytearray(record.type.to_bytes(2, "big"))
    record.key.encode(key, _KEY_VERSION)
    if record.value is None:
        return bytes(key), None
    assert record.type == record.value.API_KEY
    value = bytearray(record.value_version.to_bytes(2, "big"))
    record.value.encode(value, record.value_version)
    return bytes(key), bytes(value)


def decode(key: bytes, value: bytes | None) -> GroupRecord | None:
    """None where the type is unknown. DecodeError where the bytes are not a record of their type."""
    record_type = _int16(key, "key")
    if record_type not in _MODULES:
        return None
    key_class, value_class = _classes_of(record_type)
    decoded_key, _end = key_class.decode(memoryview(key), 2, _KEY_VERSION)
    if value is None:
        return GroupRecord(decoded_key, None)
    version = _int16(value, "value")
    try:
        decoded_value, _end = value_class.decode(memoryview(value), 2, version)
    except UnsupportedVersionError as error:
        raise DecodeError(str(error)) from None
    return GroupRecord(decoded_key, decoded_value, version)


def _int16(data: bytes, what: str) -> int:
    if len(data) < 2:
        raise DecodeError(f"a {what} of {len(data)} bytes has no type")
    return int.from_bytes(data[:2], "big", signed=True)


def _classes_of(record_type: int) -> tuple[type[Message], type[Message]]:
    found = _classes.get(record_type)
    if found is None:
        module = _MODULES[record_type]
        found = _classes[record_type] = (_load(f"{module}_key"), _load(f"{module}_value"))
    return found


def _load(module: str) -> type[Message]:
    name = "".join(word.capitalize() for word in module.split("_"))
    loaded: type[Message] = getattr(import_module(f"barnabas.protocol.messages.{module}"), name)
    return loaded

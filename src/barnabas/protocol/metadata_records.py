"""The frame around one record of the metadata log: which record it is, and in which version.

    value of a record = unsigned varint frame version (1)
                        unsigned varint record type (`RecordType`)
                        unsigned varint version of that type
                        the message in that version, to the end of the value

Always holds: a message class is imported when the first record of its type is met, so that start-up pays only for
the types that the log holds. Does not know what a record means: that is `metadata.apply`.
"""

import importlib
from enum import IntEnum
from typing import Any

from barnabas.protocol.message import DecodeError, Message
from barnabas.protocol.primitives import read_uvarint

FRAME_VERSION = 1


class RecordType(IntEnum):
    """Kafka's numbers. The class of FOO_BAR is `foo_bar_record.FooBarRecord`."""

    REGISTER_BROKER = 0
    UNREGISTER_BROKER = 1
    TOPIC = 2
    PARTITION = 3
    CONFIG = 4
    PARTITION_CHANGE = 5
    FENCE_BROKER = 7
    UNFENCE_BROKER = 8
    REMOVE_TOPIC = 9
    DELEGATION_TOKEN = 10
    USER_SCRAM_CREDENTIAL = 11
    FEATURE_LEVEL = 12
    CLIENT_QUOTA = 14
    PRODUCER_IDS = 15
    BROKER_REGISTRATION_CHANGE = 17
    ACCESS_CONTROL_ENTRY = 18
    REMOVE_ACCESS_CONTROL_ENTRY = 19
    NO_OP = 20
    ZK_MIGRATION_STATE = 21
    REMOVE_USER_SCRAM_CREDENTIAL = 22
    BEGIN_TRANSACTION = 23
    END_TRANSACTION = 24
    ABORT_TRANSACTION = 25
    REMOVE_DELEGATION_TOKEN = 26
    REGISTER_CONTROLLER = 27
    CLEAR_ELR = 28


# What is written while metadata.version stands at the level of Kafka 4.3; every other type is written in version 0.
WRITE_VERSIONS: dict[int, int] = {
    RecordType.REGISTER_BROKER: 4,
    RecordType.PARTITION: 2,
    RecordType.PARTITION_CHANGE: 2,
    RecordType.BROKER_REGISTRATION_CHANGE: 3,
}

_classes: dict[int, Any] = {}  # grows as types are met; never larger than RecordType


def encode_record(record: Message) -> bytes:
    """The value of the log's record."""
    type_id = record.API_KEY
    version = WRITE_VERSIONS.get(type_id, 0)
    assert 0 <= type_id < 0x80, "a varint of one byte"
    out = bytearray((FRAME_VERSION, type_id, version))
    record.encode(out, version)
    return bytes(out)


def decode_record(value: bytes | memoryview) -> Any:
    """The message, of the class that its type names. Raises DecodeError on anything else than one whole record."""
    view = memoryview(value)
    try:
        frame_version, last = read_uvarint(view, 0)  # `last` is where the varint ends
        type_id, last = read_uvarint(view, last + 1)
        version, last = read_uvarint(view, last + 1)
    except IndexError:
        raise DecodeError("metadata record ends within its frame") from None
    if frame_version != FRAME_VERSION:
        raise DecodeError(f"metadata record has frame version {frame_version}, known is {FRAME_VERSION}")
    message_class = _classes.get(type_id) or _import_class(type_id)
    if not message_class.MIN_VERSION <= version <= message_class.MAX_VERSION:
        raise DecodeError(
            f"{message_class.__name__} has version {version}, known are up to {message_class.MAX_VERSION}"
        )
    message, end = message_class.decode(view, last + 1, version)
    if end != len(view):
        raise DecodeError(f"{message_class.__name__} is followed by {len(view) - end} bytes too many")
    return message


def _import_class(type_id: int) -> Any:
    try:
        name = RecordType(type_id).name
    except ValueError:
        raise DecodeError(f"metadata record type {type_id} is unknown") from None
    module = importlib.import_module(f"barnabas.protocol.messages.{name.lower()}_record")
    message_class = getattr(module, "".join(word.capitalize() for word in name.split("_")) + "Record")
    _classes[type_id] = message_class
    return message_class

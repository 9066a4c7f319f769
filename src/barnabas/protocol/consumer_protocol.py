"""What consumers tell each other within the classic protocol: subscriptions and assignments.

    int16 version | message of that version

Always holds: a newer version than is known here is read as the newest known one, for each begins as the one before it.
Does not know: what follows from a subscription.
"""

from barnabas.protocol.message import DecodeError, Message
from barnabas.protocol.messages.consumer_protocol_assignment import ConsumerProtocolAssignment
from barnabas.protocol.messages.consumer_protocol_subscription import ConsumerProtocolSubscription

PROTOCOL_TYPE = "consumer"
VERSION_BYTES = 2


def version_of(data: bytes) -> int:
    if len(data) < VERSION_BYTES:
        raise DecodeError(f"{len(data)} bytes have no version")
    version = int.from_bytes(data[:VERSION_BYTES], "big", signed=True)
    if version < 0:
        raise DecodeError(f"there is no version {version}")
    return version


def decode_subscription(data: bytes) -> ConsumerProtocolSubscription:
    version = min(version_of(data), ConsumerProtocolSubscription.MAX_VERSION)
    decoded, _end = ConsumerProtocolSubscription.decode(memoryview(data), VERSION_BYTES, version)
    return decoded


def decode_assignment(data: bytes) -> ConsumerProtocolAssignment:
    version = min(version_of(data), ConsumerProtocolAssignment.MAX_VERSION)
    decoded, _end = ConsumerProtocolAssignment.decode(memoryview(data), VERSION_BYTES, version)
    return decoded


def encode_with_version(message: Message, version: int) -> bytes:
    """In a version that the reader knows, or in the newest known here."""
    version = min(version, type(message).MAX_VERSION)
    out = bytearray(version.to_bytes(VERSION_BYTES, "big"))
    message.encode(out, version)
    return bytes(out)

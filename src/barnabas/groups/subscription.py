"""What consumers say about themselves within the classic protocol: an int16 version, then the message.

Always holds: a newer version than is known here is read as the newest known one, for each begins as the one before it.
"""

from collections.abc import Iterable

from barnabas.protocol.message import DecodeError
from barnabas.protocol.messages.consumer_protocol_subscription import ConsumerProtocolSubscription

VERSION_BYTES = 2


def subscribed_topics(subscriptions: Iterable[bytes]) -> frozenset[str] | None:
    """The topics of all together; None where one of them cannot be read."""
    topics: set[str] = set()
    for data in subscriptions:
        try:
            # Version 0 is the beginning of all others, and holds the topics.
            decoded, _end = ConsumerProtocolSubscription.decode(memoryview(data), VERSION_BYTES, 0)
        except DecodeError:
            return None
        topics.update(decoded.topics)
    return frozenset(topics)

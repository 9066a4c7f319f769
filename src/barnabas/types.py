"""The words that every module shares. Kafka's word for Kafka's thing.

Plain aliases rather than NewTypes: they document a signature and cost nothing on the hot path.
"""

import base64
from typing import NamedTuple

Offset = int  # a record's logical place in its partition
Position = int  # a byte's place in a file
LeaderEpoch = int
BrokerId = int
ProducerId = int
Uuid = bytes  # 16 raw bytes: what the wire carries, and a fast dictionary key

ZERO_UUID: Uuid = bytes(16)
NO_LEADER: BrokerId = -1
NO_LEADER_EPOCH: LeaderEpoch = -1
NO_OFFSET: Offset = -1
NO_TIMESTAMP_MS = -1
NO_PRODUCER_ID: ProducerId = -1
NO_PRODUCER_EPOCH = -1
NO_SEQUENCE = -1


class TopicPartition(NamedTuple):
    """One partition by the names that people use."""

    topic: str
    partition: int

    @property
    def directory_name(self) -> str:
        return f"{self.topic}-{self.partition}"

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


def uuid_text(uuid: Uuid) -> str:
    """Kafka's text form: URL-safe base64 without padding."""
    return base64.urlsafe_b64encode(uuid).rstrip(b"=").decode("ascii")


def uuid_from_text(text: str) -> Uuid:
    raw = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    if len(raw) != 16:
        raise ValueError(f"{text!r} is not a UUID: it holds {len(raw)} bytes, not 16")
    return raw

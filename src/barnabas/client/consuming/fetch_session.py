"""A fetch session with one broker (KIP-227): after a first request that names everything, only what has changed.

Always holds: what the broker has in mind is what was wanted at the last request that it answered; after anything else
than an answer, the next request names everything and ends the session before it.
Does not know: connections, answers' records.
"""

from collections.abc import Mapping
from typing import NamedTuple

from barnabas.errors import ErrorCode
from barnabas.protocol.messages.fetch import FetchPartition, FetchTopic, ForgottenTopic
from barnabas.types import LeaderEpoch, Offset, TopicPartition, Uuid

FIRST_EPOCH = 0
EPOCH_MAX = (1 << 31) - 1
BEGIN_ANEW = (
    ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
    ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
    ErrorCode.INCONSISTENT_TOPIC_ID,
    ErrorCode.UNKNOWN_TOPIC_ID,
)


class Wanted(NamedTuple):
    """Of one partition."""

    topic_id: Uuid
    offset: Offset
    leader_epoch: LeaderEpoch
    bytes_max: int


class FetchSession:
    def __init__(self) -> None:
        self.id = 0
        self.epoch = FIRST_EPOCH
        self._known: dict[TopicPartition, Wanted] = {}  # what the broker has in mind
        self._asked: dict[TopicPartition, Wanted] = {}  # what it has in mind if it answers

    def request(self, wanted: Mapping[TopicPartition, Wanted]) -> tuple[list[FetchTopic], list[ForgottenTopic]]:
        """What to name in the next request: wanted, and no longer wanted."""
        if self.epoch == FIRST_EPOCH:
            self._known = {}
        forgotten: dict[tuple[str, Uuid], ForgottenTopic] = {}
        for partition, known in self._known.items():
            now = wanted.get(partition)
            if now is None or now.topic_id != known.topic_id:
                key = (partition.topic, known.topic_id)
                if key not in forgotten:
                    forgotten[key] = ForgottenTopic(topic=partition.topic, topic_id=known.topic_id)
                forgotten[key].partitions.append(partition.partition)
        topics: dict[str, FetchTopic] = {}
        for partition, now in wanted.items():
            if self._known.get(partition) == now:
                continue
            if partition.topic not in topics:
                topics[partition.topic] = FetchTopic(topic=partition.topic, topic_id=now.topic_id)
            topics[partition.topic].partitions.append(
                FetchPartition(
                    partition=partition.partition,
                    current_leader_epoch=now.leader_epoch,
                    fetch_offset=now.offset,
                    partition_max_bytes=now.bytes_max,
                )
            )
        self._asked = dict(wanted)
        return list(topics.values()), list(forgotten.values())

    def answered(self, error: ErrorCode, session_id: int) -> bool:
        """Whether the answer counts. A broker that wants no session gives the id 0."""
        if error in BEGIN_ANEW:
            self.id, self.epoch = 0, FIRST_EPOCH
            return False
        if error != ErrorCode.NONE:
            self.failed()
            return False
        if session_id == 0:
            self.id, self.epoch = 0, FIRST_EPOCH
        else:
            self.id = session_id
            self.epoch = 1 if self.epoch == EPOCH_MAX else self.epoch + 1
        self._known = self._asked
        return True

    def failed(self) -> None:
        """No answer: nobody knows what the broker has in mind. The id is named, so that it can forget it."""
        self.epoch = FIRST_EPOCH

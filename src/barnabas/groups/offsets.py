"""The committed offsets of one shard: by group, topic and partition.

Always holds: an offset is here if and only if the log's last word on it is a value rather than a tombstone. Offsets
that a transaction has committed wait beside them until its marker says whether they count; the marker lets an offset
count only where the log has no later word on it.
Does not know: who may commit or fetch; the shard asks the group.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from barnabas.groups.records import GroupRecord
from barnabas.protocol.messages.offset_commit_key import OffsetCommitKey
from barnabas.protocol.messages.offset_commit_value import OffsetCommitValue
from barnabas.types import NO_LEADER_EPOCH, NO_PRODUCER_ID, ZERO_UUID, LeaderEpoch, Offset, ProducerId, Uuid

NO_EXPIRY = -1
VALUE_VERSION = 4  # what Kafka 4.3 writes
VALUE_VERSION_WITH_EXPIRY = 1  # the only one that has room for it


class CommittedOffset(NamedTuple):
    offset: Offset
    leader_epoch: LeaderEpoch
    metadata: str
    commit_timestamp_ms: int
    expire_timestamp_ms: int  # NO_EXPIRY but for clients of long ago, which set it themselves
    topic_id: Uuid  # ZERO_UUID where it was not known
    record_offset: Offset  # where it stands in the log

    def is_of_another_topic(self, topic_id: Uuid) -> bool:
        """Committed for a topic that had the same name."""
        return ZERO_UUID != self.topic_id != topic_id != ZERO_UUID


GroupOffsets = dict[str, dict[int, CommittedOffset]]  # by topic and partition; no empty dictionary inside


class Offsets:
    def __init__(self) -> None:
        self._committed: dict[str, GroupOffsets] = {}  # by group; no empty dictionary inside
        self._open: dict[ProducerId, dict[str, GroupOffsets]] = {}  # of transactions that have not ended
        # The same by group and place: which transactions would change it. No empty dictionary or set inside.
        self._writers: dict[str, dict[tuple[str, int], set[ProducerId]]] = {}

    # Reading

    def of_group(self, group_id: str) -> GroupOffsets:
        return self._committed.get(group_id, {})

    def get(self, group_id: str, topic: str, partition: int) -> CommittedOffset | None:
        return self._committed.get(group_id, {}).get(topic, {}).get(partition)

    def is_unstable(self, group_id: str, topic: str, partition: int) -> bool:
        """Whether a transaction is open that would change it."""
        return (topic, partition) in self._writers.get(group_id, {})

    def has_open_transaction(self, group_id: str) -> bool:
        return group_id in self._writers

    def __len__(self) -> int:
        return sum(len(partitions) for topics in self._committed.values() for partitions in topics.values())

    # Deciding

    def tombstones(self, group_id: str) -> list[GroupRecord]:
        """For all that the group has committed, open transactions included."""
        places = dict.fromkeys(_places(self.of_group(group_id)))
        places.update(dict.fromkeys(self._writers.get(group_id, {})))
        return [tombstone(group_id, topic, partition) for topic, partition in places]

    def tombstones_of_topics(self, topics: Iterable[str]) -> list[GroupRecord]:
        """For topics that have been deleted, over all groups."""
        names = frozenset(topics)
        places = dict.fromkeys(
            (group_id, topic, partition)
            for by_group in (self._committed, *self._open.values())
            for group_id, offsets in by_group.items()
            for topic, partition in _places(offsets)
            if topic in names
        )
        return [tombstone(*place) for place in places]

    # Changing

    def apply(self, record: GroupRecord, record_offset: Offset, producer_id: ProducerId) -> None:
        key, value = record.key, record.value
        assert isinstance(key, OffsetCommitKey)
        if value is None:
            _remove(self._committed, key.group, key.topic, key.partition)
            for writer in tuple(self._writers.get(key.group, {}).get((key.topic, key.partition), ())):
                _remove(self._open[writer], key.group, key.topic, key.partition)
                self._forget_writer(writer, key.group, key.topic, key.partition)
            return
        assert isinstance(value, OffsetCommitValue)
        committed = CommittedOffset(
            value.offset,
            value.leader_epoch,
            value.metadata,
            value.commit_timestamp,
            value.expire_timestamp,
            value.topic_id,
            record_offset,
        )
        if producer_id == NO_PRODUCER_ID:
            _put(self._committed, key.group, key.topic, key.partition, committed)
            return
        _put(self._open.setdefault(producer_id, {}), key.group, key.topic, key.partition, committed)
        places = self._writers.setdefault(key.group, {})
        places.setdefault((key.topic, key.partition), set()).add(producer_id)

    def transaction_ended(self, producer_id: ProducerId, *, committed: bool) -> None:
        pending = self._open.pop(producer_id, {})
        for group_id, offsets in pending.items():
            for topic, partition in _places(offsets):
                self._forget_writer(producer_id, group_id, topic, partition)
        if not committed:
            return
        for group_id, offsets in pending.items():
            for topic, partitions in offsets.items():
                for partition, offset in partitions.items():
                    known = self.get(group_id, topic, partition)
                    if known is None or known.record_offset < offset.record_offset:
                        _put(self._committed, group_id, topic, partition, offset)

    def _forget_writer(self, producer_id: ProducerId, group_id: str, topic: str, partition: int) -> None:
        places = self._writers[group_id]
        writers = places[topic, partition]
        writers.remove(producer_id)
        if not writers:
            del places[topic, partition]
        if not places:
            del self._writers[group_id]


def commit_record(
    group_id: str,
    topic: str,
    partition: int,
    *,
    offset: Offset,
    leader_epoch: LeaderEpoch = NO_LEADER_EPOCH,
    metadata: str | None = None,
    commit_timestamp_ms: int,
    expire_timestamp_ms: int = NO_EXPIRY,
    topic_id: Uuid = ZERO_UUID,
) -> GroupRecord:
    value = OffsetCommitValue(
        offset=offset,
        leader_epoch=leader_epoch,
        metadata=metadata or "",
        commit_timestamp=commit_timestamp_ms,
        expire_timestamp=expire_timestamp_ms,
        topic_id=topic_id,
    )
    version = VALUE_VERSION if expire_timestamp_ms == NO_EXPIRY else VALUE_VERSION_WITH_EXPIRY
    return GroupRecord(OffsetCommitKey(group=group_id, topic=topic, partition=partition), value, version)


def tombstone(group_id: str, topic: str, partition: int) -> GroupRecord:
    return GroupRecord(OffsetCommitKey(group=group_id, topic=topic, partition=partition), None)


def _places(offsets: GroupOffsets) -> Iterator[tuple[str, int]]:
    for topic, partitions in offsets.items():
        for partition in partitions:
            yield topic, partition


def _put(by_group: dict[str, GroupOffsets], group_id: str, topic: str, partition: int, value: CommittedOffset) -> None:
    by_group.setdefault(group_id, {}).setdefault(topic, {})[partition] = value


def _remove(by_group: dict[str, GroupOffsets], group_id: str, topic: str, partition: int) -> None:
    offsets = by_group.get(group_id, {})
    partitions = offsets.get(topic, {})
    if partitions.pop(partition, None) is not None:
        if not partitions:
            del offsets[topic]
        if not offsets:
            del by_group[group_id]

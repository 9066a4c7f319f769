"""What must hold, one class each: here what clients were told, in `node_checkers` what nodes believe and keep."""

from __future__ import annotations

from barnabas.errors import ErrorCode
from barnabas.simulation.checker import Checker, Promises
from barnabas.simulation.client_checkers import client_checkers
from barnabas.simulation.history import (
    FINAL_READER,
    Assigned,
    CommitAcknowledged,
    CommitAsked,
    CommittedAsked,
    CommittedRead,
    Delivered,
    Event,
    FetchAsked,
    Fetched,
    FetchOutOfRange,
    PartitionId,
    ProduceAcknowledged,
    ProduceAsked,
    ProduceRefused,
    ProducerIdGiven,
    Stamp,
    TopicCreated,
    TopicDeleted,
    TopicDeletionAsked,
    TopicsListed,
)
from barnabas.simulation.node_checkers import (
    CommittedIsKept,
    MetadataAgrees,
    MetadataLogsAgree,
    OneLeader,
    OneVote,
    RecoveryPointIsSynced,
    ReplicasAgree,
    WatermarksRise,
)
from barnabas.simulation.table_checkers import CompactedIsADict
from barnabas.simulation.transaction_checkers import transaction_checkers
from barnabas.types import Offset, Uuid


class AcknowledgedSurvives(Checker):
    """What was acknowledged is found at the offset that was told, until retention or a deletion takes it."""

    def __init__(self, promises: Promises) -> None:
        super().__init__(promises)
        self._expected: dict[PartitionId, dict[Offset, bytes]] = {}
        self._found: dict[PartitionId, set[Offset]] = {}
        self._log_start_offsets: dict[PartitionId, Offset] = {}
        self._gone: set[Uuid] = set()  # topics whose deletion was asked for

    def observe(self, event: Event) -> None:
        match event:
            case ProduceAcknowledged() if event.batch.is_keyed:
                pass  # compaction may take it: see `CompactedIsADict`
            case ProduceAcknowledged() if event.batch.acks in self.promises.acks_kept and event.base_offset >= 0:
                expected = self._expected.setdefault(event.batch.partition_id, {})
                for offset, value in enumerate(event.batch.values, event.base_offset):
                    if expected.setdefault(offset, value) != value:
                        other = Stamp.of(expected[offset])
                        self.fail(f"offset {offset} was given to {event.batch} and to {other}")
            case Fetched():
                start = self._log_start_offsets.get(event.partition_id, 0)
                self._log_start_offsets[event.partition_id] = max(start, event.log_start_offset)
                self._read(event)
            case Delivered():
                self._read(event)
            case TopicDeletionAsked():
                self._gone.add(event.topic_id)
            case _:
                pass

    def _read(self, event: Fetched | Delivered) -> None:
        partition_id = event.partition_id
        expected = self._expected.get(partition_id, {})
        found = self._found.setdefault(partition_id, set())
        for offset, value in event.records:
            if event.reader == FINAL_READER:
                found.add(offset)
            wanted = expected.get(offset)
            if wanted is not None and wanted != value:
                self.fail(f"{partition_id} offset {offset}: {Stamp.of(wanted)} acknowledged, {Stamp.of(value)} read")

    def finish(self) -> None:
        for partition_id, expected in self._expected.items():
            if partition_id.topic_id in self._gone:
                continue
            found = self._found.get(partition_id, set())
            start = self._log_start_offsets.get(partition_id, 0)
            lost = [offset for offset in expected if offset >= start and offset not in found]
            if lost:
                first = min(lost)
                self.fail(f"{partition_id} lost {len(lost)}, first {Stamp.of(expected[first])} at offset {first}")


class WrittenOnceInOrder(Checker):
    """A record that was sent once is there at most once, and where it was meant to be; idempotent ones in order."""

    def __init__(self, promises: Promises) -> None:
        super().__init__(promises)
        self._asked: set[tuple[str, int]] = set()
        self._idempotent: set[str] = set()
        self._offsets: dict[tuple[str, int], tuple[PartitionId, Offset]] = {}
        self._read: dict[PartitionId, dict[Offset, bytes]] = {}  # what was looked at already
        self._last: dict[tuple[str, PartitionId], dict[Offset, int]] = {}

    def observe(self, event: Event) -> None:
        match event:
            case ProduceAsked():
                batch = event.batch
                for number in range(batch.first_number, batch.first_number + len(batch.values)):
                    self._asked.add((batch.writer, number))
                if batch.base_sequence >= 0:
                    self._idempotent.add(batch.writer)
            case Fetched() | Delivered():
                read = self._read.setdefault(event.partition_id, {})
                for offset, value in event.records:
                    if read.get(offset) != value:
                        read[offset] = value
                        self._look_at(event.partition_id, offset, Stamp.of(value))
            case ProduceRefused() if event.batch.is_keyed and event.error is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
                pass  # compaction may take a batch away that a broker, once restarted, cannot know again; so in Kafka
            case ProduceRefused() if event.batch.acks in self.promises.acks_kept:
                self.fail(f"{event.batch} was refused as {event.error.name}, with all before it acknowledged")
            case _:
                pass

    def _look_at(self, partition_id: PartitionId, offset: Offset, stamp: Stamp) -> None:
        record = stamp.writer, stamp.number
        if record not in self._asked:
            self.fail(f"{partition_id} offset {offset} holds {stamp}, which nobody wrote")
        if stamp.partition_id != str(partition_id):
            self.fail(f"{stamp} is in {partition_id}")
        first = self._offsets.setdefault(record, (partition_id, offset))
        if first != (partition_id, offset):
            self.fail(f"{stamp} is at offset {offset} and at {first[1]}")
        if stamp.writer in self._idempotent:
            self._last.setdefault((stamp.writer, partition_id), {})[offset] = stamp.number

    def finish(self) -> None:
        for (writer, partition_id), numbers in self._last.items():
            in_order = [numbers[offset] for offset in sorted(numbers)]
            if in_order != sorted(in_order):
                self.fail(f"{partition_id} holds the records of {writer} in the order {in_order}")


class ReadersAgree(Checker):
    """Each reader gets each offset once and in order; all readers, at all times, get the same at one offset."""

    def __init__(self, promises: Promises) -> None:
        super().__init__(promises)
        self._content: dict[PartitionId, dict[Offset, bytes]] = {}

    def observe(self, event: Event) -> None:
        match event:
            case Fetched():
                self._in_order(event)
                self._compare(event)
            case Delivered():
                self._compare(event)
            case _:
                pass

    def _in_order(self, event: Fetched) -> None:
        following = event.offset
        for offset in sorted([*(offset for offset, _value in event.records), *event.markers]):
            if offset != following:
                self.fail(f"{event.reader} gets offset {offset} of {event.partition_id} where {following} comes next")
            following += 1
        if event.records and event.high_watermark < following:
            self.fail(f"{event.reader} got {event.partition_id} up to {following}, watermark {event.high_watermark}")

    def _compare(self, event: Fetched | Delivered) -> None:
        content = self._content.setdefault(event.partition_id, {})
        for offset, value in event.records:
            known = content.setdefault(offset, value)
            if known != value:
                self.fail(f"{event.partition_id} offset {offset} was {Stamp.of(known)}, now it is {Stamp.of(value)}")


class WatermarkNeverFalls(Checker):
    """Who asks after the watermark was seen to be somewhere never hears of a lower one, from the same leader.

    A new leader of several may lag behind for a moment (KIP-207), and so may one that syncs what its recovery found
    before it counts; any other single node has no such excuse. What lies below the watermark is never out of range,
    unless it is below the start of the log too.
    """

    def __init__(self, promises: Promises) -> None:
        super().__init__(promises)
        self._highest: dict[PartitionId, dict[int, Offset]] = {}  # by leader epoch
        self._when_asked: dict[tuple[str, PartitionId], dict[int, Offset]] = {}

    def observe(self, event: Event) -> None:
        match event:
            case FetchAsked():
                seen = self._highest.get(event.partition_id, {})
                self._when_asked[event.reader, event.partition_id] = dict(seen)
            case Fetched():
                has_no_excuse = self.promises.one_node and not self.promises.syncs_each_batch
                epoch = 0 if has_no_excuse else event.leader_epoch
                before = self._when_asked.get((event.reader, event.partition_id), {}).get(epoch, 0)
                if event.high_watermark < before:
                    self.fail(f"{event.partition_id} had watermark {before}, now {event.high_watermark}")
                highest = self._highest.setdefault(event.partition_id, {})
                highest[epoch] = max(highest.get(epoch, 0), event.high_watermark)
            case FetchOutOfRange():
                if event.offset >= event.log_start_offset:
                    self.fail(f"{event.reader} was at {event.offset} of {event.partition_id}, now that is out of range")
            case _:
                pass


class TopicsStay(Checker):
    """A topic that was acknowledged is there until somebody deletes it; one that was deleted never comes back."""

    def __init__(self, promises: Promises) -> None:
        super().__init__(promises)
        self._created: dict[Uuid, str] = {}
        self._deletion_asked: set[Uuid] = set()
        self._deleted: set[Uuid] = set()
        self._listed: dict[str, Uuid] | None = None

    def observe(self, event: Event) -> None:
        match event:
            case TopicCreated():
                if event.topic_id in self._deleted:
                    self.fail(f"topic {event.name} {event.topic_id.hex()[:8]} was deleted, and is there")
                self._created[event.topic_id] = event.name
            case TopicDeletionAsked():
                self._deletion_asked.add(event.topic_id)
            case TopicDeleted():
                self._deleted.add(event.topic_id)
            case TopicsListed():
                self._listed = event.names
            case _:
                pass

    def finish(self) -> None:
        if self._listed is None:
            return
        there = set(self._listed.values())
        for topic_id, name in self._created.items():
            if topic_id not in there and topic_id not in self._deletion_asked:
                self.fail(f"topic {name} {topic_id.hex()[:8]} was created, and is not there")
            if topic_id in there and topic_id in self._deleted:
                self.fail(f"topic {name} {topic_id.hex()[:8]} was deleted, and is there")


class ProducerIdsAreUnique(Checker):
    """No two producers are ever given the same id in the same epoch."""

    def __init__(self, promises: Promises) -> None:
        super().__init__(promises)
        self._given: set[tuple[int, int]] = set()

    def observe(self, event: Event) -> None:
        if isinstance(event, ProducerIdGiven):
            given = event.producer_id, event.producer_epoch
            if given in self._given:
                self.fail(f"producer id {given[0]} epoch {given[1]} was given twice")
            self._given.add(given)


class CommittedOffsetsStay(Checker):
    """Who asks what a group has committed hears of nothing older than what was acknowledged before it asked, or than
    what anybody was told before."""

    def __init__(self, promises: Promises) -> None:
        super().__init__(promises)
        self._known: dict[tuple[str, PartitionId], Offset] = {}
        self._asked: dict[tuple[str, PartitionId], set[Offset]] = {}
        self._when_asked: dict[tuple[str, str, PartitionId], Offset] = {}  # by group and member

    def observe(self, event: Event) -> None:
        match event:
            case CommitAsked():
                self._asked.setdefault((event.group, event.partition_id), set()).add(event.offset)
            case CommitAcknowledged():
                key = event.group, event.partition_id
                self._known[key] = max(self._known.get(key, -1), event.offset)
            case CommittedAsked():
                before = self._known.get((event.group, event.partition_id), -1)
                self._when_asked[event.group, event.member, event.partition_id] = before
            case CommittedRead():
                before = self._when_asked[event.group, event.member, event.partition_id]
                if event.offset < before:
                    self.fail(f"{event.group} had committed {before} of {event.partition_id}, now it is {event.offset}")
                asked = self._asked.get((event.group, event.partition_id), ())
                if event.offset >= 0 and event.offset not in asked and not event.is_automatic:
                    self.fail(f"{event.group} has {event.offset} of {event.partition_id}, which nobody committed")
                key = event.group, event.partition_id
                self._known[key] = max(self._known.get(key, -1), event.offset)
            case _:
                pass


class OneOwner(Checker):
    """In one generation of a group each partition is one member's."""

    def __init__(self, promises: Promises) -> None:
        super().__init__(promises)
        self._owners: dict[tuple[str, int, PartitionId], str] = {}

    def observe(self, event: Event) -> None:
        if isinstance(event, Assigned):
            for partition_id in event.partition_ids:
                owner = self._owners.setdefault((event.group, event.epoch, partition_id), event.member)
                if owner != event.member:
                    self.fail(f"{event.group} epoch {event.epoch}: {partition_id} is {owner}'s and {event.member}'s")


def all_checkers(promises: Promises) -> list[Checker]:
    return [
        AcknowledgedSurvives(promises),
        WrittenOnceInOrder(promises),
        ReadersAgree(promises),
        WatermarkNeverFalls(promises),
        TopicsStay(promises),
        ProducerIdsAreUnique(promises),
        CommittedOffsetsStay(promises),
        OneOwner(promises),
        OneVote(promises),
        OneLeader(promises),
        MetadataAgrees(promises),
        MetadataLogsAgree(promises),
        WatermarksRise(promises),
        CommittedIsKept(promises),
        RecoveryPointIsSynced(promises),
        ReplicasAgree(promises),
        *client_checkers(promises),
        *transaction_checkers(promises),
        CompactedIsADict(promises),
    ]

"""What must hold, one class each: told what clients asked and heard, and now and then shown the nodes themselves.

A checker raises `Violation` as soon as something is not as it must be. `finish` comes after everything has come to
rest: by then every partition has been read from end to end, and every topic has been listed.
Does not know: faults. What a run promises under its faults is said once, in `Promises`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from barnabas.protocol.record_batch import HEADER_BYTES, read_header
from barnabas.simulation.disk import DiskFault
from barnabas.simulation.history import (
    FINAL_READER,
    Assigned,
    CommitAcknowledged,
    CommitAsked,
    CommittedAsked,
    CommittedRead,
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
from barnabas.types import Offset, Uuid

if TYPE_CHECKING:
    from barnabas.log.log import Log
    from barnabas.metadata.image import MetadataImage
    from barnabas.simulation.cluster import SimulatedCluster

READ_BYTES = 1 << 20  # of a log at a time


class Violation(Exception):
    """A guarantee is broken."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Promises:
    """What this run's settings and faults leave standing."""

    acks_kept: tuple[int, ...]  # an acknowledgement of such a write is for ever
    one_node: bool  # then every offset that anybody was told is for ever


class Checker:
    def __init__(self, promises: Promises) -> None:
        self.promises = promises

    def observe(self, event: Event) -> None:
        """Something has happened between a client and a broker."""

    def inspect(self, cluster: SimulatedCluster) -> None:
        """The nodes as they are now."""

    def finish(self) -> None:
        """Nothing more will happen."""

    def fail(self, message: str) -> None:
        raise Violation(f"{type(self).__name__}: {message}")


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
            case ProduceAcknowledged() if event.batch.acks in self.promises.acks_kept and event.base_offset >= 0:
                expected = self._expected.setdefault(event.batch.partition_id, {})
                for offset, value in enumerate(event.batch.values, event.base_offset):
                    if expected.setdefault(offset, value) != value:
                        other = Stamp.of(expected[offset])
                        self.fail(f"offset {offset} was given to {event.batch} and to {other}")
            case Fetched():
                self._read(event)
            case TopicDeletionAsked():
                self._gone.add(event.topic_id)
            case _:
                pass

    def _read(self, event: Fetched) -> None:
        partition_id = event.partition_id
        start = self._log_start_offsets.get(partition_id, 0)
        self._log_start_offsets[partition_id] = max(start, event.log_start_offset)
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
            case Fetched():
                read = self._read.setdefault(event.partition_id, {})
                for offset, value in event.records:
                    if read.get(offset) != value:
                        read[offset] = value
                        self._look_at(event.partition_id, offset, Stamp.of(value))
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
        if not isinstance(event, Fetched):
            return
        content = self._content.setdefault(event.partition_id, {})
        following = event.offset
        for offset, value in event.records:
            if offset != following:
                self.fail(f"{event.reader} gets offset {offset} of {event.partition_id} where {following} comes next")
            following += 1
            known = content.setdefault(offset, value)
            if known != value:
                self.fail(f"{event.partition_id} offset {offset} was {Stamp.of(known)}, now it is {Stamp.of(value)}")
        if event.records and event.high_watermark < following:
            self.fail(f"{event.reader} got {event.partition_id} up to {following}, watermark {event.high_watermark}")


class WatermarkNeverFalls(Checker):
    """Who asks after the watermark was seen to be somewhere never hears of a lower one, from the same leader.

    A new leader of several may lag behind for a moment (KIP-207); with one node there is no such excuse. What lies
    below it is never out of range, unless it is below the start of the log too.
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
                epoch = 0 if self.promises.one_node else event.leader_epoch
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
    """Who asks what a group has committed hears of nothing older than what was acknowledged before it asked."""

    def __init__(self, promises: Promises) -> None:
        super().__init__(promises)
        self._acknowledged: dict[tuple[str, PartitionId], Offset] = {}
        self._asked: dict[tuple[str, PartitionId], set[Offset]] = {}
        self._when_asked: dict[tuple[str, str, PartitionId], Offset] = {}  # by group and member

    def observe(self, event: Event) -> None:
        match event:
            case CommitAsked():
                self._asked.setdefault((event.group, event.partition_id), set()).add(event.offset)
            case CommitAcknowledged():
                key = event.group, event.partition_id
                self._acknowledged[key] = max(self._acknowledged.get(key, -1), event.offset)
            case CommittedAsked():
                before = self._acknowledged.get((event.group, event.partition_id), -1)
                self._when_asked[event.group, event.member, event.partition_id] = before
            case CommittedRead():
                before = self._when_asked[event.group, event.member, event.partition_id]
                if event.offset < before:
                    self.fail(f"{event.group} had committed {before} of {event.partition_id}, now it is {event.offset}")
                if event.offset >= 0 and event.offset not in self._asked.get((event.group, event.partition_id), ()):
                    self.fail(f"{event.group} has {event.offset} of {event.partition_id}, which nobody committed")
            case _:
                pass


class OneOwner(Checker):
    """In one epoch of a group each partition is assigned to one member."""

    def __init__(self, promises: Promises) -> None:
        super().__init__(promises)
        self._owners: dict[tuple[str, int, PartitionId], str] = {}

    def observe(self, event: Event) -> None:
        if isinstance(event, Assigned):
            for partition_id in event.partition_ids:
                owner = self._owners.setdefault((event.group, event.epoch, partition_id), event.member)
                if owner != event.member:
                    self.fail(f"{event.group} epoch {event.epoch}: {partition_id} is {owner}'s and {event.member}'s")


class MetadataAgrees(Checker):
    """The image at one offset is the same on every node and in every life of it, and never goes back."""

    def __init__(self, promises: Promises) -> None:
        super().__init__(promises)
        self._digests: dict[Offset, tuple[str, str]] = {}  # of the image, and who had it first
        self._seen: dict[tuple[int, int], Offset] = {}  # node and incarnation: the newest image

    def inspect(self, cluster: SimulatedCluster) -> None:
        for node in cluster.nodes.values():
            if node.broker is None:
                continue
            image = node.broker.controller.image
            life = node.id, node.incarnation
            before = self._seen.get(life, -1)
            if image.offset == before:
                continue
            if image.offset < before:
                self.fail(f"{node.host} had metadata up to {before}, now up to {image.offset}")
            self._seen[life] = image.offset
            digest = canonical(image)
            known, who = self._digests.setdefault(image.offset, (digest, f"{node.host} life {node.incarnation}"))
            if known != digest:
                self.fail(f"metadata at {image.offset}: {who} had {known}, {node.host} has {digest}")


def canonical(image: MetadataImage) -> str:
    """All of an image but its clock, in an order of its own."""
    topics = [
        (name, topic.id.hex(), sorted(topic.partitions.items())) for name, topic in sorted(image.topics_by_name.items())
    ]
    brokers = [
        (broker.id, broker.epoch, broker.fenced, broker.incarnation_id.hex())
        for _, broker in sorted(image.brokers.items())
    ]
    configs = [(resource, sorted(values.items())) for resource, values in sorted(image.configs.items())]
    features = sorted(image.features.items())
    return repr((image.offset, image.leader_epoch, topics, brokers, configs, features, image.next_producer_id))


class OneLeader(Checker):
    """In one epoch of a partition one node leads, and no other, by the metadata and by its own belief.

    The same goes for the metadata quorum.
    """

    def __init__(self, promises: Promises) -> None:
        super().__init__(promises)
        self._named: dict[tuple[PartitionId, int], int] = {}
        self._believing: dict[tuple[PartitionId, int], int] = {}
        self._quorum: dict[int, int] = {}
        self._images: dict[int, MetadataImage] = {}

    def inspect(self, cluster: SimulatedCluster) -> None:
        for node in cluster.nodes.values():
            broker = node.broker
            if broker is None:
                continue
            raft = broker.controller.quorum.raft
            if raft.is_leader and self._quorum.setdefault(raft.epoch, node.id) != node.id:
                self.fail(f"quorum epoch {raft.epoch}: {self._quorum[raft.epoch]} and {node.id} lead")
            for partition in broker.partitions:
                key = PartitionId(partition.topic_id, partition.name.partition), partition.leader_epoch
                if getattr(partition, "is_leader", True) and self._believing.setdefault(key, node.id) != node.id:
                    self.fail(f"{key[0]} epoch {key[1]}: {self._believing[key]} and {node.id} believe that they lead")
            if self._images.get(node.id) is not broker.controller.image:
                self._images[node.id] = broker.controller.image
                self._look_at(broker.controller.image)

    def _look_at(self, image: MetadataImage) -> None:
        for topic_id, topic in image.topics_by_id.items():
            for index, state in topic.partitions.items():
                key = PartitionId(topic_id, index), state.leader_epoch
                if state.leader >= 0 and self._named.setdefault(key, state.leader) != state.leader:
                    self.fail(f"{key[0]} epoch {key[1]}: {self._named[key]} and {state.leader} lead")


class ReplicasAgree(Checker):
    """Below the watermark all replicas hold the same batches, and what was once below it never changes."""

    def __init__(self, promises: Promises) -> None:
        super().__init__(promises)
        self._batches: dict[PartitionId, dict[Offset, tuple[int, int, int]]] = {}  # last offset, epoch, CRC
        self._checked: dict[tuple[PartitionId, int, int], Offset] = {}  # by node and incarnation: up to where

    def inspect(self, cluster: SimulatedCluster) -> None:
        for node in cluster.nodes.values():
            if node.broker is None:
                continue
            for partition in node.broker.partitions:
                life = PartitionId(partition.topic_id, partition.name.partition), node.id, node.incarnation
                if not partition.closed:
                    self._checked[life] = self._compare(life[0], node.host, partition.log, self._checked.get(life, 0))

    def _compare(self, partition_id: PartitionId, host: str, log: Log, offset: Offset) -> Offset:
        """The batches from `offset` up to the watermark; gives how far it got."""
        known = self._batches.setdefault(partition_id, {})
        offset = max(offset, log.log_start_offset)
        while offset < log.high_watermark:
            try:
                found = log.read(offset, READ_BYTES, log.high_watermark)
                view = memoryview(found.read() if found is not None else b"")
            except DiskFault:
                return offset
            position = 0
            while position + HEADER_BYTES <= len(view):
                header = read_header(view, position)
                if position + header.size_bytes > len(view):
                    break
                facts = header.last_offset, header.leader_epoch, header.crc
                if known.setdefault(header.base_offset, facts) != facts:
                    self.fail(
                        f"{partition_id} on {host} at {header.base_offset}: {facts}, was {known[header.base_offset]}"
                    )
                position += header.size_bytes
                offset = header.next_offset
            if position == 0:
                self.fail(f"{partition_id} on {host} has nothing whole at {offset}, watermark {log.high_watermark}")
        return offset


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
        MetadataAgrees(promises),
        OneLeader(promises),
        ReplicasAgree(promises),
    ]

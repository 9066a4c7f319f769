"""What must hold among nodes, one class each: what they believe, what they have written down, what they keep.

They are looked at several times a second, and whenever one of them has written down a vote or a leader, so that no
leader of the quorum is too short-lived to be seen.
Does not know: what clients were told.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from barnabas.log.segment import SWAP_SUFFIX
from barnabas.metadata.topic_names import METADATA_TOPIC_ID
from barnabas.protocol.record_batch import HEADER_BYTES, read_header
from barnabas.simulation.checker import Checker, Promises
from barnabas.simulation.disk import DiskFault
from barnabas.simulation.history import PartitionId
from barnabas.types import BrokerId, Offset

if TYPE_CHECKING:
    from barnabas.log.log import Log
    from barnabas.log.segment import Segment
    from barnabas.metadata.image import MetadataImage
    from barnabas.server.replicas.partition import Partition
    from barnabas.simulation.cluster import SimulatedCluster, SimulatedNode

READ_BYTES = 1 << 20  # of a log at a time


def partitions(cluster: SimulatedCluster) -> Iterator[tuple[SimulatedNode, PartitionId, Partition]]:
    """All that are open, on all nodes."""
    for node in cluster.nodes.values():
        if node.broker is not None:
            for partition in node.broker.partitions:
                if not partition.closed:
                    yield node, PartitionId(partition.topic_id, partition.name.partition), partition


# The quorum


class OneVote(Checker):
    """A voter gives one vote in an epoch, in whatever life, and its epoch never falls."""

    def __init__(self, promises: Promises) -> None:
        super().__init__(promises)
        self._epochs: dict[BrokerId, int] = {}
        self._votes: dict[tuple[BrokerId, int], BrokerId] = {}

    def inspect_quorum(self, cluster: SimulatedCluster) -> None:
        for node in cluster.nodes.values():
            if node.broker is None or self.promises.one_node:
                continue
            election = node.broker.controller.quorum.raft.election
            if election.epoch < self._epochs.get(node.id, 0):
                self.fail(f"{node.host} was in epoch {self._epochs[node.id]}, now it is in {election.epoch}")
            self._epochs[node.id] = election.epoch
            voted = None if election.voted is None else election.voted.id
            before = self._votes.get((node.id, election.epoch))
            if before is not None and voted != before:
                self.fail(f"{node.host} voted for {before} in epoch {election.epoch}, and then for {voted}")
            if voted is not None:
                self._votes[node.id, election.epoch] = voted


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

    def inspect_quorum(self, cluster: SimulatedCluster) -> None:
        for node in cluster.nodes.values():
            if node.broker is not None:
                raft = node.broker.controller.quorum.raft
                if raft.is_leader and self._quorum.setdefault(raft.epoch, node.id) != node.id:
                    self.fail(f"quorum epoch {raft.epoch}: {self._quorum[raft.epoch]} and {node.id} lead")

    def inspect(self, cluster: SimulatedCluster) -> None:
        for node, partition_id, partition in partitions(cluster):
            key = partition_id, partition.leader_epoch
            if partition.is_leader and self._believing.setdefault(key, node.id) != node.id:
                self.fail(f"{key[0]} epoch {key[1]}: {self._believing[key]} and {node.id} believe that they lead")
        for node in cluster.nodes.values():
            if node.broker is not None and self._images.get(node.id) is not node.broker.controller.image:
                self._images[node.id] = node.broker.controller.image
                self._look_at(node.broker.controller.image)

    def _look_at(self, image: MetadataImage) -> None:
        for topic_id, topic in image.topics_by_id.items():
            for index, state in topic.partitions.items():
                key = PartitionId(topic_id, index), state.leader_epoch
                if state.leader >= 0 and self._named.setdefault(key, state.leader) != state.leader:
                    self.fail(f"{key[0]} epoch {key[1]}: {self._named[key]} and {state.leader} lead")


# Metadata


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


# Logs


class Batches:
    """What was once found below a watermark, batch by batch: the same must be found there for ever, on every node."""

    def __init__(self, checker: Checker) -> None:
        self._checker = checker
        self._known: dict[PartitionId, dict[Offset, tuple[int, int, int]]] = {}  # last offset, epoch, CRC

    def compare(self, partition_id: PartitionId, host: str, log: Log, offset: Offset) -> Offset:
        """The batches from `offset` up to the watermark; gives how far it got."""
        known = self._known.setdefault(partition_id, {})
        is_compacted = "compact" in log.config.cleanup_policy  # each replica by itself: records may be gone
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
                facts = header.last_offset, header.leader_epoch, 0 if is_compacted else header.crc
                before = known.setdefault(header.base_offset, facts)
                if before != facts:
                    self._checker.fail(f"{partition_id} on {host} at {header.base_offset}: {facts}, was {before}")
                position += header.size_bytes
                offset = header.next_offset
            if position == 0 and is_compacted:
                return log.high_watermark  # which a restart may have put between two records that are left
            if position == 0:
                watermark = log.high_watermark
                self._checker.fail(f"{partition_id} on {host} has nothing whole at {offset}, watermark {watermark}")
        return offset


class MetadataLogsAgree(Checker):
    """What is committed in the metadata log is the same on all nodes, and never changes."""

    def __init__(self, promises: Promises) -> None:
        super().__init__(promises)
        self._batches = Batches(self)
        self._checked: dict[tuple[BrokerId, int], Offset] = {}  # by node and incarnation: up to where

    def inspect(self, cluster: SimulatedCluster) -> None:
        for node in cluster.nodes.values():
            if node.broker is not None:
                life = node.id, node.incarnation
                log = node.broker.controller.log._log
                before = self._checked.get(life, 0)
                self._checked[life] = self._batches.compare(PartitionId(METADATA_TOPIC_ID, 0), node.host, log, before)


class ReplicasAgree(Checker):
    """Below the watermark all replicas hold the same batches, and what was once below it never changes."""

    def __init__(self, promises: Promises) -> None:
        super().__init__(promises)
        self._batches = Batches(self)
        self._checked: WeakKeyDictionary[Partition, Offset] = WeakKeyDictionary()  # up to where

    def inspect(self, cluster: SimulatedCluster) -> None:
        for node, partition_id, partition in partitions(cluster):
            before = self._checked.get(partition, 0)
            self._checked[partition] = self._batches.compare(partition_id, node.host, partition.log, before)


class RecoveryPointIsSynced(Checker):
    """What lies below the recovery point of a log is on the disk, whichever of several flushes has raised it."""

    def __init__(self, promises: Promises) -> None:
        super().__init__(promises)
        self._seen: WeakKeyDictionary[Partition, Offset] = WeakKeyDictionary()

    def inspect_disk(self, node: SimulatedNode) -> None:
        for partition in node.broker.partitions if node.broker is not None else ():
            log = partition.log
            recovery_point = log.recovery_point
            if partition.closed or log.is_offline or self._seen.get(partition, 0) == recovery_point:
                continue
            self._seen[partition] = recovery_point
            for segment in log._segments:
                unsynced = [offset for offset in unsynced_offsets(node, segment) if offset < recovery_point]
                if unsynced:
                    where = f"{partition.name} on {node.host}"
                    self.fail(f"{where} has recovery point {recovery_point}, and offset {unsynced[0]} is not synced")


def unsynced_offsets(node: SimulatedNode, segment: Segment) -> list[Offset]:
    """Of the writes that a loss of power would undo, or of a file that it would: the first offset of each.

    A compacted segment whose swap is not synced yet may be left as `.swap`; recovery finishes that.
    """
    if segment.size_bytes == 0:
        return []
    writes = node.disk.unsynced_writes(segment.log_path)
    if writes is None:
        writes = node.disk.unsynced_writes(segment.log_path + SWAP_SUFFIX)  # a compaction is about to rename it
    return [segment.base_offset] if writes is None else [int.from_bytes(data[:8], "big") for data in writes]


class WatermarksRise(Checker):
    """The watermark of a replica never falls while its process lives, and never passes the end of its log."""

    def __init__(self, promises: Promises) -> None:
        super().__init__(promises)
        self._seen: WeakKeyDictionary[Partition, Offset] = WeakKeyDictionary()

    def inspect(self, cluster: SimulatedCluster) -> None:
        for node, partition_id, partition in partitions(cluster):
            log = partition.log
            watermark, before = log.high_watermark, self._seen.get(partition, 0)
            if watermark < before:
                self.fail(f"{partition_id} on {node.host} had watermark {before}, now {watermark}")
            if watermark > log.log_end_offset:
                self.fail(f"{partition_id} on {node.host} has watermark {watermark}, and ends at {log.log_end_offset}")
            self._seen[partition] = watermark


class CommittedIsKept(Checker):
    """Who begins to lead has everything that was committed under the leaders before."""

    def __init__(self, promises: Promises) -> None:
        super().__init__(promises)
        self._committed: dict[PartitionId, dict[int, Offset]] = {}  # the highest watermark by leader epoch

    def inspect(self, cluster: SimulatedCluster) -> None:
        for node, partition_id, partition in partitions(cluster):
            if not partition.is_leader:
                continue
            epoch, end_offset = partition.leader_epoch, partition.log.log_end_offset
            committed = self._committed.setdefault(partition_id, {})
            for before, watermark in committed.items():
                if before < epoch and watermark > end_offset:
                    self.fail(
                        f"{partition_id} was committed up to {watermark} in epoch {before}; "
                        f"{node.host} leads it in epoch {epoch} and has it up to {end_offset}"
                    )
            committed[epoch] = max(committed.get(epoch, 0), partition.log.high_watermark)

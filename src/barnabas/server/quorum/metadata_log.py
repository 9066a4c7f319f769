"""The metadata log on disk: `__cluster_metadata-0`, and beside its segments what a voter must remember.

    <directory>/__cluster_metadata-0/
        00000000000000000000.log …     batches of metadata records; at each new leader a LeaderChange control batch
        quorum-state                   who leads, in which epoch
        partition.metadata             the reserved topic id
        <offset>-<epoch>.checkpoint    snapshots: all that was before that offset

Always holds: `append` writes one batch in the leader's epoch, so that a decision is there whole or, after a crash, not
at all. Nothing counts as written before `sync` has returned. A log of which something was cut off begins where its
oldest snapshot ends.
Does not know: what records mean; who leads, and what is committed (`consensus.raft` does, to whom this is a LogView).
"""

import errno
import logging
from collections.abc import Iterator, Sequence
from typing import Any

from barnabas.config.broker import BrokerConfig
from barnabas.config.topic import TopicConfig
from barnabas.consensus import quorum_records, snapshot_file
from barnabas.consensus.messages import LogEnd
from barnabas.consensus.quorum_records import KRaftVersion
from barnabas.consensus.raft import Election
from barnabas.consensus.snapshot_file import InvalidSnapshot, SnapshotHead
from barnabas.consensus.voter_history import VoterHistory
from barnabas.consensus.voters import ReplicaKey, VoterSet
from barnabas.errors import ErrorCode
from barnabas.log import checkpoint
from barnabas.log.checkpoint import QuorumState
from barnabas.log.file_range import FileRange
from barnabas.log.log import AppendOrigin, Log
from barnabas.metadata.topic_names import METADATA_TOPIC, METADATA_TOPIC_ID
from barnabas.protocol.message import Message
from barnabas.protocol.metadata_records import decode_record, encode_record
from barnabas.protocol.record_batch import BatchHeader, Record, decode_records, encode_batch, read_header
from barnabas.runtime.interfaces import Clock, Disk
from barnabas.server.quorum.snapshot_files import PartialSnapshot, SnapshotFiles
from barnabas.server.replicas.log_directory import tell_of_cut
from barnabas.types import NO_LEADER, ZERO_UUID, BrokerId, LeaderEpoch, Offset

logger = logging.getLogger(__name__)

DIRECTORY_NAME = f"{METADATA_TOPIC}-0"
READ_BYTES = 1 << 20  # of the log at a time: bounds what a replay holds in memory


def log_configs(config: BrokerConfig) -> dict[str, str]:
    return {
        # Metadata is never dropped by age or size: what is old goes when a snapshot holds it.
        "retention.ms": "-1",
        "retention.bytes": "-1",
        # A batch is bounded by the number of its records, not by the size that a producer may send.
        "max.message.bytes": str(64 << 20),
        # The log is read from end to end, not searched: a small index closes a segment after some 90 MB.
        "segment.index.bytes": str(256 << 10),
        "segment.bytes": str(config.metadata_log_segment_bytes),
        "segment.ms": str(config.metadata_log_segment_ms),
    }


class MetadataUnavailable(Exception):
    """Metadata cannot be written now; the cause says why."""


class MetadataLog:
    def __init__(
        self, disk: Disk, directory: str, log: Log, clock: Clock, config: BrokerConfig, voters: VoterSet
    ) -> None:
        self._disk = disk
        self._directory = directory
        self._log = log
        self._clock = clock
        self._config = config
        self._snapshots = SnapshotFiles(disk, directory)
        self._leader_epoch: LeaderEpoch = -1  # while this node leads
        self._begin_at_snapshot()
        self.voter_history = VoterHistory(voters)  # as the log says to its end, committed or not
        self._replay_voters()

    @classmethod
    def open(
        cls,
        disk: Disk,
        parent_directory: str,
        config: BrokerConfig,
        clock: Clock,
        *,
        voters: VoterSet,
        clean_shutdown: bool,
    ) -> "MetadataLog":
        """`voters` are those of the configuration; they count where the log knows of no others."""
        directory = f"{parent_directory}/{DIRECTORY_NAME}"
        log = Log.open(
            disk,
            directory,
            TopicConfig(log_configs(config), config),
            clock.now_ms(),
            recovery_point=0,  # it is replayed whole anyway
            log_start_offset=0,
            clean_shutdown=clean_shutdown,
            topic_id=METADATA_TOPIC_ID,
        )
        tell_of_cut(log)
        return cls(disk, directory, log, clock, config, voters)

    def _begin_at_snapshot(self) -> None:
        """A crash may have come between a snapshot and the cut that it allows, or takes the place of."""
        log, latest = self._log, self._snapshots.latest
        log_end = LogEnd(log.leader_epochs.latest_epoch, log.log_end_offset)
        if latest is not None and latest.end_offset > 0 and latest > log_end:
            self._restart_at(latest)
        elif log.log_start_offset > 0:
            needed = next((each for each in self._snapshots.ids if each.end_offset >= log.log_start_offset), None)
            if needed is None:
                raise MetadataUnavailable(
                    f"{self._directory} begins at offset {log.log_start_offset}, and no snapshot has what was before"
                )
            self._snapshots.forget_before(needed)
            log.high_watermark = needed.end_offset
            log.delete_records_before(needed.end_offset)

    def _replay_voters(self) -> None:
        oldest = self._snapshots.oldest
        if oldest is not None and oldest.end_offset == self._log.log_start_offset:
            self.voter_history.restart(oldest.end_offset, self._decode(oldest)[0])
        for view, position, header in self._views(self._log.log_start_offset, self._log.log_end_offset):
            if header.is_control:
                self._heed(view, position)

    def _heed(self, view: memoryview, position: int) -> None:
        """A control batch that is in the log now."""
        for record in decode_records(view, position):
            self.voter_history.appended(record.offset, quorum_records.decode(record.key, record.value))

    def _restart_at(self, snapshot: LogEnd) -> None:
        self._log.truncate_fully_and_start_at(snapshot.end_offset, self._clock.now_ms())
        self._snapshots.forget_before(snapshot)

    @property
    def end_offset(self) -> Offset:
        return self._log.log_end_offset

    @property
    def size_bytes(self) -> int:
        return self._log.size_bytes

    # What Raft may know

    @property
    def end(self) -> LogEnd:
        last_epoch = self._log.leader_epochs.latest_epoch
        return self.start if last_epoch < 0 else LogEnd(last_epoch, self._log.log_end_offset)

    @property
    def start_offset(self) -> Offset:
        return self._log.log_start_offset

    @property
    def start(self) -> LogEnd:
        if self._log.log_start_offset == 0:
            return LogEnd(-1, 0)
        oldest = self._snapshots.oldest
        assert oldest is not None
        assert oldest.end_offset == self._log.log_start_offset
        return oldest

    @property
    def snapshot(self) -> LogEnd | None:
        return self._snapshots.latest

    def may_vote(self, replica: ReplicaKey, committed: Offset) -> bool:
        return self.voter_history.may_vote(replica, committed)

    def end_of_epoch(self, epoch: LeaderEpoch) -> LogEnd:
        found = LogEnd(*self._log.end_offset_for_epoch(epoch))
        # An epoch older than the log ends, for all that the log knows, where its oldest snapshot does.
        return self.start if found.end_offset == self.start.end_offset and found.end_offset > 0 else found

    def read_election(self) -> Election:
        path = self._file(checkpoint.QUORUM_STATE_FILE_NAME)
        last_epoch = max(self.end.last_epoch, 0)
        if not self._disk.exists(path):
            if last_epoch:
                logger.warning("%s is gone, and with it what this node promised after epoch %d", path, last_epoch)
            return Election(last_epoch)
        state = checkpoint.decode_quorum_state(self._disk.read_bytes(path), path)
        voted = None if state.voted_id < 0 else ReplicaKey(state.voted_id, state.voted_directory_id)
        epoch = max(state.leader_epoch, last_epoch)  # should the file be older than the log
        return Election(epoch, state.leader_id if epoch == state.leader_epoch else NO_LEADER, voted)

    def write_election(self, election: Election, voters: VoterSet) -> None:
        """Durable when it returns."""
        state = QuorumState(
            leader_id=election.leader_id,
            leader_epoch=election.epoch,
            voted_id=-1 if election.voted is None else election.voted.id,
            voted_directory_id=ZERO_UUID if election.voted is None else election.voted.directory_id,
            voters=voters.ids,
            version=min(self.voter_history.kraft_version, 1),
        )
        path = self._file(checkpoint.QUORUM_STATE_FILE_NAME)
        self._disk.write_atomically(path, checkpoint.encode_quorum_state(state))

    # Reading

    def read(self, offset: Offset, size_bytes_max: int) -> FileRange | None:
        """Batches for a follower, committed or not."""
        return self._log.read(offset, size_bytes_max, self._log.log_end_offset)

    def batches(self, offset: Offset, end_offset: Offset) -> Iterator[tuple[BatchHeader, list[Any]]]:
        """Batches with their records. Control batches have none: they speak of the quorum, not of the cluster."""
        for view, position, header in self._views(offset, end_offset):
            yield header, [] if header.is_control else _records(view, position)

    def _views(self, offset: Offset, end_offset: Offset) -> Iterator[tuple[memoryview, int, BatchHeader]]:
        """Each batch as the place where it stands in some bytes."""
        assert offset >= self._log.log_start_offset, f"what was before {self._log.log_start_offset} is in a snapshot"
        while offset < end_offset:
            found = self._log.read(offset, READ_BYTES, end_offset)
            assert found is not None, f"the metadata log has nothing at {offset}"
            view = memoryview(found.read())
            position = 0
            for header in _whole_batches(view):
                if header.base_offset >= offset:
                    yield view, position, header
                position += header.size_bytes
                offset = max(offset, header.next_offset)

    # Writing

    def begin_epoch(self, epoch: LeaderEpoch, leader_id: BrokerId, voters: VoterSet) -> None:
        """From here on this node appends, in this epoch; the log says so."""
        assert epoch > self.end.last_epoch
        self._leader_epoch = epoch
        pairs = [quorum_records.leader_change(leader_id, voters, voters.ids)]
        history = self.voter_history
        if history.kraft_version > 0 and history.offset < 0:
            # They came with the directory. Who joins later has only the log to learn them from.
            pairs += [quorum_records.encode(KRaftVersion(history.kraft_version)), quorum_records.encode(voters)]
        self._append(pairs, control=True)

    def append_voters(self, voters: VoterSet, kraft_version: int | None = None) -> Offset:
        """They count from here on, and so does the level, if there is a new one. The end offset."""
        level = [] if kraft_version is None else [quorum_records.encode(KRaftVersion(kraft_version))]
        return self._append([*level, quorum_records.encode(voters)], control=True)

    def append(self, records: Sequence[Message]) -> Offset:
        """The end offset. OSError leaves the log as it was."""
        return self._append([(None, encode_record(record)) for record in records], control=False)

    def _append(self, pairs: Sequence[tuple[bytes | None, bytes]], *, control: bool) -> Offset:
        assert self._leader_epoch >= 0
        base_offset = self._log.log_end_offset
        now_ms = self._clock.now_ms()
        batch = encode_batch(
            [Record(base_offset + delta, now_ms, key, value) for delta, (key, value) in enumerate(pairs)],
            base_offset=base_offset,
            leader_epoch=self._leader_epoch,
            control=control,
        )
        info = self._log.append_as_leader(memoryview(batch), self._leader_epoch, now_ms, AppendOrigin.COORDINATOR)
        assert info.error == ErrorCode.NONE, info
        assert info.end_offset == base_offset + len(pairs)
        if control:
            self._heed(memoryview(batch), 0)
        return info.end_offset

    def append_from_leader(self, batches: memoryview) -> None:
        """As follower: what the leader sent, offsets and epochs as they are."""
        info = self._log.append_as_follower(batches, self._clock.now_ms())
        if info.error != ErrorCode.NONE:
            raise OSError(errno.EIO, f"the leader sent what cannot be appended: {info.error_message}", self._directory)
        position = 0
        for header in _whole_batches(batches):
            if header.is_control:
                self._heed(batches, position)
            position += header.size_bytes

    def truncate_to(self, offset: Offset) -> None:
        self._log.truncate_to(offset, self._clock.now_ms())
        self.voter_history.truncate_to(self._log.log_end_offset)

    def committed(self, end_offset: Offset) -> None:
        self._log.high_watermark = end_offset

    def sync(self) -> None:
        """To be called off the event loop: it waits for the platter."""
        self._log.flush()

    def close(self) -> None:
        self._log.close()

    # Snapshots

    def read_snapshot(self) -> tuple[LogEnd, SnapshotHead, Iterator[Any]]:
        """The latest one, with its records."""
        latest = self._snapshots.latest
        assert latest is not None
        head, values = self._decode(latest)
        return latest, head, (decode_record(value) for value in values)

    def _decode(self, snapshot: LogEnd) -> tuple[SnapshotHead, Iterator[bytes]]:
        try:
            return snapshot_file.decode(memoryview(self._snapshots.read_bytes(snapshot)))
        except InvalidSnapshot as problem:
            path = self._file(snapshot_file.file_name(snapshot))
            raise MetadataUnavailable(f"{path} is damaged: {problem}") from problem

    def snapshot_size_bytes(self, snapshot: LogEnd) -> int | None:
        """None where there is no such snapshot. The one that a directory was formatted with is nobody else's."""
        if snapshot not in self._snapshots.ids or snapshot.end_offset == 0:
            return None
        return self._snapshots.size_bytes(snapshot)

    def read_snapshot_part(self, snapshot: LogEnd, position: int, size_bytes_max: int) -> FileRange:
        return self._snapshots.read(snapshot, position, size_bytes_max)

    def begin_snapshot(self, snapshot: LogEnd) -> PartialSnapshot:
        """To be written here, or copied; afterwards `snapshot_written` or `install_snapshot`."""
        return self._snapshots.begin(snapshot)

    def snapshot_written(self, snapshot: LogEnd) -> None:
        """Of this log's own records."""
        assert self.start.end_offset <= snapshot.end_offset <= self._log.high_watermark
        self._snapshots.finished(snapshot)

    def install_snapshot(self, snapshot: LogEnd) -> None:
        """From a leader whose log begins behind all that this one has."""
        assert snapshot.end_offset > self._log.high_watermark
        self._snapshots.finished(snapshot)
        self._restart_at(snapshot)
        self.voter_history.restart(snapshot.end_offset, self._decode(snapshot)[0])

    def clean(self) -> bool:
        """Cuts off what a later snapshot holds too, as far as `metadata.max.retention.*` want it gone.

        Whether there is more that will be due later.
        """
        now_ms = self._clock.now_ms()
        while len(self._snapshots.ids) > 1 and self._may_forget(self._snapshots.ids[0], now_ms):
            following = self._snapshots.ids[1]
            if self._log.delete_records_before(following.end_offset) != ErrorCode.NONE:
                break
            self._log.delete_old_segments(now_ms)
            self._snapshots.forget_before(following)
            self.voter_history.forget_before(following.end_offset)
        self._log.delete_files_due(now_ms)
        return len(self._snapshots.ids) > 1 or self._log.next_file_deletion_ms is not None

    def _may_forget(self, oldest: LogEnd, now_ms: int) -> bool:
        sizes_bytes = sum(self._snapshots.size_bytes(each) for each in self._snapshots.ids)
        if 0 <= self._config.metadata_max_retention_bytes < self._log.size_bytes + sizes_bytes:
            return True
        head, _values = self._decode(oldest)
        return 0 <= self._config.metadata_max_retention_ms < now_ms - head.last_contained_ms

    # Details

    def _file(self, name: str) -> str:
        return f"{self._directory}/{name}"


def _whole_batches(view: memoryview) -> Iterator[BatchHeader]:
    """A read may end within a batch; the rest of it comes with the next one."""
    position = 0
    while position + 12 <= len(view):
        size_bytes = 12 + int.from_bytes(view[position + 8 : position + 12], "big")
        if position + size_bytes > len(view):
            return
        yield read_header(view, position)
        position += size_bytes


def _records(view: memoryview, position: int) -> list[Any]:
    return [decode_record(record.value or b"") for record in decode_records(view, position)]

"""The metadata log on disk: `__cluster_metadata-0`, and beside its segments what a voter must remember.

    <directory>/__cluster_metadata-0/
        00000000000000000000.log …     batches of metadata records; at each new leader a LeaderChange control batch
        quorum-state                   who leads, in which epoch
        partition.metadata             the reserved topic id

Always holds: `append` writes one batch in the leader's epoch, so that a decision is there whole or, after a crash, not
at all. Nothing counts as written before `sync` has returned.
Does not know: what records mean; who leads, and what is committed (`consensus.raft` does, to whom this is a LogView).
"""

import errno
from collections.abc import Iterator, Sequence
from typing import Any

from barnabas.config.broker import BrokerConfig
from barnabas.config.topic import TopicConfig
from barnabas.consensus.messages import NO_LEADER, LogEnd
from barnabas.consensus.raft import Election
from barnabas.consensus.voters import ReplicaKey, VoterSet
from barnabas.errors import ErrorCode
from barnabas.log import checkpoint
from barnabas.log.checkpoint import QuorumState
from barnabas.log.file_range import FileRange
from barnabas.log.log import AppendOrigin, Log
from barnabas.metadata.topic_names import METADATA_TOPIC, METADATA_TOPIC_ID
from barnabas.protocol.control_records import ControlRecordKind, encode_control_key
from barnabas.protocol.message import Message
from barnabas.protocol.metadata_records import decode_record, encode_record
from barnabas.protocol.record_batch import BatchHeader, Record, decode_records, encode_batch, read_header
from barnabas.runtime.interfaces import Clock, Disk
from barnabas.types import BrokerId, LeaderEpoch, Offset

DIRECTORY_NAME = f"{METADATA_TOPIC}-0"
READ_BYTES = 1 << 20  # of the log at a time: bounds what a replay holds in memory
LEADER_CHANGE_VERSION = 0  # of kraft.version 0: voters without directory ids

CONFIGS = {
    # Metadata is never dropped by age or size: what is old goes when a snapshot holds it.
    "retention.ms": "-1",
    "retention.bytes": "-1",
    # A batch is bounded by the number of its records, not by the size that a producer may send.
    "max.message.bytes": str(64 << 20),
    # The log is read from end to end, not searched: a small index closes a segment after some 90 MB.
    "segment.index.bytes": str(256 << 10),
}


class MetadataUnavailable(Exception):
    """Metadata cannot be written now; the cause says why."""


class MetadataLog:
    snapshot: LogEnd | None = None  # nothing is cut off yet

    def __init__(self, disk: Disk, directory: str, log: Log, clock: Clock) -> None:
        self._disk = disk
        self._directory = directory
        self._log = log
        self._clock = clock
        self._leader_epoch: LeaderEpoch = -1  # while this node leads

    @classmethod
    def open(
        cls, disk: Disk, parent_directory: str, config: BrokerConfig, clock: Clock, *, clean_shutdown: bool
    ) -> "MetadataLog":
        directory = f"{parent_directory}/{DIRECTORY_NAME}"
        log = Log.open(
            disk,
            directory,
            TopicConfig(CONFIGS, config),
            clock.now_ms(),
            recovery_point=0,  # it is replayed whole anyway
            log_start_offset=0,
            clean_shutdown=clean_shutdown,
            topic_id=METADATA_TOPIC_ID,
        )
        return cls(disk, directory, log, clock)

    @property
    def end_offset(self) -> Offset:
        return self._log.log_end_offset

    @property
    def size_bytes(self) -> int:
        return self._log.size_bytes

    # What Raft may know

    @property
    def end(self) -> LogEnd:
        return LogEnd(self._log.leader_epochs.latest_epoch, self._log.log_end_offset)

    @property
    def start_offset(self) -> Offset:
        return self._log.log_start_offset

    def end_of_epoch(self, epoch: LeaderEpoch) -> LogEnd:
        return LogEnd(*self._log.end_offset_for_epoch(epoch))

    def read_election(self) -> Election:
        path = self._file(checkpoint.QUORUM_STATE_FILE_NAME)
        if not self._disk.exists(path):
            return Election()
        state = checkpoint.decode_quorum_state(self._disk.read_bytes(path), path)
        voted = None if state.voted_id < 0 else ReplicaKey(state.voted_id, state.voted_directory_id)
        epoch = max(state.leader_epoch, self.end.last_epoch)  # should the file be older than the log
        return Election(epoch, state.leader_id if epoch == state.leader_epoch else NO_LEADER, voted)

    def write_election(self, election: Election, voters: VoterSet) -> None:
        """Durable when it returns."""
        state = QuorumState(
            leader_id=election.leader_id,
            leader_epoch=election.epoch,
            voted_id=-1 if election.voted is None else election.voted.id,
            voters=voters.ids,
            version=0,
        )
        path = self._file(checkpoint.QUORUM_STATE_FILE_NAME)
        self._disk.write_atomically(path, checkpoint.encode_quorum_state(state))

    # Reading

    def read(self, offset: Offset, size_bytes_max: int) -> FileRange | None:
        """Batches for a follower, committed or not."""
        return self._log.read(offset, size_bytes_max, self._log.log_end_offset)

    def batches(self, offset: Offset, end_offset: Offset) -> Iterator[tuple[BatchHeader, list[Any]]]:
        """Batches with their records. Control batches have none: they speak of the quorum, not of the cluster."""
        if self._log.log_start_offset > offset:
            offset = self._log.log_start_offset
            raise MetadataUnavailable(
                f"{self._directory} begins at offset {offset}; the rest is in a snapshot, and those cannot be read"
            )
        while offset < end_offset:
            found = self._log.read(offset, READ_BYTES, end_offset)
            assert found is not None, f"the metadata log has nothing at {offset}"
            view = memoryview(found.read())
            position = 0
            for header in _whole_batches(view):
                if header.base_offset >= offset:
                    yield header, [] if header.is_control else _records(view, position)
                position += header.size_bytes
                offset = max(offset, header.next_offset)

    # Writing

    def begin_epoch(self, epoch: LeaderEpoch, leader_id: BrokerId, voters: VoterSet) -> None:
        """From here on this node appends, in this epoch; the log says so."""
        from barnabas.protocol.messages.leader_change_message import LeaderChangeMessage, Voter

        assert epoch > self.end.last_epoch
        self._leader_epoch = epoch
        members = [Voter(voter_id=voter_id) for voter_id in voters.ids]
        message = LeaderChangeMessage(
            version=LEADER_CHANGE_VERSION, leader_id=leader_id, voters=members, granting_voters=members
        )
        value = bytearray()
        message.encode(value, LEADER_CHANGE_VERSION)
        self._append([(encode_control_key(ControlRecordKind.LEADER_CHANGE), bytes(value))], control=True)

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
        return info.end_offset

    def append_from_leader(self, batches: memoryview) -> None:
        """As follower: what the leader sent, offsets and epochs as they are."""
        info = self._log.append_as_follower(batches, self._clock.now_ms())
        if info.error != ErrorCode.NONE:
            raise OSError(errno.EIO, f"the leader sent what cannot be appended: {info.error_message}", self._directory)

    def truncate_to(self, offset: Offset) -> None:
        self._log.truncate_to(offset, self._clock.now_ms())

    def committed(self, end_offset: Offset) -> None:
        self._log.high_watermark = end_offset

    def sync(self) -> None:
        """To be called off the event loop: it waits for the platter."""
        self._log.flush()

    def close(self) -> None:
        self._log.close()

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

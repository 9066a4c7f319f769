"""The metadata log on disk: `__cluster_metadata-0`, and beside its segments what a voter must remember.

    <directory>/__cluster_metadata-0/
        00000000000000000000.log …     batches of metadata records; at each new leader a LeaderChange control batch
        quorum-state                   who leads, in which epoch
        partition.metadata             the reserved topic id

Always holds: `append` writes one batch in the leader's epoch, so that a decision is there whole or, after a crash, not
at all. An epoch is in quorum-state, synced, before anything is written in it: no epoch is ever led twice. Nothing
counts as written before `sync` has returned.
Does not know: what records mean. With one voter, what is synced is committed; a quorum of several decides that by
itself, above this file.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from barnabas.config.broker import BrokerConfig
from barnabas.config.topic import TopicConfig
from barnabas.errors import ErrorCode
from barnabas.log import checkpoint
from barnabas.log.checkpoint import QuorumState
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
    def __init__(self, disk: Disk, directory: str, log: Log, node_id: BrokerId, clock: Clock) -> None:
        self._disk = disk
        self._directory = directory
        self._log = log
        self._node_id = node_id
        self._clock = clock
        self.leader_epoch: LeaderEpoch = self._read_quorum_state().leader_epoch  # the last one known

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
        return cls(disk, directory, log, config.node_id, clock)

    @property
    def end_offset(self) -> Offset:
        return self._log.log_end_offset

    @property
    def size_bytes(self) -> int:
        return self._log.size_bytes

    # Reading

    def batches(self) -> Iterator[tuple[BatchHeader, list[Any]]]:
        """Every batch with its records. Control batches have none: they speak of the quorum, not of the cluster."""
        offset = self._log.log_start_offset
        if offset > 0:
            raise MetadataUnavailable(
                f"{self._directory} begins at offset {offset}; the rest is in a snapshot, and those cannot be read"
            )
        while offset < self._log.log_end_offset:
            found = self._log.read(offset, READ_BYTES, self._log.log_end_offset)
            assert found is not None, f"the metadata log has nothing at {offset}"
            view = memoryview(found.read())
            position = 0
            for header in _whole_batches(view):
                if header.base_offset >= offset:
                    yield header, [] if header.is_control else _records(view, position)
                position += header.size_bytes
                offset = max(offset, header.next_offset)

    # Writing

    def begin_epoch(self) -> None:
        """Makes this node the leader of an epoch that nobody has led, and writes so into the log."""
        from barnabas.protocol.messages.leader_change_message import LeaderChangeMessage, Voter

        self.leader_epoch = max(self.leader_epoch, self._log.leader_epochs.latest_epoch) + 1
        state = QuorumState(leader_id=self._node_id, leader_epoch=self.leader_epoch, voters=(self._node_id,), version=0)
        self._disk.write_atomically(
            self._file(checkpoint.QUORUM_STATE_FILE_NAME), checkpoint.encode_quorum_state(state)
        )
        voters = [Voter(voter_id=self._node_id)]
        message = LeaderChangeMessage(
            version=LEADER_CHANGE_VERSION, leader_id=self._node_id, voters=voters, granting_voters=voters
        )
        value = bytearray()
        message.encode(value, LEADER_CHANGE_VERSION)
        self._append([(encode_control_key(ControlRecordKind.LEADER_CHANGE), bytes(value))], control=True)

    def append(self, records: Sequence[Message]) -> Offset:
        """The end offset. OSError leaves the log as it was."""
        return self._append([(None, encode_record(record)) for record in records], control=False)

    def _append(self, pairs: Sequence[tuple[bytes | None, bytes]], *, control: bool) -> Offset:
        assert self.leader_epoch >= 0
        base_offset = self._log.log_end_offset
        now_ms = self._clock.now_ms()
        batch = encode_batch(
            [Record(base_offset + delta, now_ms, key, value) for delta, (key, value) in enumerate(pairs)],
            base_offset=base_offset,
            leader_epoch=self.leader_epoch,
            control=control,
        )
        info = self._log.append_as_leader(memoryview(batch), self.leader_epoch, now_ms, AppendOrigin.COORDINATOR)
        assert info.error == ErrorCode.NONE, info
        assert info.end_offset == base_offset + len(pairs)
        return info.end_offset

    def committed(self, end_offset: Offset) -> None:
        self._log.high_watermark = end_offset

    def sync(self) -> None:
        """To be called off the event loop: it waits for the platter."""
        self._log.flush()

    def close(self) -> None:
        self._log.close()

    # Details

    def _read_quorum_state(self) -> QuorumState:
        path = self._file(checkpoint.QUORUM_STATE_FILE_NAME)
        if not self._disk.exists(path):
            return QuorumState()
        return checkpoint.decode_quorum_state(self._disk.read_bytes(path), path)

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

"""The bytes of a snapshot of the metadata log: batches as in a log, between a header and a footer.

    control batch     SnapshotHeader; where the voters stand in the log, KRaftVersion and Voters too
    batches           the records that make the state, offsets from the header's on, in the epoch of the snapshot
    control batch     SnapshotFooter

The file is named `<end offset, 20 digits>-<epoch, 10 digits>.checkpoint`: it stands for all records below that offset,
the last of which was written in that epoch.
Always holds: a file that `decode` takes is whole: each checksum is right, and the footer is the last thing in it.
Does not know: what the records mean; disks.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from barnabas.consensus import quorum_records
from barnabas.consensus.messages import LogEnd
from barnabas.consensus.quorum_records import KRaftVersion, QuorumRecord, SnapshotFooter, SnapshotHeader
from barnabas.consensus.voters import VoterSet
from barnabas.protocol.record_batch import (
    InvalidRecordBatch,
    Record,
    crc_matches,
    decode_records,
    encode_batch,
    read_headers,
)

SUFFIX = ".checkpoint"
PARTIAL_SUFFIX = ".checkpoint.part"  # still being written, or copied from a leader
OFFSET_DIGITS = 20
EPOCH_DIGITS = 10


class InvalidSnapshot(ValueError):
    """Not a whole snapshot."""


class SnapshotHead(NamedTuple):
    """What a snapshot says before its records."""

    last_contained_ms: int
    kraft_version: int = 0
    voters: VoterSet | None = None  # of kraft.version 1 and later


def file_name(snapshot: LogEnd, suffix: str = SUFFIX) -> str:
    return f"{snapshot.end_offset:0{OFFSET_DIGITS}d}-{snapshot.last_epoch:0{EPOCH_DIGITS}d}{suffix}"


def snapshot_of(name: str) -> LogEnd | None:
    """None for the name of anything else."""
    offset, dash, epoch = name.removesuffix(SUFFIX).partition("-")
    if not name.endswith(SUFFIX) or not dash or not (offset.isdecimal() and epoch.isdecimal()):
        return None
    return LogEnd(int(epoch), int(offset))


class SnapshotEncoder:
    """Batch after batch: `begin` once, `add` as often as needed, `end` once."""

    def __init__(self, snapshot: LogEnd, now_ms: int) -> None:
        self._epoch = snapshot.last_epoch
        self._now_ms = now_ms
        self._offset = 0

    def begin(self, head: SnapshotHead) -> bytearray:
        records: list[QuorumRecord] = [SnapshotHeader(head.last_contained_ms)]
        if head.kraft_version > 0:
            records.append(KRaftVersion(head.kraft_version))
            if head.voters is not None:
                records.append(head.voters)
        return self._batch([quorum_records.encode(record) for record in records], control=True)

    def add(self, values: Sequence[bytes]) -> bytearray:
        return self._batch([(None, value) for value in values], control=False)

    def end(self) -> bytearray:
        return self._batch([quorum_records.encode(SnapshotFooter())], control=True)

    def _batch(self, pairs: Sequence[tuple[bytes | None, bytes]], *, control: bool) -> bytearray:
        base_offset = self._offset
        self._offset += len(pairs)
        return encode_batch(
            [Record(base_offset + delta, self._now_ms, key, value) for delta, (key, value) in enumerate(pairs)],
            base_offset=base_offset,
            leader_epoch=self._epoch,
            control=control,
        )


def decode(view: memoryview) -> tuple[SnapshotHead, Iterator[bytes]]:
    """What it says first, and the values of its records. Raises InvalidSnapshot before any is given."""
    try:
        batches = list(read_headers(view))
        if not batches or any(not crc_matches(view, position, header) for position, header in batches):
            raise InvalidSnapshot("a checksum is wrong")
        last_position, last = batches[-1]
        if last_position + last.size_bytes != len(view):
            raise InvalidSnapshot("it ends within a batch")
        said = [
            quorum_records.decode(record.key, record.value)
            for position, header in batches
            if header.is_control
            for record in decode_records(view, position)
        ]
    except InvalidRecordBatch as problem:
        raise InvalidSnapshot(str(problem)) from problem
    if not isinstance(said[0] if said else None, SnapshotHeader):
        raise InvalidSnapshot("it has no header")
    if not isinstance(said[-1], SnapshotFooter) or not last.is_control:
        raise InvalidSnapshot("it has no footer")
    values = (
        record.value or b""
        for position, header in batches
        if not header.is_control
        for record in decode_records(view, position)
    )
    return _head(said), values


def _head(said: Sequence[QuorumRecord | None]) -> SnapshotHead:
    last_contained_ms, kraft_version = -1, 0
    voters: VoterSet | None = None
    for record in said:
        if isinstance(record, SnapshotHeader):
            last_contained_ms = record.last_contained_ms
        elif isinstance(record, KRaftVersion):
            kraft_version = record.level
        elif isinstance(record, VoterSet):
            voters = record
    return SnapshotHead(last_contained_ms, kraft_version, voters)

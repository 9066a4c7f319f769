"""Partitions as they lie on disk, read without a broker and without changing a byte of them.

Owns what may be read of a data directory (partitions, segments, how far the high watermark and the last stable offset
go) and where in a segment an offset or a timestamp is to be looked for. Kafka's files and Barnabas's are the same.
Always holds: nothing at or above the high watermark of the checkpoint is read; an index is a hint, and a broken one
costs time only. A segment that is not sound raises CorruptLog with file and position. Does not know: Spark, Arrow.
"""

import os
import re
from collections.abc import Iterator
from struct import Struct
from typing import NamedTuple

import numpy as np

from barnabas.log.checkpoint import (
    HIGH_WATERMARK_FILE_NAME,
    LOG_START_OFFSET_FILE_NAME,
    PARTITION_METADATA_FILE_NAME,
    decode_offsets,
    decode_partition_metadata,
)
from barnabas.log.producer_state import SNAPSHOT_SUFFIX, CorruptSnapshot, decode_snapshot
from barnabas.log.segment import INDEX_SUFFIX, LOG_SUFFIX, TIME_INDEX_SUFFIX, TRANSACTION_INDEX_SUFFIX
from barnabas.protocol.record_batch import (
    HEADER_BYTES,
    BatchHeader,
    InvalidRecordBatch,
    decode_records,
    read_header,
)
from barnabas.types import ZERO_UUID, Offset, Position, TopicPartition, Uuid, uuid_text

HEADERS_CHUNK_BYTES = 256 << 10
_PARTITION_DIRECTORY = re.compile(r"(.+)-(\d+)")  # no match for those with a suffix: deleted, future, stray
_SEGMENT = re.compile(r"(\d{20})" + re.escape(LOG_SUFFIX))
_OFFSET_ENTRY = np.dtype([("offset", ">i4"), ("position", ">i4")])
_TIME_ENTRY = np.dtype([("timestamp_ms", ">i8"), ("offset", ">i4")])
_ABORTED_ENTRY = Struct(">hqqqq")


class CorruptLog(Exception):
    """A segment file that is not what a broker wrote."""

    def __init__(self, path: str, position: Position, problem: str) -> None:
        super().__init__(f"{path} is damaged at position {position}: {problem}")
        self.path = path
        self.position = position


class NoSuchLog(Exception):
    """A directory or a topic that is not there."""


class SegmentFile(NamedTuple):
    base_offset: Offset
    end_offset: Offset  # the next segment's base offset; of the last one, the high watermark
    path: str  # of the .log
    size_bytes: int
    is_last: bool

    def beside(self, suffix: str) -> str:
        return self.path.removesuffix(LOG_SUFFIX) + suffix


class PartitionFiles(NamedTuple):
    """One replica of one partition."""

    name: TopicPartition
    directory: str
    topic_id: Uuid
    log_start_offset: Offset
    high_watermark: Offset
    segments: tuple[SegmentFile, ...]


def find_partitions(log_dirs: tuple[str, ...]) -> dict[TopicPartition, PartitionFiles]:
    """All partitions in these directories. Of several replicas the one whose checkpoint goes furthest is taken."""
    found: dict[TopicPartition, PartitionFiles] = {}
    for log_dir in log_dirs:
        if not os.path.isdir(log_dir):
            raise NoSuchLog(f"logDirs: {log_dir} is not a directory on this machine")
        watermarks = _checkpoint(log_dir, HIGH_WATERMARK_FILE_NAME)
        starts = _checkpoint(log_dir, LOG_START_OFFSET_FILE_NAME)
        for directory_name in sorted(os.listdir(log_dir)):
            match = _PARTITION_DIRECTORY.fullmatch(directory_name)
            directory = os.path.join(log_dir, directory_name)
            if match is None or not os.path.isdir(directory):
                continue
            name = TopicPartition(match[1], int(match[2]))
            replica = _replica(name, directory, starts.get(name, 0), watermarks.get(name, 0))
            other = found.get(name)
            if other is not None and ZERO_UUID not in (ids := {other.topic_id, replica.topic_id}) and len(ids) > 1:
                raise NoSuchLog(
                    f"{name} is topic {uuid_text(other.topic_id)} in {other.directory} and topic "
                    f"{uuid_text(replica.topic_id)} in {directory}: give logDirs of one cluster"
                )
            if other is None or replica.high_watermark > other.high_watermark:
                found[name] = replica
    return found


def _checkpoint(log_dir: str, file_name: str) -> dict[TopicPartition, Offset]:
    path = os.path.join(log_dir, file_name)
    if not os.path.exists(path):
        return {}
    with open(path, "rb") as file:
        return decode_offsets(file.read(), path)


def _replica(name: TopicPartition, directory: str, start: Offset, watermark: Offset) -> PartitionFiles:
    topic_id = ZERO_UUID
    metadata = os.path.join(directory, PARTITION_METADATA_FILE_NAME)
    if os.path.exists(metadata):
        with open(metadata, "rb") as file:
            topic_id = decode_partition_metadata(file.read(), metadata)
    bases = sorted(int(match[1]) for each in os.listdir(directory) if (match := _SEGMENT.fullmatch(each)))
    segments: list[SegmentFile] = []
    for number, base_offset in enumerate(bases):
        path = os.path.join(directory, f"{base_offset:020}{LOG_SUFFIX}")
        is_last = number == len(bases) - 1
        end_offset = watermark if is_last else bases[number + 1]
        segments.append(SegmentFile(base_offset, end_offset, path, os.path.getsize(path), is_last))
    first = max(start, bases[0]) if bases else start
    return PartitionFiles(name, directory, topic_id, first, watermark, tuple(segments))


def position_before(segment: SegmentFile, offset: Offset) -> Position:
    """Where to begin reading in order to find an offset: at or before the batch that holds it."""
    entries = _offset_entries(segment)
    number = int(np.searchsorted(entries["offset"].astype(np.int64), offset - segment.base_offset, side="right")) - 1
    return int(entries["position"][number]) if number >= 0 else 0


def batch_positions(segment: SegmentFile) -> list[Position]:
    """Positions at which batches begin, some of them, ascending."""
    return [int(position) for position in _offset_entries(segment)["position"]]


def _offset_entries(segment: SegmentFile) -> "np.ndarray[tuple[int], np.dtype[np.void]]":
    """The entries up to the first that does not ascend: an active segment's file ends in room for more."""
    path = segment.beside(INDEX_SUFFIX)
    if not os.path.exists(path):
        return np.empty(0, _OFFSET_ENTRY)
    with open(path, "rb") as file:
        data = file.read()
    entries = np.frombuffer(data, _OFFSET_ENTRY, len(data) // _OFFSET_ENTRY.itemsize)
    positions = entries["position"].astype(np.int64)
    ascends = (np.diff(positions, prepend=0) > 0) & (positions < segment.size_bytes)
    return entries if ascends.all() else entries[: int(ascends.argmin())]


def _times(segment: SegmentFile) -> "np.ndarray[tuple[int], np.dtype[np.void]]":
    path = segment.beside(TIME_INDEX_SUFFIX)
    if not os.path.exists(path):
        return np.empty(0, _TIME_ENTRY)
    with open(path, "rb") as file:
        data = file.read()
    entries = np.frombuffer(data, _TIME_ENTRY, len(data) // _TIME_ENTRY.itemsize)
    ascends = np.diff(entries["timestamp_ms"].astype(np.int64), prepend=-1) > 0
    return entries if ascends.all() else entries[: int(ascends.argmin())]


def offset_for_time(files: PartitionFiles, timestamp_ms: int) -> Offset | None:
    """The first offset whose record is as late as this or later; None where none below the high watermark is."""
    for segment in files.segments:
        times = _times(segment)
        # The last entry of a finished segment is its largest timestamp.
        if not segment.is_last and len(times) and int(times["timestamp_ms"][-1]) < timestamp_ms:
            continue
        number = int(np.searchsorted(times["timestamp_ms"].astype(np.int64), timestamp_ms, side="left")) - 1
        from_offset = segment.base_offset + (int(times["offset"][number]) if number >= 0 else 0)
        found = _search_time(segment, max(from_offset, files.log_start_offset), files.high_watermark, timestamp_ms)
        if found is not None:
            return found
    return None


def _search_time(segment: SegmentFile, offset: Offset, end_offset: Offset, timestamp_ms: int) -> Offset | None:
    for position, header in batch_headers(segment, position_before(segment, offset), end_offset):
        if header.max_timestamp_ms < timestamp_ms or header.next_offset <= offset or header.is_control:
            continue
        with open(segment.path, "rb") as file:
            data = os.pread(file.fileno(), header.size_bytes, position)
        try:
            records = decode_records(data)
        except InvalidRecordBatch as problem:
            raise CorruptLog(segment.path, position, str(problem)) from None
        for record in records:
            if record.timestamp_ms >= timestamp_ms and offset <= record.offset < end_offset:
                return record.offset
    return None


def batch_headers(
    segment: SegmentFile, position: Position, end_offset: Offset
) -> Iterator[tuple[Position, BatchHeader]]:
    """Position and header of each batch that begins below `end_offset`."""
    with open(segment.path, "rb") as file:
        while position < segment.size_bytes:
            chunk = os.pread(file.fileno(), min(HEADERS_CHUNK_BYTES, segment.size_bytes - position), position)
            inside = 0
            while inside + HEADER_BYTES <= len(chunk):
                try:
                    header = read_header(chunk, inside)
                except InvalidRecordBatch as problem:
                    raise CorruptLog(segment.path, position + inside, str(problem)) from None
                if header.base_offset >= end_offset:
                    return
                yield position + inside, header
                inside += header.size_bytes
            if inside == 0:
                raise CorruptLog(segment.path, position, f"{len(chunk)} bytes are no batch")
            position += inside


def last_stable_offset(files: PartitionFiles) -> Offset:
    """Below it every transaction has ended; at most the high watermark."""
    open_transactions: dict[int, Offset] = {}
    after = 0
    for segment in reversed(files.segments):
        path = segment.beside(SNAPSHOT_SUFFIX)
        if segment.base_offset > files.high_watermark or not os.path.exists(path):
            continue
        with open(path, "rb") as file:
            data = file.read()
        try:
            states = decode_snapshot(data)
        except CorruptSnapshot:
            continue  # an older one serves as well
        after = segment.base_offset
        open_transactions = {
            state.producer_id: state.transaction_first_offset for state in states if state.in_transaction
        }
        break
    for segment in files.segments:
        if segment.base_offset >= after:
            for _, header in batch_headers(segment, 0, files.high_watermark):
                if header.is_control:
                    open_transactions.pop(header.producer_id, None)
                elif header.is_transactional:
                    open_transactions.setdefault(header.producer_id, header.base_offset)
    return min(open_transactions.values(), default=files.high_watermark)


class AbortedRange(NamedTuple):
    producer_id: int
    first_offset: Offset
    last_offset: Offset  # of the marker


def aborted_ranges(index_paths: tuple[str, ...], first_offset: Offset, end_offset: Offset) -> list[AbortedRange]:
    """Aborted transactions that touch these offsets, from the indexes of this segment and those behind it."""
    found: list[AbortedRange] = []
    for path in index_paths:
        if not os.path.exists(path):
            continue
        with open(path, "rb") as file:
            data = file.read()
        whole = len(data) - len(data) % _ABORTED_ENTRY.size
        for version, producer_id, first, last, _stable in _ABORTED_ENTRY.iter_unpack(data[:whole]):
            if version != 0:
                raise CorruptLog(path, 0, f"a transaction index of version {version}")
            if last >= first_offset and first < end_offset:
                found.append(AbortedRange(producer_id, first, last))
    return found


def transaction_index_paths(files: PartitionFiles, base_offset: Offset) -> tuple[str, ...]:
    """Those of the segments from this one on: the marker of a transaction may lie in a later one than its records."""
    return tuple(
        path
        for segment in files.segments
        if segment.base_offset >= base_offset and os.path.exists(path := segment.beside(TRANSACTION_INDEX_SUFFIX))
    )

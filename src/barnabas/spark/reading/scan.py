"""Direct scans: segment files of Barnabas or Kafka read from disk, without a broker.

Plans which bytes of which files hold what was asked for, cut at batches that the index names, and reads such a piece.
Always holds: only what lies below the high watermark of the checkpoint (under read_committed: below the last stable
offset) becomes rows; a task's memory is bounded by a chunk and the largest batch, not by the topic.
Does not know: brokers; that files are visible on the machine of the task is the user's affair.
"""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from barnabas.protocol.record_batch import HEADER_BYTES, InvalidRecordBatch, read_header
from barnabas.spark.arrow.decoder import AbortedTransaction, BadBatch, RecordDecoder
from barnabas.spark.options import Options
from barnabas.spark.reading import log_files
from barnabas.spark.reading.log_files import AbortedRange, CorruptLog, PartitionFiles, SegmentFile
from barnabas.spark.reading.offsets import Bounds, Range, batch_points, resolve_batch
from barnabas.types import Offset, Position, TopicPartition

CHUNK_BYTES = 2 << 20  # what is read is still in the caches of a processor when it is decoded


class FileRange(NamedTuple):
    """Bytes of one segment, whole batches."""

    path: str
    start: Position
    end: Position


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanSplit(InputPartition):
    """What one task reads."""

    topic: str
    partition: int
    first_offset: Offset
    end_offset: Offset
    files: tuple[FileRange, ...]
    transaction_indexes: tuple[str, ...]  # empty unless only committed records are wanted
    is_last: bool  # the last of its partition, so that it must reach the end offset


def plan(
    options: Options,
    chosen: Callable[[Sequence[TopicPartition]], Sequence[TopicPartition]],
    *,
    read_committed: bool,
    tell: Callable[[str], None],
) -> list[ScanSplit]:
    """`chosen` says which of the partitions that are there are meant."""
    there = log_files.find_partitions(options["logDirs"])
    files = {name: there[name] for name in chosen(sorted(there))}
    bounds = {name: _bounds(each, read_committed) for name, each in files.items()}
    points = batch_points(options, bounds)
    by_time = {
        (name, time_ms): log_files.offset_for_time(files[name], time_ms) for name, time_ms in sorted(points.times())
    }
    ranges = resolve_batch(options, points, bounds, by_time, tell)
    split_bytes = _split_bytes(options, ranges, files)
    return [split for each in ranges for split in _splits(each, files[each.partition], split_bytes, read_committed)]


def _bounds(files: PartitionFiles, read_committed: bool) -> Bounds:
    latest = log_files.last_stable_offset(files) if read_committed else files.high_watermark
    return Bounds(min(files.log_start_offset, latest), latest)


def _split_bytes(options: Options, ranges: Sequence[Range], files: Mapping[TopicPartition, PartitionFiles]) -> int:
    """Smaller than asked where that would make fewer tasks than `minPartitions`."""
    split_bytes: int = options["splitBytes"]
    if options["minPartitions"] is None:
        return split_bytes
    total = sum(_size_bytes(each, files[each.partition]) for each in ranges)
    return max(1, min(split_bytes, total // int(options["minPartitions"])))


def _size_bytes(range_: Range, files: PartitionFiles) -> int:
    return sum(end - start for _, start, end in _spans(range_, files))


def _spans(range_: Range, files: PartitionFiles) -> Iterator[tuple[SegmentFile, Position, Position]]:
    """Which bytes of which segments hold a range."""
    for segment in files.segments:
        if segment.base_offset >= range_.end_offset:
            return
        if not segment.is_last and segment.end_offset <= range_.first_offset:
            continue
        start = 0
        if segment.base_offset < range_.first_offset:
            start = log_files.position_before(segment, range_.first_offset)
        yield segment, start, segment.size_bytes


def _splits(range_: Range, files: PartitionFiles, split_bytes: int, read_committed: bool) -> Iterator[ScanSplit]:
    pieces: list[tuple[SegmentFile, FileRange]] = []
    for segment, start, end in _spans(range_, files):
        pieces += [(segment, FileRange(segment.path, *pair)) for pair in _cut(segment, start, end, split_bytes)]
    groups: list[list[tuple[SegmentFile, FileRange]]] = []
    size = 0
    for segment, piece in pieces:
        if not groups or size + piece.end - piece.start > split_bytes:
            groups.append([])
            size = 0
        groups[-1].append((segment, piece))
        size += piece.end - piece.start
    for number, group in enumerate(groups):
        base_offset = group[0][0].base_offset
        yield ScanSplit(
            topic=range_.partition.topic,
            partition=range_.partition.partition,
            first_offset=range_.first_offset,
            end_offset=range_.end_offset,
            files=tuple(piece for _, piece in group),
            transaction_indexes=log_files.transaction_index_paths(files, base_offset) if read_committed else (),
            is_last=number == len(groups) - 1,
        )


def _cut(segment: SegmentFile, start: Position, end: Position, split_bytes: int) -> list[tuple[Position, Position]]:
    """Pieces of about `split_bytes` that begin where the index says a batch does."""
    bounds = [start]
    if end - start > split_bytes:
        for position in log_files.batch_positions(segment):
            if position - bounds[-1] >= split_bytes and position < end:
                bounds.append(position)
    return list(zip(bounds, [*bounds[1:], end], strict=True))


def read(split: ScanSplit, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    decoder = RecordDecoder(topic=split.topic, partition=split.partition, columns=columns)
    aborted = log_files.aborted_ranges(split.transaction_indexes, 0, split.end_offset)
    for each in split.files:
        yield from _read_file(each, split, decoder, aborted)
    if split.is_last and not decoder.is_finished and decoder.next_offset < split.end_offset:
        path, _, end = split.files[-1]
        raise CorruptLog(path, end, f"the log ends at offset {decoder.next_offset}, not at {split.end_offset}")


def _read_file(
    piece: FileRange, split: ScanSplit, decoder: RecordDecoder, aborted: Sequence[AbortedRange]
) -> Iterator[pa.RecordBatch]:
    position, chunk_bytes = piece.start, CHUNK_BYTES
    with open(piece.path, "rb", buffering=0) as file:
        _read_ahead(file.fileno(), piece)
        while position < piece.end and not decoder.is_finished:
            data = os.pread(file.fileno(), min(chunk_bytes, piece.end - position), position)
            begins = _first_offset(data)
            # Of one whose marker lies before this, no marker would come here to say that it has ended.
            still_open = [
                AbortedTransaction(each.producer_id, each.first_offset)
                for each in aborted
                if begins is not None and each.last_offset >= begins
            ]
            try:
                yield from decoder.decode(
                    data, first_offset=split.first_offset, end_offset=split.end_offset, aborted=still_open
                )
            except BadBatch as bad:
                raise CorruptLog(piece.path, position + bad.position, str(bad)) from None
            chunk_bytes = CHUNK_BYTES
            if decoder.position == 0 and not decoder.is_finished:
                chunk_bytes = _batch_bytes(piece, position, data)
                if position + chunk_bytes > piece.end:
                    return  # cut short: where the log must go further, the caller says so
            position += decoder.position


def _first_offset(data: bytes) -> Offset | None:
    """Of the batch that these bytes begin with; None where there is none, or none that is sound: decoding says so."""
    try:
        return read_header(data).base_offset if len(data) >= HEADER_BYTES else None
    except InvalidRecordBatch:
        return None


def _batch_bytes(piece: FileRange, position: Position, data: bytes) -> int:
    """How many bytes the batch takes that did not fit a chunk."""
    if len(data) < HEADER_BYTES:
        return HEADER_BYTES
    try:
        return read_header(data).size_bytes
    except InvalidRecordBatch as problem:
        raise CorruptLog(piece.path, position, str(problem)) from None


def _read_ahead(descriptor: int, piece: FileRange) -> None:
    if hasattr(os, "posix_fadvise"):
        os.posix_fadvise(descriptor, piece.start, piece.end - piece.start, os.POSIX_FADV_SEQUENTIAL)

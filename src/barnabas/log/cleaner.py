"""Compacts one log: reads its segments, and writes what stays into new ones beside them.

First the dirty part is read for the last offset of each key, as far as the table has room; then everything from the
beginning of the log on is copied but for what that makes obsolete.
Always holds: the log's own files are only read. A group is given out once its `.cleaned` files are synced; what becomes
of them is for `log.segment_swap`. Whoever runs this may stop after any step; a step is bounded by one chunk of a file.
Knows nothing but the disk and its request, so that it may run in another process.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from barnabas.log.batch_retention import BatchRetention, CleanedTransactions, LastRecord
from barnabas.log.compaction import SegmentSize, group_segments
from barnabas.log.offset_map import OffsetMap, OffsetMapFull
from barnabas.log.scan import CorruptSegment, StoredBatch, batches_from
from barnabas.log.segment import CLEANED_SUFFIX, LOG_SUFFIX, Segment, file_name
from barnabas.log.transaction_index import AbortedTransaction
from barnabas.protocol.checksum import Buffer
from barnabas.protocol.record_batch import BatchHeader, InvalidRecordBatch, crc_matches, read_header
from barnabas.protocol.record_filter import unpack
from barnabas.runtime.interfaces import Disk
from barnabas.types import Offset, ProducerId

STEP_RECORDS = 256  # batches of so many records together are one step: a millisecond or so
STEP_BYTES = 256 << 10  # or of so many bytes
BATCH_RECORDS = 4  # what a batch costs by itself is as much as so many records


class UncleanableLog(Exception):
    """What is in the files cannot be compacted, now or later."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CleaningRequest:
    directory: str
    segments: tuple[SegmentSize, ...]  # all from the first one on that end at or below `end_offset`
    first_dirty_offset: Offset
    end_offset: Offset
    aborted: tuple[AbortedTransaction, ...]  # of the whole log
    last_records: Mapping[ProducerId, LastRecord]
    now_ms: int
    delete_retention_ms: int
    segment_bytes: int
    index_interval_bytes: int
    segment_index_bytes: int
    map_bytes: int
    map_load_factor: float
    buffer_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanedGroup:
    """One segment that may take the place of these."""

    base_offsets: tuple[Offset, ...]
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Cleaned:
    """The end: below `end_offset` no key occurs twice."""

    end_offset: Offset
    records_read: int
    bytes_read: int
    bytes_written: int
    keys: int
    map_bytes: int


Step = int | CleanedGroup | Cleaned  # a number is how many bytes were read or written


def clean(disk: Disk, request: CleaningRequest) -> Iterator[Step]:
    """UncleanableLog where the log is broken; FileNotFoundError where it was changed meanwhile."""
    try:
        yield from Cleaner(disk, request).steps()
    except (InvalidRecordBatch, CorruptSegment) as problem:
        raise UncleanableLog(str(problem)) from None
    except OffsetMapFull as problem:
        raise UncleanableLog(f"log.cleaner.dedupe.buffer.size is too small: {problem}") from None


class Cleaner:
    def __init__(self, disk: Disk, request: CleaningRequest) -> None:
        self._disk = disk
        self._request = request
        expected = request.end_offset - request.first_dirty_offset
        self._map = OffsetMap(request.map_bytes, request.map_load_factor, expected)
        self._records_read = 0
        self._bytes_written = 0

    def steps(self) -> Iterator[Step]:
        request = self._request
        yield from self._fill_map()
        end_offset = self._map.latest_offset + 1
        retention = BatchRetention(
            offsets=self._map,
            aborted=request.aborted,
            last_records=request.last_records,
            end_offset=request.end_offset,
            now_ms=request.now_ms,
            delete_retention_ms=request.delete_retention_ms,
        )
        groups = group_segments(
            [segment for segment in request.segments if segment.base_offset < end_offset],
            request.end_offset,
            segment_bytes=request.segment_bytes,
            segment_index_bytes=request.segment_index_bytes,
        )
        for group in groups:
            yield from self._clean_group(group, retention)
        yield Cleaned(
            end_offset=end_offset,
            records_read=self._records_read,
            bytes_read=sum(segment.size_bytes for group in groups for segment in group),
            bytes_written=self._bytes_written,
            keys=self._map.size,
            map_bytes=self._map.size_bytes,
        )

    def _fill_map(self) -> Iterator[Step]:
        """Up to the end of the cleanable part, or to the last batch that still has room."""
        request, offsets = self._request, self._map
        first_offset = request.first_dirty_offset
        transactions = CleanedTransactions([each for each in request.aborted if each.last_offset >= first_offset])
        segments = request.segments
        for number, segment in enumerate(segments):
            following = segments[number + 1].base_offset if number + 1 < len(segments) else request.end_offset
            if following <= first_offset:
                continue
            for batches in self._chunks(segment):
                for _, header, view in batches:
                    if header.last_offset < first_offset:
                        continue
                    if not self._put(header, view, transactions):
                        if offsets.latest_offset < first_offset:
                            raise OffsetMapFull(f"room for {offsets.keys_max} keys, and the first batch has more")
                        return
                    offsets.latest_offset = header.last_offset
                yield sum(header.size_bytes for _, header, _ in batches)
            offsets.latest_offset = following - 1  # there may be a gap, or nothing at all

    def _put(self, header: BatchHeader, view: memoryview, transactions: CleanedTransactions) -> bool:
        if header.is_control:
            transactions.read_marker(header, view)
            return True
        if transactions.read_batch(header):
            return True
        first_offset, base_offset = self._request.first_dirty_offset, header.base_offset
        _, records = unpack(view, header)
        return self._map.put_all(
            [
                (record.key, base_offset + record.offset_delta)
                for record in records
                if record.key is not None and base_offset + record.offset_delta >= first_offset
            ]
        )

    def _clean_group(self, group: Sequence[SegmentSize], retention: BatchRetention) -> Iterator[Step]:
        cleaned = CleanedSegment(self._disk, self._request, group[0].base_offset)
        for segment in group:
            for batches in self._chunks(segment):
                written = cleaned.size_bytes
                for _, header, view in batches:
                    self._records_read += header.record_count
                    kept, aborted = retention.kept(header, view)
                    if kept is not None:
                        cleaned.append(kept)
                    if aborted is not None:
                        cleaned.append_aborted(aborted)
                yield sum(header.size_bytes for _, header, _ in batches) + cleaned.size_bytes - written
        cleaned.finish()
        self._bytes_written += cleaned.size_bytes
        yield CleanedGroup(base_offsets=tuple(segment.base_offset for segment in group), size_bytes=cleaned.size_bytes)

    def _chunks(self, segment: SegmentSize) -> Iterator[list[StoredBatch]]:
        """The batches of a segment, as many at a time as make one step."""
        path = f"{self._request.directory}/{file_name(segment.base_offset, LOG_SUFFIX)}"
        file = self._disk.open(path, create=False)
        position = work = 0
        batches: list[StoredBatch] = []
        for batch in batches_from(file, 0, segment.size_bytes, self._request.buffer_bytes):
            if not crc_matches(batch.view, 0, batch.header):
                raise CorruptSegment(file, batch.position, "a batch whose CRC does not match")
            batches.append(batch)
            position = batch.position + batch.header.size_bytes
            work += max(batch.header.record_count + BATCH_RECORDS, batch.header.size_bytes * STEP_RECORDS // STEP_BYTES)
            if work >= STEP_RECORDS:
                yield batches
                work = 0
                batches = []
        if position != segment.size_bytes:
            raise CorruptSegment(file, position, "no batch")
        if batches:
            yield batches
        file.close()


class CleanedSegment:
    """A segment that is being written beside those of the log."""

    def __init__(self, disk: Disk, request: CleaningRequest, base_offset: Offset) -> None:
        self._disk = disk
        self._buffer_bytes = request.buffer_bytes
        self._segment = Segment(
            disk,
            request.directory,
            base_offset,
            index_interval_bytes=request.index_interval_bytes,
            segment_index_bytes=request.segment_index_bytes,
            segment_jitter_ms=0,
            now_ms=request.now_ms,
            aside=CLEANED_SUFFIX,
        )
        self._segment.create()
        self._waiting: list[Buffer] = []  # whole batches
        self._waiting_bytes = 0

    @property
    def size_bytes(self) -> int:
        return self._segment.size_bytes + self._waiting_bytes

    def append(self, batch: Buffer) -> None:
        self._waiting.append(batch)
        self._waiting_bytes += len(batch)
        if self._waiting_bytes >= self._buffer_bytes:
            self._write()

    def append_aborted(self, transaction: AbortedTransaction) -> None:
        self._segment.transaction_index.append(transaction)

    def _write(self) -> None:
        segment = self._segment
        position = segment.append(b"".join(self._waiting), self._waiting_bytes)
        for batch in self._waiting:
            header = read_header(batch)
            segment.appended(
                position, header.size_bytes, header.base_offset, header.last_offset, header.max_timestamp_ms
            )
            position += header.size_bytes
        self._waiting.clear()
        self._waiting_bytes = 0

    def finish(self) -> None:
        """Complete, and on the platter."""
        if self._waiting:
            self._write()
        segment = self._segment
        segment.finish()
        for path in segment.paths():
            if self._disk.exists(path):
                self._disk.sync_file(path)
        segment.release()

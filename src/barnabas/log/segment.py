"""One segment of a log: a file of batches with its indexes.

    00000000000000368769.log         batches, one after the other      docs/formats/segment.md
    00000000000000368769.index       offset → position                 docs/formats/offset-index.md
    00000000000000368769.timeindex   timestamp → offset                docs/formats/time-index.md
    00000000000000368769.txnindex    aborted transactions, if any      docs/formats/transaction-index.md

Always holds: `size_bytes` counts only whole batches; what a failed write left behind them is cut before the next one.
The indexes are hints: one that is lost or cannot be right is rebuilt from the log at its first use.
Does not know: which offsets may be read, or when to roll, flush or delete. Files are open only while used.
"""

from zlib import crc32

from barnabas.log.mapped_index import CorruptIndex
from barnabas.log.offset_index import RELATIVE_OFFSET_MAX, OffsetIndex
from barnabas.log.scan import SEEK_CHUNK_BYTES, find_batch, headers_from
from barnabas.log.time_index import TimeEntry, TimeIndex
from barnabas.log.transaction_index import TransactionIndex
from barnabas.runtime.interfaces import Buffer, Disk, File
from barnabas.types import NO_TIMESTAMP_MS, Offset, Position

LOG_SUFFIX = ".log"
INDEX_SUFFIX = ".index"
TIME_INDEX_SUFFIX = ".timeindex"
TRANSACTION_INDEX_SUFFIX = ".txnindex"
DELETED_SUFFIX = ".deleted"
CLEANED_SUFFIX = ".cleaned"  # being made by compaction
SWAP_SUFFIX = ".swap"  # made, and about to take its place
SEGMENT_SUFFIXES = (LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX, TRANSACTION_INDEX_SUFFIX)

RECENT_BATCHES_MAX = 512  # readers near the end ask for exactly these; remembered so that they need no search


def file_name(base_offset: Offset, suffix: str) -> str:
    return f"{base_offset:020d}{suffix}"


class Segment:
    __slots__ = (
        "_bytes_since_entry",
        "_disk",
        "_file",
        "_indexes_sound",
        "_latest",
        "_recent",
        "_tail_is_torn",
        "base_offset",
        "created_ms",
        "directory",
        "first_timestamp_ms",
        "index_interval_bytes",
        "log_path",
        "offset_index",
        "roll_jitter_ms",
        "size_bytes",
        "time_index",
        "transaction_index",
    )

    def __init__(
        self,
        disk: Disk,
        directory: str,
        base_offset: Offset,
        *,
        index_interval_bytes: int,
        segment_index_bytes: int,
        segment_jitter_ms: int,
        now_ms: int,
        aside: str = "",
    ) -> None:
        """`aside` ends all names while the segment is none of the log's yet."""
        stem = f"{directory}/{base_offset:020d}"
        self._disk = disk
        self.directory = directory
        self.base_offset = base_offset
        self.log_path = stem + LOG_SUFFIX + aside
        self.size_bytes = 0
        self.created_ms = now_ms
        self.first_timestamp_ms: int | None = None  # of the first batch, once known; age counts from it
        self.index_interval_bytes = index_interval_bytes
        self.roll_jitter_ms = crc32(stem.encode()) % segment_jitter_ms if segment_jitter_ms else 0
        self.offset_index = OffsetIndex(disk, stem + INDEX_SUFFIX + aside, base_offset, segment_index_bytes)
        self.time_index = TimeIndex(disk, stem + TIME_INDEX_SUFFIX + aside, base_offset, segment_index_bytes)
        self.transaction_index = TransactionIndex(disk, stem + TRANSACTION_INDEX_SUFFIX + aside, base_offset)
        self._file: File | None = None
        self._bytes_since_entry = 0
        self._latest: TimeEntry | None = None  # largest timestamp, with the last offset of the first batch that has it
        self._recent: dict[Offset, Position] = {}  # base offsets of the batches appended last
        self._indexes_sound = False  # looked at since they were opened
        self._tail_is_torn = False  # a write failed, and what it left could not be cut yet

    def create(self) -> None:
        """Makes the file of a segment that is new; whatever lies under its names is of no use."""
        self._file = self._disk.open(self.log_path)
        if self._file.size():
            self._file.truncate(0)
        self.offset_index.reset()
        self.time_index.reset()
        self.transaction_index.reset()
        self._indexes_sound = True
        self._latest = TimeEntry(NO_TIMESTAMP_MS, self.base_offset)

    def load(self) -> None:
        """Takes up a segment that is on the disk, by its size alone."""
        self.size_bytes = self._disk.size(self.log_path)

    # Files

    def file(self) -> File:
        if self._file is None:
            self._file = self._disk.open(self.log_path)
        return self._file

    def release(self) -> None:
        """Lets go of every file; the next use opens it again. A range in flight keeps the log file for itself."""
        self._file = None
        self.offset_index.release()
        self.time_index.release()
        self.transaction_index.release()

    def paths(self) -> list[str]:
        return [self.log_path, self.offset_index.path, self.time_index.path, self.transaction_index.path]

    # Appending

    def accepts_offset(self, offset: Offset) -> bool:
        """Whether the index can name this offset: entries are relative and 32 bits wide."""
        return 0 <= offset - self.base_offset <= RELATIVE_OFFSET_MAX

    def has_index_room(self, size_bytes: int) -> bool:
        """Whether the indexes have place for every entry that so many more bytes may need."""
        if self._bytes_since_entry + size_bytes <= self.index_interval_bytes:
            return True
        needed = 1 + size_bytes // max(1, self.index_interval_bytes)
        offsets, times = self.offset_index, self.time_index
        offsets.load()
        times.load()
        return (
            offsets.entry_count + needed <= offsets.entry_count_max
            and times.entry_count + needed < times.entry_count_max
        )

    def append(self, data: Buffer, size_bytes: int) -> Position:
        """Writes whole batches behind the last one and says where; `appended` must follow for each. All or OSError."""
        if self._tail_is_torn:
            self._cut_torn_tail()
        if self._bytes_since_entry + size_bytes > self.index_interval_bytes:
            self._make_index_room(1 + size_bytes // max(1, self.index_interval_bytes))
        file = self._file
        if file is None:
            file = self.file()
        position = self.size_bytes
        try:
            file.write(position, data)
        except OSError:
            self._tail_is_torn = True
            self._cut_torn_tail()
            raise
        return position

    def _make_index_room(self, entry_count: int) -> None:
        # Before the write, so that a full disk refuses the batch while nothing of it is in the log.
        self._check_indexes()
        self.offset_index.make_room(entry_count)
        self.time_index.make_room(entry_count)

    def _cut_torn_tail(self) -> None:
        """While this fails the segment takes nothing more: remains of a batch must never follow a whole one."""
        self.file().truncate(self.size_bytes)
        self._tail_is_torn = False

    @property
    def is_torn(self) -> bool:
        return self._tail_is_torn

    def appended(
        self, position: Position, size_bytes: int, base_offset: Offset, last_offset: Offset, max_timestamp_ms: int
    ) -> None:
        """One batch is in the file: counts it, and gives it an index entry if one is due."""
        if position == 0:
            self.first_timestamp_ms = max_timestamp_ms
        latest = self._latest
        if latest is None:
            latest = self._load_latest()
        if max_timestamp_ms > latest.timestamp_ms:
            self._latest = TimeEntry(max_timestamp_ms, last_offset)
        if self._bytes_since_entry > self.index_interval_bytes:
            self._add_index_entry(position, last_offset)
            self._bytes_since_entry = 0
        self._bytes_since_entry += size_bytes
        self.size_bytes = position + size_bytes
        recent = self._recent
        if len(recent) >= RECENT_BATCHES_MAX:
            recent.clear()
        recent[base_offset] = position

    def _add_index_entry(self, position: Position, last_offset: Offset) -> None:
        assert self._latest is not None
        if not self.offset_index.is_full:
            self.offset_index.append(last_offset, position)
        if not self.time_index.is_full:
            self.time_index.append(*self._latest)

    # Reading

    def position_of(self, offset: Offset) -> Position:
        """Where the first batch begins that ends at this offset or later; the size where none does."""
        position = self._recent.get(offset)
        if position is not None:
            return position
        if not self._indexes_sound:
            self._check_indexes()
        return find_batch(self.file(), self.offset_index.lookup(offset), self.size_bytes, offset)

    def latest(self) -> TimeEntry:
        """The largest timestamp, with the last offset of its batch."""
        return self._latest if self._latest is not None else self._load_latest()

    def _load_latest(self) -> TimeEntry:
        was_open = self._file is not None
        self._check_indexes()
        latest = self._latest  # there, where the indexes had to be built anew; a time index may end before it
        if latest is None:
            latest = self._latest = self.time_index.last()
        if not was_open:
            self.release()
        return latest

    def retention_timestamp_ms(self) -> int:
        """The time that counts for retention and search: that of its records, or of its file if they have none."""
        timestamp_ms = self.latest().timestamp_ms
        return timestamp_ms if timestamp_ms >= 0 else self._disk.modified_ms(self.log_path)

    def age_start_ms(self) -> int | None:
        """The timestamp that `segment.ms` counts from; None where the first batch has none or there is no batch."""
        if self.first_timestamp_ms is None and self.size_bytes:
            _, header = next(headers_from(self.file(), 0, self.size_bytes, SEEK_CHUNK_BYTES))
            self.first_timestamp_ms = header.max_timestamp_ms
        timestamp_ms = self.first_timestamp_ms
        return timestamp_ms if timestamp_ms is not None and timestamp_ms >= 0 else None

    def begin_timestamp_ms(self) -> int:
        """That of the first batch; -1 where it has none. Holds nothing open that was not."""
        was_open = self._file is not None
        timestamp_ms = self.age_start_ms()
        if not was_open:
            self.release()
        return NO_TIMESTAMP_MS if timestamp_ms is None else timestamp_ms

    def end_offset(self) -> Offset:
        """The offset after the last record, found from the last index entry on."""
        if self.size_bytes == 0:
            return self.base_offset
        index = self.offset_index
        try:
            index.check(self.size_bytes)  # the other one when it is needed
        except CorruptIndex:
            self._check_indexes()
        start = index.entry(index.entry_count - 1)[1] if index.entry_count else 0
        end_offset = self.base_offset
        for _, header in headers_from(self.file(), start, self.size_bytes):
            end_offset = header.next_offset
        self._bytes_since_entry = self.size_bytes - start
        return end_offset

    # Indexes

    def _check_indexes(self) -> None:
        if self._indexes_sound:
            return
        self._indexes_sound = True
        try:
            self.offset_index.check(self.size_bytes)
            self.time_index.check()
            for index in (self.offset_index, self.time_index):
                if self.size_bytes and index.is_missing:
                    raise CorruptIndex(f"{index.path}: missing")
        except CorruptIndex:
            self.rebuild_indexes()

    def index_bytes(self) -> tuple[int, int]:
        """How much the entries of the offset and of the time index take."""
        was_open = self._file is not None
        self._check_indexes()
        offsets, times = self.offset_index, self.time_index
        sizes = offsets.entry_count * offsets.entry_bytes, times.entry_count * times.entry_bytes
        if not was_open:
            self.release()
        return sizes

    def rebuild_indexes(self) -> None:
        """From the batches in the file, as if they were appended again."""
        self.reset_indexes()
        size_bytes = self.size_bytes
        for position, header in headers_from(self.file(), 0, size_bytes):
            self.appended(position, header.size_bytes, header.base_offset, header.last_offset, header.max_timestamp_ms)
        assert self.size_bytes == size_bytes

    def reset_indexes(self, *, in_place: bool = False) -> None:
        """Before every batch is counted again by `appended`. `in_place`, where `finish` is certain to follow."""
        self.offset_index.reset(in_place=in_place)
        self.time_index.reset(in_place=in_place)
        self._indexes_sound = True
        self._latest = TimeEntry(NO_TIMESTAMP_MS, self.base_offset)
        self._bytes_since_entry = 0
        self._recent.clear()

    @property
    def is_preallocated(self) -> bool:
        """Whether `finish` has something to cut."""
        return self.offset_index.is_preallocated or self.time_index.is_preallocated

    def finish(self) -> None:
        """At a roll or a clean stop: the last word on time, and files no larger than their content."""
        if self.size_bytes == 0 and not self._disk.exists(self.offset_index.path):
            return
        self._check_indexes()
        self.time_index.append(*self.latest())
        self.offset_index.trim()
        self.time_index.trim()
        self._recent.clear()

    def truncate_to(self, offset: Offset) -> Offset:
        """Drops the batch that holds this offset and everything behind it, and syncs the file; gives the new end."""
        position = self.position_of(offset)
        if position < self.size_bytes:
            _, header = next(headers_from(self.file(), position, self.size_bytes, SEEK_CHUNK_BYTES))
            offset = min(offset, header.base_offset)
        self.offset_index.truncate_to(offset)
        self.time_index.truncate_to(offset)
        self.transaction_index.truncate_to(offset)
        self._recent.clear()
        self.file().truncate(position)
        self.file().sync()
        self.size_bytes = position
        self._tail_is_torn = False
        self._recount(offset)
        return offset

    def _recount(self, offset: Offset) -> None:
        """What `appended` keeps in mind, taken from what is left."""
        start = self.offset_index.lookup(offset) if self.size_bytes else 0
        self._bytes_since_entry = self.size_bytes - start
        latest = self.time_index.last()
        for _, header in headers_from(self.file(), self.offset_index.lookup(latest.offset), self.size_bytes):
            if header.max_timestamp_ms > latest.timestamp_ms:
                latest = TimeEntry(header.max_timestamp_ms, header.last_offset)
        self._latest = latest
        if self.size_bytes == 0:
            self.first_timestamp_ms = None

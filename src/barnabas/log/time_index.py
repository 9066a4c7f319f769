"""Time index of one segment: from which offset on a timestamp may be found.

    0  timestamp i64, the largest seen so far      8  relative offset i32, of the last record of its batch

Entries ascend in both columns, and all records before an entry's offset are at most as late as its timestamp. Added
together with the offset index; the last one, written at a roll or a clean stop, is the largest of the segment.
"""

from struct import Struct
from typing import NamedTuple

from barnabas.log.mapped_index import CorruptIndex, MappedIndex
from barnabas.runtime.interfaces import Disk
from barnabas.types import NO_TIMESTAMP_MS, Offset

ENTRY_BYTES = 12

_ENTRY = Struct(">qi")
_read_timestamp = Struct(">q").unpack_from
_read_offset = Struct(">i").unpack_from


class TimeEntry(NamedTuple):
    timestamp_ms: int
    offset: Offset


class TimeIndex(MappedIndex):
    __slots__ = ("_last",)

    def __init__(self, disk: Disk, path: str, base_offset: Offset, size_bytes_max: int) -> None:
        super().__init__(disk, path, base_offset, ENTRY_BYTES, size_bytes_max)
        self._last: TimeEntry | None = None

    @property
    def is_full(self) -> bool:
        """One place is kept for the entry that a roll adds."""
        return self.entry_count >= self.entry_count_max - 1

    def append(self, timestamp_ms: int, offset: Offset) -> None:
        """Only a timestamp later than all before makes an entry."""
        if timestamp_ms > self.last().timestamp_ms:
            self.append_entry(_ENTRY.pack(timestamp_ms, offset - self.base_offset))
            self._last = TimeEntry(timestamp_ms, offset)

    def entry(self, number: int) -> TimeEntry:
        timestamp_ms, relative_offset = _ENTRY.unpack_from(self.readable(), number * ENTRY_BYTES)
        return TimeEntry(timestamp_ms, self.base_offset + relative_offset)

    def last(self) -> TimeEntry:
        """The latest timestamp with its offset; no timestamp and the base offset where there is no entry."""
        if self._last is None:
            self.load()
            if self.entry_count == 0:
                self._last = TimeEntry(NO_TIMESTAMP_MS, self.base_offset)
            else:
                self._last = self.entry(self.entry_count - 1)
        return self._last

    def lookup(self, timestamp_ms: int) -> Offset:
        """Where the search for a timestamp begins: every record before is earlier."""
        self.load()
        if self.entry_count == 0:
            return self.base_offset
        number = self._last_at_or_before(timestamp_ms)
        return self.base_offset if number < 0 else self.entry(number).offset

    def _last_at_or_before(self, timestamp_ms: int) -> int:
        view = self.readable()
        low, high = -1, self.entry_count - 1
        while low < high:
            middle = (low + high + 1) >> 1
            if _read_timestamp(view, middle * ENTRY_BYTES)[0] <= timestamp_ms:
                low = middle
            else:
                high = middle - 1
        return low

    def truncate_to(self, offset: Offset) -> None:
        """Drops every entry that names this offset or a later one."""
        self.load()
        count = self.entry_count
        if count:
            view = self.readable()
            while count and self.base_offset + _read_offset(view, (count - 1) * ENTRY_BYTES + 8)[0] >= offset:
                count -= 1
            self.keep_entries(count)
        self._last = None

    def reset(self, *, in_place: bool = False) -> None:
        super().reset(in_place=in_place)
        self._last = None

    def check(self) -> None:
        """Raises CorruptIndex where the last entry cannot be one of this segment."""
        self._last = None
        self.load()
        if self.entry_count:
            first, last = self.entry(0), self.last()
            if last.timestamp_ms < first.timestamp_ms or last.offset < self.base_offset:
                raise CorruptIndex(f"{self.path}: last entry is {last.timestamp_ms} at offset {last.offset}")

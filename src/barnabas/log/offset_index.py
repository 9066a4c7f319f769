"""Offset index of one segment: where in the file to begin looking for an offset.

    0  relative offset i32, of the last record of a batch      4  position i32 of that batch

Entries ascend in both columns; one is added for about every `index.interval.bytes` of log. The first batches of a
segment have none. A lost tail is harmless: recovery rebuilds it from the log.
"""

from struct import Struct

from barnabas.log.mapped_index import CorruptIndex, MappedIndex
from barnabas.runtime.interfaces import Disk
from barnabas.types import Offset, Position

ENTRY_BYTES = 8
RELATIVE_OFFSET_MAX = 2**31 - 1

_ENTRY = Struct(">ii")
_INT32 = Struct(">i")
_read_int32 = _INT32.unpack_from


class OffsetIndex(MappedIndex):
    __slots__ = ()

    def __init__(self, disk: Disk, path: str, base_offset: Offset, size_bytes_max: int) -> None:
        super().__init__(disk, path, base_offset, ENTRY_BYTES, size_bytes_max)

    @property
    def is_full(self) -> bool:
        return self.entry_count >= self.entry_count_max

    def append(self, offset: Offset, position: Position) -> None:
        self.append_entry(_ENTRY.pack(offset - self.base_offset, position))

    def entry(self, number: int) -> tuple[Offset, Position]:
        relative_offset, position = _ENTRY.unpack_from(self.readable(), number * ENTRY_BYTES)
        return self.base_offset + relative_offset, position

    def lookup(self, offset: Offset) -> Position:
        """Where the scan for an offset begins: at or before the batch that holds it."""
        self.load()
        if self.entry_count == 0:
            return 0
        number = last_at_or_before(self.readable(), self.entry_count, offset - self.base_offset, 0)
        return 0 if number < 0 else self.entry(number)[1]

    def offset_beyond(self, position: Position) -> Offset | None:
        """The offset of the first entry after a position, which bounds every offset up to there; None if none is."""
        self.load()
        if self.entry_count == 0:
            return None
        number = last_at_or_before(self.readable(), self.entry_count, position, 4) + 1
        return self.entry(number)[0] if number < self.entry_count else None

    def truncate_to(self, offset: Offset) -> None:
        """Drops every entry that names this offset or a later one."""
        self.load()
        if self.entry_count:
            self.keep_entries(
                last_at_or_before(self.readable(), self.entry_count, offset - self.base_offset - 1, 0) + 1
            )

    def check(self, log_size_bytes: int) -> None:
        """Raises CorruptIndex where the last entry cannot be one of a log of this size."""
        self.load()
        if self.entry_count:
            offset, position = self.entry(self.entry_count - 1)
            if offset < self.base_offset or not 0 <= position < log_size_bytes:
                raise CorruptIndex(
                    f"{self.path}: last entry is offset {offset} at {position} of {log_size_bytes} bytes"
                )
            if self.entry_count > 1 and position == 0:
                raise CorruptIndex(f"{self.path}: last entry is empty")


def last_at_or_before(view: memoryview, entry_count: int, target: int, column: int) -> int:
    """Number of the last entry whose column is at most the target, or -1.  # benchmarks/log_read.py"""
    low = -1
    high = entry_count - 1
    # Most readers are near the end: one look there saves them the search.
    if _read_int32(view, high * ENTRY_BYTES + column)[0] <= target:
        return high
    while low < high:
        middle = (low + high + 1) >> 1
        if _read_int32(view, middle * ENTRY_BYTES + column)[0] <= target:
            low = middle
        else:
            high = middle - 1
    return low

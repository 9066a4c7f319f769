"""Transaction index of one segment: which transactions ended in it by an abort.

    0  version i16 = 0      2  producer_id i64      10  first_offset i64      18  last_offset i64, of the abort marker
   26  last_stable_offset i64, as it was once this transaction had ended

Always holds: entries ascend by last offset. The file is made by the first abort; most segments never have one.
Does not know: which records lie between; readers skip those of the producer from first to last offset.
"""

from struct import Struct
from typing import NamedTuple

from barnabas.runtime.interfaces import Disk, File
from barnabas.types import Offset, ProducerId

VERSION = 0
ENTRY_BYTES = 34

_ENTRY = Struct(">hqqqq")


class CorruptTransactionIndex(Exception):
    """The file cannot be a transaction index of this segment. Opening the log rebuilds it."""


class AbortedTransaction(NamedTuple):
    producer_id: ProducerId
    first_offset: Offset
    last_offset: Offset
    last_stable_offset: Offset


class TransactionIndex:
    __slots__ = ("_disk", "_file", "base_offset", "entry_count", "path")

    def __init__(self, disk: Disk, path: str, base_offset: Offset) -> None:
        self._disk = disk
        self.path = path
        self.base_offset = base_offset
        self.entry_count = -1  # not known before the first look at the file
        self._file: File | None = None

    def start_empty(self) -> None:
        self.entry_count = 0

    def load(self) -> None:
        if self.entry_count < 0:
            size = self._disk.size(self.path) if self._disk.exists(self.path) else 0
            self.entry_count = size // ENTRY_BYTES

    def file(self) -> File:
        if self._file is None:
            self._file = self._disk.open(self.path)
        return self._file

    def append(self, aborted: AbortedTransaction) -> None:
        self.load()
        self.file().write(self.entry_count * ENTRY_BYTES, _ENTRY.pack(VERSION, *aborted))
        self.entry_count += 1

    def entries(self) -> list[AbortedTransaction]:
        self.load()
        if self.entry_count == 0:
            return []
        data = self.file().read(0, self.entry_count * ENTRY_BYTES)
        found = []
        for version, *fields in _ENTRY.iter_unpack(data):
            if version != VERSION:
                raise CorruptTransactionIndex(f"{self.path}: version {version}")
            found.append(AbortedTransaction(*fields))
        return found

    def overlapping(self, first_offset: Offset, end_offset: Offset) -> tuple[list[AbortedTransaction], bool]:
        """Aborted transactions with records in the range, and whether later segments cannot add any."""
        found = []
        for aborted in self.entries():
            if aborted.last_offset >= first_offset and aborted.first_offset < end_offset:
                found.append(aborted)
            if aborted.last_stable_offset >= end_offset:
                return found, True
        return found, False

    def truncate_to(self, offset: Offset) -> None:
        """Drops the transactions that ended at this offset or later."""
        entries = self.entries()
        kept = sum(1 for aborted in entries if aborted.last_offset < offset)
        if kept < len(entries):
            self.file().truncate(kept * ENTRY_BYTES)
            self.entry_count = kept

    def check(self) -> None:
        """Raises CorruptTransactionIndex where an entry cannot be one of this segment."""
        if self._disk.exists(self.path) and self._disk.size(self.path) % ENTRY_BYTES:
            raise CorruptTransactionIndex(f"{self.path}: not a multiple of {ENTRY_BYTES} bytes")
        for aborted in self.entries():
            if aborted.last_offset < self.base_offset:
                raise CorruptTransactionIndex(f"{self.path}: ended at {aborted.last_offset}, before the segment")

    def reset(self) -> None:
        self.release()
        if self._disk.exists(self.path):
            self._disk.remove(self.path)
        self.entry_count = 0

    def release(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

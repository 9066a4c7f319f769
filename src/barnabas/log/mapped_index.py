"""What the offset index and the time index share: a file of equal entries, seen as memory.

While its segment is written the file is preallocated (sparse) to `size_bytes_max`; `trim` cuts it to its entries, and
that is how it lies on disk after a roll or a clean stop. Entries ascend, so that a lookup is a binary search.

Always holds: the map exists only while somebody needs it, and a file only after its first entry or `trim`: an idle
partition costs neither descriptors nor pages. A page gets its disk space before it is touched.
Does not know: what an entry means. A lost tail is harmless: recovery rebuilds it from the log.
"""

from barnabas.runtime.interfaces import Disk, MappedFile
from barnabas.types import Offset

PAGE_BYTES = 4096
_NO_VIEW = memoryview(b"")


class CorruptIndex(Exception):
    """The file cannot be an index of this segment. Its owner rebuilds it."""


class MappedIndex:
    __slots__ = (
        "_disk",
        "_mapped",
        "_reserved_bytes",
        "_view",
        "_writable",
        "base_offset",
        "entry_bytes",
        "entry_count",
        "is_missing",
        "path",
        "size_bytes_max",
    )

    def __init__(self, disk: Disk, path: str, base_offset: Offset, entry_bytes: int, size_bytes_max: int) -> None:
        self._disk = disk
        self.path = path
        self.base_offset = base_offset
        self.entry_bytes = entry_bytes
        self.size_bytes_max = size_bytes_max - size_bytes_max % entry_bytes
        self.entry_count = -1  # not known before the first look at the file
        self.is_missing = False  # there was none at the first look
        self._mapped: MappedFile | None = None
        self._view = _NO_VIEW
        self._writable = False  # whether the map reaches beyond the entries
        self._reserved_bytes = 0  # up to here the file has its space on the disk

    @property
    def entry_count_max(self) -> int:
        return self.size_bytes_max // self.entry_bytes

    @property
    def is_preallocated(self) -> bool:
        """Whether the file is longer than its entries, for more of them."""
        return self._writable

    def start_empty(self) -> None:
        """For a new segment: there is no file to look at."""
        self.entry_count = 0

    def load(self) -> None:
        """Finds how many entries the file has, from its size alone. A missing file is for the caller to notice."""
        if self.entry_count >= 0:
            return
        try:
            size = self._disk.size(self.path)
        except FileNotFoundError:
            size = 0
            self.is_missing = True
        if size % self.entry_bytes:
            raise CorruptIndex(f"{self.path}: {size} bytes is not a multiple of {self.entry_bytes}")
        self.entry_count = size // self.entry_bytes

    def readable(self) -> memoryview:
        """The entries as bytes; valid until the next call that changes the map."""
        if self._mapped is None:
            self._mapped = self._disk.map(self.path, 0)
            self._view = self._mapped.view
        return self._view

    def make_room(self, entry_count: int = 1) -> None:
        """Gets map and disk space for that many more entries: adding them then cannot fail. OSError where it can."""
        start = self.entry_count * self.entry_bytes
        end = start + entry_count * self.entry_bytes
        if end > len(self._view) or not self._writable:
            self._grow(end)
        if end > self._reserved_bytes:
            assert self._mapped is not None
            start = max(start, self._reserved_bytes)
            end = min((end // PAGE_BYTES + 1) * PAGE_BYTES, len(self._view))
            self._mapped.reserve(start, end - start)
            self._reserved_bytes = end

    def append_entry(self, entry: bytes) -> None:
        start = self.entry_count * self.entry_bytes
        end = start + self.entry_bytes
        if end > self._reserved_bytes:
            self.make_room()
        self._view[start:end] = entry
        self.entry_count += 1

    def _grow(self, size_min: int) -> None:
        size = max(self.size_bytes_max, size_min)
        self.release()
        self._mapped = self._disk.map(self.path, size)
        self._view = self._mapped.view
        self._writable = True

    def keep_entries(self, count: int) -> None:
        """Forgets the entries from `count` on, and clears them where the map is open."""
        assert 0 <= count <= self.entry_count
        if count < self.entry_count:
            view = self.readable()
            view[count * self.entry_bytes : self.entry_count * self.entry_bytes] = bytes(
                (self.entry_count - count) * self.entry_bytes
            )
            self.entry_count = count

    def trim(self) -> None:
        """Cuts the file to its entries and lets go of it; makes it where it was never needed."""
        size = self.entry_count * self.entry_bytes
        if self._mapped is None:
            if self._disk.exists(self.path) and self._disk.size(self.path) == size:
                return
            self._mapped = self._disk.map(self.path, size)
        self._view = _NO_VIEW
        if len(self._mapped.view) != size:
            self._mapped.resize(size)
        self.release()

    def release(self) -> None:
        """Lets go of the map; the next use takes it up again."""
        if self._mapped is not None:
            self._view = _NO_VIEW
            self._mapped.close()
            self._mapped = None
            self._writable = False
            self._reserved_bytes = 0

    def reset(self, *, in_place: bool = False) -> None:
        """Back to no entries at all, whatever the file holds: the beginning of a rebuild.

        `in_place` only clears a small file, for whoever has thousands of them: to give back the room of one file, and
        take it again, costs a file system more than all the rest. `trim` must follow before the file is trusted again.
        """
        self.release()
        self.entry_count = 0
        self.is_missing = False
        try:
            size = self._disk.size(self.path)
        except FileNotFoundError:
            return
        if not in_place or size > PAGE_BYTES:
            self._disk.remove(self.path)
        elif size:
            file = self._disk.open(self.path)
            file.write(0, bytes(size))
            file.close()

"""The snapshots in the directory of the metadata log, as files.

    <end offset>-<epoch>.checkpoint         whole: it got this name after it was synced
    <end offset>-<epoch>.checkpoint.part    being written, or copied from a leader; what a crash leaves of it is removed

Always holds: `ids` ascends, and names files that are whole and stay until they are forgotten.
Does not know: what is in them, which of them the log needs.
"""

import logging

from barnabas.consensus import snapshot_file
from barnabas.consensus.messages import LogEnd
from barnabas.log.file_range import FileRange
from barnabas.runtime.interfaces import Buffer, Disk
from barnabas.types import Position

logger = logging.getLogger(__name__)


class PartialSnapshot:
    """One that comes into being. `write` on any thread, one call at a time."""

    def __init__(self, disk: Disk, directory: str, snapshot: LogEnd) -> None:
        self.snapshot = snapshot
        self.size_bytes = 0
        self._disk = disk
        self._directory = directory
        self._path = f"{directory}/{snapshot_file.file_name(snapshot, snapshot_file.PARTIAL_SUFFIX)}"
        self._file = disk.open(self._path)
        self._file.truncate(0)

    def write(self, data: Buffer) -> None:
        self._file.write(self.size_bytes, data)
        self.size_bytes += len(data)

    def read(self) -> bytes:
        return self._file.read(0, self.size_bytes)

    def sync(self) -> None:
        """Waits for the platter: to be called off the event loop."""
        self._file.sync()

    def publish(self) -> None:
        """Gives it its name. Only what was synced may have one."""
        self._file.close()
        self._disk.rename(self._path, f"{self._directory}/{snapshot_file.file_name(self.snapshot)}")
        self._disk.sync_directory(self._directory)

    def abandon(self) -> None:
        self._file.close()
        self._disk.remove(self._path)


class SnapshotFiles:
    def __init__(self, disk: Disk, directory: str) -> None:
        self._disk = disk
        self._directory = directory
        self.ids: list[LogEnd] = []
        if disk.exists(directory):
            self._load()

    def _load(self) -> None:
        found: list[LogEnd] = []
        for name in self._disk.list_directory(self._directory):
            if name.endswith(snapshot_file.PARTIAL_SUFFIX):
                self._disk.remove(f"{self._directory}/{name}")
            elif (snapshot := snapshot_file.snapshot_of(name)) is not None:
                found.append(snapshot)
        self.ids = sorted(found, key=lambda each: each.end_offset)

    @property
    def latest(self) -> LogEnd | None:
        return self.ids[-1] if self.ids else None

    @property
    def oldest(self) -> LogEnd | None:
        return self.ids[0] if self.ids else None

    def size_bytes(self, snapshot: LogEnd) -> int:
        return self._disk.size(self._path(snapshot))

    def read_bytes(self, snapshot: LogEnd) -> bytes:
        return self._disk.read_bytes(self._path(snapshot))

    def read(self, snapshot: LogEnd, position: Position, size_bytes_max: int) -> FileRange:
        """A part for a follower. Position and size are not checked here."""
        file = self._disk.open(self._path(snapshot))
        return FileRange(file, position, min(size_bytes_max, file.size() - position), snapshot.end_offset)

    def begin(self, snapshot: LogEnd) -> PartialSnapshot:
        return PartialSnapshot(self._disk, self._directory, snapshot)

    def finished(self, snapshot: LogEnd) -> None:
        """It has its name now."""
        if snapshot not in self.ids:
            self.ids = sorted([*self.ids, snapshot], key=lambda each: each.end_offset)

    def forget_before(self, snapshot: LogEnd) -> int:
        """Removes all older ones; gives how many. A reader in the midst of one is done with it, or asks again."""
        gone = [each for each in self.ids if each.end_offset < snapshot.end_offset]
        for each in gone:
            self._disk.remove(self._path(each))
            logger.info("the metadata snapshot at offset %d is not needed any more", each.end_offset)
        self.ids = self.ids[len(gone) :]
        return len(gone)

    def _path(self, snapshot: LogEnd) -> str:
        return f"{self._directory}/{snapshot_file.file_name(snapshot)}"

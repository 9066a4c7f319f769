"""What of a log is not synced yet, and the recovery point below which everything is.

Always holds: the recovery point rises only after a sync that covers it, and falls with a truncation; a sync that began
before the truncation counts for nothing. The owner of the log notes changes; `flush` may run on another thread. A file
stays noted until its sync has ended, so two flushes that overlap both sync it, and neither raises the recovery point
early. Changes are numbered, so that one made during a sync stays to be done. The file of the leader epochs is written
by truncations too: a flush that finds newer epochs after it wrote the file writes it once more.
A sync that failed is not repeated: the system may have dropped what it could not write, and would then report success.
Does not know: when a flush is due.
"""

import errno
from collections.abc import Iterable

from barnabas.log.leader_epochs import LEADER_EPOCH_FILE_NAME
from barnabas.log.segments import Segments
from barnabas.runtime.interfaces import Disk
from barnabas.types import Offset

FULL = (errno.ENOSPC, errno.EDQUOT)  # before anything was synced: it may be tried again


class Flusher:
    __slots__ = (
        "_directory",
        "_directory_changes",
        "_directory_changes_done",
        "_disk",
        "_epochs",
        "_epochs_written",
        "_floor",
        "_is_named",
        "_note_count",
        "_notes",
        "_synced",
        "_truncations",
        "has_failed",
    )

    def __init__(self, disk: Disk, directory: str, recovery_point: Offset) -> None:
        self._disk = disk
        self._directory = directory
        # Paths of finished segments' files, each with a number; the files of the active segment are always unsynced.
        self._notes: dict[tuple[str, int], None] = {}
        self._note_count = 0
        self._truncations = 0
        self._floor = recovery_point  # what the last truncation left
        self._synced = (0, recovery_point)  # truncations when the sync began, and the offset that it reached
        self._directory_changes = 0
        self._directory_changes_done = 0
        self._is_named = True  # the entry of the directory in the one above it is synced
        self._epochs = self._epochs_written = b""  # what the file should hold, where that is known to differ
        self.has_failed = False  # once true, only recovery can tell what is on the disk

    @property
    def recovery_point(self) -> Offset:
        truncations, offset = self._synced
        return max(offset, self._floor) if truncations == self._truncations else self._floor

    @property
    def has_finished_segments(self) -> bool:
        """Whether a roll left files that only a flush makes safe."""
        return bool(self._notes)

    @property
    def is_done(self) -> bool:
        """Whether nothing but the active segment may need a sync."""
        return not (
            self._notes
            or self._directory_changes_done < self._directory_changes
            or self._epochs_written is not self._epochs
        )

    # Noted by the owner of the log

    def finished(self, paths: Iterable[str]) -> None:
        """Nothing more will be written to these files."""
        for path in paths:
            self._note_count += 1
            self._notes[path, self._note_count] = None

    def directory_changed(self) -> None:
        self._directory_changes += 1

    def directory_made(self) -> None:
        """Or perhaps made, and lost with the power."""
        self._is_named = False
        self._directory_changes += 1

    def epochs_changed(self, encoded: bytes) -> None:
        self._epochs = encoded

    def truncated(self, offset: Offset) -> None:
        floor = min(self.recovery_point, offset)
        self._truncations += 1
        self._floor = floor

    # On any thread

    def flush(self, segments: Segments, end_offset: Offset) -> None:
        """Everything below `end_offset`, then the recovery point."""
        if self.has_failed:
            raise OSError(errno.EIO, "a sync failed here before; the log must be opened anew", self._directory)
        truncations = self._truncations
        active = segments.active
        notes = list(self._notes)
        paths = dict.fromkeys(path for path, _number in notes)
        if end_offset > active.base_offset:
            paths[active.log_path] = None
        for path in paths:
            self._sync_file(path)
        for note in notes:
            self._notes.pop(note, None)
        self.write_epochs()
        self.sync_directory()
        if truncations != self._synced[0] or end_offset > self._synced[1]:
            self._synced = (truncations, end_offset)

    def _sync_file(self, path: str) -> None:
        try:
            self._disk.sync_file(path)
        except FileNotFoundError:
            return  # deleted meanwhile, or a kind of file that this segment does not have
        except OSError:
            self.has_failed = True
            raise

    def sync_directory(self) -> None:
        changes = self._directory_changes
        if self._directory_changes_done < changes:
            try:
                self._disk.sync_directory(self._directory)
                self._sync_name()
            except OSError:
                self.has_failed = True
                raise
            self._directory_changes_done = changes

    def _sync_name(self) -> None:
        if not self._is_named:
            self._disk.sync_directory(self._directory.rpartition("/")[0] or "/")
            self._is_named = True

    def write_epochs(self) -> None:
        """And syncs the directory with them."""
        if self._epochs_written is self._epochs:
            return
        written = None
        while written is not self._epochs:
            directory_changes, written = self._directory_changes, self._epochs
            try:
                self._disk.write_atomically(f"{self._directory}/{LEADER_EPOCH_FILE_NAME}", written)
            except OSError as error:
                self.has_failed = self.has_failed or error.errno not in FULL
                raise
            self._epochs_written = written
            if self._is_named:
                self._directory_changes_done = max(self._directory_changes_done, directory_changes)

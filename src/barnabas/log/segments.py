"""The segments of one log, in order, and the files of those that are on their way out.

Always holds: there is at least one segment; they ascend by base offset; the last one is active, the only one that is
written. A deleted segment is renamed first and removed after `file.delete.delay.ms`: nobody finds it any more, and
whoever reads it still can. Does not know: why a segment is begun or deleted.
"""

from bisect import bisect_right
from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

from barnabas.config.topic import TopicConfig
from barnabas.log.open_segments import OpenSegments
from barnabas.log.recovery import new_segment
from barnabas.log.segment import DELETED_SUFFIX, Segment
from barnabas.runtime.interfaces import Disk
from barnabas.types import Offset


class DeletedFiles(NamedTuple):
    due_ms: int
    paths: list[str]


class Segments:
    __slots__ = ("_base_offsets", "_deleted", "_directory", "_disk", "_open", "_segments", "active", "deletions")

    def __init__(self, disk: Disk, directory: str, segments: list[Segment], open_segments: OpenSegments) -> None:
        self._disk = disk
        self._directory = directory
        self._segments = segments
        self._base_offsets = [segment.base_offset for segment in segments]  # the same again, for bisect
        self._open = open_segments
        self._deleted: deque[DeletedFiles] = deque()
        self.active = segments[-1]
        self.deletions = 0  # how often segments went: what is remembered of their order counts no more

    def __len__(self) -> int:
        return len(self._segments)

    def __iter__(self) -> Iterator[Segment]:
        return iter(tuple(self._segments))

    def __getitem__(self, number: int) -> Segment:
        return self._segments[number]

    @property
    def all(self) -> list[Segment]:
        return self._segments

    @property
    def size_bytes(self) -> int:
        return sum(segment.size_bytes for segment in self._segments)

    def number_of(self, offset: Offset) -> int:
        """The last segment that begins at this offset or before; -1 where all begin later."""
        if offset >= self.active.base_offset:
            return len(self._segments) - 1
        return bisect_right(self._base_offsets, offset) - 1

    def used(self, segment: Segment) -> None:
        """Somebody reads it: it stays open for a while."""
        if segment is not self.active:
            self._open.used(segment)

    def begin(self, base_offset: Offset, config: TopicConfig, now_ms: int) -> Segment:
        """A new active segment. The one before it must be finished."""
        assert not self._base_offsets or base_offset > self._base_offsets[-1]
        segment = new_segment(self._disk, self._directory, base_offset, config, now_ms)
        segment.create()
        if self._segments:
            self._open.used(self.active)
        self._segments.append(segment)
        self._base_offsets.append(base_offset)
        self.active = segment
        return segment

    def delete_oldest(self, count: int, due_ms: int) -> list[Segment]:
        """The oldest first, so that a crash in between leaves no gap."""
        assert 0 <= count < len(self._segments)
        gone = self._segments[:count]
        del self._segments[:count]
        del self._base_offsets[:count]
        for segment in gone:
            self._delete(segment, due_ms)
        return gone

    def delete_newest(self, number: int, due_ms: int) -> list[Segment]:
        """All from this number on, the last first. The one before becomes active; `begin` must follow if none is."""
        gone = self._segments[number:]
        del self._segments[number:]
        del self._base_offsets[number:]
        for segment in reversed(gone):
            self._delete(segment, due_ms)
        if self._segments:
            self.active = self._segments[-1]
            self._open.forget(self.active)
        return gone

    def delete_one(self, number: int, due_ms: int) -> None:
        assert number + 1 < len(self._segments), "the active one stays"
        segment = self._segments.pop(number)
        del self._base_offsets[number]
        self._delete(segment, due_ms)

    def replace(self, number: int, count: int, segment: Segment, due_ms: int) -> None:
        """One takes the place of some that are not active. The newest go first, as recovery would have it."""
        assert number + count < len(self._segments), "the active one stays"
        gone = self._segments[number : number + count]
        assert segment.base_offset == gone[0].base_offset
        self._segments[number : number + count] = [segment]
        self._base_offsets[number : number + count] = [segment.base_offset]
        for each in reversed(gone):
            self._delete(each, due_ms)

    def _delete(self, segment: Segment, due_ms: int) -> None:
        self.deletions += 1
        self._open.forget(segment)
        segment.release()
        self.delete_files(segment.paths(), due_ms)

    def delete_files(self, paths: list[str], due_ms: int) -> None:
        renamed = []
        for path in paths:
            if self._disk.exists(path):
                self._disk.rename(path, path + DELETED_SUFFIX)
                renamed.append(path + DELETED_SUFFIX)
        if renamed:
            self._deleted.append(DeletedFiles(due_ms, renamed))

    def remove_due(self, now_ms: int) -> int:
        """Removes the files whose time has come; gives how many."""
        count = 0
        while self._deleted and self._deleted[0].due_ms <= now_ms:
            for path in self._deleted.popleft().paths:
                if self._disk.exists(path):  # a segment of the same name may have been deleted again since
                    self._disk.remove(path)
                    count += 1
        return count

    @property
    def next_removal_ms(self) -> int | None:
        return self._deleted[0].due_ms if self._deleted else None

    def release(self) -> None:
        for segment in self._segments:
            self._open.forget(segment)
            segment.release()

"""Compacted segments take the place of those that they were made from, so that a crash at any point leaves either.

    1  files of the new segment are written as `<name>.cleaned` and synced            (by `log.cleaner`)
    2  `.cleaned` → `.swap`, the log file last: from then on the new segment counts
    3  files of the old segments → `.deleted`, the newest segment first
    4  `.swap` → their own names, the log file first

Always holds: while a `.cleaned` file is there the old segments count, and while `.log.swap` is there those that it
covers count no more. Directory changes reach the platter in order, so no sync is needed between the steps; one is
needed before `cleaned_offset` is written down.
Old segments behind the last batch that was kept are not covered by `.log.swap` after a crash. They come back, and are
cleaned again, because `cleaned_offset` was not written yet.
"""

from collections.abc import Sequence

from barnabas.config.topic import TopicConfig
from barnabas.log.flusher import Flusher
from barnabas.log.producer_replay import ProducerSnapshots
from barnabas.log.reader import Reader
from barnabas.log.recovery import new_segment
from barnabas.log.segment import CLEANED_SUFFIX, SEGMENT_SUFFIXES, SWAP_SUFFIX, Segment, file_name
from barnabas.log.segments import Segments
from barnabas.runtime.interfaces import Disk
from barnabas.types import Offset


class SegmentSwap:
    """What one log remembers of compaction."""

    __slots__ = ("_directory", "_disk", "_flusher", "_reader", "_segments", "_snapshots", "cleaned_offset", "cuts")

    def __init__(
        self,
        disk: Disk,
        directory: str,
        segments: Segments,
        snapshots: ProducerSnapshots,
        flusher: Flusher,
        reader: Reader,
    ) -> None:
        self._disk = disk
        self._directory = directory
        self._segments = segments
        self._snapshots = snapshots
        self._flusher = flusher
        self._reader = reader
        self.cleaned_offset: Offset = 0  # below this no key occurs twice; falls with a truncation
        self.cuts = 0  # truncations: a compaction that began before one is worth nothing

    def truncated(self, end_offset: Offset) -> None:
        self.cuts += 1
        self.cleaned_offset = min(self.cleaned_offset, end_offset)

    def replace(self, old: Sequence[Segment], cuts: int, *, size_bytes: int, config: TopicConfig, now_ms: int) -> bool:
        """Swaps the cleaned segment in; False where the old ones are no more what they were when it was begun."""
        number = self._segments.number_of(old[0].base_offset)
        if cuts != self.cuts or self._segments.all[max(number, 0) :][: len(old)] != list(old):
            return False
        segment = new_segment(self._disk, self._directory, old[0].base_offset, config, now_ms)
        segment.size_bytes = size_bytes
        try:
            self._rename(segment.base_offset, SEGMENT_SUFFIXES[::-1], CLEANED_SUFFIX, SWAP_SUFFIX)
            self._segments.replace(number, len(old), segment, now_ms + config.file_delete_delay_ms)
            self._rename(segment.base_offset, SEGMENT_SUFFIXES, SWAP_SUFFIX, "")
            for gone in old[1:]:
                self._snapshots.remove(gone.base_offset)
        except OSError:
            self._flusher.has_failed = True  # half way through: recovery finishes it
            raise
        self._reader.forget()
        self._flusher.directory_changed()
        return True

    def discard(self, base_offset: Offset) -> None:
        """Of a compaction that ends early."""
        for suffix in SEGMENT_SUFFIXES:
            path = f"{self._directory}/{file_name(base_offset, suffix)}{CLEANED_SUFFIX}"
            if self._disk.exists(path):
                self._disk.remove(path)

    def _rename(self, base_offset: Offset, suffixes: Sequence[str], source: str, target: str) -> None:
        for suffix in suffixes:
            path = f"{self._directory}/{file_name(base_offset, suffix)}"
            if self._disk.exists(path + source):
                self._disk.rename(path + source, path + target)

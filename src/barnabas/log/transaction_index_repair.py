"""A damaged transaction index, built anew when its log is opened.

Always holds: the new file takes the place of the old one whole, because a reader would take an index with too few
entries for the truth, and give records of aborted transactions to those who want committed ones only.
Does not know: an index that is missing; most segments never have one.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass

from barnabas.log.producer_replay import ProducerSnapshots, replay
from barnabas.log.producer_state import CorruptSnapshot, ProducerStates
from barnabas.log.scan import CorruptSegment
from barnabas.log.segment import Segment
from barnabas.log.transaction_index import CorruptTransactionIndex, TransactionIndex
from barnabas.runtime.interfaces import Disk
from barnabas.types import Offset

logger = logging.getLogger(__name__)

ASIDE_SUFFIX = ".tmp"  # removed by the next start, where a crash has left it


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionIndexRepair:
    disk: Disk
    directory: str
    segments: Sequence[Segment]
    snapshots: ProducerSnapshots
    now_ms: int
    producer_id_expiration_ms: int

    def check_all(self, names: Sequence[str]) -> None:
        """Looks at those indexes that are among the names of the directory."""
        there = frozenset(names)
        for number, segment in enumerate(self.segments):
            index = segment.transaction_index
            if index.path.rpartition("/")[2] not in there:
                continue
            try:
                index.check()
            except CorruptTransactionIndex as error:
                self._repair(number, error)
            index.release()

    def _repair(self, number: int, problem: CorruptTransactionIndex) -> None:
        segment = self.segments[number]
        try:
            self._rebuild(number)
        except CorruptSegment as error:
            # The log opens all the same: reads of uncommitted records need no such index.
            logger.error("%s, and it cannot be rebuilt: %s", problem, error)
        else:
            logger.warning("%s: rebuilt with %d entries", problem, segment.transaction_index.entry_count)

    def _rebuild(self, number: int) -> None:
        segment = self.segments[number]
        damaged = segment.transaction_index
        aside = TransactionIndex(self.disk, damaged.path + ASIDE_SUFFIX, segment.base_offset)
        producers, first_offset = self._producers_before(segment.base_offset)
        segment.transaction_index = aside
        try:
            replay(producers, self.segments[: number + 1], first_offset, indexed_from=segment.base_offset)
        finally:
            segment.transaction_index = damaged
            aside.release()
        damaged.release()
        if aside.entry_count:
            self.disk.sync_file(aside.path)
            self.disk.rename(aside.path, damaged.path)
        else:
            self.disk.remove(damaged.path)
        self.disk.sync_directory(self.directory)
        damaged.entry_count = aside.entry_count

    def _producers_before(self, offset: Offset) -> tuple[ProducerStates, Offset]:
        """From the newest sound snapshot up to the offset, and where replaying has to begin. Changes no snapshot."""
        producers = ProducerStates()
        for taken in reversed(self.snapshots.offsets):
            if taken <= offset:
                data = self.disk.read_bytes(self.snapshots.path(taken))
                try:
                    producers.load(data, self.now_ms, self.producer_id_expiration_ms)
                except CorruptSnapshot:
                    continue
                return producers, taken
        return producers, self.segments[0].base_offset

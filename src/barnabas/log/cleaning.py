"""What the owner of a log tells `log.cleaner`, and what it does with the answer.

Always holds: a request describes the log at one moment; `swap_in` refuses a group if the log was cut, or its segments
deleted, since. Does not know: where the work is done.
"""

from dataclasses import dataclass

from barnabas.log.batch_retention import LastRecord
from barnabas.log.cleaner import CleanedGroup, CleaningRequest
from barnabas.log.compaction import Cleanable, SegmentSize
from barnabas.log.log import Log
from barnabas.log.segment import Segment
from barnabas.log.transaction_index import AbortedTransaction
from barnabas.types import NO_OFFSET, ProducerId


@dataclass(frozen=True, slots=True, kw_only=True)
class Buffers:
    """What one cleaning may take of memory."""

    map_bytes: int
    map_load_factor: float
    io_bytes: int


class Cleaning:
    """One compaction of one log, from its beginning on."""

    def __init__(self, log: Log, part: Cleanable, buffers: Buffers, now_ms: int) -> None:
        self._log = log
        self._cuts = log.swap.cuts
        # By base offset: what must still be there when a group takes its place.
        self._segments = {each.base_offset: each for each in log.segments if each.base_offset < part.end_offset}
        config = log.config
        self.request = CleaningRequest(
            directory=log.directory,
            segments=tuple(SegmentSize.of(segment) for segment in self._segments.values()),
            first_dirty_offset=part.first_dirty_offset,
            end_offset=part.end_offset,
            aborted=aborted_transactions(log),
            last_records=last_records(log),
            now_ms=now_ms,
            delete_retention_ms=config.delete_retention_ms,
            segment_bytes=config.segment_bytes,
            index_interval_bytes=config.index_interval_bytes,
            segment_index_bytes=config.segment_index_bytes,
            map_bytes=buffers.map_bytes,
            map_load_factor=buffers.map_load_factor,
            buffer_bytes=buffers.io_bytes,
        )

    @property
    def is_current(self) -> bool:
        return self._cuts == self._log.swap.cuts

    def swap_in(self, group: CleanedGroup, now_ms: int) -> bool:
        """False where the log is no more what it was: then the whole cleaning is worth nothing."""
        old: list[Segment] = [self._segments[base_offset] for base_offset in group.base_offsets]
        log = self._log
        return log.swap.replace(old, self._cuts, size_bytes=group.size_bytes, config=log.config, now_ms=now_ms)

    def discard(self) -> None:
        """Removes what was written and not swapped in."""
        for base_offset in self._segments:
            self._log.swap.discard(base_offset)


def aborted_transactions(log: Log) -> tuple[AbortedTransaction, ...]:
    found: list[AbortedTransaction] = []
    segments = log.segments
    for segment in segments:
        found += segment.transaction_index.entries()
        if segment is not segments[-1]:
            segment.transaction_index.release()
    return tuple(found)


def last_records(log: Log) -> dict[ProducerId, LastRecord]:
    found = {}
    for state in log.producers:
        last = state.last_batch
        found[state.producer_id] = LastRecord(NO_OFFSET if last is None else last.last_offset, state.epoch)
    return found

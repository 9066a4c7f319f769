"""What one fetch brought of one partition, taken out batch by batch as the application asks for it.

Always holds: what is given out passed its CRC (unless that was declined), lies at or after the offset that was fetched,
and is no control record; under read_committed it belongs to no aborted transaction. `next_offset` is where to go on: it
also passes what is given to nobody. A batch that came only in part is left for the next fetch.
Does not know: leaders, sessions, whether its partition is still wanted.
"""

from bisect import bisect_left
from collections import deque
from collections.abc import Iterator, Sequence
from struct import Struct

from barnabas.client.consuming.record_decoder import ConsumerBatch, ConsumerRecord, Stretch, stretches
from barnabas.protocol.control_records import ControlRecordKind, decode_control_key
from barnabas.protocol.messages.fetch import AbortedTransaction
from barnabas.protocol.record_batch import (
    HEADER_BYTES,
    LOG_OVERHEAD_BYTES,
    BatchHeader,
    InvalidRecordBatch,
    crc_matches,
    decode_records,
    read_header,
)
from barnabas.types import NO_LEADER_EPOCH, Offset, TopicPartition

_BATCH_LENGTH = Struct(">i")


class FetchedRecords:
    def __init__(
        self,
        partition: TopicPartition,
        records: memoryview,
        *,
        offset: int,
        aborted: Sequence[AbortedTransaction] = (),
        check_crcs: bool = True,
    ) -> None:
        self.partition = partition
        self.next_offset = offset
        self.leader_epoch = NO_LEADER_EPOCH  # of the last batch passed; -1: none yet
        self._view = records
        self._position = 0  # of the next batch in the view
        self._check_crcs = check_crcs
        self._aborted = deque(sorted(aborted, key=lambda each: each.first_offset))  # those that begin further on
        self._aborted_now: dict[int, None] = {}  # producers within a transaction that was aborted
        self._stretches: Iterator[Stretch] | None = None  # of the batch before `_position`; None: all of it is decoded
        self._decoded: list[ConsumerRecord] = []  # of its last stretch; `_taken` of them are gone
        self._taken = 0
        self._batch_end = offset  # where to go on once all of that is taken
        self._error: InvalidRecordBatch | None = None  # found behind records that had to be given out first

    @property
    def is_exhausted(self) -> bool:
        return self._taken == len(self._decoded) and self._stretches is None and self._position >= len(self._view)

    def take(self, count_max: int) -> list[ConsumerRecord]:
        """The next records, at most so many; none where all were taken. Decodes what it needs, a stretch at a time."""
        if self._error is not None:
            raise self._error
        taken: list[ConsumerRecord] = []
        try:
            while (room := count_max - len(taken)) > 0:
                if self._taken == len(self._decoded) and not self._decode_next():
                    break
                start, self._taken = self._taken, min(len(self._decoded), self._taken + room)
                taken += self._decoded[start : self._taken]
        except InvalidRecordBatch as error:
            if not taken:
                raise
            self._error = error
            self.next_offset = taken[-1].offset + 1
            return taken
        self.next_offset = taken[-1].offset + 1 if taken else self.next_offset
        if self._taken == len(self._decoded) and self._stretches is None:
            self.next_offset = self._batch_end
        return taken

    def take_batch(self) -> ConsumerBatch | None:
        """The next records as columns, as many as were decoded together; None where all were taken."""
        if self._error is not None:
            raise self._error
        batch: ConsumerBatch | None = None
        if self._taken < len(self._decoded):
            batch = columns_of(self._decoded[self._taken :])
            self._decoded, self._taken = [], 0
        while batch is None and (stretch := self._next_stretch()) is not None:
            found = stretch if isinstance(stretch, ConsumerBatch) else columns_of(stretch)
            if found.offsets[0] < self.next_offset:
                found = found.from_index(bisect_left(found.offsets, self.next_offset))
            batch = found if found.offsets else None
        if batch is not None:
            self.next_offset = batch.offsets[-1] + 1
        if self._stretches is None:
            self.next_offset = self._batch_end
        return batch

    def _decode_next(self) -> bool:
        """One more stretch. False where there is none."""
        while (stretch := self._next_stretch()) is not None:
            records = stretch.records() if isinstance(stretch, ConsumerBatch) else stretch
            if records[0].offset < self.next_offset:
                records = [record for record in records if record.offset >= self.next_offset]
            self._decoded, self._taken = records, 0
            if records:
                return True
        return False

    def _next_stretch(self) -> Stretch | None:
        while True:
            if self._stretches is None:
                found = self._next_batch()
                if found is None:
                    return None
                self._stretches = stretches(self.partition, self._view, *found)
            stretch = next(self._stretches, None)
            if stretch is not None:
                return stretch
            self._stretches = None

    def _next_batch(self) -> tuple[int, BatchHeader] | None:
        """The next one whose records are for the application. Passes over all others."""
        view = self._view
        while self._position + HEADER_BYTES <= len(view):
            position = self._position
            header = read_header(view, position)
            if position + header.size_bytes > len(view):
                break
            if self._check_crcs and not crc_matches(view, position, header):
                raise InvalidRecordBatch(
                    f"the batch at offset {header.base_offset} of {self.partition} does not match its CRC; "
                    f"to go on behind it, seek to {header.next_offset}"
                )
            self._position = position + header.size_bytes
            self._batch_end = max(self._batch_end, header.next_offset)
            self.leader_epoch = header.leader_epoch
            if header.next_offset > self.next_offset and self._is_wanted(position, header):
                return position, header
        self._position = len(view)  # what came of the last batch is asked for again
        return None

    def _is_wanted(self, position: int, header: BatchHeader) -> bool:
        if not header.has_producer_id or not header.is_transactional:
            return not header.is_control
        while self._aborted and self._aborted[0].first_offset <= header.last_offset:
            self._aborted_now[self._aborted.popleft().producer_id] = None
        if not header.is_control:
            return header.producer_id not in self._aborted_now
        marker = next(iter(decode_records(self._view, position)), None)
        # One whose record compaction took still ends the transaction, whichever way: none is hidden behind it.
        if marker is None or decode_control_key(marker.key) == ControlRecordKind.ABORT:
            self._aborted_now.pop(header.producer_id, None)
        return False


def end_of_batches(view: memoryview) -> Offset | None:
    """The offset after the last batch that came whole; None where none did."""
    position, last = 0, -1
    while position + HEADER_BYTES <= len(view):
        (batch_length,) = _BATCH_LENGTH.unpack_from(view, position + 8)
        end = position + LOG_OVERHEAD_BYTES + batch_length
        if end > len(view) or batch_length < 0:
            break
        position, last = end, position
    return None if last < 0 else read_header(view, last).next_offset


def columns_of(records: Sequence[ConsumerRecord]) -> ConsumerBatch:
    """Of records that were decoded together, at least one."""
    topic, partition, _offset, _timestamp_ms, timestamp_type, *_others, leader_epoch = records[0]
    fields = tuple(zip(*records, strict=True))
    return ConsumerBatch(
        topic, partition, leader_epoch, timestamp_type, fields[2], fields[3], fields[5], fields[6], fields[7]
    )

"""One partition's log: segments in a directory, appended at one end and deleted at the other.

Always holds: log_start_offset <= last_stable_offset <= high_watermark <= log_end_offset. What is in memory is what the
next reader gets: a write that fails leaves all of these as they were. `recovery_point` moves only after a sync.
One thread owns the log; `flush` alone may run on another meanwhile.
Does not know: time (it is told), other replicas, who reads or writes, where its recovery point is kept.
"""

import errno

from barnabas.config.topic import TopicConfig
from barnabas.errors import ErrorCode
from barnabas.log.append import (
    NEEDS_INSPECTION,
    AppendInfo,
    AppendOrigin,
    AppendRules,
    appended,
    check_batch,
    check_client_batch,
    check_replicated,
    check_size,
    clear_append_time,
    malformed,
    own_copy,
)
from barnabas.log.checkpoint import PARTITION_METADATA_FILE_NAME
from barnabas.log.file_range import FileRange
from barnabas.log.flusher import Flusher
from barnabas.log.inspection import Inspected, is_small, looked_at
from barnabas.log.leader_epochs import EpochEnd, LeaderEpochs
from barnabas.log.open_segments import OpenSegments
from barnabas.log.producer_check import check_producer
from barnabas.log.producer_replay import marker_in, replay
from barnabas.log.producer_state import PRODUCER_ID_EXPIRATION_MS, CompletedTransaction
from barnabas.log.reader import Reader
from barnabas.log.recovery import LoadedLog, LoadRequest, keep_topic_id, load
from barnabas.log.retention import expired_count
from barnabas.log.rolling import has_room
from barnabas.log.segment import Segment
from barnabas.log.segment_swap import SegmentSwap
from barnabas.log.segments import Segments
from barnabas.log.time_lookup import TimeLookup
from barnabas.log.transaction_index import AbortedTransaction
from barnabas.protocol.record_batch import (
    CONTROL_BIT,
    INT32_MAX,
    LOG_APPEND_TIME_BIT,
    LOG_OVERHEAD_BYTES,
    BatchHeader,
    InvalidRecordBatch,
    assign,
    read_header,
    set_append_time,
)
from barnabas.runtime.interfaces import Disk
from barnabas.types import NO_LEADER_EPOCH, NO_TIMESTAMP_MS, LeaderEpoch, Offset, Uuid

__all__ = ["AppendInfo", "AppendOrigin", "FileRange", "Log"]


class Log:
    __slots__ = (
        "_disk",
        "_flusher",
        "_high_watermark",
        "_last_flush_ms",
        "_needs_recovery",
        "_reader",
        "_segments",
        "_snapshots",
        "config",
        "cut_bytes",
        "directory",
        "leader_epochs",
        "led_epoch",
        "log_end_offset",
        "log_start_offset",
        "producer_id_expiration_ms",
        "producers",
        "rules",
        "swap",
        "times",
    )

    def __init__(
        self,
        disk: Disk,
        directory: str,
        config: TopicConfig,
        loaded: LoadedLog,
        now_ms: int,
        open_segments: OpenSegments,
        producer_id_expiration_ms: int,
    ) -> None:
        self.directory = directory
        self.config = config
        self.log_start_offset = loaded.log_start_offset  # the first that may be read
        self.log_end_offset = loaded.log_end_offset  # the next record gets this one
        self.cut_bytes = loaded.cut_bytes  # taken away when it was opened, as unsound
        self.producers = loaded.producers  # what the batches below log_end_offset say
        self.leader_epochs = loaded.leader_epochs  # likewise
        self.led_epoch: LeaderEpoch = NO_LEADER_EPOCH  # of its only replica, which need not have written yet
        self._disk = disk
        self.rules = AppendRules(config)  # of every append
        self._segments = Segments(disk, directory, loaded.segments, open_segments)
        self._snapshots = loaded.snapshots
        self._flusher = Flusher(disk, directory, loaded.recovery_point)
        self._high_watermark = loaded.log_start_offset
        self.producer_id_expiration_ms = producer_id_expiration_ms  # the broker's, which may change while it runs
        self._reader = Reader(self._segments)
        self.times = TimeLookup(self._segments)
        self.swap = SegmentSwap(disk, directory, self._segments, self._snapshots, self._flusher, self._reader)
        self._last_flush_ms = now_ms
        self._needs_recovery = False  # the disk failed half way through something that cannot be taken back

    @classmethod
    def open(
        cls,
        disk: Disk,
        directory: str,
        config: TopicConfig,
        now_ms: int,
        *,
        recovery_point: Offset = 0,
        log_start_offset: Offset = 0,
        clean_shutdown: bool = False,
        topic_id: Uuid | None = None,
        is_identified: bool = False,
        open_segments: OpenSegments | None = None,
        producer_id_expiration_ms: int = PRODUCER_ID_EXPIRATION_MS,
    ) -> "Log":
        """Takes up what is on the disk, or begins a log where nothing is. `is_identified`: the topic id is there."""
        request = LoadRequest(
            disk=disk,
            directory=directory,
            config=config,
            now_ms=now_ms,
            recovery_point=recovery_point,
            log_start_offset=log_start_offset,
            clean_shutdown=clean_shutdown,
            producer_id_expiration_ms=producer_id_expiration_ms,
        )
        loaded = load(request)
        pool = open_segments if open_segments is not None else OpenSegments()
        log = cls(disk, directory, config, loaded, now_ms, pool, producer_id_expiration_ms)
        for segment in loaded.recovered:
            log._flusher.finished([*segment.paths(), loaded.snapshots.path(segment.base_offset)])
        has_new_id = topic_id is not None and not is_identified and keep_topic_id(disk, directory, topic_id)
        if has_new_id or not clean_shutdown or log.log_end_offset == log.log_start_offset:  # it may not be synced
            if topic_id is not None:
                log._flusher.finished([f"{directory}/{PARTITION_METADATA_FILE_NAME}"])
            log._flusher.directory_made()
            log._flusher.epochs_changed(log.leader_epochs.encode())
        log._segments.active.release()  # an idle partition holds nothing open
        return log

    # Offsets

    @property
    def high_watermark(self) -> Offset:
        """Below this every replica in sync has everything. Its owner raises it; it falls only with the end."""
        return self._high_watermark

    @high_watermark.setter
    def high_watermark(self, offset: Offset) -> None:
        if offset > self.log_end_offset:
            offset = self.log_end_offset
        if offset > self._high_watermark:
            self._high_watermark = offset
            self.producers.advance(offset)

    @property
    def last_stable_offset(self) -> Offset:
        """Below this no transaction is open: as far as read_committed sees."""
        unstable = self.producers.first_unstable_offset
        if unstable is None or unstable >= self._high_watermark:
            return self._high_watermark
        return max(unstable, self.log_start_offset)

    @property
    def recovery_point(self) -> Offset:
        """Below this everything is on the platter. Whoever keeps it writes it down after a truncation at the latest."""
        return self._flusher.recovery_point

    @property
    def size_bytes(self) -> int:
        return self._segments.size_bytes

    @property
    def segments(self) -> list[Segment]:
        """Ascending, the active one last."""
        return list(self._segments)

    @property
    def is_offline(self) -> bool:
        """Whether appends fail: what a failed write left could not be cut yet, or the log must be opened anew."""
        return self._needs_recovery or self._flusher.has_failed or self._segments.active.is_torn

    def update_config(self, config: TopicConfig) -> None:
        """Takes effect at once, but for what a segment was made with."""
        self.config = config
        self.rules = AppendRules(config)

    # Appending

    def append_as_leader(
        self,
        batches: memoryview,
        leader_epoch: LeaderEpoch,
        now_ms: int,
        origin: AppendOrigin = AppendOrigin.CLIENT,
        inspected: Inspected | AppendInfo | None = None,
        defers: bool = False,
    ) -> AppendInfo:
        """Checks one batch, gives it its offsets (in place, where it can be written to) and writes it.

        A refusal is `AppendInfo.error`; OSError means that the disk failed. In both cases nothing was appended.
        Where records must be looked at, who `defers` gets NEEDS_INSPECTION, and comes again with what was `inspected`.
        """
        rules = self.rules
        if inspected is None:
            try:
                header = read_header(batches, 0)
            except InvalidRecordBatch:
                return malformed(batches)
            size_bytes = header[1] + LOG_OVERHEAD_BYTES
            if size_bytes != len(batches):
                refused = check_size(batches, size_bytes)
                if refused is not None:
                    return refused
                batches = batches[:size_bytes]
            if origin is AppendOrigin.CLIENT:
                refused = check_client_batch(batches, header, rules, now_ms)
            else:
                refused = check_batch(batches, header, rules)
            if refused is not None:
                if refused is not NEEDS_INSPECTION or (defers and not is_small(header)):
                    return refused
                inspected = looked_at(batches, header, rules, now_ms)
        if inspected is not None:
            if isinstance(inspected, AppendInfo):
                return inspected
            header, batches = inspected
        if header[9] >= 0:
            refused = check_producer(self.producers, self._segments.all, batches, header, origin, self.log_start_offset)
            if refused is not None:
                return refused
        is_repacked = rules.codec is not None and inspected is None and header.codec != rules.codec
        if batches.readonly or is_repacked:
            own = own_copy(batches, header, rules)
            if isinstance(own, AppendInfo):
                return own
            batches = own
        append_time_ms = NO_TIMESTAMP_MS
        max_timestamp_ms = header[8]
        if rules.stamps_append_time:
            append_time_ms = max_timestamp_ms = now_ms
            set_append_time(batches, 0, now_ms)
        elif header[5] & LOG_APPEND_TIME_BIT:
            clear_append_time(batches)
        base_offset = self.log_end_offset
        assign(batches, 0, base_offset, leader_epoch)
        self._write(batches, header, base_offset, leader_epoch, max_timestamp_ms, now_ms)
        return appended(base_offset, self.log_end_offset, append_time_ms, self.log_start_offset)

    def refused(self, batches: memoryview) -> None:
        """A client's batch that was not appended, though nothing is wrong with it: its producer will send it again."""
        try:
            self.producers.refused(read_header(batches, 0))
        except InvalidRecordBatch:
            return  # it would have been refused anyway

    def append_as_follower(self, batches: memoryview, now_ms: int) -> AppendInfo:
        """Appends what the leader has, offsets and all; a batch cut short at the end is left for the next fetch.

        What comes before a bad batch is appended. One write for all that goes into the same segment.
        """
        first_offset = self.log_end_offset
        headers, error, problem = check_replicated(batches, first_offset)
        written = position = 0
        while written < len(headers):
            run = self._run(headers[written:] if written else headers, now_ms)
            size_bytes = sum(header.size_bytes for header in run)
            self._write_run(batches[position : position + size_bytes], run)
            written += len(run)
            position += size_bytes
        if error != ErrorCode.NONE:
            return AppendInfo.failed(error, problem)
        return AppendInfo(ErrorCode.NONE, first_offset, self.log_end_offset, NO_TIMESTAMP_MS, self.log_start_offset)

    def _run(self, headers: list[BatchHeader], now_ms: int) -> list[BatchHeader]:
        """As many of the batches, one at least, as go into the segment of the first of them, which is then active."""
        first = headers[0]
        if self._needs_recovery or self._flusher.has_failed:
            self._refuse()
        size_bytes, base_offset, last_offset = first.size_bytes, first.base_offset, first.last_offset
        segment = self._segment_for(size_bytes, base_offset, last_offset, first.max_timestamp_ms, now_ms)
        age_start_ms = segment.age_start_ms() if segment.size_bytes else first.max_timestamp_ms
        if age_start_ms is None:
            return headers[:1]
        size_bytes = segment.size_bytes
        for count, header in enumerate(headers):
            size_bytes += header.size_bytes
            age_ms = header.max_timestamp_ms - age_start_ms
            added_bytes = size_bytes - segment.size_bytes
            if count > 0 and not has_room(segment, self.rules, added_bytes, header.last_offset, age_ms):
                return headers[:count]
        return headers

    def _write_run(self, batches: memoryview, run: list[BatchHeader]) -> None:
        segment = self._segments.active
        position = start = segment.append(batches, len(batches))
        for header in run:
            size_bytes = header.size_bytes
            base_offset = header.base_offset
            segment.appended(position, size_bytes, base_offset, header.last_offset, header.max_timestamp_ms)
            self.log_end_offset = header.next_offset
            if header.leader_epoch > self.leader_epochs.latest_epoch:
                self.assign_leader_epoch(header.leader_epoch, base_offset)
            if header.has_producer_id:
                batch = batches[position - start : position - start + size_bytes]
                self._count_producer(segment, batch, header, base_offset, header.max_timestamp_ms)
            position += size_bytes

    def _write(
        self,
        batch: memoryview,
        header: BatchHeader,
        base_offset: Offset,
        leader_epoch: LeaderEpoch,
        max_timestamp_ms: int,
        now_ms: int,
    ) -> None:
        if self._needs_recovery or self._flusher.has_failed:
            self._refuse()
        size_bytes = len(batch)
        last_offset = base_offset + header[6]
        segment = self._segment_for(size_bytes, base_offset, last_offset, max_timestamp_ms, now_ms)
        position = segment.append(batch, size_bytes)
        segment.appended(position, size_bytes, base_offset, last_offset, max_timestamp_ms)
        self.log_end_offset = last_offset + 1
        if leader_epoch > self.leader_epochs.latest_epoch:
            self.assign_leader_epoch(leader_epoch, base_offset)
        if header[9] >= 0:
            self._count_producer(segment, batch, header, base_offset, max_timestamp_ms)

    def _refuse(self) -> None:
        raise OSError(errno.EIO, "the disk failed here before; the log must be opened anew", self.directory)

    def _count_producer(
        self, segment: Segment, batch: memoryview, header: BatchHeader, base_offset: Offset, max_timestamp_ms: int
    ) -> None:
        marker = marker_in(batch) if header.attributes & CONTROL_BIT else None
        completed = self.producers.append(header, base_offset, max_timestamp_ms, marker)
        if completed is not None and completed.aborted:
            self._index_aborted(segment, completed)

    def _index_aborted(self, segment: Segment, completed: CompletedTransaction) -> None:
        producer_id, first_offset, last_offset, _, last_stable_offset = completed
        self._needs_recovery = True  # unless the entry gets written: the marker is in the log already
        segment.transaction_index.append(AbortedTransaction(producer_id, first_offset, last_offset, last_stable_offset))
        self._needs_recovery = False

    def _segment_for(
        self, size_bytes: int, base_offset: Offset, last_offset: Offset, max_timestamp_ms: int, now_ms: int
    ) -> Segment:
        """The active segment, or a new one where this batch no longer belongs into it."""
        segment = self._segments.active
        if segment.size_bytes == 0 and last_offset - segment.base_offset <= INT32_MAX:
            return segment
        age_start_ms = segment.first_timestamp_ms
        if age_start_ms is None or age_start_ms < 0:
            age_start_ms = segment.age_start_ms()
        age_ms = now_ms - segment.created_ms if age_start_ms is None else max_timestamp_ms - age_start_ms
        if has_room(segment, self.rules, size_bytes, last_offset, age_ms):
            return segment
        return self.roll(now_ms, base_offset)

    def roll(self, now_ms: int, base_offset: Offset = 0) -> Segment:
        """Finishes the active segment and begins the next one. An empty one stays, where its name still fits."""
        base_offset = max(base_offset, self.log_end_offset)
        active = self._segments.active
        is_empty = active.size_bytes == 0
        if is_empty and active.base_offset == base_offset:
            return active
        active.finish()
        if not is_empty:
            self._flusher.finished(active.paths())  # before a flush can see the next segment as the active one
        segment = self._segments.begin(base_offset, self.config, now_ms)
        self._flusher.directory_changed()
        if is_empty:
            self._segments.delete_one(len(self._segments) - 2, now_ms + self.config.file_delete_delay_ms)
        self._take_snapshot(base_offset)
        return segment

    def _take_snapshot(self, offset: Offset) -> None:
        if self._snapshots.take(offset, self.producers):
            self._flusher.finished([self._snapshots.path(offset)])
            self._flusher.directory_changed()

    # Reading

    def read(
        self, offset: Offset, size_bytes_max: int, end_offset: Offset, at_least_one: bool = True
    ) -> FileRange | None:
        """Where the batches from `offset` on lie, all of them below `end_offset`, in one segment.

        `at_least_one` gives the first batch whole even where it is larger than asked for. None where nothing is to be
        read: at or beyond `end_offset`, or outside the log.
        """
        if not self.log_start_offset <= offset < min(end_offset, self.log_end_offset):
            return None
        if end_offset >= self.log_end_offset:
            return self._reader.read(offset, size_bytes_max, None, at_least_one)
        return self._reader.read(offset, size_bytes_max, end_offset, at_least_one)

    def aborted_transactions(self, offset: Offset, found: FileRange) -> list[AbortedTransaction]:
        """Those with records in a range that was read from `offset` on: what read_committed must skip."""
        return self._reader.aborted_transactions(offset, found, self.log_end_offset)

    # Leader epochs

    def assign_leader_epoch(self, epoch: LeaderEpoch, start_offset: Offset) -> None:
        """An epoch begins to write here. The file waits for the next flush: until then the batches say it too."""
        if self.leader_epochs.assign(epoch, start_offset):
            self._flusher.epochs_changed(self.leader_epochs.encode())

    def end_offset_for_epoch(self, epoch: LeaderEpoch) -> EpochEnd:
        return self._led_epochs().end_offset_for(epoch, self.log_end_offset)

    def leader_epoch_of(self, offset: Offset) -> LeaderEpoch:
        return self._led_epochs().epoch_for(offset)

    def _led_epochs(self) -> LeaderEpochs:
        return self.leader_epochs.led_by(self.led_epoch, self.log_end_offset)

    # Deleting

    def delete_records_before(self, offset: Offset) -> ErrorCode:
        """Readers no longer see what lies before; whole segments go with the next `delete_old_segments`."""
        if offset > self._high_watermark or offset < 0:
            return ErrorCode.OFFSET_OUT_OF_RANGE
        self._move_log_start(offset)
        return ErrorCode.NONE

    def _move_log_start(self, offset: Offset) -> None:
        if offset <= self.log_start_offset:
            return
        assert offset <= self.log_end_offset
        self.log_start_offset = offset
        self._high_watermark = max(self._high_watermark, offset)
        if self.leader_epochs.truncate_from_start(offset):
            self._flusher.epochs_changed(self.leader_epochs.encode())
        self.producers.advance(offset)

    def delete_old_segments(self, now_ms: int) -> int:
        """Those that log start, `retention.bytes` or `retention.ms` no longer need; gives how many."""
        count = expired_count(
            self._segments.all,
            self.config,
            now_ms,
            log_start_offset=self.log_start_offset,
            high_watermark=self._high_watermark,
            log_end_offset=self.log_end_offset,
        )
        if count == 0:
            return 0
        if count == len(self._segments):
            self.roll(now_ms)
        self._move_log_start(self._segments[count].base_offset)
        due_ms = now_ms + self.config.file_delete_delay_ms
        for segment in self._segments.delete_oldest(count, due_ms):
            self._snapshots.remove(segment.base_offset)
        self._flusher.directory_changed()
        return count

    def delete_files_due(self, now_ms: int) -> int:
        """Removes files of deleted segments whose `file.delete.delay.ms` is over; gives how many."""
        return self._segments.remove_due(now_ms)

    @property
    def next_file_deletion_ms(self) -> int | None:
        return self._segments.next_removal_ms

    def expire_producers(self, now_ms: int) -> int:
        """Forgets producers that were silent for too long; gives how many."""
        return self.producers.expire(now_ms, self.producer_id_expiration_ms)

    # Truncating

    def truncate_to(self, offset: Offset, now_ms: int) -> bool:
        """Drops everything from `offset` on, on the platter too; gives whether there was anything.

        Where the offset lies within a batch the whole batch goes, and the log ends before it.
        """
        assert offset >= 0
        if offset >= self.log_end_offset:
            if self.leader_epochs.truncate_from_end(self.log_end_offset):
                self._flusher.epochs_changed(self.leader_epochs.encode())
            return False
        if offset < self._segments[0].base_offset:
            self.truncate_fully_and_start_at(offset, now_ms)
            return True
        self._needs_recovery = True  # unless every step below succeeds
        self._flusher.truncated(offset)
        due_ms = now_ms + self.config.file_delete_delay_ms
        if self._segments.delete_newest(self._segments.number_of(offset) + 1, due_ms):
            # Before the file is cut: a crash in between must not leave a gap.
            self._flusher.directory_changed()
            self._flusher.sync_directory()
        self._truncated_to(self._segments.active.truncate_to(offset), now_ms)
        return True

    def truncate_fully_and_start_at(self, offset: Offset, now_ms: int) -> None:
        """Drops everything; the log is empty and begins at `offset`."""
        self._needs_recovery = True
        self._flusher.truncated(min(offset, self.log_start_offset))
        self._segments.delete_newest(0, now_ms + self.config.file_delete_delay_ms)
        self._snapshots.remove_all()
        self._segments.begin(offset, self.config, now_ms)
        self.log_start_offset = offset
        self._high_watermark = offset
        self.leader_epochs.clear()
        self._truncated_to(offset, now_ms)

    def _truncated_to(self, end_offset: Offset, now_ms: int) -> None:
        self._reader.forget()
        self._flusher.truncated(end_offset)  # again: the end may lie before the offset that was asked for
        self.swap.truncated(end_offset)
        self.log_end_offset = end_offset
        self.log_start_offset = min(self.log_start_offset, end_offset)
        self._high_watermark = min(self._high_watermark, end_offset)
        self.leader_epochs.truncate_from_end(end_offset)
        expiration_ms = self.producer_id_expiration_ms
        found = self._snapshots.load_newest(end_offset, self.producers, now_ms, expiration_ms)
        first_offset = self.log_start_offset if found is None else max(found, self.log_start_offset)
        if first_offset < end_offset:
            replay(self.producers, self._segments.all, first_offset, indexed_from=end_offset)
        self.producers.advance(self._high_watermark)
        # At once, and not with the next flush: what is gone must not come back behind what is written next.
        self._flusher.directory_changed()
        self._flusher.epochs_changed(self.leader_epochs.encode())
        self._flusher.sync_directory()
        self._flusher.write_epochs()
        self._needs_recovery = False

    # Flushing

    def flush_due(self, now_ms: int | None = None) -> bool:
        """Whether `flush.messages` or, where the time is told, `flush.ms` asks for a flush."""
        unsynced = self.log_end_offset - max(self._flusher.recovery_point, self.log_start_offset)
        if unsynced >= self.config.flush_messages:
            return True
        return now_ms is not None and unsynced > 0 and now_ms - self._last_flush_ms >= self.config.flush_ms

    @property
    def has_unsynced_segments(self) -> bool:
        """Whether a roll, or a recovery, left finished segments to flush: `flush_finished` in the background."""
        return self._flusher.has_finished_segments

    def flush(self, end_offset: Offset | None = None, now_ms: int | None = None) -> None:
        """Syncs what lies below `end_offset` (by default all); may run on any thread while appends go on.

        After an OSError of a sync the log takes nothing more until it is opened anew.
        """
        reached = self.log_end_offset if end_offset is None else min(end_offset, self.log_end_offset)
        self._flusher.flush(self._segments, reached)
        if now_ms is not None:
            self._last_flush_ms = now_ms

    def flush_finished(self) -> None:
        """Syncs all segments but the active one; on any thread."""
        self.flush(self._segments.active.base_offset)

    # Ending

    def close(self) -> None:
        """A clean stop: everything synced, so that the next start reads next to nothing. OSError: it was not clean."""
        active = self._segments.active
        is_untouched = active.size_bytes == 0 and active.base_offset == 0
        if not is_untouched and not self._is_stopped():
            active.finish()
            self._flusher.finished(active.paths())
            self._take_snapshot(self.log_end_offset)
            self.flush()
        self._segments.release()

    def _is_stopped(self) -> bool:
        """Whether everything is as a clean stop leaves it: nothing has changed since the last one."""
        return (
            self._flusher.recovery_point == self.log_end_offset
            and self._flusher.is_done
            and self._snapshots.offsets[-1:] == [self.log_end_offset]
            and not self._segments.active.is_preallocated
        )

    def abandon(self) -> None:
        """Lets go of every file as it is: the partition is about to be deleted, or the disk is broken."""
        self._segments.release()

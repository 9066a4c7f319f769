"""One partition on this broker: its log, who leads it, and who waits for it.

Always holds: the high watermark never falls, and nothing above it is shown to consumers. `_waiters` is in offset
order, because appends are; a rise of the watermark therefore pops from its left. An idle partition has no timer and
no task.

Where `flush.messages` asks for a sync, records are acknowledged and shown only once they are on the platter: the
watermark then follows the sync, and one sync serves all that was appended before it began. `flush.ms`, and segments
that were finished, are synced in the background. After a failed sync nobody knows what the disk holds: the partition
takes no more writes until a restart has recovered it.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from barnabas.config.topic import LONG_MAX, TopicConfig
from barnabas.errors import ErrorCode
from barnabas.log.append import AppendInfo, AppendOrigin
from barnabas.log.log import Log
from barnabas.metadata import topic_names
from barnabas.protocol.messages.fetch import EpochEndOffset, PartitionData
from barnabas.runtime.interfaces import Runtime, Timer
from barnabas.server.commit_wait import Commit
from barnabas.server.fetch_wait import FetchWait
from barnabas.types import NO_LEADER_EPOCH, BrokerId, LeaderEpoch, Offset, TopicPartition, Uuid

logger = logging.getLogger(__name__)

READ_COMMITTED = 1
NEVER = LONG_MAX  # what flush.messages and flush.ms are by default


class Waiter(NamedTuple):
    end_offset: Offset
    commit: Commit


class Partition:
    def __init__(
        self,
        *,
        name: TopicPartition,
        topic_id: Uuid,
        log: Log,
        leader_epoch: LeaderEpoch,
        in_sync: tuple[BrokerId, ...],
        runtime: Runtime,
    ) -> None:
        self.name = name
        self.topic_id = topic_id
        self.is_internal = topic_names.is_internal(name.topic)  # only coordinators write here
        self.log = log
        self.leader_epoch = leader_epoch
        self.in_sync = in_sync  # never empty; the controller confirms every change before it counts
        log.high_watermark = log.log_end_offset  # what the only replica has is committed
        self.fetch_waits: dict[FetchWait, None] = {}  # a dict for its order
        self._waiters: deque[Waiter] = deque()
        self._runtime = runtime
        self.closed = False
        self._broken = False  # a sync has failed
        self._sync_task: asyncio.Task[None] | None = None  # while the watermark follows syncs
        self._flush_timer: Timer | None = None  # from the first unsynced append until the end of its flush
        self._flush_task: asyncio.Task[None] | None = None  # kept so that it is not collected while it runs

    @property
    def config(self) -> TopicConfig:
        return self.log.config

    def lead(self, *, leader_epoch: LeaderEpoch, in_sync: tuple[BrokerId, ...]) -> None:
        """What the controller has decided about this partition."""
        assert leader_epoch >= self.leader_epoch
        self.leader_epoch = leader_epoch
        self.in_sync = in_sync

    def epoch_error(self, current_leader_epoch: LeaderEpoch) -> ErrorCode:
        """What a client that believes in some leader epoch must be told (KIP-320)."""
        if current_leader_epoch == NO_LEADER_EPOCH or current_leader_epoch == self.leader_epoch:
            return ErrorCode.NONE
        if current_leader_epoch < self.leader_epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        return ErrorCode.UNKNOWN_LEADER_EPOCH

    # Writing

    def append(self, records: memoryview, acks: int, origin: AppendOrigin = AppendOrigin.CLIENT) -> AppendInfo:
        if acks == -1 and len(self.in_sync) < self.config.min_insync_replicas:
            self.log.refused(records)
            return AppendInfo.failed(ErrorCode.NOT_ENOUGH_REPLICAS)
        if self._broken:
            return AppendInfo.failed(ErrorCode.KAFKA_STORAGE_ERROR)
        log = self.log
        try:
            info = log.append_as_leader(records, self.leader_epoch, self._runtime.clock.now_ms(), origin)
        except OSError as error:
            logger.error("%s: cannot append, the producer is told KAFKA_STORAGE_ERROR: %s", self.name, error)
            log.refused(records)
            return AppendInfo.failed(ErrorCode.KAFKA_STORAGE_ERROR)
        if info.error == ErrorCode.NONE and not info.duplicate:
            config = log.config
            if config.flush_messages != NEVER and log.flush_due():
                self._commit_by_sync()
            elif self._sync_task is None:
                self._advance(log.log_end_offset, len(records))
            if self._flush_timer is None and (log.has_unsynced_segments or config.flush_ms != NEVER):
                delay_ms = 0 if log.has_unsynced_segments else config.flush_ms
                self._flush_timer = self._runtime.clock.call_later(delay_ms, self._flush_in_background)
        return info

    def committed(self, end_offset: Offset) -> Commit | None:
        """None where everything before `end_offset` is committed already, else a future of that moment."""
        if end_offset <= self.log.high_watermark:
            return None
        commit: Commit = asyncio.get_running_loop().create_future()
        self._waiters.append(Waiter(end_offset, commit))
        return commit

    def _advance(self, high_watermark: Offset, size_bytes: int) -> None:
        self.log.high_watermark = high_watermark
        waiters = self._waiters
        while waiters and waiters[0].end_offset <= high_watermark:
            waiters.popleft().commit.set_result(ErrorCode.NONE)
        for wait in tuple(self.fetch_waits):
            wait.appended(size_bytes)

    def _commit_by_sync(self) -> None:
        if self._sync_task is None:
            self._sync_task = asyncio.ensure_future(self._sync_and_advance())

    async def _sync_and_advance(self) -> None:
        """Group commit: each round takes along all that was appended while the one before it ran."""
        log = self.log
        while not self.closed and log.high_watermark < log.log_end_offset:
            end_offset = log.log_end_offset
            if not await self._sync(log.flush):
                self._fail_waiters(ErrorCode.KAFKA_STORAGE_ERROR)
                break
            self._advance(end_offset, 1)
        self._sync_task = None

    def _flush_in_background(self) -> None:
        self._flush_task = asyncio.ensure_future(self._flush())

    async def _flush(self) -> None:
        log = self.log
        if not self.closed:
            await self._sync(log.flush_finished if log.config.flush_ms == NEVER else log.flush)
        self._flush_timer = None

    async def _sync(self, flush: Callable[[], None]) -> bool:
        try:
            await self._runtime.offload(flush)
        except OSError as error:
            logger.error("%s: cannot sync; it takes no more writes until a restart: %s", self.name, error)
            self._broken = True
        return not self._broken

    def _fail_waiters(self, error: ErrorCode) -> None:
        while self._waiters:
            self._waiters.popleft().commit.set_result(error)

    # Reading

    def fetch(
        self, *, fetch_offset: Offset, size_bytes_max: int, at_least_one: bool, isolation_level: int
    ) -> PartitionData:
        """Records from `fetch_offset` on, as a range of a file, with the offsets that every answer carries."""
        log = self.log
        committed_only = isolation_level == READ_COMMITTED
        end_offset = log.last_stable_offset if committed_only else log.high_watermark
        if not log.log_start_offset <= fetch_offset <= log.log_end_offset:
            return self.fetch_failed(ErrorCode.OFFSET_OUT_OF_RANGE)
        data = PartitionData(
            partition_index=self.name.partition,
            high_watermark=log.high_watermark,
            last_stable_offset=log.last_stable_offset,
            log_start_offset=log.log_start_offset,
            aborted_transactions=[] if committed_only else None,
            records=b"",
        )
        if fetch_offset < end_offset and (size_bytes_max > 0 or at_least_one):
            try:
                data.records = log.read(fetch_offset, size_bytes_max, end_offset, at_least_one) or b""
            except OSError as error:
                logger.error("%s: cannot read offset %d: %s", self.name, fetch_offset, error)
                return self.fetch_failed(ErrorCode.KAFKA_STORAGE_ERROR)
        return data

    def fetch_failed(self, error: ErrorCode) -> PartitionData:
        return fetch_failed(self.name.partition, error)

    def diverging_epoch(self, last_fetched_epoch: LeaderEpoch, fetch_offset: Offset) -> EpochEndOffset | None:
        """Where the reader's log and this one part, if they do (KIP-595)."""
        if last_fetched_epoch == NO_LEADER_EPOCH:
            return None
        epoch, end_offset = self.log.end_offset_for_epoch(last_fetched_epoch)
        if epoch < last_fetched_epoch or end_offset < fetch_offset:
            return EpochEndOffset(epoch=epoch, end_offset=end_offset)
        return None

    # The end

    def close(self, error: ErrorCode = ErrorCode.NOT_LEADER_OR_FOLLOWER) -> None:
        """Sends everyone who waits here away, to ask again elsewhere."""
        self.closed = True
        if self._flush_timer is not None:
            self._flush_timer.cancel()
        self._fail_waiters(error)
        for wait in tuple(self.fetch_waits):
            wait.finish()


def fetch_failed(partition_index: int, error: ErrorCode) -> PartitionData:
    return PartitionData(
        partition_index=partition_index,
        error_code=error,
        high_watermark=-1,
        last_stable_offset=-1,
        log_start_offset=-1,
        records=b"",
    )

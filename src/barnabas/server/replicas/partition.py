"""One partition on this broker: its log, who leads it, and who waits for it.

    leads, alone          the watermark is the end of the log: what is appended is committed
    leads, with others    `_leader` (replication.leader) knows how far the others are, hence the watermark
    follows               `fetcher` appends what the leader has, and tells the leader's watermark

Always holds: the high watermark never falls, and nothing above it is shown to consumers. `_waiters` is in offset
order, because appends are; a rise of the watermark therefore pops from its left. An idle partition has no timer and
no task. Who is in sync changes by the controller's word only, as an answer or by the metadata log, whichever is first.

Where `flush.messages` asks for a sync, records are acknowledged and shown only once they are on the platter: the
watermark then follows the sync, and one sync serves all that was appended before it began. `flush.ms`, and segments
that were finished, are synced in the background. After a failed sync nobody knows what the disk holds: the partition
takes no more writes until a restart has recovered it, and the broker is told that its disk has failed. So it is where
others could lead and this broker cannot write, be it for want of space.
"""

from __future__ import annotations

import asyncio
import errno
import logging
from collections import deque
from collections.abc import Callable
from typing import Protocol

from barnabas.config.topic import TopicConfig
from barnabas.config.validation import LONG_MAX
from barnabas.errors import ErrorCode
from barnabas.log.append import AppendInfo, AppendOrigin
from barnabas.log.file_range import FileRange
from barnabas.log.inspection import Inspected
from barnabas.log.log import Log
from barnabas.log.transaction_index import CorruptTransactionIndex
from barnabas.metadata import topic_names
from barnabas.metadata.image import PartitionImage
from barnabas.protocol.messages.fetch import AbortedTransaction, PartitionData
from barnabas.protocol.special_numbers import ACKS_ALL, READ_COMMITTED
from barnabas.replication.leader import LeaderState, Progress
from barnabas.runtime.exclusive import ExclusiveCalls
from barnabas.runtime.interfaces import Runtime, Timer
from barnabas.server.replicas.commit_wait import Commit
from barnabas.server.replicas.fetch_answers import fetch_failed
from barnabas.server.replicas.fetch_wait import FetchWait
from barnabas.server.replicas.verification import Verifications
from barnabas.server.replicas.waiters import Waiters
from barnabas.server.supervisor import OnFailure, Supervisor, is_running
from barnabas.types import NO_LEADER, NO_LEADER_EPOCH, BrokerId, LeaderEpoch, Offset, TopicPartition, Uuid

logger = logging.getLogger(__name__)

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)  # there is no room: that may change
NEVER = LONG_MAX  # what flush.messages and flush.ms are by default


class Watcher(Protocol):
    """A follower's place in its fetch session: told of all that it may have to hear about."""

    def grown(self, size_bytes: int) -> None: ...

    def changed(self) -> None:
        """The watermark, the start of the log, or the leader."""


class Cluster(Protocol):
    """What a partition has to know of the other brokers, and to ask of the controller."""

    node_id: BrokerId

    @property
    def lag_ms_max(self) -> float: ...

    def is_eligible(self, broker_id: BrokerId, broker_epoch: int) -> bool:
        """Whether the controller would take this incarnation of a broker into the in-sync replicas."""

    @property
    def holds_lease(self) -> bool: ...  # whether this broker may act as a leader

    def is_alive(self, broker_id: BrokerId) -> bool: ...

    def truncated(self, partition: Partition) -> None:
        """Its log has lost its end: what is written down about that must go at once."""

    def storage_failed(self, partition: Partition, error: OSError) -> None:
        """The disk under the partition does not work, or is full where other brokers have room."""

    def ask_in_sync(self, partition: Partition) -> None:
        """Asks for `partition.in_sync_wanted`; the answer comes by `in_sync_answered` or by the metadata log."""


class Partition:
    def __init__(
        self,
        *,
        name: TopicPartition,
        topic_id: Uuid,
        log: Log,
        high_watermark: Offset,
        cluster: Cluster,
        runtime: Runtime,
        supervisor: Supervisor,
    ) -> None:
        self.name = name
        self.topic_id = topic_id
        self.is_internal = topic_names.is_internal(name.topic)  # only coordinators write here
        self.log = log
        log.high_watermark = high_watermark  # as it was last written down
        self.is_leader = False
        self.leader_id = NO_LEADER
        self.leader_epoch: LeaderEpoch = NO_LEADER_EPOCH
        self.partition_epoch = -1
        self.replicas: tuple[BrokerId, ...] = ()
        self.in_sync: tuple[BrokerId, ...] = ()
        self.fetch_waits: dict[FetchWait, None] = {}  # of consumers; a dict for its order
        self.watchers: dict[Watcher, None] = {}  # followers, wherever they are in their sessions
        self.verifications = Verifications()  # of transactions that are about to begin here
        self._leader: LeaderState | None = None  # while this broker leads and is not the only replica
        self._uncommitted: deque[tuple[Offset, int]] = deque()  # end offset and size of appends above the watermark
        self._waiters = Waiters(is_ordered=True)
        self._sync_waiters = Waiters(is_ordered=True)  # who waits for this broker's disk alone
        self._deletion_waiters = Waiters(is_ordered=False)  # who waits for the other replicas to begin at an offset
        self._cluster = cluster
        self._clock = runtime.clock
        self._runtime = runtime
        self._supervisor = supervisor
        self.is_leader_throttled = False  # what this broker gives, while who takes it is not in sync
        self.is_follower_throttled = False  # what this broker takes, while it is not in sync
        self.closed = False
        self._broken = False  # a sync has failed
        self._sync_task: asyncio.Task[None] | None = None  # while the watermark follows syncs
        self._flush_timer: Timer | None = None  # from the first unsynced append until the end of its flush
        self._flush_task: asyncio.Task[None] | None = None
        self._flushes = ExclusiveCalls()

    @property
    def config(self) -> TopicConfig:
        return self.log.config

    # Who leads

    def apply(self, state: PartitionImage) -> None:
        """What the controller has decided about this partition."""
        is_same_epoch = state.leader_epoch == self.leader_epoch
        if is_same_epoch and state.partition_epoch < self.partition_epoch:
            return  # the controller's own answer was faster
        is_confirmed = is_same_epoch and state.partition_epoch == self.partition_epoch  # likewise
        leader = self._leader if is_same_epoch else None
        self.leader_id = state.leader
        self.leader_epoch = state.leader_epoch
        self.partition_epoch = state.partition_epoch
        self.replicas, self.in_sync = state.replicas, state.isr
        self.log.led_epoch = state.leader_epoch if state.replicas == (self._cluster.node_id,) else NO_LEADER_EPOCH
        if state.leader != self._cluster.node_id:
            self._cease_to_lead()
        elif len(state.replicas) == 1:
            self.is_leader, self._leader = True, None
            self._uncommitted.clear()
            if self.sync_due:
                self._commit_by_sync()  # a recovery may have found what nobody had synced
            else:
                self._advance(self.log.log_end_offset, 1)  # what the only replica has is committed
        elif leader is None:
            self._begin_to_lead()
        else:
            self.reconfigured()
            if not is_confirmed:
                self._take(leader.confirmed(self.in_sync))

    def _begin_to_lead(self) -> None:
        log = self.log
        log.assign_leader_epoch(self.leader_epoch, log.log_end_offset)
        self.is_leader = True
        is_unsynced = self.sync_due  # a recovery may have found what nobody had synced
        self._leader = LeaderState(
            leader_id=self._cluster.node_id,
            leader_epoch=self.leader_epoch,
            replicas=self.replicas,
            in_sync=self.in_sync,
            end_offset=log.log_end_offset,
            stored_offset=log.high_watermark if is_unsynced else log.log_end_offset,
            high_watermark=log.high_watermark,
            lag_ms_max=self._cluster.lag_ms_max,
            now_ms=self._clock.monotonic_ms(),
            min_in_sync=self._min_in_sync(),
            is_eligible=self._cluster.is_eligible,
        )
        self._take(self._leader.confirmed(self.in_sync))
        if is_unsynced:
            self._commit_by_sync()
        self._tell_all()

    def _cease_to_lead(self) -> None:
        self.is_leader, self._leader = False, None
        self.verifications.clear()
        self._uncommitted.clear()
        self._fail_waiters(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        self._tell_all()

    def _tell_all(self) -> None:
        for wait in tuple(self.fetch_waits):
            wait.finish()
        self._tell_watchers()

    def _tell_watchers(self) -> None:
        for watcher in tuple(self.watchers):
            watcher.changed()

    def epoch_error(self, current_leader_epoch: LeaderEpoch) -> ErrorCode:
        """What a client that believes in some leader epoch must be told (KIP-320)."""
        if current_leader_epoch == NO_LEADER_EPOCH or current_leader_epoch == self.leader_epoch:
            return ErrorCode.NONE
        if current_leader_epoch < self.leader_epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        return ErrorCode.UNKNOWN_LEADER_EPOCH

    def leader_error(self, current_leader_epoch: LeaderEpoch) -> ErrorCode:
        """As `epoch_error`, for what only the leader may answer, and only while it has its lease."""
        error = self.epoch_error(current_leader_epoch)
        is_other = error == ErrorCode.NONE and not (self.is_leader and self._cluster.holds_lease)
        return ErrorCode.NOT_LEADER_OR_FOLLOWER if is_other else error

    # Who is in sync

    @property
    def in_sync_wanted(self) -> tuple[BrokerId, ...] | None:
        """What is asked of the controller and not answered yet."""
        return None if self._leader is None else self._leader.in_sync_wanted

    def broker_epoch_of(self, replica: BrokerId) -> int:
        """Of the incarnation whose fetches count here."""
        assert self._leader is not None
        return self._leader.broker_epoch_of(replica)

    @property
    def knows_watermark(self) -> bool:
        """A new leader's watermark may be behind what its predecessor has shown, until the followers have asked."""
        return self._leader is None or self.log.high_watermark >= self._leader.epoch_start_offset

    def replicas_with(self, offset: Offset) -> list[tuple[Offset, BrokerId]]:
        """Followers in sync whose logs have the offset, as far as they have told: how far each is, and who."""
        leader = self._leader
        if leader is None:
            return []
        followers = [(replica, leader.range_of(replica)) for replica in leader.in_sync if replica != leader.leader_id]
        return [(end, replica) for replica, (start, end) in followers if 0 <= start <= offset <= end]

    @property
    def has_followers(self) -> bool:
        return self._leader is not None

    def replica_fetched(
        self, replica: BrokerId, broker_epoch: int, offset: Offset, log_start_offset: Offset
    ) -> ErrorCode:
        """A follower, whose log is known to agree with this one so far, asks for what follows `offset`."""
        leader = self._leader
        progress = None
        if leader is not None:
            now_ms = self._clock.monotonic_ms()
            progress = leader.fetched(replica, offset, now_ms, broker_epoch, log_start_offset)
        if progress is None:
            return ErrorCode.UNKNOWN_LEADER_EPOCH  # one of the two does not know the newest metadata
        self._take(progress)
        if self._deletion_waiters:
            self._deletion_waiters.reached(self.low_watermark)
        return ErrorCode.NONE

    def sweep_in_sync(self) -> None:
        """Who is too slow goes, who caught up comes in: now and then, and when a broker comes or goes."""
        leader = self._leader
        if leader is not None:
            if self._deletion_waiters:
                self._deletion_waiters.reached(self.low_watermark)
            if leader.in_sync_wanted is not None:
                self._cluster.ask_in_sync(self)  # again, where an answer got lost
            self._take(leader.tick(self._clock.monotonic_ms()))

    def in_sync_answered(
        self, *, leader_epoch: LeaderEpoch, partition_epoch: int, in_sync: tuple[BrokerId, ...]
    ) -> None:
        """The controller has written down what was asked of it, or something newer."""
        leader = self._leader
        if leader is not None and leader_epoch == self.leader_epoch and partition_epoch > self.partition_epoch:
            self.partition_epoch = partition_epoch
            self.in_sync = in_sync
            self._take(leader.confirmed(self.in_sync))

    def in_sync_refused(self) -> None:
        """The controller has changed nothing, and will not by itself."""
        if self._leader is not None:
            self._take(self._leader.refused())

    def reconfigured(self) -> None:
        """The replicas or the settings have changed. What is asked of the controller stays asked."""
        if self._leader is not None:
            self._take(self._leader.reconfigured(self.replicas, self._min_in_sync(), self._cluster.lag_ms_max))

    def _min_in_sync(self) -> int:
        """A topic with fewer replicas than it asks for in sync is written to all the same, as Kafka does."""
        return min(self.config.min_insync_replicas, len(self.replicas))

    def _take(self, progress: Progress) -> None:
        if progress.in_sync_wanted is not None:
            self._cluster.ask_in_sync(self)
        if progress.high_watermark > self.log.high_watermark:
            size_bytes = 0
            uncommitted = self._uncommitted
            while uncommitted and uncommitted[0][0] <= progress.high_watermark:
                size_bytes += uncommitted.popleft()[1]
            self._advance(progress.high_watermark, size_bytes)

    # Writing

    def append(
        self,
        records: memoryview,
        acks: int,
        origin: AppendOrigin = AppendOrigin.CLIENT,
        inspected: Inspected | AppendInfo | None = None,
        defers: bool = False,
    ) -> AppendInfo:
        leader = self._leader
        if not self.is_leader or (origin is AppendOrigin.CLIENT and not self._cluster.holds_lease):
            return AppendInfo.failed(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        if leader is not None and acks == ACKS_ALL and len(leader.in_sync) < leader.min_in_sync:
            self.log.refused(records)
            return AppendInfo.failed(ErrorCode.NOT_ENOUGH_REPLICAS)
        if self._broken:
            return AppendInfo.failed(ErrorCode.KAFKA_STORAGE_ERROR)
        log = self.log
        try:
            info = log.append_as_leader(records, self.leader_epoch, self._clock.now_ms(), origin, inspected, defers)
        except OSError as error:
            logger.error("%s: cannot append, the producer is told KAFKA_STORAGE_ERROR: %s", self.name, error)
            log.refused(records)
            if error.errno not in FULL or len(self.in_sync) > 1:
                self._storage_failed(error)
            return AppendInfo.failed(ErrorCode.KAFKA_STORAGE_ERROR)
        if not info.error and not info.duplicate:
            size_bytes = len(records)
            if leader is not None:
                self._uncommitted.append((info.end_offset, size_bytes))
                for watcher in self.watchers:
                    watcher.grown(size_bytes)
            if log.config.flush_messages != NEVER and log.flush_due():
                self._commit_by_sync()
            elif not is_running(self._sync_task):
                if leader is None:
                    self._advance(info.end_offset, size_bytes)
                else:
                    self._stored(info.end_offset, size_bytes)
            if self._flush_timer is None:
                self._flush_when_due()
        return info

    def append_from_leader(self, records: memoryview) -> AppendInfo:
        """As a follower. OSError where the disk fails."""
        info = self.log.append_as_follower(records, self._clock.now_ms())
        if self._flush_timer is None:
            self._flush_when_due()
        return info

    def follow_failed(self, error: OSError) -> None:
        """A disk that is full only makes a follower fall behind, until there is room again."""
        if error.errno not in FULL or self.log.is_offline:
            self._storage_failed(error)

    def learn_offsets(self, high_watermark: Offset, log_start_offset: Offset) -> bool:
        """As a follower, from its leader. Whether the leader should hear of where the log begins now."""
        log = self.log
        before = log.high_watermark
        log.high_watermark = high_watermark
        moved = log_start_offset > log.log_start_offset and not log.delete_records_before(log_start_offset)
        if log.high_watermark > before and self.fetch_waits:
            self._wake(log.high_watermark - before)
        return moved

    # Deleting

    def delete_records(self, before_offset: Offset) -> ErrorCode:
        """As the leader: nothing before the offset is shown any more. Followers hear of it soon."""
        error = self.log.delete_records_before(before_offset)
        if error == ErrorCode.NONE:
            self._tell_watchers()
        return error

    @property
    def low_watermark(self) -> Offset:
        """Where the log begins at all live replicas."""
        leader, start = self._leader, self.log.log_start_offset
        return start if leader is None else leader.low_watermark(start, self._cluster.is_alive)

    def deleted(self, before_offset: Offset) -> Commit | None:
        """None where the low watermark has reached the offset already, else a future of that moment."""
        return None if self.low_watermark >= before_offset else self._deletion_waiters.wait_for(before_offset)

    def delete_old_segments(self, now_ms: int) -> None:
        log_start_offset = self.log.log_start_offset
        self.log.delete_old_segments(now_ms)
        if self.log.log_start_offset != log_start_offset:
            self._tell_watchers()

    def committed(self, end_offset: Offset) -> Commit | None:
        """None where everything before `end_offset` is committed already, else a future of that moment."""
        return None if end_offset <= self.log.high_watermark else self._waiters.wait_for(end_offset)

    def acknowledged(self, end_offset: Offset, acks: int) -> Commit | None:
        """As `committed`; without acks=all, what counts is this broker alone."""
        if acks == ACKS_ALL or self._leader is None:
            return self.committed(end_offset)
        return self._sync_waiters.wait_for(end_offset) if is_running(self._sync_task) else None

    def _stored(self, end_offset: Offset, size_bytes: int) -> None:
        """This broker holds everything before `end_offset` as safely as the topic asks for."""
        leader = self._leader
        if leader is not None:
            self._take(leader.appended(max(end_offset, leader.end_offset), self._clock.monotonic_ms()))
        elif self.is_leader:
            self._advance(end_offset, size_bytes)

    def _advance(self, high_watermark: Offset, size_bytes: int) -> None:
        self.log.high_watermark = high_watermark
        if self._waiters:
            self._waiters.reached(high_watermark)
        for watcher in self.watchers:
            watcher.changed()
        if self.fetch_waits:
            self._wake(size_bytes)

    def _wake(self, size_bytes: int) -> None:
        for wait in tuple(self.fetch_waits):
            wait.appended(size_bytes)

    # Syncing

    def _commit_by_sync(self) -> None:
        if not is_running(self._sync_task):
            self._sync_task = self._supervisor.start(f"syncing {self.name}", self._sync_and_advance, OnFailure.RETRY)

    async def _sync_and_advance(self) -> None:
        """Group commit: each round takes along all that was appended while the one before it ran."""
        log = self.log
        synced = -1
        while not self.closed and self.is_leader and synced < log.log_end_offset:
            leader_epoch = self.leader_epoch
            end_offset = log.log_end_offset
            if not await self._sync(log.flush):
                self._fail_waiters(ErrorCode.KAFKA_STORAGE_ERROR)
                break
            if leader_epoch == self.leader_epoch:
                synced = end_offset
                self._stored(end_offset, 1)
                self._sync_waiters.reached(end_offset)

    async def sync(self) -> bool:
        """Before a leader counts on a follower, where `flush.messages` asks for it; and around a compaction."""
        return await self._sync(self.log.flush)

    def truncated(self) -> None:
        self._cluster.truncated(self)

    def compaction_failed(self, error: OSError) -> None:
        """Half way through a swap only a recovery can tell what there is; before it the log is what it was."""
        if self.log.is_offline and not self.closed:
            self._storage_failed(error)

    @property
    def sync_due(self) -> bool:
        return self.config.flush_messages != NEVER and self.log.flush_due()

    def _flush_when_due(self) -> None:
        log = self.log
        if log.has_unsynced_segments or log.config.flush_ms != NEVER:
            delay_ms = 0 if log.has_unsynced_segments else log.config.flush_ms
            self._flush_timer = self._clock.call_later(delay_ms, self._flush_in_background)

    def _flush_in_background(self) -> None:
        self._flush_task = self._supervisor.start(f"flushing {self.name}", self._flush, OnFailure.RETRY)

    async def _flush(self) -> None:
        log = self.log
        if not self.closed:
            await self._sync(log.flush_finished if log.config.flush_ms == NEVER else log.flush)
        self._flush_timer = None

    async def _sync(self, flush: Callable[[], None]) -> bool:
        """One flush of the log at a time. A flush goes on when its caller is cancelled; the next one waits for it."""
        try:
            await self._flushes.run(self._runtime.offload, flush)
        except OSError as error:
            if self.closed:
                return False  # it was deleted meanwhile: what is gone need not be synced
            logger.error("%s: cannot sync; it takes no more writes until a restart: %s", self.name, error)
            self._storage_failed(error)
        return not self._broken

    def _storage_failed(self, error: OSError) -> None:
        self._broken = True
        self._cluster.storage_failed(self, error)

    def _fail_waiters(self, error: ErrorCode) -> None:
        for waiters in (self._waiters, self._sync_waiters, self._deletion_waiters):
            waiters.fail(error)

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
                found = log.read(fetch_offset, size_bytes_max, end_offset, at_least_one)
                if found is not None:
                    data.records = found
                    if committed_only:
                        data.aborted_transactions = self._aborted(fetch_offset, found)
            except (OSError, CorruptTransactionIndex) as error:
                advice = "; a restart rebuilds it" if isinstance(error, CorruptTransactionIndex) else ""
                logger.error("%s: cannot read offset %d: %s%s", self.name, fetch_offset, error, advice)
                return self.fetch_failed(ErrorCode.KAFKA_STORAGE_ERROR)
        return data

    def _aborted(self, fetch_offset: Offset, found: FileRange) -> list[AbortedTransaction]:
        return [
            AbortedTransaction(producer_id=each.producer_id, first_offset=each.first_offset)
            for each in self.log.aborted_transactions(fetch_offset, found)
        ]

    def fetch_as_replica(self, *, fetch_offset: Offset, size_bytes_max: int, at_least_one: bool) -> PartitionData:
        """For a follower: everything up to the end of the log."""
        log = self.log
        if not log.log_start_offset <= fetch_offset <= log.log_end_offset:
            data = self.fetch_failed(ErrorCode.OFFSET_OUT_OF_RANGE)
            data.log_start_offset = log.log_start_offset  # where it has to begin instead
            return data
        data = PartitionData(
            partition_index=self.name.partition,
            high_watermark=log.high_watermark,
            last_stable_offset=log.last_stable_offset,
            log_start_offset=log.log_start_offset,
            records=b"",
        )
        if fetch_offset < log.log_end_offset and (size_bytes_max > 0 or at_least_one):
            try:
                data.records = log.read(fetch_offset, size_bytes_max, log.log_end_offset, at_least_one) or b""
            except OSError as error:
                logger.error("%s: cannot read offset %d: %s", self.name, fetch_offset, error)
                return self.fetch_failed(ErrorCode.KAFKA_STORAGE_ERROR)
        return data

    def fetch_failed(self, error: ErrorCode) -> PartitionData:
        return fetch_failed(self.name.partition, error)

    # The end

    def close(self, error: ErrorCode = ErrorCode.NOT_LEADER_OR_FOLLOWER) -> None:
        """Sends everyone who waits here away, to ask again elsewhere."""
        self.closed = True
        if self._flush_timer is not None:
            self._flush_timer.cancel()
        self.is_leader = False
        self._leader = None
        self._fail_waiters(error)
        self._tell_all()

"""The leader's view of one partition: how far each replica is, and which are in sync.

Holds: the high watermark never falls; it is the least end offset among the replicas that are, or may be, in sync. «May
be»: while a change of the set is asked of the controller, both the old and the new set count, for nobody here knows
which of the two another leader would be elected from.
Does not know: bytes, files, sockets, time. It is told offsets and moments, and answers with Progress.
"""

from collections.abc import Iterable
from typing import NamedTuple

from barnabas.types import BrokerId, LeaderEpoch, Offset


class Progress(NamedTuple):
    high_watermark: Offset
    in_sync_wanted: tuple[BrokerId, ...] | None = None  # None: nothing to ask of the controller


class ReplicaProgress:
    __slots__ = ("caught_up_ms", "end_offset", "fetch_ms", "leader_end_offset")

    def __init__(self, now_ms: float) -> None:
        self.end_offset: Offset = -1  # unknown until it fetches from this leader
        self.caught_up_ms = now_ms  # the last moment at which it had all that there was
        self.fetch_ms = now_ms  # of its last fetch,
        self.leader_end_offset: Offset = -1  # and where the log ended then


class LeaderState:
    def __init__(
        self,
        *,
        leader_id: BrokerId,
        leader_epoch: LeaderEpoch,
        replicas: Iterable[BrokerId],
        in_sync: Iterable[BrokerId],
        end_offset: Offset,
        high_watermark: Offset,
        lag_ms_max: float,
        now_ms: float,
    ) -> None:
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch
        self.epoch_start_offset = end_offset  # a follower below it may hold what this leader does not
        self.in_sync = tuple(sorted(in_sync))  # as the controller has confirmed it; never empty
        self.in_sync_wanted: tuple[BrokerId, ...] | None = None  # asked of the controller, not answered yet
        self.high_watermark = high_watermark
        self.end_offset = end_offset
        self.lag_ms_max = lag_ms_max
        self._replicas = {replica: ReplicaProgress(now_ms) for replica in sorted(replicas) if replica != leader_id}
        assert leader_id in self.in_sync

    def appended(self, end_offset: Offset) -> Progress:
        assert end_offset >= self.end_offset
        self.end_offset = end_offset
        return self._progress()

    def fetched(self, replica: BrokerId, offset: Offset, now_ms: float) -> Progress | None:
        """A follower asks for what follows `offset`, hence holds all before it. None: it is no replica of this one."""
        progress = self._replicas.get(replica)
        if progress is None:
            return None
        if offset >= self.end_offset:
            progress.caught_up_ms = now_ms
        elif offset >= progress.leader_end_offset >= 0:
            progress.caught_up_ms = progress.fetch_ms  # it had all that there was when it last asked
        progress.end_offset = offset
        progress.fetch_ms = now_ms
        progress.leader_end_offset = self.end_offset
        if self.in_sync_wanted is None and replica not in self.in_sync and self._may_join(progress):
            return self._ask((*self.in_sync, replica))
        return self._progress()

    def _may_join(self, progress: ReplicaProgress) -> bool:
        return progress.end_offset >= max(self.high_watermark, self.epoch_start_offset)

    def tick(self, now_ms: float) -> Progress:
        """Whoever has not caught up for too long is not in sync any more, if the controller agrees."""
        if self.in_sync_wanted is not None:
            return self._progress()
        remaining = tuple(replica for replica in self.in_sync if not self._lags(replica, now_ms))
        return self._progress() if remaining == self.in_sync else self._ask(remaining)

    def next_deadline_ms(self) -> float | None:
        """When the slowest replica falls out of sync; None where nobody can."""
        if self.in_sync_wanted is not None:
            return None
        followers = [self._replicas[replica] for replica in self.in_sync if replica in self._replicas]
        lagging = [each.caught_up_ms for each in followers if each.end_offset < self.end_offset]
        return min(lagging) + self.lag_ms_max if lagging else None

    def _lags(self, replica: BrokerId, now_ms: float) -> bool:
        progress = self._replicas.get(replica)
        if progress is None or progress.end_offset >= self.end_offset:
            return False  # the leader itself, or one that has everything
        return now_ms - progress.caught_up_ms >= self.lag_ms_max

    def _ask(self, in_sync: tuple[BrokerId, ...]) -> Progress:
        self.in_sync_wanted = tuple(sorted(in_sync))
        return Progress(self._advance(), self.in_sync_wanted)

    def confirmed(self, in_sync: Iterable[BrokerId]) -> Progress:
        """The controller's word, as answer or by the metadata log: this set, and no other, is in sync."""
        self.in_sync = tuple(sorted(in_sync))
        self.in_sync_wanted = None
        assert self.leader_id in self.in_sync
        return self._progress()

    def refused(self) -> Progress:
        """The controller did not change anything: what was asked may be asked again later."""
        self.in_sync_wanted = None
        return self._progress()

    def replicas_changed(self, replicas: Iterable[BrokerId], now_ms: float) -> None:
        """A reassignment adds and removes replicas; what is known of the others stays."""
        self._replicas = {
            replica: self._replicas.get(replica) or ReplicaProgress(now_ms)
            for replica in sorted(replicas)
            if replica != self.leader_id
        }

    def end_offset_of(self, replica: BrokerId) -> Offset:
        if replica == self.leader_id:
            return self.end_offset
        progress = self._replicas.get(replica)
        return -1 if progress is None else progress.end_offset

    def _progress(self) -> Progress:
        return Progress(self._advance())

    def _advance(self) -> Offset:
        counted = {*self.in_sync, *(self.in_sync_wanted or ())}
        least = min(self.end_offset_of(replica) for replica in counted)
        self.high_watermark = max(self.high_watermark, least)
        return self.high_watermark

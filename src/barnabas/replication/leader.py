"""The leader's view of one partition: how far each replica is, and which are in sync.

Holds: the high watermark never falls; it is the least end offset among the replicas that are, or may be, in sync. «May
be»: while a change of the set is asked of the controller, both the old and the new set count, for nobody here knows
which of the two another leader would be elected from. A replica that has caught up and is about to join counts too:
otherwise a busy leader would always be one append ahead of it. Fewer in sync than `min_in_sync` commit nothing: who is
elected after them need not have what they had (KIP-966).
Does not know: bytes, files, sockets, time. It is told offsets and moments, and answers with Progress.
"""

from collections.abc import Callable, Iterable
from math import inf
from typing import NamedTuple

from barnabas.types import BrokerId, LeaderEpoch, Offset

ANY_BROKER_EPOCH = -1  # not known


class Progress(NamedTuple):
    high_watermark: Offset
    in_sync_wanted: tuple[BrokerId, ...] | None = None  # None: nothing to ask of the controller


class ReplicaProgress:
    __slots__ = ("broker_epoch", "caught_up_ms", "end_offset", "fetch_ms", "leader_end_offset", "log_start_offset")

    def __init__(self, caught_up_ms: float) -> None:
        self.end_offset: Offset = -1  # unknown until it fetches from this leader
        self.log_start_offset: Offset = -1  # likewise
        self.broker_epoch = ANY_BROKER_EPOCH  # of the incarnation that fetched
        self.caught_up_ms = caught_up_ms  # the last moment at which it had all that there was
        self.fetch_ms = caught_up_ms  # of its last fetch,
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
        stored_offset: Offset | None = None,
        min_in_sync: int = 1,
        is_eligible: Callable[[BrokerId, int], bool] = lambda _broker, _epoch: True,
    ) -> None:
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch
        self.epoch_start_offset = end_offset  # a follower below it may hold what this leader does not
        self.in_sync = tuple(sorted(in_sync))  # as the controller has confirmed it; never empty
        self.in_sync_wanted: tuple[BrokerId, ...] | None = None  # asked of the controller, not answered yet
        self.high_watermark = high_watermark
        # Of what the leader holds as safely as the topic asks for; its log may be longer until that is synced.
        self.end_offset = end_offset if stored_offset is None else stored_offset
        self.lag_ms_max = lag_ms_max
        self.min_in_sync = min_in_sync  # no more than there are replicas
        self._is_eligible = is_eligible  # whether the controller would take this incarnation of a broker
        self._counted = frozenset(self.in_sync)  # in_sync and in_sync_wanted
        self._now_ms = now_ms  # the last moment that was told
        self._replicas = {
            replica: ReplicaProgress(now_ms if replica in self._counted else -inf)
            for replica in sorted(replicas)
            if replica != leader_id
        }
        assert leader_id in self.in_sync

    def appended(self, end_offset: Offset, now_ms: float) -> Progress:
        assert end_offset >= self.end_offset
        for progress in self._replicas.values():
            if progress.end_offset == self.end_offset and progress.caught_up_ms < now_ms:
                progress.caught_up_ms = now_ms  # until now it had everything
        self.end_offset = end_offset
        self._now_ms = now_ms
        return self._progress()

    def fetched(
        self,
        replica: BrokerId,
        offset: Offset,
        now_ms: float,
        broker_epoch: int = ANY_BROKER_EPOCH,
        log_start_offset: Offset = -1,
    ) -> Progress | None:
        """A follower asks for what follows `offset`, hence holds all before it. None: it is no replica of this one."""
        progress = self._replicas.get(replica)
        if progress is None or broker_epoch < progress.broker_epoch:
            return None  # or an incarnation that has ended
        if offset >= self.end_offset:
            progress.caught_up_ms = now_ms
        elif offset >= progress.leader_end_offset >= 0:
            # All that there was when it last asked.
            progress.caught_up_ms = max(progress.caught_up_ms, progress.fetch_ms)
        progress.end_offset = offset
        progress.log_start_offset = log_start_offset
        progress.broker_epoch = broker_epoch
        progress.fetch_ms = now_ms
        progress.leader_end_offset = self.end_offset
        self._now_ms = now_ms
        if self.in_sync_wanted is None and replica not in self.in_sync and self._may_join(replica, progress):
            return self._ask((*self.in_sync, *dict.fromkeys((replica, *self._joining()))))
        return self._progress()

    def _joining(self) -> list[BrokerId]:
        """Those that could be in sync though they do not ask right now: what they said last is not too old for that."""
        return [
            replica
            for replica, progress in self._replicas.items()
            if replica not in self.in_sync
            and not self._lags(replica, self._now_ms)
            and self._may_join(replica, progress)
        ]

    def _may_join(self, replica: BrokerId, progress: ReplicaProgress) -> bool:
        return progress.end_offset >= max(self.high_watermark, self.epoch_start_offset) and self._is_eligible(
            replica, progress.broker_epoch
        )

    def tick(self, now_ms: float) -> Progress:
        """Whoever has not caught up for too long is not in sync any more, if the controller agrees; and whoever could
        be and was not let in so far, is asked for again."""
        self._now_ms = now_ms
        if self.in_sync_wanted is not None:
            return self._progress()
        wanted = [replica for replica in self.in_sync if not self._lags(replica, now_ms)] + self._joining()
        return self._progress() if tuple(sorted(wanted)) == self.in_sync else self._ask(tuple(wanted))

    def _lags(self, replica: BrokerId, now_ms: float) -> bool:
        progress = self._replicas.get(replica)
        if progress is None or progress.end_offset >= self.end_offset:
            return False  # the leader itself, or one that has everything
        return now_ms - progress.caught_up_ms >= self.lag_ms_max

    def _ask(self, in_sync: tuple[BrokerId, ...]) -> Progress:
        self.in_sync_wanted = tuple(sorted(in_sync))
        self._counted = frozenset((*self.in_sync, *self.in_sync_wanted))
        return Progress(self._advance(), self.in_sync_wanted)

    def confirmed(self, in_sync: Iterable[BrokerId]) -> Progress:
        """The controller's word, as answer or by the metadata log: this set, and no other, is in sync."""
        self.in_sync = tuple(sorted(in_sync))
        assert self.leader_id in self.in_sync
        progress = self.refused()
        # Whoever caught up while this was asked may be idle, and would not show up again.
        joining = self._joining()
        return self._ask((*self.in_sync, *joining)) if joining else progress

    def refused(self) -> Progress:
        """The controller did not change anything: what was asked may be asked again later."""
        self.in_sync_wanted = None
        self._counted = frozenset(self.in_sync)
        return self._progress()

    def reconfigured(self, replicas: Iterable[BrokerId], min_in_sync: int, lag_ms_max: float) -> Progress:
        """A reassignment adds and removes replicas, a setting moves a limit; what else is known stays."""
        self.min_in_sync = min_in_sync
        self.lag_ms_max = lag_ms_max
        self._replicas = {
            replica: self._replicas.get(replica) or ReplicaProgress(-inf)
            for replica in sorted(replicas)
            if replica != self.leader_id
        }
        return self._progress()

    def range_of(self, replica: BrokerId) -> tuple[Offset, Offset]:
        """From where to where a follower's log goes; -1 is not known."""
        progress = self._replicas.get(replica)
        return (-1, -1) if progress is None else (progress.log_start_offset, progress.end_offset)

    def low_watermark(self, log_start_offset: Offset, is_alive: Callable[[BrokerId], bool]) -> Offset:
        """The offset before which no live replica, nor this leader, shows anything; -1 where one has not said yet."""
        starts = [each.log_start_offset for replica, each in self._replicas.items() if is_alive(replica)]
        return min((log_start_offset, *starts))

    def broker_epoch_of(self, replica: BrokerId) -> int:
        progress = self._replicas.get(replica)
        return ANY_BROKER_EPOCH if progress is None else progress.broker_epoch

    def _progress(self) -> Progress:
        return Progress(self._advance())

    def _advance(self) -> Offset:
        if len(self.in_sync) < self.min_in_sync:
            return self.high_watermark
        least = self.end_offset
        for replica, progress in self._replicas.items():
            if progress.end_offset < least and (replica in self._counted or self._is_joining(replica, progress)):
                least = progress.end_offset
        if least > self.high_watermark:
            self.high_watermark = least
        return self.high_watermark

    def _is_joining(self, replica: BrokerId, progress: ReplicaProgress) -> bool:
        return self._now_ms - progress.caught_up_ms < self.lag_ms_max and self._is_eligible(
            replica, progress.broker_epoch
        )

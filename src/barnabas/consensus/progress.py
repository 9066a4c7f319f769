"""The leader's view of the others: how far each has come, and when it was last heard of.

Holds: the high watermark never falls, and rises only to what a majority of voters holds. A leader counts nothing of
earlier epochs as committed before something of its own is: else a record could be committed and yet lost (Raft, 5.4.2).
Does not know: records, sockets, time. It is told offsets and moments.
"""

from math import inf
from typing import NamedTuple

from barnabas.consensus.voters import ReplicaKey, VoterSet
from barnabas.types import BrokerId, Offset

OBSERVER_SESSION_MS = 300_000  # an observer that has been silent for longer is not described any more
OBSERVERS_MAX = 1_000  # anybody who reaches the port may fetch in any name; beyond that the longest silent is forgotten


class ReplicaProgress(NamedTuple):
    key: ReplicaKey
    end_offset: Offset = -1  # -1: has not fetched in this epoch
    fetch_ms: float = -1  # when it last fetched
    caught_up_ms: float = -1  # when it last had everything that there was


class LeaderProgress:
    def __init__(self, *, leader: ReplicaKey, voters: VoterSet, epoch_start_offset: Offset, now_ms: float) -> None:
        self._leader = leader
        self._voters = voters
        self._epoch_start_offset = epoch_start_offset
        self._since_ms = now_ms
        self.high_watermark: Offset = -1  # unknown until a majority has fetched in this epoch
        self._replicas: dict[BrokerId, ReplicaProgress] = {}  # voters and observers that have fetched
        self._gone: dict[BrokerId, None] = {}  # known to be dead, until they fetch again

    @property
    def voters(self) -> VoterSet:
        return self._voters

    def replace_voters(self, voters: VoterSet) -> bool:
        """Counts from the moment in which it stands in the log, committed or not (KIP-853).

        Whether the high watermark has risen: without a slow voter, more may be held by a majority.
        """
        self._voters = voters
        return self._advance()

    def synced(self, end_offset: Offset, now_ms: float) -> bool:
        """The leader's own log is on the platter up to here. Whether the high watermark has risen."""
        self._replicas[self._leader.id] = ReplicaProgress(self._leader, end_offset, now_ms, now_ms)
        return self._advance()

    def fetched(self, replica: ReplicaKey, offset: Offset, leader_end_offset: Offset, now_ms: float) -> bool:
        """A replica asks for what follows `offset`, hence holds all before it. Whether the high watermark has risen."""
        before = self._replicas.get(replica.id, ReplicaProgress(replica))
        if not before.key.matches(replica):
            before = ReplicaProgress(replica)  # a new disk: what the old one held is gone
        self._gone.pop(replica.id, None)
        caught_up_ms = now_ms if offset >= leader_end_offset else before.caught_up_ms
        self._remember(ReplicaProgress(replica, offset, now_ms, caught_up_ms), now_ms)
        return self._advance()

    def heard(self, replica: ReplicaKey, now_ms: float) -> None:
        """A replica that copies a snapshot lives, though its log says nothing yet."""
        self._gone.pop(replica.id, None)
        before = self._replicas.get(replica.id, ReplicaProgress(replica))
        if replica.id >= 0 and before.key.matches(replica):
            self._remember(before._replace(fetch_ms=now_ms), now_ms)

    def _remember(self, replica: ReplicaProgress, now_ms: float) -> None:
        is_new = replica.key.id not in self._replicas
        self._replicas[replica.key.id] = replica
        if is_new:
            observers = [each for each in self._replicas.values() if self._is_observer(each)]
            observers.sort(key=lambda each: -each.fetch_ms)
            for number, each in enumerate(observers):
                if number >= OBSERVERS_MAX or now_ms - each.fetch_ms >= OBSERVER_SESSION_MS:
                    del self._replicas[each.key.id]

    def gone(self, voter_id: BrokerId) -> None:
        self._gone[voter_id] = None

    def _advance(self) -> bool:
        offsets = sorted((self.of(voter.key).end_offset for voter in self._voters.voters), reverse=True)
        if not offsets:
            return False
        agreed = offsets[self._voters.majority - 1]
        if agreed <= max(self.high_watermark, self._epoch_start_offset):
            return False
        self.high_watermark = agreed
        return True

    def of(self, voter: ReplicaKey) -> ReplicaProgress:
        found = self._replicas.get(voter.id)
        return found if found is not None and found.key.matches(voter) else ReplicaProgress(voter)

    def majority_heard_ms(self) -> float:
        """The last moment since which a majority of voters, the leader among them, has been heard of. -inf: dead."""
        heard = sorted((self._heard_ms(voter.key) for voter in self._voters.others(self._leader.id)), reverse=True)
        needed = self._voters.majority - (1 if self._voters.is_voter(self._leader) else 0)
        return heard[needed - 1] if needed > 0 else inf

    def _heard_ms(self, voter: ReplicaKey) -> float:
        return -inf if voter.id in self._gone else max(self.of(voter).fetch_ms, self._since_ms)

    def silent_voters(self, since_ms: float) -> tuple[BrokerId, ...]:
        """Voters that have not fetched since: they may not know their leader."""
        return tuple(
            voter.key.id for voter in self._voters.others(self._leader.id) if self.of(voter.key).fetch_ms < since_ms
        )

    def by_completeness(self) -> tuple[BrokerId, ...]:
        """The other voters, the most complete log first: in this order they should try to succeed."""
        others = [self.of(voter.key) for voter in self._voters.others(self._leader.id)]
        return tuple(each.key.id for each in sorted(others, key=lambda each: (-each.end_offset, each.key.id)))

    def observers(self, now_ms: float) -> tuple[ReplicaProgress, ...]:
        return tuple(
            each
            for each in self._replicas.values()
            if self._is_observer(each) and now_ms - each.fetch_ms < OBSERVER_SESSION_MS
        )

    def _is_observer(self, replica: ReplicaProgress) -> bool:
        return replica.key.id != self._leader.id and not self._voters.is_voter(replica.key)

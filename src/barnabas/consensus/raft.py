"""One replica of the metadata log: elections with pre-vote, leading, following, resigning (KRaft: KIP-595, 853, 996).

Every event is a method that is told the time and returns an Output: what the shell must do, in the order of its fields.
Always holds: at most one vote in an epoch, and it is durable before anybody hears of it. At most one leader in an
epoch. The epoch never falls. A leader that has not heard of a majority for a while resigns by itself, so that a cut off
one stops to promise things.
Does not know: records, sockets, disks, clocks. The log is seen through `LogView`.
"""

from enum import Enum
from math import inf
from random import Random
from typing import NamedTuple, Protocol

from barnabas.consensus.messages import (
    BeginEpochRequest,
    EndEpochRequest,
    EpochResponse,
    FetchPosition,
    FetchVerdict,
    LogEnd,
    Send,
    SnapshotPosition,
    SnapshotVerdict,
    VoteRequest,
    VoteResponse,
)
from barnabas.consensus.progress import LeaderProgress
from barnabas.consensus.voters import ReplicaKey, VoterSet
from barnabas.errors import ErrorCode
from barnabas.types import NO_LEADER, NO_LEADER_EPOCH, BrokerId, LeaderEpoch, Offset

CHECK_QUORUM_FACTOR = 1.5  # of the fetch timeout: a follower that is only slow is not taken for gone
LEADER_LOST_MS_MAX = 150  # a leader is missed: ask the others soon, and not all at once


class Role(Enum):
    UNATTACHED = "unattached"  # knows of no leader in this epoch
    PROSPECTIVE = "prospective"  # asks whether it could win, before it disturbs anybody
    CANDIDATE = "candidate"
    LEADER = "leader"
    FOLLOWER = "follower"
    RESIGNED = "resigned"  # led this epoch, and will not again


class Election(NamedTuple):
    """What must survive a crash."""

    epoch: LeaderEpoch = 0
    leader_id: BrokerId = NO_LEADER
    voted: ReplicaKey | None = None


class Timeouts(NamedTuple):
    election_ms: int = 1000
    fetch_ms: int = 2000
    backoff_ms_max: int = 1000


class LogView(Protocol):
    """What the rules may know of the log."""

    @property
    def end(self) -> LogEnd: ...

    @property
    def start(self) -> LogEnd:
        """Where it begins, and the epoch of what was before; (-1, 0) for a log of which nothing was cut off."""

    @property
    def snapshot(self) -> LogEnd | None:
        """The latest one: it holds all that was before. Never before `start`."""

    def may_vote(self, replica: ReplicaKey, committed: Offset) -> bool:
        """Whether it is in a set of voters after which no other is known to be committed."""

    def end_of_epoch(self, epoch: LeaderEpoch) -> LogEnd:
        """The largest epoch that is not above this one, and where it ends; (-1, -1) where there is none."""


class Output(NamedTuple):
    """What the shell must do, in this order."""

    persist: Election | None = None  # durable before anything else happens
    truncate_to: Offset | None = None
    lead: bool = False  # append the LeaderChange record of this epoch, then take requests
    cease: bool = False  # this replica does not lead any more: fail what waits
    high_watermark: Offset | None = None  # it has risen to this
    send: tuple[Send, ...] = ()


class Raft:
    def __init__(
        self,
        *,
        replica: ReplicaKey,
        voters: VoterSet,
        election: Election,
        log: LogView,
        timeouts: Timeouts,
        random: Random,
        now_ms: float,
    ) -> None:
        self.replica = replica
        self.voters = voters  # the latest in the log, committed or not
        self.election = election  # as persisted
        self.role = Role.UNATTACHED
        self.leader_id: BrokerId = NO_LEADER
        self.lost_leader_id: BrokerId = NO_LEADER  # whom it followed, and gave up; until a leader is heard again
        # Never falls. What a snapshot holds was committed.
        self.high_watermark: Offset = -1 if log.snapshot is None else log.snapshot.end_offset
        self.fetching: LogEnd | None = None  # as follower: the snapshot that is being copied from the leader
        self.progress: LeaderProgress | None = None  # while it leads
        self._log = log
        self._timeouts = timeouts
        self._random = random
        self._votes: dict[BrokerId, bool] = {}  # answers in the present election, its own included
        self._has_fetched = False  # from the leader of this epoch
        self._deadline_ms = now_ms  # what it means depends on the role
        self._patience_ms = float(timeouts.fetch_ms)  # as follower: how long its leader may be silent
        self._begin_ms = now_ms  # as leader: when the silent voters are told again
        self._persist = False
        self._truncate_to: Offset | None = None
        self._lead = self._cease = self._risen = False
        self._send: list[Send] = []
        if election.leader_id == replica.id:
            # It led when it crashed. It must not lead this epoch again: what it promised then may be lost.
            self._become_resigned(now_ms)
        # A short wait, and none where there is nobody to wait for. Should there be a leader, the others refuse the
        # pre-vote and say who it is.
        alone = self.is_voter and len(voters) == 1
        self._deadline_ms = now_ms if alone else now_ms + timeouts.election_ms * random.uniform(0.05, 0.3)

    @property
    def epoch(self) -> LeaderEpoch:
        return self.election.epoch

    @property
    def is_voter(self) -> bool:
        return self.voters.is_voter(self.replica)

    @property
    def may_stand(self) -> bool:
        """Also who was voted out, as long as that is not known to be committed: perhaps it alone has the log with which
        the others can go on without it (Raft dissertation, 4.2.2). Its own vote does not count then."""
        return self.is_voter or self._log.may_vote(self.replica, self.high_watermark)

    @property
    def is_leader(self) -> bool:
        return self.role is Role.LEADER

    @property
    def majority_heard_ms(self) -> float | None:
        """As leader: since when a majority of voters has been heard, itself included. None for any other role."""
        return self.progress.majority_heard_ms() if self.is_leader and self.progress is not None else None

    def next_deadline_ms(self) -> float:
        """When `tick` has something to do."""
        return min(self._deadline_ms, self._begin_ms) if self.is_leader else self._deadline_ms

    # Time

    def tick(self, now_ms: float) -> Output:
        if self.is_leader:
            self._tick_leader(now_ms)
        elif now_ms >= self._deadline_ms:
            self._tick_electable(now_ms)
        return self._take()

    def _tick_electable(self, now_ms: float) -> None:
        if not self.may_stand:
            self._become_unattached(self.epoch, now_ms)  # an observer that lost its leader looks for another
        elif self.role is Role.PROSPECTIVE and self.leader_id != NO_LEADER:
            self._become_follower(self.leader_id, self.epoch, now_ms)  # the others still see it: try once more
        else:
            self._become_prospective(now_ms)

    def _tick_leader(self, now_ms: float) -> None:
        assert self.progress is not None
        if now_ms >= self._deadline_ms:
            self._deadline_ms = self.progress.majority_heard_ms() + self._timeouts.fetch_ms * CHECK_QUORUM_FACTOR
            if now_ms >= self._deadline_ms:
                self._resign(now_ms)
                return
        if now_ms >= self._begin_ms:
            self._begin_epoch(self.progress.silent_voters(now_ms - self._timeouts.fetch_ms / 2), now_ms)

    # Elections

    def receive_vote(self, request: VoteRequest, now_ms: float) -> tuple[VoteResponse, Output]:
        if request.epoch < self.epoch:
            return self._vote_response(ErrorCode.FENCED_LEADER_EPOCH), self._take()
        if not request.voter.matches(self.replica):
            return self._vote_response(ErrorCode.INVALID_VOTER_KEY), self._take()
        if request.epoch > self.epoch:
            self._become_unattached(request.epoch, now_ms)
        granted = self._may_grant(request)
        voted = self.election.voted
        if granted and not request.pre_vote and (voted is None or not voted.matches(request.candidate)):
            self._become_unattached(self.epoch, now_ms, voted=request.candidate)
        return self._vote_response(ErrorCode.NONE, granted), self._take()

    def _may_grant(self, request: VoteRequest) -> bool:
        is_complete = request.log_end >= self._log.end
        if request.pre_vote:
            # Whoever hears its leader does not help to unseat it (KIP-996).
            settled = self.role is Role.LEADER or (self.role is Role.FOLLOWER and self._has_fetched)
            return is_complete and not settled
        if self.election.voted is not None:
            return self.election.voted.matches(request.candidate)
        # Not even after a restart, when the leader of this epoch is known only from the file.
        has_leader = self.leader_id != NO_LEADER or self.election.leader_id != NO_LEADER
        return self.role in (Role.UNATTACHED, Role.PROSPECTIVE) and not has_leader and is_complete

    def receive_vote_response(
        self, voter_id: BrokerId, response: VoteResponse, pre_vote: bool, now_ms: float
    ) -> Output:
        if self._follow_newer(response.epoch, response.leader_id, now_ms):
            return self._take()
        asked = Role.PROSPECTIVE if pre_vote else Role.CANDIDATE
        if self.role is asked and response.epoch == self.epoch and response.error == ErrorCode.NONE:
            self._votes[voter_id] = response.granted
            self._count(now_ms)
        return self._take()

    def _count(self, now_ms: float) -> None:
        granted = sum(1 for voter_id in self.voters.ids if self._votes.get(voter_id) is True)
        refused = sum(1 for voter_id in self.voters.ids if self._votes.get(voter_id) is False)
        if granted >= self.voters.majority:
            if self.role is Role.PROSPECTIVE:
                self._become_candidate(now_ms)
            else:
                self._become_leader(now_ms)
        elif refused > len(self.voters) - self.voters.majority:
            # Lost. Wait a little, differently long from the others, so that they do not split the votes again.
            self._deadline_ms = min(self._deadline_ms, now_ms + self._random.uniform(0, self._timeouts.backoff_ms_max))

    def _ask_for_votes(self, pre_vote: bool, now_ms: float) -> None:
        self._votes = {self.replica.id: True} if self.is_voter else {}
        for voter in self.voters.others(self.replica.id):
            request = VoteRequest(self.replica, voter.key, self.epoch, self._log.end, pre_vote)
            self._send.append(Send(voter.key.id, request))
        self._wait_for_election(now_ms)
        self._count(now_ms)

    def _wait_for_election(self, now_ms: float) -> None:
        self._deadline_ms = now_ms + self._timeouts.election_ms * self._random.uniform(1, 2)

    # Following

    def receive_begin_epoch(self, request: BeginEpochRequest, now_ms: float) -> tuple[EpochResponse, Output]:
        if request.epoch < self.epoch:
            return self._epoch_response(ErrorCode.FENCED_LEADER_EPOCH), self._take()
        if not request.voter.matches(self.replica):
            return self._epoch_response(ErrorCode.INVALID_VOTER_KEY), self._take()
        if not self._follow_newer(request.epoch, request.leader_id, now_ms):
            assert self.leader_id == request.leader_id, f"two leaders in epoch {self.epoch}"
        return self._epoch_response(ErrorCode.NONE), self._take()

    def receive_end_epoch(self, request: EndEpochRequest, now_ms: float) -> tuple[EpochResponse, Output]:
        """The leader says good-bye. The best successor tries at once, each further one later."""
        if request.epoch < self.epoch:
            return self._epoch_response(ErrorCode.FENCED_LEADER_EPOCH), self._take()
        self._follow_newer(request.epoch, request.leader_id, now_ms)
        if self.role is Role.FOLLOWER and self.leader_id == request.leader_id and self.is_voter:
            self._has_fetched = False  # it is gone for good: help others to succeed it
            if self.replica.id in request.successors:
                place = request.successors.index(self.replica.id)
                wait_ms = 0.0 if place == 0 else self._random.uniform(0.5, 1) * self._timeouts.backoff_ms_max
                self._deadline_ms = now_ms + wait_ms
        return self._epoch_response(ErrorCode.NONE), self._take()

    def fetch_position(self) -> FetchPosition | None:
        """What to ask the leader for; None where this replica leads, or stands for election."""
        if self.role in (Role.FOLLOWER, Role.UNATTACHED):
            end = self._log.end
            return FetchPosition(self.replica, self.epoch, end.end_offset, end.last_epoch)
        return None

    def receive_fetch_response(self, from_id: BrokerId, verdict: FetchVerdict, now_ms: float) -> Output:
        """The leader's answer; records, if any, are appended by the shell before the next one is asked for."""
        self._follow_newer(verdict.epoch, verdict.leader_id, now_ms)  # it may be the one that was asked
        is_from_leader = self.role is Role.FOLLOWER and from_id == self.leader_id and verdict.epoch == self.epoch
        if is_from_leader and verdict.error == ErrorCode.NONE:
            self._has_fetched = True
            self.lost_leader_id = NO_LEADER
            self._deadline_ms = now_ms + self._patience_ms
            if verdict.diverging is not None:
                self._truncate_to = self._agreed_end(verdict.diverging)
            elif verdict.snapshot is not None and verdict.snapshot.end_offset > self.high_watermark:
                self.fetching = verdict.snapshot
        return self._take()

    def receive_fetch_snapshot_response(self, from_id: BrokerId, verdict: SnapshotVerdict, now_ms: float) -> Output:
        """The shell keeps the bytes that came with it if this replica still fetches that snapshot afterwards."""
        if self._follow_newer(verdict.epoch, verdict.leader_id, now_ms):
            return self._take()
        if self.role is Role.FOLLOWER and from_id == self.leader_id and verdict.epoch == self.epoch:
            self._has_fetched = True
            self.lost_leader_id = NO_LEADER
            self._deadline_ms = now_ms + self._patience_ms
            if verdict.error != ErrorCode.NONE or verdict.snapshot != self.fetching:
                self.fetching = None  # the leader has it no more: fetch, and hear of a later one
        return self._take()

    def snapshot_refused(self) -> None:
        """What came is no whole snapshot: begin again."""
        self.fetching = None

    def snapshot_installed(self) -> Output:
        """The log now begins behind the snapshot that was fetched."""
        snapshot = self._log.snapshot
        assert snapshot is not None
        assert self._log.start == snapshot
        self.fetching = None
        self._raise_high_watermark(snapshot.end_offset)
        return self._take()

    def appended(self, leader_high_watermark: Offset) -> Output:
        """What the leader sent is in the log and synced: what it has committed counts here too."""
        self._raise_high_watermark(min(leader_high_watermark, self._log.end.end_offset))
        return self._take()

    def _agreed_end(self, diverging: LogEnd) -> Offset:
        """The last offset up to which both logs can be the same (KIP-595)."""
        mine = self._log.end_of_epoch(diverging.last_epoch)
        if mine.last_epoch == diverging.last_epoch:
            agreed = min(mine.end_offset, diverging.end_offset)
        else:
            agreed = max(mine.end_offset, self._log.start.end_offset)
        assert agreed >= self.high_watermark, f"would cut at {agreed} below the watermark {self.high_watermark}"
        return agreed

    def connection_lost(self, node_id: BrokerId, now_ms: float) -> Output:
        """A crashed process closes its connections at once, so there is no need to wait for the timeout.

        Where only the connection broke, the others still hear the leader and refuse the pre-vote: nothing happens. An
        observer asks them who leads.
        """
        if self.role is Role.FOLLOWER and node_id == self.leader_id:
            self._deadline_ms = min(self._deadline_ms, now_ms + self._random.uniform(0, LEADER_LOST_MS_MAX))
        return self._take()

    # Leading

    def receive_fetch(self, position: FetchPosition, now_ms: float) -> tuple[FetchVerdict, Output]:
        error = self.leader_error(position.epoch)
        if error != ErrorCode.NONE or self.progress is None:
            return self._fetch_verdict(error), self._take()
        if self._needs_snapshot(position):
            self.progress.heard(position.replica, now_ms)
            return self._fetch_verdict(ErrorCode.NONE)._replace(snapshot=self._log.snapshot), self._take()
        diverging = self._divergence(position)
        if (
            diverging is None
            and position.replica.id >= 0
            and self.progress.fetched(position.replica, position.offset, self._log.end.end_offset, now_ms)
        ):
            self._raise_high_watermark(self.progress.high_watermark)
        return self._fetch_verdict(ErrorCode.NONE)._replace(diverging=diverging), self._take()

    def receive_fetch_snapshot(self, position: SnapshotPosition, now_ms: float) -> tuple[SnapshotVerdict, Output]:
        """Whether it may be read here; whether there is such a snapshot, and such a position in it, the shell knows."""
        error = self.leader_error(position.epoch)
        if error == ErrorCode.NONE and self.progress is not None:
            self.progress.heard(position.replica, now_ms)
        return SnapshotVerdict(error, self.epoch, self.leader_id, position.snapshot), self._take()

    def leader_error(self, epoch: LeaderEpoch) -> ErrorCode:
        """Why a request of this epoch that only a leader may serve cannot be served here."""
        if self.progress is None:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        if epoch < self.epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        return ErrorCode.UNKNOWN_LEADER_EPOCH if epoch > self.epoch else ErrorCode.NONE

    def _needs_snapshot(self, position: FetchPosition) -> bool:
        """Whether the place where both logs agree may lie before the beginning of this one."""
        start = self._log.start
        if start.end_offset == 0:
            return False
        return (
            position.offset < start.end_offset
            or position.last_fetched_epoch < start.last_epoch
            or (position.offset == start.end_offset and position.last_fetched_epoch != start.last_epoch)
        )

    def _divergence(self, position: FetchPosition) -> LogEnd | None:
        if position.last_fetched_epoch == NO_LEADER_EPOCH and position.offset == 0:
            return None
        known = self._log.end_of_epoch(position.last_fetched_epoch)
        agrees = known.last_epoch == position.last_fetched_epoch and known.end_offset >= position.offset
        return None if agrees else known

    def synced(self, end_offset: Offset, now_ms: float) -> Output:
        """The leader's own log is durable up to here."""
        if self.progress is not None and self.progress.synced(end_offset, now_ms):
            self._raise_high_watermark(self.progress.high_watermark)
        return self._take()

    def voters_changed(self, voters: VoterSet, now_ms: float) -> Output:
        """A set of voters was appended, or cut off again: the latest in the log counts."""
        was_voter = self.is_voter
        self.voters = voters
        if self.progress is not None:
            if self.progress.replace_voters(voters):
                self._raise_high_watermark(self.progress.high_watermark)
            self._deadline_ms = self._begin_ms = now_ms
        elif self.is_voter and not was_voter and self.role is Role.UNATTACHED:
            self._wait_for_election(now_ms)
        elif self.role in (Role.PROSPECTIVE, Role.CANDIDATE) and not self.may_stand:
            self._become_unattached(self.epoch, now_ms)
        return self._take()

    def voters_committed(self, now_ms: float) -> Output:
        """A leader that was voted out has led until that was committed, and goes."""
        if self.is_leader and not self.is_voter:
            self._resign(now_ms)
        return self._take()

    def voter_gone(self, voter_id: BrokerId, now_ms: float) -> Output:
        """Its process is dead. A leader whom that leaves without a majority can commit nothing, and need not wait to
        find out: whoever waits for it, perhaps to stop as well, is told at once."""
        if self.progress is not None:
            self.progress.gone(voter_id)
            if self.progress.majority_heard_ms() == -inf:
                self._resign(now_ms)
        return self._take()

    def resign(self, now_ms: float) -> Output:
        """Before a clean stop, or after it was voted out: others need not wait for a timeout."""
        if self.is_leader:
            self._resign(now_ms)
        return self._take()

    def _resign(self, now_ms: float) -> None:
        assert self.progress is not None
        successors = self.progress.by_completeness()
        for voter_id in successors:
            self._send.append(Send(voter_id, EndEpochRequest(self.replica.id, self.epoch, successors)))
        self._become_resigned(now_ms)
        self._cease = True
        if not self.is_voter:
            self._deadline_ms = now_ms  # it has nothing to wait for: as an observer it looks for the next leader

    def _begin_epoch(self, voter_ids: tuple[BrokerId, ...], now_ms: float) -> None:
        for voter_id in voter_ids:
            voter = self.voters.get(voter_id)
            assert voter is not None
            self._send.append(Send(voter_id, BeginEpochRequest(self.replica.id, self.epoch, voter.key)))
        self._begin_ms = now_ms + self._timeouts.fetch_ms / 2

    # From one role to another

    def _become_unattached(self, epoch: LeaderEpoch, now_ms: float, voted: ReplicaKey | None = None) -> None:
        assert epoch >= self.epoch
        if voted is None and epoch == self.epoch:
            voted = self.election.voted  # a vote is for the whole epoch
        self._leave(Election(epoch, NO_LEADER, voted), Role.UNATTACHED, NO_LEADER)
        self._wait_for_election(now_ms)

    def _become_prospective(self, now_ms: float) -> None:
        self._leave(self.election, Role.PROSPECTIVE, self.leader_id)
        self._ask_for_votes(True, now_ms)

    def _become_candidate(self, now_ms: float) -> None:
        self._leave(Election(self.epoch + 1, NO_LEADER, self.replica), Role.CANDIDATE, NO_LEADER)
        self._ask_for_votes(False, now_ms)

    def _become_leader(self, now_ms: float) -> None:
        assert self.role is Role.CANDIDATE
        epoch_start_offset = self._log.end.end_offset
        election = Election(self.epoch, self.replica.id, self.election.voted)
        self._leave(election, Role.LEADER, self.replica.id)
        self.progress = LeaderProgress(
            leader=self.replica, voters=self.voters, epoch_start_offset=epoch_start_offset, now_ms=now_ms
        )
        self._lead = True
        self._deadline_ms = now_ms + self._timeouts.fetch_ms * CHECK_QUORUM_FACTOR
        self._begin_epoch(tuple(voter.key.id for voter in self.voters.others(self.replica.id)), now_ms)
        if self.voters.ids == (self.replica.id,):
            self._deadline_ms = self._begin_ms = inf  # nobody can be missed

    def _become_follower(self, leader_id: BrokerId, epoch: LeaderEpoch, now_ms: float) -> None:
        assert leader_id != self.replica.id
        voted = self.election.voted if epoch == self.epoch else None
        self._leave(Election(epoch, leader_id, voted), Role.FOLLOWER, leader_id)
        # Followers often hear of their leader for the last time in the same moment. They must not all stand at once.
        self._patience_ms = self._timeouts.fetch_ms + self._random.uniform(0, LEADER_LOST_MS_MAX)
        self._deadline_ms = now_ms + self._patience_ms

    def _become_resigned(self, now_ms: float) -> None:
        self._leave(self.election, Role.RESIGNED, NO_LEADER)
        self._wait_for_election(now_ms)

    def _leave(self, election: Election, role: Role, leader_id: BrokerId) -> None:
        """Out of the present role, whatever it was, and into the next."""
        assert election.epoch >= self.epoch
        self._cease = self._cease or self.is_leader
        if self.role is Role.FOLLOWER and role is not Role.FOLLOWER:
            self.lost_leader_id = self.leader_id
        self._persist = self._persist or election != self.election
        self.election = election
        self.role = role
        self.leader_id = leader_id
        self.progress = None
        self._has_fetched = False
        self.fetching = None
        self._votes = {}

    def _follow_newer(self, epoch: LeaderEpoch, leader_id: BrokerId, now_ms: float) -> bool:
        """Takes up a later epoch, or the leader of this one, that somebody spoke of. Whether it was news."""
        if epoch < self.epoch or leader_id == self.replica.id:
            return False
        if epoch == self.epoch and NO_LEADER not in (self.leader_id, leader_id):
            return False
        if leader_id != NO_LEADER:
            self._become_follower(leader_id, epoch, now_ms)
        elif epoch > self.epoch:
            self._become_unattached(epoch, now_ms)
        else:
            return False
        return True

    # Answers

    def _raise_high_watermark(self, offset: Offset) -> None:
        if offset > self.high_watermark:
            self.high_watermark = offset
            self._risen = True

    def _vote_response(self, error: ErrorCode, granted: bool = False) -> VoteResponse:
        return VoteResponse(error, self.epoch, self.leader_id, granted)

    def _epoch_response(self, error: ErrorCode) -> EpochResponse:
        return EpochResponse(error, self.epoch, self.leader_id)

    def _fetch_verdict(self, error: ErrorCode) -> FetchVerdict:
        return FetchVerdict(error, self.epoch, self.leader_id, self.high_watermark if self.is_leader else -1)

    def _take(self) -> Output:
        output = Output(
            persist=self.election if self._persist else None,
            truncate_to=self._truncate_to,
            lead=self._lead and self.is_leader,
            cease=self._cease,
            high_watermark=self.high_watermark if self._risen else None,
            send=tuple(self._send),
        )
        self._persist = self._lead = self._cease = self._risen = False
        self._truncate_to = None
        self._send = []
        return output

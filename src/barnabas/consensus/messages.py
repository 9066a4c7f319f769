"""What voters say to each other, as plain values. The shell turns them into Kafka's messages and back."""

from typing import NamedTuple

from barnabas.consensus.voters import ReplicaKey
from barnabas.errors import ErrorCode
from barnabas.types import BrokerId, LeaderEpoch, Offset


class LogEnd(NamedTuple):
    """How far a log goes. The larger one is the more complete: the later epoch wins, then the greater length."""

    last_epoch: LeaderEpoch
    end_offset: Offset


class VoteRequest(NamedTuple):
    candidate: ReplicaKey
    voter: ReplicaKey  # to whom it goes; a vote meant for a lost disk must not be given by the new one
    epoch: LeaderEpoch  # of a real vote: the one to lead; of a pre-vote: the present one
    log_end: LogEnd
    pre_vote: bool


class VoteResponse(NamedTuple):
    error: ErrorCode
    epoch: LeaderEpoch
    leader_id: BrokerId
    granted: bool = False


class BeginEpochRequest(NamedTuple):
    leader_id: BrokerId
    epoch: LeaderEpoch
    voter: ReplicaKey


class EndEpochRequest(NamedTuple):
    leader_id: BrokerId
    epoch: LeaderEpoch
    successors: tuple[BrokerId, ...]  # the most complete log first


class EpochResponse(NamedTuple):
    """To both of these."""

    error: ErrorCode
    epoch: LeaderEpoch
    leader_id: BrokerId


class FetchPosition(NamedTuple):
    """From where a replica wants to go on, and in which epoch it believes."""

    replica: ReplicaKey
    epoch: LeaderEpoch
    offset: Offset
    last_fetched_epoch: LeaderEpoch


class FetchVerdict(NamedTuple):
    """What the leader answers to it, records apart."""

    error: ErrorCode
    epoch: LeaderEpoch
    leader_id: BrokerId
    high_watermark: Offset = -1
    diverging: LogEnd | None = None  # the reader's log departs from this one; it must cut and ask again
    snapshot: LogEnd | None = None  # what is asked for is gone; it must take this snapshot


class SnapshotPosition(NamedTuple):
    """Which snapshot a replica wants, and from which byte on."""

    replica: ReplicaKey
    epoch: LeaderEpoch
    snapshot: LogEnd
    position: int


class SnapshotVerdict(NamedTuple):
    """What the leader answers to it, bytes apart."""

    error: ErrorCode
    epoch: LeaderEpoch
    leader_id: BrokerId
    snapshot: LogEnd = LogEnd(-1, -1)
    size_bytes: int = 0  # of the whole snapshot
    position: int = 0  # of the bytes that come with it


class Send(NamedTuple):
    to: BrokerId
    message: VoteRequest | BeginEpochRequest | EndEpochRequest

"""Which changes of the voters a leader may make (KIP-853): one voter at a time, each upon what is committed.

Always holds: two sets that follow each other differ by one voter, so that any two majorities of them share one; and
none is made before the leader has committed something in its epoch, which settles what earlier leaders left.
Does not know: how a change is written, who waits for it.
"""

from typing import NamedTuple

from barnabas.consensus.raft import Raft
from barnabas.consensus.voter_history import VoterHistory
from barnabas.consensus.voters import ReplicaKey, Voter, VoterSet
from barnabas.errors import ErrorCode
from barnabas.types import ZERO_UUID, uuid_text

RECONFIGURABLE_SINCE = 1  # of kraft.version
CAUGHT_UP_MS_MAX = (
    3_600_000  # a new voter must have had the whole log, and have been heard of since, so long ago at most
)


class Refusal(NamedTuple):
    error: ErrorCode
    message: str | None = None


def change_refused(raft: Raft, history: VoterHistory) -> Refusal | None:
    """Why no change can be made now, whatever it is."""
    if raft.progress is None:
        return Refusal(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    high_watermark = raft.progress.high_watermark
    if high_watermark < 0:
        return Refusal(ErrorCode.REQUEST_TIMED_OUT, "The leader has not committed anything in its epoch yet.")
    if history.kraft_version < RECONFIGURABLE_SINCE:
        words = f"The voters stand in the configuration, because kraft.version is {history.kraft_version}."
        return Refusal(ErrorCode.UNSUPPORTED_VERSION, words)
    if history.offset >= high_watermark:
        words = f"The change of voters at offset {history.offset} is not committed yet."
        return Refusal(ErrorCode.REQUEST_TIMED_OUT, words)
    return None


def key_refused(key: ReplicaKey) -> Refusal | None:
    if key.id < 0 or key.directory_id == ZERO_UUID:
        return Refusal(ErrorCode.INVALID_REQUEST, "A voter is named by its id and the id of its directory.")
    return None


def addition_refused(history: VoterHistory, key: ReplicaKey) -> Refusal | None:
    if history.voters.get(key.id) is not None:
        return Refusal(
            ErrorCode.DUPLICATE_VOTER, f"Voter {shown(key)} has the id of one in {all_shown(history.voters)}."
        )
    return None


def add(raft: Raft, history: VoterHistory, voter: Voter, now_ms: float) -> VoterSet | Refusal:
    """Once it is known what the new voter can do. It must have the log already, or it would hold up every commit."""
    refusal = change_refused(raft, history) or addition_refused(history, voter.key)
    if refusal is not None:
        return refusal
    if not _speaks(voter, history.kraft_version):
        words = f"Voter {shown(voter.key)} does not support kraft.version {history.kraft_version}."
        return Refusal(ErrorCode.INVALID_REQUEST, words)
    assert raft.progress is not None
    known = raft.progress.of(voter.key)
    if known.key != voter.key or known.caught_up_ms < 0 or now_ms - known.fetch_ms > CAUGHT_UP_MS_MAX:
        return Refusal(ErrorCode.REQUEST_TIMED_OUT, f"Voter {shown(voter.key)} has not caught up with the log.")
    return history.voters.with_voter(voter)


def remove(raft: Raft, history: VoterHistory, key: ReplicaKey) -> VoterSet | Refusal:
    refusal = change_refused(raft, history)
    if refusal is not None:
        return refusal
    known = history.voters.get(key.id)
    if known is None or known.key != key or len(history.voters) == 1:
        words = f"Voter {shown(key)} cannot be taken out of {all_shown(history.voters)}."
        return Refusal(ErrorCode.VOTER_NOT_FOUND, words)
    return history.voters.without(key.id)


def update(raft: Raft, history: VoterHistory, voter: Voter) -> VoterSet | Refusal:
    """Another address of the same voter, or other versions that it speaks."""
    refusal = change_refused(raft, history)
    if refusal is not None:
        return refusal
    if not _speaks(voter, history.kraft_version):
        return Refusal(ErrorCode.INVALID_REQUEST)
    known = history.voters.get(voter.key.id)
    if known is None or known.key != voter.key:
        return Refusal(ErrorCode.VOTER_NOT_FOUND)
    return history.voters.with_voter(voter)


def upgrade(raft: Raft, history: VoterHistory) -> VoterSet | Refusal:
    """The voters of the configuration, as they will stand in the log, each with its directory as it was heard of."""
    if raft.progress is None:
        return Refusal(ErrorCode.NOT_CONTROLLER)
    voters = VoterSet()
    for voter in history.voters.voters:
        key = raft.replica if voter.key.id == raft.replica.id else raft.progress.of(voter.key).key
        if key.directory_id == ZERO_UUID:
            words = f"voter {key.id} has not fetched from this leader yet, so that its directory is unknown."
            return Refusal(ErrorCode.INVALID_UPDATE_VERSION, words)
        if not voter.endpoints:
            words = f"voter {key.id} has no listener for controllers (controller.listener.names)."
            return Refusal(ErrorCode.INVALID_UPDATE_VERSION, words)
        voters = voters.with_voter(voter._replace(key=key))
    return voters


def _speaks(voter: Voter, kraft_version: int) -> bool:
    least, most = voter.kraft_versions
    return least <= kraft_version <= most


def shown(key: ReplicaKey) -> str:
    return f"{key.id}-{uuid_text(key.directory_id)}"


def all_shown(voters: VoterSet) -> str:
    return "[" + ", ".join(shown(voter.key) for voter in voters.voters) + "]"

"""Who votes from which offset on: appended, cut off, taken over from a snapshot."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "support"))
from raft_cluster import key_of, voter_set

from barnabas.consensus.quorum_records import KRaftVersion
from barnabas.consensus.snapshot_file import SnapshotHead
from barnabas.consensus.voter_history import BEFORE_THE_LOG, VoterHistory

STATIC = voter_set(7)


def history() -> VoterHistory:
    """Voters 1 from the beginning, 1 and 2 from offset 10, 2 from offset 20."""
    found = VoterHistory(STATIC)
    found.appended(1, KRaftVersion(1))
    found.appended(2, voter_set(1))
    found.appended(10, voter_set(1, 2))
    found.appended(20, voter_set(2))
    return found


def test_without_a_word_of_the_log_the_configured_vote() -> None:
    found = VoterHistory(STATIC)
    found.appended(5, None)
    assert (found.voters, found.kraft_version, found.offset) == (STATIC, 0, BEFORE_THE_LOG)
    assert found.head(100, 5) == SnapshotHead(5, 0, None)


def test_the_latest_counts() -> None:
    found = history()
    assert (found.voters.ids, found.kraft_version, found.offset) == ((2,), 1, 20)


def test_what_is_cut_off_never_counted() -> None:
    found = history()
    found.truncate_to(20)
    assert (found.voters.ids, found.offset) == ((1, 2), 10)
    found.truncate_to(11)
    assert found.voters.ids == (1, 2)
    found.truncate_to(2)
    assert (found.voters, found.kraft_version) == (STATIC, 1)
    found.truncate_to(0)
    assert (found.voters, found.kraft_version) == (STATIC, 0)


def test_a_snapshot_says_who_voted_at_its_end() -> None:
    found = history()
    assert found.head(21, 5) == SnapshotHead(5, 1, voter_set(2))
    assert found.head(20, 5) == SnapshotHead(5, 1, voter_set(1, 2))
    assert found.head(10, 5) == SnapshotHead(5, 1, voter_set(1))
    found.forget_before(15)
    assert found.head(20, 5) == SnapshotHead(5, 1, voter_set(1, 2))
    assert found.voters.ids == (2,)


def test_a_snapshot_takes_the_place_of_all_before() -> None:
    found = history()
    found.restart(50, SnapshotHead(5, 1, voter_set(3)))
    assert (found.voters.ids, found.kraft_version) == ((3,), 1)
    assert found.offset < 50, "it is committed"
    found.truncate_to(50)
    assert found.voters.ids == (3,), "what a snapshot holds is never cut off"


def test_who_may_vote_as_far_as_is_known() -> None:
    found = history()
    assert [found.may_vote(key_of(1), committed) for committed in (-1, 11, 20, 21)] == [True, True, True, False]
    assert [found.may_vote(key_of(2), committed) for committed in (-1, 21, 99)] == [True, True, True]
    assert not found.may_vote(key_of(3), -1)

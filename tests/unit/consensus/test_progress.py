"""Who is remembered by the leader of a quorum, and for how long."""

from barnabas.consensus.progress import OBSERVER_SESSION_MS, OBSERVERS_MAX, LeaderProgress
from barnabas.consensus.voters import ReplicaKey, Voter, VoterSet

LEADER, VOTER = ReplicaKey(1), ReplicaKey(2)


def leading() -> LeaderProgress:
    voters = VoterSet([Voter(LEADER), Voter(VOTER)])
    found = LeaderProgress(leader=LEADER, voters=voters, epoch_start_offset=0, now_ms=0)
    found.synced(5, 0)
    found.fetched(VOTER, 5, 5, 0)
    return found


def remembered(found: LeaderProgress) -> list[int]:
    return list(found._replicas)


def test_an_observer_that_is_silent_is_forgotten_when_another_one_comes() -> None:
    found = leading()
    found.fetched(ReplicaKey(10), 5, 5, 1)
    found.heard(ReplicaKey(11), 2)
    found.fetched(ReplicaKey(12), 5, 5, OBSERVER_SESSION_MS + 1)
    assert remembered(found) == [1, 2, 11, 12]
    assert [each.key.id for each in found.observers(OBSERVER_SESSION_MS + 1)] == [11, 12]


def test_as_many_are_remembered_as_a_cluster_may_have() -> None:
    """Anybody who reaches the port can fetch, each time in another name."""
    found = leading()
    for number in range(OBSERVERS_MAX + 7):
        ask = found.fetched if number % 2 else lambda key, _offset, _end, now_ms: found.heard(key, now_ms)
        ask(ReplicaKey(10 + number), 5, 5, 1.0 + number)
    assert len(remembered(found)) == OBSERVERS_MAX + 2
    assert remembered(found)[:3] == [1, 2, 17]
    assert found.majority_heard_ms() == 0, "no voter is forgotten"

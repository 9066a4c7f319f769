"""Elections, replication and failures of pure Raft replicas: single scenarios, and many seeds of chance."""

import sys
from pathlib import Path
from random import Random

import pytest

from barnabas.consensus.messages import (
    BeginEpochRequest,
    FetchPosition,
    FetchVerdict,
    LogEnd,
    SnapshotPosition,
    SnapshotVerdict,
    VoteRequest,
    VoteResponse,
)
from barnabas.consensus.raft import LEADER_LOST_MS_MAX, Election, Raft, Role
from barnabas.consensus.voters import ReplicaKey, Voter, VoterSet
from barnabas.errors import ErrorCode
from barnabas.types import NO_LEADER

sys.path.insert(0, str(Path(__file__).parents[2] / "support"))
from raft_cluster import TIMEOUTS, ListLog, RaftCluster

THREE = VoterSet(Voter(ReplicaKey(node_id)) for node_id in (1, 2, 3))


def replica(node_id: int = 1, election: Election | None = None, entries: int = 0, voters: VoterSet = THREE) -> Raft:
    log = ListLog()
    log.entries = [(1, "x")] * entries
    return Raft(
        replica=ReplicaKey(node_id),
        voters=voters,
        election=election or Election(epoch=1),
        log=log,
        timeouts=TIMEOUTS,
        random=Random(1),
        now_ms=0,
    )


def vote(candidate: int, epoch: int, *, entries: int = 0, pre_vote: bool = False) -> VoteRequest:
    return VoteRequest(ReplicaKey(candidate), ReplicaKey(1), epoch, LogEnd(1 if entries else -1, entries), pre_vote)


def test_one_vote_in_an_epoch_and_it_is_persisted_before_the_answer() -> None:
    raft = replica()
    response, output = raft.receive_vote(vote(2, 2), 0)
    assert response.granted
    assert output.persist == Election(2, -1, ReplicaKey(2))
    response, output = raft.receive_vote(vote(3, 2), 0)
    assert not response.granted
    assert output.persist is None
    response, _ = raft.receive_vote(vote(2, 2), 0)
    assert response.granted, "the same candidate may ask again"


def test_a_vote_survives_a_restart() -> None:
    raft = replica(election=Election(2, -1, ReplicaKey(2)))
    assert not raft.receive_vote(vote(3, 2), 0)[0].granted


def test_no_vote_in_an_epoch_that_had_a_leader_before_the_restart() -> None:
    """A late candidate of that epoch would otherwise become its second leader."""
    raft = replica(election=Election(2, 3, None))
    assert not raft.receive_vote(vote(2, 2), 0)[0].granted
    assert raft.receive_vote(vote(2, 3), 0)[0].granted


def test_no_vote_for_a_shorter_log() -> None:
    raft = replica(entries=5)
    response, output = raft.receive_vote(vote(2, 2, entries=4), 0)
    assert not response.granted
    assert output.persist == Election(2, -1, None), "the epoch is later all the same"
    assert raft.receive_vote(vote(3, 2, entries=5), 0)[0].granted


def test_an_old_epoch_is_fenced() -> None:
    response, _ = replica(election=Election(epoch=7)).receive_vote(vote(2, 6), 0)
    assert (response.error, response.epoch, response.granted) == (ErrorCode.FENCED_LEADER_EPOCH, 7, False)


def test_a_pre_vote_changes_nothing_and_is_refused_by_who_hears_a_leader() -> None:
    raft = replica()
    response, output = raft.receive_vote(vote(2, 1, pre_vote=True), 0)
    assert response.granted
    assert output.persist is None
    raft.receive_begin_epoch(BeginEpochRequest(3, 1, ReplicaKey(1)), 0)
    assert raft.receive_vote(vote(2, 1, pre_vote=True), 0)[0].granted, "it has not heard of it by fetching"
    raft.receive_fetch_response(3, FetchVerdict(ErrorCode.NONE, 1, 3, 0), 0)
    assert not raft.receive_vote(vote(2, 1, pre_vote=True), 0)[0].granted


def test_who_led_when_it_crashed_does_not_lead_that_epoch_again() -> None:
    raft = replica(election=Election(4, 1, ReplicaKey(1)))
    assert raft.role is Role.RESIGNED
    verdict, _ = raft.receive_fetch(FetchPosition(ReplicaKey(2), 4, 0, -1), 0)
    assert verdict.error == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_a_vote_for_another_disk_is_refused() -> None:
    raft = Raft(
        replica=ReplicaKey(1, b"a" * 16),
        voters=THREE,
        election=Election(),
        log=ListLog(),
        timeouts=TIMEOUTS,
        random=Random(1),
        now_ms=0,
    )
    request = VoteRequest(ReplicaKey(2), ReplicaKey(1, b"b" * 16), 1, LogEnd(-1, 0), False)
    assert raft.receive_vote(request, 0)[0].error == ErrorCode.INVALID_VOTER_KEY


def test_a_single_voter_leads_at_once() -> None:
    cluster = RaftCluster(1, seed=1)
    cluster.run(50)
    assert cluster.leader() is not None
    assert cluster.history == [(1, "leader")]


def test_three_elect_one_and_replicate() -> None:
    cluster = RaftCluster(3, seed=1)
    leader = cluster.elect()
    for number in range(10):
        leader.append(str(number))
    cluster.run(cluster.now_ms + 500)
    assert [value for _, value in cluster.history] == ["leader", *map(str, range(10))]
    assert {tuple(node.log.entries) for node in cluster.nodes.values()} == {tuple(cluster.history)}


def test_a_leader_that_is_cut_off_resigns_and_its_uncommitted_records_go() -> None:
    cluster = RaftCluster(3, seed=2)
    old = cluster.elect()
    cluster.cut = {frozenset((old.id, other)) for other in cluster.nodes if other != old.id}
    old.append("lost")
    cluster.run(cluster.now_ms + 2000)
    assert not old.raft.is_leader
    new = cluster.leader()
    assert new is not None
    assert new is not old
    new.append("kept")
    cluster.run(cluster.now_ms + 500)
    cluster.cut = set()
    cluster.run(cluster.now_ms + 3000)
    assert "kept" in [value for _, value in cluster.history]
    assert "lost" not in [value for _, value in old.log.entries]
    assert old.log.entries == new.log.entries


def test_a_follower_that_is_cut_off_does_not_disturb_when_it_returns() -> None:
    cluster = RaftCluster(3, seed=3)
    leader = cluster.elect()
    follower = next(node for node in cluster.nodes.values() if node is not leader)
    cluster.cut = {frozenset((follower.id, other)) for other in cluster.nodes if other != follower.id}
    cluster.run(cluster.now_ms + 5000)
    cluster.cut = set()
    cluster.run(cluster.now_ms + 1000)
    assert cluster.leader() is leader
    assert set(cluster.leaders.values()) == {leader.id}


def test_a_lost_connection_to_a_dead_leader_shortens_the_wait() -> None:
    cluster = RaftCluster(3, seed=4)
    leader = cluster.elect()
    leader.crash()
    crashed_ms = cluster.now_ms
    for node in cluster.nodes.values():
        if node is not leader:
            node.perform(node.raft.connection_lost(leader.id, cluster.now_ms))
    new = cluster.elect()
    assert new is not leader
    assert cluster.now_ms - crashed_ms < TIMEOUTS.fetch_ms + TIMEOUTS.election_ms


def test_a_lost_connection_to_a_living_leader_changes_nothing() -> None:
    cluster = RaftCluster(3, seed=5)
    leader = cluster.elect()
    follower = next(node for node in cluster.nodes.values() if node is not leader)
    follower.perform(follower.raft.connection_lost(leader.id, cluster.now_ms))
    cluster.run(cluster.now_ms + 3000)
    assert cluster.leader() is leader
    assert len(cluster.leaders) == 1


def test_a_leader_that_fell_silent_is_known_to_its_successor() -> None:
    cluster = RaftCluster(3, seed=6)
    leader = cluster.elect()
    cluster.cut = {frozenset((leader.id, other)) for other in cluster.nodes if other != leader.id}
    cluster.run(cluster.now_ms + TIMEOUTS.fetch_ms + LEADER_LOST_MS_MAX)
    successor = cluster.elect()
    assert successor is not leader
    assert successor.raft.lost_leader_id == leader.id
    cluster.cut = set()
    cluster.run(cluster.now_ms + 1000)
    assert {node.raft.lost_leader_id for node in cluster.nodes.values() if node is not successor} == {NO_LEADER}


def test_nothing_of_an_earlier_epoch_is_committed_before_something_of_this_one_is() -> None:
    """Figure 8 of the Raft paper: a record that a majority holds may still be overwritten by a later leader."""
    log = ListLog()
    log.entries = [(1, "old")] * 5
    raft = Raft(
        replica=ReplicaKey(1),
        voters=THREE,
        election=Election(epoch=1),
        log=log,
        timeouts=TIMEOUTS,
        random=Random(1),
        now_ms=0,
    )
    raft.tick(1000)
    raft.receive_vote_response(2, VoteResponse(ErrorCode.NONE, 1, -1, True), True, 1000)
    assert raft.receive_vote_response(2, VoteResponse(ErrorCode.NONE, 2, -1, True), False, 1000).lead
    raft.synced(5, 1000)
    assert raft.receive_fetch(FetchPosition(ReplicaKey(2), 2, 5, 1), 1000)[1].high_watermark is None
    log.entries.append((2, "leader"))
    raft.synced(6, 1000)
    assert raft.receive_fetch(FetchPosition(ReplicaKey(2), 2, 6, 2), 1000)[1].high_watermark == 6


def test_a_leader_that_resigns_is_succeeded_without_a_timeout() -> None:
    cluster = RaftCluster(3, seed=6)
    leader = cluster.elect()
    resigned_ms = cluster.now_ms
    leader.perform(leader.raft.resign(cluster.now_ms))
    new = cluster.elect()
    assert new is not leader
    assert cluster.now_ms - resigned_ms < TIMEOUTS.election_ms


def test_a_follower_that_is_too_far_behind_copies_a_snapshot() -> None:
    cluster = RaftCluster(3, seed=7)
    leader = cluster.elect()
    away = next(node for node in cluster.nodes.values() if node is not leader)
    away.crash()
    for number in range(9):
        leader.append(str(number))
    cluster.run(cluster.now_ms + 500)
    leader.log.take_snapshot(leader.raft.high_watermark)
    leader.log.clean()
    leader.append("after")
    away.start()
    cluster.run(cluster.now_ms + 2000)
    assert cluster.installed == 1
    assert away.log.start.end_offset == 10
    assert away.log.entries == leader.log.entries == cluster.history


def led(entries: list[tuple[int, str]]) -> tuple[Raft, ListLog]:
    """Node 1 leads epoch 2 upon these entries; its own first one is there."""
    log = ListLog()
    log.entries = list(entries)
    raft = Raft(
        replica=ReplicaKey(1),
        voters=THREE,
        election=Election(epoch=1),
        log=log,
        timeouts=TIMEOUTS,
        random=Random(1),
        now_ms=0,
    )
    raft.tick(1000)
    raft.receive_vote_response(2, VoteResponse(ErrorCode.NONE, 1, -1, True), True, 1000)
    assert raft.receive_vote_response(2, VoteResponse(ErrorCode.NONE, 2, -1, True), False, 1000).lead
    log.entries.append((2, "leader"))
    return raft, log


def test_who_may_fetch_from_the_log_and_who_needs_the_snapshot() -> None:
    raft, log = led([(1, "x")] * 5)
    log.take_snapshot(5)
    log.clean()

    def snapshot_for(offset: int, last_epoch: int) -> LogEnd | None:
        return raft.receive_fetch(FetchPosition(ReplicaKey(2), 2, offset, last_epoch), 1000)[0].snapshot

    assert snapshot_for(0, -1) == LogEnd(1, 5)
    assert snapshot_for(4, 1) == LogEnd(1, 5)
    assert snapshot_for(5, 1) is None
    assert snapshot_for(5, 0) == LogEnd(1, 5), "what it has before the log's beginning is something else"
    assert snapshot_for(6, 0) == LogEnd(1, 5)
    assert snapshot_for(6, 2) is None


def test_a_snapshot_is_given_by_the_leader_of_the_epoch_only() -> None:
    raft, _log = led([(1, "x")] * 5)

    def error(epoch: int) -> ErrorCode:
        return raft.receive_fetch_snapshot(SnapshotPosition(ReplicaKey(2), epoch, LogEnd(1, 5), 0), 1000)[0].error

    assert error(1) == ErrorCode.FENCED_LEADER_EPOCH
    assert error(3) == ErrorCode.UNKNOWN_LEADER_EPOCH
    assert error(2) == ErrorCode.NONE
    assert replica().receive_fetch_snapshot(SnapshotPosition(ReplicaKey(2), 1, LogEnd(1, 5), 0), 0)[0].error == (
        ErrorCode.NOT_LEADER_OR_FOLLOWER
    )


def test_a_leader_hears_of_who_copies_its_snapshot() -> None:
    """It takes longer than a check of the quorum: who copies must not look dead meanwhile."""
    raft, _log = led([(1, "x")] * 5)
    raft.receive_fetch_snapshot(SnapshotPosition(ReplicaKey(2), 2, LogEnd(1, 5), 0), 1250)
    raft.tick(1301)
    assert raft.is_leader
    raft.tick(1551)
    assert not raft.is_leader


def test_a_snapshot_that_the_leader_has_no_more_is_given_up() -> None:
    raft = replica()
    raft.receive_begin_epoch(BeginEpochRequest(3, 1, ReplicaKey(1)), 0)
    raft.receive_fetch_response(3, FetchVerdict(ErrorCode.NONE, 1, 3, 9, snapshot=LogEnd(1, 9)), 0)
    assert raft.fetching == LogEnd(1, 9)
    raft.receive_fetch_snapshot_response(3, SnapshotVerdict(ErrorCode.NONE, 1, 3, LogEnd(1, 9), 900, 0), 150)
    assert raft.fetching == LogEnd(1, 9)
    assert 350 <= raft.next_deadline_ms() <= 350 + LEADER_LOST_MS_MAX, "the leader lives"
    raft.receive_fetch_snapshot_response(3, SnapshotVerdict(ErrorCode.SNAPSHOT_NOT_FOUND, 1, 3, LogEnd(1, 9)), 200)
    assert raft.fetching is None


def test_a_new_leader_is_asked_anew_what_is_missing() -> None:
    raft = replica()
    raft.receive_begin_epoch(BeginEpochRequest(3, 1, ReplicaKey(1)), 0)
    raft.receive_fetch_response(3, FetchVerdict(ErrorCode.NONE, 1, 3, 9, snapshot=LogEnd(1, 9)), 0)
    raft.receive_begin_epoch(BeginEpochRequest(2, 2, ReplicaKey(1)), 0)
    assert raft.fetching is None


def test_what_a_snapshot_holds_was_committed() -> None:
    log = ListLog()
    log.entries = [(1, "x")] * 5
    log.take_snapshot(4)
    raft = Raft(
        replica=ReplicaKey(1),
        voters=THREE,
        election=Election(epoch=1),
        log=log,
        timeouts=TIMEOUTS,
        random=Random(1),
        now_ms=0,
    )
    assert raft.high_watermark == 4


def test_an_observer_follows_and_never_stands_for_election() -> None:
    cluster = RaftCluster(3, seed=8, observers=1)
    cluster.elect().append("x")
    cluster.run(cluster.now_ms + 500)
    observer = cluster.nodes[4]
    assert observer.log.entries == cluster.history
    for voter in (1, 2, 3):
        cluster.nodes[voter].crash()
    cluster.run(cluster.now_ms + 3000)
    assert observer.raft.role is Role.UNATTACHED
    assert len(cluster.leaders) == 1


def test_voters_come_and_go_one_at_a_time() -> None:
    cluster = RaftCluster(1, seed=9, observers=2)
    leader = cluster.elect()
    cluster.run(cluster.now_ms + 200)
    assert leader.change_voters(2) is None
    refused = leader.change_voters(3)
    assert refused is not None
    assert refused.error == ErrorCode.REQUEST_TIMED_OUT, "the change before it is not committed yet"
    cluster.run(cluster.now_ms + 200)
    assert leader.change_voters(3) is None
    cluster.run(cluster.now_ms + 200)
    assert {node.raft.voters.ids for node in cluster.nodes.values()} == {(1, 2, 3)}
    leader.crash()
    new = cluster.elect()
    assert new.id in (2, 3)
    refused = new.change_voters(1)
    assert refused is not None
    assert refused.error == ErrorCode.REQUEST_TIMED_OUT, "it has not committed anything in its epoch yet"
    cluster.run(cluster.now_ms + 200)
    assert new.change_voters(1) is None
    cluster.run(cluster.now_ms + 200)
    assert new.raft.voters.ids == (2, 3)


def test_a_new_voter_must_have_the_log_first() -> None:
    cluster = RaftCluster(1, seed=10, observers=1)
    cluster.nodes[2].crash()
    leader = cluster.elect()
    refused = leader.change_voters(2)
    assert refused is not None
    assert refused.error == ErrorCode.REQUEST_TIMED_OUT
    cluster.nodes[2].start()
    cluster.run(cluster.now_ms + 200)
    assert leader.change_voters(2) is None


def test_a_leader_that_is_voted_out_goes_when_that_is_committed() -> None:
    cluster = RaftCluster(3, seed=11)
    leader = cluster.elect()
    assert leader.change_voters(leader.id) is None
    assert leader.raft.is_leader, "until then it leads, though its own log counts no more"
    left_ms = cluster.now_ms
    new = cluster.elect()
    while new is leader:
        new = cluster.elect()
    assert cluster.now_ms - left_ms < TIMEOUTS.election_ms
    new.append("x")
    cluster.run(cluster.now_ms + 500)
    assert leader.log.entries == cluster.history, "and follows"
    assert len(new.raft.voters) == 2


def test_who_voted_itself_out_still_stands_while_the_others_need_its_log() -> None:
    """Else nobody could be elected: the other one needs its vote, and it votes for no log shorter than its own."""
    cluster = RaftCluster(2, seed=192)
    old = cluster.elect()
    cluster.run(cluster.now_ms + 200)
    other = next(node for node in cluster.nodes.values() if node is not old)
    cluster.cut = {frozenset((1, 2))}
    assert old.change_voters(old.id) is None
    cluster.run(cluster.now_ms + 1000)
    assert not old.raft.is_leader
    cluster.cut = set()
    cluster.run(cluster.now_ms + 2000)
    assert cluster.leader() is other
    assert other.raft.voters.ids == (other.id,)
    assert old.raft.high_watermark == other.raft.high_watermark


def test_who_stands_with_another_disk_than_the_voter_of_its_id_has_no_vote() -> None:
    class OnceVoted(ListLog):
        def may_vote(self, replica: ReplicaKey, committed: int) -> bool:
            return True

    others = [Voter(ReplicaKey(node_id, b"x" * 16)) for node_id in (1, 2, 3)]
    raft = Raft(
        replica=ReplicaKey(1, b"y" * 16),
        voters=VoterSet(others),
        election=Election(epoch=1),
        log=OnceVoted(),
        timeouts=TIMEOUTS,
        random=Random(1),
        now_ms=0,
    )
    raft.tick(1000)
    assert raft.role is Role.PROSPECTIVE
    raft.receive_vote_response(2, VoteResponse(ErrorCode.NONE, 1, -1, True), True, 1000)
    assert raft.role is Role.PROSPECTIVE, "one vote of three, not two"
    raft.receive_vote_response(3, VoteResponse(ErrorCode.NONE, 1, -1, True), True, 1000)
    assert raft.role is Role.CANDIDATE


def test_the_last_voter_stays() -> None:
    cluster = RaftCluster(1, seed=12)
    refused = cluster.elect().change_voters(1)
    assert refused is not None
    assert refused.error == ErrorCode.VOTER_NOT_FOUND


def test_a_change_of_voters_that_is_cut_off_never_counted() -> None:
    cluster = RaftCluster(3, seed=13, observers=1)
    old = cluster.elect()
    cluster.run(cluster.now_ms + 200)
    cluster.cut = {frozenset((old.id, other)) for other in cluster.nodes if other != old.id}
    assert old.change_voters(4) is None
    assert old.raft.voters.ids == (1, 2, 3, 4)
    cluster.run(cluster.now_ms + 2000)
    new = cluster.leader()
    assert new is not None
    new.append("x")
    cluster.cut = set()
    cluster.run(cluster.now_ms + 2000)
    assert old.raft.voters.ids == (1, 2, 3)


@pytest.mark.parametrize("seed", range(40))
def test_chance(seed: int) -> None:
    """Crashes, cuts, losses, snapshots, other voters; `RaftCluster` checks every step, and at last all agree."""
    size, observers = [(3, 0), (5, 0), (3, 2), (1, 4)][seed % 4]
    cluster = RaftCluster(
        size, seed, observers=observers, loss=0.05 * (seed % 3), delay_ms_max=5 + 20 * (seed // 4 % 4)
    )
    chance = Random(seed)
    for number in range(60):
        cluster.run(cluster.now_ms + chance.uniform(10, 200))
        node = chance.choice(list(cluster.nodes.values()))
        match chance.randrange(10):
            case 0 if node.is_up:
                node.crash()
            case 1 if not node.is_up:
                node.start()
            case 2 if node.is_up and node.raft.high_watermark > 0:
                node.log.take_snapshot(node.raft.high_watermark)
            case 3 if node.is_up:
                node.log.clean()
            case 4 | 5 if cluster.leader() is not None:
                cluster.leader().change_voters(node.id)  # type: ignore[union-attr]
            case 6:
                pair = frozenset(chance.sample(list(cluster.nodes), 2))
                cluster.cut.symmetric_difference_update({pair})
            case _:
                leader = cluster.leader()
                if leader is not None:
                    leader.append(str(number))
    cluster.cut = set()
    cluster.loss = 0
    for node in cluster.nodes.values():
        if not node.is_up:
            node.start()
    cluster.run(cluster.now_ms + 3000)  # an election may be under way; what its loser appends would rightly be lost
    cluster.elect().append("last")
    cluster.run(cluster.now_ms + 3000)
    assert cluster.history[-1][1] == "last"
    assert {tuple(node.log.entries) for node in cluster.nodes.values()} == {tuple(cluster.history)}


def test_a_leader_found_by_asking_it_has_its_word_about_the_log() -> None:
    """A replica that knew of no leader took the answer for news alone, and then counted what it should have cut."""
    raft = replica(election=Election(epoch=3), entries=5)
    diverging = LogEnd(1, 3)
    output = raft.receive_fetch_response(2, FetchVerdict(ErrorCode.NONE, 3, 2, 9, diverging=diverging), 0)
    assert (raft.role, raft.leader_id) == (Role.FOLLOWER, 2)
    assert output.truncate_to == 3

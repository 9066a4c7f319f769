"""Voters on their way from the configuration into the log. tests/cluster/test_voters.py has what else changes them."""

import sys
from pathlib import Path
from random import Random

from barnabas.consensus import membership
from barnabas.consensus.membership import Refusal
from barnabas.consensus.messages import FetchPosition, VoteResponse
from barnabas.consensus.raft import Election, Raft
from barnabas.consensus.voter_history import VoterHistory
from barnabas.consensus.voters import ReplicaKey, Voter, VoterEndpoint, VoterSet
from barnabas.errors import ErrorCode

sys.path.insert(0, str(Path(__file__).parents[2] / "support"))
from raft_cluster import TIMEOUTS, ListLog

ENDPOINTS = (VoterEndpoint("CONTROLLER", "localhost", 9093),)
ONE, OTHER = ReplicaKey(1, b"1" * 16), ReplicaKey(2, b"2" * 16)
CONFIGURED = VoterSet(Voter(ReplicaKey(node_id), ENDPOINTS) for node_id in (1, 2))


def leader(voters: VoterSet = CONFIGURED) -> Raft:
    raft = Raft(
        replica=ONE, voters=voters, election=Election(1), log=ListLog(), timeouts=TIMEOUTS, random=Random(1), now_ms=0
    )
    raft.tick(10_000)
    for pre_vote in (True, False):
        raft.receive_vote_response(2, VoteResponse(ErrorCode.NONE, raft.epoch, -1, True), pre_vote, 10_000)
    assert raft.is_leader
    return raft


def test_every_voter_is_written_with_its_directory() -> None:
    raft = leader()
    raft.receive_fetch(FetchPosition(OTHER, raft.epoch, 0, -1), 10_000)
    assert membership.upgrade(raft, VoterHistory(CONFIGURED)) == VoterSet(Voter(key, ENDPOINTS) for key in (ONE, OTHER))


def test_a_voter_that_was_not_heard_of_has_no_directory_yet() -> None:
    refusal = membership.upgrade(leader(), VoterHistory(CONFIGURED))
    assert isinstance(refusal, Refusal)
    assert refusal.error is ErrorCode.INVALID_UPDATE_VERSION
    assert "voter 2" in (refusal.message or "")


def test_a_voter_that_nobody_could_reach_is_not_written() -> None:
    alone = VoterSet([Voter(ReplicaKey(1))])
    refusal = membership.upgrade(leader(alone), VoterHistory(alone))
    assert isinstance(refusal, Refusal)
    assert refusal.error is ErrorCode.INVALID_UPDATE_VERSION
    assert "controller.listener.names" in (refusal.message or "")


def test_who_does_not_lead_upgrades_nothing() -> None:
    raft = leader()
    raft.resign(10_000)
    refusal = membership.upgrade(raft, VoterHistory(CONFIGURED))
    assert isinstance(refusal, Refusal)
    assert refusal.error is ErrorCode.NOT_CONTROLLER

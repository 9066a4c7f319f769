"""The simulation proves itself for several nodes: bugs that are planted on purpose are found, each within some seeds.

Each is a mistake that loses nothing while all nodes stay up and hear each other.
"""

from collections.abc import Callable
from itertools import islice

import pytest
from planted_bugs import seeds_to_try

from barnabas.consensus.raft import Election
from barnabas.controller.partition_change import PartitionChange
from barnabas.log.checkpoint import QUORUM_STATE_FILE_NAME
from barnabas.replication.leader import LeaderState
from barnabas.runtime.interfaces import Buffer
from barnabas.server.quorum.metadata_log import MetadataLog
from barnabas.server.replicas import replica_fetch
from barnabas.simulation.character import Character
from barnabas.simulation.disk import SimulatedDisk
from barnabas.simulation.run import LIVENESS, Options, Result, run_seed
from barnabas.types import NO_LEADER

SEEDS_MAX = 40
OPTIONS = Options(nodes=3, seconds=10)


def find(known: int, wanted: Callable[[Character], bool]) -> Result:
    """The first run that fails, among those of the wanted kind."""
    for seed in islice(seeds_to_try(known, wanted, OPTIONS.nodes), SEEDS_MAX):
        result = run_seed(seed, OPTIONS)
        if result.failure is not None:
            return result
    raise AssertionError(f"not found within {SEEDS_MAX} seeds")


def skip_truncations(monkeypatch: pytest.MonkeyPatch) -> None:
    """A follower is never told that its log departs from its leader's."""
    monkeypatch.setattr(replica_fetch, "diverging_epoch", lambda log, last_fetched_epoch, fetch_offset: None)


def acknowledge_before_replication(monkeypatch: pytest.MonkeyPatch) -> None:
    def eager(self: LeaderState) -> int:
        self.high_watermark = max(self.high_watermark, self.end_offset)
        return self.high_watermark

    monkeypatch.setattr(LeaderState, "_advance", eager)


def elect_from_outside_the_isr(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first of the replicas that is alive, be it in sync or not."""

    def careless(self: PartitionChange) -> tuple[int, bool]:
        alive = [replica for replica in self.replicas if self.rules.can_lead(replica)]
        return (alive[0], alive[0] not in self.isr) if alive else (NO_LEADER, False)

    monkeypatch.setattr(PartitionChange, "_choose", careless)


def forget_a_vote(monkeypatch: pytest.MonkeyPatch) -> None:
    """A voter that starts again knows its epoch, and not for whom it has voted in it."""
    read_election = MetadataLog.read_election

    def forgetful(self: MetadataLog) -> Election:
        return read_election(self)._replace(voted=None)

    monkeypatch.setattr(MetadataLog, "read_election", forgetful)


def skip_the_sync_of_a_vote(monkeypatch: pytest.MonkeyPatch) -> None:
    write_atomically = SimulatedDisk.write_atomically

    def hasty(self: SimulatedDisk, path: str, data: Buffer) -> None:
        if not path.endswith(QUORUM_STATE_FILE_NAME):
            write_atomically(self, path, data)
            return
        aside = self.open(path + ".tmp")
        aside.truncate(0)
        aside.write(0, data)
        aside.close()
        self.rename(path + ".tmp", path)

    monkeypatch.setattr(SimulatedDisk, "write_atomically", hasty)


def has(*kinds: str) -> Callable[[Character], bool]:
    return lambda character: all(character.plan.rates.get(kind, 0) > 0.05 for kind in kinds)


@pytest.mark.parametrize(
    ("plant", "wanted", "known"),
    [
        (skip_truncations, has("cut off", "reset"), 69),
        (acknowledge_before_replication, has("cut off"), 5),
        (elect_from_outside_the_isr, has("kill", "pause"), 25),
        (forget_a_vote, has("kill"), 21),
        (skip_the_sync_of_a_vote, has("power"), 1),
    ],
)
def test_a_planted_bug_is_found(
    plant: Callable[[pytest.MonkeyPatch], None],
    wanted: Callable[[Character], bool],
    known: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plant(monkeypatch)
    found = find(known, wanted)
    assert found.failure is not None
    assert found.failure.kind != LIVENESS
    again = run_seed(found.seed, OPTIONS)
    assert again.failure is not None
    assert again.failure.message == found.failure.message

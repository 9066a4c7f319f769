"""The simulation proves itself for the clients: mistakes of `barnabas.client` are found, each within some seeds.

Each is one that no application notices while its group, its transactions and its partitions are left in peace.
"""

from collections.abc import Callable
from itertools import islice

import pytest
from planted_bugs import seeds_to_try

from barnabas.client.consuming.group_member import Change, ChangeKind, GroupMember
from barnabas.client.errors import KafkaError
from barnabas.client.producing.accumulator import Accumulator, Batch
from barnabas.simulation.character import Character
from barnabas.simulation.run import CORRECTNESS, CRASH, Options, Result, run_seed

SEEDS_MAX = 60
OPTIONS = Options(nodes=3, seconds=8)

Plant = Callable[[pytest.MonkeyPatch], None]
Wanted = Callable[[Character], bool]


def find(known: int, wanted: Wanted) -> Result:
    """The first run that fails, among those of the wanted kind."""
    for seed in islice(seeds_to_try(known, wanted, OPTIONS.nodes), SEEDS_MAX):
        result = run_seed(seed, OPTIONS)
        if result.failure is not None:
            return result
    raise AssertionError(f"not found within {SEEDS_MAX} seeds")


def send_again_out_of_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each attempt has a sequence of its own, so that what was written after all is written twice."""
    failed = Accumulator.failed

    def forgetful(self: Accumulator, batch: Batch, error: KafkaError, now_ms: float) -> bool:
        again = failed(self, batch, error, now_ms)
        if again:
            batch.base_sequence = -1
        return again

    monkeypatch.setattr(Accumulator, "failed", forgetful)


def forget_the_change_under_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who is thrown out of its group while its listener is busy takes the end of that for the end of its loss."""

    def forgetful(self: GroupMember) -> None:
        self._changes.clear()
        if self.owned:
            self._changes.append(Change(ChangeKind.LOST, self.owned))

    monkeypatch.setattr(GroupMember, "_lose_everything", forgetful)


def has_members(character: Character) -> bool:
    return character.members > 1


def has_producers(character: Character) -> bool:
    return any(idempotent for _acks, idempotent in character.applications)


@pytest.mark.parametrize(
    ("plant", "wanted", "known"),
    [
        (send_again_out_of_order, has_producers, 4),
        (forget_the_change_under_way, has_members, 2),
    ],
)
def test_a_planted_bug_is_found(plant: Plant, wanted: Wanted, known: int, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    found = find(known, wanted)
    assert found.failure is not None
    assert found.failure.kind in (CORRECTNESS, CRASH)  # or the client itself finds that it has lost count
    again = run_seed(found.seed, OPTIONS)
    assert again.failure is not None
    assert again.failure.message == found.failure.message

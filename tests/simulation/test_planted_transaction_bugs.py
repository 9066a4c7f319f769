"""The simulation proves itself for transactions and compaction: each checker finds a bug that is planted for it.

Each is a mistake that does no harm while everybody ends what was begun, and nothing is late. Only the checker that a
bug is planted for looks, so that none of them lives on the strength of the others.
"""

import asyncio
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any

import pytest
from planted_bugs import seeds_to_try

from barnabas.coordination.outcome import Outcome
from barnabas.errors import ErrorCode
from barnabas.groups.shard import GroupShard
from barnabas.log.batch_retention import BatchRetention
from barnabas.log.file_range import FileRange
from barnabas.log.log import Log
from barnabas.log.offset_map import OffsetMap
from barnabas.log.transaction_index import AbortedTransaction
from barnabas.protocol.checksum import Buffer
from barnabas.protocol.record_batch import BatchHeader
from barnabas.server.coordinators import transaction_markers, transactional_produce
from barnabas.server.coordinators.coordinator_shard import CoordinatorShard, ShardState, give_all
from barnabas.server.coordinators.transaction_markers import MarkerSender
from barnabas.server.coordinators.transaction_shard import LedTransactions
from barnabas.simulation import run
from barnabas.simulation.character import Character
from barnabas.simulation.checker import Checker
from barnabas.simulation.faults import FaultPlan
from barnabas.simulation.run import CORRECTNESS, LIVENESS, Options, Result, run_seed
from barnabas.simulation.table_checkers import CompactedIsADict
from barnabas.simulation.transaction_checkers import (
    CommittedSurvives,
    CopiedOnce,
    NoAbortedReads,
    NoCircularReads,
    NoIntermediateReads,
    OffsetsFollow,
    StableReadersAgree,
    TransactionsAreWhole,
)
from barnabas.transactions.markers import Markers
from barnabas.transactions.transaction import Transaction

SEEDS_MAX = 40
SECONDS = 5
LIVENESS_SECONDS = 60  # enough for all who get on at all
LATE_SECONDS = 0.3

Plant = Callable[[pytest.MonkeyPatch], None]
Wanted = Callable[[Character], bool]


def find(known: int, wanted: Wanted, nodes: int) -> Result:
    """The first run that fails, among those of the wanted kind."""
    for seed in islice(seeds_to_try(known, wanted, nodes), SEEDS_MAX):
        result = run_seed(seed, Options(nodes=nodes, seconds=SECONDS, liveness_seconds=LIVENESS_SECONDS))
        if result.failure is not None:
            return result
    raise AssertionError(f"not found within {SEEDS_MAX} seeds")


def list_no_aborted_transactions(monkeypatch: pytest.MonkeyPatch) -> None:
    def forgetful(self: Log, offset: int, found: FileRange) -> list[AbortedTransaction]:
        return []

    monkeypatch.setattr(Log, "aborted_transactions", forgetful)


def list_aborted_transactions_while_the_process_lives(monkeypatch: pytest.MonkeyPatch) -> None:
    """What another process has written is believed to be committed."""
    known: dict[int, int] = {}
    listed = Log.aborted_transactions

    def forgetful(self: Log, offset: int, found: FileRange) -> list[AbortedTransaction]:
        began = known.setdefault(id(self.producers), self.log_end_offset)
        return [each for each in listed(self, offset, found) if each.last_offset >= began]

    monkeypatch.setattr(Log, "aborted_transactions", forgetful)


def let_everybody_read_up_to_the_watermark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Log, "last_stable_offset", property(lambda self: self.high_watermark))


def keep_the_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Transaction, "_fenced", lambda self: self)


def answer_before_the_decision_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is written a little later, unless something else has been decided by then."""
    perform: Callable[[CoordinatorShard[Any], Outcome], ErrorCode] = CoordinatorShard._perform

    def hasty(self: CoordinatorShard[Any], outcome: Outcome) -> ErrorCode:
        if not isinstance(self, LedTransactions) or not outcome.answers or not outcome.effects:
            return perform(self, outcome)
        (markers,) = outcome.effects
        known = self.shard.transactions[markers.transactional_id]

        def later() -> None:
            if self.state is ShardState.ACTIVE and self.shard.transactions[markers.transactional_id] is known:
                perform(self, outcome._replace(answers=()))

        give_all(outcome.answers)
        asyncio.get_running_loop().call_later(LATE_SECONDS, later)
        return ErrorCode.NONE

    monkeypatch.setattr(CoordinatorShard, "_perform", hasty)


def tear_what_is_committed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A marker is written twice, the second time with its result forgotten, and the first to arrive counts."""
    send = MarkerSender.send

    def careless(self: MarkerSender, markers: Markers) -> None:
        first, *others = markers.partitions
        if markers.committed and others:
            send(self, markers._replace(partitions={first: None}, committed=False))
        send(self, markers)

    monkeypatch.setattr(MarkerSender, "send", careless)


def drop_a_marker(monkeypatch: pytest.MonkeyPatch) -> None:
    """The last one of each transaction, as if it were written."""
    make = transaction_markers._Sending.__init__

    def careless(self: Any, markers: Markers) -> None:
        make(self, markers)
        if len(self.remaining) > 1:
            self.remaining.popitem()

    monkeypatch.setattr(transaction_markers._Sending, "__init__", careless)


def forget_offsets_at_the_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    ended = GroupShard.transaction_ended

    def forgetful(self: GroupShard, producer_id: int, *, committed: bool) -> None:
        ended(self, producer_id, committed=False)

    monkeypatch.setattr(GroupShard, "transaction_ended", forgetful)


def write_without_asking_the_coordinator(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transactional_produce, "check", lambda broker, request, api_version: {})


def drop_the_last_of_each_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only what comes after it is kept: one too few."""
    get_all = OffsetMap.get_all

    def careless(self: OffsetMap, keys: Sequence[bytes]) -> list[int]:
        return [offset + (offset >= 0) for offset in get_all(self, keys)]

    monkeypatch.setattr(OffsetMap, "get_all", careless)


def drop_markers_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def hasty(self: BatchRetention, header: BatchHeader, batch: memoryview, is_over: bool) -> Buffer | None:
        return self._kept_empty(header)

    monkeypatch.setattr(BatchRetention, "_kept_marker", hasty)


def is_transactional(character: Character) -> bool:
    return character.is_transactional


def has_twins(character: Character) -> bool:
    """Then transactions often end in another way than their producer had meant."""
    return any(copier.has_twin for copier in character.copiers)


def has_several(character: Character) -> bool:
    return len(character.copiers) > 1


def has_version(version: int) -> Wanted:
    return lambda character: character.is_transactional and character.transaction_version == version


def compacts(character: Character) -> bool:
    return character.keyed_producers > 0 and "log.roll.ms" in character.settings


def compacts_transactions(character: Character) -> bool:
    return character.is_transactional and compacts(character)


@pytest.mark.parametrize(
    ("plant", "checker", "wanted", "nodes", "faults", "known"),
    [
        (list_no_aborted_transactions, NoAbortedReads, is_transactional, 3, {}, 0),
        (let_everybody_read_up_to_the_watermark, NoIntermediateReads, is_transactional, 3, {}, 0),
        (let_everybody_read_up_to_the_watermark, NoCircularReads, has_several, 3, {}, 30),
        (keep_the_epoch, None, has_version(2), 3, {}, 0),
        (answer_before_the_decision_is_written, CommittedSurvives, has_twins, 3, {}, 5),
        (tear_what_is_committed, TransactionsAreWhole, is_transactional, 3, {}, 0),
        (forget_offsets_at_the_commit, CopiedOnce, has_twins, 3, {}, 5),
        (forget_offsets_at_the_commit, OffsetsFollow, is_transactional, 3, {}, 0),
        (list_aborted_transactions_while_the_process_lives, StableReadersAgree, is_transactional, 1, {"kill": 0.5}, 17),
        (drop_a_marker, None, is_transactional, 3, {}, 0),
        (write_without_asking_the_coordinator, None, has_version(2), 3, {}, 0),
        (drop_the_last_of_each_key, CompactedIsADict, compacts, 3, {}, 44),
        (drop_markers_at_once, None, compacts_transactions, 1, {}, 129),
    ],
)
def test_a_planted_bug_is_found(
    plant: Plant,
    checker: type[Checker] | None,
    wanted: Wanted,
    nodes: int,
    faults: dict[str, float],
    known: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Without a checker it is found by what no longer gets on; with `faults`, where there are these and no others."""
    plant(monkeypatch)
    if faults:
        plan = FaultPlan(rates=faults)
        monkeypatch.setattr(FaultPlan, "drawn", lambda *_chance, **_world: plan)
    monkeypatch.setattr(run, "all_checkers", lambda promises: [checker(promises)] if checker else [])
    found = find(known, wanted, nodes)
    assert found.failure is not None
    assert found.failure.kind == (CORRECTNESS if checker else LIVENESS), found.failure.message

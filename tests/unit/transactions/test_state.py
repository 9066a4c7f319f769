"""The tables of states are complete, and agree with each other."""

from __future__ import annotations

import itertools

import pytest

from barnabas.errors import ErrorCode
from barnabas.transactions.state import AT_REST, BEFORE, END, END_OLD, NAMES, PREPARED, STATES_BY_NAME, End
from barnabas.transactions.state import TransactionState as S
from barnabas.transactions.transaction import Transaction
from barnabas.types import TopicPartition

IN_THE_LOG = [state for state in S if state not in (S.DEAD, S.PREPARE_EPOCH_FENCE)]  # the others Kafka never writes


def test_names_are_those_of_kafka() -> None:
    assert list(NAMES.values()) == [
        "Empty",
        "Ongoing",
        "PrepareCommit",
        "PrepareAbort",
        "CompleteCommit",
        "CompleteAbort",
        "Dead",
        "PrepareEpochFence",
    ]
    assert STATES_BY_NAME["PrepareAbort"] is S.PREPARE_ABORT


def test_every_end_has_an_answer_in_every_state() -> None:
    assert set(END_OLD) == set(itertools.product(IN_THE_LOG, (True, False)))
    for state, committed in END_OLD:
        assert (state, committed, False) in END or state in PREPARED
        assert (state, committed, True) in END or state in (S.EMPTY, S.ONGOING)


@pytest.mark.parametrize("table", [END, END_OLD])
def test_only_what_may_be_prepared_is_prepared(table: dict[tuple[S, ...], End | ErrorCode]) -> None:
    for (state, committed, *_), verdict in table.items():
        target = S.PREPARE_COMMIT if committed else S.PREPARE_ABORT
        if verdict in (End.PREPARE, End.PREPARE_NOTHING):
            assert state in BEFORE[target]
        if verdict is End.PREPARE_NOTHING:
            assert state in AT_REST
            assert not committed


def test_a_step_that_is_not_in_the_table_is_a_bug() -> None:
    ongoing = Transaction("x", 1, 0, 60_000).added([TopicPartition("t", 0)], client_version=2, now_ms=1)
    with pytest.raises(AssertionError):
        ongoing.completed(2)
    with pytest.raises(AssertionError):
        ongoing.initialized(epoch=1, last_epoch=-1, timeout_ms=1, now_ms=2)
    prepared = ongoing.prepared(committed=True, client_version=2, next_producer_id=-1, now_ms=2)
    with pytest.raises(AssertionError):
        prepared.added([], client_version=2, now_ms=3)
    with pytest.raises(AssertionError):
        prepared.fenced(server_version=2, now_ms=3)

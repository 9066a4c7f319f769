"""What a consumer reads and how far it is: positions that are found, checked, sought and kept."""

from __future__ import annotations

import re

import pytest

from barnabas.client.consuming.subscription import PartitionState, Phase, Position, SubscriptionState
from barnabas.client.errors import IllegalStateError
from barnabas.client.offsets import OffsetAndMetadata
from barnabas.protocol.special_numbers import EARLIEST_TIMESTAMP
from barnabas.types import TopicPartition

P0, P1 = TopicPartition("letters", 0), TopicPartition("letters", 1)


def assigned(*partitions: TopicPartition) -> SubscriptionState:
    state = SubscriptionState()
    state.assign(partitions)
    return state


def ready(position: Position) -> PartitionState:
    state = PartitionState()
    state.seek(position)
    return state


def test_one_kind_of_subscription_at_a_time() -> None:
    state = SubscriptionState()
    state.subscribe(["b", "a", "a"])
    assert state.topics == ("a", "b")
    with pytest.raises(IllegalStateError, match="call unsubscribe before it reads partitions"):
        state.assign([P0])
    with pytest.raises(IllegalStateError, match="a pattern"):
        state.subscribe_pattern(re.compile("x"))
    state.unsubscribe()
    state.assign([P0])
    assert list(state.partitions) == [P0]


def test_a_pattern_tells_news() -> None:
    state = SubscriptionState()
    state.subscribe_pattern(re.compile("l.*"))
    assert state.matched(["letters"])
    assert not state.matched(["letters"])
    assert state.matched(["letters", "lies"])


def test_what_is_kept_keeps_its_position() -> None:
    state = assigned(P0)
    state.state(P0).seek(Position(7))
    state.assign([P0, P1])
    assert state.state(P0).position == Position(7)
    assert state.state(P1).phase is Phase.NO_POSITION
    assert [each for each, _ in state.fetchable()] == [P0]
    with pytest.raises(IllegalStateError, match="others-3 is not assigned"):
        state.state(TopicPartition("others", 3))


def test_what_is_paused_or_held_is_not_fetched() -> None:
    state = assigned(P0, P1)
    for each in (P0, P1):
        state.state(each).seek(Position(0))
    state.state(P0).paused = True
    state.hold([P1], True)
    assert list(state.fetchable()) == []
    state.hold([P1], False)
    assert [each for each, _ in state.fetchable()] == [P1]


def test_a_position_under_an_older_leader_is_checked() -> None:
    state = ready(Position(10, 3, 3))
    state.leader_changed(3)
    assert state.phase is Phase.READY
    state.leader_changed(4)
    assert (state.phase, state.is_fetchable) == (Phase.UNCHECKED, False)
    state.checked(Position(9, 3, 3), 4)  # another position than was asked about
    assert state.phase is Phase.UNCHECKED
    state.checked(Position(10, 3, 3), 4)
    assert (state.phase, state.position) == (Phase.READY, Position(10, 3, 4))


def test_without_an_epoch_there_is_nothing_to_check() -> None:
    state = ready(Position(10))
    state.leader_changed(4)
    assert (state.phase, state.position) == (Phase.READY, Position(10, -1, 4))


def test_a_reset_forgets_the_position() -> None:
    state = ready(Position(10))
    state.reset(EARLIEST_TIMESTAMP)
    assert (state.phase, state.position) == (Phase.RESET, None)
    state.leader_changed(4)
    assert state.phase is Phase.RESET


def test_each_has_its_turn() -> None:
    state = assigned(P0, P1)
    state.state(P0).retry_at_ms = 100
    assert state.in_phase(Phase.NO_POSITION, 99) == [P1]
    assert state.in_phase(Phase.NO_POSITION, 100) == [P0, P1]


def test_what_was_consumed_can_be_committed() -> None:
    state = assigned(P0, P1)
    state.state(P0).seek(Position(10, 3, 4))
    assert state.consumed() == {P0: OffsetAndMetadata(10, "", 3)}

"""A follower's next step, for each answer that its leader may give."""

import pytest

from barnabas.errors import ErrorCode
from barnabas.replication.follower import Action, EpochEnd, Step, next_step


def step(
    error: ErrorCode = ErrorCode.NONE, diverging: EpochEnd | None = None, own: EpochEnd | None = None, start: int = 0
) -> Step:
    return next_step(
        error=error,
        diverging=diverging,
        own_epoch_end=own,
        log_start_offset=start,
        log_end_offset=100,
        leader_log_start_offset=40,
    )


def test_records_are_appended() -> None:
    assert step() == Step(Action.APPEND)


@pytest.mark.parametrize(
    ("diverging", "own", "offset"),
    [
        (EpochEnd(3, 80), EpochEnd(3, 90), 80),  # this log went on in an epoch that the leader knows shorter
        (EpochEnd(3, 95), EpochEnd(3, 90), 90),  # the leader knows it longer: the divergence is after its end here
        (EpochEnd(3, 80), EpochEnd(2, 60), 60),  # this log has nothing of epoch 3: back to the end of its epoch 2
        (EpochEnd(-1, -1), EpochEnd(2, 60), 0),  # the leader knows nothing so old
        (EpochEnd(3, 80), EpochEnd(-1, -1), 0),  # nor does this log
    ],
)
def test_a_departed_log_is_cut_by_epoch(diverging: EpochEnd, own: EpochEnd, offset: int) -> None:
    assert step(diverging=diverging, own=own) == Step(Action.TRUNCATE, offset)


def test_it_is_never_cut_below_its_start() -> None:
    assert step(diverging=EpochEnd(3, 80), own=EpochEnd(2, 60), start=70) == Step(Action.TRUNCATE, 70)


def test_out_of_range_starts_afresh_where_the_leader_starts() -> None:
    assert step(ErrorCode.OFFSET_OUT_OF_RANGE) == Step(Action.START_AFRESH, 40)


@pytest.mark.parametrize(
    ("error", "action"),
    [
        (ErrorCode.FENCED_LEADER_EPOCH, Action.STOP),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, Action.STOP),
        (ErrorCode.UNKNOWN_TOPIC_ID, Action.STOP),
        (ErrorCode.UNKNOWN_LEADER_EPOCH, Action.WAIT),  # the leader has not heard yet that it leads
        (ErrorCode.KAFKA_STORAGE_ERROR, Action.WAIT),
        (ErrorCode.UNKNOWN_SERVER_ERROR, Action.WAIT),
    ],
)
def test_errors(error: ErrorCode, action: Action) -> None:
    assert step(error).action is action

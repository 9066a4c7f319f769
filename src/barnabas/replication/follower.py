"""What a follower does with its leader's answer. It takes what it is given, and cuts only by epoch.

Holds: nothing is cut because of a high watermark. A follower's watermark may lag behind what was acknowledged, so to
cut at it would lose records (KIP-101); where the leader's history departs from its own, the epochs tell (KIP-595).
Does not know: bytes, files, sockets, time.
"""

from enum import Enum
from typing import NamedTuple

from barnabas.errors import ErrorCode
from barnabas.types import LeaderEpoch, Offset


class Action(Enum):
    APPEND = "append"  # the records, if any, and take up the watermark
    TRUNCATE = "truncate"  # to `offset`, and ask again
    START_AFRESH = "start afresh"  # nothing that it holds is in the leader's log: begin at `offset`
    WAIT = "wait"  # a passing trouble: ask again after a pause
    STOP = "stop"  # this leader is not the leader any more: wait for the metadata


class Step(NamedTuple):
    action: Action
    offset: Offset = -1


class EpochEnd(NamedTuple):
    epoch: LeaderEpoch
    end_offset: Offset


STOPPING = frozenset(
    {
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.INCONSISTENT_TOPIC_ID,
    }
)


def next_step(
    *,
    error: ErrorCode,
    diverging: EpochEnd | None,
    own_epoch_end: EpochEnd | None,
    log_start_offset: Offset,
    log_end_offset: Offset,
    leader_log_start_offset: Offset,
) -> Step:
    """`own_epoch_end` is where this log ends for the diverging epoch: the largest epoch not above it, and its end."""
    if error == ErrorCode.OFFSET_OUT_OF_RANGE:
        return Step(Action.START_AFRESH, leader_log_start_offset)
    if error in STOPPING:
        return Step(Action.STOP)
    if error != ErrorCode.NONE:
        return Step(Action.WAIT)
    if diverging is None:
        return Step(Action.APPEND)
    assert own_epoch_end is not None
    if own_epoch_end.epoch < 0 or diverging.epoch < 0:
        return Step(Action.TRUNCATE, log_start_offset)
    # Where this log does not know the leader's epoch, it must go back to its own earlier one and ask again.
    same = own_epoch_end.epoch == diverging.epoch
    offset = min(own_epoch_end.end_offset, diverging.end_offset) if same else own_epoch_end.end_offset
    return Step(Action.TRUNCATE, max(log_start_offset, min(offset, log_end_offset)))

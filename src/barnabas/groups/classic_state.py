"""The states of a classic group, and the words that its parts share."""

from enum import Enum

from barnabas.errors import ErrorCode
from barnabas.protocol.messages.join_group import JoinGroupResponse

NO_MEMBER_ID = ""


class ClassicState(Enum):
    """Kafka's names. A group that ends is gone at once, so that there is none that is dead."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"  # members join
    COMPLETING_REBALANCE = "CompletingRebalance"  # they have joined; the leader assigns
    STABLE = "Stable"


EMPTY = ClassicState.EMPTY
PREPARING_REBALANCE = ClassicState.PREPARING_REBALANCE
COMPLETING_REBALANCE = ClassicState.COMPLETING_REBALANCE
STABLE = ClassicState.STABLE


def join_failed(member_id: str, error: ErrorCode) -> JoinGroupResponse:
    return JoinGroupResponse(error_code=error, member_id=member_id, protocol_name=None)

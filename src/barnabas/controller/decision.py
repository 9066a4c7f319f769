"""What the controller's rules return."""

from collections.abc import Sequence
from typing import Generic, NamedTuple, TypeVar

from barnabas.errors import ErrorCode
from barnabas.protocol.message import Message

R = TypeVar("R")

# Records of one decision go into one batch, which every replica holds in memory whole. Kafka's number.
RECORDS_MAX = 10_000


class Decision(NamedTuple, Generic[R]):
    """The response counts from the moment at which the records are committed, and not before."""

    records: Sequence[Message]
    response: R


class Refusal(NamedTuple):
    """Why something asked for is not done."""

    error: ErrorCode
    message: str | None = None

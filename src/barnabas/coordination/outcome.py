"""What goes into a decision of a coordinator, and what comes out of it.

A request comes with a `Pending`, which stands for whoever waits. The decision gives answers at once, or keeps the
Pending and lets a later decision answer it: a JoinGroup is answered by the event that ends its rebalance.

Always holds: each Pending is answered exactly once. Answers and effects of an outcome count from the moment at which
its records, and all those before them, are committed.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from barnabas.coordination.records import CoordinatorRecord
from barnabas.errors import ErrorCode
from barnabas.protocol.message import Structure
from barnabas.types import ProducerId


class Moment(NamedTuple):
    """Two clocks, because one of them may jump."""

    wall_ms: int  # since 1970: for timestamps in records
    monotonic_ms: int  # never falls: for deadlines


class Client(NamedTuple):
    """Who asks."""

    api_version: int
    client_id: str
    client_host: str  # as Kafka writes it: a slash, then the address


class Producer(NamedTuple):
    """Whose transaction the records belong to."""

    id: ProducerId
    epoch: int


class Pending:
    """A request that waits. The rules only keep it and give it back; the shell's subclass knows whom to tell."""

    __slots__ = ()


class Answer(NamedTuple):
    pending: Pending
    response: Structure | ErrorCode  # a bare error becomes whatever the API in question has for one


class Outcome(NamedTuple):
    records: Sequence[CoordinatorRecord] = ()  # to be appended, then applied, before the next decision
    answers: Sequence[Answer] = ()
    group_id: str | None = None  # whose `append_failed` must know where the records cannot be written
    atomic: bool = True  # whether the records mean something only together, and so go into one batch
    again: bool = False  # the records make room for the request: once they are applied, decide it once more
    then: "Callable[[Any, Moment], Outcome] | None" = None  # once they are applied: the shard decides what follows
    producer: Producer | None = None  # the records count only if this producer's transaction is committed
    effects: Sequence[Any] = ()  # what the shell does once the records are committed


NOTHING = Outcome()


def answer(pending: Pending, response: Structure | ErrorCode, records: Sequence[CoordinatorRecord] = ()) -> Outcome:
    return Outcome(records, (Answer(pending, response),))

"""What goes into a decision about groups, and what comes out of it.

A request comes with a `Pending`, which stands for whoever waits. The decision gives answers at once, or keeps the
Pending and lets a later decision answer it: a JoinGroup is answered by the event that ends its rebalance.

Always holds: each Pending is answered exactly once. Answers of an outcome count from the moment at which its records,
and all those before them, are committed.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from barnabas.errors import ErrorCode
from barnabas.groups.records import GroupRecord
from barnabas.protocol.message import Structure

if TYPE_CHECKING:
    from barnabas.groups.shard import GroupShard


class Moment(NamedTuple):
    """Two clocks, because one of them may jump."""

    wall_ms: int  # since 1970: for timestamps in records
    monotonic_ms: int  # never falls: for deadlines


class Client(NamedTuple):
    """Who asks."""

    api_version: int
    client_id: str
    client_host: str  # as Kafka writes it: a slash, then the address


class Pending:
    """A request that waits. The rules only keep it and give it back; the shell's subclass knows whom to tell."""

    __slots__ = ()


class Answer(NamedTuple):
    pending: Pending
    response: Structure | ErrorCode  # a bare error becomes whatever the API in question has for one


class Outcome(NamedTuple):
    records: Sequence[GroupRecord] = ()  # to be appended, then applied, before the next decision
    answers: Sequence[Answer] = ()
    group_id: str | None = None  # whose `append_failed` must know where the records cannot be written
    atomic: bool = True  # whether the records mean something only together, and so go into one batch
    again: bool = False  # the records make room for the request: once they are applied, decide it once more
    then: "Callable[[GroupShard, Moment], Outcome] | None" = None  # once they are applied: what follows from that


NOTHING = Outcome()


class Draft:
    """An outcome in the making."""

    __slots__ = ("answers", "records")

    def __init__(self) -> None:
        self.records: list[GroupRecord] = []
        self.answers: list[Answer] = []

    def answer(self, pending: Pending, response: Structure | ErrorCode) -> None:
        self.answers.append(Answer(pending, response))

    def outcome(self, group_id: str | None = None) -> Outcome:
        return Outcome(self.records, self.answers, group_id) if self.records or self.answers else NOTHING


def answer(pending: Pending, response: Structure | ErrorCode, records: Sequence[GroupRecord] = ()) -> Outcome:
    return Outcome(records, (Answer(pending, response),))

"""What goes into a decision about groups, and what comes out of it.

A request comes with a `Pending`, which stands for whoever waits. The decision gives answers at once, or keeps the
Pending and lets a later decision answer it: a JoinGroup is answered by the event that ends its rebalance.

Always holds: each Pending is answered exactly once. Answers of an outcome count from the moment at which its records,
and all those before them, are committed.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from barnabas.errors import ErrorCode
from barnabas.groups.records import GroupRecord
from barnabas.protocol.message import Message


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
    response: Message | ErrorCode  # a bare error becomes whatever the API in question has for one


class Outcome(NamedTuple):
    records: Sequence[GroupRecord] = ()  # to be appended, then applied, before the next decision
    answers: Sequence[Answer] = ()
    group_id: str | None = None  # whose `append_failed` must know where the records cannot be written
    atomic: bool = True  # whether the records mean something only together, and so go into one batch


NOTHING = Outcome()


def answer(pending: Pending, response: Message | ErrorCode, records: Sequence[GroupRecord] = ()) -> Outcome:
    return Outcome(records, (Answer(pending, response),))


def answer_all(waiting: Iterable[Pending], response: Message | ErrorCode) -> list[Answer]:
    return [Answer(pending, response) for pending in waiting]

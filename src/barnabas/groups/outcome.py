"""What goes into a decision about groups, and what comes out of it: that of any coordinator, and a way to build it."""

from collections.abc import Callable
from typing import Any

from barnabas.coordination.outcome import NOTHING, Answer, Client, Moment, Outcome, Pending, answer
from barnabas.errors import ErrorCode
from barnabas.groups.records import GroupRecord
from barnabas.protocol.message import Structure

__all__ = ["NOTHING", "Answer", "Client", "Draft", "Moment", "Outcome", "Pending", "answer"]


class Draft:
    """An outcome in the making."""

    __slots__ = ("answers", "records", "then")

    def __init__(self) -> None:
        self.records: list[GroupRecord] = []
        self.answers: list[Answer] = []
        self.then: Callable[[Any, Moment], Outcome] | None = None

    def answer(self, pending: Pending, response: Structure | ErrorCode) -> None:
        self.answers.append(Answer(pending, response))

    def outcome(self, group_id: str | None = None) -> Outcome:
        if not self.records and not self.answers:
            return NOTHING
        return Outcome(self.records, self.answers, group_id, then=self.then)

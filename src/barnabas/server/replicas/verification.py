"""Which transactions of producers a partition may let begin: those that the coordinator has confirmed (KIP-890).

    guard = verifications.begin(producer, adds=…)    before the coordinator is asked
    verifications.end(producer, guard, state)        when the records are to be written: may they be?

Always holds: a guard is worth nothing once a marker, or another leader, has come between the two. So a late batch of a
transaction that has ended begins no new one, which nobody would ever end. Where each end raises the epoch, the marker
of the transaction before carries the epoch of the one that is about to begin, and leaves its guard alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.errors import ErrorCode
from barnabas.types import ProducerId

if TYPE_CHECKING:
    from barnabas.coordination.outcome import Producer
    from barnabas.log.producer_state import ProducerState


class Guard:
    """Questions to the coordinator that are under way, and all those who wait for their answers."""

    __slots__ = ("adds", "epoch", "waiting")

    def __init__(self, *, adds: bool) -> None:
        self.adds = adds  # the producer is of transaction version 2
        self.epoch = -1  # the highest of those who wait
        self.waiting = 0


class Verifications:
    __slots__ = ("_guards",)

    def __init__(self) -> None:
        self._guards: dict[ProducerId, Guard] = {}  # of producers whose records have not been written yet

    def begin(self, producer: Producer, *, adds: bool) -> Guard:
        guard = self._guards.setdefault(producer.id, Guard(adds=adds))
        guard.epoch = max(guard.epoch, producer.epoch)
        guard.waiting += 1
        return guard

    def end(self, producer: Producer, guard: Guard, state: ProducerState | None) -> ErrorCode:
        """Why its records may not be written though the coordinator has confirmed them; NONE where they may."""
        guard.waiting -= 1
        holds = self._guards.get(producer.id) is guard
        if holds and not guard.waiting:
            del self._guards[producer.id]
        if state is not None and producer.epoch < state.epoch:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        return ErrorCode.NONE if holds or has_begun(state, producer) else ErrorCode.INVALID_TXN_STATE

    def marker_written(self, producer: Producer) -> None:
        """Its transaction has ended. A marker of transaction version 2 carries the epoch of the next one."""
        guard = self._guards.get(producer.id)
        if guard is not None and not (guard.adds and guard.epoch == producer.epoch):
            del self._guards[producer.id]

    def clear(self) -> None:
        self._guards.clear()


def has_begun(state: ProducerState | None, producer: Producer) -> bool:
    """Its transaction, in this partition: then the coordinator knows of it."""
    return state is not None and state.in_transaction and state.epoch == producer.epoch

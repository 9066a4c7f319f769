"""Which transactions of producers a partition may let begin: those that the coordinator has confirmed (KIP-890).

    guard = verifications.begin(producer_id)     before the coordinator is asked
    verifications.holds(producer_id, guard)      when the records are to be written

Always holds: a guard is worth nothing once a marker, or another leader, has come between the two. So a late batch of a
transaction that has ended begins no new one, which nobody would ever end.
"""

from barnabas.types import ProducerId


class Guard:
    """One question to the coordinator, and all those who wait for its answer."""

    __slots__ = ()


class Verifications:
    __slots__ = ("_guards",)

    def __init__(self) -> None:
        self._guards: dict[ProducerId, Guard] = {}  # of producers whose records have not been written yet

    def begin(self, producer_id: ProducerId) -> Guard:
        return self._guards.setdefault(producer_id, Guard())

    def holds(self, producer_id: ProducerId, guard: Guard) -> bool:
        return self._guards.get(producer_id) is guard

    def forget(self, producer_id: ProducerId) -> None:
        """Its records were written, its transaction has ended, or the coordinator knows nothing of it."""
        self._guards.pop(producer_id, None)

    def clear(self) -> None:
        self._guards.clear()

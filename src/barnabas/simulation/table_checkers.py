"""What must hold of compacted topics: read from end to end they are the plain dict of what was acknowledged.

Of what nobody knows the end of, be it a write or a transaction, either state is right, as long as nothing came after.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from barnabas.simulation.checker import Checker, Promises
from barnabas.simulation.history import (
    Batch,
    Event,
    PartitionId,
    ProduceAcknowledged,
    ProduceAsked,
    TableFetched,
    TableReadAnew,
    TransactionEnded,
    TransactionOutcome,
)

Key = tuple[PartitionId, bytes]


@dataclass(slots=True, kw_only=True)
class _Written:
    """All that was ever written to one key, in the order of its only writer."""

    values: list[bytes] = field(default_factory=list)  # empty ones are tombstones
    writes: list[int] = field(default_factory=list)  # by which write
    places: dict[int, int] = field(default_factory=dict)  # the last one of each write
    certain: int = -1  # the last one of which it is known that it counts


class CompactedIsADict(Checker):
    def __init__(self, promises: Promises) -> None:
        super().__init__(promises)
        self._keys: dict[Key, _Written] = {}
        self._numbers: dict[tuple[str, int], int] = {}  # of writes, by writer and first number
        self._aborted: set[int] = set()
        self._by_transaction: dict[str, list[Batch]] = {}
        self._found: dict[Key, bytes] = {}
        self._was_read = False

    def observe(self, event: Event) -> None:
        match event:
            case ProduceAsked() if event.batch.is_keyed:
                self._ask(event.batch)
            case ProduceAcknowledged() if event.batch.is_keyed and not event.batch.transaction:
                self._is_certain(event.batch)
            case TransactionEnded():
                for batch in self._by_transaction.pop(event.transaction, []):
                    if event.outcome is TransactionOutcome.COMMITTED:
                        self._is_certain(batch)
                    elif event.outcome is TransactionOutcome.ABORTED:
                        self._aborted.add(self._numbers[batch.writer, batch.first_number])
            case TableReadAnew():
                self._found.clear()
                self._was_read = True
            case TableFetched():
                for _offset, key, value in event.records:
                    self._found[event.partition_id, key] = value
            case _:
                pass

    def _ask(self, batch: Batch) -> None:
        number = self._numbers[batch.writer, batch.first_number] = len(self._numbers)
        for key, value in zip(batch.keys, batch.values, strict=True):
            written = self._keys.setdefault((batch.partition_id, key), _Written())
            written.values.append(value)
            written.writes.append(number)
            written.places[number] = len(written.values) - 1
        if batch.transaction:
            self._by_transaction.setdefault(batch.transaction, []).append(batch)

    def _is_certain(self, batch: Batch) -> None:
        number = self._numbers[batch.writer, batch.first_number]
        for key in batch.keys:
            written = self._keys[batch.partition_id, key]
            written.certain = max(written.certain, written.places[number])

    def finish(self) -> None:
        if not self._was_read:
            return
        for (partition_id, key), value in self._found.items():
            if (partition_id, key) not in self._keys:
                self.fail(f"{partition_id} holds the key {key!r}, which nobody wrote")
            self._look_at(partition_id, key, value)
        for partition_id, key in self._keys:
            if (partition_id, key) not in self._found:
                self._look_at(partition_id, key, b"")

    def _look_at(self, partition_id: PartitionId, key: bytes, value: bytes) -> None:
        written = self._keys[partition_id, key]
        possible = [
            written.values[place]
            for place in range(max(written.certain, 0), len(written.values))
            if place == written.certain or written.writes[place] not in self._aborted
        ]
        if written.certain < 0:
            possible.append(b"")  # perhaps nothing was ever written
        if value not in possible:
            self.fail(f"{partition_id} {key!r} is {value[:40]!r}, and ought to be {[each[:40] for each in possible]}")

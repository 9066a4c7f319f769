"""What must hold of `barnabas.client`, one class each, by what its applications were given and told.

    PositionsFollow    no reader, and no group, passes over a record that it may read, unless it said so
    ListenersFollow    a listener hears of every partition that comes and goes, once
    OneOwner           in one generation of a group a partition is one member's (in `checkers`)

Always holds: what retention took away was passed over by nobody. Does not know: nodes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.simulation.checker import Checker, Promises
from barnabas.simulation.history import (
    FINAL_READER,
    Assigned,
    CommitAcknowledged,
    Delivered,
    Event,
    Fetched,
    FetchOutOfRange,
    PartitionId,
    PartitionsGiven,
    PartitionsTaken,
    Positioned,
    StableFetched,
)
from barnabas.simulation.node_checkers import partitions
from barnabas.types import Offset

if TYPE_CHECKING:
    from barnabas.simulation.cluster import SimulatedCluster


class PositionsFollow(Checker):
    """What lies between two records that a reader got one after the other is nothing that it could have got.

    A member of a group begins where any member of it has been before, and never before what the group had committed
    when the partition was given to it.
    """

    def __init__(self, promises: Promises) -> None:
        super().__init__(promises)
        self._next: dict[tuple[str, PartitionId], Offset] = {}  # by reader
        self._reached: dict[tuple[str, PartitionId], Offset] = {}  # by group
        self._committed: dict[tuple[str, PartitionId], Offset] = {}  # by group, as acknowledged
        self._least: dict[tuple[str, PartitionId], Offset] = {}  # by reader, before its first record
        self._gaps: dict[tuple[str, PartitionId, Offset, Offset], bool] = {}  # and whether it reads what is committed
        self._content: dict[PartitionId, set[Offset]] = {}
        self._stable_content: dict[PartitionId, set[Offset]] = {}
        self._starts: dict[PartitionId, Offset] = {}

    def observe(self, event: Event) -> None:
        match event:
            case Positioned() if event.was_sought:
                self._next[event.reader, event.partition_id] = event.offset
            case Positioned():
                self._stands(event)
            case Delivered():
                self._given(event)
            case PartitionsGiven():
                for partition_id in event.partition_ids:
                    self._next.pop((event.reader, partition_id), None)
                    committed = self._committed.get((event.group, partition_id), -1)
                    self._least[event.reader, partition_id] = committed
            case CommitAcknowledged():
                key = event.group, event.partition_id
                self._committed[key] = max(self._committed.get(key, -1), event.offset)
            case StableFetched() if event.reader == FINAL_READER:
                self._stable_content.setdefault(event.partition_id, set()).update(dict(event.records))
            case Fetched():
                self._began(event.partition_id, event.log_start_offset)
                if event.reader == FINAL_READER:
                    self._content.setdefault(event.partition_id, set()).update(dict(event.records))
            case FetchOutOfRange():
                self._began(event.partition_id, event.log_start_offset)
            case _:
                pass

    def inspect(self, cluster: SimulatedCluster) -> None:
        """Where retention is ahead on one replica, those who begin there begin later than with another leader."""
        for _node, partition_id, partition in partitions(cluster):
            self._began(partition_id, partition.log.log_start_offset)

    def _began(self, partition_id: PartitionId, start: Offset) -> None:
        self._starts[partition_id] = max(self._starts.get(partition_id, 0), start)

    def _given(self, event: Delivered) -> None:
        key = event.reader, event.partition_id
        first = event.records[0][0]
        least = self._least.pop(key, -1)
        if first < least:
            self.fail(f"{event.reader} begins {event.partition_id} at {first}, and {least} was committed before")
        if key not in self._next:
            self._next[key] = min(first, self._reached.get((event.group, event.partition_id), 0))
        for offset, _value in event.records:
            expected = self._next[key]
            if offset < expected:
                self.fail(f"{event.reader} is given {offset} of {event.partition_id}, and stood at {expected}")
            self._passes(event.reader, event.partition_id, (expected, offset), event.is_committed)
            self._next[key] = offset + 1
        if event.group:
            group = event.group, event.partition_id
            self._reached[group] = max(self._reached.get(group, 0), self._next[key])

    def _stands(self, event: Positioned) -> None:
        """Markers and what was aborted may lie between this and the last record."""
        key = event.reader, event.partition_id
        if key not in self._next:
            return  # its first record shows where it began
        expected = self._next[key]
        if event.offset < expected:
            self.fail(f"{event.reader} stands at {event.offset} of {event.partition_id}, and had got up to {expected}")
        self._passes(event.reader, event.partition_id, (expected, event.offset), is_committed=True)
        self._next[key] = event.offset

    def _passes(self, reader: str, partition_id: PartitionId, gap: tuple[Offset, Offset], is_committed: bool) -> None:
        if gap[0] < gap[1]:
            self._gaps[reader, partition_id, *gap] = is_committed

    def finish(self) -> None:
        for (reader, partition_id, first, end), is_committed in self._gaps.items():
            content = self._content.get(partition_id, set())
            if is_committed and self._stable_content:
                content = self._stable_content.get(partition_id, set())
            start = max(first, self._starts.get(partition_id, 0))
            if skipped := [offset for offset in range(start, end) if offset in content]:
                self.fail(f"{reader} went from {first} to {end} in {partition_id}, and passed over {skipped[:5]}")


class ListenersFollow(Checker):
    def __init__(self, promises: Promises) -> None:
        super().__init__(promises)
        self._held: dict[str, dict[PartitionId, None]] = {}  # by reader, as its listener knows

    def observe(self, event: Event) -> None:
        match event:
            case PartitionsGiven():
                held = self._held.setdefault(event.reader, {})
                for partition_id in event.partition_ids:
                    if partition_id in held:
                        self.fail(f"{event.group}: {event.reader} is given {partition_id}, which it has")
                    held[partition_id] = None
            case PartitionsTaken():
                held = self._held.setdefault(event.reader, {})
                for partition_id in event.partition_ids:
                    if partition_id not in held:
                        self.fail(f"{event.group}: {partition_id} is taken from {event.reader}, which has it not")
                    del held[partition_id]
            case Assigned():
                held = self._held.get(event.reader, {})
                if sorted(held) != sorted(event.partition_ids):
                    has, knows = (", ".join(map(str, sorted(each))) for each in (event.partition_ids, held))
                    self.fail(f"{event.group}: {event.reader} reads {has}, and its listener knows of {knows}")
            case Delivered() if event.group:
                if event.partition_id not in self._held.get(event.reader, {}):
                    self.fail(f"{event.group}: {event.reader} is given records of {event.partition_id}, not its own")
            case _:
                pass


def client_checkers(promises: Promises) -> list[Checker]:
    return [PositionsFollow(promises), ListenersFollow(promises)]

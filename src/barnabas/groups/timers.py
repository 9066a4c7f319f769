"""The deadlines of one shard: which timer is due next.

Always holds: a timer has at most one deadline, the one set last. Moving a deadline back, as each heartbeat does, costs
one write to a dictionary: its place in the heap is put right when it comes up.
"""

from enum import IntEnum
from heapq import heappop, heappush
from typing import NamedTuple


class TimerKind(IntEnum):
    SESSION = 1  # a member has not been heard of
    JOIN = 2  # members had this long to join the next generation
    SYNC = 3  # members had this long to fetch their assignment
    REBALANCE = 4  # a member had this long to give up partitions
    EXPIRY = 5  # committed offsets may have grown too old
    REFRESH = 6  # what a group knows of the cluster may have grown too old


class TimerKey(NamedTuple):
    kind: TimerKind
    group_id: str = ""
    member_id: str = ""


class Timers:
    def __init__(self) -> None:
        self._deadlines: dict[TimerKey, int] = {}
        self._heap: list[tuple[int, int, TimerKey]] = []  # each timer's earliest place; may hold places of no timer
        self._places: dict[TimerKey, int] = {}  # the deadline under which a timer stands in the heap
        self._sequence = 0  # breaks ties in the order of setting

    def __len__(self) -> int:
        return len(self._deadlines)

    def set(self, key: TimerKey, deadline_ms: int) -> None:
        self._deadlines[key] = deadline_ms
        place = self._places.get(key)
        if place is None or deadline_ms < place:
            self._push(key, deadline_ms)

    def cancel(self, key: TimerKey) -> None:
        self._deadlines.pop(key, None)

    def deadline_ms(self, key: TimerKey) -> int | None:
        return self._deadlines.get(key)

    def next_deadline_ms(self) -> int | None:
        """Never later than the earliest deadline; None where there is none."""
        heap = self._heap
        while heap:
            place_ms, _sequence, key = heap[0]
            if self._places.get(key) == place_ms and key in self._deadlines:
                return place_ms
            self._drop()
        return None

    def due(self, now_ms: int) -> TimerKey | None:
        """Takes out one timer whose deadline has come, the earliest first; None where there is none."""
        while (place_ms := self.next_deadline_ms()) is not None and place_ms <= now_ms:
            key = self._heap[0][2]
            self._drop()
            deadline_ms = self._deadlines[key]
            if deadline_ms == place_ms:
                del self._deadlines[key]
                return key
            self._push(key, deadline_ms)  # it was put off; others may come before it
        return None

    def _push(self, key: TimerKey, deadline_ms: int) -> None:
        self._sequence += 1
        self._places[key] = deadline_ms
        heappush(self._heap, (deadline_ms, self._sequence, key))

    def _drop(self) -> None:
        place_ms, _sequence, key = heappop(self._heap)
        if self._places.get(key) == place_ms:
            del self._places[key]

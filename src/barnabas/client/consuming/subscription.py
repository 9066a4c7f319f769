"""What a consumer reads: the topics it asked for, the partitions it has, and how far it is in each.

A partition goes from "no position" (the group is asked where to begin) over "reset" (the leader is asked, by the
policy) to a position. A position that was read under an older leader than now leads is "unchecked": the new leader is
asked where that epoch ended, for what a crash took back must not be taken for read (KIP-320).
Always holds: only a partition with a checked position, not paused and not held, is fetched; what is kept through a
rebalance keeps its position. Does not know: requests, groups, time (it is told).
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from re import Pattern
from typing import NamedTuple

from barnabas.client.errors import IllegalStateError
from barnabas.client.offsets import OffsetAndMetadata
from barnabas.protocol.special_numbers import LATEST_TIMESTAMP
from barnabas.types import NO_LEADER_EPOCH, BrokerId, LeaderEpoch, Offset, TopicPartition


class Position(NamedTuple):
    offset: Offset
    offset_epoch: LeaderEpoch = NO_LEADER_EPOCH  # of the record before; -1 where nobody said
    leader_epoch: LeaderEpoch = NO_LEADER_EPOCH  # under which the position was last known to be right


class Phase(Enum):
    NO_POSITION = "no position"
    RESET = "reset"
    UNCHECKED = "unchecked"
    READY = "ready"


@dataclass(slots=True)
class PartitionState:
    """One partition that this consumer has."""

    phase: Phase = Phase.NO_POSITION
    position: Position | None = None  # None in the first two phases
    reset_timestamp_ms: int = LATEST_TIMESTAMP  # what to look for, in phase RESET
    paused: bool = False
    held: bool = False  # it is about to be taken away, or its listener does not know of it yet
    retry_at_ms: float = float("-inf")  # the last attempt failed: nothing is asked about it before this
    high_watermark: Offset = -1
    last_stable_offset: Offset = -1
    log_start_offset: Offset = -1
    read_replica: BrokerId | None = None  # a nearer replica that the leader named (KIP-392)
    read_replica_until_ms: float = 0.0

    @property
    def is_fetchable(self) -> bool:
        return self.phase is Phase.READY and not self.paused and not self.held

    def seek(self, position: Position) -> None:
        self.position = position
        self.phase = Phase.READY
        self.retry_at_ms = float("-inf")

    def reset(self, timestamp_ms: int) -> None:
        self.position = None
        self.phase = Phase.RESET
        self.reset_timestamp_ms = timestamp_ms
        self.read_replica = None
        self.retry_at_ms = float("-inf")

    def leader_changed(self, leader_epoch: LeaderEpoch) -> None:
        """The metadata names this epoch. A position from an earlier one has to be checked."""
        position = self.position
        if position is None or leader_epoch <= position.leader_epoch:
            return
        self.read_replica = None
        if position.offset_epoch == NO_LEADER_EPOCH:
            self.position = position._replace(leader_epoch=leader_epoch)
        else:
            self.phase = Phase.UNCHECKED

    def checked(self, asked: Position, leader_epoch: LeaderEpoch) -> None:
        """The leader of this epoch has all that was read."""
        if self.phase is Phase.UNCHECKED and self.position == asked:
            self.position = asked._replace(leader_epoch=max(leader_epoch, asked.leader_epoch))
            self.phase = Phase.READY


class Kind(Enum):
    NOTHING = "nothing"
    TOPICS = "topics"
    PATTERN = "a pattern"
    PARTITIONS = "partitions"


class SubscriptionState:
    def __init__(self) -> None:
        self.kind = Kind.NOTHING
        self.topics: tuple[str, ...] = ()  # as asked for, or as the pattern matches now; sorted
        self.pattern: Pattern[str] | None = None  # matched here
        self.server_pattern: str | None = None  # matched by the coordinator
        self.partitions: dict[TopicPartition, PartitionState] = {}

    # What is asked for

    @property
    def uses_a_group(self) -> bool:
        return self.kind in (Kind.TOPICS, Kind.PATTERN)

    def subscribe(self, topics: Iterable[str]) -> None:
        self._become(Kind.TOPICS)
        self.topics = tuple(sorted(set(topics)))

    def subscribe_pattern(self, pattern: Pattern[str]) -> None:
        self._become(Kind.PATTERN)
        self.pattern = pattern
        self.topics = ()

    def subscribe_server_pattern(self, pattern: str) -> None:
        self._become(Kind.PATTERN)
        self.server_pattern = pattern
        self.topics = ()

    def matched(self, topics: Iterable[str]) -> bool:
        """Which topics the pattern matches now. True where that is news."""
        found = tuple(sorted(topics))
        is_news = found != self.topics
        self.topics = found
        return is_news

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        self._become(Kind.PARTITIONS)
        self.set_partitions(partitions)

    def unsubscribe(self) -> None:
        self.kind = Kind.NOTHING
        self.topics, self.pattern, self.server_pattern = (), None, None
        self.partitions = {}

    def _become(self, kind: Kind) -> None:
        if self.kind not in (Kind.NOTHING, kind):
            raise IllegalStateError(
                f"this consumer is subscribed to {self.kind.value}; call unsubscribe before it reads {kind.value}"
            )
        self.kind = kind
        self.pattern = self.server_pattern = None

    # What it has

    def set_partitions(self, partitions: Iterable[TopicPartition]) -> None:
        """Exactly these from now on; what was there before stays as it is."""
        self.partitions = {each: self.partitions.get(each) or PartitionState() for each in partitions}

    def remove(self, partitions: Iterable[TopicPartition]) -> None:
        gone = set(partitions)
        self.partitions = {each: state for each, state in self.partitions.items() if each not in gone}

    def add(self, partitions: Iterable[TopicPartition], *, held: bool) -> None:
        for partition in partitions:
            self.partitions.setdefault(partition, PartitionState(held=held))

    def hold(self, partitions: Iterable[TopicPartition], held: bool) -> None:
        for partition in partitions:
            state = self.partitions.get(partition)
            if state is not None:
                state.held = held

    def state(self, partition: TopicPartition) -> PartitionState:
        found = self.partitions.get(partition)
        if found is None:
            raise IllegalStateError(f"{partition} is not assigned to this consumer")
        return found

    def in_phase(self, phase: Phase, now_ms: float) -> list[TopicPartition]:
        """Those whose turn it is."""
        return [each for each, state in self.partitions.items() if state.phase is phase and state.retry_at_ms <= now_ms]

    def fetchable(self) -> Iterator[tuple[TopicPartition, PartitionState]]:
        return ((each, state) for each, state in self.partitions.items() if state.is_fetchable)

    def leaders_changed(self, leader_epoch: Callable[[TopicPartition], LeaderEpoch | None]) -> None:
        """To be told whenever metadata came in."""
        for partition, state in self.partitions.items():
            epoch = leader_epoch(partition)
            if epoch is not None:
                state.leader_changed(epoch)

    def consumed(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """What can be committed: everything that was given to the application."""
        return {
            partition: OffsetAndMetadata(state.position.offset, "", state.position.offset_epoch)
            for partition, state in self.partitions.items()
            if state.position is not None
        }

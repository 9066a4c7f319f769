"""Applications that read: partitions that they choose themselves, or those that their group gives them.

Always holds: all that a poll gives is told, and where it stands before it commits; where a listener hears of
partitions, so does the history. Does not know: what others read, what is right.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from barnabas.client.consuming.consumer import Consumer
from barnabas.client.consuming.rebalance import ConsumerRebalanceListener
from barnabas.client.consuming.record_decoder import ConsumerRecord
from barnabas.client.errors import CommitFailedError, KafkaError, KafkaTimeoutError, OffsetOutOfRangeError
from barnabas.simulation.application import Application, Host
from barnabas.simulation.history import (
    Assigned,
    CommitAcknowledged,
    CommitAsked,
    CommittedAsked,
    CommittedRead,
    Delivered,
    PartitionId,
    PartitionsGiven,
    PartitionsTaken,
    Positioned,
)
from barnabas.simulation.participants import Board, Topic
from barnabas.types import Offset, TopicPartition

POLL_MS = 300
POSITION_MS = 50  # longer than it takes where nothing has to be asked
COMMIT_RATE = 0.4
SLOW_RATE = 0.03  # how often a group waits in vain for the next poll
SLOW_LISTENER_RATE = 0.4
LISTENER_MS_MAX = 4000.0
MAX_POLL_INTERVAL_MS = 3000
SESSION_MS = 2000
NOT_A_MEMBER_BELOW = 1  # a generation or member epoch


class ReadingApplication(Application):
    """Reads these partitions, or all of these topics."""

    def __init__(self, host: Host, board: Board, *, topics: tuple[str, ...], reads_committed: bool) -> None:
        super().__init__(host, board)
        self._topic_names = topics
        self._reads_committed = reads_committed
        self._group = ""
        self._ends: dict[TopicPartition, Offset] = {}  # after all that it was ever given

    def consumer_settings(self) -> dict[str, Any]:
        random = self.random
        return {
            **self.host.settings(),
            "isolation_level": "read_committed" if self._reads_committed else "read_uncommitted",
            "auto_offset_reset": "earliest",
            "fetch_max_wait_ms": random.choice((50, 300)),
            "max_partition_fetch_bytes": random.choice((1, 500, 5000, 1 << 20)),
            "fetch_max_bytes": random.choice((1, 10_000, 50 << 20)),
            "default_api_timeout_ms": random.choice((2000, 10_000)),
        }

    async def live(self) -> None:
        """By a policy that resets, or by one that says so and leaves it to the application."""
        settings = self.consumer_settings()
        settings["auto_offset_reset"] = self.random.choice(("earliest", "none"))
        known: list[TopicPartition] = []
        async with Consumer(**settings) as consumer:
            while self.goes_on:
                await self.think()
                wanted = self._wanted()
                if new := wanted[len(known) :] if wanted[: len(known)] == known else wanted:
                    consumer.assign(wanted)
                    known = wanted
                    self._begin(consumer, new)
                try:
                    self.take(await consumer.poll(POLL_MS, self.random.choice((1, 10, None))))
                    self.progress += 1
                except OffsetOutOfRangeError:
                    self._begin(consumer, known)
                if self.random.random() < self.board.habits.seek_rate:
                    self._seek(consumer, self.random.choice(known))

    def _wanted(self) -> list[TopicPartition]:
        """Those that were there before come first."""
        found = [(each.partition, topic.name) for topic in self._topics() for each in topic.partition_ids()]
        return [TopicPartition(name, partition) for partition, name in sorted(found)]

    def _topics(self) -> list[Topic]:
        return [topic for topic in self.topics() if topic.name in self._topic_names]

    def _begin(self, consumer: Consumer, partitions: Iterable[TopicPartition]) -> None:
        for partition in partitions:
            consumer.seek_to_beginning(partition)
            self._told_position(partition, 0, was_sought=True)

    def _seek(self, consumer: Consumer, partition: TopicPartition) -> None:
        offset = self.random.randint(0, self._ends.get(partition, 0))
        consumer.seek(partition, offset)
        self._told_position(partition, offset, was_sought=True)

    def _told_position(self, partition: TopicPartition, offset: Offset, *, was_sought: bool) -> None:
        self.board.history.tell(
            Positioned(
                reader=self.life_name,
                partition_id=self.partition_id(*partition),
                offset=offset,
                was_sought=was_sought,
            )
        )

    def take(self, records: list[ConsumerRecord]) -> None:
        by_partition: dict[PartitionId, list[tuple[Offset, bytes]]] = {}
        for record in records:
            partition_id = self.partition_id(record.topic, record.partition)
            by_partition.setdefault(partition_id, []).append((record.offset, record.value or b""))
            self._ends[TopicPartition(record.topic, record.partition)] = record.offset + 1
        for partition_id, found in by_partition.items():
            self.board.history.tell(
                Delivered(
                    reader=self.life_name,
                    partition_id=partition_id,
                    records=tuple(found),
                    is_committed=self._reads_committed,
                    group=self._group,
                )
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupHabits:
    """What all members of a group do alike."""

    name: str
    protocol: str  # classic or consumer
    strategy: str  # of the classic protocol
    commits_itself: bool  # every so often, and before it gives back

    def settings(self) -> dict[str, Any]:
        settings: dict[str, Any] = {
            "group_id": self.name,
            "group_protocol": self.protocol,
            "enable_auto_commit": self.commits_itself,
            "auto_commit_interval_ms": 500,
            "max_poll_interval_ms": MAX_POLL_INTERVAL_MS,
        }
        if self.protocol == "classic":
            settings["partition_assignment_strategy"] = [self.strategy]
            settings["session_timeout_ms"] = SESSION_MS
            settings["heartbeat_interval_ms"] = 300
        return settings


class GroupApplication(ReadingApplication, ConsumerRebalanceListener):
    """A member of a group, and its listener, which takes its time and commits in it."""

    def __init__(
        self,
        host: Host,
        board: Board,
        *,
        habits: GroupHabits,
        topics: tuple[str, ...],
        reads_committed: bool = False,
        is_static: bool = False,
    ) -> None:
        super().__init__(host, board, topics=topics, reads_committed=reads_committed)
        self._group = habits.name
        self._habits = habits
        self._is_static = is_static
        self._consumer: Consumer | None = None
        self._last: Assigned | None = None

    def group_settings(self) -> dict[str, Any]:
        settings = {**self.consumer_settings(), **self._habits.settings()}
        if self._is_static:
            settings["group_instance_id"] = self.host.name
        return settings

    async def live(self) -> None:
        async with Consumer(*self._topic_names, listener=self, **self.group_settings()) as self._consumer:
            consumer = self._consumer
            while self.goes_on:
                await self.think()
                self.take(await consumer.poll(POLL_MS, self.random.choice((1, 10, None))))
                if self._tell_assignment(consumer):
                    self.progress += 1
                if not self._habits.commits_itself and self.random.random() < COMMIT_RATE:
                    await self._commit(consumer, sorted(consumer.assignment()))
                if not self.board.is_calm and self.random.random() < SLOW_RATE:
                    await self.clock.sleep(self.random.uniform(0, 2 * MAX_POLL_INTERVAL_MS))

    def _tell_assignment(self, consumer: Consumer) -> bool:
        """Gives whether it is a member."""
        who = consumer.group_metadata()
        if who.generation_id < NOT_A_MEMBER_BELOW:
            return False
        assigned = Assigned(
            group=self._group,
            member=self.host.name if self._is_static else who.member_id,
            reader=self.life_name,
            epoch=who.generation_id,
            partition_ids=self._ids(sorted(consumer.assignment())),
        )
        if assigned != self._last:
            self._last = assigned
            self.board.history.tell(assigned)
        return True

    def _ids(self, partitions: Iterable[TopicPartition]) -> tuple[PartitionId, ...]:
        return tuple(self.partition_id(*each) for each in partitions)

    async def _commit(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        """A commit that came too late is made up for by whoever has the partitions now."""
        history = self.board.history
        try:
            offsets = await self._positions(consumer, partitions)
            asked = [(self.partition_id(*each), offset) for each, offset in offsets.items()]
            for partition_id, offset in asked:
                history.tell(CommitAsked(group=self._group, partition_id=partition_id, offset=offset))
            await consumer.commit(offsets)
        except KafkaError as error:
            if not error.retriable and not isinstance(error, CommitFailedError):
                raise
            return
        for partition_id, offset in asked:
            history.tell(CommitAcknowledged(group=self._group, partition_id=partition_id, offset=offset))

    async def _positions(
        self, consumer: Consumer, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, Offset]:
        found: dict[TopicPartition, Offset] = {}
        for partition in partitions:
            try:
                found[partition] = await consumer.position(partition, POSITION_MS)
            except KafkaTimeoutError:
                continue  # it does not know yet where it begins
            self._told_position(partition, found[partition], was_sought=False)
        return found

    # What it hears of its group

    async def on_partitions_assigned(self, partitions: tuple[TopicPartition, ...]) -> None:
        self.board.history.tell(
            PartitionsGiven(group=self._group, reader=self.life_name, partition_ids=self._ids(partitions))
        )
        if self.random.random() < SLOW_LISTENER_RATE:
            await self._look_up(partitions)

    async def _look_up(self, partitions: tuple[TopicPartition, ...]) -> None:
        assert self._consumer is not None
        history = self.board.history
        for partition_id in self._ids(partitions):
            history.tell(CommittedAsked(group=self._group, member=self.life_name, partition_id=partition_id))
        try:
            found = await self._consumer.committed(partitions, LISTENER_MS_MAX)
        except KafkaError:
            return
        for partition, committed in found.items():
            history.tell(
                CommittedRead(
                    group=self._group,
                    member=self.life_name,
                    partition_id=self.partition_id(*partition),
                    offset=-1 if committed is None else committed.offset,
                    is_automatic=self._habits.commits_itself,
                )
            )

    async def on_partitions_revoked(self, partitions: tuple[TopicPartition, ...]) -> None:
        if self.random.random() < SLOW_LISTENER_RATE:
            await self.clock.sleep(self.random.uniform(0, LISTENER_MS_MAX))
        if not self._habits.commits_itself and self._consumer is not None and self.random.random() < 0.5:
            await self._commit(self._consumer, list(partitions))
        self._tell_taken(partitions, are_lost=False)

    async def on_partitions_lost(self, partitions: tuple[TopicPartition, ...]) -> None:
        self._tell_taken(partitions, are_lost=True)

    def _tell_taken(self, partitions: tuple[TopicPartition, ...], *, are_lost: bool) -> None:
        self.board.history.tell(
            PartitionsTaken(
                group=self._group, reader=self.life_name, partition_ids=self._ids(partitions), are_lost=are_lost
            )
        )

"""A consumer that is assigned partitions by hand, with fetch sessions or without.

Always holds: its position in a partition is the offset after the last record that it was given, unless it has sought
another one itself. Does not know: groups.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from barnabas.errors import ErrorCode
from barnabas.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic, PartitionData
from barnabas.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from barnabas.protocol.special_numbers import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, READ_UNCOMMITTED
from barnabas.simulation.client import Client, ClientConnection, Unavailable
from barnabas.simulation.fetched_batches import read_batches
from barnabas.simulation.history import FetchAsked, Fetched, FetchOutOfRange, PartitionId
from barnabas.simulation.participants import Board, RequestingParticipant, Topic
from barnabas.types import Offset

FETCH_VERSION = 17
LIST_OFFSETS_VERSION = 8
WAIT_MS_MAX = 500


@dataclass(slots=True)
class Session:
    """What one connection's broker knows of what is wanted (KIP-227)."""

    id: int = 0
    epoch: int = 0
    sent: dict[PartitionId, tuple[Offset, int]] = field(default_factory=dict)  # offset and leader epoch


class Consumer(RequestingParticipant):
    ISOLATION_LEVEL = READ_UNCOMMITTED

    def __init__(self, client: Client, board: Board, *, with_sessions: bool, name: str | None = None) -> None:
        super().__init__(client, board)
        self.name = name or client.name
        self.positions: dict[PartitionId, Offset] = {}
        self.sizes_max: tuple[int, ...] = (1, 500, 5000, 1 << 20)  # of a partition, and of an answer
        self.answer_sizes_max: tuple[int, ...] = (1, 10_000, 50 << 20)
        self.seeks = True  # now and then, as the run's habits have it
        self.watermarks: dict[PartitionId, Offset] = {}  # as last heard
        self._with_sessions = with_sessions
        self._sessions: dict[ClientConnection, Session] = {}

    async def step(self) -> None:
        topics = list(self.board.topics.values())
        await self.poll(topics)

    async def poll(self, topics: list[Topic], wait_ms: int = WAIT_MS_MAX) -> None:
        """One fetch from one of the leaders."""
        await self.poll_partitions([(topic, each) for topic in topics for each in topic.partition_ids()], wait_ms)

    async def poll_partitions(self, wanted: list[tuple[Topic, PartitionId]], wait_ms: int) -> None:
        random = self.client.random
        by_leader: dict[int, list[tuple[Topic, PartitionId, int]]] = {}
        for topic, partition_id in wanted:
            leader = self.client.view.leaders.get(partition_id)
            if leader is None:
                await self.client.refresh([topic.name])
                leader = self.client.view.leaders.get(partition_id)
            if leader is not None:
                by_leader.setdefault(leader.node_id, []).append((topic, partition_id, leader.epoch))
        if not by_leader:
            raise Unavailable("nobody leads anything")
        node_id = random.choice(list(by_leader))
        try:
            connection = await self.client.to_node(node_id)
            await self._fetch(connection, by_leader[node_id], random.randint(0, wait_ms))
        except Unavailable:
            for _topic, partition_id, _epoch in by_leader[node_id]:
                self.client.forget_leader(*partition_id)
            raise

    async def _fetch(
        self, connection: ClientConnection, wanted: list[tuple[Topic, PartitionId, int]], wait_ms: int
    ) -> None:
        session = self._sessions.get(connection, Session())
        self._sessions = {known: state for known, state in self._sessions.items() if not known.is_closed}
        now = {partition_id: (self.positions.get(partition_id, 0), epoch) for _topic, partition_id, epoch in wanted}
        request = self._request(session, now, wait_ms)
        for partition_id, (offset, _epoch) in now.items():
            self.board.history.tell(FetchAsked(reader=self.name, partition_id=partition_id, offset=offset))
        response = await self.client.call(connection, request, FETCH_VERSION)
        if response.error_code != ErrorCode.NONE:
            self._sessions.pop(connection, None)
            return
        if self._with_sessions and response.session_id != 0:
            self._sessions[connection] = Session(response.session_id, session.epoch + 1, now)
        else:
            self._sessions.pop(connection, None)
        topics = {topic.id: topic for topic, _partition_id, _epoch in wanted}
        for each in response.responses:
            for data in each.partitions:
                partition_id = PartitionId(each.topic_id, data.partition_index)
                if partition_id in now:
                    await self._take(connection, topics[each.topic_id], partition_id, now[partition_id], data)
        self.progress += 1

    def _request(self, session: Session, now: dict[PartitionId, tuple[Offset, int]], wait_ms: int) -> FetchRequest:
        changed = {key: state for key, state in now.items() if session.sent.get(key) != state}
        topics: dict[bytes, FetchTopic] = {}
        for (topic_id, index), (offset, epoch) in changed.items():
            topic = topics.setdefault(topic_id, FetchTopic(topic_id=topic_id))
            size_max = self.client.random.choice(self.sizes_max)
            topic.partitions.append(
                FetchPartition(
                    partition=index, fetch_offset=offset, current_leader_epoch=epoch, partition_max_bytes=size_max
                )
            )
        forgotten: dict[bytes, ForgottenTopic] = {}
        for topic_id, index in session.sent:
            if PartitionId(topic_id, index) not in now:
                forgotten.setdefault(topic_id, ForgottenTopic(topic_id=topic_id)).partitions.append(index)
        return FetchRequest(
            max_wait_ms=wait_ms,
            min_bytes=1,
            max_bytes=self.client.random.choice(self.answer_sizes_max),
            isolation_level=self.ISOLATION_LEVEL,
            session_id=session.id,
            session_epoch=session.epoch if self._with_sessions else -1,
            topics=list(topics.values()),
            forgotten_topics_data=list(forgotten.values()),
        )

    async def _take(
        self,
        connection: ClientConnection,
        topic: Topic,
        partition_id: PartitionId,
        asked: tuple[Offset, int],
        data: PartitionData,
    ) -> None:
        offset, leader_epoch = asked
        error = ErrorCode(data.error_code)
        if error == ErrorCode.OFFSET_OUT_OF_RANGE:
            await self._find_start(connection, topic, partition_id, offset)
        elif error != ErrorCode.NONE:
            self.client.forget_leader(*partition_id)
        if error != ErrorCode.NONE:
            return
        self.positions[partition_id] = self.accept(partition_id, offset, leader_epoch, data)
        if self.seeks and self.client.random.random() < self.board.habits.seek_rate:
            end = self.positions.get(partition_id, 0)
            self.positions[partition_id] = self.client.random.randint(min(data.log_start_offset, end), end)

    def accept(self, partition_id: PartitionId, offset: Offset, leader_epoch: int, data: PartitionData) -> Offset:
        """Tells what was read, and gives the offset after it."""
        found = read_batches(data.records, offset)
        self.watermarks[partition_id] = data.high_watermark
        self.board.history.tell(
            Fetched(
                reader=self.name,
                partition_id=partition_id,
                offset=offset,
                leader_epoch=leader_epoch,
                high_watermark=data.high_watermark,
                log_start_offset=data.log_start_offset,
                records=tuple((record.offset, record.value or b"") for record in found.records),
                markers=tuple(found.markers),
            )
        )
        return found.next_offset

    async def _find_start(
        self, connection: ClientConnection, topic: Topic, partition_id: PartitionId, offset: Offset
    ) -> None:
        """The log begins later than where this one stands."""
        end = await self._list_offset(connection, topic, partition_id, LATEST_TIMESTAMP)
        start = await self._list_offset(connection, topic, partition_id, EARLIEST_TIMESTAMP)
        if topic.id not in self.board.topics:
            return  # what was listed may be another topic's, under the same name
        self.board.history.tell(
            FetchOutOfRange(
                reader=self.name,
                partition_id=partition_id,
                offset=offset,
                log_start_offset=start,
                high_watermark=end,
            )
        )
        self.positions[partition_id] = start

    async def _list_offset(
        self, connection: ClientConnection, topic: Topic, partition_id: PartitionId, timestamp_ms: int
    ) -> Offset:
        partition = ListOffsetsPartition(partition_index=partition_id.partition, timestamp=timestamp_ms)
        request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=topic.name, partitions=[partition])])
        response = await self.client.call(connection, request, LIST_OFFSETS_VERSION)
        (answer,) = response.topics[0].partitions
        if answer.error_code != ErrorCode.NONE:
            raise Unavailable(f"no offset: {answer.error_code}")
        found: Offset = answer.offset
        return found

    def is_caught_up(self, partition_id: PartitionId) -> bool:
        return self.positions.get(partition_id, 0) == self.watermarks.get(partition_id, -1)

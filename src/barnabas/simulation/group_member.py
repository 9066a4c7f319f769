"""A member of a consumer group (KIP-848): heartbeats, reads what it is assigned, and commits how far it got.

Always holds: it commits only what it owns, and never behind what it found committed when it came to own it. It drops
what is taken from it before its next heartbeat says so. Does not know: what others own.
"""

from __future__ import annotations

from typing import Any

from barnabas.errors import ErrorCode
from barnabas.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, RequestTopicPartitions
from barnabas.protocol.messages.find_coordinator import FindCoordinatorRequest
from barnabas.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from barnabas.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from barnabas.simulation.client import Client, ClientConnection, Unavailable
from barnabas.simulation.consumer import Consumer
from barnabas.simulation.history import (
    Assigned,
    CommitAcknowledged,
    CommitAsked,
    CommittedAsked,
    CommittedRead,
    PartitionId,
)
from barnabas.simulation.participants import Board, Participant, Topic
from barnabas.types import Offset

HEARTBEAT_VERSION = 1
FIND_COORDINATOR_VERSION = 4
OFFSET_COMMIT_VERSION = 9
OFFSET_FETCH_VERSION = 9
REBALANCE_TIMEOUT_MS = 5000
LEAVE_RATE = 0.01

NOT_HERE = (
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
)
NOT_A_MEMBER = (
    ErrorCode.FENCED_MEMBER_EPOCH,
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.STALE_MEMBER_EPOCH,
)


class GroupMember(Participant):
    def __init__(self, client: Client, board: Board, *, group: str, topics: tuple[str, ...]) -> None:
        super().__init__(client, board)
        self.group = group
        self._topic_names = topics
        self._member_id = f"{client.name}-{client.random.randbytes(4).hex()}"
        self._epoch = 0  # 0: not a member yet
        self._assigned: set[PartitionId] | None = None  # by the coordinator; None: not told yet
        self._owned: dict[PartitionId, Offset] = {}  # with the offset up to which it is committed
        self._reported: set[PartitionId] | None = None  # what the coordinator was last told about `_owned`
        self._coordinator: tuple[str, int] | None = None
        self._reader = Consumer(client, board, with_sessions=False, name=f"{client.name}.reader")

    async def step(self) -> None:
        connection = await self._connection()
        try:
            await self._heartbeat(connection)
            if self._epoch > 0 and self.client.random.random() < LEAVE_RATE:
                await self._leave(connection)
            if self._epoch > 0 and await self._take_up(connection):
                await self._read_some()
                await self._commit(connection)
        except Unavailable:
            self._coordinator = None
            raise

    def _topics(self) -> list[Topic]:
        return [topic for topic in self.board.topics.values() if topic.name in self._topic_names]

    # The coordinator

    async def _connection(self) -> ClientConnection:
        if self._coordinator is None:
            request = FindCoordinatorRequest(key_type=0, coordinator_keys=[self.group])
            response = await self.client.call_any(request, FIND_COORDINATOR_VERSION)
            (found,) = response.coordinators
            if found.error_code != ErrorCode.NONE:
                raise Unavailable(f"no coordinator: {found.error_code}")
            self._coordinator = found.host, found.port
        return await self.client.connection(self._coordinator)

    def _check(self, code: int) -> bool:
        """Whether it worked. A member that was thrown out begins anew."""
        error = ErrorCode(code)
        if error in NOT_HERE:
            raise Unavailable(error.name)
        if error in NOT_A_MEMBER:
            self._begin_anew()
        return error == ErrorCode.NONE

    def _begin_anew(self) -> None:
        self._epoch = 0
        self._owned.clear()
        self._assigned = None
        self._reported = None

    # Membership

    async def _heartbeat(self, connection: ClientConnection) -> None:
        request = ConsumerGroupHeartbeatRequest(
            group_id=self.group, member_id=self._member_id, member_epoch=self._epoch, topic_partitions=None
        )
        owned = set(self._owned)
        if self._epoch == 0:
            request.rebalance_timeout_ms = REBALANCE_TIMEOUT_MS
            request.subscribed_topic_names = list(self._topic_names)
            request.topic_partitions = []
        elif owned != self._reported:
            request.topic_partitions = _by_topic(owned)
        response = await self.client.call(connection, request, HEARTBEAT_VERSION)
        if not self._check(response.error_code):
            return
        self._epoch = response.member_epoch
        self._reported = owned
        if response.assignment is not None:
            self._assigned = {
                PartitionId(topic.topic_id, index)
                for topic in response.assignment.topic_partitions
                for index in topic.partitions
            }
            self.board.history.tell(
                Assigned(
                    group=self.group,
                    member=self._member_id,
                    epoch=self._epoch,
                    partition_ids=tuple(sorted(self._assigned)),
                )
            )
            for partition_id in sorted(owned - self._assigned):
                del self._owned[partition_id]

    async def _leave(self, connection: ClientConnection) -> None:
        request = ConsumerGroupHeartbeatRequest(group_id=self.group, member_id=self._member_id, member_epoch=-1)
        self._begin_anew()
        await self.client.call(connection, request, HEARTBEAT_VERSION)

    async def _take_up(self, connection: ClientConnection) -> bool:
        """Asks where to begin in what is newly assigned; gives whether it owns all of it now."""
        known = {partition_id: topic for topic in self._topics() for partition_id in topic.partition_ids()}
        new = sorted((self._assigned or set()) - set(self._owned))
        if not new:
            return self._epoch > 0
        for partition_id in new:
            self.board.history.tell(CommittedAsked(group=self.group, member=self._member_id, partition_id=partition_id))
        topics = [
            OffsetFetchRequestTopics(name=known[partition_id].name, partition_indexes=[partition_id.partition])
            for partition_id in new
            if partition_id in known
        ]
        group = OffsetFetchRequestGroup(
            group_id=self.group, member_id=self._member_id, member_epoch=self._epoch, topics=topics
        )
        request = OffsetFetchRequest(groups=[group], require_stable=True)
        response = await self.client.call(connection, request, OFFSET_FETCH_VERSION)
        (answer,) = response.groups
        if not self._check(answer.error_code):
            return False
        names = {topic.name: topic.id for topic in self._topics()}
        for topic in answer.topics:
            for partition in topic.partitions:
                if self._check(partition.error_code):
                    self._begin_at(
                        PartitionId(names[topic.name], partition.partition_index), partition.committed_offset
                    )
        return self._epoch > 0

    def _begin_at(self, partition_id: PartitionId, committed: Offset) -> None:
        self.board.history.tell(
            CommittedRead(group=self.group, member=self._member_id, partition_id=partition_id, offset=committed)
        )
        self._owned[partition_id] = committed
        self._reader.positions[partition_id] = max(committed, 0)

    # Work

    async def _read_some(self) -> None:
        owned = [partition_id for partition_id in self._owned if partition_id.topic_id in self.board.topics]
        if owned:
            await self._reader.poll_partitions(
                [(self.board.topics[partition_id.topic_id], partition_id) for partition_id in owned], wait_ms=50
            )

    async def _commit(self, connection: ClientConnection) -> None:
        ahead = {
            partition_id: self._reader.positions.get(partition_id, 0)
            for partition_id, committed in self._owned.items()
            if self._reader.positions.get(partition_id, 0) > committed and partition_id.topic_id in self.board.topics
        }
        if not ahead:
            self.progress += 1
            return
        topics: dict[str, OffsetCommitRequestTopic] = {}
        for partition_id, offset in ahead.items():
            name = self.board.topics[partition_id.topic_id].name
            topic = topics.setdefault(name, OffsetCommitRequestTopic(name=name))
            topic.partitions.append(
                OffsetCommitRequestPartition(partition_index=partition_id.partition, committed_offset=offset)
            )
            self.board.history.tell(CommitAsked(group=self.group, partition_id=partition_id, offset=offset))
        request = OffsetCommitRequest(
            group_id=self.group,
            member_id=self._member_id,
            generation_id_or_member_epoch=self._epoch,
            topics=list(topics.values()),
        )
        response = await self.client.call(connection, request, OFFSET_COMMIT_VERSION)
        self._committed(response, ahead)

    def _committed(self, response: Any, asked: dict[PartitionId, Offset]) -> None:
        names = {topic.name: topic.id for topic in self._topics()}
        for topic in response.topics:
            for partition in topic.partitions:
                partition_id = PartitionId(names[topic.name], partition.partition_index)
                if not self._check(partition.error_code):
                    continue
                self.progress += 1
                self.board.history.tell(
                    CommitAcknowledged(group=self.group, partition_id=partition_id, offset=asked[partition_id])
                )
                if partition_id in self._owned:
                    self._owned[partition_id] = asked[partition_id]


def _by_topic(partition_ids: set[PartitionId]) -> list[RequestTopicPartitions]:
    topics: dict[bytes, RequestTopicPartitions] = {}
    for topic_id, index in sorted(partition_ids):
        topics.setdefault(topic_id, RequestTopicPartitions(topic_id=topic_id)).partitions.append(index)
    return list(topics.values())

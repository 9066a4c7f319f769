"""Fetch of a follower: it reads to the end of the log, and what it asks for tells how far it is.

A follower names its partitions once, in a session, and later only those that moved. So does the leader: each partition
knows the places (`ReplicaPosition`) at which followers wait, and an append puts those places on the `ready` list of
their sessions. A fetch costs what has changed, however many partitions are followed, and an idle one nothing.

Always holds: a position that was answered with records, an error or a divergence is silent until the follower names it
again, for its offset is not known any more. A fetch counts as progress of the replica only where its epoch is the
leader's and its history agrees. News of the watermark alone hurries a waiting answer but does not force it: while
records flow, the watermark travels with them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterable
from random import Random
from typing import TYPE_CHECKING, Any

from barnabas.errors import ErrorCode
from barnabas.protocol.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from barnabas.replication.fetch_session import FINAL_EPOCH, INITIAL_EPOCH, SESSION_ID_MAX, has_records
from barnabas.server.replicas.fetch_answers import diverging_epoch, fetch_failed
from barnabas.server.replicas.fetch_wait import FetchWait
from barnabas.server.replicas.partition import Partition
from barnabas.types import BrokerId, LeaderEpoch, Offset, Uuid

if TYPE_CHECKING:
    from barnabas.server.broker import Broker

Key = tuple[Uuid, int]

TOPIC_IDS_SINCE_VERSION = 13
WATERMARK_NEWS_MS = 20  # how long the follower may be left in the dark about a watermark


class ReplicaPosition:
    """One partition in a follower's session."""

    __slots__ = (
        "_session",
        "current_leader_epoch",
        "fetch_offset",
        "high_watermark_known",
        "is_counted",
        "is_silent",
        "key",
        "last_fetched_epoch",
        "log_start_offset",
        "log_start_offset_known",
        "partition",
        "partition_max_bytes",
    )

    def __init__(self, session: ReplicaSession, key: Key) -> None:
        self._session = session
        self.key = key
        self.partition: Partition | None = None  # the one that this position watches
        self.fetch_offset: Offset = 0
        self.log_start_offset: Offset = -1  # its own
        self.current_leader_epoch: LeaderEpoch = -1
        self.last_fetched_epoch: LeaderEpoch = -1
        self.partition_max_bytes = 0
        self.high_watermark_known: Offset = -1  # what it was last told; its own may differ, and be right
        self.log_start_offset_known: Offset = -1
        self.is_counted = False  # whether the leader took note of this offset
        self.is_silent = False

    def named(self, wanted: Any) -> None:
        self.fetch_offset = wanted.fetch_offset
        self.log_start_offset = wanted.log_start_offset
        self.current_leader_epoch = wanted.current_leader_epoch
        self.last_fetched_epoch = wanted.last_fetched_epoch
        self.partition_max_bytes = wanted.partition_max_bytes
        self.is_counted = False
        self.is_silent = False
        self._session.ready[self] = None

    def watch(self, partition: Partition | None) -> None:
        if partition is not self.partition:
            if self.partition is not None:
                self.partition.watchers.pop(self, None)
            self.partition = partition
            if partition is not None:
                partition.watchers[self] = None

    # What the partition says

    def grown(self, size_bytes: int) -> None:
        if not self.is_silent:
            session = self._session
            session.ready[self] = None
            if session.wait is not None:
                session.wait.appended(size_bytes)

    def changed(self) -> None:
        if not self.is_silent:
            session = self._session
            session.ready[self] = None
            if session.wait is not None:
                session.wait.hurry(WATERMARK_NEWS_MS)


class ReplicaSession:
    __slots__ = ("broker_epoch", "epoch", "id", "is_throttled", "positions", "ready", "replica_id", "wait")

    def __init__(self, session_id: int, replica_id: BrokerId, broker_epoch: int) -> None:
        self.id = session_id  # 0: for one request only
        self.epoch = 1  # the one that the next request must carry
        self.replica_id = replica_id
        self.broker_epoch = broker_epoch
        self.positions: dict[Key, ReplicaPosition] = {}
        self.ready: dict[ReplicaPosition, None] = {}  # those with something to tell, longest waiting first
        self.is_throttled = False  # something is ready that may not go yet
        self.wait: FetchWait | None = None  # the request that is not answered yet

    def name(self, request: FetchRequest) -> None:
        for topic in request.topics:
            for wanted in topic.partitions:
                key = topic.topic_id, wanted.partition
                position = self.positions.get(key)
                if position is None:
                    position = self.positions[key] = ReplicaPosition(self, key)
                position.named(wanted)
        for forgotten in request.forgotten_topics_data:
            for index in forgotten.partitions:
                self._forget(self.positions.pop((forgotten.topic_id, index), None))

    def _forget(self, position: ReplicaPosition | None) -> None:
        if position is not None:
            position.watch(None)
            self.ready.pop(position, None)

    def close(self) -> None:
        if self.wait is not None:
            self.wait.answer_now()
        for position in self.positions.values():
            position.watch(None)
        self.positions.clear()
        self.ready.clear()


class ReplicaSessions:
    """Those of all followers. Each has one at a time: who begins anew has left the old one behind."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._sessions: dict[int, ReplicaSession] = {}

    def begin(self, request: FetchRequest, replica_id: BrokerId, broker_epoch: int) -> ReplicaSession | ErrorCode:
        session: ReplicaSession | None
        if request.session_epoch in (INITIAL_EPOCH, FINAL_EPOCH):
            self._drop(request.session_id)
            is_kept = request.session_epoch == INITIAL_EPOCH
            session = ReplicaSession(self._new_id() if is_kept else 0, replica_id, broker_epoch)
            if is_kept:
                self._drop_those_of(replica_id)
                self._sessions[session.id] = session
        else:
            session = self._sessions.get(request.session_id)
            if session is None or session.replica_id != replica_id:
                return ErrorCode.FETCH_SESSION_ID_NOT_FOUND
            if session.epoch != request.session_epoch:
                return ErrorCode.INVALID_FETCH_SESSION_EPOCH
            session.epoch = 1 if session.epoch == SESSION_ID_MAX else session.epoch + 1
            session.broker_epoch = broker_epoch
        if session.wait is not None:
            session.wait.answer_now()  # the follower has more to say than to wait
            session.wait = None
        session.name(request)
        return session

    def _drop_those_of(self, replica_id: BrokerId) -> None:
        for session in tuple(self._sessions.values()):
            if session.replica_id == replica_id:
                self._drop(session.id)

    def _drop(self, session_id: int) -> None:
        session = self._sessions.pop(session_id, None)
        if session is not None:
            session.close()

    def _new_id(self) -> int:
        while True:
            session_id = self._random.randint(1, SESSION_ID_MAX)
            if session_id not in self._sessions:
                return session_id


def handle(
    broker: Broker, version: int, request: FetchRequest, replica_id: BrokerId
) -> FetchResponse | Awaitable[FetchResponse]:
    if version < TOPIC_IDS_SINCE_VERSION:
        return FetchResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    broker_epoch = -1 if request.replica_state is None else request.replica_state.replica_epoch
    session = broker.replica_sessions.begin(request, replica_id, broker_epoch)
    if isinstance(session, ErrorCode):
        return FetchResponse(error_code=session)
    answers, size_bytes, urgent = read_ready(broker, session, request.max_bytes)
    wait_ms_max: float = request.max_wait_ms
    if answers:
        wait_ms_max = min(wait_ms_max, WATERMARK_NEWS_MS)
    if session.is_throttled:
        wait_ms_max = min(wait_ms_max, broker.leader_throttle.wait_ms(broker.runtime.clock.monotonic_ms()))
    if urgent or size_bytes >= request.min_bytes or request.max_wait_ms <= 0:
        return respond(session, answers)
    for position, _data in answers:
        session.ready[position] = None  # nothing but watermarks, and nothing is lost by telling them a little later
    wait = FetchWait(
        partitions=[],
        bytes_missing=request.min_bytes - size_bytes,
        wait_ms_max=wait_ms_max,
        answer=lambda: answer_late(broker, session, wait, request.max_bytes),
        clock=broker.runtime.clock,
    )
    session.wait = wait
    return wait.future


def answer_late(broker: Broker, session: ReplicaSession, wait: FetchWait, size_bytes_max: int) -> FetchResponse:
    if session.wait is wait:
        session.wait = None
    return respond(session, read_ready(broker, session, size_bytes_max)[0])


Answers = list[tuple[ReplicaPosition, PartitionData]]


def read_ready(broker: Broker, session: ReplicaSession, size_bytes_max: int) -> tuple[Answers, int, bool]:
    """What there is to tell, the bytes of records in it, and whether it must not wait. Empties `session.ready`."""
    answers: Answers = []
    size_bytes = 0
    urgent = False
    session.is_throttled = False
    for position in tuple(session.ready):
        room = min(position.partition_max_bytes, size_bytes_max - size_bytes)
        at_least_one = size_bytes == 0
        if is_held_back(broker, session, position):
            session.is_throttled = True
            room, at_least_one = 0, False
        if room <= 0 and position.is_counted:
            continue  # goes first the next time
        session.ready.pop(position, None)
        data = read(broker, session, position, room, at_least_one=at_least_one)
        if data.error_code != ErrorCode.NONE or data.diverging_epoch is not None:
            urgent = True
        elif has_records(data):
            size_bytes += data.records.size_bytes  # type: ignore[union-attr]
            if position.partition is not None and position.partition.is_leader_throttled:
                now_ms = broker.runtime.clock.monotonic_ms()
                broker.leader_throttle.copied(data.records.size_bytes, now_ms)  # type: ignore[union-attr]
        elif room <= 0:
            session.ready[position] = None  # there may be records, for which there was no room
            continue
        elif not _is_news(position, data):
            continue
        answers.append((position, data))
    return answers, size_bytes, urgent


def is_held_back(broker: Broker, session: ReplicaSession, position: ReplicaPosition) -> bool:
    """A replica that is not in sync, whose turn has not come at the rate that was set."""
    partition = position.partition
    return (
        partition is not None
        and partition.is_leader_throttled
        and session.replica_id not in partition.in_sync
        and broker.leader_throttle.wait_ms(broker.runtime.clock.monotonic_ms()) > 0
    )


def _is_news(position: ReplicaPosition, data: PartitionData) -> bool:
    return (
        data.high_watermark != position.high_watermark_known or data.log_start_offset != position.log_start_offset_known
    )


def read(
    broker: Broker, session: ReplicaSession, position: ReplicaPosition, room: int, *, at_least_one: bool
) -> PartitionData:
    topic_id, index = position.key
    partition = broker.partitions.topic_by_id(topic_id).get(index)
    position.watch(partition)
    if partition is None:
        known = topic_id in broker.controller.image.topics_by_id
        return fetch_failed(index, ErrorCode.NOT_LEADER_OR_FOLLOWER if known else ErrorCode.UNKNOWN_TOPIC_ID)
    error = partition.epoch_error(position.current_leader_epoch)
    if error == ErrorCode.NONE and not partition.is_leader:
        error = ErrorCode.NOT_LEADER_OR_FOLLOWER  # with or without a lease: who follows a leader is told what it has
    if error != ErrorCode.NONE:
        return partition.fetch_failed(error)
    diverging = diverging_epoch(partition.log, position.last_fetched_epoch, position.fetch_offset)
    if diverging is not None:
        data = partition.fetch_failed(ErrorCode.NONE)
        data.diverging_epoch = diverging
        data.log_start_offset = partition.log.log_start_offset
        return data
    log = partition.log
    if not position.is_counted and log.log_start_offset <= position.fetch_offset <= log.log_end_offset:
        position.is_counted = True
        error = partition.replica_fetched(
            session.replica_id, session.broker_epoch, position.fetch_offset, position.log_start_offset
        )
        if error != ErrorCode.NONE:
            return partition.fetch_failed(error)
    session.ready.pop(position, None)  # counting it may have moved the watermark, which is told right here
    return partition.fetch_as_replica(
        fetch_offset=position.fetch_offset, size_bytes_max=room, at_least_one=at_least_one
    )


def respond(session: ReplicaSession, answers: Iterable[tuple[ReplicaPosition, PartitionData]]) -> FetchResponse:
    topics: dict[Uuid, FetchableTopicResponse] = {}
    for position, data in answers:
        topic_id = position.key[0]
        topic = topics.get(topic_id)
        if topic is None:
            topic = topics[topic_id] = FetchableTopicResponse(topic_id=topic_id, partitions=[])
        topic.partitions.append(data)
        position.high_watermark_known = data.high_watermark
        position.log_start_offset_known = data.log_start_offset
        if has_records(data) or data.error_code != ErrorCode.NONE or data.diverging_epoch is not None:
            position.is_silent = True
            session.ready.pop(position, None)
    return FetchResponse(session_id=session.id, responses=list(topics.values()))

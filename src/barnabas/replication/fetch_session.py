"""Incremental fetch sessions (KIP-227): a client names its partitions once, and later only what changes.

Holds: a session's epoch counts its requests, so a lost or repeated request is noticed and the client starts afresh.
A session never forgets a partition that the client did not name as forgotten. In an answer to an incremental
request, a partition is left out only if it carries no records, no error, and offsets that the client has seen.
Partitions that gave records go to the end of the line, so that one busy partition cannot starve the others.

Does not know: what a partition contains. It is told which answers were read, and says which of them to send.
"""

from collections.abc import Iterable
from random import Random
from typing import Any

from barnabas.errors import ErrorCode
from barnabas.protocol.messages.fetch import FetchRequest, PartitionData
from barnabas.types import Uuid

INITIAL_EPOCH = 0  # starts a new session
FINAL_EPOCH = -1  # ends the session, or asks for none
SESSION_ID_MAX = 2**31 - 1
EVICTION_MS_MIN = 120_000  # a session used within this time is not thrown out for another

Key = tuple[str | Uuid, int]  # topic ids from version 13 on, names before


class FetchPartition:
    """What a client wants of one partition, and what it was last told about it."""

    __slots__ = (
        "current_leader_epoch",
        "fetch_offset",
        "high_watermark_sent",
        "key",
        "last_fetched_epoch",
        "log_start_offset_sent",
        "partition_max_bytes",
        "was_found",
    )

    def __init__(self, key: Key, wanted: Any) -> None:
        self.key = key
        self.high_watermark_sent = -1
        self.log_start_offset_sent = -1
        self.was_found = False  # whether this broker has ever had it in this session
        self.update(wanted)

    def update(self, wanted: Any) -> None:
        self.fetch_offset: int = wanted.fetch_offset
        self.partition_max_bytes: int = wanted.partition_max_bytes
        self.current_leader_epoch: int = wanted.current_leader_epoch
        self.last_fetched_epoch: int = wanted.last_fetched_epoch

    def must_send(self, data: PartitionData) -> bool:
        """Whether an incremental answer has to carry this; remembers what is sent."""
        changed = (
            data.high_watermark != self.high_watermark_sent
            or data.log_start_offset != self.log_start_offset_sent
            or data.error_code != 0
            or data.preferred_read_replica >= 0
            or data.diverging_epoch is not None
            or has_records(data)
        )
        self.high_watermark_sent = data.high_watermark if data.error_code == 0 else -1  # an error is told again
        self.log_start_offset_sent = data.log_start_offset
        return changed


def has_records(data: PartitionData) -> bool:
    records: Any = data.records
    return records is not None and (records.size_bytes if hasattr(records, "size_bytes") else len(records)) > 0


class FetchSession:
    __slots__ = ("created_ms", "epoch", "id", "partitions", "used_ms", "uses_topic_ids")

    def __init__(self, session_id: int, partitions: dict[Key, FetchPartition], uses_topic_ids: bool, now_ms: float):
        self.id = session_id
        self.epoch = 1  # the one that the client's next request must carry
        self.partitions = partitions  # in the order in which they are read
        self.uses_topic_ids = uses_topic_ids
        self.created_ms = now_ms
        self.used_ms = now_ms


class FetchContext:
    """One request seen through its session: which partitions to read, and which answers to send."""

    __slots__ = ("_incremental", "_session", "partitions")

    def __init__(
        self, partitions: Iterable[FetchPartition], session: FetchSession | None = None, incremental: bool = False
    ) -> None:
        self.partitions = list(partitions)
        self._session = session
        self._incremental = incremental

    @property
    def session_id(self) -> int:
        return 0 if self._session is None else self._session.id

    def select(self, answers: list[tuple[FetchPartition, PartitionData]]) -> list[tuple[FetchPartition, PartitionData]]:
        session = self._session
        if session is None:
            return answers
        selected = [pair for pair in answers if pair[0].must_send(pair[1]) or not self._incremental]
        for partition, data in selected:
            if has_records(data) and partition.key in session.partitions:
                session.partitions[partition.key] = session.partitions.pop(partition.key)
        return selected


class FetchSessions:
    """The sessions of one broker, at most `slots` of them."""

    def __init__(self, slots: int, random: Random) -> None:
        self.slots = slots
        self._random = random
        self._sessions: dict[int, FetchSession] = {}  # least recently used first

    def __len__(self) -> int:
        return len(self._sessions)

    def partitions(self, session_id: int) -> list[FetchPartition]:
        """What a session has; empty where there is none."""
        session = self._sessions.get(session_id)
        return [] if session is None else list(session.partitions.values())

    def begin(self, request: FetchRequest, version: int, now_ms: float) -> FetchContext | ErrorCode:
        uses_topic_ids = version >= 13
        if request.session_epoch not in (INITIAL_EPOCH, FINAL_EPOCH):
            return self._continue(request, uses_topic_ids, now_ms)
        self._sessions.pop(request.session_id, None)
        wanted = {key: FetchPartition(key, partition) for key, partition in _named(request, uses_topic_ids)}
        if request.session_epoch == FINAL_EPOCH or not wanted or not self._make_room(now_ms):
            return FetchContext(wanted.values())
        session = FetchSession(self._new_id(), wanted, uses_topic_ids, now_ms)
        self._sessions[session.id] = session
        return FetchContext(wanted.values(), session)

    def _continue(self, request: FetchRequest, uses_topic_ids: bool, now_ms: float) -> FetchContext | ErrorCode:
        session = self._sessions.get(request.session_id)
        if session is None:
            return ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        if session.epoch != request.session_epoch:
            return ErrorCode.INVALID_FETCH_SESSION_EPOCH
        if session.uses_topic_ids != uses_topic_ids:
            return ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
        for key, partition in _named(request, uses_topic_ids):
            known = session.partitions.get(key)
            if known is None:
                session.partitions[key] = FetchPartition(key, partition)
            else:
                known.update(partition)
        for forgotten in request.forgotten_topics_data:
            topic = forgotten.topic_id if uses_topic_ids else forgotten.topic
            for index in forgotten.partitions:
                session.partitions.pop((topic, index), None)
        session.epoch = 1 if session.epoch == SESSION_ID_MAX else session.epoch + 1
        session.used_ms = now_ms
        if not session.partitions:
            del self._sessions[session.id]
            return FetchContext(())
        self._sessions[session.id] = self._sessions.pop(session.id)
        return FetchContext(session.partitions.values(), session, incremental=True)

    def _make_room(self, now_ms: float) -> bool:
        if len(self._sessions) < self.slots:
            return True
        oldest = next(iter(self._sessions.values()), None)
        if oldest is None or now_ms - oldest.used_ms < EVICTION_MS_MIN:
            return False  # the client goes on without a session, at the price of larger requests
        del self._sessions[oldest.id]
        return True

    def _new_id(self) -> int:
        while True:
            session_id = self._random.randint(1, SESSION_ID_MAX)
            if session_id not in self._sessions:
                return session_id


def _named(request: FetchRequest, uses_topic_ids: bool) -> Iterable[tuple[Key, Any]]:
    for topic in request.topics:
        name = topic.topic_id if uses_topic_ids else topic.topic
        for partition in topic.partitions:
            yield (name, partition.partition), partition

"""A member of a group of the new protocol (KIP-848): one request, ConsumerGroupHeartbeat, says and asks everything.

    epoch 0 ──► a member, with a target ──► what is not in it goes, what is new comes ──► the next heartbeat says so
       ▲                                                                                            │
       └──────────────────── fenced: everything is lost ────────────────────────────────────────────┘

Always holds: a heartbeat carries what has changed since the last one that was answered, and everything after a failure.
Topics of the target whose names are not known yet wait for metadata; what is known is taken up meanwhile.
"""

from collections.abc import Iterable, Mapping
from random import Random
from typing import Any

from barnabas.client.assignors.specification import NO_RACKS, ReplicaRacks
from barnabas.client.consuming.group_member import NEVER_MS, Change, ChangeKind, GroupMember, MemberSettings
from barnabas.client.errors import error_of, known_code
from barnabas.errors import ErrorCode
from barnabas.protocol.message import Message
from barnabas.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    RequestTopicPartitions,
)
from barnabas.types import TopicPartition, Uuid, uuid_text

JOIN_EPOCH = 0
LEAVE_EPOCH = -1
LEAVE_FOR_A_WHILE_EPOCH = -2  # of a static member, whose next life finds everything as it was
EXPRESSION_VERSION = 1  # of the request; the first that has patterns
HEARTBEAT_INTERVAL_MS = 5_000  # until the coordinator says otherwise

THROWN_OUT = (ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID)


class ConsumerMember(GroupMember):
    def __init__(self, settings: MemberSettings, random: Random) -> None:
        super().__init__(settings)
        self.member_id = uuid_text(random.randbytes(16))  # for good: the member chooses it
        self.generation = JOIN_EPOCH
        self._is_member = False  # the coordinator has answered a heartbeat with an epoch
        self._topics: tuple[str, ...] = ()
        self._server_pattern: str | None = None
        self._in_flight = False
        self._is_heard = False  # the last heartbeat was answered, so that the next one may leave things out
        self._told: ConsumerGroupHeartbeatRequest | None = None  # everything, as of the last heartbeat
        self._must_tell = False  # without waiting for the interval
        self._interval_ms = HEARTBEAT_INTERVAL_MS
        self._heartbeat_at_ms = 0.0
        self._target: dict[Uuid, tuple[int, ...]] | None = None  # what to have; None: not told
        self._names: dict[Uuid, str] = {}  # of topics in the target, as far as they are known
        self._ids: dict[TopicPartition, Uuid] = {}  # whose topic each that it has, or is given, belongs to

    def subscribe(self, topics: Iterable[str], server_pattern: str | None = None) -> None:
        wanted = () if server_pattern is not None else tuple(topics)
        if server_pattern is None and self._server_pattern is not None:
            server_pattern = ""  # no longer
        if (wanted, server_pattern) != (self._topics, self._server_pattern):
            self._topics, self._server_pattern = wanted, server_pattern
            self._must_tell = True

    @property
    def is_member(self) -> bool:
        return self._is_member

    @property
    def is_settled(self) -> bool:
        return self._is_member and self._target is not None and not self._changes and not self._must_tell

    # What is next

    def next_request(self, now_ms: float) -> Message | None:
        if self._in_flight or self.failure is not None or not self._is_wanted:
            return None
        if self._is_member and self._is_silent(now_ms):
            return self._sent(self._leave_of_silence())
        if not self._is_member and self._changes:
            return None  # the application must hear of its loss before this joins again
        if now_ms < self._heartbeat_at_ms and not self._must_tell:
            return None
        self._heartbeat_at_ms = now_ms + self._interval_ms
        self._must_tell = False
        return self._sent(self._heartbeat())

    def next_deadline_ms(self) -> float:
        if self._in_flight or self.failure is not None or not self._is_wanted:
            return NEVER_MS
        if not self._is_member and self._changes:
            return NEVER_MS
        if self._must_tell:
            return 0.0
        return min(self._heartbeat_at_ms, self._silent_at_ms() if self._is_member else NEVER_MS)

    def _sent(self, request: Message | None) -> Message | None:
        self._in_flight = request is not None
        return request

    def _heartbeat(self) -> ConsumerGroupHeartbeatRequest:
        settings = self.settings
        whole = ConsumerGroupHeartbeatRequest(
            group_id=settings.group_id,
            member_id=self.member_id,
            member_epoch=self.generation,
            instance_id=settings.instance_id,
            rack_id=settings.rack or None,
            rebalance_timeout_ms=settings.max_poll_interval_ms,
            subscribed_topic_names=list(self._topics),
            subscribed_topic_regex=self._server_pattern,
            server_assignor=settings.server_assignor,
            topic_partitions=self._owned_by_id(),
        )
        told, self._told = self._told, whole
        is_heard, self._is_heard = self._is_heard, False
        if told is None or not is_heard:
            return whole
        names, pattern, owned = whole.subscribed_topic_names, whole.subscribed_topic_regex, whole.topic_partitions
        return ConsumerGroupHeartbeatRequest(
            group_id=settings.group_id,
            member_id=self.member_id,
            member_epoch=self.generation,
            instance_id=settings.instance_id,
            subscribed_topic_names=None if names == told.subscribed_topic_names else names,
            subscribed_topic_regex=None if pattern == told.subscribed_topic_regex else pattern,
            topic_partitions=None if owned == told.topic_partitions else owned,
        )

    def _owned_by_id(self) -> list[RequestTopicPartitions]:
        if not self._is_member:
            return []
        topics: dict[Uuid, list[int]] = {}
        for partition in self.owned:
            topics.setdefault(self._ids[partition], []).append(partition.partition)
        return [RequestTopicPartitions(topic_id=topic_id, partitions=found) for topic_id, found in topics.items()]

    def leave_request(self) -> Message | None:
        is_static = self.settings.instance_id is not None
        request = None
        if (self._is_member or self._in_flight) and self.failure is None:
            request = ConsumerGroupHeartbeatRequest(
                group_id=self.settings.group_id,
                member_id=self.member_id,
                member_epoch=LEAVE_FOR_A_WHILE_EPOCH if is_static else LEAVE_EPOCH,
                instance_id=self.settings.instance_id,
            )
        self._reset()
        self._is_wanted = False
        self._in_flight = False
        return request

    def _reset(self) -> None:
        self.generation = JOIN_EPOCH
        self._is_member = False
        self._is_heard = False
        self._target = None
        self._must_tell = True
        self._lose_everything()

    # Answers

    def answered(self, response: Any, now_ms: float) -> None:
        if not self._in_flight:
            return  # the member has left meanwhile
        self._in_flight = False
        assert isinstance(response, ConsumerGroupHeartbeatResponse)
        error = known_code(response.error_code)
        if error in THROWN_OUT:
            self._warn_of_loss(error)
            self._reset()
        elif error != ErrorCode.NONE:
            about = f"group {self.settings.group_id}"
            self._reset()
            self.failure = error_of(error, response.error_message, about=about)
        elif self._told is not None and self._told.member_epoch != self.generation:
            self.failed(now_ms)  # it was thrown out while this was under way: the answer is to who it was before
        elif response.member_epoch >= 1 and self._is_wanted:
            self._is_heard = True
            self._heard(response, now_ms)

    def _heard(self, response: ConsumerGroupHeartbeatResponse, now_ms: float) -> None:
        self._is_member = True
        self.generation = response.member_epoch
        if response.heartbeat_interval_ms > 0:
            self._interval_ms = response.heartbeat_interval_ms
        self._heartbeat_at_ms = now_ms + self._interval_ms
        if response.assignment is not None:
            self._target = {
                each.topic_id: tuple(sorted(each.partitions)) for each in response.assignment.topic_partitions
            }
            self._names = {topic_id: name for topic_id, name in self._names.items() if topic_id in self._target}
            self._reconcile()

    def failed(self, now_ms: float) -> None:
        self._in_flight = False
        self._is_heard = False
        self._must_tell = True

    def thrown_out(self, code: int, now_ms: float) -> bool:
        if code == ErrorCode.STALE_MEMBER_EPOCH:
            self._must_tell = True  # the next answer has the epoch that counts
            return False
        if code not in THROWN_OUT:
            return False
        if self._is_member:
            self._warn_of_loss(ErrorCode(code))
            self._reset()
        return True

    # The way to the target

    def _reconcile(self) -> None:
        """One step after the other: what is under way is finished first."""
        if self._target is None or self._changes:
            return
        wanted = {
            TopicPartition(self._names[topic_id], partition): topic_id
            for topic_id, partitions in self._target.items()
            if topic_id in self._names
            for partition in partitions
        }
        # A topic that was made anew has another id: what it had is gone although the name stays.
        gone = tuple(each for each in self.owned if wanted.get(each) != self._ids[each])
        new = tuple(sorted(set(wanted) - (set(self.owned) - set(gone))))
        if gone:
            self._changes.append(Change(ChangeKind.REVOKED, gone))
        if new:
            self._changes.append(Change(ChangeKind.ASSIGNED, new))
            self._ids |= {each: wanted[each] for each in new}

    def _change_was_done(self, kind: ChangeKind, now_ms: float) -> None:
        if not self._changes and self._is_member:
            self._must_tell = True  # that this much is done
            self._reconcile()

    def partitions_known(self, partition_counts: Mapping[str, int], racks: ReplicaRacks = NO_RACKS) -> None:
        """The coordinator counts partitions here."""

    @property
    def ids_wanted(self) -> tuple[Uuid, ...]:
        return tuple(each for each in self._target or () if each not in self._names)

    def names_known(self, names: Mapping[Uuid, str]) -> None:
        found = {topic_id: names[topic_id] for topic_id in self.ids_wanted if topic_id in names}
        if found:
            self._names |= found
            self._reconcile()

"""What every kind of group is and does, as the shard and the offsets need it.

Always holds: a group's durable state changes only in `apply` of its kind, called live and at replay alike. What is
not durable (who waits, timers) may change in any decision, and is gone after a reload.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from enum import Enum
from random import Random
from typing import ClassVar

from barnabas.errors import ErrorCode
from barnabas.groups.consumer_settings import ConsumerSettings
from barnabas.groups.outcome import NOTHING, Client, Moment, Outcome, Pending
from barnabas.groups.records import GroupRecord
from barnabas.groups.settings import GroupSettings
from barnabas.groups.timers import TimerKey, Timers
from barnabas.groups.topics import Topics
from barnabas.protocol.messages.describe_groups import DescribedGroup
from barnabas.protocol.messages.heartbeat import HeartbeatRequest
from barnabas.protocol.messages.join_group import JoinGroupRequest
from barnabas.protocol.messages.leave_group import LeaveGroupRequest
from barnabas.protocol.messages.sync_group import SyncGroupRequest
from barnabas.types import Uuid


class GroupType(Enum):
    """Kafka's words, as ListGroups has them; its filter does not mind their case."""

    CLASSIC = "classic"
    CONSUMER = "consumer"


class GroupCount:
    """How many groups one broker has, over all its shards."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = 0


class Surroundings:
    """What the groups of one shard share."""

    __slots__ = ("consumer", "consumer_overrides", "count", "random", "settings", "timers", "topic_hashes", "topics")

    def __init__(
        self, *, settings: GroupSettings, topics: Topics, random: Random, count: GroupCount | None = None
    ) -> None:
        self.settings = settings  # replaced as a whole
        self.consumer = ConsumerSettings()  # replaced as a whole
        self.consumer_overrides: Mapping[str, ConsumerSettings] = {}  # by group; replaced as a whole
        self.topics = topics  # replaced as a whole
        self.topic_hashes: dict[str, int] = {}  # by name; whoever replaces the topics takes out those that changed
        self.timers = Timers()
        self.random = random
        self.count = GroupCount() if count is None else count

    def consumer_settings(self, group_id: str) -> ConsumerSettings:
        return self.consumer_overrides.get(group_id, self.consumer)

    @property
    def has_room(self) -> bool:
        return self.count.value < self.settings.groups_max


class Group(ABC):
    __slots__ = ("group_id", "surroundings")
    TYPE: ClassVar[GroupType]

    def __init__(self, group_id: str, surroundings: Surroundings) -> None:
        self.group_id = group_id
        self.surroundings = surroundings

    # What it is

    @property
    @abstractmethod
    def state_name(self) -> str:
        """Kafka's word for the state, as ListGroups and its filter have it."""

    @property
    @abstractmethod
    def protocol_type(self) -> str:
        """Empty where nobody has ever joined."""

    @property
    @abstractmethod
    def is_empty(self) -> bool:
        """No member: it may be deleted, or replaced by a group of another kind."""

    @abstractmethod
    def describe(self) -> DescribedGroup | ErrorCode:
        """For DescribeGroups, which knows only the classic protocol."""

    # Requests of the classic protocol

    @abstractmethod
    def join(self, request: JoinGroupRequest, client: Client, pending: Pending, now: Moment) -> Outcome: ...

    @abstractmethod
    def sync(self, request: SyncGroupRequest, client: Client, pending: Pending, now: Moment) -> Outcome: ...

    @abstractmethod
    def heartbeat(self, request: HeartbeatRequest, client: Client, pending: Pending, now: Moment) -> Outcome: ...

    @abstractmethod
    def leave(self, request: LeaveGroupRequest, client: Client, pending: Pending, now: Moment) -> Outcome:
        """`request.members` is filled at every version."""

    # Committed offsets

    @abstractmethod
    def check_offset_commit(
        self, *, member_id: str, instance_id: str | None, epoch: int, transactional: bool, api_version: int
    ) -> ErrorCode:
        """`epoch` is the generation of a classic member and the member epoch of another; -1 of nobody's."""

    def check_partition_commit(self, *, member_id: str, epoch: int, topic_id: Uuid, partition: int) -> ErrorCode:
        """Asked for each partition of a commit that `check_offset_commit` lets pass; an error refuses all of it."""
        return ErrorCode.NONE

    @abstractmethod
    def offsets_committed(self, member_id: str, now: Moment) -> None:
        """A commit of this member was accepted, which shows that it is alive."""

    @abstractmethod
    def check_offset_fetch(self, *, member_id: str | None, epoch: int) -> ErrorCode: ...

    @abstractmethod
    def check_offset_delete(self) -> ErrorCode: ...

    @abstractmethod
    def is_subscribed(self, topic: str) -> bool: ...

    @abstractmethod
    def offsets_age_from_ms(self, commit_timestamp_ms: int) -> int | None:
        """The moment from which an offset committed then begins to age; None where none ages now (KIP-211)."""

    # The end

    @abstractmethod
    def check_delete(self) -> ErrorCode: ...

    @abstractmethod
    def tombstones(self) -> Sequence[GroupRecord]:
        """Removes everything of the group from the log but its offsets."""

    # Time and the log

    @abstractmethod
    def expired(self, timer: TimerKey, now: Moment) -> Outcome:
        """A timer that the group has set is due."""

    @abstractmethod
    def loaded(self, now: Moment) -> Outcome:
        """Everything is replayed: members have their whole session again from now on."""

    @abstractmethod
    def unload(self) -> Sequence[Pending]:
        """The group ends here: cancels its timers and names those who wait."""

    def topics_changed(  # noqa: B027  # a classic group does not care
        self, names: Sequence[str], *, names_changed: bool, now: Moment
    ) -> None:
        """Topics of these names were changed, created or deleted; in the last two cases names have changed."""

    def append_failed(self, outcome: Outcome, error: ErrorCode, now: Moment) -> Outcome:
        """The records of an outcome of this group could not be written, and were not applied.

        The answers of that outcome are given by the shell, with the error.
        """
        return NOTHING

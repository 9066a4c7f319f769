"""What a member of a group is to the consumer that carries out its words, whichever protocol the group speaks.

A member is told of answers, of time and of the application's polls. It says which request is next (`next_request`; one
is out at a time) and what the application must be told (`change`): partitions are taken away or given only while the
application polls, so that it never loses one in the middle of its work.
Always holds: a request that failed is made again, from what is true by then. What was lost, because the group went on
without this member, is told as lost and never as revoked. A change that the application has begun to hear of is
finished before anything else is told, also where everything is lost meanwhile. After `max_poll_interval_ms` without a
poll the member leaves the group, and joins it anew at the next poll.
Does not know: coordinators, connections, positions.
"""

import logging
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, NamedTuple

from barnabas.client.assignors.specification import NO_RACKS, Assignor, ReplicaRacks
from barnabas.client.errors import KafkaError
from barnabas.errors import ErrorCode
from barnabas.protocol.message import Message
from barnabas.types import TopicPartition, Uuid

logger = logging.getLogger(__name__)

NEVER_MS = float("inf")


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberSettings:
    group_id: str
    instance_id: str | None = None
    rack: str | None = None
    max_poll_interval_ms: int = 300_000
    session_timeout_ms: int = 45_000  # classic protocol only, as the next two; the new one sets them on the broker
    heartbeat_interval_ms: int = 3_000
    assignors: tuple[Assignor, ...] = ()
    server_assignor: str | None = None  # new protocol only


class ChangeKind(Enum):
    REVOKED = "revoked"
    LOST = "lost"
    ASSIGNED = "assigned"


class Change(NamedTuple):
    """What the application has to be told while it polls."""

    kind: ChangeKind
    partitions: tuple[TopicPartition, ...]


class GroupMember(ABC):
    def __init__(self, settings: MemberSettings) -> None:
        self.settings = settings
        self.member_id = ""
        self.generation = -1  # or the member epoch; below 1: not a member
        self.owned: tuple[TopicPartition, ...] = ()  # what the application was told it has; sorted
        self.failure: KafkaError | None = None  # nothing goes on after this
        self._changes: deque[Change] = deque()
        self._is_changing = False  # the application is being told of the first of them
        self._is_polling = False
        self._polled_ms = 0.0  # when a poll last began or ended
        self._is_wanted = False  # the application has polled: until then, and after it went silent, nothing is sent

    # What the application does

    def poll_began(self, now_ms: float) -> bool:
        """True where the member was idle until now."""
        was_idle, self._is_wanted = not self._is_wanted, True
        self._is_polling = True
        self._polled_ms = now_ms
        return was_idle

    def poll_ended(self, now_ms: float) -> None:
        self._is_polling = False
        self._polled_ms = now_ms

    def _is_silent(self, now_ms: float) -> bool:
        return not self._is_polling and now_ms >= self._polled_ms + self.settings.max_poll_interval_ms

    def _silent_at_ms(self) -> float:
        return NEVER_MS if self._is_polling else self._polled_ms + self.settings.max_poll_interval_ms

    @property
    def change(self) -> Change | None:
        return self._changes[0] if self._changes else None

    def begin_change(self) -> Change:
        """The application is told of this one now. `change_done` must follow."""
        self._is_changing = True
        return self._changes[0]

    def change_done(self, now_ms: float) -> None:
        """The application was told, and the consumer acts accordingly."""
        self._is_changing = False
        change = self._changes.popleft()
        self.owned = self._owned_after(change)
        self._change_was_done(change.kind, now_ms)

    def _owned_after(self, change: Change) -> tuple[TopicPartition, ...]:
        if change.kind is ChangeKind.ASSIGNED:
            return tuple(sorted({*self.owned, *change.partitions}))
        return tuple(each for each in self.owned if each not in set(change.partitions))

    def _warn_of_loss(self, error: ErrorCode) -> None:
        logger.warning(
            "group %s: the coordinator refuses member %s of generation %d with %s: the member loses its partitions, "
            "joins anew, and reads on from what is committed",
            self.settings.group_id,
            self.member_id,
            self.generation,
            error.name,
        )

    def _lose_everything(self) -> None:
        """What the application will own once it has heard of the change that is under way."""
        begun = self._changes[0] if self._is_changing else None
        self._changes.clear()
        owned = self.owned
        if begun is not None:
            self._changes.append(begun)
            owned = self._owned_after(begun)
        if owned:
            self._changes.append(Change(ChangeKind.LOST, owned))

    @abstractmethod
    def _change_was_done(self, kind: ChangeKind, now_ms: float) -> None: ...

    @property
    @abstractmethod
    def is_member(self) -> bool:
        """As far as it knows. What it commits otherwise would be refused."""

    @property
    @abstractmethod
    def is_settled(self) -> bool:
        """It is a member, and has what it was given."""

    @abstractmethod
    def subscribe(self, topics: Iterable[str], server_pattern: str | None = None) -> None: ...

    # Requests

    @abstractmethod
    def next_request(self, now_ms: float) -> Message | None:
        """What to send to the coordinator now. Every request must be followed by `answered` or `failed`."""

    @abstractmethod
    def next_deadline_ms(self) -> float:
        """When to ask for a request again, unless something happens before."""

    @abstractmethod
    def answered(self, response: Any, now_ms: float) -> None:
        """To the last request. Errors that speak of the coordinator rather than of the member count as `failed`."""

    @abstractmethod
    def failed(self, now_ms: float) -> None:
        """There was no answer, or the coordinator is another one: whether it was carried out is not known."""

    @abstractmethod
    def thrown_out(self, code: int, now_ms: float) -> bool:
        """Another answer, to a commit, carried this code. True where it says that this is no member any more."""

    @abstractmethod
    def leave_request(self) -> Message | None:
        """What to send when the consumer closes or unsubscribes. The member is none from then on."""

    def _leave_of_silence(self) -> Message | None:
        """Others shall have its partitions. What was not committed comes again, which would be hard to explain."""
        logger.warning(
            "group %s: nothing was polled for %d ms (max_poll_interval_ms), so this member leaves until the next poll; "
            "poll more often, take fewer records at once (max_poll_records), or raise the interval",
            self.settings.group_id,
            self.settings.max_poll_interval_ms,
        )
        return self.leave_request()

    def timeout_ms(self, request: Message, request_timeout_ms: int) -> int:
        """How long an answer may take."""
        return request_timeout_ms

    # Metadata

    @property
    def topics_watched(self) -> tuple[str, ...]:
        """Topics of the whole group, whose partitions this member must keep an eye on."""
        return ()

    @property
    def topics_wanted(self) -> tuple[str, ...] | None:
        """Topics whose partition counts are needed now (`partitions_known`), or None."""
        return None

    @abstractmethod
    def partitions_known(self, partition_counts: Mapping[str, int], racks: ReplicaRacks = NO_RACKS) -> None:
        """Told whenever metadata came in."""

    @property
    def ids_wanted(self) -> tuple[Uuid, ...]:
        """Ids of topics whose names are needed now (`names_known`)."""
        return ()

    @abstractmethod
    def names_known(self, names: Mapping[Uuid, str]) -> None:
        """Told whenever metadata came in."""

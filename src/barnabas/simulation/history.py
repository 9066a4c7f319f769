"""What clients asked and what they were told: the only things that a guarantee can be held against.

Every record's value names its writer, its number there and the partition that it was meant for, so that a record found
anywhere says by itself where it ought to be.
Always holds: an event is told to the observers when it happened, in order. Does not know: what is right.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from barnabas.errors import ErrorCode
from barnabas.types import Offset, Uuid


class PartitionId(NamedTuple):
    """A partition of one life of a topic: a topic created again under its old name is another one."""

    topic_id: Uuid
    partition: int

    def __str__(self) -> str:
        return f"{self.topic_id.hex()[:8]}-{self.partition}"


class Stamp(NamedTuple):
    """What a value says about itself."""

    writer: str  # one producer with one producer id, so that its records have one order
    number: int
    partition_id: str

    @classmethod
    def of(cls, value: bytes) -> "Stamp":
        writer, number, partition_id, _padding = value.split(b" ", 3)
        return cls(writer.decode(), int(number), partition_id.decode())


def source_of(value: bytes) -> str:
    """Of which record this one is a copy; nothing where it is none."""
    _writer, _number, _partition_id, rest = value.split(b" ", 3)
    return rest[1 : rest.index(b">")].decode() if rest.startswith(b"<") else ""


def stamped(writer: str, number: int, partition_id: PartitionId, size_bytes: int, source: str = "") -> bytes:
    """`source` is that of a copy, in brackets."""
    return f"{writer} {number} {partition_id} {source}".encode().ljust(size_bytes, b".")


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """What one producer wants to have appended, as often as it has to ask for it."""

    partition_id: PartitionId
    writer: str
    first_number: int
    values: tuple[bytes, ...]
    acks: int
    base_sequence: int = -1  # -1: not idempotent
    keys: tuple[bytes, ...] = ()  # for each value, in a compacted topic, where an empty value is a tombstone
    transaction: str = ""  # of which it is a part

    @property
    def is_keyed(self) -> bool:
        return bool(self.keys)

    def __str__(self) -> str:
        end = self.first_number + len(self.values)
        return f"{self.writer}[{self.first_number}:{end}) to {self.partition_id} acks={self.acks}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProduceAsked:
    batch: Batch


@dataclass(frozen=True, slots=True, kw_only=True)
class ProduceAcknowledged:
    batch: Batch
    base_offset: Offset  # -1 where the broker no longer knew it


@dataclass(frozen=True, slots=True, kw_only=True)
class ProduceRefused:
    """A definite no to the oldest batch that a producer still waits for."""

    batch: Batch
    error: ErrorCode


@dataclass(frozen=True, slots=True, kw_only=True)
class ProduceGivenUp:
    """Nobody will ever know."""

    batch: Batch


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchAsked:
    reader: str
    partition_id: PartitionId
    offset: Offset


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetched:
    """Whole records from the offset on that was asked for."""

    reader: str
    partition_id: PartitionId
    offset: Offset
    leader_epoch: int  # that the broker has confirmed; -1 where it was not asked to
    high_watermark: Offset
    log_start_offset: Offset
    records: tuple[tuple[Offset, bytes], ...]
    markers: tuple[Offset, ...] = ()  # the ends of transactions among them


@dataclass(frozen=True, slots=True, kw_only=True)
class StableFetched:
    """The same with read_committed: what the broker and its list of aborted transactions leave of it."""

    reader: str
    partition_id: PartitionId
    offset: Offset
    next_offset: Offset
    leader_epoch: int
    last_stable_offset: Offset
    high_watermark: Offset
    records: tuple[tuple[Offset, bytes], ...]

    def __str__(self) -> str:
        span = f"[{self.offset}:{self.next_offset}) of {self.partition_id}"
        return f"{self.reader} reads {len(self.records)} committed records in {span}, stable {self.last_stable_offset}"


@dataclass(frozen=True, slots=True, kw_only=True)
class TableFetched:
    """Of a compacted topic, with read_committed, by who reads everything at the end."""

    partition_id: PartitionId
    records: tuple[tuple[Offset, bytes, bytes], ...]  # offset, key, and a value which is empty in a tombstone

    def __str__(self) -> str:
        return f"{len(self.records)} keyed records of {self.partition_id}"


@dataclass(frozen=True, slots=True, kw_only=True)
class TableReadAnew:
    """From here on what is read of compacted topics begins with their first record."""

    def __str__(self) -> str:
        return "compacted topics are read from their beginning"


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchOutOfRange:
    """Refused, with the bounds as the broker told them afterwards."""

    reader: str
    partition_id: PartitionId
    offset: Offset
    log_start_offset: Offset
    high_watermark: Offset


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicCreated:
    """Acknowledged, or seen by somebody."""

    name: str
    topic_id: Uuid
    partition_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicDeletionAsked:
    topic_id: Uuid


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicDeleted:
    topic_id: Uuid


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicsListed:
    """All topics, as one broker told them after everything had come to rest."""

    names: dict[str, Uuid]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerIdGiven:
    producer_id: int
    producer_epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivered:
    """Records that a consumer gave to its application."""

    reader: str  # one consumer of one process
    partition_id: PartitionId
    records: tuple[tuple[Offset, bytes], ...]
    is_committed: bool  # with read_committed
    group: str = ""  # where it is a member of one

    def __str__(self) -> str:
        first, last = self.records[0][0], self.records[-1][0]
        return f"{self.reader} is given {len(self.records)} records of {self.partition_id} from {first} to {last}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Positioned:
    """Where a consumer begins, goes on after it sought, or says that it stands."""

    reader: str
    partition_id: PartitionId
    offset: Offset
    was_sought: bool  # by the application, or by the policy at its beginning; otherwise it follows from what was read

    def __str__(self) -> str:
        return f"{self.reader} {'begins' if self.was_sought else 'stands'} at {self.offset} of {self.partition_id}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionsGiven:
    """A member of a group hears of them by its listener."""

    group: str
    reader: str
    partition_ids: tuple[PartitionId, ...]

    def __str__(self) -> str:
        return f"{self.group}: {self.reader} is given {', '.join(map(str, self.partition_ids)) or 'nothing'}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionsTaken:
    group: str
    reader: str
    partition_ids: tuple[PartitionId, ...]
    are_lost: bool  # to others already

    def __str__(self) -> str:
        taken = ", ".join(map(str, self.partition_ids)) or "nothing"
        return f"{self.group}: {self.reader} {'loses' if self.are_lost else 'gives back'} {taken}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Assigned:
    """What a member of a group has after a poll, and in which generation, as its consumer says."""

    group: str
    member: str  # by its member id, or the id of its instance
    reader: str
    epoch: int
    partition_ids: tuple[PartitionId, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitAsked:
    group: str
    partition_id: PartitionId
    offset: Offset


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitAcknowledged:
    group: str
    partition_id: PartitionId
    offset: Offset


@dataclass(frozen=True, slots=True, kw_only=True)
class CommittedAsked:
    group: str
    member: str
    partition_id: PartitionId


@dataclass(frozen=True, slots=True, kw_only=True)
class CommittedRead:
    group: str
    member: str
    partition_id: PartitionId
    offset: Offset  # -1 where nothing is committed
    is_automatic: bool = False  # members commit by themselves, and do not say what


class TransactionOutcome(Enum):
    COMMITTED = "committed"
    ABORTED = "aborted"  # or never asked to be committed, and never will be
    UNKNOWN = "unknown"  # asked to be committed, and no answer


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionRead:
    """A transaction depends on these: it copies them, or came across them."""

    transaction: str
    values: tuple[bytes, ...]

    def __str__(self) -> str:
        return f"{self.transaction} has read {len(self.values)} records"


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionOffset:
    """Acknowledged as a part of the transaction."""

    transaction: str
    group: str
    partition_id: PartitionId
    offset: Offset

    def __str__(self) -> str:
        return f"{self.transaction} holds {self.group} at {self.offset} of {self.partition_id}"


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionCommitAsked:
    transaction: str

    def __str__(self) -> str:
        return f"{self.transaction} is to be committed"


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionEnded:
    transaction: str
    outcome: TransactionOutcome

    def __str__(self) -> str:
        return f"{self.transaction} is {self.outcome.value}"


TransactionEvent = TransactionRead | TransactionOffset | TransactionCommitAsked | TransactionEnded

Event = (
    ProduceAsked
    | ProduceAcknowledged
    | ProduceRefused
    | ProduceGivenUp
    | FetchAsked
    | Fetched
    | FetchOutOfRange
    | TopicCreated
    | TopicDeletionAsked
    | TopicDeleted
    | TopicsListed
    | ProducerIdGiven
    | Delivered
    | Positioned
    | PartitionsGiven
    | PartitionsTaken
    | Assigned
    | CommitAsked
    | CommitAcknowledged
    | CommittedAsked
    | CommittedRead
    | StableFetched
    | TableFetched
    | TableReadAnew
    | TransactionEvent
)


FINAL_READER = "final"  # who reads everything once nothing happens any more


class History:
    def __init__(self, note: Callable[[str], None]) -> None:
        self.observers: list[Callable[[Event], None]] = []
        self.counts: dict[str, int] = {}  # by kind of event
        self._note = note

    def tell(self, event: Event) -> None:
        kind = type(event).__name__
        self.counts[kind] = self.counts.get(kind, 0) + 1
        self._note(summary(event))
        for observe in self.observers:
            observe(event)


def summary(event: Event) -> str:
    match event:
        case Fetched():
            return (
                f"{event.reader} reads {len(event.records)} records of {event.partition_id} from {event.offset}, "
                f"watermark {event.high_watermark}, start {event.log_start_offset}"
            )
        case ProduceAcknowledged():
            return f"acknowledged {event.batch} at {event.base_offset}"
        case ProduceAsked():
            return f"asked {event.batch}"
        case ProduceRefused():
            return f"refused {event.batch}: {event.error.name}"
        case ProduceGivenUp():
            return f"given up {event.batch}"
        case FetchAsked():
            return f"{event.reader} asks {event.partition_id} from {event.offset}"
        case FetchOutOfRange():
            bounds = f"{event.log_start_offset} to {event.high_watermark}"
            return f"{event.reader} asked {event.partition_id} for {event.offset}, which is not within {bounds}"
        case TopicCreated():
            return f"topic {event.name} is {event.topic_id.hex()[:8]}"
        case TopicDeletionAsked() | TopicDeleted():
            return f"{type(event).__name__} {event.topic_id.hex()[:8]}"
        case ProducerIdGiven():
            return f"producer id {event.producer_id} epoch {event.producer_epoch}"
        case Assigned():
            given = ", ".join(map(str, event.partition_ids)) or "nothing"
            return f"{event.group}: {event.reader} {event.member} epoch {event.epoch} has {given}"
        case CommitAsked():
            return f"{event.group}: asks to commit {event.offset} of {event.partition_id}"
        case CommitAcknowledged():
            return f"{event.group}: committed {event.offset} of {event.partition_id}"
        case CommittedAsked():
            return f"{event.group}: {event.member} asks what is committed of {event.partition_id}"
        case CommittedRead():
            return f"{event.group}: {event.member} begins {event.partition_id} at {event.offset}"
        case TopicsListed():
            return f"topics {', '.join(f'{name} {uuid.hex()[:8]}' for name, uuid in sorted(event.names.items()))}"
        case _:
            return str(event)

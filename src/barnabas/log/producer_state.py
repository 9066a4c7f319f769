"""What a partition remembers of its producers: who wrote last, with which epoch and sequence, and what is undecided.

Owns the rules of idempotent producers (a batch is next, a repetition, or out of order), the open transactions that
hold back the last stable offset, and the bytes of `.snapshot` files:
    version i16 = 1 | crc u32, CRC32C of all that follows | count i32 |
    (producer_id i64, epoch i16, last_sequence i32, last_offset i64, offset_delta i32, timestamp_ms i64,
     coordinator_epoch i32, transaction_first_offset i64)*

Always holds: state is a function of the batches appended so far, in order, so replaying the log from a snapshot gives
the same state. A batch is checked before it is written and appended after; nothing changes in between.
Does not know: files, the log's bytes, the clock.
"""

from collections.abc import Collection, Iterable, Iterator
from struct import Struct, error
from typing import NamedTuple

from barnabas.errors import ErrorCode
from barnabas.protocol.checksum import crc32c
from barnabas.protocol.control_records import TransactionMarker
from barnabas.protocol.record_batch import CONTROL_BIT, INT32_MAX, TRANSACTIONAL_BIT, BatchHeader
from barnabas.types import NO_OFFSET, NO_SEQUENCE, NO_TIMESTAMP_MS, Offset, ProducerId

BATCHES_KEPT = 5  # a producer has at most so many requests in flight, hence at most so many to repeat
PRODUCER_ID_EXPIRATION_MS = 86_400_000
SNAPSHOT_VERSION = 1
SNAPSHOT_SUFFIX = ".snapshot"
PRODUCER_EPOCH_MAX = 2**15 - 1

_BATCH = Struct(">iqiq")
_BATCHES_BYTES_MAX = BATCHES_KEPT * _BATCH.size
_SNAPSHOT_HEAD = Struct(">hIi")
_SNAPSHOT_ENTRY = Struct(">qhiqiqiq")
_CRC_START = 6


class CorruptSnapshot(ValueError):
    """A `.snapshot` file that was not written whole. Recovery removes it and takes an older one."""


class SequencedBatch(NamedTuple):
    """One of the last batches of a producer: enough to answer a repetition as if it were the first."""

    last_sequence: int
    last_offset: Offset
    offset_delta: int
    timestamp_ms: int

    @property
    def base_offset(self) -> Offset:
        return self.last_offset - self.offset_delta

    @property
    def base_sequence(self) -> int:
        return (self.last_sequence - self.offset_delta) & INT32_MAX


class Verdict(NamedTuple):
    """Whether a batch may be appended. A duplicate is no error: it is answered with the batch that it repeats."""

    error: ErrorCode = ErrorCode.NONE
    duplicate_of: SequencedBatch | None = None


class CompletedTransaction(NamedTuple):
    """A transaction that a marker has just ended; an aborted one belongs into the transaction index."""

    producer_id: ProducerId
    first_offset: Offset
    last_offset: Offset  # the marker's
    aborted: bool
    last_stable_offset: Offset  # as far as this partition's transactions go, the watermark apart


ACCEPTED = Verdict()
_STALE_EPOCH = Verdict(ErrorCode.INVALID_PRODUCER_EPOCH)
_OUT_OF_ORDER = Verdict(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
_NOT_TRANSACTIONAL = Verdict(ErrorCode.INVALID_TXN_STATE)


class ProducerState:
    """One producer in one partition."""

    __slots__ = (
        "_batches",
        "coordinator_epoch",
        "epoch",
        "is_partial",
        "last_sequence",
        "last_timestamp_ms",
        "producer_id",
        "transaction_first_offset",
    )

    def __init__(self, producer_id: ProducerId, epoch: int) -> None:
        self.producer_id = producer_id
        self.epoch = epoch  # the highest accepted; older ones are zombies
        self.last_sequence = NO_SEQUENCE  # of the last batch in this epoch; none before the first
        self.last_timestamp_ms = NO_TIMESTAMP_MS  # of the last batch or marker: idleness is counted from here
        self.coordinator_epoch = -1  # of the last marker
        self.transaction_first_offset = NO_OFFSET  # where the open transaction begins, if there is one
        self.is_partial = False  # from a snapshot, which keeps one batch: the log may hold more that count
        self._batches = b""  # the last ones in this epoch, oldest first, packed: there may be many producers

    @property
    def batches(self) -> list[SequencedBatch]:
        return [SequencedBatch._make(fields) for fields in _BATCH.iter_unpack(self._batches)]

    @property
    def last_batch(self) -> SequencedBatch | None:
        if not self._batches:
            return None
        return SequencedBatch._make(_BATCH.unpack_from(self._batches, len(self._batches) - _BATCH.size))

    @property
    def in_transaction(self) -> bool:
        return self.transaction_first_offset >= 0

    def repeated(self, header: BatchHeader) -> SequencedBatch | None:
        """The batch of exactly these sequences, if it is among the last ones."""
        if header.producer_epoch != self.epoch:
            return None
        base_sequence, last_sequence = header.base_sequence, header.last_sequence
        for batch in self.batches:
            if batch.last_sequence == last_sequence and batch.base_sequence == base_sequence:
                return batch
        return None

    def add(self, last_sequence: int, last_offset: Offset, offset_delta: int, timestamp_ms: int) -> None:
        batches = self._batches + _BATCH.pack(last_sequence, last_offset, offset_delta, timestamp_ms)
        self._batches = batches[-_BATCHES_BYTES_MAX:]
        self.last_sequence = last_sequence
        self.last_timestamp_ms = timestamp_ms

    def set_epoch(self, epoch: int) -> None:
        """Sequences start anew in each epoch."""
        if epoch != self.epoch:
            self.epoch = epoch
            self.last_sequence = NO_SEQUENCE
            self.is_partial = False
            self._batches = b""

    def recall(self, earlier: Iterable[SequencedBatch]) -> None:
        """What the log says of the batches before those that are known, oldest first."""
        packed = b"".join(_BATCH.pack(*batch) for batch in earlier)
        self._batches = (packed + self._batches)[-_BATCHES_BYTES_MAX:]
        self.is_partial = False

    def is_idle(self, now_ms: int, expiration_ms: int) -> bool:
        return not self.in_transaction and now_ms - self.last_timestamp_ms >= expiration_ms


class ProducerStates:
    """All producers of one partition."""

    __slots__ = ("_ongoing", "_producers", "_unreplicated")

    def __init__(self) -> None:
        self._producers: dict[ProducerId, ProducerState] = {}
        # First offset to producer of each open transaction. Appends come in offset order, and so do these.
        self._ongoing: dict[Offset, ProducerId] = {}
        # First offset to marker of each ended transaction whose marker is not below the high watermark; by marker.
        self._unreplicated: dict[Offset, Offset] = {}

    def __len__(self) -> int:
        return len(self._producers)

    def __iter__(self) -> Iterator[ProducerState]:
        return iter(self._producers.values())

    def get(self, producer_id: ProducerId) -> ProducerState | None:
        return self._producers.get(producer_id)

    def check(self, header: BatchHeader, *, sequenced: bool = True) -> Verdict:
        """Whether the leader may append this batch of data. A coordinator's batches have no sequences to check.

        A producer of whom nothing is known may begin anywhere: its records may have been deleted (KIP-360).
        """
        state = self._producers.get(header.producer_id)
        if state is None:
            return ACCEPTED
        epoch = header.producer_epoch
        if epoch < state.epoch:
            return _STALE_EPOCH
        if sequenced:
            if epoch > state.epoch:
                if header.base_sequence != 0:
                    return _OUT_OF_ORDER
            elif header.base_sequence != _after(state.last_sequence):
                duplicate = state.repeated(header)
                return _OUT_OF_ORDER if duplicate is None else Verdict(duplicate_of=duplicate)
        if state.transaction_first_offset >= 0 and not header.is_transactional:
            return _NOT_TRANSACTIONAL
        return ACCEPTED

    def refused(self, header: BatchHeader) -> None:
        """The first batch of an unknown producer was not taken, for a reason that may pass: those behind it must wait.

        Else the second of a pipeline would be taken as the beginning, and the first could only come after it.
        """
        if header.base_sequence == 0 and header.producer_id >= 0 and header.producer_id not in self._producers:
            state = self._producers[header.producer_id] = ProducerState(header.producer_id, header.producer_epoch)
            state.last_timestamp_ms = header.max_timestamp_ms

    def check_marker(self, header: BatchHeader, marker: TransactionMarker, transaction_version: int = 0) -> ErrorCode:
        """Whether the leader may append this marker.

        From transaction version 2 on each marker raises the epoch, so that one of an older transaction cannot end a
        newer one (KIP-890); only its repetition, or the last epoch that there is, may come with the same.
        """
        state = self._producers.get(header.producer_id)
        if state is None:
            return ErrorCode.NONE
        epoch = header.producer_epoch
        if epoch < state.epoch:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        if transaction_version >= 2 and epoch == state.epoch and state.in_transaction and epoch != PRODUCER_EPOCH_MAX:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        if marker.coordinator_epoch < state.coordinator_epoch:
            return ErrorCode.TRANSACTION_COORDINATOR_FENCED
        return ErrorCode.NONE

    def append(
        self,
        header: BatchHeader,
        base_offset: Offset | None = None,
        timestamp_ms: int | None = None,
        marker: TransactionMarker | None = None,
    ) -> CompletedTransaction | None:
        """Takes note of a batch of a producer, now in the log; by the leader, a follower and recovery alike.

        `base_offset` and `timestamp_ms` where the log has given the batch others than its header says. A control batch
        needs its marker; one that a newer Kafka invented, or that compaction has emptied, has none and changes nothing.
        """
        producer_id = header.producer_id
        assert producer_id >= 0, "only batches of a producer belong here"
        first_offset = header.base_offset if base_offset is None else base_offset
        time_ms = header.max_timestamp_ms if timestamp_ms is None else timestamp_ms
        attributes = header.attributes
        if attributes & CONTROL_BIT:
            return None if marker is None else self._end_transaction(header, marker, first_offset, time_ms)
        state = self._producers.get(producer_id)
        if state is None:
            state = self._producers[producer_id] = ProducerState(producer_id, header.producer_epoch)
        elif state.epoch != header.producer_epoch:
            state.set_epoch(header.producer_epoch)
        delta = header.last_offset_delta
        state.add(header.last_sequence, first_offset + delta, delta, time_ms)
        if attributes & TRANSACTIONAL_BIT and state.transaction_first_offset < 0:
            state.transaction_first_offset = first_offset
            self._ongoing[first_offset] = producer_id
        return None

    def _end_transaction(
        self, header: BatchHeader, marker: TransactionMarker, offset: Offset, timestamp_ms: int
    ) -> CompletedTransaction | None:
        producer_id = header.producer_id
        state = self._producers.get(producer_id)
        if state is None:
            state = self._producers[producer_id] = ProducerState(producer_id, header.producer_epoch)
        first_offset = state.transaction_first_offset
        state.set_epoch(header.producer_epoch)
        state.coordinator_epoch = marker.coordinator_epoch
        state.last_timestamp_ms = timestamp_ms
        state.transaction_first_offset = NO_OFFSET
        if first_offset < 0:
            return None  # nothing was written here: there is nothing to hold back or to hide
        del self._ongoing[first_offset]
        self._unreplicated[first_offset] = offset
        next_open = next(iter(self._ongoing), offset + 1)
        return CompletedTransaction(producer_id, first_offset, offset, not marker.committed, next_open)

    @property
    def ongoing_transactions(self) -> dict[Offset, ProducerId]:
        """First offset to producer, by offset."""
        return self._ongoing

    @property
    def first_undecided_offset(self) -> Offset | None:
        """Where the oldest open transaction begins."""
        return next(iter(self._ongoing), None)

    @property
    def first_unstable_offset(self) -> Offset | None:
        """Where the oldest transaction begins that is open, or whose marker may yet be lost. Bounds the last stable."""
        first = next(iter(self._ongoing), None)
        if self._unreplicated:
            unreplicated = min(self._unreplicated)
            return unreplicated if first is None else min(first, unreplicated)
        return first

    def advance(self, offset: Offset) -> None:
        """Markers below the high watermark (or the log start) are final."""
        while self._unreplicated:
            first_offset, marker_offset = next(iter(self._unreplicated.items()))
            if marker_offset >= offset:
                return
            del self._unreplicated[first_offset]

    def expire(self, now_ms: int, expiration_ms: int = PRODUCER_ID_EXPIRATION_MS) -> int:
        """Forgets producers that have been silent for long, and says how many. Open transactions keep theirs."""
        idle = [state.producer_id for state in self._producers.values() if state.is_idle(now_ms, expiration_ms)]
        for producer_id in idle:
            del self._producers[producer_id]
        return len(idle)

    def clear(self) -> None:
        self._producers.clear()
        self._ongoing.clear()
        self._unreplicated.clear()

    def encode(self) -> bytes:
        """A snapshot: the last batch of each producer, which is all that survives a restart."""
        entries = b"".join(_encode_entry(self._producers[producer_id]) for producer_id in sorted(self._producers))
        count = len(self._producers)
        crc = crc32c(_SNAPSHOT_HEAD.pack(SNAPSHOT_VERSION, 0, count)[_CRC_START:] + entries)
        return _SNAPSHOT_HEAD.pack(SNAPSHOT_VERSION, crc, count) + entries

    def load(self, snapshot: bytes, now_ms: int, expiration_ms: int = PRODUCER_ID_EXPIRATION_MS) -> None:
        """Starts over from a snapshot; the caller then appends what follows it. CorruptSnapshot changes nothing."""
        states = decode_snapshot(snapshot)
        self.clear()
        for state in states:
            if not state.is_idle(now_ms, expiration_ms):
                self._producers[state.producer_id] = state
        in_transaction = [state for state in self._producers.values() if state.in_transaction]
        in_transaction.sort(key=lambda state: state.transaction_first_offset)
        self._ongoing.update((state.transaction_first_offset, state.producer_id) for state in in_transaction)


def _after(sequence: int) -> int:
    return 0 if sequence == INT32_MAX else sequence + 1


def _encode_entry(state: ProducerState) -> bytes:
    batch = state.last_batch
    last_offset, offset_delta = (batch.last_offset, batch.offset_delta) if batch else (NO_OFFSET, 0)
    return _SNAPSHOT_ENTRY.pack(
        state.producer_id,
        state.epoch,
        state.last_sequence,
        last_offset,
        offset_delta,
        state.last_timestamp_ms,
        state.coordinator_epoch,
        state.transaction_first_offset,
    )


def decode_snapshot(snapshot: bytes) -> list[ProducerState]:
    try:
        version, crc, count = _SNAPSHOT_HEAD.unpack_from(snapshot)
    except error:
        raise CorruptSnapshot(f"{len(snapshot)} bytes are too few for a snapshot") from None
    if version != SNAPSHOT_VERSION:
        raise CorruptSnapshot(f"version {version} instead of {SNAPSHOT_VERSION}")
    if crc32c(snapshot[_CRC_START:]) != crc:
        raise CorruptSnapshot("the checksum does not match")
    if count < 0 or len(snapshot) != _SNAPSHOT_HEAD.size + count * _SNAPSHOT_ENTRY.size:
        raise CorruptSnapshot(f"{len(snapshot)} bytes cannot be {count} producers")
    return [_decode_entry(fields) for fields in _SNAPSHOT_ENTRY.iter_unpack(snapshot[_SNAPSHOT_HEAD.size :])]


def _decode_entry(fields: tuple[int, ...]) -> ProducerState:
    producer_id, epoch, last_sequence, last_offset, offset_delta, timestamp_ms, coordinator_epoch, first_offset = fields
    state = ProducerState(producer_id, epoch)
    if last_offset >= 0:
        state.add(last_sequence, last_offset, offset_delta, timestamp_ms)
        state.is_partial = True
    state.last_timestamp_ms = timestamp_ms
    state.coordinator_epoch = coordinator_epoch
    state.transaction_first_offset = max(first_offset, NO_OFFSET)
    return state


def snapshot_file_name(offset: Offset) -> str:
    """Named after the end of the log when it was taken: it holds what the batches below this offset say."""
    return f"{offset:020d}{SNAPSHOT_SUFFIX}"


def stray_snapshots(snapshot_offsets: Collection[Offset], segment_base_offsets: Collection[Offset]) -> list[Offset]:
    """Snapshots that no segment needs. The newest may lie beyond all segments: a clean stop leaves it there."""
    bases = set(segment_base_offsets)
    strays = sorted(offset for offset in snapshot_offsets if offset not in bases)
    if strays and (not bases or strays[-1] >= max(bases)):
        strays.pop()
    return strays

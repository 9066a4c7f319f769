"""Control records: what the broker itself writes into a log, in batches of their own.

    key    version i16 | type i16
    value  of a transaction marker: version i16 | coordinator_epoch i32

Owns the kinds of control records and the transaction markers. The values of the others (leader change, snapshots,
voters) are ordinary messages with a definition. Always holds: unknown kinds decode to None, as Kafka skips them.
"""

from enum import IntEnum
from struct import Struct, error
from typing import NamedTuple

from barnabas.protocol.record_batch import InvalidRecordBatch, Record, encode_batch


class ControlRecordKind(IntEnum):
    ABORT = 0
    COMMIT = 1
    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6


class TransactionMarker(NamedTuple):
    """The end of one producer's transaction in one partition."""

    committed: bool
    coordinator_epoch: int


_KEY = Struct(">hh")
_MARKER = Struct(">hi")
_KIND_MAX = max(ControlRecordKind)


def encode_control_key(kind: ControlRecordKind) -> bytes:
    return _KEY.pack(0, kind)


def decode_control_key(key: bytes | None) -> ControlRecordKind | None:
    """The kind of a control record; None for a kind that a newer Kafka may have added."""
    try:
        version, kind = _KEY.unpack_from(key or b"")
    except error:
        raise InvalidRecordBatch("a control record whose key is shorter than four bytes") from None
    if version < 0 or kind < 0:
        raise InvalidRecordBatch(f"a control record of version {version} and kind {kind}")
    return ControlRecordKind(kind) if kind <= _KIND_MAX else None


def decode_transaction_marker(record: Record) -> TransactionMarker | None:
    """The marker in a control record; None where the record is another kind of control record."""
    kind = decode_control_key(record.key)
    if kind not in (ControlRecordKind.ABORT, ControlRecordKind.COMMIT):
        return None
    try:
        version, coordinator_epoch = _MARKER.unpack_from(record.value or b"")
    except error:
        raise InvalidRecordBatch("a transaction marker whose value is shorter than six bytes") from None
    if version < 0:
        raise InvalidRecordBatch(f"a transaction marker of version {version}")
    return TransactionMarker(kind == ControlRecordKind.COMMIT, coordinator_epoch)


def encode_transaction_marker(
    marker: TransactionMarker,
    *,
    producer_id: int,
    producer_epoch: int,
    timestamp_ms: int,
    base_offset: int = 0,
    leader_epoch: int = -1,
) -> bytearray:
    """A batch of one marker, as the leader of a partition appends it at the coordinator's word."""
    kind = ControlRecordKind.COMMIT if marker.committed else ControlRecordKind.ABORT
    value = _MARKER.pack(0, marker.coordinator_epoch)
    return encode_batch(
        [Record(base_offset, timestamp_ms, encode_control_key(kind), value)],
        base_offset=base_offset,
        leader_epoch=leader_epoch,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        transactional=True,
        control=True,
    )

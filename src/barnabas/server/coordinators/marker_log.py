"""A transaction marker appended to a partition that this broker leads.

Always holds: what a marker of the offsets topic decides is applied to the groups of that partition with it. After a
marker, nothing counts that was verified before it in the transaction that it ends.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from barnabas.coordination.outcome import Producer
from barnabas.errors import ErrorCode
from barnabas.log.append import AppendOrigin
from barnabas.metadata.topic_names import OFFSETS_TOPIC
from barnabas.protocol.control_records import TransactionMarker, encode_transaction_marker
from barnabas.protocol.record_batch import read_header
from barnabas.protocol.special_numbers import ACKS_ALL
from barnabas.server.replicas import leader_hints
from barnabas.server.replicas.commit_wait import Commit
from barnabas.types import NO_PRODUCER_EPOCH, ProducerId, TopicPartition

if TYPE_CHECKING:
    from barnabas.server.broker import Broker
    from barnabas.server.coordinators.group_shard import LedShard

NO_COORDINATOR_EPOCH = -1  # of a producer that has no marker yet: any later one is newer


class Marker(NamedTuple):
    producer_id: ProducerId
    producer_epoch: int
    committed: bool
    coordinator_epoch: int
    transaction_version: int


def append(broker: Broker, name: TopicPartition, marker: Marker) -> tuple[ErrorCode, Commit | None]:
    """What came of it, and where that is good so far but not committed yet, the moment at which it is."""
    partition = broker.partitions.get(*name)
    if partition is None:
        return leader_hints.missing(broker.controller.image, *name), None
    error = _check_numbers(marker)
    if error != ErrorCode.NONE:
        return error, None
    groups: LedShard | None = None
    if name.topic == OFFSETS_TOPIC:
        groups = broker.groups.shards.get(name.partition)
        if groups is None or groups.error != ErrorCode.NONE:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER, None  # not yet, or no longer: the coordinator asks again
    content = TransactionMarker(marker.committed, marker.coordinator_epoch)
    batch = memoryview(
        encode_transaction_marker(
            content,
            producer_id=marker.producer_id,
            producer_epoch=marker.producer_epoch,
            timestamp_ms=broker.runtime.clock.now_ms(),
        )
    )
    if partition.is_leader:
        header = read_header(batch, 0)
        error = partition.log.producers.check_marker(header, content, marker.transaction_version)
        if error != ErrorCode.NONE:
            return error, None
    info = partition.append(batch, ACKS_ALL, AppendOrigin.COORDINATOR)
    if info.error != ErrorCode.NONE:
        return info.error, None
    partition.verifications.marker_written(Producer(marker.producer_id, marker.producer_epoch))
    if groups is not None:
        groups.transaction_ended(marker.producer_id, committed=marker.committed)
    return ErrorCode.NONE, partition.committed(info.end_offset)


def _check_numbers(marker: Marker) -> ErrorCode:
    """Numbers that nobody has. The errors are Kafka's, which finds them by how it writes the batch."""
    if marker.producer_id < 0 or marker.producer_epoch == NO_PRODUCER_EPOCH:
        return ErrorCode.UNKNOWN_SERVER_ERROR
    if marker.producer_epoch < NO_PRODUCER_EPOCH:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if marker.coordinator_epoch < NO_COORDINATOR_EPOCH:
        return ErrorCode.TRANSACTION_COORDINATOR_FENCED
    return ErrorCode.NONE

"""A produce request of a transactional producer, before it is written: do its partitions belong to its transaction?

A partition in which the transaction has begun is not asked about again. For the others the coordinator is asked, or
from version 12 on told to add them (KIP-890); whoever it does not confirm is refused, so that no transaction begins
that nobody would end.

Always holds: what is refused was not written. Between the coordinator's word and the write there is no await, and a
marker that comes while it is asked makes its word worthless. A partition that is led, or in which the transaction is at
an end, only since then is refused: nobody was asked about it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

from barnabas.coordination.outcome import Producer
from barnabas.errors import ErrorCode
from barnabas.protocol.messages.produce import PartitionProduceData, ProduceRequest
from barnabas.protocol.record_batch import BatchHeader, InvalidRecordBatch, read_header
from barnabas.server.coordinators import transaction_membership
from barnabas.server.coordinators.transaction_errors import told_to_writer
from barnabas.server.coordinators.transaction_membership import Errors, Membership
from barnabas.server.replicas.verification import has_begun
from barnabas.types import TopicPartition

if TYPE_CHECKING:
    from barnabas.server.broker import Broker
    from barnabas.server.replicas.partition import Partition
    from barnabas.server.replicas.verification import Guard

TOPIC_ID_VERSION = 13
ABORTABLE_SINCE_VERSION = 11
ADDS_SINCE_VERSION = 12

Refused = Mapping[TopicPartition, ErrorCode]


class _Beginning(NamedTuple):
    """A transaction that is about to begin in a partition."""

    partition: Partition
    header: BatchHeader
    producer: Producer
    guard: Guard


def check(broker: Broker, request: ProduceRequest, api_version: int) -> Refused | Awaitable[Refused]:
    """An awaitable keeps the records: they must not lie in a buffer that is used again."""
    assert request.transactional_id is not None
    found = list(_transactional(broker, request, by_id=api_version >= TOPIC_ID_VERSION))
    if len({_producer_of(header) for _partition, header in found}) > 1:
        return {partition.name: ErrorCode.INVALID_PRODUCER_ID_MAPPING for partition, _header in found}
    adds = api_version >= ADDS_SINCE_VERSION
    if not (adds or broker.config.transaction_partition_verification_enable):
        return {}
    beginning = _beginning(found, adds=adds)
    if not beginning:
        return {}
    producer = next(iter(beginning.values())).producer
    membership = Membership(request.transactional_id, producer, list(beginning), only_verify=not adds)
    asked = transaction_membership.ask(broker, membership)
    if isinstance(asked, Mapping):
        return _refused(beginning, asked, api_version)
    keep_records(request)
    return _wait(broker, request, api_version, beginning, asked)


async def _wait(
    broker: Broker,
    request: ProduceRequest,
    api_version: int,
    beginning: Mapping[TopicPartition, _Beginning],
    asked: Awaitable[Errors],
) -> Refused:
    refused = _refused(beginning, await asked, api_version)
    for partition, header in _transactional(broker, request, by_id=api_version >= TOPIC_ID_VERSION):
        known = beginning.get(partition.name)
        if not _has_begun(partition, header) and (known is None or known.partition is not partition):
            refused[partition.name] = ErrorCode.NOT_LEADER_OR_FOLLOWER  # it comes again, and the coordinator is asked
    return refused


def keep_records(request: ProduceRequest) -> None:
    for topic in request.topic_data:
        for data in topic.partition_data:
            if isinstance(data.records, memoryview):
                data.records = memoryview(bytearray(data.records))


def _transactional(broker: Broker, request: ProduceRequest, *, by_id: bool) -> Iterator[tuple[Partition, BatchHeader]]:
    for topic in request.topic_data:
        partitions = broker.partitions.topic_by_id(topic.topic_id) if by_id else broker.partitions.topic(topic.name)
        for data in topic.partition_data:
            partition = partitions.get(data.index)
            header = _header(data)
            if partition is not None and header is not None and header.is_transactional:
                yield partition, header


def _header(data: PartitionProduceData) -> BatchHeader | None:
    """None where there is no batch: it will be refused for that."""
    if not isinstance(data.records, memoryview):
        return None
    try:
        return read_header(data.records, 0)
    except InvalidRecordBatch:
        return None


def _producer_of(header: BatchHeader) -> Producer:
    return Producer(header.producer_id, header.producer_epoch)


def _has_begun(partition: Partition, header: BatchHeader) -> bool:
    producer = _producer_of(header)
    return has_begun(partition.log.producers.get(producer.id), producer)


def _beginning(found: list[tuple[Partition, BatchHeader]], *, adds: bool) -> dict[TopicPartition, _Beginning]:
    beginning: dict[TopicPartition, _Beginning] = {}
    for partition, header in found:
        if partition.is_leader and partition.name not in beginning and not _has_begun(partition, header):
            producer = _producer_of(header)
            guard = partition.verifications.begin(producer, adds=adds)
            beginning[partition.name] = _Beginning(partition, header, producer, guard)
    return beginning


def _refused(
    beginning: Mapping[TopicPartition, _Beginning], errors: Errors, api_version: int
) -> dict[TopicPartition, ErrorCode]:
    refused = {}
    adds = api_version >= ADDS_SINCE_VERSION
    for name, (partition, header, producer, guard) in beginning.items():
        state = partition.log.producers.get(producer.id)
        late = partition.verifications.end(producer, guard, state)
        error = errors[name]
        if not partition.is_leader:
            continue  # any more: the write will say so, and whoever leads now asks anew
        if error != ErrorCode.NONE:
            refused[name] = told_to_writer(
                error,
                unreachable=ErrorCode.NOT_ENOUGH_REPLICAS,
                knows_abortable=api_version >= ABORTABLE_SINCE_VERSION,
                adds=adds,
            )
        elif late != ErrorCode.NONE:
            refused[name] = late
        elif adds and header.base_sequence != 0 and state is None:
            refused[name] = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER  # each epoch is new here, so each begins at 0
    return refused

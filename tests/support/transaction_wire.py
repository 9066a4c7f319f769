"""Requests to a transaction coordinator over a raw socket, each in one line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from broker_process import wait_until
from group_wire import COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR, find_coordinator
from wire import Wire, batch, produce_request

from barnabas.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from barnabas.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from barnabas.protocol.messages.describe_transactions import DescribeTransactionsRequest
from barnabas.protocol.messages.end_txn import EndTxnRequest
from barnabas.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from barnabas.protocol.messages.init_producer_id import InitProducerIdRequest
from barnabas.protocol.messages.list_transactions import ListTransactionsRequest
from barnabas.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from barnabas.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)

TRANSACTION = 1  # the key type of FindCoordinator
INIT_VERSION = 5
ADD_VERSION = 3  # the last one that clients send
END_VERSION = 5
OFFSETS_VERSION = 4
COMMIT_VERSION = 5
MARKERS_VERSION = 1
CONCURRENT_TRANSACTIONS = 51
PRODUCE_VERSION = 11  # the last one that leaves it to clients to add partitions
VERIFICATION = "transaction.partition.verification.enable"

Partitions = Mapping[str, Sequence[int]]


def await_coordinator(wire: Wire, transactional_id: str) -> None:
    """Kafka needs a moment after it has named itself."""
    find_coordinator(wire, transactional_id, key_type=TRANSACTION)
    missing = (COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR)
    wait_until(
        lambda: describe(wire, transactional_id).error_code not in missing, f"{transactional_id} has a coordinator"
    )


def init(
    wire: Wire,
    transactional_id: str | None,
    producer: tuple[int, int] = (-1, -1),
    *,
    timeout_ms: int = 60_000,
    version: int = INIT_VERSION,
) -> Any:
    request = InitProducerIdRequest(
        transactional_id=transactional_id,
        transaction_timeout_ms=timeout_ms,
        producer_id=producer[0],
        producer_epoch=producer[1],
    )
    return wire.call(request, version)


def begin(wire: Wire, transactional_id: str, **settings: Any) -> tuple[int, int]:
    """A producer id and epoch, once whatever was ongoing is aborted."""
    found: list[Any] = []

    def given() -> bool:
        found.append(init(wire, transactional_id, **settings))
        return found[-1].error_code not in (CONCURRENT_TRANSACTIONS, COORDINATOR_LOAD_IN_PROGRESS)

    wait_until(given, f"{transactional_id} has a producer id")
    assert found[-1].error_code == 0, found[-1]
    return found[-1].producer_id, found[-1].producer_epoch


def _topics(partitions: Partitions) -> list[AddPartitionsToTxnTopic]:
    return [AddPartitionsToTxnTopic(name=name, partitions=list(indexes)) for name, indexes in partitions.items()]


def add(
    wire: Wire, transactional_id: str, producer: tuple[int, int], partitions: Partitions, version: int = ADD_VERSION
) -> dict[tuple[str, int], int]:
    """The error of each partition, as a client asks."""
    request = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=transactional_id,
        v3_and_below_producer_id=producer[0],
        v3_and_below_producer_epoch=producer[1],
        v3_and_below_topics=_topics(partitions),
    )
    return _errors(wire.call(request, version).results_by_topic_v3_and_below)


def add_as_broker(
    wire: Wire,
    transactional_id: str,
    producer: tuple[int, int],
    partitions: Partitions,
    *,
    verify_only: bool = False,
    version: int = 5,
) -> dict[tuple[str, int], int]:
    transaction = AddPartitionsToTxnTransaction(
        transactional_id=transactional_id,
        producer_id=producer[0],
        producer_epoch=producer[1],
        verify_only=verify_only,
        topics=_topics(partitions),
    )
    response = wire.call(AddPartitionsToTxnRequest(transactions=[transaction]), version)
    assert response.error_code == 0
    (result,) = response.results_by_transaction
    return _errors(result.topic_results)


def _errors(topics: Sequence[Any]) -> dict[tuple[str, int], int]:
    return {
        (topic.name, each.partition_index): each.partition_error_code
        for topic in topics
        for each in topic.results_by_partition
    }


def add_offsets(
    wire: Wire, transactional_id: str, producer: tuple[int, int], group: str, version: int = OFFSETS_VERSION
) -> int:
    request = AddOffsetsToTxnRequest(
        transactional_id=transactional_id, producer_id=producer[0], producer_epoch=producer[1], group_id=group
    )
    error: int = wire.call(request, version).error_code
    return error


def commit_offsets(
    wire: Wire,
    transactional_id: str,
    producer: tuple[int, int],
    group: str,
    offsets: Mapping[tuple[str, int], int],
    *,
    generation: int = -1,
    member: str = "",
    version: int = COMMIT_VERSION,
) -> dict[tuple[str, int], int]:
    topics: dict[str, list[TxnOffsetCommitRequestPartition]] = {}
    for (topic, partition), offset in offsets.items():
        each = TxnOffsetCommitRequestPartition(
            partition_index=partition, committed_offset=offset, committed_metadata=""
        )
        topics.setdefault(topic, []).append(each)
    request = TxnOffsetCommitRequest(
        transactional_id=transactional_id,
        group_id=group,
        producer_id=producer[0],
        producer_epoch=producer[1],
        topics=[TxnOffsetCommitRequestTopic(name=name, partitions=each) for name, each in topics.items()],
    )
    if version >= 3:
        request.generation_id = generation
        request.member_id = member
    response = wire.call(request, version)
    return _codes(response.topics)


def write(wire: Wire, transactional_id: str, producer: tuple[int, int], topic: str) -> None:
    """A record of long ago, in partition 0."""
    records = batch(b"open", producer_id=producer[0], producer_epoch=producer[1], base_sequence=0, transactional=True)
    request = produce_request(topic, {0: records})
    request.transactional_id = transactional_id

    def is_written() -> bool:
        answer = wire.call(request, PRODUCE_VERSION).responses[0].partition_responses[0]
        return bool(answer.error_code == 0)

    wait_until(is_written, f"{topic} takes a write")  # Kafka may not know yet that it leads


def leave_hanging(wire: Wire, transactional_id: str, topic: str) -> tuple[int, int]:
    """A transaction in partition 0 of which its coordinator knows nothing; whose it is.

    As clients left them behind before partitions asked the coordinator first (KIP-890), which is switched off for that.
    """
    await_coordinator(wire, transactional_id)
    producer = begin(wire, transactional_id)
    _alter_cluster(wire, AlterableConfig(name=VERIFICATION, config_operation=0, value="false"))
    try:
        write(wire, transactional_id, producer, topic)
    finally:
        _alter_cluster(wire, AlterableConfig(name=VERIFICATION, config_operation=1, value=None))
    return producer


def _alter_cluster(wire: Wire, change: AlterableConfig) -> None:
    resource = AlterConfigsResource(resource_type=4, resource_name="", configs=[change])
    (answer,) = wire.call(IncrementalAlterConfigsRequest(resources=[resource]), 1).responses
    assert answer.error_code == 0, answer


def end(
    wire: Wire, transactional_id: str, producer: tuple[int, int], *, commit: bool, version: int = END_VERSION
) -> Any:
    request = EndTxnRequest(
        transactional_id=transactional_id, producer_id=producer[0], producer_epoch=producer[1], committed=commit
    )
    return wire.call(request, version)


def write_markers(
    wire: Wire,
    producer: tuple[int, int],
    partitions: Partitions,
    *,
    commit: bool,
    coordinator_epoch: int = 0,
    transaction_version: int = 0,
    version: int = MARKERS_VERSION,
) -> dict[tuple[str, int], int]:
    marker = WritableTxnMarker(
        producer_id=producer[0],
        producer_epoch=producer[1],
        transaction_result=commit,
        topics=[
            WritableTxnMarkerTopic(name=name, partition_indexes=list(indexes)) for name, indexes in partitions.items()
        ],
        coordinator_epoch=coordinator_epoch,
        transaction_version=transaction_version,
    )
    (result,) = wire.call(WriteTxnMarkersRequest(markers=[marker]), version).markers
    return _codes(result.topics)


def _codes(topics: Sequence[Any]) -> dict[tuple[str, int], int]:
    return {(topic.name, each.partition_index): each.error_code for topic in topics for each in topic.partitions}


def describe(wire: Wire, transactional_id: str) -> Any:
    (state,) = wire.call(DescribeTransactionsRequest(transactional_ids=[transactional_id]), 0).transaction_states
    return state


def list_all(wire: Wire, version: int = 2, **filters: Any) -> Any:
    return wire.call(ListTransactionsRequest(**filters), version)

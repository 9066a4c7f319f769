"""AddPartitionsToTxn, versions 0 to 5: partitions join a transaction. Up to version 3 as producers ask it, for one
transaction; from version 4 on as brokers ask it, for many at once: to add them for a producer of transaction version 2,
or only to verify that they belong to it (KIP-890).

Where one partition does not exist, none is added and the others are told OPERATION_NOT_ATTEMPTED; likewise where a
producer names an internal topic, which is TOPIC_AUTHORIZATION_FAILED. Brokers may: offsets of a transaction go there.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING

from barnabas.coordination.outcome import Producer
from barnabas.errors import ErrorCode
from barnabas.metadata import topic_names
from barnabas.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTransaction,
)
from barnabas.server.context import RequestContext
from barnabas.server.coordinators import transaction_membership
from barnabas.server.coordinators.transaction_errors import told_to_client
from barnabas.types import TopicPartition

if TYPE_CHECKING:
    from barnabas.server.broker import Broker

BATCHED_VERSION = 4  # brokers only
FENCED_SINCE_VERSION = 2

Result = AddPartitionsToTxnResult | Awaitable[AddPartitionsToTxnResult]


def handle(
    broker: Broker, context: RequestContext, request: AddPartitionsToTxnRequest
) -> AddPartitionsToTxnResponse | Awaitable[AddPartitionsToTxnResponse]:
    version = context.api_version
    results = [_add(broker, transaction, version) for transaction in _transactions(request, version)]
    added = [result for result in results if isinstance(result, AddPartitionsToTxnResult)]
    return _respond(added, version) if len(added) == len(results) else _wait(results, version)


async def _wait(results: list[Result], version: int) -> AddPartitionsToTxnResponse:
    return _respond(
        [result if isinstance(result, AddPartitionsToTxnResult) else await result for result in results], version
    )


def _transactions(request: AddPartitionsToTxnRequest, version: int) -> list[AddPartitionsToTxnTransaction]:
    if version >= BATCHED_VERSION:
        return request.transactions
    return [
        AddPartitionsToTxnTransaction(
            transactional_id=request.v3_and_below_transactional_id,
            producer_id=request.v3_and_below_producer_id,
            producer_epoch=request.v3_and_below_producer_epoch,
            topics=request.v3_and_below_topics,
        )
    ]


def _add(broker: Broker, transaction: AddPartitionsToTxnTransaction, version: int) -> Result:
    partitions = [TopicPartition(topic.name, index) for topic in transaction.topics for index in topic.partitions]
    image = broker.controller.image
    refused: dict[TopicPartition, ErrorCode] = {}
    for each in partitions:
        if version < BATCHED_VERSION and topic_names.is_internal(each.topic):
            refused[each] = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        elif image.partition(each.topic, each.partition) is None:
            refused[each] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if refused:
        errors = {**dict.fromkeys(partitions, ErrorCode.OPERATION_NOT_ATTEMPTED), **refused}
        return transaction_membership.result(transaction.transactional_id, errors)
    return transaction_membership.ask_here(
        broker,
        transaction_membership.Membership(
            transaction.transactional_id,
            Producer(transaction.producer_id, transaction.producer_epoch),
            partitions,
            only_verify=transaction.verify_only,
        ),
        client_version=2 if version >= BATCHED_VERSION else 0,
    )


def _respond(results: list[AddPartitionsToTxnResult], version: int) -> AddPartitionsToTxnResponse:
    if version >= BATCHED_VERSION:
        return AddPartitionsToTxnResponse(results_by_transaction=results)
    (result,) = results
    for topic in result.topic_results:
        for each in topic.results_by_partition:
            error = ErrorCode(each.partition_error_code)
            each.partition_error_code = told_to_client(error, version, FENCED_SINCE_VERSION)
    return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=result.topic_results)

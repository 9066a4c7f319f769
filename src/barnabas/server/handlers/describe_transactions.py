"""DescribeTransactions, version 0: transactional ids that this broker coordinates, one by one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.errors import ErrorCode
from barnabas.protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TopicData,
    TransactionState,
)
from barnabas.server.context import RequestContext
from barnabas.transactions.state import NAMES

if TYPE_CHECKING:
    from barnabas.server.broker import Broker


def handle(
    broker: Broker, context: RequestContext, request: DescribeTransactionsRequest
) -> DescribeTransactionsResponse:
    states = [_describe(broker, transactional_id) for transactional_id in request.transactional_ids]
    return DescribeTransactionsResponse(transaction_states=states)


def _describe(broker: Broker, transactional_id: str) -> TransactionState:
    def failed(error: ErrorCode) -> TransactionState:
        return TransactionState(transactional_id=transactional_id, error_code=error)

    if not transactional_id:
        return failed(ErrorCode.INVALID_REQUEST)
    shard = broker.transactions.shard_for(transactional_id)
    if shard is None:
        return failed(ErrorCode.NOT_COORDINATOR)
    if shard.error != ErrorCode.NONE:
        return failed(shard.error)
    known = shard.shard.transactions.get(transactional_id)
    if known is None:
        return failed(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)
    topics: dict[str, list[int]] = {}
    for topic, partition in known.partitions:
        topics.setdefault(topic, []).append(partition)
    return TransactionState(
        transactional_id=transactional_id,
        transaction_state=NAMES[known.state],
        transaction_timeout_ms=known.timeout_ms,
        transaction_start_time_ms=known.start_timestamp_ms,
        producer_id=known.producer_id,
        producer_epoch=known.producer_epoch,
        topics=[TopicData(topic=topic, partitions=partitions) for topic, partitions in topics.items()],
    )

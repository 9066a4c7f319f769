"""Transactions by single requests: begun by one process, written to by it, ended by another that knows their numbers.

Always holds: `end` may be asked again, by anybody, with the same outcome; each call tries again until the time of the
client's delivery.timeout.ms is up. Does not know: which transactions belong together, and why they end.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

from barnabas.client.cluster import TRANSACTION, Cluster
from barnabas.client.errors import KafkaError, error_of
from barnabas.client.producing.transaction import OpenTransaction, end_transaction
from barnabas.client.settings import ProducerConfig
from barnabas.errors import ErrorCode
from barnabas.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from barnabas.protocol.messages.describe_transactions import DescribeTransactionsRequest
from barnabas.protocol.messages.init_producer_id import InitProducerIdRequest
from barnabas.protocol.messages.list_transactions import ListTransactionsRequest

T = TypeVar("T")

BROKER_RESOURCE = 4
TIMEOUT_SETTING = "transaction.max.timeout.ms"
TIMEOUT_MS_DEFAULT = 900_000  # Kafka's, where a broker does not tell
ONGOING = "Ongoing"


async def init(cluster: Cluster, config: ProducerConfig, transactional_id: str, timeout_ms: int) -> OpenTransaction:
    """A producer of this id with an open road: what others had under it is aborted, and they are fenced."""

    async def ask() -> OpenTransaction:
        node_id = await cluster.coordinator(TRANSACTION, transactional_id)
        request = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=timeout_ms)
        response = await cluster.request(node_id, request)
        if response.error_code != ErrorCode.NONE:
            raise error_of(response.error_code, about=f"transactional id {transactional_id}")
        return OpenTransaction(transactional_id, response.producer_id, response.producer_epoch)

    return await _retried(cluster, config, transactional_id, ask)


async def end(cluster: Cluster, config: ProducerConfig, transaction: OpenTransaction, *, commit: bool) -> None:
    await end_transaction(cluster, transaction, committed=commit, timeout_ms=config.delivery_timeout_ms)


async def is_open(cluster: Cluster, config: ProducerConfig, transaction: OpenTransaction) -> bool:
    """Whether it can still be ended either way: nobody has ended it, or taken its id over."""
    transactional_id, producer_id, producer_epoch = transaction

    async def ask() -> bool:
        node_id = await cluster.coordinator(TRANSACTION, transactional_id)
        response = await cluster.request(node_id, DescribeTransactionsRequest(transactional_ids=[transactional_id]))
        (found,) = response.transaction_states
        if found.error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
            return False
        if found.error_code != ErrorCode.NONE:
            raise error_of(found.error_code, about=f"transactional id {transactional_id}")
        known = found.transaction_state, found.producer_id, found.producer_epoch
        return bool(known == (ONGOING, producer_id, producer_epoch))

    return await _retried(cluster, config, transactional_id, ask)


async def ongoing(cluster: Cluster, config: ProducerConfig, prefix: str) -> list[str]:
    """The transactional ids with this beginning whose transaction is open, at all brokers."""

    async def of_broker(node_id: int) -> list[str]:
        # Not by a pattern: open transactions are few, and brokers before Kafka 4.1 know no patterns.
        response = await cluster.request(node_id, ListTransactionsRequest(state_filters=[ONGOING]))
        if response.error_code != ErrorCode.NONE:
            raise error_of(response.error_code, about="the list of transactions")
        return [each.transactional_id for each in response.transaction_states]

    async def ask() -> list[str]:
        await cluster.refresh(())
        found = await asyncio.gather(*(of_broker(node_id) for node_id in sorted(cluster.brokers)))
        return sorted({name for names in found for name in names if name.startswith(prefix)})

    return await cluster.retry(ask, what="the list of transactions", timeout_ms=config.delivery_timeout_ms)


_timeouts_ms: dict[str | None, int] = {}  # by the cluster's id: brokers do not change it while they run


async def timeout_ms_max(cluster: Cluster) -> int:
    """How long the brokers let a transaction be open."""
    known = _timeouts_ms.get(cluster.metadata.cluster_id)
    if known is None:
        known = await _ask_timeout_ms(cluster)
        if known is None:
            return TIMEOUT_MS_DEFAULT  # for this time; it may be told the next time
        _timeouts_ms[cluster.metadata.cluster_id] = known
    return known


async def _ask_timeout_ms(cluster: Cluster) -> int | None:
    node_id = next(iter(sorted(cluster.brokers)))
    resource = DescribeConfigsResource(
        resource_type=BROKER_RESOURCE, resource_name=str(node_id), configuration_keys=[TIMEOUT_SETTING]
    )
    try:
        response = await cluster.request(node_id, DescribeConfigsRequest(resources=[resource]))
    except KafkaError:
        return None  # a broker that is just gone: its colleagues have the default, or say so at the init
    for result in response.results:
        for each in result.configs:
            if each.name == TIMEOUT_SETTING and each.value is not None:
                return int(each.value)
    return None


async def end_all(
    cluster: Cluster, config: ProducerConfig, transactions: Iterable[OpenTransaction], *, commit: bool
) -> dict[OpenTransaction, KafkaError]:
    """All at once; gives those that could not be ended, with the reason."""
    wanted = list(transactions)
    answers = await asyncio.gather(
        *(end(cluster, config, each, commit=commit) for each in wanted), return_exceptions=True
    )
    failed: dict[OpenTransaction, KafkaError] = {}
    for transaction, answer in zip(wanted, answers, strict=True):
        if isinstance(answer, KafkaError):
            failed[transaction] = answer
        elif answer is not None:
            raise answer
    return failed


async def _retried(
    cluster: Cluster, config: ProducerConfig, transactional_id: str, ask: Callable[[], Awaitable[T]]
) -> T:
    return await cluster.retry(
        ask,
        what=f"transactional id {transactional_id}",
        timeout_ms=config.delivery_timeout_ms,
        coordinator=(TRANSACTION, transactional_id),
    )

"""Whether partitions belong to a transaction, asked of its coordinator, here or on another broker; or added to it.

Always holds: who asks gets an error for each partition within a request's time, whatever happens to the coordinator.
Does not know: why it is asked, and what a client is told.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from barnabas.client.connection import ConnectionLost
from barnabas.coordination.outcome import Moment, Outcome, Pending, Producer, answer
from barnabas.errors import ErrorCode
from barnabas.metadata.topic_names import TRANSACTIONS_TOPIC
from barnabas.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)
from barnabas.types import NO_LEADER, BrokerId, TopicPartition

if TYPE_CHECKING:
    from barnabas.server.broker import Broker
    from barnabas.transactions.shard import TransactionShard

PURPOSE = "transactions"
CLIENT_VERSION = 2  # who has its partitions added by brokers works by this transaction version

Errors = Mapping[TopicPartition, ErrorCode]


class Membership(NamedTuple):
    """A question to a coordinator."""

    transactional_id: str
    producer: Producer
    partitions: Sequence[TopicPartition]
    only_verify: bool


def ask(broker: Broker, membership: Membership) -> Errors | Awaitable[Errors]:
    """Adding waits a little where the transaction before is just ending."""
    first = _ask_once(broker, membership)
    if isinstance(first, Mapping) and not _is_too_early(first, membership):
        return first
    return _ask_again(broker, membership, first)


async def _ask_again(broker: Broker, membership: Membership, answered: Errors | Awaitable[Errors]) -> Errors:
    clock = broker.runtime.clock
    deadline_ms = clock.monotonic_ms() + broker.config.add_partitions_to_txn_retry_backoff_max_ms
    while True:
        errors = answered if isinstance(answered, Mapping) else await answered
        if not _is_too_early(errors, membership) or clock.monotonic_ms() >= deadline_ms:
            return errors
        await clock.sleep(broker.config.add_partitions_to_txn_retry_backoff_ms)
        answered = _ask_once(broker, membership)


def _is_too_early(errors: Errors, membership: Membership) -> bool:
    return not membership.only_verify and ErrorCode.CONCURRENT_TRANSACTIONS in errors.values()


def _ask_once(broker: Broker, membership: Membership) -> Errors | Awaitable[Errors]:
    state = broker.controller.image.partition(
        TRANSACTIONS_TOPIC, broker.transactions.partition_for(membership.transactional_id)
    )
    if state is None or state.leader == NO_LEADER:
        return dict.fromkeys(membership.partitions, ErrorCode.COORDINATOR_NOT_AVAILABLE)
    if state.leader != broker.node_id:
        return _ask_there(broker, state.leader, membership)
    given = ask_here(broker, membership, CLIENT_VERSION)
    return errors_of(given) if isinstance(given, AddPartitionsToTxnResult) else _later(given)


async def _later(given: Awaitable[AddPartitionsToTxnResult]) -> Errors:
    return errors_of(await given)


def ask_here(
    broker: Broker, membership: Membership, client_version: int
) -> AddPartitionsToTxnResult | asyncio.Future[AddPartitionsToTxnResult]:
    """Where this broker should be the coordinator."""

    def failed(error: ErrorCode) -> AddPartitionsToTxnResult:
        return result(membership.transactional_id, dict.fromkeys(membership.partitions, error))

    def decide(shard: TransactionShard, pending: Pending, now: Moment) -> Outcome:
        transactional_id, producer, partitions, only_verify = membership
        if only_verify:
            verified = shard.verify_partitions(transactional_id, producer, partitions)
            return answer(pending, result(transactional_id, verified))
        return shard.add_partitions(transactional_id, producer, partitions, client_version, pending, now)

    if not membership.transactional_id:
        return failed(ErrorCode.INVALID_REQUEST)
    return broker.transactions.submit(membership.transactional_id, decide, failed)


async def _ask_there(broker: Broker, leader: BrokerId, membership: Membership) -> Errors:
    topics: dict[str, list[int]] = {}
    for topic, partition in membership.partitions:
        topics.setdefault(topic, []).append(partition)
    transaction = AddPartitionsToTxnTransaction(
        transactional_id=membership.transactional_id,
        producer_id=membership.producer.id,
        producer_epoch=membership.producer.epoch,
        verify_only=membership.only_verify,
        topics=[AddPartitionsToTxnTopic(name=topic, partitions=each) for topic, each in topics.items()],
    )
    try:
        response: AddPartitionsToTxnResponse = await broker.peers.get(leader, PURPOSE).request(
            AddPartitionsToTxnRequest(transactions=[transaction])
        )
    except ConnectionLost:
        return dict.fromkeys(membership.partitions, ErrorCode.NETWORK_EXCEPTION)
    if response.error_code != ErrorCode.NONE:
        return dict.fromkeys(membership.partitions, ErrorCode(response.error_code))
    found: dict[TopicPartition, ErrorCode] = {}
    for given in response.results_by_transaction:
        found.update(errors_of(given))
    return {each: found.get(each, ErrorCode.UNKNOWN_SERVER_ERROR) for each in membership.partitions}


def result(transactional_id: str, errors: Errors) -> AddPartitionsToTxnResult:
    topics: dict[str, list[AddPartitionsToTxnPartitionResult]] = {}
    for (topic, partition), error in errors.items():
        each = AddPartitionsToTxnPartitionResult(partition_index=partition, partition_error_code=error)
        topics.setdefault(topic, []).append(each)
    return AddPartitionsToTxnResult(
        transactional_id=transactional_id,
        topic_results=[
            AddPartitionsToTxnTopicResult(name=topic, results_by_partition=each) for topic, each in topics.items()
        ],
    )


def errors_of(given: AddPartitionsToTxnResult) -> Errors:
    return {
        TopicPartition(topic.name, each.partition_index): ErrorCode(each.partition_error_code)
        for topic in given.topic_results
        for each in topic.results_by_partition
    }

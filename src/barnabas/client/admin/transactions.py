"""Transactions and the producers that make them, also those that nobody ends any more.

A transaction hangs where a partition has it open and its coordinator does not know of it: readers of committed records
wait for it forever. It is found, and ended by a marker, as Kafka's own tool does it.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from barnabas.client.admin.base import by_topic, listed
from barnabas.client.admin.results import Results
from barnabas.client.admin.topics import Topics
from barnabas.client.cluster import TRANSACTION
from barnabas.client.errors import KafkaError, error_of
from barnabas.errors import ErrorCode
from barnabas.protocol.messages.describe_producers import DescribeProducersRequest, ProducerState, TopicRequest
from barnabas.protocol.messages.describe_transactions import DescribeTransactionsRequest
from barnabas.protocol.messages.init_producer_id import InitProducerIdRequest
from barnabas.protocol.messages.list_transactions import ListTransactionsRequest
from barnabas.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from barnabas.types import BrokerId, Offset, ProducerId, TopicPartition

MAX_TRANSACTION_TIMEOUT_MS = 15 * 60 * 1000  # the default of transaction.max.timeout.ms
PARTITIONS_PER_REQUEST_MAX = 500  # so that a broker with very many is not asked about all at once
FENCING_TIMEOUT_MS = 1  # of a transaction that is never begun
STABLE_INIT_PRODUCER_ID_VERSION = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionListing:
    transactional_id: str
    producer_id: ProducerId
    state: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionDescription:
    transactional_id: str
    coordinator: BrokerId
    state: str
    producer_id: ProducerId
    producer_epoch: int
    timeout_ms: int
    start_time_ms: int | None  # None while none is open
    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerDescription:
    """One producer in one partition."""

    producer_id: ProducerId
    producer_epoch: int
    last_sequence: int
    last_timestamp_ms: int
    coordinator_epoch: int | None
    transaction_start_offset: Offset | None  # None while no transaction is open


@dataclass(frozen=True, slots=True, kw_only=True)
class HangingTransaction:
    topic_partition: TopicPartition
    producer: ProducerDescription


class AbortSpec(NamedTuple):
    """Which transaction of a partition; `coordinator_epoch` is 0 where no marker was ever written."""

    topic_partition: TopicPartition
    producer_id: ProducerId
    producer_epoch: int
    coordinator_epoch: int = 0


class ProducerIdAndEpoch(NamedTuple):
    producer_id: ProducerId
    producer_epoch: int


class Transactions(Topics):
    async def list_transactions(
        self,
        *,
        states: Iterable[str] = (),
        producer_ids: Iterable[ProducerId] = (),
        duration_ms: int | None = None,
        pattern: str | None = None,
        timeout_ms: float | None = None,
    ) -> Results[BrokerId, list[TransactionListing]]:
        """What each broker coordinates: in these states, by these producers, open for longer, of matching ids."""
        least = 2 if pattern is not None else 1 if duration_ms is not None else 0
        state_filters, id_filters = listed(states, "states"), list(producer_ids)

        async def ask(node_id: BrokerId, _nodes: list[BrokerId]) -> Results[BrokerId, list[TransactionListing]]:
            request = ListTransactionsRequest(
                state_filters=state_filters,
                producer_id_filters=id_filters,
                duration_filter=-1 if duration_ms is None else duration_ms,
                transactional_id_pattern=pattern,
            )
            response = await self.cluster.request(node_id, request, version_min=least)
            if response.unknown_state_filters:
                unknown = ", ".join(response.unknown_state_filters)
                raise error_of(ErrorCode.INVALID_REQUEST, f"{unknown} is no state of a transaction")
            listings = [
                TransactionListing(
                    transactional_id=each.transactional_id,
                    producer_id=each.producer_id,
                    state=each.transaction_state,
                )
                for each in response.transaction_states
            ]
            found: Results[BrokerId, list[TransactionListing]] = Results()
            found.add(node_id, response.error_code, listings, about=f"transactions of broker {node_id}")
            return found

        return await self.of_all_brokers(ask, what="listing transactions", timeout_ms=timeout_ms)

    async def describe_transactions(
        self, transactional_ids: Iterable[str], *, timeout_ms: float | None = None
    ) -> Results[str, TransactionDescription]:
        async def ask(node_id: BrokerId, ids: list[str]) -> Results[str, TransactionDescription]:
            response = await self.cluster.request(node_id, DescribeTransactionsRequest(transactional_ids=ids))
            found: Results[str, TransactionDescription] = Results()
            for each in response.transaction_states:
                start_ms = each.transaction_start_time_ms
                description = TransactionDescription(
                    transactional_id=each.transactional_id,
                    coordinator=node_id,
                    state=each.transaction_state,
                    producer_id=each.producer_id,
                    producer_epoch=each.producer_epoch,
                    timeout_ms=each.transaction_timeout_ms,
                    start_time_ms=start_ms if start_ms >= 0 else None,
                    partitions=tuple(
                        TopicPartition(topic.topic, number) for topic in each.topics for number in topic.partitions
                    ),
                )
                about = f"transactional id {each.transactional_id}"
                found.add(each.transactional_id, each.error_code, description, about=about)
            return self.heed(found, TRANSACTION)

        wanted = listed(transactional_ids, "transactional_ids")
        return await self.carry_out(
            wanted, self._to_transactions, ask, what="describing transactions", timeout_ms=timeout_ms
        )

    async def _to_transactions(self, items: list[str]) -> tuple[dict[BrokerId, list[str]], dict[str, KafkaError]]:
        return await self.to_coordinators(items, TRANSACTION)

    async def describe_producers(
        self,
        partitions: Iterable[TopicPartition],
        *,
        broker_id: BrokerId | None = None,
        timeout_ms: float | None = None,
    ) -> Results[TopicPartition, list[ProducerDescription]]:
        """Those that have written of late. By the leader of each partition, or by one replica."""

        async def ask(
            node_id: BrokerId, keys: list[TopicPartition]
        ) -> Results[TopicPartition, list[ProducerDescription]]:
            found: Results[TopicPartition, list[ProducerDescription]] = Results()
            for start in range(0, len(keys), PARTITIONS_PER_REQUEST_MAX):
                part = by_topic(keys[start : start + PARTITIONS_PER_REQUEST_MAX])
                request = DescribeProducersRequest(
                    topics=[TopicRequest(name=name, partition_indexes=numbers) for name, numbers in part.items()]
                )
                response = await self.cluster.request(node_id, request)
                for topic in response.topics:
                    for each in topic.partitions:
                        key = TopicPartition(topic.name, each.partition_index)
                        producers = [_producer(state) for state in each.active_producers]
                        found.add(key, each.error_code, producers, each.error_message, about=f"partition {key}")
            return found

        async def to_replica(
            keys: list[TopicPartition],
        ) -> tuple[dict[BrokerId, list[TopicPartition]], dict[TopicPartition, KafkaError]]:
            assert broker_id is not None
            return {broker_id: keys}, {}

        route = self.to_leaders if broker_id is None else to_replica
        return await self.carry_out(partitions, route, ask, what="describing producers", timeout_ms=timeout_ms)

    async def abort_transaction(self, spec: AbortSpec, *, timeout_ms: float | None = None) -> None:
        """Ends a hanging transaction in one partition, by a marker that its coordinator does not know of."""
        topic, number = spec.topic_partition

        async def ask(node_id: BrokerId, keys: list[TopicPartition]) -> Results[TopicPartition, None]:
            marker = WritableTxnMarker(
                producer_id=spec.producer_id,
                producer_epoch=spec.producer_epoch,
                transaction_result=False,
                topics=[WritableTxnMarkerTopic(name=topic, partition_indexes=[number])],
                coordinator_epoch=max(spec.coordinator_epoch, 0),
            )
            response = await self.cluster.request(node_id, WriteTxnMarkersRequest(markers=[marker]))
            found: Results[TopicPartition, None] = Results()
            for told in response.markers:
                for named in told.topics:
                    for each in named.partitions:
                        key = TopicPartition(named.name, each.partition_index)
                        found.add(key, each.error_code, None, about=f"partition {key}")
            return found

        results = await self.carry_out(
            [spec.topic_partition], self.to_leaders, ask, what="aborting a transaction", timeout_ms=timeout_ms
        )
        results.unwrap()

    async def find_hanging_transactions(
        self,
        partitions: Iterable[TopicPartition],
        *,
        max_transaction_timeout_ms: int = MAX_TRANSACTION_TIMEOUT_MS,
        broker_id: BrokerId | None = None,
        timeout_ms: float | None = None,
    ) -> list[HangingTransaction]:
        """Transactions open for longer than any may be, of which no coordinator knows.

        Partitions that cannot be asked raise: what was not looked at cannot be said to be sound.
        """
        now_ms = self.cluster.runtime.clock.now_ms()
        described = await self.describe_producers(partitions, broker_id=broker_id, timeout_ms=timeout_ms)
        candidates = [
            HangingTransaction(topic_partition=key, producer=producer)
            for key, producers in described.unwrap().items()
            for producer in producers
            if producer.transaction_start_offset is not None
            and now_ms - producer.last_timestamp_ms > max_transaction_timeout_ms
        ]
        if not candidates:
            return []
        known = await self._known_partitions({each.producer.producer_id for each in candidates}, timeout_ms)
        return [each for each in candidates if each.topic_partition not in known.get(each.producer.producer_id, ())]

    async def _known_partitions(
        self, producer_ids: set[ProducerId], timeout_ms: float | None
    ) -> Mapping[ProducerId, tuple[TopicPartition, ...]]:
        """Those that coordinators have still to write markers to, by producer."""
        listed = await self.list_transactions(producer_ids=sorted(producer_ids), timeout_ms=timeout_ms)
        ids = {each.producer_id: each.transactional_id for listings in listed.unwrap().values() for each in listings}
        described = await self.describe_transactions(ids.values(), timeout_ms=timeout_ms)
        for error in described.failed.values():
            if error.code != ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
                raise error
        return {
            producer_id: described.done[transactional_id].partitions
            for producer_id, transactional_id in ids.items()
            if transactional_id in described.done
        }

    async def fence_producers(
        self, transactional_ids: Iterable[str], *, timeout_ms: float | None = None
    ) -> Results[str, ProducerIdAndEpoch]:
        """Whoever uses these ids is fenced, and what they have open is aborted."""

        async def ask(node_id: BrokerId, ids: list[str]) -> Results[str, ProducerIdAndEpoch]:
            found: Results[str, ProducerIdAndEpoch] = Results()
            for transactional_id in ids:
                request = InitProducerIdRequest(
                    transactional_id=transactional_id, transaction_timeout_ms=FENCING_TIMEOUT_MS
                )
                response = await self.cluster.request(node_id, request, version_max=STABLE_INIT_PRODUCER_ID_VERSION)
                value = ProducerIdAndEpoch(response.producer_id, response.producer_epoch)
                about = f"transactional id {transactional_id}"
                found.add(transactional_id, response.error_code, value, about=about)
            return self.heed(found, TRANSACTION)

        wanted = listed(transactional_ids, "transactional_ids")
        return await self.carry_out(wanted, self._to_transactions, ask, what="fencing producers", timeout_ms=timeout_ms)


def _producer(state: ProducerState) -> ProducerDescription:
    start_offset = state.current_txn_start_offset
    return ProducerDescription(
        producer_id=state.producer_id,
        producer_epoch=state.producer_epoch,
        last_sequence=state.last_sequence,
        last_timestamp_ms=state.last_timestamp,
        coordinator_epoch=state.coordinator_epoch if state.coordinator_epoch >= 0 else None,
        transaction_start_offset=start_offset if start_offset >= 0 else None,
    )

"""The transaction coordinator of one broker: its shards, and who coordinates which transactional id.

Does not know: the rules of transactions, which are in `transactions`; how markers reach their partitions, which is in
`transaction_markers`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from barnabas.errors import ErrorCode
from barnabas.metadata.delta import MetadataDelta
from barnabas.metadata.image import MetadataImage, ResourceType
from barnabas.metadata.topic_names import TRANSACTIONS_TOPIC
from barnabas.protocol.message import Structure
from barnabas.server.coordinators.coordinator import Coordinator

if TYPE_CHECKING:
    from barnabas.coordination.outcome import Moment, Outcome, Pending
    from barnabas.server.broker import Broker
    from barnabas.server.coordinators.transaction_shard import LedTransactions
    from barnabas.server.replicas.partition import Partition
    from barnabas.transactions.shard import Surroundings, TransactionShard

    Decide = Callable[[TransactionShard, Pending, Moment], Outcome]

R = TypeVar("R", bound=Structure)

TRANSACTION_VERSION = "transaction.version"  # the feature


class TransactionCoordinator(Coordinator["LedTransactions"]):
    TOPIC = TRANSACTIONS_TOPIC

    def __init__(self, broker: Broker) -> None:
        super().__init__(broker)
        self._surroundings: Surroundings | None = None  # of all shards, from the first one on

    def submit(self, transactional_id: str, decide: Decide, failed: Callable[[ErrorCode], R]) -> R | asyncio.Future[R]:
        shard = self.shard_for(transactional_id)
        return failed(ErrorCode.NOT_COORDINATOR) if shard is None else shard.submit(decide, failed)

    def apply(self, delta: MetadataDelta, image: MetadataImage) -> None:
        super().apply(delta, image)
        if self._surroundings is not None:
            self._surroundings.transaction_version = image.features.get(TRANSACTION_VERSION, 0)
            if any(resource.type == ResourceType.BROKER for resource in delta.configs_changed):
                from barnabas.transactions.settings import TransactionSettings

                self._surroundings.settings = TransactionSettings.of(self._broker.config)

    def _partition_count(self) -> int:
        return self._broker.config.transaction_state_log_num_partitions

    def _open(self, partition: Partition, image: MetadataImage) -> LedTransactions:
        from barnabas.server.coordinators.transaction_shard import LedTransactions
        from barnabas.transactions.settings import TransactionSettings
        from barnabas.transactions.shard import Surroundings

        broker = self._broker
        if self._surroundings is None:
            self._surroundings = Surroundings(
                settings=TransactionSettings.of(broker.config),
                take_producer_id=broker.producer_ids.take,
                transaction_version=image.features.get(TRANSACTION_VERSION, 0),
            )
        return LedTransactions(partition=partition, surroundings=self._surroundings, broker=broker)

"""One shard of transactions at work: a partition of `__transaction_state` that this broker leads."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from barnabas.coordination.records import CoordinatorRecord
from barnabas.server.coordinators.coordinator_shard import CoordinatorShard
from barnabas.server.coordinators.transaction_markers import MarkerSender
from barnabas.server.replicas.partition import Partition
from barnabas.transactions.shard import Surroundings, TransactionShard
from barnabas.transactions.transaction import decode

if TYPE_CHECKING:
    from barnabas.server.broker import Broker

logger = logging.getLogger(__name__)

COMMIT_TIMEOUT_MS = 5_000  # as that of offsets: who waits longer is told to look for the coordinator again


class LedTransactions(CoordinatorShard[TransactionShard]):
    def __init__(self, *, partition: Partition, surroundings: Surroundings, broker: Broker) -> None:
        super().__init__(partition=partition, shard=TransactionShard(surroundings), runtime=broker.runtime)
        self.markers = MarkerSender(broker, self)

    def decode(self, key: bytes, value: bytes | None) -> CoordinatorRecord | None:
        return decode(key, value)

    @property
    def commit_timeout_ms(self) -> int:
        return COMMIT_TIMEOUT_MS

    def perform_effects(self, effects: Sequence[Any]) -> None:
        for markers in effects:
            self.markers.send(markers)

    async def load(self) -> None:
        await super().load()
        if self.shard.transactions:
            logger.info("%s: coordinates %d transactional ids", self.partition.name, len(self.shard.transactions))

    def close(self) -> None:
        super().close()
        self.markers.close()

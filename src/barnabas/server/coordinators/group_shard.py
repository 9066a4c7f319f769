"""One shard of groups at work: a partition of `__consumer_offsets` that this broker leads."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from barnabas.config.coordinator import CoordinatorConfig
from barnabas.coordination.outcome import Moment, Outcome, Pending
from barnabas.coordination.records import CoordinatorRecord
from barnabas.groups.group import Surroundings
from barnabas.groups.records import decode
from barnabas.groups.shard import GroupShard
from barnabas.groups.topics import Topics
from barnabas.protocol.compression import Codec
from barnabas.runtime.interfaces import Runtime
from barnabas.server.coordinators.coordinator_shard import CoordinatorShard, ShardState
from barnabas.server.replicas.partition import Partition
from barnabas.types import ProducerId

__all__ = ["Decide", "LedShard", "ShardState"]

logger = logging.getLogger(__name__)

Decide = Callable[[GroupShard, Pending, Moment], Outcome]


class LedShard(CoordinatorShard[GroupShard]):
    def __init__(
        self, *, partition: Partition, surroundings: Surroundings, config: CoordinatorConfig, runtime: Runtime
    ) -> None:
        super().__init__(partition=partition, shard=GroupShard(surroundings), runtime=runtime)
        self._config = config

    def decode(self, key: bytes, value: bytes | None) -> CoordinatorRecord | None:
        return decode(key, value)

    @property
    def codec(self) -> Codec:
        return Codec(self._config.offsets_topic_compression_codec)

    @property
    def commit_timeout_ms(self) -> int:
        return self._config.offsets_commit_timeout_ms

    async def load(self) -> None:
        await super().load()
        if self.shard.groups:
            logger.info("%s: coordinates %d groups", self.partition.name, len(self.shard.groups))

    def topics_changed(self, topics: Topics, names: Sequence[str], *, names_changed: bool) -> None:
        self.shard.surroundings.topics = topics
        self.shard.topics_changed(names, names_changed=names_changed, now=self.now())
        self._wind_timer()

    def transaction_ended(self, producer_id: ProducerId, *, committed: bool) -> None:
        """A marker has just been appended."""
        assert self.state is ShardState.ACTIVE
        self.shard.transaction_ended(producer_id, committed=committed)

"""Elections that nobody asks for: preferred leaders lead again, and whoever may lead uncleanly does where nobody leads.

Only the active controller holds them. One timer for each kind; a setting that begins to allow unclean leaders counts
at once, and not with the next round (Kafka waits for that).
Does not know: who is elected; `controller.elections` decides.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from barnabas.controller import elections
from barnabas.controller.decision import Decision
from barnabas.controller.electorate import UNCLEAN_LEADER_ELECTION_ENABLE, Electorate
from barnabas.metadata.delta import MetadataDelta
from barnabas.metadata.image import MetadataImage, PartitionImage
from barnabas.server.periodic import Periodic
from barnabas.server.quorum.metadata_log import MetadataUnavailable
from barnabas.server.supervisor import OnFailure, ended, is_running
from barnabas.types import NO_LEADER, TopicPartition

if TYPE_CHECKING:
    from barnabas.server.broker import Broker

logger = logging.getLogger(__name__)

SECOND_MS = 1000
BATCHES_MAX = 1000  # decisions in one round; what is left waits for the next


class LeaderElections:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._rounds: list[Periodic] = []
        self._unclean: asyncio.Task[None] | None = None  # what a changed setting asks for

    def start(self) -> None:
        config = self._broker.static_config
        clock, supervisor = self._broker.runtime.clock, self._broker.supervisor
        self._rounds = [
            Periodic(
                name="unclean elections",
                interval_ms=lambda: config.unclean_leader_election_interval_ms,
                job=self.elect_unclean_leaders,
                clock=clock,
                supervisor=supervisor,
            )
        ]
        if config.auto_leader_rebalance_enable:
            self._rounds.append(
                Periodic(
                    name="preferred leaders",
                    interval_ms=lambda: config.leader_imbalance_check_interval_seconds * SECOND_MS,
                    job=self.balance_leaders,
                    clock=clock,
                    supervisor=supervisor,
                )
            )

    async def stop(self) -> None:
        for each in self._rounds:
            await each.stop()
        self._rounds = []
        await ended(self._unclean)

    def apply(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """What has changed may allow an unclean leader where none is allowed so far."""
        if (
            self._is_active
            and not is_running(self._unclean)
            and any(
                UNCLEAN_LEADER_ELECTION_ENABLE in image.configs.get(resource, ()) for resource in delta.configs_changed
            )
        ):
            self._unclean = self._broker.supervisor.start(
                "unclean elections after a changed setting", self.elect_unclean_leaders, OnFailure.RETRY
            )

    async def balance_leaders(self) -> None:
        if any(state.leader != state.replicas[0] for _name, state in self._partitions()):
            await self._hold(elections.balance_leaders)

    async def elect_unclean_leaders(self) -> None:
        if any(state.leader == NO_LEADER for _name, state in self._partitions()):
            await self._hold(elections.elect_unclean_leaders)

    @property
    def _is_active(self) -> bool:
        return self._broker.controller.quorum.is_leader

    def _partitions(self) -> Iterator[tuple[TopicPartition, PartitionImage]]:
        return self._broker.controller.image.partitions() if self._is_active else iter(())

    async def _hold(self, decide: Callable[[Electorate], Decision[bool]]) -> None:
        """All that are due, a bounded number of them in each decision."""
        controller = self._broker.controller
        for _batch in range(BATCHES_MAX):
            try:
                more = await controller.submit(
                    lambda image, _offset: decide(Electorate(image, self._broker.static_config))
                )
            except MetadataUnavailable as error:
                logger.debug("no elections now: %s", error)
                return
            if not more:
                return

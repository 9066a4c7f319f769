"""Finds out where to read from: what the group has committed, what the policy says, and whether a position still holds.

Each leader is asked about its partitions on its own, so that one which does not answer holds up no other; a partition
without a leader waits for the metadata. Always holds: a partition that was sought, reset or taken away while its leader
was being asked is left as it is then. A failure is tried again after a pause, for as long as the partition is wanted;
what cannot pass is in `failures`. A position that moves without the application's doing is logged.
Does not know: fetches.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import NamedTuple

from barnabas.client.cluster import Cluster
from barnabas.client.consuming.subscription import PartitionState, Phase, Position, SubscriptionState
from barnabas.client.errors import KafkaError, error_of
from barnabas.client.offset_requests import EpochEnd, OffsetRequests
from barnabas.client.offsets import OffsetAndMetadata
from barnabas.client.settings import ConsumerConfig
from barnabas.client.workers import Workers
from barnabas.errors import ErrorCode
from barnabas.runtime.interfaces import Clock
from barnabas.types import BrokerId, TopicPartition

logger = logging.getLogger(__name__)

States = dict[TopicPartition, PartitionState]
Step = Callable[[States], Awaitable[None]]


class Failure(NamedTuple):
    """What stands in the way of a partition, for as long as the subscription has this very state of it."""

    state: PartitionState
    error: KafkaError


class Positions:
    def __init__(
        self,
        *,
        requests: OffsetRequests,
        config: ConsumerConfig,
        subscription: SubscriptionState,
        cluster: Cluster,
        workers: Workers,
        group_id: str | None,
        on_stale: Callable[[], None],
        on_found: Callable[[], None],
    ) -> None:
        self._requests = requests
        self._config = config
        self._subscription = subscription
        self._cluster = cluster
        self._group_id = group_id  # who has committed; None: nobody
        self._workers = workers
        self._on_stale = on_stale  # metadata should be asked for
        self._on_found = on_found
        self._wanted = asyncio.Event()
        self._asked: States = {}  # those about which somebody is being asked
        self.failures: dict[TopicPartition, Failure] = {}  # until the partition is sought or taken away
        self.found = asyncio.Event()  # set, and replaced, whenever something was found

    @property
    def _clock(self) -> Clock:
        return self._cluster.runtime.clock

    def wake(self) -> None:
        self._wanted.set()

    def raise_failure(self) -> None:
        """What stands in the way of a partition that is still wanted."""
        for partition, (state, error) in list(self.failures.items()):
            if self._subscription.partitions.get(partition) is state:
                raise error
            del self.failures[partition]

    async def work(self) -> None:
        while True:
            self._wanted.clear()
            for step, partitions in self._due():
                self._asked |= partitions
                self._workers.start(self._try(step, partitions), f"positions of {', '.join(map(str, partitions))}")
            await self._wanted.wait()

    def _due(self) -> Iterator[tuple[Step, States]]:
        now_ms = self._clock.monotonic_ms()
        if beginning := self._of(Phase.NO_POSITION, now_ms):
            yield self._begin, beginning
        for phase, step in ((Phase.RESET, self._reset), (Phase.UNCHECKED, self._check)):
            for partitions in self._by_leader(self._of(phase, now_ms)):
                yield step, partitions

    def _of(self, phase: Phase, now_ms: float) -> States:
        found: States = {}
        for partition in self._subscription.in_phase(phase, now_ms):
            state = self._subscription.partitions[partition]
            failure = self.failures.get(partition)
            if self._asked.get(partition) is not state and (failure is None or failure.state is not state):
                found[partition] = state
        return found

    def _by_leader(self, partitions: States) -> list[States]:
        groups: dict[BrokerId, States] = {}
        for partition, state in partitions.items():
            leader = self._cluster.leader(*partition)
            if leader is None:
                self._on_stale()  # whoever hears of a leader wakes this
            else:
                groups.setdefault(leader.node_id, {})[partition] = state
        return list(groups.values())

    async def _try(self, step: Step, partitions: States) -> None:
        try:
            await step(partitions)
        except KafkaError as error:
            pause_ms = self._config.retry_backoff_max_ms
            retry_at_ms = self._clock.monotonic_ms() + pause_ms
            for partition, state in partitions.items():
                if error.retriable:
                    state.retry_at_ms = retry_at_ms
                else:
                    self.failures[partition] = Failure(state, error)
            self._clock.call_later(pause_ms + 1, self.wake)
        finally:
            for partition, state in partitions.items():
                if self._asked.get(partition) is state:
                    del self._asked[partition]
        self.look()
        self.wake()
        self._on_found()

    def look(self) -> None:
        """Whoever waits for a position looks again."""
        self.found.set()
        self.found = asyncio.Event()

    async def _begin(self, partitions: States) -> None:
        offsets: Mapping[TopicPartition, OffsetAndMetadata | None] = dict.fromkeys(partitions)
        if self._group_id is not None:
            offsets = await self._requests.committed(self._group_id, partitions, self._config.request_timeout_ms)
        policy_ms = self._config.reset_timestamp_ms(self._clock.now_ms())
        for partition, state in partitions.items():
            if state.phase is not Phase.NO_POSITION:
                continue
            found = offsets[partition]
            if found is not None:
                state.seek(Position(found.offset, found.leader_epoch))
            elif policy_ms is not None:
                state.reset(policy_ms)
            else:
                words = "nothing is committed, and auto_offset_reset is none; seek"
                error = error_of(ErrorCode.OFFSET_OUT_OF_RANGE, words, about=str(partition))
                self.failures[partition] = Failure(state, error)

    async def _reset(self, partitions: States) -> None:
        asked = {partition: state.reset_timestamp_ms for partition, state in partitions.items()}
        offsets = await self._requests.list_offsets(asked, self._config.request_timeout_ms)
        ends = [each for each, found in offsets.items() if found is None]  # nothing that new: from the end, then
        if ends:
            offsets |= await self._requests.list_offsets(dict.fromkeys(ends, -1), self._config.request_timeout_ms)
        for partition, state in partitions.items():
            found = offsets[partition]
            if state.phase is Phase.RESET and state.reset_timestamp_ms == asked[partition] and found is not None:
                logger.info("%s: the position is reset to offset %d", partition, found.offset)
                state.seek(Position(found.offset, -1))

    async def _check(self, partitions: States) -> None:
        positions = {each: state.position for each, state in partitions.items() if state.position is not None}
        epochs = {each: position.offset_epoch for each, position in positions.items()}
        leader_epochs = {each: self._requests.leader_epoch(each) for each in positions}
        ends = await self._requests.epoch_ends(epochs, self._config.request_timeout_ms)
        for partition, position in positions.items():
            state = partitions[partition]
            if state.phase is Phase.UNCHECKED and state.position == position:
                self._judge(partition, state, position, ends[partition], leader_epochs[partition])

    def _judge(
        self, partition: TopicPartition, state: PartitionState, position: Position, end: EpochEnd, leader_epoch: int
    ) -> None:
        if end.end_offset >= position.offset:
            state.checked(position, leader_epoch)
            return
        policy_ms = self._config.reset_timestamp_ms(self._clock.now_ms())
        words = f"what was read before offset {position.offset} is not in the log any more: a broker lost it"
        if policy_ms is None:
            advice = f"{words}; seek to {end.end_offset}" if end.end_offset >= 0 else f"{words}; seek"
            error = error_of(ErrorCode.OFFSET_OUT_OF_RANGE, advice, about=str(partition))
            self.failures[partition] = Failure(state, error)
        elif end.end_offset < 0:
            logger.warning("%s: %s; auto_offset_reset=%s decides", partition, words, self._config.auto_offset_reset)
            state.reset(policy_ms)
        else:
            logger.warning("%s: %s; the position goes back to offset %d", partition, words, end.end_offset)
            state.seek(Position(end.end_offset, end.leader_epoch, leader_epoch))

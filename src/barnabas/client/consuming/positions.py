"""Finds out where to read from: what the group has committed, what the policy says, and whether a position still holds.

Always holds: a partition that was sought, reset or taken away while its leader was being asked is left as it is then. A
failure is tried again after a pause, for as long as the partition is wanted; what cannot pass is in `failures`.
Does not know: fetches.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping

from barnabas.client.cluster import Cluster
from barnabas.client.consuming.subscription import PartitionState, Phase, Position, SubscriptionState
from barnabas.client.errors import KafkaError, error_of
from barnabas.client.offset_requests import EpochEnd, OffsetRequests
from barnabas.client.offsets import OffsetAndMetadata
from barnabas.client.settings import ConsumerConfig
from barnabas.errors import ErrorCode
from barnabas.runtime.interfaces import Clock
from barnabas.types import TopicPartition


class Positions:
    def __init__(
        self,
        *,
        requests: OffsetRequests,
        config: ConsumerConfig,
        subscription: SubscriptionState,
        cluster: Cluster,
        group_id: str | None,
        on_found: Callable[[], None],
    ) -> None:
        self._requests = requests
        self._config = config
        self._subscription = subscription
        self._cluster = cluster
        self._group_id = group_id  # who has committed; None: nobody
        self._on_found = on_found
        self._wanted = asyncio.Event()
        self.failures: dict[TopicPartition, KafkaError] = {}  # until the partition is sought or taken away
        self.found = asyncio.Event()  # set, and replaced, whenever something was found

    @property
    def _clock(self) -> Clock:
        return self._cluster.runtime.clock

    def wake(self) -> None:
        self._wanted.set()

    def raise_failure(self) -> None:
        """What stands in the way of a partition that is still wanted."""
        for partition in list(self.failures):
            if partition in self._subscription.partitions:
                raise self.failures[partition]
            del self.failures[partition]

    async def work(self) -> None:
        while True:
            self._wanted.clear()
            now_ms = self._clock.monotonic_ms()
            phases = {phase: self._of(phase, now_ms) for phase in (Phase.NO_POSITION, Phase.RESET, Phase.UNCHECKED)}
            if not any(phases.values()):
                await self._wanted.wait()
                continue
            await asyncio.gather(
                self._try(self._begin, phases[Phase.NO_POSITION]),
                self._try(self._reset, phases[Phase.RESET]),
                self._try(self._check, phases[Phase.UNCHECKED]),
            )
            self.found.set()
            self.found = asyncio.Event()
            self._on_found()

    def _of(self, phase: Phase, now_ms: float) -> dict[TopicPartition, PartitionState]:
        partitions = self._subscription.in_phase(phase, now_ms)
        return {each: self._subscription.partitions[each] for each in partitions if each not in self.failures}

    async def _try(
        self,
        step: Callable[[Mapping[TopicPartition, PartitionState]], Awaitable[None]],
        partitions: dict[TopicPartition, PartitionState],
    ) -> None:
        if not partitions:
            return
        try:
            await step(partitions)
        except KafkaError as error:
            pause_ms = self._config.retry_backoff_max_ms
            retry_at_ms = self._clock.monotonic_ms() + pause_ms
            for partition, state in partitions.items():
                if error.retriable:
                    state.retry_at_ms = retry_at_ms
                else:
                    self.failures[partition] = error
            self._clock.call_later(pause_ms + 1, self.wake)

    async def _begin(self, partitions: Mapping[TopicPartition, PartitionState]) -> None:
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
                self.wake()
            else:
                words = "nothing is committed, and auto_offset_reset is none; seek"
                self.failures[partition] = error_of(ErrorCode.OFFSET_OUT_OF_RANGE, words, about=str(partition))

    async def _reset(self, partitions: Mapping[TopicPartition, PartitionState]) -> None:
        asked = {partition: state.reset_timestamp_ms for partition, state in partitions.items()}
        offsets = await self._requests.list_offsets(asked, self._config.request_timeout_ms)
        ends = [each for each, found in offsets.items() if found is None]  # nothing that new: from the end, then
        if ends:
            offsets |= await self._requests.list_offsets(dict.fromkeys(ends, -1), self._config.request_timeout_ms)
        for partition, state in partitions.items():
            found = offsets[partition]
            if state.phase is Phase.RESET and state.reset_timestamp_ms == asked[partition] and found is not None:
                state.seek(Position(found.offset, -1))

    async def _check(self, partitions: Mapping[TopicPartition, PartitionState]) -> None:
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
            self.failures[partition] = error_of(ErrorCode.OFFSET_OUT_OF_RANGE, advice, about=str(partition))
        elif end.end_offset < 0:
            state.reset(policy_ms)
            self.wake()
        else:
            state.seek(Position(end.end_offset, end.leader_epoch, leader_epoch))

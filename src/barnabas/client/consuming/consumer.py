"""The consumer: reads topics, alone or as a member of a group.

    async with Consumer("letters", bootstrap_servers="localhost:9092", group_id="castle") as consumer:
        async for record in consumer: ...

Owns the API and the parts below it: `subscription` (what is read, and how far), `fetcher` (records, ahead of the
application), `positions` (where to begin), `membership` (the group, in the background), `committer`, `rebalancer`.
Always holds: only while the application polls are partitions given to it or taken from it, so that whatever a poll gave
can be committed until the next one; a poll that is cancelled has taken nothing. Every wait ends by a deadline or with a
KafkaError. Does not know: how any of it is done on the wire.
"""

import asyncio
import logging
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Self, TypeVar

from barnabas.client.cluster import Cluster
from barnabas.client.consuming.committer import Committer
from barnabas.client.consuming.fetcher import Fetcher
from barnabas.client.consuming.membership import Membership, member_of
from barnabas.client.consuming.positions import Positions
from barnabas.client.consuming.rebalance import ConsumerRebalanceListener, Rebalancer
from barnabas.client.consuming.record_decoder import ConsumerBatch, ConsumerRecord
from barnabas.client.consuming.subscription import Kind, Position, SubscriptionState
from barnabas.client.consuming.topic_watch import TopicWatch
from barnabas.client.errors import ClientClosedError, IllegalStateError, KafkaError, KafkaTimeoutError, error_of
from barnabas.client.lifetime import Lifetime
from barnabas.client.metadata import TopicMetadata
from barnabas.client.offset_input import as_moment_ms, as_offset, as_offsets, as_partition
from barnabas.client.offset_requests import OffsetRequests
from barnabas.client.offsets import ConsumerGroupMetadata, OffsetAndMetadata, OffsetAndTimestamp
from barnabas.client.record_input import check_topic
from barnabas.client.settings import ConsumerConfig
from barnabas.client.workers import Workers, let_others_run
from barnabas.errors import ErrorCode
from barnabas.protocol.special_numbers import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, READ_COMMITTED, READ_UNCOMMITTED
from barnabas.runtime.interfaces import Runtime
from barnabas.types import Offset, TopicPartition

T = TypeVar("T")
logger = logging.getLogger(__name__)

# A poll that finds records waiting lets the event loop run when it has not for this long: answers must come in.
HOLD_UP_MS_MAX = 2
CLOSE_TIMEOUT_MS = 30_000  # as in Java


class Consumer(Lifetime):
    """Topics may be named at once; everything else is a setting, by Kafka's name (see `ConsumerConfig`)."""

    def __init__(
        self,
        *topics: str,
        listener: ConsumerRebalanceListener | None = None,
        runtime: Runtime | None = None,
        **settings: Any,
    ) -> None:
        self.config = ConsumerConfig(**settings)
        self.cluster = Cluster(self.config, runtime=runtime)
        self._subscription = SubscriptionState()
        self._attention = asyncio.Event()  # something for the poll that waits
        self._workers = Workers(self._look)
        self._is_started = False
        self._is_closed = False
        self._is_departing = False  # closing or unsubscribing
        self._is_polling = False
        self._yielded_ms = 0.0
        self._commit_at_ms = 0.0
        self._left_over: list[ConsumerRecord] = []  # polled, and not yet given out by `async for`; the next one last
        self._membership: Membership | None = None  # only while subscribed as a member of a group
        self._membership_task: asyncio.Task[None] | None = None
        config, cluster, subscription = self.config, self.cluster, self._subscription
        isolation_level = READ_COMMITTED if config.isolation_level == "read_committed" else READ_UNCOMMITTED
        self._watch = TopicWatch(cluster, config, subscription, on_news=self._metadata_came)
        self._requests = OffsetRequests(
            cluster, isolation_level=isolation_level, allow_auto_topic_creation=config.allow_auto_create_topics
        )
        self._fetcher = Fetcher(
            cluster=cluster,
            config=config,
            subscription=subscription,
            workers=self._workers,
            on_stale=self._watch.wake,
            on_reset=self._find_positions,
            on_arrival=self._attention.set,
        )
        self._positions = Positions(
            requests=self._requests,
            config=config,
            subscription=subscription,
            cluster=cluster,
            workers=self._workers,
            group_id=config.group_id,
            on_stale=self._watch.wake,
            on_found=self._positions_found,
        )
        self._committer = Committer(cluster=cluster, requests=self._requests, who=self._who, on_refused=self._refused)
        self._rebalancer = Rebalancer(
            subscription=subscription,
            fetcher=self._fetcher,
            commit=self._commit_before_loss,
            on_assigned=self._partitions_came,
        )
        if topics:
            self.subscribe(topics, listener=listener)
        elif listener is not None:
            self._rebalancer.listener = listener

    # Beginning and end

    async def start(self) -> None:
        """Finds the brokers. BrokersUnreachableError where none answers in time."""
        if self._is_closed:
            raise ClientClosedError("this consumer is closed; make a new one")
        if self._is_started:
            return
        await self.cluster.start()
        self._is_started = True
        self._workers.start(self._watch.work(), "metadata")
        self._workers.start(self._positions.work(), "positions")
        self._commit_at_ms = self._now_ms() + self.config.auto_commit_interval_ms
        self._join()

    async def close(self, timeout_ms: float = CLOSE_TIMEOUT_MS) -> None:
        """Commits what was consumed, where that is automatic, and leaves the group. Raises what went wrong in that."""
        if self._is_closed:
            return
        self.cluster.check_loop()
        self._is_closed = True
        self._look()
        try:
            if self._is_started:
                await self._workers.close()
                await self._depart(timeout_ms)
        finally:
            await self._committer.close()
            await self.cluster.close()

    async def _depart(self, timeout_ms: float) -> None:
        """From the group, if there is one. Who was thrown out has nothing to commit, and nobody to say good-bye to."""
        deadline_ms = self._now_ms() + timeout_ms
        self._is_departing = True  # the listener may still commit
        try:
            await self._rebalancer.finish(timeout_ms)
            await self._say_good_bye(self._membership, deadline_ms)
        finally:
            membership, self._membership = self._membership, None
            self._is_departing = False
            if membership is not None:
                await membership.leave(self._left_ms(deadline_ms))

    async def _say_good_bye(self, membership: Membership | None, deadline_ms: float) -> None:
        is_member = membership is None or membership.member.is_member
        try:
            if self.config.enable_auto_commit and self.config.group_id is not None and is_member:
                consumed = self._committer.not_committed(self._consumed())
                await self._committer.commit(consumed, self._left_ms(deadline_ms))
        finally:
            if membership is not None and membership.member.owned:
                owned, left_ms = membership.member.owned, self._left_ms(deadline_ms)
                await self._rebalancer.say_good_bye(owned, is_lost=not is_member, timeout_ms=left_ms)
            await self._committer.finish(self._left_ms(deadline_ms))

    def _left_ms(self, deadline_ms: float) -> float:
        return max(deadline_ms - self._now_ms(), 1)

    def _check_running(self) -> None:
        if self._is_closed:
            raise ClientClosedError("this consumer is closed; make a new one")
        if not self._is_started:
            raise ClientClosedError("this consumer is not started; use `async with`, or await start()")
        self.cluster.check_loop()

    def _now_ms(self) -> float:
        return self.cluster.runtime.clock.monotonic_ms()

    # What to read

    def subscribe(
        self,
        topics: Iterable[str] = (),
        *,
        pattern: "str | re.Pattern[str] | None" = None,
        listener: ConsumerRebalanceListener | None = None,
    ) -> None:
        """As a member of the group: these topics, or all whose whole name matches the pattern.

        A pattern given as text to a consumer of group_protocol=consumer is matched by the coordinator, in RE2's syntax.
        """
        self._check_not_closed()
        if isinstance(topics, str):
            raise IllegalStateError(f"topics must be a list of names, not the text {topics!r}")
        names = list(topics)
        for name in names:
            check_topic(name)
        if bool(names) == (pattern is not None):
            raise IllegalStateError("name topics or a pattern, one of the two; unsubscribe() ends a subscription")
        if self.config.group_id is None:
            raise IllegalStateError("subscribe needs a group; set group_id, or use assign() to read without one")
        if listener is not None:
            self._rebalancer.listener = listener
        if pattern is None:
            self._subscription.subscribe(names)
        elif isinstance(pattern, str) and self.config.group_protocol == "consumer":
            self._subscription.subscribe_server_pattern(pattern)
        else:
            self._subscription.subscribe_pattern(_compiled(pattern))
        self._join()

    def assign(self, partitions: Iterable[TopicPartition | tuple[str, int]]) -> None:
        """Exactly these, without asking a group. What is committed for the group, if there is one, is the start."""
        self._check_not_closed()
        wanted = [as_partition(each) for each in partitions]
        before = set(self._subscription.partitions)
        self._subscription.assign(wanted)
        self._fetcher.forget(sorted(before - set(wanted)))
        self._drop_left_over(before - set(wanted))
        self._find_positions()
        self._watch.wake()

    async def unsubscribe(self, timeout_ms: float = CLOSE_TIMEOUT_MS) -> None:
        """Leaves the group, if there is one, and reads nothing any more."""
        self._check_running()
        task, self._membership_task = self._membership_task, None
        if task is not None:
            task.cancel()
            await asyncio.wait([task])
        try:
            await self._depart(timeout_ms)
        finally:
            gone = list(self._subscription.partitions)
            self._subscription.unsubscribe()
            self._watch.member = None
            self._fetcher.forget(gone)
            self._left_over.clear()

    def subscription(self) -> tuple[str, ...]:
        return self._subscription.topics

    def assignment(self) -> set[TopicPartition]:
        return set(self._subscription.partitions)

    def _check_not_closed(self) -> None:
        if self._is_closed:
            raise ClientClosedError("this consumer is closed; make a new one")

    def _join(self) -> None:
        """Makes the member, once the consumer runs and is subscribed, and tells it what is wanted."""
        if not self._is_started or not self._subscription.uses_a_group:
            return
        if self._membership is None:
            self._membership = Membership(
                member_of(self.config, self.cluster.runtime.random),
                self.cluster,
                on_change=self._attention.set,
                on_metadata=self._metadata_came,
            )
            self._watch.member = self._membership.member
            self._membership_task = self._workers.start(self._membership.work(), "membership")
        self._membership.member.subscribe(self._subscription.topics, self._subscription.server_pattern)
        self._membership.wake()
        self._watch.wake()

    # Reading

    async def poll(self, timeout_ms: float | None = 0, max_records: int | None = None) -> list[ConsumerRecord]:
        """The next records, as soon as there are any; none where the time is up. None waits for as long as it takes.

        Takes part in the group: without polls every max_poll_interval_ms, others are given the partitions.
        """
        count_max = self._count_max(max_records)
        if self._left_over:
            taken = self._left_over[: -count_max - 1 : -1]
            del self._left_over[-len(taken) :]
            return taken
        return await self._poll(timeout_ms, lambda: self._fetcher.take(count_max))

    async def poll_batches(self, timeout_ms: float | None = 0, max_records: int | None = None) -> list[ConsumerBatch]:
        """As `poll`, for whoever is in a hurry: batches as columns, whole, and so perhaps a few records more."""
        if self._left_over:
            raise IllegalStateError("`async for` has not given out all that it polled; go on with it, or with poll()")
        count_max = self._count_max(max_records)
        return await self._poll(timeout_ms, lambda: self._fetcher.take_batches(count_max))

    def _count_max(self, max_records: int | None) -> int:
        if max_records is not None and max_records < 1:
            raise IllegalStateError(f"max_records={max_records} asks for nothing; it must be at least 1")
        return self.config.max_poll_records if max_records is None else max_records

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> ConsumerRecord:
        """Whoever leaves the loop has consumed what it was given, and nothing else."""
        left_over = self._left_over
        while not left_over:
            records = await self._poll(None, lambda: self._fetcher.take(self.config.max_poll_records))
            records.reverse()
            left_over += records
        return left_over.pop()

    async def _poll(self, timeout_ms: float | None, take: Callable[[], list[T]]) -> list[T]:
        self._check_running()
        if self._subscription.kind is Kind.NOTHING:
            raise IllegalStateError("nothing to read: subscribe to topics or assign partitions first")
        if self._is_polling:
            raise IllegalStateError("a poll is under way; a consumer has one at a time")
        self._is_polling = True
        now_ms = self._now_ms()
        if self._membership is not None and self._membership.member.poll_began(now_ms):
            self._membership.wake()
        try:
            self._commit_if_due(now_ms)
            return await self._wait_for(take, timeout_ms, now_ms)
        finally:
            self._is_polling = False
            if self._membership is not None:
                self._membership.member.poll_ended(self._now_ms())

    async def _wait_for(self, take: Callable[[], list[T]], timeout_ms: float | None, now_ms: float) -> list[T]:
        deadline_ms = None if timeout_ms is None else now_ms + timeout_ms
        while True:
            self._attention.clear()
            await self._follow_the_group()
            if now_ms - self._yielded_ms >= HOLD_UP_MS_MAX:
                await let_others_run()
                self._yielded_ms = now_ms
            found = take()
            if found:
                return found
            self._check_running()
            self._raise_failures()
            now_ms = self._now_ms()
            if deadline_ms is not None and now_ms >= deadline_ms:
                return found
            try:
                async with asyncio.timeout(None if deadline_ms is None else (deadline_ms - now_ms) / 1000):
                    await self._attention.wait()
            except TimeoutError:
                now_ms = self._now_ms()
            self._yielded_ms = now_ms

    async def _follow_the_group(self) -> None:
        membership = self._membership
        if membership is None or self._is_closed or self._is_departing:
            return
        if membership.member.failure is not None:
            raise membership.member.failure
        await self._rebalancer.follow(membership)

    def _raise_failures(self) -> None:
        if self._workers.failure is not None:
            raise self._workers.failure
        if self._watch.failure is not None:
            raise self._watch.failure
        self._fetcher.raise_failure()
        self._positions.raise_failure()

    # Committing

    async def commit(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata | int] | None = None,
        timeout_ms: float | None = None,
    ) -> None:
        """These offsets, each that of the next record to be read, or all that was consumed. Returns when it is done."""
        await self._committer.commit(self._offsets_to_commit(offsets), self._time_ms(timeout_ms))

    def commit_async(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata | int] | None = None
    ) -> "asyncio.Task[None]":
        """As `commit`, without waiting. Commits happen in the order of the calls; the task tells what became of it."""
        return self._committer.begin(self._offsets_to_commit(offsets), self.config.default_api_timeout_ms)

    async def committed(
        self, partitions: Iterable[TopicPartition | tuple[str, int]], timeout_ms: float | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """What the group has committed."""
        self._check_running()
        wanted = [as_partition(each) for each in partitions]
        return await self._requests.committed(self._group_id(), wanted, self._time_ms(timeout_ms))

    def group_metadata(self) -> ConsumerGroupMetadata:
        """For `Producer.send_offsets_to_transaction`."""
        found = self._who()
        return ConsumerGroupMetadata(self._group_id()) if found is None else found

    def _group_id(self) -> str:
        if self.config.group_id is None:
            raise IllegalStateError("this consumer has no group to commit for; set group_id")
        return self.config.group_id

    def _offsets_to_commit(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata | int] | None
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        if not self._is_departing:
            self._check_running()
        self._group_id()
        return self._consumed() if offsets is None else as_offsets(offsets)

    def _consumed(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """What `async for` has not given out yet was not consumed."""
        consumed = self._subscription.consumed()
        for record in self._left_over:
            partition = TopicPartition(record.topic, record.partition)
            if partition in consumed:
                consumed[partition] = OffsetAndMetadata(record.offset, "", record.leader_epoch)
        return consumed

    def _commit_if_due(self, now_ms: float) -> None:
        """What earlier polls gave is done with, for this is another one."""
        if now_ms < self._commit_at_ms or not self.config.enable_auto_commit or self.config.group_id is None:
            return
        self._commit_at_ms = now_ms + self.config.auto_commit_interval_ms
        if self._membership is None or self._membership.member.is_settled:
            self._committer.begin_automatic(self._consumed(), self.config.default_api_timeout_ms)

    async def _commit_before_loss(self, partitions: tuple[TopicPartition, ...]) -> None:
        if not self.config.enable_auto_commit:
            return
        consumed = {each: found for each, found in self._consumed().items() if each in set(partitions)}
        try:
            await self._committer.commit(self._committer.not_committed(consumed), self.config.request_timeout_ms)
        except KafkaError as error:  # the group does not wait: who reads next begins at the last commit
            logger.warning("what was read of %s is not committed before it goes to others: %s", partitions, error)

    def _who(self) -> ConsumerGroupMetadata | None:
        group_id = self._group_id()
        if self._membership is None:
            return ConsumerGroupMetadata(group_id, group_instance_id=None)
        member = self._membership.member
        if not member.is_member:
            return None
        return ConsumerGroupMetadata(group_id, member.generation, member.member_id, member.settings.instance_id)

    def _refused(self, code: ErrorCode) -> bool:
        if self._membership is None:
            return False
        is_out = self._membership.member.thrown_out(code, self._now_ms())
        self._membership.wake()
        self._attention.set()
        return is_out

    # Positions

    def seek(self, partition: TopicPartition | tuple[str, int], offset: Offset | OffsetAndMetadata) -> None:
        """The next poll gives the record at this offset, or the first one after it."""
        where = as_offset(offset, advice="; use seek_to_beginning or seek_to_end")
        self._seek([partition], lambda state: state.seek(Position(where.offset, where.leader_epoch)))

    def seek_to_beginning(self, *partitions: TopicPartition | tuple[str, int]) -> None:
        """Of these, or of all that are assigned. The leader is asked for the offset when it is needed."""
        self._seek(partitions, lambda state: state.reset(EARLIEST_TIMESTAMP))

    def seek_to_end(self, *partitions: TopicPartition | tuple[str, int]) -> None:
        self._seek(partitions, lambda state: state.reset(LATEST_TIMESTAMP))

    def _seek(self, partitions: Iterable[TopicPartition | tuple[str, int]], change: Callable[[Any], None]) -> None:
        self._check_not_closed()
        wanted = [as_partition(each) for each in partitions] or list(self._subscription.partitions)
        for partition in wanted:
            change(self._subscription.state(partition))
            self._positions.failures.pop(partition, None)
        self._drop_left_over(set(wanted))
        self._fetcher.forget(wanted)
        self._find_positions()

    def _drop_left_over(self, partitions: set[TopicPartition]) -> None:
        self._left_over[:] = [each for each in self._left_over if TopicPartition(each[0], each[1]) not in partitions]

    async def position(self, partition: TopicPartition | tuple[str, int], timeout_ms: float | None = None) -> Offset:
        """The offset of the next record that will be given out."""
        self._check_running()
        partition = as_partition(partition)
        for record in reversed(self._left_over):
            if (record.topic, record.partition) == partition:
                return record.offset
        state = self._subscription.state(partition)
        timeout_ms = self._time_ms(timeout_ms)
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                while state.position is None:
                    self._check_running()
                    self._raise_failures()
                    await self._positions.found.wait()
        except TimeoutError:
            raise KafkaTimeoutError(f"the position in {partition}: not within {timeout_ms:.0f} ms") from None
        return state.position.offset

    async def lag(self, partition: TopicPartition | tuple[str, int], timeout_ms: float | None = None) -> int:
        """How many offsets lie before the end that this consumer may read, as last heard or asked for now."""
        partition = as_partition(partition)
        position = await self.position(partition, timeout_ms)
        state = self._subscription.state(partition)
        end = state.high_watermark if self.config.isolation_level == "read_uncommitted" else state.last_stable_offset
        if end < 0:
            end = (await self.end_offsets([partition], timeout_ms))[partition]
        return max(end - position, 0)

    def pause(self, *partitions: TopicPartition | tuple[str, int]) -> None:
        """Polls give nothing of these until they are resumed; they stay assigned."""
        for partition in partitions:
            self._subscription.state(as_partition(partition)).paused = True

    def resume(self, *partitions: TopicPartition | tuple[str, int]) -> None:
        wanted = [as_partition(each) for each in partitions]
        for partition in wanted:
            self._subscription.state(partition).paused = False
        self._fetcher.wake()

    def paused(self) -> set[TopicPartition]:
        return {each for each, state in self._subscription.partitions.items() if state.paused}

    # Questions

    async def offsets_for_times(
        self, timestamps_ms: Mapping[TopicPartition, int], timeout_ms: float | None = None
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """The first record at or after each moment; None where there is none."""
        given = {as_partition(partition): timestamp_ms for partition, timestamp_ms in timestamps_ms.items()}
        wanted = {partition: as_moment_ms(timestamp_ms, partition) for partition, timestamp_ms in given.items()}
        return await self._list_offsets(wanted, timeout_ms)

    async def beginning_offsets(
        self, partitions: Iterable[TopicPartition | tuple[str, int]], timeout_ms: float | None = None
    ) -> dict[TopicPartition, Offset]:
        found = await self._list_offsets(dict.fromkeys(map(as_partition, partitions), EARLIEST_TIMESTAMP), timeout_ms)
        return {partition: 0 if each is None else each.offset for partition, each in found.items()}

    async def end_offsets(
        self, partitions: Iterable[TopicPartition | tuple[str, int]], timeout_ms: float | None = None
    ) -> dict[TopicPartition, Offset]:
        """The offset after the last record that this consumer may read."""
        found = await self._list_offsets(dict.fromkeys(map(as_partition, partitions), LATEST_TIMESTAMP), timeout_ms)
        return {partition: 0 if each is None else each.offset for partition, each in found.items()}

    async def _list_offsets(
        self, timestamps_ms: Mapping[TopicPartition, int], timeout_ms: float | None
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        self._check_running()
        return await self._requests.list_offsets(timestamps_ms, self._time_ms(timeout_ms)) if timestamps_ms else {}

    async def topics(self, timeout_ms: float | None = None) -> dict[str, TopicMetadata]:
        """All topics that this principal may see."""
        self._check_running()
        return await self.cluster.topics(timeout_ms=self._time_ms(timeout_ms))

    async def partitions_for(self, topic: str, timeout_ms: float | None = None) -> list[TopicPartition]:
        self._check_running()
        found = await self.cluster.topics([topic], timeout_ms=self._time_ms(timeout_ms))
        return [TopicPartition(topic, number) for number in found[topic].partitions]

    def _time_ms(self, timeout_ms: float | None) -> float:
        return self.config.default_api_timeout_ms if timeout_ms is None else timeout_ms

    # What the parts tell each other

    def _look(self) -> None:
        """Whoever waits finds that the consumer is closed, or that a worker failed."""
        self._attention.set()
        self._positions.look()

    def _find_positions(self) -> None:
        self._positions.wake()

    def _partitions_came(self) -> None:
        self._committer.forget()
        self._positions.wake()

    def _positions_found(self) -> None:
        self._fetcher.wake()
        self._attention.set()  # perhaps a failure

    def _metadata_came(self) -> None:
        metadata = self.cluster.metadata
        if self._membership is not None:
            member = self._membership.member
            member.subscribe(self._subscription.topics, self._subscription.server_pattern)
            counts = {name: topic.partition_count for name, topic in metadata.topics.items()}
            member.partitions_known(counts, metadata.replica_racks())
            member.names_known(metadata.names)
            self._membership.wake()
        self._subscription.leaders_changed(self._requests.leader_epoch)
        self._positions.wake()
        self._fetcher.wake()
        self._attention.set()  # perhaps a failure


def _compiled(pattern: str | re.Pattern[str]) -> re.Pattern[str]:
    try:
        return re.compile(pattern)
    except re.error as error:
        raise error_of(ErrorCode.INVALID_REGULAR_EXPRESSION, f"{pattern!r}: {error}") from None

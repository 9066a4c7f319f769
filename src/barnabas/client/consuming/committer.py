"""Commits a consumer's offsets: when it is told to, and every so often by itself.

Always holds: one commit is under way at a time, in the order in which they were asked for, so that an older one never
undoes a newer one. A commit for partitions that the group has given to others fails, and the member hears of it.
Does not know: what was consumed (it is told).
"""

import asyncio
import logging
from collections.abc import Callable, Mapping

from barnabas.client.cluster import GROUP, Cluster
from barnabas.client.errors import KafkaError, KafkaTimeoutError, error_of
from barnabas.client.offset_requests import OffsetRequests
from barnabas.client.offsets import ConsumerGroupMetadata, OffsetAndMetadata
from barnabas.errors import ErrorCode
from barnabas.types import TopicPartition

logger = logging.getLogger(__name__)

Offsets = Mapping[TopicPartition, OffsetAndMetadata]


class Committer:
    def __init__(
        self,
        *,
        cluster: Cluster,
        requests: OffsetRequests,
        who: Callable[[], ConsumerGroupMetadata | None],
        on_refused: Callable[[ErrorCode], bool],
    ) -> None:
        self._cluster = cluster
        self._requests = requests
        self._who = who  # on whose behalf; None: the group went on without this member
        self._on_refused = on_refused  # a code that may concern the member; True where it is none any more
        self._in_turn = asyncio.Lock()
        self._begun: dict[asyncio.Task[None], None] = {}
        self._automatic: asyncio.Task[None] | None = None
        self._committed: dict[TopicPartition, OffsetAndMetadata] = {}  # the last known to be

    async def commit(self, offsets: Offsets, timeout_ms: float) -> None:
        """Returns once the group has them. CommitFailedError where it has gone on without this member.

        The time includes the wait for the commits before it.
        """
        if not offsets:
            return

        async def attempt() -> None:
            who = self._who()
            if who is None:
                raise error_of(ErrorCode.UNKNOWN_MEMBER_ID, about="the commit")
            self._judge(await self._requests.commit(who, offsets, self._cluster.config.request_timeout_ms))

        clock = self._cluster.runtime.clock
        deadline_ms = clock.monotonic_ms() + timeout_ms
        await self._wait_for_turn(timeout_ms)
        try:
            group = self._who()
            await self._cluster.retry(
                attempt,
                what="the commit",
                timeout_ms=max(deadline_ms - clock.monotonic_ms(), 1),
                coordinator=None if group is None else (GROUP, group.group_id),
            )
            self._committed.update(offsets)
        finally:
            self._in_turn.release()

    async def _wait_for_turn(self, timeout_ms: float) -> None:
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                await self._in_turn.acquire()
        except TimeoutError:
            words = f"the commit: the one before it is still under way after {timeout_ms:.0f} ms"
            raise KafkaTimeoutError(words) from None

    def _judge(self, results: Mapping[TopicPartition, ErrorCode]) -> None:
        worst: KafkaError | None = None
        for partition, code in results.items():
            if code == ErrorCode.NONE:
                continue
            if code == ErrorCode.STALE_MEMBER_EPOCH and not self._on_refused(code):
                # The member's epoch moves while it is in the group: the next heartbeat brings the one that counts.
                error = error_of(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "the member's epoch moves", about="the commit")
            else:
                self._on_refused(code)
                error = error_of(code, about=str(partition))
            if worst is None or worst.retriable:
                worst = error
        if worst is not None:
            raise worst

    def begin(self, offsets: Offsets, timeout_ms: float) -> "asyncio.Task[None]":
        """Commits without being waited for. Whoever wants to know asks the task; else its failure is forgotten."""
        task = asyncio.get_running_loop().create_task(self.commit(offsets, timeout_ms), name="commit")
        self._begun[task] = None
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: "asyncio.Task[None]") -> None:
        self._begun.pop(task, None)
        if not task.cancelled():
            task.exception()

    def begin_automatic(self, offsets: Offsets, timeout_ms: float) -> None:
        """Unless the last one is still under way, or there is nothing new. A failure is made up for by the next one."""
        if self._automatic is not None and not self._automatic.done():
            return
        new = self.not_committed(offsets)
        if new:
            self._automatic = self.begin(new, timeout_ms)
            self._automatic.add_done_callback(_warn_of_failure)

    def not_committed(self, offsets: Offsets) -> dict[TopicPartition, OffsetAndMetadata]:
        return {each: found for each, found in offsets.items() if self._committed.get(each) != found}

    def forget(self) -> None:
        """What others commit from now on is not known here."""
        self._committed.clear()

    async def finish(self, timeout_ms: float) -> None:
        """Waits for what was begun, before the consumer leaves."""
        if self._begun:
            await asyncio.wait(list(self._begun), timeout=timeout_ms / 1000)

    async def close(self) -> None:
        tasks = list(self._begun)
        for task in tasks:
            task.cancel()
        for task in tasks:
            await asyncio.wait([task])


def _warn_of_failure(task: "asyncio.Task[None]") -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        logger.warning("offsets were not committed, and are with the next commit: %s", error)

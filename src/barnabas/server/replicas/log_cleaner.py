"""Compaction of this broker's partitions, led and followed alike: the dirtiest first, `log.cleaner.threads` at a time.

Rules are in `log.compaction` and `log.batch_retention`, the work in `log.cleaner`, run by `runtime.background`.
Always holds: of one partition at most one compaction at a time, and no retention meanwhile. What is cleaned is synced
and lies below the recovery point that is on the disk, so that no recovery takes its gaps for lost records. How far it
was cleaned is written down only after the new segments are on the platter.
A partition that cannot be compacted is set aside, and said so once; a disk that fails is tried again next time.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import aclosing
from typing import TYPE_CHECKING

from barnabas.log.compaction import Cleanable, cleanable, first_dirty_offset
from barnabas.log.log import Log
from barnabas.server.periodic import Periodic
from barnabas.server.replicas.partition import Partition
from barnabas.types import TopicPartition

if TYPE_CHECKING:
    from barnabas.log.cleaner import Cleaned, CleanedGroup
    from barnabas.log.cleaning import Buffers, Cleaning
    from barnabas.server.broker import Broker

logger = logging.getLogger(__name__)

BACKOFF_MS_MIN = 1
PARTITIONS_PER_TURN = 100  # looked at before the event loop gets its turn


class LogCleaner:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._job: Periodic | None = None
        self.in_progress: dict[Partition, None] = {}
        self.uncleanable: dict[Partition, str] = {}  # with the reason; until the broker or the partition ends

    def start(self) -> None:
        config = self._broker.config
        if config.log_cleaner_enable:
            self._job = Periodic(
                name="compaction",
                interval_ms=lambda: max(BACKOFF_MS_MIN, self._broker.config.log_cleaner_backoff_ms),
                job=self.round,
                clock=self._broker.runtime.clock,
                supervisor=self._broker.supervisor,
            )

    async def stop(self) -> None:
        if self._job is not None:
            await self._job.stop()
            self._job = None

    async def round(self) -> None:
        """Compacts whatever is due now."""
        for partition in [each for each in self.uncleanable if each.closed]:
            del self.uncleanable[partition]
        failed: dict[Partition, None] = {}
        await asyncio.gather(*(self._work(failed) for _ in range(self._broker.config.log_cleaner_threads)))

    async def _work(self, failed: dict[Partition, None]) -> None:
        while (partition := await self._dirtiest(failed)) is not None:
            self.in_progress[partition] = None
            try:
                if not await self._clean(partition):
                    failed[partition] = None
            except OSError as error:
                failed[partition] = None
                logger.error("%s: the disk failed while it was compacted: %s", partition.name, error)
                partition.compaction_failed(error)
            except Exception as error:
                self.uncleanable[partition] = str(error)
                logger.exception("%s: cannot be compacted, and is set aside until a restart", partition.name)
            finally:
                del self.in_progress[partition]

    async def _dirtiest(self, failed: dict[Partition, None]) -> Partition | None:
        found: Partition | None = None
        ratio_max = 0.0
        now_ms = self._broker.runtime.clock.now_ms()
        for number, partition in enumerate(tuple(self._broker.partitions), 1):
            if number % PARTITIONS_PER_TURN == 0:
                await self._broker.runtime.clock.sleep(0)
            if self._may_clean(partition) and partition not in failed:
                part = cleanable_part(partition.log, now_ms)
                if part.is_due(partition.config) and part.dirty_ratio > ratio_max:
                    found, ratio_max = partition, part.dirty_ratio
        return found if found is None or self._may_clean(found) else None

    def _may_clean(self, partition: Partition) -> bool:
        log = partition.log
        return (
            "compact" in log.config.cleanup_policy
            and not partition.closed
            and partition not in self.in_progress
            and partition not in self.uncleanable
            and not log.is_offline
        )

    async def _clean(self, partition: Partition) -> bool:
        """Whether it was compacted; what ends it early is a change that makes it worthless."""
        from barnabas.log.cleaning import Cleaning  # on first use: most brokers have nothing to compact

        log, broker = partition.log, self._broker
        now_ms = broker.runtime.clock.now_ms()
        part = cleanable_part(log, now_ms)
        cuts = log.swap.cuts
        if log.recovery_point < part.end_offset and not await partition.sync():
            return False
        if broker.directory.written_recovery_point(partition.name) < part.end_offset:
            await broker.directory.write_checkpoints(broker.partitions)
        is_written = broker.directory.written_recovery_point(partition.name) >= part.end_offset
        if partition.closed or log.swap.cuts != cuts or not is_written:
            return False
        cleaning = Cleaning(log, part, self._buffers(), now_ms)
        cleaned = await self._swap_all(partition, cleaning)
        if cleaned is None or not await partition.sync():
            return False
        if not cleaning.is_current:
            return False
        log.swap.cleaned_offset = cleaned.end_offset
        await broker.directory.write_cleaned_offsets(broker.partitions)
        logger.info(
            "%s: compacted from %d to %d: %d records in %d bytes are now %d bytes",
            partition.name,
            part.first_dirty_offset,
            cleaned.end_offset,
            cleaned.records_read,
            cleaned.bytes_read,
            cleaned.bytes_written,
        )
        return True

    async def _swap_all(self, partition: Partition, cleaning: Cleaning) -> Cleaned | None:
        """Each group takes its place as soon as it is ready. None where the log has changed under the work."""
        from barnabas.log.cleaner import Cleaned, CleanedGroup, clean

        runtime, config = self._broker.runtime, self._broker.config
        cleaned = None
        work = runtime.background(
            clean,
            cleaning.request,
            bytes_per_second=config.log_cleaner_io_max_bytes_per_second / max(1, config.log_cleaner_threads),
        )
        try:
            async with aclosing(work) as steps:
                async for step in steps:
                    if isinstance(step, Cleaned):
                        cleaned = step
                    elif isinstance(step, CleanedGroup) and not self._swap_in(partition, cleaning, step):
                        return None
        except FileNotFoundError:
            if not partition.closed and cleaning.is_current:
                raise
        finally:
            if cleaned is None and not partition.closed:
                cleaning.discard()
        return cleaned

    def _swap_in(self, partition: Partition, cleaning: Cleaning, group: CleanedGroup) -> bool:
        return not partition.closed and cleaning.swap_in(group, self._broker.runtime.clock.now_ms())

    def _buffers(self) -> Buffers:
        from barnabas.log.cleaning import Buffers

        config = self._broker.config
        threads = max(1, config.log_cleaner_threads)
        return Buffers(
            map_bytes=config.log_cleaner_dedupe_buffer_size // threads,
            map_load_factor=config.log_cleaner_io_buffer_load_factor,
            io_bytes=max(1, config.log_cleaner_io_buffer_size // threads // 2),
        )

    @property
    def uncleanable_names(self) -> dict[TopicPartition, str]:
        return {partition.name: reason for partition, reason in self.uncleanable.items()}


def cleanable_part(log: Log, now_ms: int) -> Cleanable:
    return cleanable(
        log.segments,
        log.config,
        now_ms,
        first_dirty_offset=first_dirty_offset(log.swap.cleaned_offset, log.log_start_offset, log.log_end_offset),
        last_stable_offset=log.last_stable_offset,
    )

"""The work that keeps logs in order while nobody asks: retention, deleted files, checkpoints, idle producers.

One timer for each kind of work and none for a partition. Between two partitions the event loop gets its turn, so that
a broker with thousands of them still answers; what waits for the platter runs elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from barnabas.server.periodic import Periodic
from barnabas.server.replicas.partition import Partition

if TYPE_CHECKING:
    from barnabas.server.broker import Broker

DELETED_FILES_INTERVAL_MS = 10_000  # files outlive their delay by at most this


class Maintenance:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._jobs: list[Periodic] = []

    def start(self) -> None:
        broker = self._broker
        self._jobs = [
            Periodic(
                name=name, interval_ms=interval_ms, job=job, clock=broker.runtime.clock, supervisor=broker.supervisor
            )
            for name, interval_ms, job in (
                ("retention", lambda: broker.config.log_retention_check_interval_ms, self.apply_retention),
                ("deleted files", lambda: DELETED_FILES_INTERVAL_MS, self.remove_deleted_files),
                ("checkpoints", lambda: broker.config.log_flush_offset_checkpoint_interval_ms, self.write_checkpoints),
                (
                    "high watermarks",
                    lambda: broker.config.replica_high_watermark_checkpoint_interval_ms,
                    self.write_high_watermarks,
                ),
                ("in-sync replicas", lambda: broker.config.replica_lag_time_max_ms / 2, self.sweep_in_sync),
                (
                    "idle producers",
                    lambda: broker.config.producer_id_expiration_check_interval_ms,
                    self.expire_producers,
                ),
            )
        ]

    async def stop(self) -> None:
        for job in self._jobs:
            await job.stop()
        self._jobs = []

    async def apply_retention(self) -> None:
        for partition in await self._each():
            if partition in self._broker.log_cleaner.in_progress:
                continue  # compaction reads what might go; next time
            self._one("retention of", partition, lambda each: each.delete_old_segments(self._now_ms()))
            await self._breathe()

    async def remove_deleted_files(self) -> None:
        for partition in await self._each():
            self._one("removing files of", partition, lambda each: each.log.delete_files_due(self._now_ms()))
        await self._broker.partitions.remove_deleted()

    async def write_checkpoints(self) -> None:
        await self._broker.directory.write_checkpoints(self._broker.partitions)

    async def write_high_watermarks(self) -> None:
        await self._broker.directory.write_high_watermarks(self._broker.partitions)

    async def sweep_in_sync(self) -> None:
        self._broker.partitions.sweep_in_sync()

    async def expire_producers(self) -> None:
        for partition in await self._each():
            self._one("expiring producers of", partition, lambda each: each.log.expire_producers(self._now_ms()))
            await self._breathe()

    def _one(self, name: str, partition: Partition, work: Callable[[Partition], object]) -> None:
        """A log that fails does not keep the others from their turn."""
        if partition.closed:
            return  # since the round began
        try:
            work(partition)
        except Exception as error:
            self._broker.supervisor.report(f"{name} {partition.name}", error, "it is tried again in the next round")

    async def _each(self) -> list[Partition]:
        return [partition for partition in self._broker.partitions if not partition.closed]

    def _now_ms(self) -> int:
        return self._broker.runtime.clock.now_ms()

    async def _breathe(self) -> None:
        await self._broker.runtime.clock.sleep(0)

"""Sees that snapshots of the metadata are written, and that what they hold is then cut off the log.

A snapshot is due after so many bytes of the log (`metadata.log.max.record.bytes.between.snapshots`) or so long after
the first change that is in none (`metadata.log.max.snapshot.interval.ms`). Every node writes its own.
Always holds: one at a time, in slices, so that requests are served meanwhile: an image never changes, so what is
written is the state of one offset. A disk that cannot take it costs nothing but room: the log has it all.
Does not know: when something is committed; it is told.
"""

import asyncio
import logging
from collections.abc import Iterator
from itertools import islice

from barnabas.config.broker import BrokerConfig
from barnabas.consensus.messages import LogEnd
from barnabas.consensus.snapshot_file import SnapshotEncoder
from barnabas.metadata import snapshot as snapshot_records
from barnabas.metadata.image import MetadataImage
from barnabas.protocol.metadata_records import encode_record
from barnabas.runtime.interfaces import Runtime, Timer
from barnabas.server.quorum.metadata_log import MetadataLog
from barnabas.server.quorum.snapshot_files import PartialSnapshot
from barnabas.server.supervisor import OnFailure, Supervisor, ended, is_running

logger = logging.getLogger(__name__)

SLICE_RECORDS = 500  # some milliseconds of encoding; also the records of one batch
CLEAN_INTERVAL_MS = 60_000  # while something old is there: how often it is seen whether it may go


class SnapshotGenerator:
    def __init__(self, *, log: MetadataLog, config: BrokerConfig, runtime: Runtime, supervisor: Supervisor) -> None:
        self._log = log
        self._config = config
        self._runtime = runtime
        self._supervisor = supervisor
        self._image: MetadataImage | None = None  # the latest that was told
        self._size_bytes = 0  # of the log since the last snapshot
        self._timer: Timer | None = None  # from the first change since the last snapshot on
        self._clean_timer: Timer | None = None
        self._task: asyncio.Task[None] | None = None

    def applied(self, image: MetadataImage, size_bytes: int) -> None:
        """The image has moved by so many bytes of the log."""
        self._image = image
        self._size_bytes += size_bytes
        interval_ms = self._config.metadata_log_max_snapshot_interval_ms
        if self._size_bytes >= self._config.metadata_log_max_record_bytes_between_snapshots:
            self._write_soon()
        elif self._timer is None and interval_ms > 0:
            self._timer = self._runtime.clock.call_later(interval_ms, self._write_soon)

    async def stop(self) -> None:
        self._cancel_timer()
        if self._clean_timer is not None:
            self._clean_timer.cancel()
        await ended(self._task)

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _write_soon(self) -> None:
        if not is_running(self._task) and self._image is not None:
            self._cancel_timer()
            self._size_bytes = 0
            self._task = self._supervisor.start("metadata snapshot", self._write_and_clean, OnFailure.RETRY)

    async def _write_and_clean(self) -> None:
        assert self._image is not None
        await self._write(self._image)
        self._clean()

    def _clean(self) -> None:
        if self._clean_timer is not None:
            self._clean_timer.cancel()
            self._clean_timer = None
        try:
            again = self._log.clean()
        except OSError as error:
            logger.error("old metadata cannot be deleted: %s", error)
            again = True
        if again:
            self._clean_timer = self._runtime.clock.call_later(CLEAN_INTERVAL_MS, self._clean)

    async def _write(self, image: MetadataImage) -> None:
        snapshot = LogEnd(image.leader_epoch, image.offset + 1)
        latest = self._log.snapshot
        if latest is not None and latest.end_offset >= snapshot.end_offset:
            return
        partial: PartialSnapshot | None = None
        try:
            partial = self._log.begin_snapshot(snapshot)
            await self._write_all(partial, image)
            if self._log.start_offset <= snapshot.end_offset:  # else a leader's later one has taken its place
                partial.publish()
                partial = None
                self._log.snapshot_written(snapshot)
                logger.info("a snapshot holds the metadata up to offset %d", snapshot.end_offset)
        except OSError as error:
            logger.error("no snapshot of the metadata can be written: %s", error)
        finally:
            if partial is not None:
                partial.abandon()

    async def _write_all(self, partial: PartialSnapshot, image: MetadataImage) -> None:
        offload = self._runtime.offload
        encoder = SnapshotEncoder(partial.snapshot, self._runtime.clock.now_ms())
        partial.write(encoder.begin(self._log.voter_history.head(partial.snapshot.end_offset, image.timestamp_ms)))
        for values in slices(image):
            data = encoder.add(values)
            await offload(lambda data=data: partial.write(data))  # type: ignore[misc]
        partial.write(encoder.end())
        await offload(partial.sync)


def slices(image: MetadataImage) -> Iterator[list[bytes]]:
    records = snapshot_records.records(image)
    while values := [encode_record(record) for record in islice(records, SLICE_RECORDS)]:
        yield values

"""The controller at work: decides, writes, and once it is written, tells the broker what changed.

    submit(decide) → decision over `head` → one batch in the metadata log → `head` moves at once
                   → sync, off the event loop, one for all that was appended meanwhile
                   → committed: `image` moves, `on_change(delta, image)`, then the submitter has its response

Always holds: between decide and append there is no await, so each decision sees all those before it. `image` holds
only what is synced, so nothing is told to anybody that a loss of power could take back; it moves in the order of the
log. The sync goes through `offload` because a platter may take tens of milliseconds, and producers must not wait for
an administrator.
A failed sync ends the service: what the disk then holds is unknown. A failed append changes nothing and may be tried
again.
Does not know: what a request is; the rules are in `controller`. A quorum of several voters will move `committed` by
its own high watermark instead of the sync alone; the rest stays.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

from barnabas.config.broker import BrokerConfig
from barnabas.controller import bootstrap, brokers
from barnabas.controller.brokers import Registration
from barnabas.controller.decision import Decision, Refusal
from barnabas.controller.placement import ReplicaPlacer
from barnabas.errors import ErrorCode
from barnabas.metadata.apply import ImageBuilder, apply
from barnabas.metadata.delta import MetadataDelta, diff
from barnabas.metadata.ids import new_uuid
from barnabas.metadata.image import EMPTY, Endpoint, MetadataImage
from barnabas.protocol.message import Message
from barnabas.runtime.interfaces import Runtime
from barnabas.server.metadata_log import MetadataLog, MetadataUnavailable
from barnabas.server.producer_ids import ProducerIds
from barnabas.types import Offset, Uuid

logger = logging.getLogger(__name__)

R = TypeVar("R")
Commit = asyncio.Future[Exception | None]  # None once committed, else why it never will be


class Pending(NamedTuple):
    """Appended, and waiting to be committed."""

    end_offset: Offset
    image: MetadataImage
    delta: MetadataDelta
    committed: Commit


class ControllerService:
    def __init__(
        self,
        *,
        config: BrokerConfig,
        runtime: Runtime,
        directory: str,
        on_change: Callable[[MetadataDelta, MetadataImage], None],
        on_failure: Callable[[Exception], None],
        clean_shutdown: bool = False,
    ) -> None:
        self.image = EMPTY  # committed, and told to the broker
        self.placer = ReplicaPlacer(runtime.random)
        self.producer_ids = ProducerIds(self)
        self.broker_epoch = -1  # of this node's broker; given at start
        self.failure: Exception | None = None  # what ended it, where that was not `stop`
        self._stopped = False
        self._head = EMPTY  # `image`, and what is pending upon it
        self._pending: deque[Pending] = deque()  # in the order of the log
        self._commit_task: asyncio.Task[None] | None = None
        self._on_change = on_change
        self._on_failure = on_failure
        self._config = config
        self._runtime = runtime
        self._log = MetadataLog.open(runtime.disk, directory, config, runtime.clock, clean_shutdown=clean_shutdown)

    @property
    def node_id(self) -> int:
        return self._config.node_id

    @property
    def leader_epoch(self) -> int:
        return self._log.leader_epoch

    @property
    def log_end_offset(self) -> Offset:
        return self._log.end_offset

    @property
    def high_watermark(self) -> Offset:
        """The end of what is committed."""
        return self.image.offset + 1

    @property
    def log_size_bytes(self) -> int:
        return self._log.size_bytes

    # Start and end

    async def start(
        self,
        *,
        directory_ids: tuple[Uuid, ...],
        endpoints: tuple[Endpoint, ...],
        controller_endpoints: tuple[Endpoint, ...] = (),
    ) -> None:
        """Replays the log, leads a new epoch and registers this node; then tells the whole image as one change."""
        self._replay()
        if not self._head.features:
            self._append(bootstrap.records(self._config))
        incarnation_id = new_uuid(self._runtime.random)
        self._append(
            brokers.register_controller(self._head, self.node_id, incarnation_id, controller_endpoints).records
        )
        registration = Registration(
            broker_id=self.node_id,
            incarnation_id=incarnation_id,
            endpoints=endpoints,
            rack=self._config.broker_rack,
            directories=directory_ids,
        )
        registered = brokers.register_broker(self._head, registration, self._log.end_offset)
        if isinstance(registered.response, Refusal):
            raise MetadataUnavailable(f"node {self.node_id} cannot register: {registered.response.message}")
        self._append(registered.records)
        self.broker_epoch = registered.response
        self._append(brokers.unfence_broker(self._head, self.node_id, self.broker_epoch).records)
        await self._runtime.offload(self._log.sync)
        self._log.committed(self._log.end_offset)
        self.image = self._head
        self._on_change(diff(EMPTY, self.image), self.image)

    async def stop(self) -> None:
        """Lets what is pending end. Nothing may be submitted afterwards."""
        if self._commit_task is not None:
            await self._commit_task
        self._stopped = True
        await self._runtime.offload(self._log.close)

    def _replay(self) -> None:
        """The log so far, and the beginning of an epoch in which this node alone writes."""
        builder = ImageBuilder()
        offset, leader_epoch, timestamp_ms = -1, -1, -1
        for header, records in self._log.batches():
            for record in records:
                builder.apply(record)
            offset, leader_epoch, timestamp_ms = header.last_offset, header.leader_epoch, header.max_timestamp_ms
        self._head, _ = builder.build(offset=offset, leader_epoch=leader_epoch, timestamp_ms=timestamp_ms)
        self._log.begin_epoch()
        if builder.transaction_open:
            from barnabas.protocol.messages.abort_transaction_record import AbortTransactionRecord

            # Its leader went away in the middle of it. The image never saw its records, the log must say so.
            self._log.append([AbortTransactionRecord(reason="the leader that began it is gone")])

    # Work

    async def submit(self, decide: Callable[[MetadataImage, Offset], Decision[R]]) -> R:
        """Decides over the newest state and the next offset; the response comes when the decision is committed.

        A decision without records waits too, for those that it may have been decided upon.
        Raises MetadataUnavailable where the log cannot be written.
        """
        if self._stopped or self.failure is not None:
            raise MetadataUnavailable("the controller has stopped") from self.failure
        decision = decide(self._head, self._log.end_offset)
        if decision.records:
            try:
                delta = self._append(decision.records)
            except OSError as error:
                logger.error("The metadata log cannot be written: %s", error)
                raise MetadataUnavailable("the metadata log cannot be written") from error
            committed: Commit = asyncio.get_running_loop().create_future()
            self._pending.append(Pending(self._log.end_offset, self._head, delta, committed))
            if self._commit_task is None:
                self._commit_task = asyncio.ensure_future(self._commit())
        if self._pending:
            failure = await asyncio.shield(self._pending[-1].committed)
            if failure is not None:
                raise MetadataUnavailable("the metadata log has failed") from failure
        return decision.response

    async def respond(
        self, decide: Callable[[MetadataImage, Offset], Decision[R]], failed: Callable[[ErrorCode], R]
    ) -> R:
        """As `submit`, for handlers: where the log cannot be written, the response says so."""
        try:
            return await self.submit(decide)
        except MetadataUnavailable:
            return failed(ErrorCode.KAFKA_STORAGE_ERROR)

    def _append(self, records: Sequence[Message]) -> MetadataDelta:
        """Applied first: a record that contradicts the image must never reach the log."""
        image, delta = apply(
            self._head,
            records,
            offset=self._log.end_offset + len(records) - 1,
            leader_epoch=self._log.leader_epoch,
            timestamp_ms=self._runtime.clock.now_ms(),
        )
        end_offset = self._log.append(records)
        assert end_offset == image.offset + 1
        self._head = image
        return delta

    async def _commit(self) -> None:
        """Group commit: each round takes along all that was appended while the one before it ran."""
        try:
            while self._pending:
                end_offset = self._pending[-1].end_offset
                await self._runtime.offload(self._log.sync)
                self._log.committed(end_offset)
                while self._pending and self._pending[0].end_offset <= end_offset:
                    self._publish(self._pending[0])
        except Exception as error:
            self._fail(error)
        finally:
            self._commit_task = None

    def _publish(self, pending: Pending) -> None:
        assert pending.image.offset > self.image.offset
        self.image = pending.image
        self._on_change(pending.delta, pending.image)
        self._pending.popleft()
        pending.committed.set_result(None)

    def _fail(self, error: Exception) -> None:
        """What the disk holds now is unknown, so nothing more may be built upon it."""
        logger.error("The metadata log has failed: %s", error, exc_info=error)
        self.failure = error
        while self._pending:
            self._pending.popleft().committed.set_result(error)
        self._on_failure(error)

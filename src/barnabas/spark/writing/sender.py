"""Sends batches that are encoded already, by the client's own sender, and waits for room and for acknowledgements.

Always holds: once `finish` returns every batch is acknowledged, once and in order where the producer is idempotent or
in a transaction; else the first that cannot be written is raised, and nothing is sent after it. Bytes that wait are
bounded by buffer.memory and what is submitted at once. Lives in one event loop. Does not know: rows, who ends a
transaction.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from barnabas.client.cluster import Cluster
from barnabas.client.errors import ClientClosedError, KafkaError
from barnabas.client.producing.accumulator import Accumulator, Batch, Written
from barnabas.client.producing.sender import Sender
from barnabas.client.producing.transaction import OpenTransaction, Transactions
from barnabas.client.settings import ProducerConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class Sealed:
    """A batch that is ready to go, but for the marks of its producer."""

    topic: str
    partition: int
    records: bytearray
    record_count: int
    on_written: Callable[[int], None] | None = None  # told the offset of its first record


class BatchSender:
    def __init__(
        self,
        cluster: Cluster,
        config: ProducerConfig,
        *,
        is_idempotent: bool = True,
        transaction: OpenTransaction | None = None,
    ) -> None:
        """In a transaction that is open and that nothing was written to, or in none."""
        if transaction is not None:
            given = {name.replace(".", "_"): text for name, text in config.overrides.items()}
            config = ProducerConfig(**given, transactional_id=transaction.transactional_id)
        self.failure: KafkaError | None = None  # the first; nothing is sent after it
        self._config = config
        self._clock = cluster.runtime.clock
        self._accumulator = Accumulator(
            batch_size=config.batch_size,
            linger_ms=0,
            delivery_timeout_ms=config.delivery_timeout_ms,
            retries=config.retries,
            is_idempotent=is_idempotent,
            is_transactional=transaction is not None,
            pause_ms=cluster.pause_ms,
        )
        self._accumulator.on_resolved = self._resolved
        self._accumulator.on_failure = self._failed
        self._sender = Sender(cluster, self._accumulator, config)
        self._transactions: Transactions | None = None
        if transaction is not None:
            self._transactions = Transactions(cluster, self._accumulator, self._sender, config)
            self._transactions.resume(transaction)
        self._bytes = 0  # of all batches without an outcome
        self._progress = asyncio.Event()  # some batch has its outcome

    async def submit(self, batches: Sequence[Sealed]) -> None:
        """Takes these as soon as there is room for more."""
        while self._bytes >= self._config.buffer_memory and self.failure is None:
            await self._wait()
        self._check()
        now_ms = self._clock.monotonic_ms()
        for each in batches:
            lane = self._accumulator.lane(each.topic, each.partition)
            batch = self._accumulator.add_sealed(lane, each.records, each.record_count, now_ms)
            if each.on_written is not None:
                batch.when_done(_telling(each.on_written))
            self._bytes += batch.size_bytes
        self._sender.wake()

    async def finish(self) -> None:
        """Returns once everything is acknowledged."""
        while not self._accumulator.is_empty and self.failure is None:
            await self._wait()
        self._check()

    async def close(self) -> None:
        """Returns once nothing is out any more: it might be written after the end of its transaction."""
        self._accumulator.end_all(ClientClosedError("closed before this was written"))
        while not self._accumulator.is_empty:
            await self._wait()
        if self._transactions is not None:
            await self._transactions.close()
        await self._sender.close()

    def _check(self) -> None:
        if self.failure is not None:
            raise self.failure

    async def _wait(self) -> None:
        self._progress.clear()
        await self._progress.wait()

    def _resolved(self, batch: Batch) -> None:
        self._bytes -= batch.size_bytes
        self._progress.set()

    def _failed(self, _batch: Batch, error: KafkaError) -> None:
        if self.failure is None:
            self.failure = error
            self._accumulator.end_all(error)


def _telling(on_written: Callable[[int], None]) -> Callable[[Batch], None]:
    def tell(batch: Batch) -> None:
        # A broker may not remember where one is that it was sent again.
        if isinstance(batch.outcome, Written) and batch.outcome.base_offset >= 0:
            on_written(batch.outcome.base_offset)

    return tell

"""Each batch of a sink once: a transaction for each task attempt, and one record that decides which of them count.

    plan    the driver, before the tasks: fences an older driver, finishes what was decided, aborts what was not
    task    begins a transaction of its own, writes, and leaves it open; or skips, where its batch is decided
    commit  the driver: writes the decision, the point of no return, then commits the tasks' transactions
    abort   the driver: aborts them, unless the decision was made after all

Always holds: a transaction of a task is committed if and only if a decision names it; after a crash at any point the
next plan finishes what the last decision says. So a batch becomes visible transaction by transaction, but once.
What brokers aborted by time before the decision is not decided: AbortedTransactions, and the batch can be run again.
What they aborted after it, while the driver was away, is lost: LostTransactions.
Does not know: rows, Spark.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass

from barnabas.client.cluster import Cluster
from barnabas.client.errors import InvalidTransactionStateError, KafkaError, ProducerFencedError
from barnabas.client.producing.transaction import OpenTransaction
from barnabas.client.settings import ProducerConfig
from barnabas.errors import ErrorCode
from barnabas.protocol.compression import Codec
from barnabas.protocol.record_batch import Record, encode_batch
from barnabas.spark.writing import progress, transactional_requests
from barnabas.spark.writing.progress import Batch, Decision, Progress
from barnabas.spark.writing.sender import BatchSender, Sealed

# The decider's transaction holds one record and is ended at once. Others wait for it where it is not.
DECIDER_TIMEOUT_MS = 20_000
UNKNOWN_BY_NOW = (ErrorCode.INVALID_TXN_STATE, ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_ID_MAPPING)


class AbortedTransactions(Exception):
    """Rows of a batch were aborted before it was decided, so that nothing of it may count."""


class LostTransactions(Exception):
    """Rows that were decided to count were aborted by the brokers before the driver came to commit them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What tasks are told."""

    sink: str
    decider: OpenTransaction
    decided: Batch | None  # the newest batch that is done
    timeout_ms: int  # of the tasks' transactions


@dataclass(frozen=True, slots=True, kw_only=True)
class Sink:
    """Who the sink is. `name` belongs to one query alone, and stays the same when it is started again."""

    name: str
    progress_topic: str
    fail_on_data_loss: bool

    @property
    def decider(self) -> str:
        return f"{quoted(self.name)}:decider"

    @property
    def task_prefix(self) -> str:
        return f"{quoted(self.name)}:t:"


def quoted(sink: str) -> str:
    """Without colons, so that no sink's ids begin like those of another."""
    return sink.replace("%", "%25").replace(":", "%3A")


def task_id(sink: str, run: str, batch_id: int, task: int, attempt: int) -> str:
    """The transactional id of one attempt. Two batches in turn have other ids, so that a decision can be finished while
    the next batch is written; a run has its own, so that a task that outlived its driver touches nobody else's."""
    return f"{quoted(sink)}:t:{run}:{batch_id % 2}:{task}:{attempt}"


class ExactlyOnce:
    def __init__(self, cluster: Cluster, config: ProducerConfig, sink: Sink) -> None:
        self.cluster = cluster
        self.config = config
        self.sink = sink

    async def plan(self) -> Plan:
        decider, timeout_ms = await asyncio.gather(
            transactional_requests.init(self.cluster, self.config, self.sink.decider, DECIDER_TIMEOUT_MS),
            transactional_requests.timeout_ms_max(self.cluster),
        )
        found, ongoing = await asyncio.gather(
            self._progress(), transactional_requests.ongoing(self.cluster, self.config, self.sink.task_prefix)
        )
        decision = found.decision
        if decision is not None and not found.is_finished:
            await self.finish(decision)
        decided = {each.transactional_id for each in decision.transactions} if decision else set()
        await self._sweep([name for name in ongoing if name not in decided])
        return Plan(
            sink=self.sink.name,
            decider=decider,
            decided=None if decision is None else decision.batch,
            timeout_ms=timeout_ms,
        )

    async def commit(self, decider: OpenTransaction, batch: Batch, transactions: Sequence[OpenTransaction]) -> None:
        await self.check_open(batch, transactions)
        decision = Decision(batch, tuple(transactions))
        await self.decide(decider, decision)
        await self.finish(decision)
        ongoing = await transactional_requests.ongoing(self.cluster, self.config, self.sink.task_prefix)
        winners = {each.transactional_id for each in transactions}
        await self._sweep([name for name in ongoing if name not in winners])

    async def abort(self, decider: OpenTransaction, batch: Batch, transactions: Sequence[OpenTransaction]) -> None:
        """Also after a commit that failed half-way: then it may have decided, and what it decided is finished."""
        try:
            await transactional_requests.end(self.cluster, self.config, decider, commit=False)
        except InvalidTransactionStateError:
            pass  # there was no decision under way, or it is made
        except ProducerFencedError:
            return  # another driver has the sink now, or the decider's time was up: the next plan deals with these
        found = await self._progress()
        if found.decision is not None and found.decision.batch == batch:
            await self.finish(found.decision)
            return
        failed = await transactional_requests.end_all(self.cluster, self.config, transactions, commit=False)
        for error in failed.values():
            if error.code not in UNKNOWN_BY_NOW:
                raise error

    async def check_open(self, batch: Batch, transactions: Sequence[OpenTransaction]) -> None:
        """Asked before the decision: there is no way back from that, and no way on without all of them."""
        are_open = await asyncio.gather(
            *(transactional_requests.is_open(self.cluster, self.config, each) for each in transactions)
        )
        gone = [each.transactional_id for each, is_open in zip(transactions, are_open, strict=True) if not is_open]
        if gone:
            raise AbortedTransactions(
                f"sink {self.sink.name}: batch {batch.batch_id} is not committed, for {len(gone)} of "
                f"{len(transactions)} transactions were aborted meanwhile ({', '.join(sorted(gone)[:3])}): another "
                "driver has taken over the sink, or the batch took longer than the brokers' "
                "transaction.max.timeout.ms. Nothing of it is there, so it can be run again"
            )

    async def decide(self, decider: OpenTransaction, decision: Decision) -> None:
        """Returns when the decision can no longer be taken back."""
        await self._write(self.sink.progress_topic, [progress.decision_record(self.sink.name, decision)], decider)
        await transactional_requests.end(self.cluster, self.config, decider, commit=True)

    async def finish(self, decision: Decision) -> None:
        """Commits what was decided; where that was done before, nothing changes."""
        failed = await transactional_requests.end_all(self.cluster, self.config, decision.transactions, commit=True)
        lost = [each.transactional_id for each, error in failed.items() if error.code in UNKNOWN_BY_NOW]
        for error in failed.values():
            if error.code not in UNKNOWN_BY_NOW:
                raise error
        if lost and self.sink.fail_on_data_loss:
            raise LostTransactions(
                f"sink {self.sink.name}: batch {decision.batch.batch_id} was decided, but {len(lost)} of "
                f"{len(decision.transactions)} transactions are gone ({', '.join(sorted(lost)[:3])}): the driver was "
                "away for longer than the brokers' transaction.max.timeout.ms. Their rows are lost. To go on without "
                "them: failOnDataLoss=false"
            )
        await self.note(self.sink.progress_topic, [progress.done_record(self.sink.name, decision.batch)])

    async def _progress(self) -> Progress:
        return await progress.read(self.cluster, self.config, self.sink.progress_topic, self.sink.name)

    async def _sweep(self, transactional_ids: Sequence[str]) -> None:
        """Aborts what nobody will decide on. Whoever still writes in one of them is fenced."""
        await asyncio.gather(
            *(
                transactional_requests.init(self.cluster, self.config, name, DECIDER_TIMEOUT_MS)
                for name in transactional_ids
            )
        )

    async def note(self, topic: str, records: Sequence[tuple[bytes, bytes]]) -> None:
        """Writes to one of the topics of sinks what may be lost, or come twice, without harm."""
        if records:
            await self._write(topic, records, None)

    async def _write(self, topic: str, records: Sequence[tuple[bytes, bytes]], decider: OpenTransaction | None) -> None:
        partition = await progress.partition_of(self.cluster, self.config, topic, self.sink.name)
        now_ms = int(time.time() * 1000)
        batch = encode_batch(
            [Record(offset, now_ms, key, value) for offset, (key, value) in enumerate(records)],
            codec=Codec.GZIP,  # names of thousands of transactions are much alike, and a record has its bounds
            transactional=decider is not None,
        )
        sender = BatchSender(self.cluster, self.config, is_idempotent=decider is not None, transaction=decider)
        try:
            await sender.submit([Sealed(topic=topic, partition=partition, records=batch, record_count=len(records))])
            await sender.finish()
        finally:
            await sender.close()


async def abandon(cluster: Cluster, config: ProducerConfig, transaction: OpenTransaction) -> None:
    """A task that failed takes back what it wrote; where that fails as well, the next plan does it."""
    try:
        await transactional_requests.end(cluster, config, transaction, commit=False)
    except KafkaError as error:
        if error.code not in UNKNOWN_BY_NOW and not error.retriable:
            raise

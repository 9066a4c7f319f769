"""The sink `barnabas` as Spark calls it, for batches and streams.

Spark builds a writer in one process, pickles it for the tasks, and has another one commit: what they share is what is
pickled and what tasks answer.
Always holds: a write that cannot work (options, columns, a topic that is not there) fails before a row is sent. By
default each row is there at least once, and without repeats unless a task is run again; with exactlyOnce see
`exactly_once`. Does not know: bytes, brokers.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from barnabas.client.cluster import Cluster
from barnabas.client.producing.transaction import OpenTransaction
from barnabas.client.settings import ProducerConfig
from barnabas.config.validation import ConfigError
from barnabas.spark.connections import Connections, connections
from barnabas.spark.workers import settle
from barnabas.spark.writing import transactional_requests
from barnabas.spark.writing.exactly_once import ExactlyOnce, Plan, Sink, abandon, task_id
from barnabas.spark.writing.offset_syncs import Segment, sync_records
from barnabas.spark.writing.progress import Batch
from barnabas.spark.writing.sender import BatchSender
from barnabas.spark.writing.task_writer import TaskWriter, partition_counts
from barnabas.spark.writing.write_options import WriteOptions, check_schema

if TYPE_CHECKING:
    from pyarrow import RecordBatch
    from pyspark.sql.types import StructType

# Local properties of Spark's tasks: the only way to know the batch before its commit.
BATCH_ID = "streaming.sql.batchId"
QUERY_ID = "sql.streaming.queryId"
RUN_ID = "spark.jobGroup.id"
RUN_CHARACTERS = 8


@dataclass(frozen=True, kw_only=True)
class TaskDone(WriterCommitMessage):
    """What a task tells the driver."""

    row_count: int = 0
    byte_count: int = 0
    batch: Batch | None = None  # from here on with exactlyOnce only
    decider: OpenTransaction | None = None
    transaction: OpenTransaction | None = None  # None: nothing was written
    segments: Mapping[tuple[str, int], Sequence[Segment]] = field(default_factory=dict)  # with syncTopic


class Writing:
    """What writers of batches and of streams have in common."""

    def __init__(self, given: Mapping[str, str], schema: StructType) -> None:
        self.options = WriteOptions(given)
        check_schema(schema, self.options.topic, needs_offsets=self.options.sync_topic is not None)
        self._plan: Plan | None = None
        self._run = uuid.uuid4().hex[:RUN_CHARACTERS]

    def planned(self) -> Self:
        """This one, once for each batch, before it is sent to the tasks: others that write to the sink are fenced."""
        settle()
        self._plan = connections().run(self._prepare())
        return self

    async def _prepare(self) -> Plan | None:
        cluster = await connections().cluster(self.options.config)
        if self.options.topic is not None:
            await partition_counts(cluster, [self.options.topic])
        return await self.protocol(cluster).plan() if self.options.exactly_once else None

    def protocol(self, cluster: Cluster) -> ExactlyOnce:
        options = self.options
        sink = Sink(
            name=options.sink, progress_topic=options.progress_topic, fail_on_data_loss=options.fail_on_data_loss
        )
        return ExactlyOnce(cluster, options.config, sink)

    # Tasks

    def write_task(self, rows: Iterator[RecordBatch], batch: Batch, run: str) -> TaskDone:
        settle()
        plan = self._plan
        assert (plan is not None) == self.options.exactly_once, "the driver has planned"
        if plan is not None and batch.is_done_by(plan.decided):
            for _rows in rows:
                pass  # Spark wants them to be taken
            return TaskDone()
        first = next((each for each in rows if each.num_rows), None)
        if first is None:
            return TaskDone()
        everything = _chain(first, rows)
        context = TaskContext.get()
        task, attempt = (context.partitionId(), context.attemptNumber()) if context is not None else (0, 0)
        here = connections()
        cluster = here.run(here.cluster(self.options.config))
        if plan is None:
            return self._write_at_least_once(here, cluster, everything, task)
        transactional_id = task_id(plan.sink, run, batch.batch_id, task, attempt)
        transaction = here.run(
            transactional_requests.init(cluster, self.options.config, transactional_id, plan.timeout_ms)
        )
        try:
            written = self._write(here, cluster, everything, task, transaction)
        except BaseException:
            here.run(abandon(cluster, self.options.config, transaction))
            raise
        return TaskDone(
            row_count=written.row_count,
            byte_count=written.byte_count,
            batch=batch,
            decider=plan.decider,
            transaction=transaction,
            segments=written.segments,
        )

    def _write_at_least_once(
        self, here: Connections, cluster: Cluster, rows: Iterator[RecordBatch], task: int
    ) -> TaskDone:
        written = self._write(here, cluster, rows, task, None)
        return TaskDone(row_count=written.row_count, byte_count=written.byte_count)

    def _write(
        self,
        here: Connections,
        cluster: Cluster,
        rows: Iterator[RecordBatch],
        task: int,
        transaction: OpenTransaction | None,
    ) -> TaskWriter:
        sender = here.run(_made(cluster, self.options.config, transaction))
        writer = TaskWriter(
            connections=here,
            cluster=cluster,
            sender=sender,
            options=self.options,
            is_transactional=transaction is not None,
            task=task,
        )
        try:
            writer.write(rows)
        finally:
            here.run(sender.close())
        return writer

    # The driver

    def commit_all(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        found = _decidable(messages)
        if found is not None:
            connections().run(self._commit(*found, _segments(messages)))

    def abort_all(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        found = _decidable(messages)
        if found is not None:
            decider, batch, transactions = found
            connections().run(self._abort(decider, batch, transactions))

    async def _commit(
        self,
        decider: OpenTransaction,
        batch: Batch,
        transactions: list[OpenTransaction],
        segments: Mapping[tuple[str, int], Sequence[Segment]],
    ) -> None:
        cluster = await connections().cluster(self.options.config)
        protocol = self.protocol(cluster)
        await protocol.commit(decider, batch, transactions)
        if self.options.sync_topic is not None:
            await protocol.note(self.options.sync_topic, sync_records(self.options.sink, batch.batch_id, segments))

    async def _abort(self, decider: OpenTransaction, batch: Batch, transactions: list[OpenTransaction]) -> None:
        cluster = await connections().cluster(self.options.config)
        await self.protocol(cluster).abort(decider, batch, transactions)


def _segments(messages: Sequence[WriterCommitMessage | None]) -> dict[tuple[str, int], list[Segment]]:
    found: dict[tuple[str, int], list[Segment]] = {}
    for each in messages:
        if isinstance(each, TaskDone):
            for partition, segments in each.segments.items():
                found.setdefault(partition, []).extend(segments)
    return {partition: sorted(segments) for partition, segments in found.items()}


async def _made(cluster: Cluster, config: ProducerConfig, transaction: OpenTransaction | None) -> BatchSender:
    """In the client's loop, to which a sender belongs."""
    return BatchSender(cluster, config, is_idempotent=config.is_idempotent, transaction=transaction)


def _chain(first: RecordBatch, rest: Iterator[RecordBatch]) -> Iterator[RecordBatch]:
    yield first
    yield from rest


def _decidable(
    messages: Sequence[WriterCommitMessage | None],
) -> tuple[OpenTransaction, Batch, list[OpenTransaction]] | None:
    """Decider, batch and transactions of the tasks that wrote something; None where there is nothing to decide."""
    done = [each for each in messages if isinstance(each, TaskDone) and each.transaction is not None]
    if not done:
        return None
    decider, batch = done[0].decider, done[0].batch
    assert decider is not None
    assert batch is not None
    assert all(each.batch == batch and each.decider == decider for each in done), "tasks of one batch"
    return decider, batch, [each.transaction for each in done if each.transaction is not None]


def _query_around() -> tuple[str | None, str | None]:
    """The streaming query whose foreachBatch writes here, and its run. Nothing of the kind for a batch by itself."""
    context = TaskContext.get()
    query_id = None if context is None else context.getLocalProperty(QUERY_ID)
    if context is None or query_id is None:
        return None, None
    run = context.getLocalProperty(RUN_ID)
    return query_id, None if run is None else run[:RUN_CHARACTERS]


class BatchWriter(Writing, DataSourceArrowWriter):
    def __init__(self, options: Mapping[str, str], schema: StructType, overwrite: bool) -> None:
        if overwrite:
            raise ConfigError("a log cannot be overwritten: use mode('append')")
        super().__init__(options, schema)

    def write(self, iterator: Iterator[RecordBatch]) -> WriterCommitMessage:
        options = self.options
        if options.batch_id is None:
            # A batch write has no identity beyond itself: each is a query of its own with one batch.
            return self.write_task(iterator, Batch(f"batch {self._run}", 0), self._run)
        query_id, run = _query_around()
        batch = Batch(options.query_id or query_id or options.sink, options.batch_id)
        return self.write_task(iterator, batch, run or self._run)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        self.commit_all(messages)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        self.abort_all(messages)


class StreamWriter(Writing, DataSourceStreamArrowWriter):
    def __init__(self, options: Mapping[str, str], schema: StructType, overwrite: bool) -> None:
        # In output mode complete every batch brings all rows, and all are appended, as Spark's own sink does.
        super().__init__(options, schema)
        if self.options.batch_id is not None:
            raise ConfigError("batchId: a streaming query numbers its batches itself")

    def write(self, iterator: Iterator[RecordBatch]) -> WriterCommitMessage:
        context = TaskContext.get()
        assert context is not None, "tasks have a context"
        batch_id = context.getLocalProperty(BATCH_ID)
        query_id, run = _query_around()
        if batch_id is None or query_id is None or run is None:
            raise RuntimeError(f"this Spark does not tell tasks their batch ({BATCH_ID}, {QUERY_ID}, {RUN_ID})")
        return self.write_task(iterator, Batch(query_id, int(batch_id)), run)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        self.commit_all(messages)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        self.abort_all(messages)

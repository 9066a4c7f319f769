"""Runs a pipeline: starts its flows, shows how far they are, ends them when asked to or when one fails.

Always holds: all flows end together; after SIGTERM or Ctrl-C batches that are under way come to their end, unless that
takes long or a second signal comes: then they are left to the next start, which exactly-once sinks and checkpoints
allow. A flow that fails is named with its reason.
Does not know: what flows do, or how progress is shown.
"""

from __future__ import annotations

import re
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from barnabas.spark.pipelines.model import APPEND, ERROR, EachBatch, FileSink, Flow, Pipeline, Polling, Run, TopicSink
from barnabas.spark.reading.lag import lags_after
from barnabas.spark.session import session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

POLL_SECONDS = 1.0
LOOK_SECONDS = 0.2
START_SECONDS_MAX = 30.0
FINISH_SECONDS_MAX = 20.0  # whoever sends a SIGTERM often waits for 30 seconds
LATE_WORKER = ("failed to connect back", "CANNOT_OPEN_SOCKET")
STARTS_AGAIN_MAX = 10
DEAD_LETTER_SUFFIX = ".dead-letter"
REASON_CHARACTERS_MAX = 400
_PYTHON_ERROR = re.compile(r"[A-Za-z_][\w.]*(Error|Exception|Failed|Transactions|Rows|Fenced|Lost): ")
_RAISED = re.compile(r"^: (?:[\w.]+\.)?(\w+: .*)$", re.MULTILINE)  # as py4j tells what Java said
_ENDED = re.compile(r"terminated with exception: (.*?)(?: SQLSTATE|$)", re.MULTILINE)


class FlowFailed(Exception):
    """One flow ended with an error; the message names it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowProgress:
    """How far one flow is."""

    flow: str
    batch_id: int
    rows: int  # since the start of this run
    rows_per_second: float
    lag: int | None  # records that are there and not yet read; None where the source does not tell
    batch_ms: int


Show = Callable[[list[FlowProgress]], None]


def run(
    pipeline: Pipeline,
    *,
    once: bool = False,
    master: str | None = None,
    show: Show | None = None,
    spark: SparkSession | None = None,
    stopped: threading.Event | None = None,
) -> dict[str, int]:
    """Until it is stopped, or with `once` until all that is there is done. Gives the rows of each flow."""
    if not pipeline.flows:
        raise FlowFailed(f"pipeline {pipeline.name} has no flows")
    made = session(pipeline.name, master=master, settings=pipeline.spark) if spark is None else spark
    stop = stopped or threading.Event()
    context = Run(pipeline, made, once=once, stopped=stop)
    with stopped_by_signals(stop) as at_once:
        later = [flow for flow in pipeline.flows.values() if once and isinstance(flow, Polling) and flow.is_last]
        running: list[RunningQuery | RunningPoll] = []
        try:
            for flow in pipeline.flows.values():
                for each in () if flow in later else _start(context, flow, stop):
                    running.append(each)
                    each.wait_until_at_work(stop)
            _watch(running, stop, show)
            for flow in later:
                running += _start(context, flow, stop)
            _watch(running, stop, show)
            _finish(running, at_once, show)
        finally:
            for each in running:
                each.stop()
            if spark is None:
                made.stop()
    return {each.name: each.progress().rows for each in running}


@contextmanager
def stopped_by_signals(stop: threading.Event) -> Iterator[threading.Event]:
    """Gives what a second signal sets."""
    at_once = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield at_once
        return

    def signalled(*_: object) -> None:
        (at_once if stop.is_set() else stop).set()

    before = {each: signal.signal(each, signalled) for each in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield at_once
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


def _watch(running: list[RunningQuery | RunningPoll], stop: threading.Event, show: Show | None) -> None:
    shown = 0.0
    while not stop.is_set():
        for each in running:
            reason = each.failure()
            if reason is not None and not each.starts_again(reason):
                raise FlowFailed(f"flow {each.name}: {reason}")
        active = [each for each in running if each.is_active()]
        if show is not None and (time.monotonic() - shown >= POLL_SECONDS or not active):
            show([each.progress() for each in running])
            shown = time.monotonic()
        if not active:
            return
        stop.wait(LOOK_SECONDS)


def _finish(running: list[RunningQuery | RunningPoll], at_once: threading.Event, show: Show | None) -> None:
    """Waits for the end of the batches that are under way, so that the next start need not do them again."""
    have_ended = [each.end_of_batch() for each in running]
    deadline = time.monotonic() + FINISH_SECONDS_MAX
    while time.monotonic() < deadline and not all(has_ended() for has_ended in have_ended):
        if show is not None:
            show([each.progress() for each in running])
        if at_once.wait(LOOK_SECONDS):
            return
    for each in running:
        reason = each.failure()
        if reason is not None:
            raise FlowFailed(f"flow {each.name}: {reason}")


class RunningQuery:
    def __init__(self, name: str, start: Callable[[], StreamingQuery]) -> None:
        self.name = name
        self._start = start
        self._query = start()
        self._starts_left = STARTS_AGAIN_MAX
        self._rows = 0
        self._counted = -1  # the last batch whose rows are in `_rows`
        self._last: Any = None

    def is_active(self) -> bool:
        return self._query.isActive

    def wait_until_at_work(self, stop: threading.Event) -> None:
        """Spark gives each new Python process ten seconds to start: they must not all start at once."""
        deadline = time.monotonic() + START_SECONDS_MAX
        while self._query.isActive and not stop.is_set() and time.monotonic() < deadline:
            if self._query.lastProgress is not None or self._query.status["message"].startswith("Waiting"):
                return
            stop.wait(LOOK_SECONDS)

    def starts_again(self, reason: str) -> bool:
        """On a machine with much else to do, Spark's Python processes may be late. The checkpoint makes up for it."""
        if not any(words in reason for words in LATE_WORKER) or not self._starts_left:
            return False
        self._starts_left -= 1
        self._query = self._start()
        return True

    def failure(self) -> str | None:
        error = self._query.exception()
        return None if error is None else reason_of(error)

    def progress(self) -> FlowProgress:
        for each in self._query.recentProgress:
            if each.batchId > self._counted:
                self._counted = each.batchId
                self._rows += each.numInputRows
            self._last = each
        last = self._last
        lags = [] if last is None else lags_after(last)
        return FlowProgress(
            flow=self.name,
            batch_id=-1 if last is None else last.batchId,
            rows=self._rows,
            rows_per_second=0.0 if last is None else last.processedRowsPerSecond or 0.0,
            lag=sum(each.total for each in lags) if lags else None,
            batch_ms=0 if last is None else int(last.batchDuration),
        )

    def end_of_batch(self) -> Callable[[], bool]:
        """Whether what runs now, if anything, has come to its end."""
        last = self._last_batch()
        return lambda: not self._query.status["isTriggerActive"] or self._last_batch() > last

    def _last_batch(self) -> int:
        last = self._query.lastProgress
        return -1 if last is None else last.batchId

    def stop(self) -> None:
        self._query.stop()


class RunningPoll:
    """A Polling in a thread of its own."""

    def __init__(self, context: Run, polling: Polling, stop: threading.Event) -> None:
        self.name = polling.name
        self._context = context
        self._polling = polling
        self._stop = stop
        self._rows = 0
        self._polls = 0
        self._seconds = 0.0
        self._failure: str | None = None
        self._thread = threading.Thread(target=self._run, name=polling.name, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            _make_active(self._context.spark)
            self._context.spark.sparkContext.setJobGroup(self.name, f"flow {self.name}", interruptOnCancel=True)
            while not self._stop.is_set():
                began = time.monotonic()
                moved = self._poll()
                self._seconds = time.monotonic() - began
                self._rows += moved
                self._polls += 1
                if self._context.once and not moved:
                    return
                if not moved:
                    self._stop.wait(POLL_SECONDS)
        except Exception as error:  # told by whoever watches
            self._failure = reason_of(error)

    def _poll(self) -> int:
        for _ in range(STARTS_AGAIN_MAX):
            try:
                return self._polling.poll(self._context)
            except Exception as error:
                if not any(words in reason_of(error) for words in LATE_WORKER):
                    raise
        return self._polling.poll(self._context)

    def wait_until_at_work(self, stop: threading.Event) -> None:
        """It is from the start."""

    def starts_again(self, _reason: str) -> bool:
        return False

    def is_active(self) -> bool:
        return self._thread.is_alive()

    def failure(self) -> str | None:
        return self._failure

    def progress(self) -> FlowProgress:
        return FlowProgress(
            flow=self.name,
            batch_id=self._polls - 1,
            rows=self._rows,
            rows_per_second=0.0,
            lag=None,
            batch_ms=int(self._seconds * 1000),
        )

    def end_of_batch(self) -> Callable[[], bool]:
        return lambda: not self._thread.is_alive()

    def stop(self) -> None:
        self._stop.set()
        while self._thread.is_alive():  # its next job may begin only now
            self._context.spark.sparkContext.cancelJobGroup(self.name)
            self._thread.join(LOOK_SECONDS)


def _make_active(spark: SparkSession) -> None:
    """Spark looks for data sources in the session that is active in the thread, and in a new one none is."""
    jvm: Any = spark._jvm
    spark._get_j_spark_session_class(jvm).setActiveSession(spark._jsparkSession)


def _start(context: Run, flow: Flow | Polling, stop: threading.Event) -> Iterator[RunningQuery | RunningPoll]:
    if isinstance(flow, Polling):
        yield RunningPoll(context, flow, stop)
        return
    rows = flow.build(context)
    if flow.dead_letter is None:
        yield _query(context, flow, flow.name, rows, flow.sink)
        return
    if ERROR not in rows.columns:
        raise FlowFailed(f"flow {flow.name} has a dead-letter topic, so its rows need a column {ERROR}")
    yield _query(context, flow, flow.name, rows.where(f"{ERROR} IS NULL").drop(ERROR), flow.sink)
    name = flow.name + DEAD_LETTER_SUFFIX
    yield _query(context, flow, name, dead_letters(rows, flow.name), TopicSink(flow.dead_letter))


def dead_letters(rows: DataFrame, flow: str) -> DataFrame:
    """Failed rows as records: the original bytes, and what was wrong in the headers."""
    from pyspark.sql import functions as F

    failed = rows.where(F.col(ERROR).isNotNull())
    facts = {"barnabas.flow": F.lit(flow), "barnabas.error": F.col(ERROR)}
    facts |= {f"barnabas.{name}": F.col(name) for name in ("topic", "partition", "offset") if name in rows.columns}
    headers = [
        F.struct(F.lit(name).alias("key"), value.cast("string").cast("binary").alias("value"))
        for name, value in facts.items()
    ]
    kept = [F.col(name) for name in ("key", "value") if name in rows.columns]
    return failed.select(*kept, F.array(*headers).alias("headers"))


def _query(context: Run, flow: Flow, name: str, rows: DataFrame, sink: object) -> RunningQuery:
    writer = rows.writeStream.queryName(f"{context.pipeline.name}.{name}").outputMode(flow.output_mode)
    writer = writer.option("checkpointLocation", context.checkpoint(name))
    trigger = {"availableNow": True} if context.once else {"processingTime": context.pipeline.trigger}
    writer = writer.trigger(**trigger)
    match sink:
        case TopicSink() if flow.output_mode != APPEND:
            # To a Python data source Spark streams new rows only; single batches are written in any mode.
            writer = writer.foreachBatch(lambda batch, batch_id: context.write(batch, sink, name, batch_id))
        case TopicSink():
            writer = writer.format("barnabas").options(**context.sink_options(sink, name))
        case FileSink():
            writer = writer.format(sink.format).option("path", sink.path)
            if sink.partition_by:
                writer = writer.partitionBy(*sink.partition_by)
        case EachBatch():
            writer = writer.foreachBatch(lambda batch, batch_id: sink.function(context, batch, batch_id))
        case _:
            raise FlowFailed(f"flow {name}: {type(sink).__name__} is no sink")
    return RunningQuery(name, writer.start)


def reason_of(error: BaseException) -> str:
    """The last line that says something: Spark wraps what went wrong in pages of its own."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    told = [line for line in lines if _PYTHON_ERROR.match(line)]
    ended = _ENDED.search(str(error))
    raised = _RAISED.search(str(error))
    found = told[-1] if told else (ended or raised or [None, (lines or [repr(error)])[0]])[1]
    assert found is not None
    return found[:REASON_CHARACTERS_MAX]

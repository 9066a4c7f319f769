"""How far a streaming query is behind the ends of its partitions, after each batch.

    spark.streams.addListener(LagListener(lambda lag: print(lag.query, lag.total)))

Spark's progress has the end of the batch and, from this source, the ends of the logs; the lag is what lies between.
Always holds: other sources, and progress without offsets, are left out. Does not know: what is done with it.
"""

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
    StreamingQueryProgress,
)

from barnabas.spark.reading.stream_offsets import decode_place
from barnabas.types import TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class Lag:
    """Of one source of a query, after one batch."""

    query: str  # its name, or its id where it has none
    batch_id: int
    by_partition: dict[TopicPartition, int]

    @property
    def total(self) -> int:
        return sum(self.by_partition.values())

    @property
    def most(self) -> int:
        return max(self.by_partition.values(), default=0)


def lags_of(query: str, batch_id: int, sources: Iterable[tuple[Any, Any]]) -> list[Lag]:
    """Of pairs of a batch's end and the latest offsets, each as Spark shows it."""
    found: list[Lag] = []
    for shown_end, shown_latest in sources:
        end, latest = _object(shown_end), _object(shown_latest)
        if end is None or latest is None:
            continue
        behind, ends = decode_place(end).offsets, decode_place(latest).offsets
        by_partition = {each: max(0, offset - behind.get(each, offset)) for each, offset in ends.items()}
        found.append(Lag(query=query, batch_id=batch_id, by_partition=by_partition))
    return found


def lags_after(progress: StreamingQueryProgress) -> list[Lag]:
    sources = [(each.endOffset, each.latestOffset) for each in progress.sources]
    return lags_of(progress.name or str(progress.id), progress.batchId, sources)


def _object(shown: Any) -> dict[str, Any] | None:
    """Spark shows offsets as the text of a JSON object; other sources may show anything."""
    if isinstance(shown, str):
        try:
            shown = json.loads(shown)
        except ValueError:
            return None
    is_ours = isinstance(shown, dict) and all(isinstance(each, dict | bool) for each in shown.values())
    return shown if is_ours and shown else None


class LagListener(StreamingQueryListener):
    def __init__(self, report: Callable[[Lag], object]) -> None:
        self._report = report

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        """Nothing is known yet."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        for lag in lags_after(event.progress):
            self._report(lag)

    def onQueryIdle(self, event: QueryIdleEvent) -> None:
        """Nothing has changed."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        """Nothing more comes."""

"""When a consumer group searches for the topics of its regular expressions, and what comes of it.

A member with a new expression starts a search at once; topics that come or go start one soon, with all those that come
or go meanwhile. Kafka waits for a heartbeat, and for ten seconds since the last search; here new topics are found
sooner.

Always holds: at most one search of a group is under way. What it finds counts from the record on.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from barnabas.groups import consumer_records
from barnabas.groups.consumer_state import count
from barnabas.groups.expression_search import ExpressionSearch
from barnabas.groups.metadata_hash import group_hash
from barnabas.groups.outcome import NOTHING, Moment, Outcome
from barnabas.groups.records import GroupRecord
from barnabas.groups.timers import TimerKind

if TYPE_CHECKING:
    from barnabas.groups.consumer import ConsumerGroup

INTERVAL_MS_MIN = 1_000  # between two searches because of topics: somebody may be creating a thousand of them
PAUSE_MS = 1  # between two slices, in which others are served


def schedule(group: ConsumerGroup, now: Moment, *, at_once: bool = False) -> None:
    if group.search is not None:
        group.search_again = True
        return
    earliest_ms = group.searched_ms + INTERVAL_MS_MIN
    delay_ms = 0 if at_once else max(earliest_ms - now.monotonic_ms, 0)
    group.set_timer(TimerKind.REFRESH, "", delay_ms, now)


def run(group: ConsumerGroup, now: Moment) -> Outcome:
    """One slice of the search; after the last one its result."""
    if group.search is None:
        if not group.state.expressions:
            return NOTHING
        topics = group.surroundings.topics
        group.search = ExpressionSearch(group.state.expressions, topics.names(), topics.version)
        group.search_again = False
    search = group.search
    if not search.run():
        group.set_timer(TimerKind.REFRESH, "", PAUSE_MS, now)
        return NOTHING
    group.search = None
    group.searched_ms = now.monotonic_ms
    if group.search_again:
        schedule(group, now)
    return Outcome(_records(group, search.found, search.version, now), group_id=group.group_id)


def _records(group: ConsumerGroup, found: Mapping[str, set[str]], version: int, now: Moment) -> list[GroupRecord]:
    state, surroundings = group.state, group.surroundings
    records: list[GroupRecord] = []
    counts = dict(state.topic_counts)
    bump = False
    for expression, topics in found.items():
        former = state.resolved.get(expression)
        if expression not in state.expressions or (former is not None and former.topics == topics):
            continue
        records.append(consumer_records.expression(group.group_id, expression, topics, version, now.wall_ms))
        bump = bump or bool(topics) or bool(former)
        count(counts, () if former is None else former.topics, -1)
        count(counts, topics, 1)
    metadata_hash = group_hash(counts, surroundings.topics, surroundings.topic_hashes)
    if bump or metadata_hash != state.metadata_hash:
        records.append(consumer_records.epoch(group.group_id, state.group_epoch + 1, metadata_hash))
    return records

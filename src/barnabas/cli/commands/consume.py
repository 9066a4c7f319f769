"""`barnabas consume`: records of topics, to standard output."""

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated, Any

import typer

from barnabas.cli import bounds, record_format
from barnabas.cli.app import single, verb
from barnabas.cli.bounds import Bound
from barnabas.cli.options import USUAL_CONNECTION, Connection, Json
from barnabas.cli.session import (
    START_TIMEOUT_MS_MAX,
    client_settings,
    complete_groups,
    complete_topics,
    missing_topic,
    properties,
    run_fast,
    stated,
)
from barnabas.cli.text import CommandFailed, Exit
from barnabas.client.consuming.consumer import Consumer
from barnabas.client.consuming.record_decoder import ConsumerRecord
from barnabas.client.settings import ConsumerConfig
from barnabas.types import Offset, TopicPartition

app = single()

POLL_MS = 200
POLL_RECORDS = 10_000
JOIN_MS_MAX = 60_000  # how long a group may take to give something to read


@dataclass(slots=True, kw_only=True)
class Wanted:
    """What the command line asks for."""

    topics: list[str]
    partitions: list[int]
    first: Bound | None
    until: Bound | None
    follow: bool
    is_grouped: bool
    max_messages: int | None
    idle_ms: int | None
    write: Callable[[ConsumerRecord], bytes]


TopicsArgument = Annotated[
    list[str], typer.Argument(metavar="TOPIC", help="Names of topics.", autocompletion=complete_topics)
]
PartitionOption = Annotated[
    list[int] | None, typer.Option("--partition", min=0, metavar="N", help="Only this one; may be repeated.")
]
FromBeginningOption = Annotated[bool, typer.Option("--from-beginning", help="As --from beginning.")]
FirstOption = Annotated[
    str | None,
    typer.Option(
        "--from",
        metavar="WHERE",
        help="Where to begin: beginning, end, an offset, -10, 2026-01-31T12:00, @ms, or 2h (ago).",
    ),
]
UntilOption = Annotated[
    str | None, typer.Option("--until", metavar="WHERE", help="Where to end, not included; written as --from.")
]
FollowOption = Annotated[bool, typer.Option("--follow", "-f", help="Go on with what comes, until Ctrl-C.")]
GroupOption = Annotated[
    str | None,
    typer.Option(
        "--group", metavar="GROUP", help="Read and commit as a member of this.", autocompletion=complete_groups
    ),
]
MaxMessagesOption = Annotated[
    int | None, typer.Option("--max-messages", "-n", min=1, metavar="N", help="End after so many records.")
]
IdleMsOption = Annotated[
    int | None, typer.Option("--idle-ms", min=1, metavar="MS", help="End after so long without a record.")
]
FormOption = Annotated[
    str | None,
    typer.Option(
        "--format",
        metavar="FORMAT",
        show_default=record_format.DEFAULT,
        help="%t %p %o %T %D %k %v %h %K %V, with \\n and \\t.",
    ),
]
IsolationLevelOption = Annotated[
    str | None,
    typer.Option(
        "--isolation-level",
        show_default="read_uncommitted",
        metavar="LEVEL",
        help="read_committed or read_uncommitted.",
    ),
]
ConsumerPropertyOption = Annotated[
    list[str] | None,
    typer.Option("--consumer-property", metavar="NAME=VALUE", help="A setting of consumers; may be repeated."),
]


@verb(
    app,
    "barnabas consume orders",
    "barnabas consume orders --follow",
    "barnabas consume orders --from 2h --format '%D %k %v\\n'",
    "barnabas consume orders --partition 0 --from 100 --until 200 --json",
    "barnabas consume orders payments --group audit --max-messages 10",
)
def consume(
    topics: TopicsArgument,
    partition: PartitionOption = None,
    from_beginning: FromBeginningOption = False,
    first: FirstOption = None,
    until: UntilOption = None,
    follow: FollowOption = False,
    group: GroupOption = None,
    max_messages: MaxMessagesOption = None,
    idle_ms: IdleMsOption = None,
    form: FormOption = None,
    isolation_level: IsolationLevelOption = None,
    consumer_property: ConsumerPropertyOption = None,
    connection: Connection = USUAL_CONNECTION,
    json: Json = False,
) -> int:
    """Reads records of topics.

    Everything that is there, and then it ends; with --follow what comes from now on, unless --from says more. As a
    member of a --group it goes on where the group was. Without --json, values are written as they are, a line each.
    """
    if json and form is not None:
        raise CommandFailed("--format and --json both say how to write: leave one out", Exit.USAGE)
    first_bound = _bound(first, from_beginning)
    settings = client_settings(
        connection,
        ConsumerConfig,
        auto_offset_reset="latest" if follow and first_bound is None else "earliest",
        allow_auto_create_topics=False,
        default_api_timeout_ms=connection.timeout_ms,
    )
    settings |= stated(group_id=group, isolation_level=isolation_level) | properties(consumer_property)
    wanted = Wanted(
        topics=topics,
        partitions=partition or [],
        first=first_bound,
        until=None if until is None else _bound(until, False),
        follow=follow,
        is_grouped="group_id" in settings,
        max_messages=max_messages,
        idle_ms=idle_ms,
        write=record_format.as_json if json else _compiled(form or record_format.DEFAULT),
    )
    if wanted.is_grouped and (wanted.partitions or first is not None):
        raise CommandFailed("--group decides about partitions and where to begin: leave out the other", Exit.USAGE)
    run_fast(_read(wanted, settings, connection.timeout_ms))
    return Exit.DONE


def _bound(text: str | None, from_beginning: bool) -> Bound | None:
    if text is not None and from_beginning:
        raise CommandFailed("--from-beginning and --from say the same: leave one out", Exit.USAGE)
    try:
        return Bound(word="beginning") if from_beginning else None if text is None else bounds.parsed(text)
    except ValueError as error:
        raise CommandFailed(str(error), Exit.USAGE) from None


def _compiled(form: str) -> Callable[[ConsumerRecord], bytes]:
    try:
        return record_format.compiled(form)
    except ValueError as error:
        raise CommandFailed(f"--format: {error}", Exit.USAGE) from None


async def _read(wanted: Wanted, settings: dict[str, Any], timeout_ms: int) -> None:
    consumer = Consumer(**settings)
    try:
        await consumer.cluster.start(min(timeout_ms, START_TIMEOUT_MS_MAX))
        await consumer.start()
        reading = Reading(consumer, wanted)
        await reading.begin()
        await reading.run()
    finally:
        await consumer.close()


@dataclass(slots=True)
class Reading:
    """One run: which partitions are read, and up to where. A partition without a stop is read for ever."""

    consumer: Consumer
    wanted: Wanted
    stops: dict[TopicPartition, Offset] = field(default_factory=dict)
    known: set[TopicPartition] = field(default_factory=set)
    written: int = 0

    async def begin(self) -> None:
        known = await self.consumer.topics()
        for topic in self.wanted.topics:
            if topic not in known:
                raise missing_topic(topic, list(known))
        if self.wanted.is_grouped:
            self.consumer.subscribe(self.wanted.topics)
            return
        chosen = []
        for topic in self.wanted.topics:
            there = list(known[topic].partitions)
            for number in self.wanted.partitions or there:
                if number not in there:
                    message = f"topic {topic} has no partition {number}, but {len(there)} from 0 on"
                    raise CommandFailed(message, Exit.NOT_FOUND)
                chosen.append(TopicPartition(topic, number))
        await self._settle(chosen)

    async def _settle(self, partitions: list[TopicPartition]) -> None:
        """Where each of these begins, unless a group says so, and where it ends."""
        starts = await self.consumer.beginning_offsets(partitions)
        ends = await self.consumer.end_offsets(partitions)
        self.known.update(partitions)
        wanted = self.wanted
        if not wanted.is_grouped:
            first = wanted.first or Bound(word="end" if wanted.follow else "beginning")
            found = await bounds.offsets(self.consumer, first, starts, ends)
            self.consumer.assign(partitions)
            for key, offset in found.items():  # at once, before a fetch waits at the end
                self.consumer.seek(key, min(max(offset, starts[key]), ends[key]))
        if wanted.until is not None:
            self.stops.update(await bounds.offsets(self.consumer, wanted.until, starts, ends))
        elif not wanted.follow:
            self.stops.update(ends)

    async def run(self) -> None:
        clock = self.consumer.cluster.runtime.clock
        quiet_since_ms = clock.monotonic_ms()
        while not await self._is_done():
            left = None if self.wanted.max_messages is None else self.wanted.max_messages - self.written
            records = await self.consumer.poll(POLL_MS, POLL_RECORDS if left is None else min(left, POLL_RECORDS))
            if self.wanted.is_grouped:
                new = [key for key in self.consumer.assignment() if key not in self.known]
                if new:
                    await self._settle(new)
            now_ms = clock.monotonic_ms()
            if records:
                self._write(records)
                quiet_since_ms = now_ms
            elif self.wanted.idle_ms is not None and now_ms - quiet_since_ms >= self.wanted.idle_ms:
                return
            elif not self.known and now_ms - quiet_since_ms >= JOIN_MS_MAX:
                raise CommandFailed("the group gives this member nothing to read: others read all of it")

    async def _is_done(self) -> bool:
        if self.wanted.max_messages is not None and self.written >= self.wanted.max_messages:
            return True
        assigned = self.consumer.assignment()
        if not self.known or not assigned or any(key not in self.stops for key in assigned):
            return False
        positions = [(key, await self.consumer.position(key)) for key in assigned if key in self.known]
        return all(position >= self.stops[key] for key, position in positions)

    def _write(self, records: list[ConsumerRecord]) -> None:
        out = sys.stdout.buffer
        for record in records:
            key = TopicPartition(record.topic, record.partition)
            stop = self.stops.get(key)
            if stop is None or record.offset < stop:
                out.write(self.wanted.write(record))
                self.written += 1
            elif record.offset == stop or key not in self.consumer.paused():
                self.consumer.pause(key)  # nothing more is wanted of it, and it must not be committed as read
                self.consumer.seek(key, stop)
        out.flush()

"""`barnabas produce`: records to a topic, from standard input, from files or from the command line."""

import asyncio
import base64
import json as json_codec
import sys
from collections import deque
from collections.abc import AsyncIterator
from dataclasses import dataclass
from io import FileIO
from pathlib import Path
from typing import Annotated, Any

import typer

from barnabas.cli import output, record_format
from barnabas.cli.app import single, verb
from barnabas.cli.options import USUAL_CONNECTION, Acks, CompressionCodec, Connection, Json, ProducerProperties
from barnabas.cli.session import START_TIMEOUT_MS_MAX, client_settings, complete_topics, properties, run_fast, stated
from barnabas.cli.text import CommandFailed, Exit, counted, suggestion
from barnabas.client.producing.outcomes import RecordFuture, RecordFutures
from barnabas.client.producing.producer import Producer
from barnabas.client.settings import ProducerConfig
from barnabas.config.validation import LONG_MAX
from barnabas.types import NO_TIMESTAMP_MS

app = single()

READ_BYTES = 1 << 16
CHUNKS_PENDING_MAX = 64  # of lines that were read together, whose outcome is not known yet


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]
    partition: int | None = None
    timestamp_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reader:
    """How a line becomes a record. Pure."""

    key: bytes | None
    key_separator: bytes | None
    null_marker: bytes | None
    headers: list[tuple[str, bytes | None]]
    partition: int | None
    is_json: bool

    @property
    def is_plain(self) -> bool:
        """Whether a record is its value and nothing else."""
        return not (self.is_json or self.headers or self.key is not None or self.key_separator is not None)

    def entry(self, line: bytes, number: int) -> Entry:
        """CommandFailed, with the number of the line, where it is none."""
        if self.is_json:
            return self._from_json(line, number)
        key, value = self.key, line
        if self.key_separator is not None:
            head, separator, rest = line.partition(self.key_separator)
            if not separator:
                raise CommandFailed(f"line {number} has no {self.key_separator.decode()!r} between key and value")
            key, value = head, rest
        return Entry(key=self._or_null(key), value=self._or_null(value), headers=self.headers, partition=self.partition)

    def _or_null(self, data: bytes | None) -> bytes | None:
        return None if data is not None and data == self.null_marker else data

    def _from_json(self, line: bytes, number: int) -> Entry:
        try:
            fields = json_codec.loads(line)
            if not isinstance(fields, dict):
                raise ValueError("an object is wanted")
            for name in fields:
                if name not in record_format.NAMES:
                    raise ValueError(f"{name} is nothing that a record has{suggestion(name, record_format.NAMES)}")
            headers = fields.get("headers") or []
            pairs = headers.items() if isinstance(headers, dict) else headers
            partition, timestamp_ms = _number(fields, "partition"), _number(fields, "timestamp_ms")
            return Entry(
                key=_bytes(fields["key"]) if "key" in fields else self.key,
                value=_bytes(fields.get("value")),
                headers=[*self.headers, *((str(name), _bytes(value)) for name, value in pairs)],
                partition=partition if self.partition is None else self.partition,
                timestamp_ms=None if timestamp_ms == NO_TIMESTAMP_MS else timestamp_ms,
            )
        except (ValueError, TypeError) as error:
            raise CommandFailed(f"line {number} is no record in JSON: {error}") from None


def _number(fields: dict[str, Any], name: str) -> int | None:
    found = fields.get(name)
    if found is not None and (type(found) is not int or not -1 <= found <= LONG_MAX):
        raise ValueError(f"{name}: {found!r} is none")
    return found


def _bytes(value: Any) -> bytes | None:
    """Text, {"base64": …}, or anything else as JSON."""
    if value is None:
        return None
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, dict) and set(value) == {"base64"}:
        return base64.b64decode(value["base64"], validate=True)
    return json_codec.dumps(value).encode()


TopicArgument = Annotated[str, typer.Argument(metavar="TOPIC", help="Name.", autocompletion=complete_topics)]
FileOption = Annotated[
    list[Path] | None, typer.Option("--file", metavar="FILE", help="Read lines of it, not of standard input.")
]
ValueOption = Annotated[list[str] | None, typer.Option("--value", metavar="TEXT", help="A record; repeatable.")]
ValueFileOption = Annotated[
    list[Path] | None, typer.Option("--value-file", metavar="FILE", help="A whole file as one record; repeatable.")
]
KeyOption = Annotated[str | None, typer.Option("--key", metavar="TEXT", help="Key of every record.")]
KeySeparatorOption = Annotated[
    str | None, typer.Option("--key-separator", "-K", metavar="TEXT", help="What is before it is the key.")
]
HeaderOption = Annotated[
    list[str] | None, typer.Option("--header", metavar="NAME=VALUE", help="Of every record; may be repeated.")
]
FormOption = Annotated[
    str, typer.Option("--format", metavar="lines|json", help="json: an object a line, as consume --json has it.")
]
NullMarkerOption = Annotated[
    str | None, typer.Option("--null-marker", metavar="TEXT", help="A key or value of this is null.")
]
PartitionOption = Annotated[int | None, typer.Option("--partition", min=0, metavar="N", help="Only to this one.")]
RateOption = Annotated[
    float | None, typer.Option("--rate", min=0.001, metavar="N", help="At most so many records a second.")
]


@verb(
    app,
    "echo hello | barnabas produce greetings",
    "barnabas produce orders --file orders.txt --key-separator : --rate 100",
    "barnabas produce orders --value 'one record' --key k --header source=shell",
    "barnabas consume orders --json | barnabas produce copy --format json",
)
def produce(
    topic: TopicArgument,
    file: FileOption = None,
    value: ValueOption = None,
    value_file: ValueFileOption = None,
    key: KeyOption = None,
    key_separator: KeySeparatorOption = None,
    header: HeaderOption = None,
    form: FormOption = "lines",
    null_marker: NullMarkerOption = None,
    partition: PartitionOption = None,
    rate: RateOption = None,
    acks: Acks = None,
    compression_codec: CompressionCodec = None,
    producer_property: ProducerProperties = None,
    connection: Connection = USUAL_CONNECTION,
    json: Json = False,
) -> int:
    """Writes records to a topic: a line each.

    Ends when the input ends and all is written. The first record that fails ends it, with 1.
    """
    if form not in ("lines", "json"):
        raise CommandFailed(f"--format {form}: lines or json are wanted", Exit.USAGE)
    if key_separator == "":
        raise CommandFailed("--key-separator: it must not be empty", Exit.USAGE)
    _either("--key", key is not None, "--key-separator", key_separator is not None)
    _either("--file", bool(file), "--value", bool(value or value_file))
    _either("--format json", form == "json", "--key-separator", key_separator is not None)
    _either("--format json", form == "json", "--null-marker", null_marker is not None)
    reader = Reader(
        key=None if key is None else key.encode(),
        key_separator=None if key_separator is None else _unescaped(key_separator),
        null_marker=None if null_marker is None else null_marker.encode(),
        headers=[_header(text) for text in header or ()],
        partition=partition,
        is_json=form == "json",
    )
    given = [text.encode() for text in value or ()] + [path.read_bytes() for path in value_file or ()]
    settings = client_settings(
        connection,
        ProducerConfig,
        max_block_ms=min(connection.timeout_ms, START_TIMEOUT_MS_MAX),
        request_timeout_ms=max(1, connection.timeout_ms // 2),  # with room for a second try
        delivery_timeout_ms=connection.timeout_ms,
    )
    settings |= stated(acks=acks, compression_type=compression_codec) | properties(producer_property)
    lines = _given(given) if given else _lines(file or [None])
    written = run_fast(_write(topic, reader, lines, settings, rate))
    if json:
        output.document({"topic": topic, "records": written})
    elif output.on_terminal(sys.stderr):
        output.note(f"{counted(written, 'record')} written to {topic}")
    return Exit.DONE


def _either(one: str, has_one: bool, other: str, has_other: bool) -> None:
    if has_one and has_other:
        raise CommandFailed(f"{one} and {other} both say what a record is: leave one out", Exit.USAGE)


def _unescaped(text: str) -> bytes:
    """A tab is hard to type."""
    return text.replace("\\t", "\t").encode()


def _header(text: str) -> tuple[str, bytes | None]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise CommandFailed(f"--header {text}: a header is NAME=VALUE", Exit.USAGE)
    return name, value.encode()


async def _given(values: list[bytes]) -> AsyncIterator[list[bytes]]:
    yield values


async def _lines(files: "list[Path] | list[None]") -> AsyncIterator[list[bytes]]:
    """Of files one after the other, or of standard input as they come, as many as there are at once.

    Reading happens elsewhere, so that it never holds back what is being sent.
    """
    loop = asyncio.get_running_loop()
    for path in files:
        with _source(path) as source:
            rest = b""
            while data := await loop.run_in_executor(None, source.read, READ_BYTES):
                *whole, rest = (rest + data).replace(b"\r\n", b"\n").split(b"\n")
                if whole:
                    yield whole
            if rest:
                yield [rest]


def _source(path: Path | None) -> FileIO:
    return FileIO(sys.stdin.fileno(), closefd=False) if path is None else FileIO(path)


async def _write(
    topic: str, reader: Reader, chunks: AsyncIterator[list[bytes]], settings: dict[str, Any], rate: float | None
) -> int:
    async with Producer(**settings) as producer:
        writing = Writing(producer, topic, reader, Pace(rate))
        async for chunk in chunks:
            if reader.is_plain and rate is None:
                await writing.send_values(chunk)
            else:
                await writing.send_each(chunk)
        await writing.finish()
        return writing.count


class Writing:
    """One run of the command. The first record that failed ends it."""

    def __init__(self, producer: Producer, topic: str, reader: Reader, pace: "Pace") -> None:
        self.count = 0
        self._lines = 0
        self._producer = producer
        self._topic = topic
        self._reader = reader
        self._pace = pace
        self._pending: deque[RecordFuture] = deque()  # in the order in which they were sent
        self._chunks: deque[RecordFutures] = deque()

    async def send_values(self, values: list[bytes]) -> None:
        """Records without anything but a value, many at once."""
        marker = self._reader.null_marker
        given = values if marker is None else [None if value == marker else value for value in values]
        sent = await self._producer.send_many(self._topic, given, partition=self._reader.partition)
        self.count += len(values)
        self._chunks.append(sent)
        if len(self._chunks) > CHUNKS_PENDING_MAX:
            await self._chunks.popleft()

    async def send_each(self, lines: list[bytes]) -> None:
        for line in lines:
            self._lines += 1
            if not line and self._reader.is_json:
                continue  # an empty line between objects
            await self._pace.wait(self.count)
            entry = self._reader.entry(line, self._lines)
            self._pending.append(
                await self._producer.send(
                    self._topic,
                    entry.value,
                    key=entry.key,
                    partition=entry.partition,
                    headers=entry.headers or None,
                    timestamp_ms=entry.timestamp_ms,
                )
            )
            self.count += 1
        self.check()

    async def finish(self) -> None:
        await self._producer.flush()
        for sent in self._chunks:
            await sent
        self.check()

    def check(self) -> None:
        """Raises what became of a record that has failed by now."""
        while self._pending and self._pending[0].done():
            error = self._pending.popleft().exception()
            if error is not None:
                raise error


class Pace:
    """At most so many a second, evenly."""

    def __init__(self, rate: float | None) -> None:
        self._rate = rate
        self._began: float | None = None

    async def wait(self, count: int) -> None:
        if self._rate is None:
            return
        now = asyncio.get_running_loop().time()
        if self._began is None:
            self._began = now
        ahead = self._began + count / self._rate - now
        if ahead > 0:
            await asyncio.sleep(ahead)

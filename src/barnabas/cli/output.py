"""What commands print: tables for people, one document of JSON for machines, progress on long work.

Always holds: colours, boxes and moving bars appear on a terminal alone, and rich is imported only there. Without one, a
table is columns of plain text that are never cut. Standard output has the results, standard error everything else.
Does not know: what is printed.
"""

import base64
import dataclasses
import json as json_codec
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import Enum
from typing import Any, Protocol

Cell = object


def on_terminal(stream: Any = None) -> bool:
    return bool((stream or sys.stdout).isatty())


def document(value: object) -> None:
    """One JSON document on standard output: indented for people, on one line for a pipe."""
    indent = 2 if on_terminal() else None
    print(json_codec.dumps(plain(value), indent=indent, ensure_ascii=False))


def plain(value: Any) -> Any:
    """Of dataclasses, enums, bytes and mappings what JSON knows. Keys that are not text are written as text."""
    if isinstance(value, Enum):
        return value.name
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return {name: plain(item) for name, item in value._asdict().items()}
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(item) for item in value]
    if isinstance(value, bytes | bytearray | memoryview):
        return _text_or_base64(bytes(value))
    return value


def _text_or_base64(data: bytes) -> str | dict[str, str]:
    """Bytes that are no text become an object, so that nothing is lost and nothing is mistaken."""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode("ascii")}


def line_of(value: object) -> str:
    """One JSON document on one line."""
    return json_codec.dumps(plain(value), ensure_ascii=False)


def word(value: Any) -> str:
    """A value among others on a line."""
    value = plain(value)
    if isinstance(value, dict | list):
        return json_codec.dumps(value, ensure_ascii=False)
    return cell(value)


def cell(value: Cell) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple | set | frozenset):
        return ",".join(cell(item) for item in value) or "-"
    if isinstance(value, Enum):
        return value.name
    return str(value)


def table(titles: Sequence[str], rows: Iterable[Sequence[Cell]], *, empty: str = "") -> None:
    """Where there are no rows, `empty` is said on standard error."""
    found = [[cell(each) for each in row] for row in rows]
    if not found:
        if empty:
            note(empty)
        return
    if on_terminal():
        _rich_table(titles, found)
        return
    widths = [max(len(row[column]) for row in (titles, *found)) for column in range(len(titles))]
    for row in ([title.upper() for title in titles], *found):
        print("  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip())


def _rich_table(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    shown = Table(box=SIMPLE_HEAD, header_style="bold", pad_edge=False)
    for title in titles:
        shown.add_column(title, overflow="fold")
    for row in rows:
        shown.add_row(*(Text(text, style=_STYLES.get(text, "")) for text in row))
    Console(no_color="NO_COLOR" in os.environ, highlight=False).print(shown)


_STYLES = {"ok": "green", "yes": "green", "no": "red", "wrong": "bold red", "warning": "yellow", "dead": "red"}


def note(text: str) -> None:
    """Something for people, which is no result."""
    print(text, file=sys.stderr, flush=True)


class Progress(Protocol):
    def advance(self, amount: float) -> None: ...

    def describe(self, text: str) -> None: ...


class _Silent:
    def advance(self, amount: float) -> None:
        del amount

    def describe(self, text: str) -> None:
        del text


@contextmanager
def progress(title: str, total: float | None = None, *, wanted: bool = True) -> Iterator[Progress]:
    """A bar on standard error where that is a terminal; nothing elsewhere. Without a total it only shows life."""
    if not wanted or not on_terminal(sys.stderr):
        yield _Silent()
        return
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bars

    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.percentage:>3.0f}%"))
    with Bars(*columns, TimeElapsedColumn(), console=Console(stderr=True), transient=True) as bars:
        task = bars.add_task(title, total=total)

        class Shown:
            def advance(self, amount: float) -> None:
                bars.advance(task, amount)

            def describe(self, text: str) -> None:
                bars.update(task, description=text)

        yield Shown()

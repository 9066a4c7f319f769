"""How `barnabas consume` writes a record: by a format string, much as kcat's, or as JSON.

    %t topic   %p partition   %o offset   %T timestamp in ms   %D the same as a date   %h headers, name=value,…
    %k key     %v value (also %s)         %K size of the key   %V size of the value (also %S)            %% a percent
    \\n \\t \\r \\0 \\\\ \\xHH               as usual

A key or a value that is null is written as nothing, and its size is -1. Pure: a record in, bytes out. ValueError where
a format has something else.
"""

import re
from collections.abc import Callable, Sequence

from barnabas.cli import output
from barnabas.cli.moments import iso
from barnabas.client.consuming.record_decoder import ConsumerRecord

DEFAULT = "%v\\n"
Piece = Callable[[ConsumerRecord], bytes]
NAMES = ("topic", "partition", "offset", "timestamp_ms", "key", "value", "headers")  # in JSON
_ESCAPES = {"n": b"\n", "t": b"\t", "r": b"\r", "0": b"\0", "\\": b"\\"}
_PART = re.compile(r"%(?P<name>.)|\\x(?P<hex>[0-9a-fA-F]{2})|\\(?P<escape>.)|(?P<text>[^%\\]+)|(?P<rest>.)", re.DOTALL)


def _number(number: int) -> bytes:
    return b"%d" % number


def _size(data: bytes | None) -> bytes:
    return _number(-1 if data is None else len(data))


def _headers(headers: Sequence[tuple[str, bytes | None]]) -> bytes:
    return b",".join(name.encode("utf-8", "surrogateescape") + b"=" + (value or b"") for name, value in headers)


FIELDS: dict[str, Piece] = {
    "t": lambda record: record.topic.encode(),
    "p": lambda record: _number(record.partition),
    "o": lambda record: _number(record.offset),
    "T": lambda record: _number(record.timestamp_ms),
    "D": lambda record: iso(record.timestamp_ms).encode(),
    "h": lambda record: _headers(record.headers),
    "k": lambda record: record.key or b"",
    "v": lambda record: record.value or b"",
    "s": lambda record: record.value or b"",
    "K": lambda record: _size(record.key),
    "V": lambda record: _size(record.value),
    "S": lambda record: _size(record.value),
}


def compiled(text: str) -> Piece:
    pieces: list[Piece] = []
    for found in _PART.finditer(text):
        kind = found.lastgroup
        content = found[kind or "text"]
        if kind == "name" and content != "%":
            if content not in FIELDS:
                raise ValueError(f"%{content} is no field of a format; there are %{' %'.join(FIELDS)} and %%")
            pieces.append(FIELDS[content])
        elif kind == "escape" and content not in _ESCAPES:
            raise ValueError(f"\\{content} is no escape of a format; there are \\n \\t \\r \\0 \\\\ and \\xHH")
        elif kind == "rest":
            raise ValueError(f"a format cannot end with {content}")
        else:
            pieces.append(_literal(kind, content))
    return lambda record: b"".join(piece(record) for piece in pieces)


def _literal(kind: str | None, content: str) -> Piece:
    if kind == "hex":
        data = bytes.fromhex(content)
    else:
        data = _ESCAPES[content] if kind == "escape" else content.encode()
    return lambda _record: data


def as_json(record: ConsumerRecord) -> bytes:
    """One line. What `produce --format json` reads."""
    fields = {name: getattr(record, name) for name in NAMES}
    fields["headers"] = [[name, value] for name, value in record.headers]
    return output.line_of(fields).encode() + b"\n"

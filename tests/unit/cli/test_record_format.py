"""Formats of records, and how lines become records."""

from __future__ import annotations

import json

import pytest

from barnabas.cli.commands.produce import Entry, Reader
from barnabas.cli.record_format import as_json, compiled
from barnabas.cli.text import CommandFailed
from barnabas.client.consuming.record_decoder import ConsumerRecord


def record(key: bytes | None = b"k", value: bytes | None = b"v", **changes: object) -> ConsumerRecord:
    made = ConsumerRecord("t", 3, 7, 1_000, 0, key, value, [("a", b"1"), ("b", None)], 5)
    return made._replace(**changes)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("%v", b"v"),
        ("%s", b"v"),
        (r"%t-%p@%o\n", b"t-3@7\n"),
        ("%T %D", b"1000 1970-01-01T00:00:01.000Z"),
        ("%k=%v %K/%V/%S", b"k=v 1/1/1"),
        ("%h", b"a=1,b="),
        ("100%%", b"100%"),
        (r"\t\r\0\\\x41", b"\t\r\0\\A"),
        ("", b""),
        ("äöü", "äöü".encode()),
    ],
)
def test_formats(text: str, expected: bytes) -> None:
    assert compiled(text)(record()) == expected


def test_null_is_nothing_and_has_a_size_of_its_own() -> None:
    assert compiled("%k|%v|%K|%V")(record(None, None)) == b"||-1|-1"
    assert compiled("%k|%v|%K|%V")(record(b"", b"")) == b"||0|0"


@pytest.mark.parametrize("text", ["%q", "%", r"\q", "\\"])
def test_formats_that_are_none(text: str) -> None:
    with pytest.raises(ValueError, match="format"):
        compiled(text)


def test_json_keeps_everything_and_is_read_back() -> None:
    written = as_json(record(b"\xff", b'{"x": 1}'))
    assert written.endswith(b"\n")
    assert json.loads(written) == {
        "topic": "t",
        "partition": 3,
        "offset": 7,
        "timestamp_ms": 1000,
        "key": {"base64": "/w=="},
        "value": '{"x": 1}',
        "headers": [["a", "1"], ["b", None]],
    }
    assert reader(is_json=True).entry(written, 1) == Entry(
        key=b"\xff", value=b'{"x": 1}', headers=[("a", b"1"), ("b", None)], partition=3, timestamp_ms=1000
    )


def reader(**changes: object) -> Reader:
    given: dict[str, object] = {
        "key": None,
        "key_separator": None,
        "null_marker": None,
        "headers": [],
        "partition": None,
        "is_json": False,
    }
    return Reader(**{**given, **changes})  # type: ignore[arg-type]


def test_lines_become_records() -> None:
    assert reader().entry(b"a:b", 1) == Entry(key=None, value=b"a:b", headers=[])
    assert reader(key_separator=b":").entry(b"a:b:c", 1) == Entry(key=b"a", value=b"b:c", headers=[])
    assert reader(key=b"k", headers=[("h", b"1")]).entry(b"v", 1) == Entry(key=b"k", value=b"v", headers=[("h", b"1")])
    assert reader(null_marker=b"NULL").entry(b"NULL", 1).value is None
    assert reader(is_json=True).entry(b'{"value": {"a": 1}}', 1).value == b'{"a": 1}'
    assert reader(is_json=True, key=b"k").entry(b'{"value": "v"}', 1).key == b"k"
    assert reader(is_json=True, key=b"k").entry(b'{"value": "v", "key": null}', 1).key is None


@pytest.mark.parametrize("line", [b"", b"{", b"[]", b'"text"', b'{"value": {"base64": "!"}}', b'{"headers": 5}'])
def test_what_is_no_record_in_json_says_its_line(line: bytes) -> None:
    with pytest.raises(CommandFailed, match="line 12 is no record in JSON"):
        reader(is_json=True).entry(line, 12)


def test_a_line_without_its_separator_says_its_number() -> None:
    with pytest.raises(CommandFailed, match="line 3 has no ':'"):
        reader(key_separator=b":").entry(b"value", 3)

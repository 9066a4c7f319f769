"""The command line called in this process, on a broker of Barnabas and again on Apache Kafka.

Names are never shared between tests, so their order means nothing.
"""

from __future__ import annotations

import io
import itertools
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "support"))

import brokers

from barnabas.cli.main import main

_numbers = itertools.count(1)
served = brokers.served
apache_listeners = brokers.apache_listeners
behind_tls = brokers.behind_tls
served_by_apache = brokers.served_by_apache
served_by_either = brokers.served_by_either


class Said(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        return json.loads(self.out)

    @property
    def documents(self) -> list[Any]:
        return [json.loads(line) for line in self.out.splitlines()]


Run = Callable[..., Said]


@pytest.fixture
def run_alone(capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch) -> Run:
    """`run_alone("topic", "list", code=3)`, with no broker; `text` is given as standard input."""

    def call(*words: str, code: int = 0, text: str | None = None) -> Said:
        with _input(text, monkeypatch):
            found = main(words)
        captured = capfdbinary.readouterr()
        said = Said(found, captured.out.decode(), captured.err.decode())
        assert found == code, said
        assert "Traceback" not in said.err
        return said

    return call


@pytest.fixture
def run(run_alone: Run, served_by_either: str, monkeypatch: pytest.MonkeyPatch) -> Run:
    """`run("topic", "list")`, on a broker that is there."""
    monkeypatch.setenv("BARNABAS_BOOTSTRAP", served_by_either)
    return run_alone


class _input:
    """Standard input as a pipe that holds the text."""

    def __init__(self, text: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
        self._text = text
        self._monkeypatch = monkeypatch
        self._stream: io.TextIOBase | None = None

    def __enter__(self) -> None:
        if self._text is not None:
            reading, writing = os.pipe()
            os.write(writing, self._text.encode())
            os.close(writing)
            self._stream = os.fdopen(reading)
            self._monkeypatch.setattr(sys, "stdin", self._stream)

    def __exit__(self, *_error: object) -> None:
        if self._stream is not None:
            self._stream.close()


@pytest.fixture
def name(request: pytest.FixtureRequest) -> Callable[[str], str]:
    return lambda stem: f"{stem}-{os.getpid()}-{next(_numbers)}"


@pytest.fixture
def topic(run: Run, name: Callable[[str], str]) -> Callable[..., str]:
    """A new topic, with one record for each value."""

    def create(*values: str, partitions: int = 1) -> str:
        made = name("topic")
        run("topic", "create", made, "--partitions", str(partitions))
        if values:
            given = [word for value in values for word in ("--value", value)]
            run("produce", made, "--partition", "0", *given)
        return made

    return create

"""Fixtures for tests of what runs on Spark: a broker, topics of their own, and one session for each module."""

from __future__ import annotations

import itertools
import os
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "support"))

import brokers
import postgres
import spark_home
from committed import create_topic

_numbers = itertools.count(1)
served = brokers.served
behind_tls = brokers.behind_tls


@pytest.fixture
def unique(request: pytest.FixtureRequest) -> str:
    """A name that no other test has."""
    stem = re.sub(r"[^a-zA-Z0-9]+", "-", request.node.name)[:80].strip("-")
    return f"{stem}.{os.getpid()}.{next(_numbers)}"


@pytest.fixture
def new_topic(served: str, unique: str) -> Callable[..., str]:
    def create(partitions: int = 1, **config: str) -> str:
        name = f"{unique}.{next(_numbers)}"
        create_topic(served, name, partitions, **config)
        return name

    return create


@pytest.fixture(scope="session")
def java(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """For tests whose processes start Spark by themselves."""
    from barnabas.spark.java import JavaNotFound, find_java

    try:
        find_java(os.environ)
    except JavaNotFound as missing:
        pytest.skip(str(missing))
    with pytest.MonkeyPatch.context() as patch:
        for name, value in spark_home.environment(tmp_path_factory.mktemp("spark")).items():
            patch.setenv(name, value)
        yield


@pytest.fixture(scope="session")
def spark(java: None) -> Iterator[Any]:
    """One session for all tests of this process: a JVM is slow to start."""
    from barnabas.spark.session import session

    settings = {"spark.sql.shuffle.partitions": "2"}
    if postgres.why_unavailable() is None:  # Java finds the driver only if it was there at the start
        settings["spark.driver.extraClassPath"] = str(postgres.driver())
    found = session("tests", master="local[2]", settings=settings)
    yield found
    found.stop()

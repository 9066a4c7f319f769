"""Fixtures for tests with real broker processes and raw sockets.

`served` is an address where a broker answers. BARNABAS_TEST_BOOTSTRAP=host:port points the tests that need no more
than that at another broker, for instance Apache Kafka as oracle.
"""

from __future__ import annotations

import itertools
import os
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "support"))

import brokers
from broker_process import wait_until
from wire import Wire, create_topic, fetch, leaders

_topic_numbers = itertools.count(1)
served = brokers.served


@pytest.fixture
def wire(served: str) -> Iterator[Wire]:
    with Wire(served) as connection:
        yield connection


@pytest.fixture
def new_topic(wire: Wire, request: pytest.FixtureRequest) -> Callable[..., str]:
    stem = re.sub(r"[^a-zA-Z0-9]+", "-", request.node.name)[:80].strip("-")

    def create(partitions: int = 1, **config: str) -> str:
        name = f"{stem}.{os.getpid()}.{next(_topic_numbers)}"
        create_topic(wire, name, partitions, **config)
        wait_until(lambda: len(leaders(wire, name)) == partitions, "the topic is known")
        asked = dict.fromkeys(range(partitions), 0)
        wait_until(
            lambda: not any(each.error_code for each in fetch(wire, name, asked).values()), "all partitions are led"
        )
        return name

    return create

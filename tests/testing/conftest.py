"""The client libraries of these tests, behind the few verbs that the tests use; and what checks for leftovers."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "support"))

from libraries import Aiokafka, Barnabas, Confluent, Library


@pytest.fixture(params=[Confluent, Aiokafka, Barnabas], ids=["confluent", "aiokafka", "barnabas"])
def library(request: pytest.FixtureRequest) -> Library:
    return request.param()


@pytest.fixture
def threads() -> Callable[[], list[str]]:
    """Those of brokers and clients that run now and did not before the test."""
    before = set(threading.enumerate())

    def running() -> list[str]:
        ours = (each for each in threading.enumerate() if each.name.startswith(("barnabas", "asyncio_")))
        return [each.name for each in ours if each not in before]

    return running

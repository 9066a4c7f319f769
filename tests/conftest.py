"""What holds for all tests. Hypothesis judges speed by default, and that is a matter of the machine: not here."""

import gc

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile("barnabas", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("barnabas")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Those that start Spark come first: one worker then has them all, with one JVM, and what comes last is short."""
    items.sort(key=lambda item: "java" not in getattr(item, "fixturenames", ()))


def pytest_collection_finish() -> None:
    """All modules and tests are there to stay. The simulation collects garbage after each run, and to go through them
    took a quarter of a second each time."""
    gc.freeze()

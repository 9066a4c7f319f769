"""The source is read when a test asks for it, and forgotten when its file of tests is through."""

from collections.abc import Iterator

import pytest

from tools.tidy.source import modules_under


@pytest.fixture(scope="module", autouse=True)
def forgotten_afterwards() -> Iterator[None]:
    """Its syntax trees are two million objects, and every collection of garbage from then on would go through them."""
    yield
    modules_under.cache_clear()

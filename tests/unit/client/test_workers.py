"""Tasks beside the callers: one that fails is not forgotten."""

from __future__ import annotations

import asyncio

import pytest

from barnabas.client.workers import Workers
from barnabas.simulation.loop import VirtualLoop


def test_every_failure_is_logged_and_the_first_is_kept(caplog: pytest.LogCaptureFixture) -> None:
    async def fails(error: Exception) -> None:
        raise error

    async def scenario() -> None:
        told: list[bool] = []
        workers = Workers(lambda: told.append(True))
        workers.start(fails(KeyError("one")), "first")
        workers.start(fails(KeyError("two")), "second")
        await asyncio.sleep(0.01)
        assert (repr(workers.failure), told) == ("KeyError('one')", [True])
        await workers.close()

    VirtualLoop().run(scenario())
    assert "first ended: 'one'" in caplog.text
    assert "second ended: 'two'" in caplog.text

"""Rounds over all partitions: one that fails does not keep the others from their turn."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from replicas import ManualClock
from supervision import NotedSupervisor

from barnabas.server.replicas.maintenance import Maintenance


class Noting:
    """A partition, and its log, that note what is done to them; or fail."""

    def __init__(self, name: str, done: list[str], *, fails: bool = False) -> None:
        self.name = name
        self.closed = False
        self.log = self
        self._done = done
        self._fails = fails

    def work(self, _now_ms: int) -> None:
        if self._fails:
            raise OSError(5, "the disk is broken")
        self._done.append(self.name)

    delete_old_segments = delete_files_due = expire_producers = work


class Partitions(list[Noting]):
    async def remove_deleted(self) -> None: ...


class Clock(ManualClock):
    def __init__(self) -> None:
        super().__init__()
        self.between: Callable[[], None] = lambda: None

    async def sleep(self, delay_ms: float) -> None:
        self.between()


def maintenance(partitions: Partitions, clock: Clock) -> Maintenance:
    broker: Any = SimpleNamespace(
        partitions=partitions,
        log_cleaner=SimpleNamespace(in_progress={}),
        runtime=SimpleNamespace(clock=clock),
        supervisor=NotedSupervisor(clock),  # type: ignore[arg-type]
    )
    return Maintenance(broker)


@pytest.mark.parametrize("round_of", ["apply_retention", "remove_deleted_files", "expire_producers"])
def test_one_that_fails_is_named_and_the_others_have_their_turn(
    round_of: str, caplog: pytest.LogCaptureFixture
) -> None:
    done: list[str] = []
    partitions = Partitions([Noting("a-0", done), Noting("b-0", done, fails=True), Noting("c-0", done)])
    asyncio.run(getattr(maintenance(partitions, Clock()), round_of)())
    assert done == ["a-0", "c-0"]
    assert "b-0" in caplog.text


def test_one_that_is_deleted_meanwhile_is_left_alone() -> None:
    done: list[str] = []
    partitions = Partitions([Noting("a-0", done), Noting("b-0", done)])
    clock = Clock()

    def delete() -> None:
        partitions[1].closed = True

    clock.between = delete
    asyncio.run(maintenance(partitions, clock).apply_retention())
    assert done == ["a-0"]

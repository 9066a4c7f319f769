"""The simulation proves itself: bugs that are planted on purpose are found, each within some seeds.

Each is a mistake that somebody could make in good faith, and that no client would notice on a machine that stays up.
"""

import asyncio
from collections.abc import Callable
from itertools import islice
from typing import Any

import pytest
from planted_bugs import seeds_to_try

from barnabas.errors import ErrorCode
from barnabas.log import recovery
from barnabas.log.append import AppendInfo
from barnabas.log.flusher import Flusher
from barnabas.log.producer_state import ProducerStates
from barnabas.log.segments import Segments
from barnabas.server.quorum.metadata_log import MetadataLog
from barnabas.server.replicas.log_directory import LogDirectory
from barnabas.server.replicas.partition import Partition
from barnabas.simulation.run import Options, Result, run_seed

SEEDS_MAX = 40
OPTIONS = Options(nodes=1, seconds=8)


def find(known: int, *, power: bool) -> Result:
    """The first run that fails; with `power`, among those in which machines lose it."""
    seeds = seeds_to_try(known, lambda character: character.power or not power, OPTIONS.nodes)
    for seed in islice(seeds, SEEDS_MAX):
        result = run_seed(seed, OPTIONS)
        if result.failure is not None:
            return result
    raise AssertionError(f"not found within {SEEDS_MAX} seeds")


def skip_the_sync_of_metadata(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MetadataLog, "sync", lambda self: None)


def acknowledge_before_the_append(monkeypatch: pytest.MonkeyPatch) -> None:
    append: Callable[..., AppendInfo] = Partition.append

    def early(self: Partition, records: memoryview, *arguments: Any, **options: Any) -> AppendInfo:
        copy = bytearray(records)
        asyncio.get_running_loop().call_later(0.05, lambda: append(self, memoryview(copy), *arguments, **options))
        start = self.log.log_start_offset
        return AppendInfo(ErrorCode.NONE, self.log.log_end_offset, self.log.high_watermark, -1, start)

    monkeypatch.setattr(Partition, "append", early)


def acknowledge_before_the_sync(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Partition, "committed", lambda self, end_offset: None)


def keep_a_torn_tail(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if the last end had been a clean one, so that nothing needs to be checked and cut."""
    open_directory = LogDirectory.open

    def careless(self: LogDirectory) -> None:
        open_directory(self)
        self.was_clean = True

    monkeypatch.setattr(LogDirectory, "open", careless)


def forget_what_producers_wrote(monkeypatch: pytest.MonkeyPatch) -> None:
    load: Callable[..., Any] = recovery.load_producers

    def forgetful(*arguments: Any, **options: Any) -> Any:
        _producers, *rest = load(*arguments, **options)
        return (ProducerStates(), *rest)

    monkeypatch.setattr(recovery, "load_producers", forgetful)


def overlap_flushes_that_take_files_off_their_list(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two flushes of a log at once, where each takes files off the list before their sync has ended."""
    flush = Flusher.flush

    def hasty(self: Flusher, segments: Segments, end_offset: int) -> None:
        while self._notes:
            self._sync_file(self._notes.popitem()[0][0])
        flush(self, segments, end_offset)

    async def at_once(self: Partition, flush: Callable[[], None]) -> bool:
        await self._runtime.offload(flush)
        return True

    monkeypatch.setattr(Flusher, "flush", hasty)
    monkeypatch.setattr(Partition, "_sync", at_once)


@pytest.mark.parametrize(
    ("plant", "power", "known"),
    [
        (skip_the_sync_of_metadata, True, 1),
        (acknowledge_before_the_append, False, 0),
        (acknowledge_before_the_sync, True, 0),
        (keep_a_torn_tail, True, 8),
        (forget_what_producers_wrote, False, 5),
        (overlap_flushes_that_take_files_off_their_list, True, 3),
    ],
)
def test_a_planted_bug_is_found(
    plant: Callable[[pytest.MonkeyPatch], None], power: bool, known: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    found = find(known, power=power)
    assert found.failure is not None
    again = run_seed(found.seed, OPTIONS)
    assert again.failure is not None
    assert again.failure.message == found.failure.message

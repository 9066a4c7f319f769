"""A directory whose small files are damaged, or whose logs were torn: what is kept, and what its owner is told."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator
from typing import Any, TypeVar

import pytest
from log_fixtures import append, topic_config

from barnabas.log import checkpoint
from barnabas.log.log import Log
from barnabas.runtime.interfaces import Runtime
from barnabas.runtime.memory_disk import MemoryDisk
from barnabas.runtime.system import system_runtime
from barnabas.server.replicas.log_directory import DirectoryMismatch, LogDirectory
from barnabas.types import TopicPartition

PATH = "/data"
NAME = TopicPartition("t", 0)
TOPIC_ID = b"0123456789abcdef"


T = TypeVar("T")


class OneLog:
    """A directory in which one log is open."""

    unopened = ()

    def __init__(self, log: Log) -> None:
        self._log = log

    def logs(self) -> dict[TopicPartition, Log]:
        return {NAME: self._log}


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    yield loop
    loop.close()


@pytest.fixture
def runtime(loop: asyncio.AbstractEventLoop) -> Runtime:
    return system_runtime(loop, MemoryDisk())


def run(work: Coroutine[Any, Any, T]) -> T:
    return asyncio.get_event_loop().run_until_complete(work)


def opened(runtime: Runtime) -> tuple[LogDirectory, Log]:
    directory = LogDirectory(runtime, PATH)
    directory.open()
    return directory, run(directory.open_log(NAME, TOPIC_ID, topic_config(), 86_400_000))


def with_records(runtime: Runtime, *, clean: bool, count: int = 3) -> None:
    directory, log = opened(runtime)
    for _ in range(count):
        append(log)
    log.close()
    run(directory.write_checkpoints(OneLog(log)))
    run(directory.write_high_watermarks(OneLog(log)))
    run(directory.close(clean=clean))


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("content", [b"\xff\xfe rubbish", b"0\n1\nt zero 5\n", b"7\n0\n"])
@pytest.mark.parametrize(
    "name",
    [
        checkpoint.RECOVERY_POINT_FILE_NAME,
        checkpoint.LOG_START_OFFSET_FILE_NAME,
        checkpoint.HIGH_WATERMARK_FILE_NAME,
        checkpoint.CLEANER_OFFSET_FILE_NAME,
    ],
)
def test_offsets_that_cannot_be_read_are_named_and_done_without(
    runtime: Runtime, name: str, content: bytes, clean: bool, caplog: pytest.LogCaptureFixture
) -> None:
    with_records(runtime, clean=clean)
    runtime.disk.write_atomically(f"{PATH}/{name}", content)
    directory, log = opened(runtime)
    assert log.log_end_offset == 3
    assert name in caplog.text
    run(directory.write_checkpoints(OneLog(log)))  # and the file is written anew
    run(directory.close(clean=False))


def test_a_log_of_another_topic_is_set_aside_and_named(runtime: Runtime, caplog: pytest.LogCaptureFixture) -> None:
    with_records(runtime, clean=True)
    runtime.disk.write_atomically(f"{PATH}/t-0/{checkpoint.PARTITION_METADATA_FILE_NAME}", b"rubbish")
    _, log = opened(runtime)
    assert log.log_end_offset == 0
    aside = next(entry for entry in runtime.disk.list_directory(PATH) if entry.endswith("-stray"))
    assert aside in caplog.text


def test_only_logs_without_an_owner_are_strays(runtime: Runtime) -> None:
    """A topic that was deleted while its broker started became a stray, which nothing removes."""
    directory, _ = opened(runtime)
    deleted = directory.delete_log(NAME)
    for name in (NAME, TopicPartition("stray", 0)):
        run(directory.open_log(name, TOPIC_ID, topic_config(), 86_400_000))
    directory.set_aside_strays({NAME.directory_name})
    logs = [entry for entry in runtime.disk.list_directory(PATH) if "-0" in entry]
    aside = next(entry for entry in logs if entry.endswith("-stray"))
    assert aside.startswith("stray-0.")
    assert sorted(logs) == sorted([aside, NAME.directory_name, deleted.rpartition("/")[2]])


def test_what_a_recovery_cuts_is_told(runtime: Runtime, caplog: pytest.LogCaptureFixture) -> None:
    with_records(runtime, clean=False)
    runtime.disk.remove(f"{PATH}/{checkpoint.RECOVERY_POINT_FILE_NAME}")
    file = runtime.disk.open(f"{PATH}/t-0/{0:020d}.log")
    file.write(file.size(), b"\xff" * 100)
    file.close()
    _, log = opened(runtime)
    assert log.log_end_offset == 3
    assert "t-0" in caplog.text
    assert "100 bytes" in caplog.text


def test_logs_of_nobody_are_not_taken_for_this_nodes(runtime: Runtime) -> None:
    """The metadata knows where replicas are by the id of the directory, which is lost: with another none would lead."""
    with_records(runtime, clean=True)
    directory = LogDirectory(runtime, PATH)
    with pytest.raises(DirectoryMismatch, match=checkpoint.META_PROPERTIES_FILE_NAME):
        directory.identify(1)
    runtime.disk.remove_directory(f"{PATH}/t-0")
    assert directory.identify(1) == directory.identify(1)


def test_nothing_is_told_where_all_is_well(runtime: Runtime, caplog: pytest.LogCaptureFixture) -> None:
    for clean in (True, False):
        with_records(runtime, clean=clean)
    assert not caplog.text

"""Logs are opened off the event loop: what the metadata says meanwhile takes effect afterwards, and in order."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest
from controllers import Offload
from replicas import ManualClock, batch, settled
from supervision import NotedSupervisor

from barnabas.config.broker import BrokerConfig
from barnabas.log import checkpoint
from barnabas.metadata.delta import diff
from barnabas.metadata.image import EMPTY, ConfigResource, MetadataImage, PartitionImage, ResourceType, TopicImage
from barnabas.protocol.special_numbers import ACKS_ALL
from barnabas.runtime.interfaces import Runtime
from barnabas.runtime.memory_disk import MemoryDisk
from barnabas.server.replicas.log_directory import DirectoryFailed, LogDirectory
from barnabas.server.replicas.log_openings import OPENED_AT_ONCE_MAX
from barnabas.server.replicas.offsets_file import OffsetsFile
from barnabas.server.replicas.partition import Partition
from barnabas.server.replicas.partitions import Partitions
from barnabas.types import TopicPartition

PATH = "/data"
SELF = 1
OLD, NEW = b"o" * 16, b"n" * 16
NAME = TopicPartition("t", 0)


class WatchedDisk(MemoryDisk):
    """Knows of each sync whether it was offloaded."""

    def __init__(self) -> None:
        super().__init__()
        self.is_offloaded = False
        self.syncs_on_the_event_loop = 0

    def sync_directory(self, path: str) -> None:
        self.syncs_on_the_event_loop += not self.is_offloaded
        super().sync_directory(path)

    def write_atomically(self, path: str, data: Any) -> None:
        self.syncs_on_the_event_loop += not self.is_offloaded
        super().write_atomically(path, data)


class WatchedOffload(Offload):
    def __init__(self, disk: WatchedDisk) -> None:
        super().__init__()
        self._disk = disk

    def __call__(self, function: Any) -> Any:
        def watched() -> Any:
            self._disk.is_offloaded = True
            try:
                return function()
            finally:
                self._disk.is_offloaded = False

        return super().__call__(watched)


class Bench:
    """One life of a broker's partitions; the disk outlives it."""

    def __init__(self, disk: WatchedDisk) -> None:
        self.disk = disk
        self.clock = ManualClock()
        self.offload = WatchedOffload(disk)
        self.followed: list[Partition] = []
        self.opened: list[Partition] = []
        self.failures: list[Exception] = []
        self.runtime = Runtime(
            clock=self.clock,  # type: ignore[arg-type]
            disk=disk,
            network=None,  # type: ignore[arg-type]
            random=Random(1),
            offload=self.offload,
            background=None,  # type: ignore[arg-type]
        )
        self.directory = LogDirectory(self.runtime, PATH)
        self.directory.open()
        self.image = EMPTY
        self.partitions = Partitions(
            node_id=SELF,
            directory=self.directory,
            config=BrokerConfig({}),
            runtime=self.runtime,
            supervisor=NotedSupervisor(self.clock),  # type: ignore[arg-type]
            fetchers=SimpleNamespace(follow=self.followed.append, unfollow=lambda _: None),  # type: ignore[arg-type]
            in_sync_changes=SimpleNamespace(ask=lambda _: None),  # type: ignore[arg-type]
            on_opened=lambda partition, _image: self.opened.append(partition),
            on_failure=self.failures.append,
            holds_lease=lambda: True,
        )

    def apply(self, *topics: TopicImage, config: dict[str, str] | None = None) -> None:
        before = self.image
        self.image = with_topics(*topics, config=config)
        self.partitions.apply(diff(before, self.image), self.image)

    async def end(self, *, clean: bool) -> None:
        await self.partitions.stop()
        for partition in self.partitions:
            partition.log.close()
        await self.directory.write_checkpoints(self.partitions)
        await self.directory.write_high_watermarks(self.partitions)
        await self.directory.close(clean=clean)

    @property
    def entries(self) -> list[str]:
        return [entry for entry in self.disk.list_directory(PATH) if entry.startswith("t-")]


def topic(
    topic_id: bytes = OLD, *, count: int = 1, leader: int = SELF, epoch: int = 1, replicas: tuple[int, ...] = (SELF,)
) -> TopicImage:
    state = PartitionImage(replicas, replicas, leader, epoch, epoch, (bytes(16),) * len(replicas))
    return TopicImage("t", topic_id, dict.fromkeys(range(count), state))


def with_topics(*topics: TopicImage, config: dict[str, str] | None = None) -> MetadataImage:
    return EMPTY._replace(
        topics_by_name={each.name: each for each in topics},
        topics_by_id={each.id: each for each in topics},
        configs={ConfigResource(ResourceType.TOPIC, "t"): config} if config else {},
    )


async def written(disk: WatchedDisk, count: int = 1, *, clean: bool = True) -> None:
    """An earlier life: each partition of the topic has three records."""
    bench = Bench(disk)
    bench.apply(topic(count=count))
    for partition in bench.partitions:
        assert partition.append(batch(3), ACKS_ALL).error == 0
    await bench.end(clean=clean)


async def opening(disk: WatchedDisk, *, count: int = 1, clean: bool = False) -> Bench:
    """The next life, in which the logs are being opened."""
    await written(disk, count, clean=clean)
    bench = Bench(disk)
    bench.offload.hold = True
    bench.apply(topic(count=count))
    await settled()
    return bench


async def let_open(bench: Bench) -> None:
    bench.offload.hold = False
    bench.offload.release()
    await settled()
    await settled()


def run(test: Coroutine[Any, Any, None]) -> None:
    asyncio.run(test)


def test_a_new_log_is_there_at_once() -> None:
    async def test() -> None:
        bench = Bench(WatchedDisk())
        bench.offload.hold = True
        bench.apply(topic())
        assert bench.partitions.get(*NAME) is not None
        assert bench.partitions.has_opened

    run(test())


def test_an_existing_log_is_there_once_it_is_open() -> None:
    async def test() -> None:
        bench = await opening(WatchedDisk())
        assert bench.partitions.get(*NAME) is None
        assert not bench.partitions.has_opened
        await let_open(bench)
        found = bench.partitions.get(*NAME)
        assert found is not None
        assert found.log.log_end_offset == 3
        assert found.is_leader
        assert bench.opened == [found]
        assert bench.partitions.has_opened

    run(test())


def test_logs_are_opened_side_by_side_up_to_a_limit() -> None:
    async def test() -> None:
        bench = await opening(WatchedDisk(), count=OPENED_AT_ONCE_MAX + 2)
        assert bench.offload.calls == OPENED_AT_ONCE_MAX
        await let_open(bench)
        assert len(list(bench.partitions)) == OPENED_AT_ONCE_MAX + 2

    run(test())


def test_a_topic_that_is_deleted_while_its_log_opens_is_gone() -> None:
    async def test() -> None:
        bench = await opening(WatchedDisk())
        bench.apply()
        await let_open(bench)
        assert bench.partitions.get(*NAME) is None
        assert bench.opened == []
        assert [entry for entry in bench.entries if not entry.endswith("-delete")] == []

    run(test())


def test_a_topic_that_is_made_anew_while_the_old_log_opens_begins_empty() -> None:
    async def test() -> None:
        bench = await opening(WatchedDisk())
        bench.apply()
        bench.apply(topic(NEW))
        await let_open(bench)
        found = bench.partitions.topic_by_id(NEW).get(0)
        assert found is not None
        assert found.log.log_end_offset == 0
        assert bench.partitions.topic_by_id(OLD) == {}
        assert bench.opened == [found]

    run(test())


def test_a_replica_that_was_taken_away_and_given_back_begins_empty() -> None:
    async def test() -> None:
        bench = await opening(WatchedDisk())
        bench.apply(topic(leader=2, epoch=2, replicas=(2,)))
        bench.apply(topic(leader=2, epoch=3, replicas=(2, SELF)))
        await let_open(bench)
        found = bench.partitions.get(*NAME)
        assert found is not None
        assert found.log.log_end_offset == 0
        assert bench.followed == [found]

    run(test())


def test_the_newest_leader_and_settings_count_once_it_is_open() -> None:
    async def test() -> None:
        bench = await opening(WatchedDisk())
        bench.apply(topic(leader=2, epoch=2, replicas=(SELF, 2)))
        bench.apply(topic(leader=2, epoch=3, replicas=(SELF, 2)), config={"retention.ms": "77"})
        await let_open(bench)
        found = bench.partitions.get(*NAME)
        assert found is not None
        assert (found.leader_id, found.leader_epoch, found.is_leader) == (2, 3, False)
        assert found.config.retention_ms == 77
        assert bench.followed == [found]

    run(test())


def test_what_is_written_down_of_an_unopened_log_is_kept() -> None:
    async def test() -> None:
        disk = WatchedDisk()
        bench = await opening(disk)
        bench.offload.hold = False
        await bench.directory.write_checkpoints(bench.partitions)
        await bench.directory.write_high_watermarks(bench.partitions)
        assert bench.directory.written_recovery_point(NAME) == 3
        assert bench.directory.high_watermark(NAME) == 3

    run(test())


def test_a_stop_waits_for_the_threads_and_leaves_the_rest_to_be_recovered() -> None:
    async def test() -> None:
        disk = WatchedDisk()
        bench = await opening(disk, count=OPENED_AT_ONCE_MAX + 1)
        stopping = asyncio.ensure_future(bench.partitions.stop())
        await settled()
        assert not stopping.done()
        bench.offload.release()
        await stopping
        assert len(bench.partitions.unopened) == OPENED_AT_ONCE_MAX + 1

    run(test())


def test_a_log_that_cannot_be_opened_fails_the_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        bench = await opening(WatchedDisk())

        def broken(path: str) -> list[str]:
            raise OSError(5, "the disk is broken", path)

        monkeypatch.setattr(bench.disk, "list_directory", broken)
        await let_open(bench)
        (failure,) = bench.failures
        assert isinstance(failure, DirectoryFailed)
        assert "t-0" in str(failure)
        assert PATH in str(failure)

    run(test())


def test_nothing_is_synced_on_the_event_loop() -> None:
    async def test() -> None:
        disk = WatchedDisk()
        await written(disk, count=20, clean=False)
        bench = Bench(disk)
        disk.syncs_on_the_event_loop = 0
        bench.apply(topic(count=20))
        await settled()
        for _ in range(5):
            await settled()
        await bench.directory.write_checkpoints(bench.partitions)
        await bench.directory.write_high_watermarks(bench.partitions)
        bench.offload.calls = 0
        bench.apply()
        await settled()
        assert bench.offload.calls == 1, "one sync for all deletions"
        await bench.clock.advance(60_000)
        await bench.partitions.remove_deleted()
        bench.apply(topic(NEW, count=20))
        for _ in range(20):
            await settled()
        assert len(list(bench.partitions)) == 20
        assert disk.syncs_on_the_event_loop == 0
        assert bench.failures == []

    run(test())


def test_a_checkpoint_under_way_does_not_undo_a_truncation() -> None:
    async def test() -> None:
        bench = Bench(WatchedDisk())
        path = f"{PATH}/{checkpoint.RECOVERY_POINT_FILE_NAME}"
        file = OffsetsFile(bench.runtime, path)
        await file.write(lambda: {NAME: 10})
        current = 20
        bench.offload.hold = True
        writing = asyncio.ensure_future(file.write(lambda: {NAME: current}))
        await settled()
        current = 5
        file.lower(NAME, 5)
        await let_open(bench)
        await writing
        assert checkpoint.decode_offsets(bench.disk.read_bytes(path), path) == {NAME: 5}
        assert file.offsets == {NAME: 5}

    run(test())

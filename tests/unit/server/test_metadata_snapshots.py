"""Snapshots of a controller's metadata: when they are written, what they take the place of, what is left without."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from controllers import DIRECTORY, Controller, settle

from barnabas.consensus import snapshot_file
from barnabas.controller.decision import Decision
from barnabas.metadata.image import MetadataImage
from barnabas.protocol.messages.partition_record import PartitionRecord
from barnabas.protocol.messages.topic_record import TopicRecord
from barnabas.runtime.memory_disk import MemoryDisk
from barnabas.server.quorum.metadata_log import MetadataUnavailable

LOG = f"{DIRECTORY}/__cluster_metadata-0"
SMALL = {"metadata.log.max.record.bytes.between.snapshots": "2000"}
# Nothing that a later snapshot holds is kept. A segment cannot be as small as this test, so it is rolled by time.
SHORT = {**SMALL, "metadata.max.retention.bytes": "0", "metadata.log.segment.ms": "1"}


def run(test: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(asyncio.wait_for(test(), 30))


async def create(controller: Controller, *names: str) -> None:
    for name in names:
        topic_id = name.encode().ljust(16, b".")
        partition = PartitionRecord(partition_id=0, topic_id=topic_id, replicas=[1], isr=[1], leader=1, directories=[])
        records = [TopicRecord(name=name, topic_id=topic_id), partition]
        await controller.service.submit(lambda image, offset, records=records: Decision(records, None))
    await settle()


def topics(count: int, start: int = 0) -> list[str]:
    return [f"topic-{number}" for number in range(start, start + count)]


def snapshots(disk: MemoryDisk) -> list[str]:
    return [name for name in disk.list_directory(LOG) if name.endswith(".checkpoint")]


def same(image: MetadataImage, other: MetadataImage) -> bool:
    parts = ("topics_by_name", "topics_by_id", "configs", "features", "topics_by_unified_name", "next_producer_id")
    return all(getattr(image, part) == getattr(other, part) for part in parts)


def test_one_is_written_after_so_many_bytes_and_read_at_the_next_start() -> None:
    async def test() -> None:
        disk = MemoryDisk()
        first = await Controller(disk, overrides=SMALL).start()
        await create(first, *topics(3))
        assert snapshots(disk) == []
        await create(first, *topics(30, 3))
        written = snapshots(disk)
        assert len(written) >= 2
        log = first.service.log
        assert log.snapshot is not None
        assert log.snapshot.end_offset <= first.service.high_watermark
        assert log.start_offset == 0, "nothing is cut off before metadata.max.retention.bytes are reached"
        await first.service.stop()

        second = Controller(disk, overrides=SMALL)
        second.service.start()
        assert second.image.offset == log.snapshot.end_offset - 1
        assert len(second.changes) == 1
        assert [each.topic.name for each in second.changes[0][0].topics_changed] == list(second.image.topics_by_name)
        await settle()
        assert same(second.image, first.image)
        await second.service.stop()

    run(test)


def test_what_a_later_snapshot_holds_is_cut_off_and_the_rest_is_enough() -> None:
    async def test() -> None:
        disk = MemoryDisk()
        first = await Controller(disk, overrides=SHORT).start()
        await create(first, *topics(60))
        log = first.service.log
        assert len(snapshots(disk)) == 1
        assert log.snapshot is not None
        assert log.start_offset == log.snapshot.end_offset > 0
        assert f"{0:020d}.log" not in disk.list_directory(LOG)
        await first.service.stop()
        second = Controller(disk, overrides=SHORT)
        assert second.service.log.start == log.snapshot
        second.service.start()
        await settle()
        assert list(second.image.topics_by_name) == topics(60)
        assert same(second.image, first.image)
        await create(second, "another")
        assert "another" in second.image.topics_by_name
        await second.service.stop()

    run(test)


def test_old_ones_go_by_age() -> None:
    async def test() -> None:
        disk = MemoryDisk()
        controller = await Controller(disk, overrides={**SMALL, "metadata.max.retention.ms": "1000000"}).start()
        await create(controller, *topics(60))
        count = len(snapshots(disk))
        assert count > 2
        controller.runtime.clock.milliseconds += 2_000_000  # type: ignore[attr-defined]
        await create(controller, *topics(30, 60))
        assert len(snapshots(disk)) < count
        await controller.service.stop()

    run(test)


def test_a_snapshot_of_a_later_offset_than_the_log_takes_its_place() -> None:
    """A crash came after it was copied from the leader, and before the log was cut."""

    async def test() -> None:
        disk = MemoryDisk()
        first = await Controller(disk, overrides=SMALL).start()
        await create(first, *topics(30))
        await first.service.stop()
        [*_, name] = snapshots(disk)
        data = disk.read_bytes(f"{LOG}/{name}")

        late = MemoryDisk()
        behind = await Controller(late, overrides=SMALL).start()
        await create(behind, "soon forgotten")
        await behind.service.stop()
        end_offset = snapshot_file.snapshot_of(name)
        assert end_offset is not None
        later = end_offset._replace(last_epoch=9)
        late.write_atomically(f"{LOG}/{snapshot_file.file_name(later)}", data)
        late.write_atomically(f"{LOG}/{snapshot_file.file_name(later, '.checkpoint.part')}", b"rest of another")
        again = Controller(late, overrides=SMALL)
        assert again.service.log.start == later
        await again.start()
        assert again.service.quorum.epoch == 10
        assert "soon forgotten" not in again.image.topics_by_name
        assert list(again.image.topics_by_name) == topics(len(again.image.topics_by_name))
        assert not [name for name in late.list_directory(LOG) if name.endswith(".part")]
        await again.service.stop()

    run(test)


@pytest.mark.parametrize("what", ["damaged", "gone"])
def test_a_log_whose_beginning_is_lost_does_not_start(what: str) -> None:
    async def test() -> None:
        disk = MemoryDisk()
        first = await Controller(disk, overrides=SHORT).start()
        await create(first, *topics(60))
        await first.service.stop()
        [name] = snapshots(disk)
        path = f"{LOG}/{name}"
        if what == "gone":
            disk.remove(path)
        else:
            data = bytearray(disk.read_bytes(path))
            data[len(data) // 2] ^= 1
            disk.write_atomically(path, data)
        with pytest.raises(MetadataUnavailable, match="damaged" if what == "damaged" else "no snapshot"):
            Controller(disk, overrides=SHORT).service.start()

    run(test)


def test_a_full_disk_costs_only_the_snapshot() -> None:
    async def test() -> None:
        disk = MemoryDisk()
        controller = await Controller(disk, overrides=SMALL).start()
        opened = disk.open

        def refuse(path: str) -> Any:
            if path.endswith(".part"):
                raise OSError(28, "No space left on device", path)
            return opened(path)

        disk.open = refuse  # type: ignore[method-assign]
        await create(controller, *topics(30))
        assert snapshots(disk) == []
        assert controller.failures == []
        disk.open = opened  # type: ignore[method-assign]
        await create(controller, *topics(30, 30))
        assert snapshots(disk)
        await controller.service.stop()

    run(test)

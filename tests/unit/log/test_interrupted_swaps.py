"""What a crash left of compaction: finished or undone, and nothing of the old segment left beside the new one."""

from log_fixtures import DIRECTORY, NOW_MS, append, topic_config

from barnabas.log.interrupted_swaps import finish_swaps
from barnabas.log.log import Log
from barnabas.runtime.memory_disk import MemoryDisk

STEM = "00000000000000000000"


def one_segment() -> MemoryDisk:
    disk = MemoryDisk()
    log = Log.open(disk, DIRECTORY, topic_config(index_interval_bytes=100), NOW_MS)
    for _ in range(5):
        append(log, 2)
    log.close()
    return disk


def put(disk: MemoryDisk, name: str, data: bytes) -> None:
    file = disk.open(f"{DIRECTORY}/{name}")
    file.write(0, data)
    file.close()


def finish(disk: MemoryDisk) -> list[str]:
    return [name for name in finish_swaps(disk, DIRECTORY, disk.list_directory(DIRECTORY)) if name.startswith(STEM)]


def test_no_index_of_the_old_segment_is_taken_for_the_new_ones() -> None:
    """The new segment has no aborted transactions any more, hence no file of them; the old one's tells of others."""
    disk = one_segment()
    put(disk, f"{STEM}.txnindex", b"old")
    put(disk, f"{STEM}.timeindex", b"old")
    put(disk, f"{STEM}.log.swap", disk.read_bytes(f"{DIRECTORY}/{STEM}.log"))
    put(disk, f"{STEM}.index.swap", b"new")
    assert finish(disk) == [f"{STEM}.index", f"{STEM}.log"]
    assert disk.read_bytes(f"{DIRECTORY}/{STEM}.index") == b"new"


def test_a_new_segment_that_is_not_whole_goes() -> None:
    disk = one_segment()
    before = finish(disk)
    put(disk, f"{STEM}.log.swap", b"new")
    put(disk, f"{STEM}.index.cleaned", b"new")
    assert finish(disk) == before


def test_indexes_get_their_names_after_the_log_has() -> None:
    disk = one_segment()
    put(disk, f"{STEM}.index.swap", b"new")
    assert f"{STEM}.index.swap" not in finish(disk)
    assert disk.read_bytes(f"{DIRECTORY}/{STEM}.index") == b"new"

"""What every Disk promises, asked of all three."""

import errno
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from barnabas.runtime.interfaces import Disk
from barnabas.runtime.memory_disk import CHUNK_BYTES, MemoryDisk
from barnabas.runtime.system.disk import SystemDisk
from barnabas.simulation.disk import SimulatedDisk


@pytest.fixture(params=["system", "memory", "simulated"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Disk, str]]:
    if request.param == "system":
        yield SystemDisk(), str(tmp_path)
        return
    disk: Disk = MemoryDisk() if request.param == "memory" else SimulatedDisk()
    disk.make_directories("/data")
    yield disk, "/data"


def test_reads_what_was_written(place: tuple[Disk, str]) -> None:
    disk, at = place
    file = disk.open(f"{at}/a")
    assert file.size() == 0
    file.write(0, b"hello")
    file.write(5, memoryview(b" world"))
    assert file.read(0, 100) == b"hello world"
    assert file.read(6, 3) == b"wor"
    assert file.read(11, 5) == b""
    assert (file.size(), disk.size(f"{at}/a"), file.path) == (11, 11, f"{at}/a")
    file.sync()
    disk.sync_file(f"{at}/a")
    file.close()


@pytest.mark.parametrize("position", [0, 1, CHUNK_BYTES - 1, CHUNK_BYTES, 3 * CHUNK_BYTES + 7])
def test_writes_across_chunks(place: tuple[Disk, str], position: int) -> None:
    disk, at = place
    data = bytes(range(256)) * (CHUNK_BYTES // 100)
    file = disk.open(f"{at}/a")
    file.write(position, data)
    assert file.read(0, position + len(data)) == bytes(position) + data
    file.write(position + 10, b"changed")
    assert file.read(position, 20) == data[:10] + b"changed" + data[17:20]


@pytest.mark.parametrize("size", [0, 1, CHUNK_BYTES - 1, CHUNK_BYTES, CHUNK_BYTES + 1])
def test_growth_after_a_cut_shows_zeros(place: tuple[Disk, str], size: int) -> None:
    disk, at = place
    file = disk.open(f"{at}/a")
    file.write(0, b"x" * (2 * CHUNK_BYTES))
    file.truncate(size)
    assert file.size() == size
    file.truncate(2 * CHUNK_BYTES)
    assert file.read(0, 2 * CHUNK_BYTES) == b"x" * size + bytes(2 * CHUNK_BYTES - size)


def test_a_closed_file_fails(place: tuple[Disk, str]) -> None:
    disk, at = place
    file = disk.open(f"{at}/a")
    file.close()
    file.close()
    with pytest.raises(OSError) as caught:
        file.write(0, b"x")
    assert caught.value.errno == errno.EBADF


def test_a_removed_file_can_be_read_by_who_has_it_open(place: tuple[Disk, str]) -> None:
    disk, at = place
    file = disk.open(f"{at}/a")
    file.write(0, b"still here")
    disk.rename(f"{at}/a", f"{at}/a.deleted")
    disk.remove(f"{at}/a.deleted")
    assert not disk.exists(f"{at}/a.deleted")
    assert file.read(0, 100) == b"still here"


def test_a_map_and_a_file_show_the_same_bytes(place: tuple[Disk, str]) -> None:
    disk, at = place
    mapped = disk.map(f"{at}/m", 8192)
    assert bytes(mapped.view) == bytes(8192)
    mapped.reserve(0, 4096)
    mapped.view[8:12] = b"abcd"
    mapped.sync()
    assert disk.size(f"{at}/m") == 8192
    assert disk.open(f"{at}/m").read(8, 4) == b"abcd"
    mapped.resize(12)
    assert disk.size(f"{at}/m") == 12
    assert bytes(mapped.view) == bytes(8) + b"abcd"
    mapped.resize(16)
    assert bytes(mapped.view) == bytes(8) + b"abcd" + bytes(4)
    mapped.close()
    assert disk.read_bytes(f"{at}/m") == bytes(8) + b"abcd" + bytes(4)
    again = disk.map(f"{at}/m", 0)
    assert bytes(again.view) == bytes(8) + b"abcd" + bytes(4)
    again.close()
    larger = disk.map(f"{at}/m", 32)
    assert bytes(larger.view) == bytes(8) + b"abcd" + bytes(20)
    larger.close()


def test_an_empty_file_can_be_mapped(place: tuple[Disk, str]) -> None:
    disk, at = place
    mapped = disk.map(f"{at}/m", 0)
    assert len(mapped.view) == 0
    mapped.resize(8)
    mapped.view[0:2] = b"ab"
    mapped.close()
    assert disk.read_bytes(f"{at}/m") == b"ab" + bytes(6)


def test_a_full_file_can_be_mapped(place: tuple[Disk, str]) -> None:
    disk, at = place
    disk.open(f"{at}/m").write(0, b"x" * 100)
    mapped = disk.map(f"{at}/m", 0)
    assert bytes(mapped.view) == b"x" * 100
    mapped.close()


def test_directories(place: tuple[Disk, str]) -> None:
    disk, at = place
    disk.make_directories(f"{at}/b/c")
    disk.make_directories(f"{at}/b/c")
    disk.open(f"{at}/b/z").close()
    disk.open(f"{at}/b/a").close()
    assert disk.list_directory(f"{at}/b") == ["a", "c", "z"]
    assert disk.exists(f"{at}/b")
    assert disk.exists(f"{at}/b/c")
    disk.sync_directory(f"{at}/b")
    disk.rename(f"{at}/b", f"{at}/d")
    assert disk.list_directory(f"{at}/d") == ["a", "c", "z"]
    assert disk.list_directory(f"{at}/d/c") == []
    assert not disk.exists(f"{at}/b")
    assert not disk.exists(f"{at}/b/a")
    disk.remove_directory(f"{at}/d")
    assert not disk.exists(f"{at}/d")
    assert not disk.exists(f"{at}/d/a")


def test_missing_things_are_named(place: tuple[Disk, str]) -> None:
    disk, at = place
    for ask in (disk.size, disk.modified_ms, disk.remove, disk.read_bytes, disk.sync_file, disk.list_directory):
        with pytest.raises(FileNotFoundError):
            ask(f"{at}/none")  # type: ignore[operator]
    with pytest.raises(FileNotFoundError):
        disk.open(f"{at}/none/file")
    with pytest.raises(FileNotFoundError):
        disk.rename(f"{at}/none", f"{at}/other")
    assert not disk.exists(f"{at}/none")


def test_rename_replaces(place: tuple[Disk, str]) -> None:
    disk, at = place
    disk.open(f"{at}/a").write(0, b"new")
    disk.open(f"{at}/b").write(0, b"old")
    disk.rename(f"{at}/a", f"{at}/b")
    assert disk.list_directory(at) == ["b"]
    assert disk.read_bytes(f"{at}/b") == b"new"


def test_write_atomically_replaces_and_leaves_nothing_behind(place: tuple[Disk, str]) -> None:
    disk, at = place
    disk.write_atomically(f"{at}/c", b"a long first content")
    disk.write_atomically(f"{at}/c", b"short")
    assert disk.read_bytes(f"{at}/c") == b"short"
    assert disk.list_directory(at) == ["c"]


def test_lock_is_exclusive(place: tuple[Disk, str]) -> None:
    disk, at = place
    lock = disk.lock(f"{at}/.lock")
    with pytest.raises(BlockingIOError):
        disk.lock(f"{at}/.lock")
    lock.release()
    lock.release()
    disk.lock(f"{at}/.lock").release()


def test_space(place: tuple[Disk, str]) -> None:
    disk, at = place
    total, free = disk.space_bytes(at)
    assert 0 < free <= total


def test_modified_time_follows_the_clock() -> None:
    now_ms = 5
    disk = MemoryDisk(lambda: now_ms)
    file = disk.open("a")
    assert disk.modified_ms("a") == 5
    now_ms = 9
    file.write(0, b"x")
    assert disk.modified_ms("a") == 9


def test_system_file_gives_its_descriptor_back_with_the_last_reference(tmp_path: Path) -> None:
    descriptors = Path("/proc/self/fd")
    if not descriptors.exists():
        pytest.skip("this system does not list descriptors under /proc")
    before = len(list(descriptors.iterdir()))
    files = [SystemDisk().open(str(tmp_path / "a")) for _ in range(10)]
    assert len(list(descriptors.iterdir())) == before + 10
    del files
    assert len(list(descriptors.iterdir())) == before


def test_system_disk_refuses_space_that_is_not_there() -> None:
    full = Path("/dev/full")
    if not full.exists():
        pytest.skip("this system has no /dev/full")
    with pytest.raises(OSError) as caught:
        SystemDisk().open(str(full)).write(0, b"x")
    assert caught.value.errno == errno.ENOSPC


def test_threads_may_replace_the_same_file(tmp_path: Path) -> None:
    disk = SystemDisk()
    path = f"{tmp_path}/file"
    with ThreadPoolExecutor(4) as threads:
        written = [threads.submit(disk.write_atomically, path, bytes([number])) for number in range(100)]
    assert [each.exception() for each in written] == [None] * 100
    assert len(disk.read_bytes(path)) == 1
    assert disk.list_directory(str(tmp_path)) == ["file"]

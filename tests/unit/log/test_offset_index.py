"""The offset index: entries, lookups, and what it costs to have one."""

import pytest

from barnabas.log.mapped_index import CorruptIndex
from barnabas.log.offset_index import OffsetIndex
from barnabas.runtime.memory_disk import MemoryDisk
from barnabas.simulation.disk import SimulatedDisk

PATH = "00000000000000000100.index"


def new_index(disk: MemoryDisk | SimulatedDisk | None = None, size_bytes_max: int = 1024) -> OffsetIndex:
    index = OffsetIndex(disk or MemoryDisk(), PATH, 100, size_bytes_max)
    index.start_empty()
    return index


def filled(count: int, disk: MemoryDisk | None = None) -> OffsetIndex:
    """Offsets 110, 120, … at positions 1000, 2000, …"""
    index = new_index(disk)
    for number in range(count):
        index.append(110 + number * 10, 1000 * (number + 1))
    return index


def test_bytes_are_those_of_kafka() -> None:
    disk = MemoryDisk()
    index = filled(2, disk)
    index.trim()
    assert disk.read_bytes(PATH) == bytes.fromhex("0000000a 000003e8 00000014 000007d0")


def test_no_file_before_the_first_entry_and_preallocated_after_it() -> None:
    disk = MemoryDisk()
    index = new_index(disk)
    assert index.lookup(500) == 0
    assert not disk.exists(PATH)
    index.append(110, 1000)
    assert disk.size(PATH) == 1024
    index.trim()
    assert disk.size(PATH) == 8


@pytest.mark.parametrize("count", [1, 2, 3, 50])
def test_lookup_gives_the_last_entry_not_beyond(count: int) -> None:
    index = filled(count)
    for offset in range(100, 110 + count * 10 + 5):
        entries = [(110 + n * 10, 1000 * (n + 1)) for n in range(count)]
        expected = max((position for at, position in entries if at <= offset), default=0)
        assert index.lookup(offset) == expected


def test_offset_beyond_a_position() -> None:
    index = filled(3)
    assert index.offset_beyond(0) == 110
    assert index.offset_beyond(1000) == 120
    assert index.offset_beyond(2999) == 130
    assert index.offset_beyond(3000) is None
    assert new_index().offset_beyond(0) is None


@pytest.mark.parametrize(("offset", "left"), [(100, 0), (110, 0), (111, 1), (120, 1), (125, 2), (500, 3)])
def test_truncate(offset: int, left: int) -> None:
    index = filled(3)
    index.truncate_to(offset)
    assert index.entry_count == left
    assert index.lookup(1000) == 1000 * left
    index.append(200, 9000)
    assert index.entry(left) == (200, 9000)


def test_full() -> None:
    index = new_index(size_bytes_max=17)
    assert index.size_bytes_max == 16
    index.append(110, 1)
    assert not index.is_full
    index.append(120, 2)
    assert index.is_full


def test_trimmed_index_is_taken_up_again_and_grows() -> None:
    disk = MemoryDisk()
    filled(3, disk).trim()
    index = OffsetIndex(disk, PATH, 100, 1024)
    assert index.lookup(125) == 2000
    index.append(140, 4000)
    assert disk.size(PATH) == 1024
    assert [index.entry(n) for n in range(4)] == [(110, 1000), (120, 2000), (130, 3000), (140, 4000)]
    index.release()
    assert index.lookup(1000) == 4000


def test_more_than_a_page() -> None:
    index = new_index(size_bytes_max=100_000)
    for number in range(2000):
        index.append(101 + number, number)
    assert all(index.lookup(101 + number) == number for number in range(2000))


@pytest.mark.parametrize(
    ("content", "log_size_bytes"),
    [
        (b"1234567", 100_000),  # no whole number of entries
        (bytes.fromhex("0000000a 000003e8 00000000 00000000"), 100_000),  # a tail that was never written
        (bytes.fromhex("fffffff0 000003e8"), 100_000),  # before the segment
        (bytes.fromhex("0000000a 000003e8"), 500),  # beyond the end of the log
    ],
)
def test_check_finds_what_cannot_be(content: bytes, log_size_bytes: int) -> None:
    disk = MemoryDisk()
    disk.open(PATH).write(0, content)
    with pytest.raises(CorruptIndex):
        OffsetIndex(disk, PATH, 100, 1024).check(log_size_bytes)


def test_check_accepts_a_sound_one() -> None:
    disk = MemoryDisk()
    filled(3, disk).trim()
    OffsetIndex(disk, PATH, 100, 1024).check(3001)


def test_a_full_disk_fails_before_the_entry_and_not_at_its_touch() -> None:
    disk = SimulatedDisk()
    index = new_index(disk)
    disk.set_free_bytes(0)
    with pytest.raises(OSError):
        index.make_room()
    assert index.entry_count == 0
    disk.set_free_bytes(1 << 20)
    index.make_room(3)
    disk.set_free_bytes(0)
    for number in range(3):
        index.append(110 + number, number + 1)
    assert index.lookup(112) == 3

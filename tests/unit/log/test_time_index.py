"""The time index: only later timestamps make entries; lookups begin where nothing earlier can be missed."""

import pytest

from barnabas.log.mapped_index import CorruptIndex
from barnabas.log.time_index import TimeEntry, TimeIndex
from barnabas.runtime.memory_disk import MemoryDisk

PATH = "00000000000000000100.timeindex"


def new_index(disk: MemoryDisk | None = None) -> TimeIndex:
    index = TimeIndex(disk or MemoryDisk(), PATH, 100, 1200)
    index.start_empty()
    return index


def filled(count: int, disk: MemoryDisk | None = None) -> TimeIndex:
    """Timestamps 1000, 2000, … at offsets 110, 120, …"""
    index = new_index(disk)
    for number in range(count):
        index.append(1000 * (number + 1), 110 + number * 10)
    return index


def test_bytes_are_those_of_kafka() -> None:
    disk = MemoryDisk()
    filled(2, disk).trim()
    assert disk.read_bytes(PATH) == bytes.fromhex("00000000000003e8 0000000a 00000000000007d0 00000014")


def test_only_later_timestamps_make_entries() -> None:
    index = new_index()
    for timestamp_ms, offset in ((5, 101), (5, 102), (3, 103), (-1, 104), (7, 105)):
        index.append(timestamp_ms, offset)
    assert [index.entry(n) for n in range(index.entry_count)] == [(5, 101), (7, 105)]
    assert index.last() == TimeEntry(7, 105)


def test_last_of_an_empty_one() -> None:
    assert new_index().last() == TimeEntry(-1, 100)


@pytest.mark.parametrize("count", [0, 1, 2, 7])
def test_lookup_gives_the_last_entry_not_later(count: int) -> None:
    index = filled(count)
    for timestamp_ms in range(0, 1000 * count + 1500, 250):
        expected = 100 + 10 * min(count, timestamp_ms // 1000)
        assert index.lookup(timestamp_ms) == expected


def test_truncate() -> None:
    index = filled(5)
    index.truncate_to(130)
    assert index.last() == TimeEntry(2000, 120)
    index.append(2500, 131)
    assert index.last() == TimeEntry(2500, 131)
    index.truncate_to(100)
    assert index.entry_count == 0
    assert index.last() == TimeEntry(-1, 100)


def test_keeps_a_place_for_the_roll() -> None:
    index = TimeIndex(MemoryDisk(), PATH, 100, 36)
    index.start_empty()
    index.append(1, 101)
    assert not index.is_full
    index.append(2, 102)
    assert index.is_full
    index.append(3, 103)
    assert index.entry_count == 3


def test_taken_up_again() -> None:
    disk = MemoryDisk()
    filled(3, disk).trim()
    index = TimeIndex(disk, PATH, 100, 1200)
    assert index.last() == TimeEntry(3000, 130)
    index.append(3000, 135)
    assert index.entry_count == 3
    index.append(4000, 140)
    assert index.lookup(9999) == 140


@pytest.mark.parametrize(
    "content",
    [
        b"12345678901",
        bytes.fromhex("00000000000003e8 0000000a 0000000000000000 00000000"),
        bytes.fromhex("00000000000003e8 ffffff00"),
    ],
)
def test_check_finds_what_cannot_be(content: bytes) -> None:
    disk = MemoryDisk()
    disk.open(PATH).write(0, content)
    with pytest.raises(CorruptIndex):
        TimeIndex(disk, PATH, 100, 1200).check()


def test_a_small_one_is_cleared_in_place_and_is_right_again_once_it_is_trimmed() -> None:
    disk = MemoryDisk()
    filled(3, disk).trim()
    index = TimeIndex(disk, PATH, 100, 1200)
    index.reset(in_place=True)
    assert disk.read_bytes(PATH) == bytes(36)
    assert index.last() == TimeEntry(-1, 100)
    index.append(5000, 130)
    index.trim()
    assert disk.read_bytes(PATH) == bytes.fromhex("0000000000001388 0000001e")
    index.reset()
    assert not disk.exists(PATH)

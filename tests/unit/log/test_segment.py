"""One segment: finding batches, its sparse indexes, and rebuilding what is lost."""

import errno

import pytest
from log_fixtures import NOW_MS, batch

from barnabas.log.segment import Segment
from barnabas.log.time_index import TimeEntry
from barnabas.protocol.record_batch import assign, read_header
from barnabas.runtime.interfaces import Disk
from barnabas.runtime.memory_disk import MemoryDisk
from barnabas.simulation.disk import SimulatedDisk

BASE = 1000
INDEX = f"/p/{BASE:020d}.index"
TIME_INDEX = f"/p/{BASE:020d}.timeindex"


def open_segment(disk: Disk, interval: int = 300, index_bytes: int = 1 << 16) -> Segment:
    disk.make_directories("/p")
    return Segment(
        disk,
        "/p",
        BASE,
        index_interval_bytes=interval,
        segment_index_bytes=index_bytes,
        segment_jitter_ms=0,
        now_ms=NOW_MS,
    )


def new_segment(disk: Disk | None = None, interval: int = 300, index_bytes: int = 1 << 16) -> Segment:
    segment = open_segment(disk or MemoryDisk(), interval, index_bytes)
    segment.create()
    return segment


def append(segment: Segment, offset: int, count: int = 1, timestamp_ms: int = NOW_MS, size: int = 20) -> int:
    data = batch(count, timestamp_ms=timestamp_ms, size=size)
    assign(data, 0, offset, 0)
    header = read_header(data, 0)
    position = segment.append(data, len(data))
    segment.appended(position, len(data), offset, header.last_offset, header.max_timestamp_ms)
    return position


def filled(disk: Disk | None = None, count: int = 100, **settings: int) -> tuple[Segment, list[int]]:
    """Batches of two records; their positions."""
    segment = new_segment(disk, **settings)
    return segment, [append(segment, BASE + 2 * n, 2, NOW_MS + 10 * n) for n in range(count)]


def taken_up(disk: Disk, **settings: int) -> Segment:
    segment = open_segment(disk, **settings)
    segment.load()
    return segment


def test_every_offset_is_found() -> None:
    segment, positions = filled(count=600)
    for number, position in enumerate(positions):
        assert segment.position_of(BASE + 2 * number) == position
        assert segment.position_of(BASE + 2 * number + 1) == position
    assert segment.position_of(BASE + 1200) == segment.size_bytes


def test_every_offset_is_found_after_it_was_closed() -> None:
    disk = MemoryDisk()
    segment, positions = filled(disk)
    segment.finish()
    segment = taken_up(disk)
    assert [segment.position_of(BASE + 2 * n + 1) for n in range(100)] == positions
    assert segment.end_offset() == BASE + 200


def test_index_entries_are_sparse_and_name_last_offsets() -> None:
    segment, positions = filled(interval=500)
    entries = [segment.offset_index.entry(n) for n in range(segment.offset_index.entry_count)]
    assert entries
    last = 0
    for offset, position in entries:
        assert position in positions
        assert offset == BASE + 2 * positions.index(position) + 1
        assert position - last > 500
        last = position


def test_gaps_between_batches() -> None:
    segment = new_segment()
    positions = [append(segment, BASE + 100 * n) for n in range(50)]
    assert segment.position_of(BASE + 1) == positions[1]
    assert segment.position_of(BASE + 4801) == positions[49]
    assert segment.position_of(BASE + 4901) == segment.size_bytes


def test_batches_larger_than_the_scan() -> None:
    disk = MemoryDisk()
    segment = new_segment(disk, interval=1 << 20)
    positions = [append(segment, BASE + n, size=20_000) for n in range(5)]
    segment.finish()
    segment = taken_up(disk)
    assert [segment.position_of(BASE + n) for n in range(5)] == positions


def test_latest_is_the_first_batch_with_the_largest_timestamp() -> None:
    disk = MemoryDisk()
    segment = new_segment(disk)
    for number, delta in enumerate((0, 50, 20, 50, 49)):
        append(segment, BASE + number, timestamp_ms=NOW_MS + delta)
    assert segment.latest() == TimeEntry(NOW_MS + 50, BASE + 1)
    segment.finish()
    assert taken_up(disk).latest() == TimeEntry(NOW_MS + 50, BASE + 1)


def test_retention_time_is_that_of_the_file_where_records_have_none() -> None:
    disk = MemoryDisk(lambda: 4711)
    segment = new_segment(disk)
    append(segment, BASE, timestamp_ms=-1)
    assert segment.retention_timestamp_ms() == 4711


def test_age_counts_from_the_first_batch() -> None:
    disk = MemoryDisk()
    segment = new_segment(disk)
    assert segment.age_start_ms() is None
    append(segment, BASE, timestamp_ms=NOW_MS + 5)
    append(segment, BASE + 1, timestamp_ms=NOW_MS)
    assert segment.age_start_ms() == NOW_MS + 5
    segment.finish()
    assert taken_up(disk).age_start_ms() == NOW_MS + 5


def test_finish_leaves_files_as_long_as_their_content() -> None:
    disk = MemoryDisk()
    segment, _ = filled(disk)
    assert disk.size(INDEX) == 1 << 16
    segment.finish()
    assert disk.size(INDEX) == segment.offset_index.entry_count * 8
    assert disk.size(TIME_INDEX) == segment.time_index.entry_count * 12
    assert segment.time_index.last() == segment.latest()


def test_finish_makes_both_indexes_even_for_one_small_batch() -> None:
    disk = MemoryDisk()
    segment = new_segment(disk)
    append(segment, BASE)
    assert not disk.exists(INDEX)
    segment.finish()
    assert (disk.size(INDEX), disk.size(TIME_INDEX)) == (0, 12)


@pytest.mark.parametrize("path", [INDEX, TIME_INDEX])
@pytest.mark.parametrize("damage", ["missing", "garbage", "half an entry", "zeros behind"])
def test_lost_and_corrupt_indexes_are_rebuilt_at_first_use(path: str, damage: str) -> None:
    disk = MemoryDisk()
    segment, positions = filled(disk)
    segment.finish()
    sound = {name: disk.read_bytes(name) for name in (INDEX, TIME_INDEX)}
    if damage == "missing":
        disk.remove(path)
    elif damage == "garbage":
        disk.open(path).write(disk.size(path) - 12, b"\xff" * 12)
    elif damage == "half an entry":
        disk.open(path).write(disk.size(path), b"xyz")
    else:
        disk.open(path).truncate(disk.size(path) + 8 * 12)
    segment = taken_up(disk)
    assert [segment.position_of(BASE + 2 * n) for n in range(100)] == positions
    assert segment.latest() == TimeEntry(NOW_MS + 991, BASE + 199)
    segment.finish()
    assert {name: disk.read_bytes(name) for name in (INDEX, TIME_INDEX)} == sound


@pytest.mark.parametrize("number", [0, 1, 37, 99])
def test_truncate(number: int) -> None:
    disk = MemoryDisk()
    segment, positions = filled(disk)
    assert segment.truncate_to(BASE + 2 * number) == BASE + 2 * number
    assert segment.size_bytes == positions[number] == disk.size(segment.log_path)
    assert segment.end_offset() == BASE + 2 * number
    expected = TimeEntry(NOW_MS + 10 * (number - 1) + 1, BASE + 2 * number - 1) if number else TimeEntry(-1, BASE)
    assert segment.latest() == expected
    for further in range(number, 120):
        append(segment, BASE + 2 * further, 2, NOW_MS + 10 * further)
    segment.finish()
    fresh_disk = MemoryDisk()
    fresh, _ = filled(fresh_disk, count=120)
    fresh.finish()
    assert disk.read_bytes(segment.log_path) == fresh_disk.read_bytes(fresh.log_path)
    assert taken_up(disk).latest() == fresh.latest()
    assert all(segment.position_of(BASE + n) == fresh.position_of(BASE + n) for n in range(240))


def test_truncate_within_a_batch_drops_all_of_it() -> None:
    segment, positions = filled()
    assert segment.truncate_to(BASE + 21) == BASE + 20
    assert segment.size_bytes == positions[10]


def test_truncate_in_a_gap_ends_there() -> None:
    segment = new_segment()
    append(segment, BASE)
    position = append(segment, BASE + 100)
    assert segment.truncate_to(BASE + 50) == BASE + 50
    assert segment.size_bytes == position


def test_full_indexes_take_no_more_entries_and_nothing_is_lost() -> None:
    segment, positions = filled(interval=100, index_bytes=48)
    assert segment.offset_index.is_full
    assert not segment.has_index_room(100)
    assert [segment.position_of(BASE + 2 * n) for n in range(100)] == positions
    segment.finish()


def test_relative_offsets_are_32_bits() -> None:
    segment = new_segment()
    assert segment.accepts_offset(BASE + 2**31 - 1)
    assert not segment.accepts_offset(BASE + 2**31)
    assert not segment.accepts_offset(BASE - 1)


def test_a_failed_write_is_cut_away() -> None:
    disk = SimulatedDisk()
    segment = new_segment(disk)
    append(segment, BASE)
    size = segment.size_bytes
    disk.set_free_bytes(10)
    with pytest.raises(OSError) as caught:
        append(segment, BASE + 1)
    assert caught.value.errno == errno.ENOSPC
    assert (segment.size_bytes, disk.size(segment.log_path), segment.is_torn) == (size, size, False)
    disk.set_free_bytes(1 << 20)
    assert append(segment, BASE + 1) == size


def test_while_the_torn_tail_cannot_be_cut_nothing_is_appended() -> None:
    disk = SimulatedDisk()
    segment = new_segment(disk)
    append(segment, BASE)
    size = segment.size_bytes
    disk.set_free_bytes(10)
    disk.fail("truncate")
    with pytest.raises(OSError):
        append(segment, BASE + 1)
    assert segment.is_torn
    assert disk.size(segment.log_path) == size + 10
    disk.set_free_bytes(1 << 20)
    disk.fail("truncate")
    with pytest.raises(OSError):
        append(segment, BASE + 1)
    assert segment.is_torn
    assert append(segment, BASE + 1) == size
    assert not segment.is_torn
    assert disk.size(segment.log_path) == segment.size_bytes


def test_released_files_are_opened_again() -> None:
    segment, positions = filled()
    segment.finish()
    segment.release()
    assert segment.position_of(BASE + 50) == positions[25]


def test_roll_jitter_is_the_same_each_time_and_differs_between_segments() -> None:
    def jitter(base_offset: int) -> int:
        return Segment(
            MemoryDisk(),
            "/p",
            base_offset,
            index_interval_bytes=1,
            segment_index_bytes=1,
            segment_jitter_ms=1000,
            now_ms=0,
        ).roll_jitter_ms

    jitters = [jitter(n) for n in range(20)]
    assert jitters == [jitter(n) for n in range(20)]
    assert all(0 <= one < 1000 for one in jitters)
    assert len(set(jitters)) > 10

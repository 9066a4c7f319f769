"""Which part of a log may be compacted, when, and which segments become one."""

import pytest
from compaction_fixtures import compact, read_all
from log_fixtures import DIRECTORY, NOW_MS, append, offset_for_timestamp, offset_of_max_timestamp, topic_config

from barnabas.log.cleaner import UncleanableLog, clean
from barnabas.log.cleaning import Buffers, Cleaning
from barnabas.log.compaction import SegmentSize, first_dirty_offset, group_segments
from barnabas.log.log import Log
from barnabas.protocol.record_batch import Record, encode_batch
from barnabas.runtime.memory_disk import MemoryDisk
from barnabas.server.replicas.log_cleaner import cleanable_part


def new_log(disk: MemoryDisk, **settings: object) -> Log:
    config = topic_config(**{"cleanup_policy": "compact", "file_delete_delay_ms": 0, **settings})
    return Log.open(disk, DIRECTORY, config, NOW_MS)


def write(log: Log, *pairs: tuple[bytes | None, bytes | None], time_ms: int = NOW_MS) -> None:
    records = [Record(number, time_ms, key, value) for number, (key, value) in enumerate(pairs)]
    assert log.append_as_leader(memoryview(encode_batch(records)), 0, time_ms).error == 0
    log.high_watermark = log.log_end_offset


def pairs(log: Log) -> list[tuple[int, bytes | None, bytes | None]]:
    return [(record.offset, record.key, record.value) for record in read_all(log)]


@pytest.fixture
def disk() -> MemoryDisk:
    return MemoryDisk(lambda: NOW_MS)


def test_the_last_of_each_key_stays_where_it_was(disk: MemoryDisk) -> None:
    log = new_log(disk)
    write(log, (b"a", b"1"), (b"b", b"1"))
    write(log, (b"a", b"2"))
    log.roll(NOW_MS)
    write(log, (b"a", b"3"))
    done = compact(disk, log, NOW_MS)
    assert done is not None
    assert (done.end_offset, log.swap.cleaned_offset) == (3, 3)
    assert pairs(log) == [(1, b"b", b"1"), (2, b"a", b"2"), (3, b"a", b"3")]  # the active segment is left alone
    assert compact(disk, log, NOW_MS) is None


def test_a_tombstone_stays_for_delete_retention_and_then_goes(disk: MemoryDisk) -> None:
    log = new_log(disk, delete_retention_ms=100)
    write(log, (b"a", b"1"))
    write(log, (b"a", None))
    for now_ms, left in ((NOW_MS, True), (NOW_MS + 99, True), (NOW_MS + 100, False)):
        write(log, (b"other", b"%d" % now_ms))
        log.roll(NOW_MS)
        compact(disk, log, now_ms)
        assert ((1, b"a", None) in pairs(log)) is left
        assert all(key != b"a" or value is None for _, key, value in pairs(log))


def test_nothing_of_an_open_transaction_is_touched(disk: MemoryDisk) -> None:
    log = new_log(disk)
    write(log, (b"a", b"1"))
    log.roll(NOW_MS)
    append(log, producer_id=1, producer_epoch=0, base_sequence=0, transactional=True)
    log.roll(NOW_MS)
    write(log, (b"a", b"2"))
    log.roll(NOW_MS)
    assert cleanable_part(log, NOW_MS).end_offset == 1


def test_nor_what_others_may_not_have_yet(disk: MemoryDisk) -> None:
    log = new_log(disk)
    for _ in range(3):
        log.append_as_leader(memoryview(encode_batch([Record(0, NOW_MS, b"a", b"1")])), 0, NOW_MS)
        log.roll(NOW_MS)
    log.high_watermark = 2
    assert cleanable_part(log, NOW_MS).end_offset == 2


def test_young_segments_wait_for_min_compaction_lag(disk: MemoryDisk) -> None:
    log = new_log(disk, min_compaction_lag_ms=1000)
    for age_ms in (1000, 0):
        write(log, (b"a", b"1"), time_ms=NOW_MS - age_ms)
        log.roll(NOW_MS)
    assert cleanable_part(log, NOW_MS).end_offset == 1
    assert cleanable_part(log, NOW_MS + 1000).end_offset == 2


def test_an_old_record_makes_it_due_whatever_the_ratio(disk: MemoryDisk) -> None:
    log = new_log(disk, max_compaction_lag_ms=1000, min_cleanable_dirty_ratio=1)
    write(log, (b"a", b"1"))
    log.roll(NOW_MS)
    assert not cleanable_part(log, NOW_MS + 1000).is_due(log.config)
    assert cleanable_part(log, NOW_MS + 1001).is_due(log.config)


def test_max_compaction_lag_ends_a_segment_too(disk: MemoryDisk) -> None:
    log = new_log(disk, max_compaction_lag_ms=1000)
    write(log, (b"a", b"1"))
    write(log, (b"a", b"2"), time_ms=NOW_MS + 1001)
    assert len(log.segments) == 2


def test_the_dirty_ratio_decides_otherwise(disk: MemoryDisk) -> None:
    log = new_log(disk, min_cleanable_dirty_ratio=0.4)
    for _ in range(4):
        write(log, (b"a", b"1"))
        log.roll(NOW_MS)
    part = cleanable_part(log, NOW_MS)
    assert (part.dirty_ratio, part.is_due(log.config)) == (1.0, True)
    log.swap.cleaned_offset = 3
    part = cleanable_part(log, NOW_MS)
    assert (part.dirty_ratio, part.is_due(log.config)) == (0.25, False)


@pytest.mark.parametrize(("cleaned", "expected"), [(5, 5), (2, 3), (11, 3), (10, 10)])
def test_a_checkpoint_outside_of_the_log_means_all_of_it(cleaned: int, expected: int) -> None:
    assert first_dirty_offset(cleaned, 3, 10) == expected


def test_neighbours_are_grouped_up_to_the_size_of_a_segment() -> None:
    sizes = [SegmentSize(base, size, 8, 12) for base, size in ((0, 40), (10, 60), (20, 1), (30, 0), (40, 100))]

    def bases(**limits: int) -> list[list[int]]:
        groups = group_segments(sizes, 50, **{"segment_bytes": 100, "segment_index_bytes": 1000, **limits})
        return [[segment.base_offset for segment in group] for group in groups]

    assert bases() == [[0, 10], [20, 30], [40]]
    assert bases(segment_bytes=1000) == [[0, 10, 20, 30, 40]]
    assert bases(segment_bytes=1000, segment_index_bytes=24) == [[0, 10], [20, 30], [40]]
    far = [SegmentSize(0, 1, 0, 0), SegmentSize(2**31 - 1, 1, 0, 0), SegmentSize(2**31, 1, 0, 0)]
    groups = group_segments(far, 2**31 + 1, segment_bytes=100, segment_index_bytes=100)
    assert [len(group) for group in groups] == [2, 1]


def test_a_small_table_takes_several_rounds(disk: MemoryDisk) -> None:
    log = new_log(disk)
    for number in range(30):
        write(log, (b"key-%d" % (number % 15), b"%d" % number))
    log.roll(NOW_MS)
    rounds = 0
    while compact(disk, log, NOW_MS, buffers=Buffers(map_bytes=7 * 24, map_load_factor=0.9, io_bytes=100)) is not None:
        rounds += 1
    assert rounds > 3
    assert [offset for offset, _, _ in pairs(log)] == list(range(15, 30))


def test_a_batch_with_more_keys_than_the_table_is_told(disk: MemoryDisk) -> None:
    log = new_log(disk)
    write(log, *((b"%d" % number, b"") for number in range(20)))
    log.roll(NOW_MS)
    with pytest.raises(UncleanableLog, match=r"log\.cleaner\.dedupe\.buffer\.size"):
        compact(disk, log, NOW_MS, buffers=Buffers(map_bytes=7 * 24, map_load_factor=0.9, io_bytes=100))


@pytest.mark.parametrize("position", [65, 8])
def test_a_broken_batch_is_told_and_nothing_is_changed(disk: MemoryDisk, position: int) -> None:
    log = new_log(disk)
    write(log, (b"a", b"1"))
    log.roll(NOW_MS)
    log.segments[0].file().write(position, b"\xff")
    with pytest.raises(UncleanableLog):
        compact(disk, log, NOW_MS)
    assert log.segments[0].size_bytes > 0


def test_a_reader_in_flight_finishes_on_the_old_file(disk: MemoryDisk) -> None:
    log = new_log(disk)
    write(log, (b"a", b"1"), (b"b", b"1"))
    log.roll(NOW_MS)
    write(log, (b"a", b"2"))
    log.roll(NOW_MS)
    found = log.read(0, 1 << 20, 3)
    assert found is not None
    data = found.read()
    compact(disk, log, NOW_MS)
    log.delete_files_due(NOW_MS)
    assert found.read() == data
    fresh = log.read(0, 1 << 20, 3)
    assert fresh is not None
    assert fresh.read() != data


@pytest.mark.parametrize("offset", [0, 1, 2])
def test_what_was_cut_meanwhile_is_not_swapped_in(disk: MemoryDisk, offset: int) -> None:
    log = new_log(disk)
    for number in range(3):
        write(log, (b"a", b"%d" % number))
        log.roll(NOW_MS)
    log.swap.cleaned_offset = 1
    cleaning = Cleaning(
        log, cleanable_part(log, NOW_MS), Buffers(map_bytes=999, map_load_factor=0.9, io_bytes=99), NOW_MS
    )
    steps = [step for step in clean(disk, cleaning.request) if not isinstance(step, int)]
    log.truncate_to(offset, NOW_MS)
    before = pairs(log)
    assert not cleaning.is_current
    assert not cleaning.swap_in(steps[0], NOW_MS)  # type: ignore[arg-type]
    cleaning.discard()
    assert pairs(log) == before
    assert log.swap.cleaned_offset == min(1, offset)
    assert not [name for name in disk.list_directory(DIRECTORY) if name.endswith((".cleaned", ".swap"))]


def test_a_segment_with_nothing_left_stays_as_a_name(disk: MemoryDisk) -> None:
    """So that the log begins where it began."""
    log = new_log(disk, segment_bytes=100)
    for number in range(6):
        write(log, (b"a", b"%d" % number * 10), time_ms=NOW_MS + number)
    log.roll(NOW_MS)
    compact(disk, log, NOW_MS)
    assert [offset for offset, _, _ in pairs(log)] == [5]
    found = offset_of_max_timestamp(log)
    assert found is not None
    assert found.offset == 5
    found = offset_for_timestamp(log, NOW_MS)
    assert found is not None
    assert found.offset == 5
    log.close()
    again = Log.open(disk, DIRECTORY, log.config, NOW_MS, clean_shutdown=True)
    assert (again.log_start_offset, again.log_end_offset) == (0, 6)


def test_retention_and_compaction_together(disk: MemoryDisk) -> None:
    log = new_log(disk, cleanup_policy="compact,delete", retention_ms=1000)
    write(log, (b"old", b"1"))
    log.roll(NOW_MS)
    write(log, (b"a", b"1"), (b"a", b"2"), time_ms=NOW_MS + 900)
    log.roll(NOW_MS)
    compact(disk, log, NOW_MS)
    log.delete_old_segments(NOW_MS + 1001)
    assert pairs(log) == [(0, b"old", b"1"), (2, b"a", b"2")]  # one segment now, as young as its youngest
    log.delete_old_segments(NOW_MS + 1901)
    assert pairs(log) == []

"""Deleting at the old end: by log start, size and age; and when the files really go."""

import pytest
from log_fixtures import DIRECTORY, NOW_MS, append, batch, read_all, topic_config

from barnabas.errors import ErrorCode
from barnabas.log.log import Log
from barnabas.runtime.memory_disk import MemoryDisk

SIZE = len(batch(1))
DAY_MS = 86_400_000


def filled(disk: MemoryDisk | None = None, count: int = 10, **settings: object) -> Log:
    """One batch a segment, a day apart, the last one now."""
    config = topic_config(**{"segment_bytes": SIZE, "retention_ms": -1, "file_delete_delay_ms": 1000, **settings})
    log = Log.open(disk or MemoryDisk(), DIRECTORY, config, NOW_MS)
    for number in range(count):
        append(log, timestamp_ms=NOW_MS - (count - 1 - number) * DAY_MS)
    return log


def bases(log: Log) -> list[int]:
    return [segment.base_offset for segment in log.segments]


def test_nothing_goes_without_a_reason() -> None:
    log = filled()
    assert log.delete_old_segments(NOW_MS) == 0
    assert bases(log) == list(range(10))


def test_by_age() -> None:
    log = filled(retention_ms=3 * DAY_MS)
    assert log.delete_old_segments(NOW_MS) == 6  # older than three days, not just as old
    assert bases(log) == [6, 7, 8, 9]
    assert log.log_start_offset == 6
    assert log.delete_old_segments(NOW_MS) == 0


def test_by_age_also_the_active_one() -> None:
    log = filled(retention_ms=DAY_MS)
    assert log.delete_old_segments(NOW_MS + 30 * DAY_MS) == 10
    assert (log.log_start_offset, log.log_end_offset, bases(log)) == (10, 10, [10])
    assert log.delete_old_segments(NOW_MS + 60 * DAY_MS) == 0
    assert append(log).base_offset == 10


def test_a_young_segment_protects_those_behind_it() -> None:
    config = topic_config(segment_bytes=SIZE, retention_ms=DAY_MS)
    log = Log.open(MemoryDisk(), DIRECTORY, config, NOW_MS)
    for age_days in (9, 0, 9, 9):
        append(log, timestamp_ms=NOW_MS - age_days * DAY_MS)
    assert log.delete_old_segments(NOW_MS) == 1
    assert bases(log) == [1, 2, 3]


@pytest.mark.parametrize("kept", [1, 3, 9, 10, 20])
def test_by_size(kept: int) -> None:
    log = filled(retention_bytes=kept * SIZE)
    assert log.delete_old_segments(NOW_MS) == max(0, 10 - kept)
    assert log.size_bytes == min(kept, 10) * SIZE


def test_by_size_never_less_than_asked_for() -> None:
    log = filled(retention_bytes=3 * SIZE + 1)
    log.delete_old_segments(NOW_MS)
    assert log.size_bytes == 4 * SIZE


def test_by_size_zero_takes_all() -> None:
    log = filled(retention_bytes=0)
    assert log.delete_old_segments(NOW_MS) == 10
    assert (log.log_start_offset, log.size_bytes) == (10, 0)


def test_nothing_above_the_high_watermark_goes() -> None:
    disk = MemoryDisk()
    filled(disk).close()
    config = topic_config(segment_bytes=SIZE, retention_ms=1)
    log = Log.open(disk, DIRECTORY, config, NOW_MS, clean_shutdown=True)
    assert log.delete_old_segments(NOW_MS + 99 * DAY_MS) == 0
    log.high_watermark = 4
    assert log.delete_old_segments(NOW_MS + 99 * DAY_MS) == 4
    assert log.log_start_offset == 4


def test_a_compacted_topic_keeps_its_age() -> None:
    log = filled(retention_ms=DAY_MS, retention_bytes=0, cleanup_policy="compact")
    assert log.delete_old_segments(NOW_MS) == 0
    log.delete_records_before(3)
    assert log.delete_old_segments(NOW_MS) == 3
    log.update_config(topic_config(segment_bytes=SIZE, retention_ms=DAY_MS, cleanup_policy="compact,delete"))
    assert log.delete_old_segments(NOW_MS) == 5


def test_delete_records() -> None:
    config = topic_config(segment_bytes=3 * SIZE, retention_ms=-1)
    log = Log.open(MemoryDisk(), DIRECTORY, config, NOW_MS)
    for _ in range(10):
        append(log)
    assert log.delete_records_before(11) == ErrorCode.OFFSET_OUT_OF_RANGE
    assert log.delete_records_before(-1) == ErrorCode.OFFSET_OUT_OF_RANGE
    assert log.delete_records_before(4) == ErrorCode.NONE
    assert log.delete_records_before(2) == ErrorCode.NONE
    assert log.log_start_offset == 4
    assert [record.offset for record in read_all(log)] == list(range(4, 10))
    assert log.delete_old_segments(NOW_MS) == 1
    assert bases(log) == [3, 6, 9]
    assert log.log_start_offset == 4
    assert log.delete_records_before(10) == ErrorCode.NONE
    assert log.delete_old_segments(NOW_MS) == 2
    assert (log.log_start_offset, log.log_end_offset, bases(log)) == (10, 10, [9])
    assert log.leader_epochs.entries == [(0, 10)]
    assert log.recovery_point == 0  # nothing was synced; that it need not be is another matter
    assert not log.flush_due()


def test_files_are_renamed_first_and_removed_when_their_time_has_come() -> None:
    disk = MemoryDisk()
    log = filled(disk, retention_ms=3 * DAY_MS)
    log.delete_old_segments(NOW_MS)
    names = disk.list_directory(DIRECTORY)
    deleted = [name for name in names if name.endswith(".deleted")]
    assert {name[:20] for name in deleted} == {f"{n:020d}" for n in range(6)}
    assert len(deleted) == 18
    assert not any(name.startswith(f"{n:020d}") and not name.endswith(".deleted") for n in range(6) for name in names)
    assert log.next_file_deletion_ms == NOW_MS + 1000
    assert log.delete_files_due(NOW_MS + 999) == 0
    assert log.delete_files_due(NOW_MS + 1000) == 18
    assert log.next_file_deletion_ms is None
    assert not any(name.endswith(".deleted") for name in disk.list_directory(DIRECTORY))


def test_after_a_restart_the_deleted_stay_deleted() -> None:
    disk = MemoryDisk()
    log = filled(disk, retention_ms=3 * DAY_MS)
    log.delete_old_segments(NOW_MS)
    log.close()
    again = Log.open(disk, DIRECTORY, log.config, NOW_MS, clean_shutdown=True)
    assert bases(again) == [6, 7, 8, 9]
    assert again.log_start_offset == 6
    assert not any(name.endswith(".deleted") for name in disk.list_directory(DIRECTORY))


def test_retention_reads_each_old_segment_once() -> None:
    disk = MemoryDisk()
    log = filled(disk, count=50)
    log.close()
    log = Log.open(disk, DIRECTORY, topic_config(segment_bytes=SIZE), NOW_MS, clean_shutdown=True)
    log.high_watermark = 50
    log.delete_old_segments(NOW_MS)
    assert all(segment._file is None for segment in log.segments)

"""Reading: every offset, every limit, and readers that hold on to what is deleted."""

from pathlib import Path
from random import Random

import pytest
from log_fixtures import DIRECTORY, NOW_MS, append, batch, read_all, topic_config

from barnabas.log.log import Log
from barnabas.log.open_segments import OpenSegments
from barnabas.protocol.record_batch import Record, decode_records, encode_batch
from barnabas.runtime.interfaces import Disk
from barnabas.runtime.memory_disk import MemoryDisk
from barnabas.runtime.system.disk import SystemDisk


def filled(count: int = 30, disk: Disk | None = None, **settings: object) -> Log:
    """Batches of three records each, six segments or so."""
    config = topic_config(**{"segment_bytes": 900, "index_interval_bytes": 200, **settings})
    log = Log.open(disk or MemoryDisk(), DIRECTORY, config, NOW_MS)
    for _ in range(count):
        append(log, 3)
    return log


def offsets(data: bytes) -> list[int]:
    """Of every whole batch."""
    found = []
    view = memoryview(data)
    position = 0
    while len(view) - position >= 12:
        size = 12 + int.from_bytes(view[position + 8 : position + 12], "big")
        if position + size > len(view):
            break
        found += [record.offset for record in decode_records(view, position)]
        position += size
    return found


def test_every_offset_from_every_segment() -> None:
    log = filled()
    assert len(log.segments) > 5
    for offset in range(90):
        found = log.read(offset, 1, 90)
        assert found is not None
        assert offset in offsets(found.read())
        assert offsets(found.read())[0] == offset // 3 * 3


def test_a_million_records_at_random_offsets(tmp_path: Path) -> None:
    """On a real disk, in many segments: each is the one that was written there."""
    config = topic_config(segment_bytes=2_000_000)
    log = Log.open(SystemDisk(), str(tmp_path / "topic-0"), config, NOW_MS)
    kinds = [encode_batch([Record(n, NOW_MS, None, b"%d of %d" % (n, kind)) for n in range(500)]) for kind in range(41)]
    for number in range(2000):
        log.append_as_leader(memoryview(bytearray(kinds[number % 41])), 0, NOW_MS)
    assert len(log.segments) > 5
    log.close()
    log = Log.open(SystemDisk(), str(tmp_path / "topic-0"), config, NOW_MS, clean_shutdown=True)
    assert log.log_end_offset == 1_000_000
    chance = Random(5)
    for offset in [0, 999_999, *(chance.randrange(1_000_000) for _ in range(300))]:
        found = log.read(offset, 1, 1_000_000)
        assert found is not None
        batch = decode_records(found.read())
        value = b"%d of %d" % (offset % 500, offset // 500 % 41)
        assert batch[offset - batch[0].offset] == (offset, NOW_MS, None, value, [])
    log.close()


def test_nothing_outside_the_log_or_beyond_the_limit() -> None:
    log = filled()
    assert log.read(90, 1000, 90) is None
    assert log.read(91, 1000, 1000) is None
    assert log.read(30, 1000, 30) is None
    assert log.read(31, 1000, 30) is None
    log.delete_records_before(10)
    assert log.read(9, 1000, 90) is None
    assert log.read(10, 1000, 90) is not None


@pytest.mark.parametrize("end_offset", range(3, 90, 3))
def test_nothing_at_or_beyond_the_end_offset(end_offset: int) -> None:
    log = filled()
    assert [record.offset for record in read_all(log, end_offset)] == list(range(end_offset))
    found = log.read(end_offset - 3, 1 << 20, end_offset)
    assert found is not None
    assert offsets(found.read()) == list(range(end_offset - 3, end_offset))


@pytest.mark.parametrize("segment_bytes", [900, 1 << 20])
def test_the_limit_is_remembered_but_not_beyond_its_time(segment_bytes: int) -> None:
    log = filled(segment_bytes=segment_bytes)
    for end_offset in (30, 33, 30, 60, 87, 90, 33):
        assert read_all(log, end_offset)[-1].offset == end_offset - 1
    log.truncate_to(30, NOW_MS)
    for _ in range(5):
        append(log, 1, size=300)
    assert read_all(log, 33)[-1].offset == 32


def test_at_least_one_batch_whole_or_none() -> None:
    log = filled(segment_bytes=1 << 20)
    size = len(batch(3))
    whole = log.read(0, 1, 90, True)
    assert whole is not None
    assert whole.size_bytes == size
    for size_bytes_max in (-5, 0, 10, size - 1):
        assert log.read(0, size_bytes_max, 90, False) is None
    for at_least_one in (True, False):
        more = log.read(0, size + 5, 90, at_least_one)
        assert more is not None
        assert more.size_bytes == size + 5


def test_a_range_ends_with_its_segment() -> None:
    log = filled()
    found = log.read(0, 1 << 20, 90)
    assert found is not None
    assert (found.position, found.size_bytes) == (0, log.segments[0].size_bytes)
    assert offsets(found.read()) == list(range(log.segments[1].base_offset))


def test_gaps_at_the_end_of_a_segment_lead_into_the_next() -> None:
    log = Log.open(MemoryDisk(), DIRECTORY, topic_config(), NOW_MS)

    def follow(base_offset: int) -> None:
        data = encode_batch([Record(base_offset, NOW_MS, b"k", b"v")], base_offset=base_offset)
        log.append_as_follower(memoryview(data), NOW_MS)

    follow(0)
    log.roll(NOW_MS, 10)
    follow(15)
    found = log.read(5, 1000, log.log_end_offset)
    assert found is not None
    assert offsets(found.read()) == [15]
    assert log.read(1, 1000, 12) is None


@pytest.mark.parametrize("count_max", [1, 2, 1000])
def test_old_segments_are_open_only_as_far_as_allowed(count_max: int) -> None:
    pool = OpenSegments(count_max)
    disk = MemoryDisk()
    log = filled(60, disk)
    log.close()
    config = topic_config(segment_bytes=900, index_interval_bytes=200)
    log = Log.open(disk, DIRECTORY, config, NOW_MS, clean_shutdown=True, open_segments=pool)
    assert len(pool) == 0
    for _ in range(2):
        assert [record.offset for record in read_all(log)] == list(range(180))
    assert len(pool) <= count_max
    assert sum(segment._file is not None for segment in log.segments) <= count_max + 1
    log.close()
    assert len(pool) == 0


def test_a_reader_in_flight_is_not_cut_by_retention() -> None:
    disk = MemoryDisk()
    log = filled(disk=disk)
    found = log.read(0, 1 << 20, 90)
    assert found is not None
    before = found.read()
    log.delete_records_before(90)
    log.delete_old_segments(NOW_MS)
    assert log.delete_files_due(NOW_MS + 10**9) > 0
    assert not any(name.startswith(f"{0:020d}") for name in disk.list_directory(DIRECTORY))
    assert found.read() == before
    assert log.read(0, 1 << 20, 90) is None

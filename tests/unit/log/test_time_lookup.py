"""Offsets by timestamp, against a plain search."""

import random

import pytest
from log_fixtures import (
    DIRECTORY,
    NOW_MS,
    append,
    offset_for_timestamp,
    offset_of_max_timestamp,
    read_all,
    topic_config,
)

from barnabas.log.log import Log
from barnabas.protocol.compression import Codec
from barnabas.protocol.record_batch import Record, encode_batch
from barnabas.runtime.memory_disk import MemoryDisk


def shuffled_log(seed: int, codec: Codec, disk: MemoryDisk, **settings: object) -> Log:
    """Timestamps that rise on the whole and jump about in detail."""
    chance = random.Random(seed)
    config = topic_config(**{"segment_bytes": 2000, "index_interval_bytes": 200, **settings})
    log = Log.open(disk, DIRECTORY, config, NOW_MS)
    for number in range(60):
        entries = [
            Record(n, NOW_MS + number * 10 + chance.randint(-100, 100), b"k", b"v" * 20)
            for n in range(chance.randint(1, 6))
        ]
        log.append_as_leader(memoryview(encode_batch(entries, codec=codec)), number // 20, NOW_MS)
    log.high_watermark = log.log_end_offset
    return log


def check(log: Log) -> None:
    """At every seventh moment, before the first record and after the last one too."""
    records = read_all(log)
    for timestamp_ms in range(NOW_MS - 150, NOW_MS + 800, 7):
        first = next((record for record in records if record.timestamp_ms >= timestamp_ms), None)
        expected = first and (first.timestamp_ms, first.offset, log.leader_epoch_of(first.offset))
        assert offset_for_timestamp(log, timestamp_ms) == expected


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD])
@pytest.mark.parametrize("seed", range(4))
def test_the_first_record_at_or_after_a_moment(seed: int, codec: Codec) -> None:
    disk = MemoryDisk()
    log = shuffled_log(seed, codec, disk)
    assert len(log.segments) > 3
    check(log)
    log.delete_records_before(log.log_end_offset // 2)
    check(log)
    start = log.log_start_offset
    log.close()
    check(Log.open(disk, DIRECTORY, log.config, NOW_MS, clean_shutdown=True, log_start_offset=start))


@pytest.mark.parametrize("seed", range(4))
def test_the_first_of_the_latest_records(seed: int) -> None:
    log = shuffled_log(seed, Codec.LZ4, MemoryDisk())
    everything = read_all(log)
    latest = max(record.timestamp_ms for record in everything)
    offset = next(record.offset for record in everything if record.timestamp_ms == latest)
    assert offset_of_max_timestamp(log) == (latest, offset, log.leader_epoch_of(offset))


def test_an_empty_log_has_no_time() -> None:
    log = Log.open(MemoryDisk(), DIRECTORY, topic_config(), NOW_MS)
    assert offset_for_timestamp(log, 0) is None
    assert offset_of_max_timestamp(log) is None


def test_records_without_time_are_not_found() -> None:
    log = Log.open(MemoryDisk(lambda: NOW_MS), DIRECTORY, topic_config(), NOW_MS)
    append(log, timestamp_ms=-1)
    assert offset_for_timestamp(log, 5) is None
    assert offset_of_max_timestamp(log) is None


def test_everything_deleted() -> None:
    log = Log.open(MemoryDisk(), DIRECTORY, topic_config(), NOW_MS)
    append(log, 5)
    log.delete_records_before(5)
    assert offset_for_timestamp(log, 0) is None


def test_the_log_start_may_lie_within_a_batch() -> None:
    log = Log.open(MemoryDisk(), DIRECTORY, topic_config(), NOW_MS)
    append(log, 5)
    log.delete_records_before(3)
    assert offset_for_timestamp(log, 0) == (NOW_MS + 3, 3, 0)


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
def test_the_latest_record_is_found_though_an_index_was_deleted_after_a_clean_stop(suffix: str) -> None:
    disk = MemoryDisk()
    log = Log.open(disk, DIRECTORY, topic_config(), NOW_MS)
    for timestamp_ms in (NOW_MS, NOW_MS + 9, NOW_MS + 3):
        log.append_as_leader(memoryview(encode_batch([Record(0, timestamp_ms, b"k", b"v")])), 0, NOW_MS)
    log.close()
    disk.remove(f"{DIRECTORY}/{0:020d}{suffix}")
    log = Log.open(disk, DIRECTORY, topic_config(), NOW_MS, clean_shutdown=True)
    assert offset_of_max_timestamp(log) == (NOW_MS + 9, 1, 0)

"""Truncating the new end, as followers do, and starting over."""

from random import Random

import pytest
from log_fixtures import DIRECTORY, NOW_MS, append, batch, filled, read_all, simulated_disk, topic_config

from barnabas.errors import ErrorCode
from barnabas.log.log import AppendOrigin, Log
from barnabas.protocol.control_records import TransactionMarker, encode_transaction_marker
from barnabas.protocol.record_batch import read_header
from barnabas.runtime.memory_disk import MemoryDisk
from barnabas.simulation.disk import Survival


@pytest.mark.parametrize("offset", range(31))
def test_the_log_is_as_if_the_rest_had_never_been(offset: int) -> None:
    disk, fresh_disk = MemoryDisk(), MemoryDisk()
    log = filled(disk)
    assert log.truncate_to(offset, NOW_MS) == (offset < 30)
    fresh = filled(fresh_disk, offset)
    assert (log.log_end_offset, log.high_watermark, log.size_bytes) == (offset, offset, fresh.size_bytes)
    assert log.leader_epochs.entries == fresh.leader_epochs.entries
    assert log.producers.encode() == fresh.producers.encode()
    assert read_all(log) == read_all(fresh)
    for sequence in range(offset, 40):
        for each in (log, fresh):
            append(each, leader_epoch=7, producer_id=9, producer_epoch=0, base_sequence=sequence)
    assert read_all(log) == read_all(fresh)
    assert log.leader_epochs.entries == fresh.leader_epochs.entries
    log.close()
    again = Log.open(disk, DIRECTORY, log.config, NOW_MS, clean_shutdown=True)
    assert read_all(again) == read_all(fresh)
    assert again.producers.encode() == fresh.producers.encode()


def test_within_a_batch_all_of_it_goes() -> None:
    log = Log.open(MemoryDisk(), DIRECTORY, topic_config(), NOW_MS)
    append(log, 5)
    append(log, 5)
    log.truncate_to(7, NOW_MS)
    assert log.log_end_offset == 5
    assert [record.offset for record in read_all(log)] == list(range(5))


def test_places_of_batches_that_are_gone_are_forgotten() -> None:
    log = Log.open(MemoryDisk(), DIRECTORY, topic_config(), NOW_MS)
    for _ in range(30):
        append(log)
    log.truncate_to(10, NOW_MS)
    append(log, 20)  # the same offsets, in one batch
    for offset in range(10, 30):
        found = log.read(offset, 1, 30)
        assert found is not None
        assert read_header(found.read()).base_offset == 10


def test_before_the_first_segment_starts_over_there() -> None:
    log = filled(MemoryDisk())
    log.delete_records_before(20)
    log.delete_old_segments(NOW_MS)
    assert log.segments[0].base_offset > 5
    log.truncate_to(5, NOW_MS)
    assert (log.log_start_offset, log.log_end_offset, log.high_watermark) == (5, 5, 5)
    assert append(log).base_offset == 5


@pytest.mark.parametrize("offset", [0, 5, 12, 24, 30, 1000])
def test_starting_over(offset: int) -> None:
    disk = MemoryDisk()
    log = filled(disk)
    log.truncate_fully_and_start_at(offset, NOW_MS)
    assert (log.log_start_offset, log.log_end_offset, log.high_watermark, log.size_bytes) == (offset,) * 3 + (0,)
    assert len(log.producers) == 0
    assert log.leader_epochs.entries == []
    assert append(log, 2, leader_epoch=5).base_offset == offset
    assert [record.offset for record in read_all(log)] == [offset, offset + 1]
    log.delete_files_due(NOW_MS + 10**9)
    assert [record.offset for record in read_all(log)] == [offset, offset + 1]
    log.close()
    again = Log.open(disk, DIRECTORY, log.config, NOW_MS, clean_shutdown=True, log_start_offset=offset)
    assert [record.offset for record in read_all(again)] == [offset, offset + 1]


def test_the_recovery_point_falls_and_a_flush_that_began_before_counts_for_nothing() -> None:
    log = filled(MemoryDisk())
    log.flush()
    assert log.recovery_point == 30
    log.truncate_to(12, NOW_MS)
    assert log.recovery_point == 12
    append(log)
    assert log.recovery_point == 12
    log.flush()
    assert log.recovery_point == 13


def test_truncation_is_on_the_platter_at_once() -> None:
    disk = simulated_disk()
    log = filled(disk)
    log.flush()
    log.truncate_to(12, NOW_MS)
    left = disk.image(Random(0), Survival.NONE)
    again = Log.open(left, DIRECTORY, log.config, NOW_MS, recovery_point=log.recovery_point)
    assert [record.offset for record in read_all(again)] == list(range(12))
    assert again.leader_epochs.entries == [(0, 0), (1, 10)]


def test_aborted_transactions_behind_the_cut_are_forgotten() -> None:
    log = Log.open(MemoryDisk(), DIRECTORY, topic_config(), NOW_MS)

    def transaction(producer_id: int) -> None:
        data = batch(1, producer_id=producer_id, producer_epoch=0, base_sequence=0, transactional=True)
        assert log.append_as_leader(data, 0, NOW_MS).error == ErrorCode.NONE
        marker = encode_transaction_marker(
            TransactionMarker(False, 0), producer_id=producer_id, producer_epoch=0, timestamp_ms=NOW_MS
        )
        info = log.append_as_leader(memoryview(marker), 0, NOW_MS, AppendOrigin.COORDINATOR)
        assert info.error == ErrorCode.NONE
        log.high_watermark = log.log_end_offset

    transaction(1)
    transaction(2)
    log.truncate_to(3, NOW_MS)
    assert [entry.producer_id for entry in log.segments[0].transaction_index.entries()] == [1]
    assert log.last_stable_offset == 2
    transaction(3)
    assert [entry.producer_id for entry in log.segments[0].transaction_index.entries()] == [1, 3]


@pytest.mark.parametrize("kind", ["truncate", "rename", "sync", "create", "remove"])
@pytest.mark.parametrize("nth", [1, 2, 3])
def test_a_truncation_that_fails_half_way_takes_no_more_appends(kind: str, nth: int) -> None:
    disk = simulated_disk()
    log = filled(disk)
    disk.fail(kind, nth=nth)
    try:
        log.truncate_to(12, NOW_MS)
    except OSError:
        assert log.is_offline
        with pytest.raises(OSError, match="opened anew"):
            append(log)
    else:
        assert not log.is_offline
    disk.heal()
    again = Log.open(disk.kill(), DIRECTORY, log.config, NOW_MS)
    assert again.log_end_offset >= 12
    again.truncate_to(12, NOW_MS)
    assert [record.offset for record in read_all(again)] == list(range(12))

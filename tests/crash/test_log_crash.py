"""A crash at every operation of the disk, whatever it leaves of what was not synced: the log recovers."""

import errno
from random import Random

import pytest
from log_fixtures import DIRECTORY, NOW_MS, append, batch, read_all, simulated_disk
from log_workload import CONFIG, Workload, open_log

from barnabas.errors import ErrorCode
from barnabas.log.log import Log
from barnabas.simulation.disk import SimulatedDisk, Survival


@pytest.mark.parametrize("seed", range(10))
def test_a_crash_at_every_operation(seed: int) -> None:
    workload = Workload(seed)
    workload.run(60)
    assert workload.checked > 200


def test_a_batch_torn_at_every_byte() -> None:
    disk = simulated_disk()
    log = Log.open(disk, DIRECTORY, CONFIG, NOW_MS)
    append(log, 2)
    whole = log.size_bytes
    append(log, 3)
    data = disk.read_bytes(log.segments[0].log_path)
    for size in range(whole, len(data)):
        left = disk.image(Random(0), Survival.ALL)
        left.open(log.segments[0].log_path).truncate(size)
        again = open_log(left)
        assert (again.log_end_offset, again.size_bytes) == (2, whole)
        assert append(again).base_offset == 2
        assert len(read_all(again)) == 3


def test_every_single_bit_of_the_last_batch_counts() -> None:
    disk = simulated_disk()
    log = Log.open(disk, DIRECTORY, CONFIG, NOW_MS)
    append(log, 2, leader_epoch=1)
    whole = log.size_bytes
    append(log, 3, leader_epoch=1)
    path = log.segments[0].log_path
    data = disk.read_bytes(path)
    for position in range(whole + 16, len(data)):  # offset, length and epoch lie outside the CRC
        left = disk.image(Random(0), Survival.ALL)
        left.open(path).write(position, bytes([data[position] ^ 1]))
        assert open_log(left).log_end_offset == 2


@pytest.mark.parametrize("space_bytes", range(0, 4000, 61))
def test_a_disk_that_runs_full_loses_nothing_that_was_accepted(space_bytes: int) -> None:
    disk = simulated_disk()
    log = Log.open(disk, DIRECTORY, CONFIG, NOW_MS)
    disk.set_free_bytes(space_bytes)
    accepted = 0
    failures = set()
    for _ in range(30):
        try:
            append(log)
            accepted += 1
        except OSError as failure:
            failures.add(failure.errno)
    assert failures <= {errno.ENOSPC}
    assert log.log_end_offset == accepted
    assert [record.offset for record in read_all(log)] == list(range(accepted))
    for again in (log, open_log(disk_with_room(disk))):
        assert [record.offset for record in read_all(again)] == list(range(accepted))
    disk.set_free_bytes(1 << 20)
    for _ in range(10):
        append(log)
    assert [record.offset for record in read_all(log)] == list(range(accepted + 10))
    log.close()
    assert len(read_all(open_log(disk))) == accepted + 10


def disk_with_room(disk: SimulatedDisk) -> SimulatedDisk:
    """What a process that is killed leaves; the next one finds some space again."""
    return disk.image(Random(0), Survival.ALL)


@pytest.mark.parametrize("kind", ["write", "truncate", "sync", "create", "rename", "remove"])
@pytest.mark.parametrize("nth", range(1, 12, 2))
def test_an_error_anywhere_loses_nothing_that_was_accepted(kind: str, nth: int) -> None:
    """Not even if the machine crashes right after the error, as far as it was flushed."""
    disk = simulated_disk()
    log = Log.open(disk, DIRECTORY, CONFIG, NOW_MS)
    disk.fail(kind, nth=nth)
    accepted = 0
    for number in range(25):
        try:
            append(log)
            accepted = log.log_end_offset
            if number % 5 == 4:
                log.flush()
            if number % 7 == 6:
                log.delete_records_before(accepted // 3)
                log.delete_old_segments(NOW_MS)
                log.delete_files_due(NOW_MS)
        except OSError:
            synced = log.recovery_point
            left = disk.image(Random(number), Survival.SOME)
            assert open_log(left).log_end_offset >= synced
            if log.is_offline:
                log.abandon()
                log = open_log(disk)
                log.high_watermark = log.log_end_offset
                assert log.log_end_offset == accepted
    disk.heal()
    expected = list(range(log.log_start_offset, log.log_end_offset))
    assert [record.offset for record in read_all(log)] == expected
    log.close()
    assert [record.offset for record in read_all(open_log(disk))][-len(expected) :] == expected


def test_after_recovery_a_producer_may_repeat_and_go_on() -> None:
    """The answer to its last batch was lost in the crash: it sends it again."""
    disk = simulated_disk()
    log = Log.open(disk, DIRECTORY, CONFIG, NOW_MS)
    for sequence in range(20):
        append(log, producer_id=9, producer_epoch=0, base_sequence=sequence)
    log.flush()
    left = disk.crash(Random(1))
    again = open_log(left)
    repeated = again.append_as_leader(batch(1, producer_id=9, producer_epoch=0, base_sequence=19), 0, NOW_MS)
    assert (repeated.error, repeated.duplicate, repeated.base_offset) == (ErrorCode.NONE, True, 19)
    following = again.append_as_leader(batch(1, producer_id=9, producer_epoch=0, base_sequence=20), 0, NOW_MS)
    assert (following.error, following.duplicate, following.base_offset) == (ErrorCode.NONE, False, 20)

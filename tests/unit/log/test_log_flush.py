"""Flushing: when it is due, what it syncs, and what it may run beside."""

import errno
import threading
from random import Random

import pytest
from log_fixtures import DIRECTORY, NOW_MS, append, read_all, simulated_disk, topic_config

from barnabas.log.leader_epochs import LEADER_EPOCH_FILE_NAME, LeaderEpochs
from barnabas.log.log import Log
from barnabas.log.producer_state import snapshot_file_name
from barnabas.runtime.interfaces import Buffer
from barnabas.runtime.memory_disk import MemoryDisk
from barnabas.simulation.disk import SimulatedDisk, Survival


def new_log(disk: MemoryDisk | SimulatedDisk | None = None, **settings: object) -> Log:
    return Log.open(disk or MemoryDisk(), DIRECTORY, topic_config(**settings), NOW_MS)


def survivors(disk: SimulatedDisk, log: Log) -> list[int]:
    """What is read back if the power fails now and the disk keeps nothing that it need not."""
    left = disk.image(Random(0), Survival.NONE)
    again = Log.open(left, DIRECTORY, log.config, NOW_MS, recovery_point=log.recovery_point)
    return [record.offset for record in read_all(again)]


def test_never_due_by_default() -> None:
    log = new_log()
    append(log, 100)
    assert not log.flush_due()
    assert not log.flush_due(NOW_MS + 10**12)


def test_due_by_messages() -> None:
    log = new_log(flush_messages=5)
    append(log, 4)
    assert not log.flush_due()
    append(log)
    assert log.flush_due()
    log.flush()
    assert not log.flush_due()
    assert log.recovery_point == 5


def test_due_by_time() -> None:
    log = new_log(flush_ms=100)
    assert not log.flush_due(NOW_MS + 1000)
    append(log)
    assert not log.flush_due()
    assert not log.flush_due(NOW_MS + 99)
    assert log.flush_due(NOW_MS + 100)
    log.flush(now_ms=NOW_MS + 100)
    append(log)
    assert not log.flush_due(NOW_MS + 199)
    assert log.flush_due(NOW_MS + 200)


def test_what_was_flushed_survives_and_what_was_not_may_not() -> None:
    disk = simulated_disk()
    log = new_log(disk)
    for _ in range(3):
        append(log, 2)
    assert survivors(disk, log) == []
    log.flush()
    append(log, 2)
    assert survivors(disk, log) == list(range(6))
    log.flush()
    assert survivors(disk, log) == list(range(8))


def test_a_log_made_after_a_clean_start_survives_its_flush() -> None:
    """The directory as a whole was stopped cleanly; this partition was not there then."""
    disk = simulated_disk()
    log = Log.open(disk, DIRECTORY, topic_config(), NOW_MS, clean_shutdown=True)
    append(log, 3)
    log.flush()
    assert survivors(disk, log) == [0, 1, 2]


def test_finished_segments_are_flushed_apart() -> None:
    disk = simulated_disk()
    log = new_log(disk, segment_bytes=300, index_interval_bytes=100)
    assert not log.has_unsynced_segments
    for _ in range(10):
        append(log)
    assert log.has_unsynced_segments
    base_offset = log.segments[-1].base_offset
    log.flush_finished()
    assert log.recovery_point == base_offset > 0
    assert not log.has_unsynced_segments
    assert survivors(disk, log)[:base_offset] == list(range(base_offset))


def test_flush_up_to_an_offset() -> None:
    log = new_log()
    append(log, 10)
    log.flush(4)
    assert log.recovery_point == 4
    log.flush(2)
    assert log.recovery_point == 4
    log.flush(99)
    assert log.recovery_point == 10


@pytest.mark.parametrize("nth", range(1, 7))
def test_a_failed_sync_promises_nothing_and_ends_the_writing(nth: int) -> None:
    """Asked again the system may say that all is well, and have dropped what it could not write."""
    disk = simulated_disk()
    log = new_log(disk, segment_bytes=300, index_interval_bytes=100)
    for _ in range(6):
        append(log)
    disk.fail("sync", nth=nth, error=errno.EIO)
    with pytest.raises(OSError):
        log.flush()
    assert log.recovery_point == 0
    assert log.is_offline
    for use in (log.flush, log.close, lambda: append(log)):
        with pytest.raises(OSError, match="opened anew"):
            use()  # type: ignore[operator]
    assert [record.offset for record in read_all(log)] == list(range(6))
    disk = disk.kill()
    again = Log.open(disk, DIRECTORY, log.config, NOW_MS, recovery_point=log.recovery_point)
    assert append(again).base_offset == 6
    again.flush()
    assert again.recovery_point == 7
    assert survivors(disk, again) == list(range(7))


@pytest.mark.parametrize("kind", ["create", "write", "rename"])
def test_a_checkpoint_that_cannot_be_written_can_be_repeated(kind: str) -> None:
    disk = simulated_disk()
    log = new_log(disk)
    append(log)
    disk.fail(kind, error=errno.ENOSPC)
    with pytest.raises(OSError):
        log.flush()
    assert log.recovery_point == 0
    append(log)
    log.flush()
    assert log.recovery_point == 2
    assert survivors(disk, log) == [0, 1]


def test_a_deleted_segment_need_not_be_synced_and_does_not_come_back() -> None:
    disk = simulated_disk()
    log = new_log(disk, segment_bytes=300)
    for _ in range(10):
        append(log)
    log.delete_records_before(10)
    log.delete_old_segments(NOW_MS)
    names = disk.list_directory(DIRECTORY)
    log.flush()
    assert [n for n in disk.list_directory(DIRECTORY) if n not in names] == ["leader-epoch-checkpoint"]
    assert log.recovery_point == 10


def test_flush_runs_on_another_thread_while_appends_go_on() -> None:
    log = new_log(segment_bytes=2000, index_interval_bytes=100)
    stop = threading.Event()
    failures: list[BaseException] = []
    points: list[int] = []

    def flush() -> None:
        try:
            while not stop.is_set():
                log.flush()
                points.append(log.recovery_point)
        except BaseException as failure:
            failures.append(failure)

    thread = threading.Thread(target=flush)
    thread.start()
    for number in range(2000):
        append(log)
        if number % 500 == 499:
            log.delete_records_before(number - 100)
            log.delete_old_segments(NOW_MS)
    stop.set()
    thread.join(30)
    assert not failures
    assert points == sorted(points)
    log.flush()
    assert log.recovery_point == 2000
    assert [record.offset for record in read_all(log)] == list(range(log.log_start_offset, 2000))


def test_a_truncation_during_a_flush_wins() -> None:
    disk = simulated_disk()
    log = new_log(disk)
    append(log, 5)
    append(log, 5)

    def truncate(kind: str) -> None:
        disk.on_operation = None
        log.truncate_to(5, NOW_MS)

    disk.on_operation = truncate
    log.flush()
    assert log.recovery_point <= 5
    append(log, 5)
    log.flush()
    assert log.recovery_point == 10


class InterruptedDisk(MemoryDisk):
    """The first one to replace the file of the leader epochs does so only when the second one has, and is not done."""

    def __init__(self) -> None:
        super().__init__()
        self.replacements = 0
        self.is_held = threading.Event()
        self.go_on = threading.Event()
        self.is_flushed = threading.Event()

    def write_atomically(self, path: str, data: Buffer) -> None:
        if not path.endswith(LEADER_EPOCH_FILE_NAME):
            super().write_atomically(path, data)
            return
        self.replacements += 1
        number = self.replacements
        if number == 1:
            self.is_held.set()
            assert self.go_on.wait(30)
        super().write_atomically(path, data)
        if number == 2:
            self.go_on.set()
            assert self.is_flushed.wait(30)


def test_what_a_truncation_says_of_epochs_is_the_last_word() -> None:
    """A sync in the background, which had begun before, replaced the file behind the truncation, and that stayed so."""
    disk = InterruptedDisk()
    log = new_log(disk)
    append(log, 5, leader_epoch=1)
    append(log, 5, leader_epoch=2)

    def flush() -> None:
        log.flush()
        disk.is_flushed.set()

    thread = threading.Thread(target=flush)
    thread.start()
    assert disk.is_held.wait(30)
    log.truncate_to(5, NOW_MS)
    thread.join(30)
    log.close()
    written = LeaderEpochs.decode(disk.read_bytes(f"{DIRECTORY}/{LEADER_EPOCH_FILE_NAME}"), "test")
    assert written.entries == log.leader_epochs.entries == [(1, 0)]


def test_a_clean_stop_right_after_a_roll_keeps_what_is_known_of_producers() -> None:
    """A roll writes it unsynced, and the stop found it already written."""
    disk = simulated_disk()
    log = new_log(disk)
    append(log, producer_id=7, producer_epoch=0, base_sequence=0)
    log.roll(NOW_MS)
    log.close()
    left = disk.image(Random(0), Survival.NONE)
    assert left.read_bytes(f"{DIRECTORY}/{snapshot_file_name(1)}") == log.producers.encode()


def test_a_clean_stop_syncs_each_file_once() -> None:
    disk = simulated_disk()
    log = new_log(disk, segment_bytes=300, index_interval_bytes=100)
    for number in range(6):
        append(log, producer_id=7, producer_epoch=0, base_sequence=number)
    log.flush()
    append(log, producer_id=7, producer_epoch=0, base_sequence=6)
    synced: list[str] = []
    disk.on_change = lambda kind, path: synced.append(path) if kind == "sync" else None
    log.close()
    assert sorted(synced) == sorted(set(synced))
    assert DIRECTORY in synced
    assert DIRECTORY.rpartition("/")[0] not in synced  # the name of the directory was synced before


@pytest.mark.parametrize("interrupted", range(5))
def test_a_flush_beside_another_counts_nothing_that_only_the_other_syncs(interrupted: int) -> None:
    """The first flush took a file off the list and had not synced it yet; the second one found nothing to do."""
    disk = simulated_disk()
    log = new_log(disk)
    append(log)
    log.roll(NOW_MS)
    append(log)
    syncs = 0
    survived: list[int] = []

    def sync_begins(kind: str) -> None:
        nonlocal syncs
        syncs += kind == "sync"
        if kind == "sync" and syncs == interrupted + 1:
            log.flush()
            survived.extend(survivors(disk, log))

    disk.before_operation = sync_begins
    log.flush_finished()
    assert survived == [0, 1]

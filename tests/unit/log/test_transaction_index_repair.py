"""A damaged transaction index: opening the log builds it anew from the batches."""

from random import Random

import pytest
from log_fixtures import DIRECTORY, NOW_MS, SMALL, append, simulated_disk, topic_config

from barnabas.log.append import AppendOrigin
from barnabas.log.log import Log
from barnabas.log.transaction_index import ENTRY_BYTES, AbortedTransaction
from barnabas.protocol.control_records import TransactionMarker, encode_transaction_marker
from barnabas.simulation.disk import SimulatedDisk, Survival

SUFFIX = ".txnindex"
DAMAGES = {
    "torn": lambda data: data[:-1],
    "garbage": lambda data: b"garbage",
    "another version": lambda data: b"\0\7" + data[2:],
    "of another segment": lambda data: data[:18] + (-1).to_bytes(8, "big", signed=True) + data[26:],
}


def opened(disk: SimulatedDisk, *, clean: bool = True) -> Log:
    return Log.open(disk, DIRECTORY, topic_config(**SMALL), NOW_MS, clean_shutdown=clean, recovery_point=1 << 40)


def with_aborts(disk: SimulatedDisk) -> Log:
    """Several segments, transactions of three producers that overlap, and reach from one segment into others."""
    log = opened(disk)
    for number in range(60):
        producer_id = number % 3
        append(log, producer_id=producer_id, producer_epoch=0, base_sequence=number // 3, transactional=True)
        if number % 7 == 6:
            marker = TransactionMarker(number % 2 == 0, 0)
            batch = encode_transaction_marker(marker, producer_id=producer_id, producer_epoch=0, timestamp_ms=NOW_MS)
            assert log.append_as_leader(memoryview(batch), 0, NOW_MS, AppendOrigin.COORDINATOR).error == 0
            log.high_watermark = log.log_end_offset
    return log


def indexes(disk: SimulatedDisk) -> dict[str, bytes]:
    paths = [f"{DIRECTORY}/{name}" for name in disk.list_directory(DIRECTORY) if name.endswith(SUFFIX)]
    return {path: disk.read_bytes(path) for path in paths}


def write(disk: SimulatedDisk, path: str, data: bytes) -> None:
    file = disk.open(path)
    file.truncate(0)
    file.write(0, data)
    file.sync()
    file.close()


def aborted(log: Log) -> list[AbortedTransaction]:
    found = log.read(0, 1 << 20, log.log_end_offset)
    assert found is not None
    return log.aborted_transactions(0, found)


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("snapshots", ["sound", "damaged"])
def test_a_damaged_index_is_rebuilt(damage: str, clean: bool, snapshots: str, caplog: pytest.LogCaptureFixture) -> None:
    disk = simulated_disk()
    log = with_aborts(disk)
    expected = aborted(log)
    log.close()
    sound = indexes(disk)
    assert len(sound) > 2
    assert len(expected) > 0
    for path, data in sound.items():
        write(disk, path, DAMAGES[damage](data))
    if snapshots == "damaged":
        for name in disk.list_directory(DIRECTORY):
            if name.endswith(".snapshot"):
                write(disk, f"{DIRECTORY}/{name}", b"garbage")
    log = opened(disk, clean=clean)
    assert indexes(disk) == sound
    assert aborted(log) == expected
    assert "rebuilt with" in caplog.text
    log.close()


def test_entries_that_no_marker_stands_for_go() -> None:
    disk = simulated_disk()
    log = opened(disk)
    append(log, 5)
    log.close()
    path = f"{DIRECTORY}/{0:020d}{SUFFIX}"
    write(disk, path, b"\0\7" + bytes(ENTRY_BYTES - 2))
    log = opened(disk)
    assert not disk.exists(path)
    assert aborted(log) == []


def test_sound_indexes_are_left_alone(caplog: pytest.LogCaptureFixture) -> None:
    disk = simulated_disk()
    with_aborts(disk).close()
    before = indexes(disk)
    opened(disk).close()
    assert indexes(disk) == before
    assert caplog.text == ""


def test_a_log_opens_although_its_index_cannot_be_rebuilt(caplog: pytest.LogCaptureFixture) -> None:
    disk = simulated_disk()
    log = with_aborts(disk)
    end_offset = log.log_end_offset
    log.close()
    path, data = next(iter(indexes(disk).items()))
    write(disk, path, data[:-1])
    write(disk, path.replace(SUFFIX, ".log"), bytes(disk.size(path.replace(SUFFIX, ".log"))))
    log = opened(disk)
    assert log.log_end_offset == end_offset
    assert "cannot be rebuilt" in caplog.text
    assert disk.read_bytes(path) == data[:-1]


def test_a_crash_after_the_repair_leaves_the_whole_index() -> None:
    """Below the recovery point nothing looks at the batches again: an index with too few entries would stay."""
    disk = simulated_disk()
    with_aborts(disk).close()
    sound = indexes(disk)
    for path, data in sound.items():
        write(disk, path, data[:-1])
    opened(disk)
    left = disk.image(Random(0), Survival.NONE)
    assert indexes(left) == sound

"""After a restart a snapshot knows the last batch of each producer; the ones before are found in the log again."""

import pytest
from log_fixtures import NOW_MS, batch, topic_config

from barnabas.errors import ErrorCode
from barnabas.log.log import Log
from barnabas.runtime.memory_disk import MemoryDisk

DIRECTORY = "/log"


def opened(disk: MemoryDisk, *, clean_shutdown: bool, **settings: object) -> Log:
    return Log.open(disk, DIRECTORY, topic_config(**settings), NOW_MS, clean_shutdown=clean_shutdown)


def send(log: Log, sequence: int, producer_id: int = 9, epoch: int = 0) -> tuple[ErrorCode, int, bool]:
    data = batch(1, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence)
    info = log.append_as_leader(data, 0, NOW_MS)
    return info.error, info.base_offset, info.duplicate


@pytest.mark.parametrize("segment_bytes", [100, 250, 1 << 20])
@pytest.mark.parametrize("clean", [True, False])
def test_all_that_may_be_sent_again_is_known_after_a_restart(segment_bytes: int, clean: bool) -> None:
    disk = MemoryDisk()
    disk.make_directories(DIRECTORY)
    log = opened(disk, clean_shutdown=False, internal_segment_bytes=segment_bytes)
    for number in range(8):
        assert send(log, number) == (ErrorCode.NONE, 2 * number, False)
        assert send(log, number, producer_id=8) == (ErrorCode.NONE, 2 * number + 1, False)
    if clean:
        log.close()
    log = opened(disk, clean_shutdown=clean, internal_segment_bytes=segment_bytes)
    assert [send(log, number) for number in range(3, 8)] == [
        (ErrorCode.NONE, 2 * number, True) for number in range(3, 8)
    ]
    assert send(log, 2)[0] == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert send(log, 9)[0] == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert send(log, 8) == (ErrorCode.NONE, 16, False)


def test_batches_of_an_earlier_epoch_are_not_recalled() -> None:
    disk = MemoryDisk()
    disk.make_directories(DIRECTORY)
    log = opened(disk, clean_shutdown=False)
    for number in range(3):
        send(log, number)
    for number in range(2):
        send(log, number, epoch=1)
    log.close()
    log = opened(disk, clean_shutdown=True)
    assert send(log, 0, epoch=1) == (ErrorCode.NONE, 3, True)
    assert send(log, 2, epoch=0)[0] == ErrorCode.INVALID_PRODUCER_EPOCH
    assert send(log, 2, epoch=1) == (ErrorCode.NONE, 5, False)

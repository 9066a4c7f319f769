"""Opening: after a clean stop, after a crash, with files missing, broken or written by Kafka."""

from pathlib import Path

import pytest
from log_fixtures import (
    DIRECTORY,
    NOW_MS,
    SMALL,
    append,
    batch,
    filled,
    offset_for_timestamp,
    read_all,
    simulated_disk,
    topic_config,
)

from barnabas.errors import ErrorCode
from barnabas.log.log import Log
from barnabas.log.recovery import read_topic_id
from barnabas.log.scan import headers_from
from barnabas.protocol.record_batch import Record, encode_batch
from barnabas.runtime.memory_disk import MemoryDisk
from barnabas.simulation.disk import SimulatedDisk

KAFKA = Path(__file__).parents[2] / "data" / "kafka-4.3.1"


def reopened(disk: MemoryDisk | SimulatedDisk, **settings: object) -> Log:
    return Log.open(disk, DIRECTORY, topic_config(**SMALL), NOW_MS, **settings)  # type: ignore[arg-type]


def check_whole(log: Log, count: int = 30) -> None:
    assert log.log_end_offset == count
    assert [record.offset for record in read_all(log)] == list(range(count))
    assert log.leader_epochs.entries == [(epoch, epoch * 10) for epoch in range((count + 9) // 10)]
    state = log.producers.get(9)
    assert state is not None
    assert state.last_sequence == count - 1
    repeated = log.append_as_leader(batch(1, producer_id=9, producer_epoch=0, base_sequence=count - 1), 9, NOW_MS)
    assert (repeated.duplicate, repeated.base_offset) == (True, count - 1)
    append(log, producer_id=9, producer_epoch=0, base_sequence=count, leader_epoch=9)


def path(base_offset: int, suffix: str) -> str:
    return f"{DIRECTORY}/{base_offset:020d}{suffix}"


def test_a_new_log_is_one_empty_file() -> None:
    disk = MemoryDisk()
    log = Log.open(disk, DIRECTORY, topic_config(), NOW_MS)
    assert disk.list_directory(DIRECTORY) == [f"{0:020d}.log"]
    assert (log.log_start_offset, log.log_end_offset, log.high_watermark, log.last_stable_offset) == (0, 0, 0, 0)
    assert log.segments[0]._file is None
    log.close()
    assert disk.list_directory(DIRECTORY) == [f"{0:020d}.log"]


def test_a_new_log_may_begin_anywhere() -> None:
    log = Log.open(MemoryDisk(), DIRECTORY, topic_config(), NOW_MS, log_start_offset=500)
    assert (log.log_start_offset, log.log_end_offset) == (500, 500)
    assert append(log).base_offset == 500


def test_after_a_clean_stop() -> None:
    disk = MemoryDisk()
    log = filled(disk)
    log.close()
    assert log.recovery_point == 30
    log = reopened(disk, clean_shutdown=True)
    assert log.recovery_point == 30
    check_whole(log)


def test_a_clean_start_reads_only_the_end() -> None:
    disk = simulated_disk()
    filled(disk, 300).close()
    reads: list[tuple[str, int]] = []
    original = disk.open

    def counting(path: str):  # type: ignore[no-untyped-def]
        file = original(path)
        read = file.read

        def counted(position: int, size: int) -> bytes:
            reads.append((path, size))
            return read(position, size)

        file.read = counted  # type: ignore[method-assign]
        return file

    disk.open = counting  # type: ignore[method-assign]
    log = reopened(disk, clean_shutdown=True)
    assert len(log.segments) == 50
    assert {name for name, _ in reads} <= {log.segments[-1].log_path}
    assert disk.list_directory(DIRECTORY)
    check_whole(log, 300)


@pytest.mark.parametrize("recovery_point", [0, 1, 7, 15, 30, 99])
def test_after_a_crash_of_the_process_nothing_is_lost(recovery_point: int) -> None:
    disk = MemoryDisk()
    filled(disk)
    log = reopened(disk, recovery_point=recovery_point)
    assert log.recovery_point == min(recovery_point, 30)
    check_whole(log)
    log.flush()
    assert log.recovery_point == 31


def test_a_snapshot_at_each_roll_saves_reading_what_is_before() -> None:
    disk = MemoryDisk()
    log = filled(disk)
    names = disk.list_directory(DIRECTORY)
    bases = [segment.base_offset for segment in log.segments]
    assert [name for name in names if name.endswith(".snapshot")] == [f"{base:020d}.snapshot" for base in bases[1:]]
    # Below the recovery point nothing may be read, for the state of producers either.
    log.flush()
    disk.open(log.segments[1].log_path).write(0, bytes(100))
    log = reopened(disk, recovery_point=bases[3])
    assert log.producers.get(9) is not None
    assert log.producers.get(9).last_sequence == 29  # type: ignore[union-attr]


def test_an_uncut_index_after_a_crash_is_rebuilt() -> None:
    disk = MemoryDisk()
    log = filled(disk)
    active = log.segments[-1]
    assert disk.size(active.offset_index.path) > 1000
    log = reopened(disk, recovery_point=0)
    log.close()
    log = reopened(disk, clean_shutdown=True)
    assert all(disk.size(segment.offset_index.path) < 100 for segment in log.segments)
    check_whole(log)


@pytest.mark.parametrize("cut", [1, 12, 37, 60, 90])
def test_a_torn_tail_is_cut(cut: int) -> None:
    disk = MemoryDisk()
    log = filled(disk)
    last = log.segments[-1].log_path
    disk.open(last).truncate(disk.size(last) - cut)
    log = reopened(disk)
    check_whole(log, 29)


def test_garbage_behind_the_end_is_cut() -> None:
    disk = MemoryDisk()
    log = filled(disk)
    last = log.segments[-1].log_path
    for garbage in (bytes(1000), b"\xff" * 1000, bytes(batch(1))):
        size = disk.size(last)
        disk.open(last).write(size, garbage)
        log = reopened(disk)
        assert log.log_end_offset == 30
        assert disk.size(last) == size
    check_whole(log)


def test_everything_behind_a_broken_batch_goes() -> None:
    disk = MemoryDisk()
    log = filled(disk)
    broken = log.segments[3]
    disk.open(broken.log_path).write(70, b"\xff")
    log = reopened(disk)
    check_whole(log, broken.base_offset)
    assert log.segments[-1].base_offset == broken.base_offset


def test_below_the_recovery_point_nothing_is_looked_at() -> None:
    disk = MemoryDisk()
    log = filled(disk)
    disk.open(log.segments[1].log_path).write(70, b"\xff")
    log = reopened(disk, recovery_point=log.segments[4].base_offset)
    assert log.log_end_offset == 30


def test_a_segment_that_was_damaged_is_an_error_of_the_disk() -> None:
    disk = MemoryDisk()
    log = filled(disk)
    log.close()
    damaged = log.segments[1]
    disk.open(damaged.log_path).write(0, bytes(damaged.size_bytes))
    log = reopened(disk, clean_shutdown=True)
    with pytest.raises(OSError, match="a batch length of 0 at") as caught:
        log.read(damaged.base_offset + 1, 1000, 30)
    assert caught.value.filename == damaged.log_path
    with pytest.raises(OSError, match="message format 0 at 0"):
        list(headers_from(log.segments[1].file(), 0, damaged.size_bytes))


def test_a_batch_cut_short_after_a_clean_stop_is_an_error_of_the_disk() -> None:
    """And not the end of the log: whoever reads up to there would wait for the rest of it forever."""
    disk = MemoryDisk()
    log = filled(disk)
    log.close()
    last = log.segments[-1]
    disk.open(last.log_path).truncate(last.size_bytes - 5)
    with pytest.raises(OSError, match="a batch that is cut short at"):
        reopened(disk, clean_shutdown=True)
    assert reopened(disk, recovery_point=log.recovery_point).log_end_offset == 29


def test_a_tail_that_is_missing_without_a_trace_ends_the_log() -> None:
    disk = MemoryDisk()
    log = filled(disk)
    short = log.segments[3]
    disk.open(short.log_path).truncate(short.size_bytes - len(batch(1)) * 1)
    end = log.segments[4].base_offset - 1
    log = reopened(disk)
    check_whole(log, end)


def compacted_once(disk: MemoryDisk, first_offsets: list[int]) -> None:
    """Two segments of a topic that was compacted once and is not now: a gap before the second one."""
    log = Log.open(disk, DIRECTORY, topic_config(), NOW_MS)
    for offset in (*first_offsets, 20, 23):
        if offset == 20:
            log.roll(NOW_MS, 20)
        log.append_as_follower(
            memoryview(encode_batch([Record(offset, NOW_MS, b"k", b"v")], base_offset=offset)), NOW_MS
        )
    log.abandon()


def test_gaps_that_compaction_left_stay_where_the_topic_is_not_compacted_any_more() -> None:
    disk = MemoryDisk()
    compacted_once(disk, [0, 5, 7])
    log = Log.open(disk, DIRECTORY, topic_config(cleanup_policy="delete"), NOW_MS)
    assert [record.offset for record in read_all(log)] == [0, 5, 7, 20, 23]
    assert log.cut_bytes == 0


def test_a_gap_behind_segments_without_any_is_a_lost_tail() -> None:
    """What follows it may be torn itself, so it is no evidence of a compaction."""
    disk = MemoryDisk()
    compacted_once(disk, [0, 1, 2])
    log = Log.open(disk, DIRECTORY, topic_config(cleanup_policy="delete"), NOW_MS)
    assert [record.offset for record in read_all(log)] == [0, 1, 2]


def test_an_older_leader_epoch_behind_a_newer_one_ends_the_log() -> None:
    disk = MemoryDisk()
    log = filled(disk, 12)
    first = log.read(10, 1 << 20, 12)
    assert first is not None
    file = disk.open(log.segments[-1].log_path)
    last = log.read(11, 1, 12)
    assert last is not None
    file.write(last.position + 12, (0).to_bytes(4, "big"))  # the leader epoch lies outside the CRC
    log = reopened(disk)
    assert log.log_end_offset == 11


@pytest.mark.parametrize("suffix", [".index", ".timeindex", ".txnindex", ".snapshot"])
@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("damage", ["missing", "garbage", "empty"])
def test_files_that_can_be_rebuilt(suffix: str, clean: bool, damage: str) -> None:
    disk = MemoryDisk()
    filled(disk).close()
    for name in disk.list_directory(DIRECTORY):
        if name.endswith(suffix):
            if damage == "missing" and not (clean and suffix == ".snapshot"):
                disk.remove(f"{DIRECTORY}/{name}")
            elif damage == "garbage":
                file = disk.open(f"{DIRECTORY}/{name}")
                file.truncate(7)
                file.write(0, b"garbage")
            elif damage == "empty" and not (clean and suffix == ".index"):
                disk.open(f"{DIRECTORY}/{name}").truncate(0)
    log = reopened(disk, clean_shutdown=clean)
    check_whole(log)
    assert offset_for_timestamp(log, NOW_MS) is not None


@pytest.mark.parametrize("content", [None, b"", b"\0\0\0", b"0\n5\n0 0\n"])
@pytest.mark.parametrize("clean", [True, False])
def test_leader_epochs_are_taken_from_the_batches_where_their_file_is_lost(content: bytes | None, clean: bool) -> None:
    disk = MemoryDisk()
    filled(disk).close()
    disk.remove(f"{DIRECTORY}/leader-epoch-checkpoint")
    if content is not None:
        disk.open(f"{DIRECTORY}/leader-epoch-checkpoint").write(0, content)
    check_whole(reopened(disk, clean_shutdown=clean, recovery_point=30))


def test_remains_are_removed() -> None:
    disk = MemoryDisk()
    filled(disk).close()
    sound = disk.list_directory(DIRECTORY)
    for name in ("x.log.deleted", f"{5:020d}.snapshot.deleted", "leader-epoch-checkpoint.tmp", f"{77:020d}.index"):
        disk.open(f"{DIRECTORY}/{name}")
    disk.open(f"{DIRECTORY}/note.txt")
    reopened(disk, clean_shutdown=True)
    assert disk.list_directory(DIRECTORY) == sorted([*sound, "note.txt"])


def test_the_log_start_is_the_later_of_checkpoint_and_first_segment() -> None:
    disk = MemoryDisk()
    log = filled(disk)
    second = log.segments[1].base_offset
    log.close()
    assert reopened(disk, clean_shutdown=True, log_start_offset=17).log_start_offset == 17
    for suffix in (".log", ".index", ".timeindex"):
        disk.remove(path(0, suffix))
    log = reopened(disk, clean_shutdown=True)
    assert log.log_start_offset == second
    assert [record.offset for record in read_all(log)] == list(range(second, 30))


def test_a_log_that_ends_before_its_start_begins_anew_there() -> None:
    disk = MemoryDisk()
    filled(disk).close()
    log = reopened(disk, clean_shutdown=True, log_start_offset=100)
    assert (log.log_start_offset, log.log_end_offset, len(log.segments)) == (100, 100, 1)
    assert append(log).base_offset == 100


def test_expired_producers_are_not_taken_up() -> None:
    disk = MemoryDisk()
    filled(disk).close()
    config = topic_config(**SMALL)
    log = Log.open(disk, DIRECTORY, config, NOW_MS + 2 * 86_400_000, clean_shutdown=True)
    assert len(log.producers) == 0


def test_topic_id_is_written_once_and_rewritten_where_torn() -> None:
    disk = MemoryDisk()
    topic_id = bytes(range(1, 17))
    Log.open(disk, DIRECTORY, topic_config(), NOW_MS, topic_id=topic_id).close()
    assert read_topic_id(disk, DIRECTORY) == topic_id
    Log.open(disk, DIRECTORY, topic_config(), NOW_MS, topic_id=bytes(range(2, 18))).close()
    assert read_topic_id(disk, DIRECTORY) == topic_id
    disk.open(f"{DIRECTORY}/partition.metadata").truncate(14)
    assert read_topic_id(disk, DIRECTORY) is None
    Log.open(disk, DIRECTORY, topic_config(), NOW_MS, topic_id=topic_id).close()
    assert read_topic_id(disk, DIRECTORY) == topic_id


@pytest.mark.parametrize("name", ["idempotent-0", "transactions-0", "transactions-v2-0"])
@pytest.mark.parametrize("clean", [True, False])
def test_what_kafka_wrote(name: str, clean: bool) -> None:
    disk = MemoryDisk()
    disk.make_directories(DIRECTORY)
    files = {file.name: file.read_bytes() for file in (KAFKA / name).iterdir()}
    for file_name, data in files.items():
        disk.open(f"{DIRECTORY}/{file_name}").write(0, data)
    log = Log.open(disk, DIRECTORY, topic_config(), NOW_MS, clean_shutdown=clean, producer_id_expiration_ms=10**15)
    snapshot = next(file for file in files if file.endswith(".snapshot"))
    assert log.log_end_offset == int(snapshot[:20])
    log.high_watermark = log.log_end_offset
    assert log.size_bytes == len(files[f"{0:020d}.log"])
    assert log.producers.encode() == files[snapshot]
    if "leader-epoch-checkpoint" in files:
        assert log.leader_epochs.encode() == files["leader-epoch-checkpoint"]
    found = log.read(0, 1 << 20, log.log_end_offset)
    assert found is not None
    if f"{0:020d}.txnindex" in files:
        assert disk.read_bytes(path(0, ".txnindex")) == files[f"{0:020d}.txnindex"]
        assert log.aborted_transactions(0, found)
    log.close()
    assert disk.read_bytes(path(0, ".log")) == files[f"{0:020d}.log"]
    assert disk.read_bytes(f"{DIRECTORY}/{snapshot}") == files[snapshot]


def test_a_clean_stop_leaves_an_untouched_log_alone() -> None:
    disk = simulated_disk()
    filled(disk).close()
    log = reopened(disk, clean_shutdown=True)
    operations = disk.operations
    log.close()
    assert disk.operations == operations


def test_refusals_after_recovery_are_as_before() -> None:
    disk = MemoryDisk()
    filled(disk)
    log = reopened(disk)
    data = batch(1, producer_id=9, producer_epoch=0, base_sequence=77)
    assert log.append_as_leader(data, 0, NOW_MS).error == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER

"""A crash at every operation of the disk while a log is compacted: the last value of every key survives, once it was
flushed, and what comes up is a log that can be written, read and compacted again."""

from random import Random

import pytest
from compaction_fixtures import compact, last_values, read_committed
from log_fixtures import DIRECTORY, NOW_MS, topic_config

from barnabas.errors import ErrorCode
from barnabas.log.append import AppendOrigin
from barnabas.log.log import Log
from barnabas.protocol.control_records import TransactionMarker, encode_transaction_marker
from barnabas.protocol.record_batch import Record, encode_batch
from barnabas.simulation.disk import SimulatedDisk, Survival

CONFIG = topic_config(
    segment_bytes=500,
    index_interval_bytes=150,
    segment_index_bytes=400,
    file_delete_delay_ms=0,
    cleanup_policy="compact",
    delete_retention_ms=20,
)
POINTS = "/data/points"  # recovery point and cleaned offset, as a broker keeps them in its checkpoints
RANDOM_IMAGES = 1
AGAIN_CHANCE = 0.05


def open_log(disk: SimulatedDisk, now_ms: int = NOW_MS) -> Log:
    recovery_point = cleaned_offset = 0
    if disk.exists(POINTS):
        recovery_point, cleaned_offset = map(int, disk.read_bytes(POINTS).split())
    log = Log.open(disk, DIRECTORY, CONFIG, now_ms, recovery_point=recovery_point)
    log.swap.cleaned_offset = cleaned_offset
    log.high_watermark = log.log_end_offset
    return log


class Compacted:
    """A log with keys, tombstones and transactions, compacted again and again under the eye of a judge."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.disk = SimulatedDisk()
        self.disk.make_directories("/data")
        self.disk.sync_directory("")
        self.now_ms = NOW_MS
        self.log = open_log(self.disk)
        self.sequences = dict.fromkeys((1, 2, 3), 0)
        self.committed: list[Record] = []  # in the order of the log
        self.open: dict[int, list[Record]] = {}
        self.checked = 0

    def write(self, count: int) -> None:
        """Whole transactions, so that all is decided when a crash comes."""
        for _ in range(count):
            self.now_ms += 5
            producer_id = self.random.choice((-1, 1, 2, 3))
            record = Record(
                self.log.log_end_offset,
                self.now_ms,
                b"key-%d" % self.random.randrange(6),
                self.random.choice((None, b"x" * self.random.randrange(60))),
            )
            self._append([record._replace(offset=0)], producer_id)
            if producer_id < 0:
                self.committed.append(record)
            else:
                self.open.setdefault(producer_id, []).append(record)
        for producer_id, records in self.open.items():
            is_committed = self.random.random() < 0.5
            marker = encode_transaction_marker(
                TransactionMarker(is_committed, 0), producer_id=producer_id, producer_epoch=0, timestamp_ms=self.now_ms
            )
            info = self.log.append_as_leader(memoryview(marker), 0, self.now_ms, AppendOrigin.COORDINATOR)
            assert info.error == ErrorCode.NONE
            if is_committed:
                self.committed += records
        self.open.clear()
        self.committed.sort(key=lambda record: record.offset)
        self.log.high_watermark = self.log.log_end_offset
        self.log.roll(self.now_ms)

    def _append(self, records: list[Record], producer_id: int) -> None:
        has_producer = producer_id >= 0
        batch = encode_batch(
            records,
            producer_id=producer_id,
            producer_epoch=0 if has_producer else -1,
            base_sequence=self.sequences[producer_id] if has_producer else -1,
            transactional=has_producer,
        )
        assert self.log.append_as_leader(memoryview(batch), 0, self.now_ms).error == ErrorCode.NONE
        if has_producer:
            self.sequences[producer_id] += len(records)

    def compact(self) -> None:
        self.log.flush()
        self.checkpoint()
        self.disk.on_operation = self.watch
        compact(self.disk, self.log, self.now_ms)
        self.checkpoint()
        self.log.delete_files_due(self.now_ms)
        self.disk.on_operation = None

    def checkpoint(self) -> None:
        self.disk.write_atomically(POINTS, b"%d %d" % (self.log.recovery_point, self.log.swap.cleaned_offset))

    def watch(self, kind: str) -> None:
        hook, self.disk.on_operation = self.disk.on_operation, None
        images = [(Survival.NONE, 0), (Survival.ALL, 0)]
        images += [(Survival.SOME, self.random.randrange(10**9)) for _ in range(RANDOM_IMAGES)]
        for survival, seed in images:
            try:
                self.judge(self.disk.image(Random(seed), survival))
            except BaseException as problem:
                where = f"after operation {self.disk.operations} ({kind}), survival {survival.value}, seed {seed}"
                raise AssertionError(where) from problem
        self.disk.on_operation = hook

    def judge(self, image: SimulatedDisk, *, again: bool = True) -> None:
        self.checked += 1
        if again and self.random.random() < AGAIN_CHANCE:
            image.on_operation = lambda kind: self.judge_once_more(image)
        log = open_log(image, self.now_ms)
        image.on_operation = None
        assert log.log_end_offset == self.log.log_end_offset
        assert not [
            name for name in image.list_directory(DIRECTORY) if name.endswith((".cleaned", ".swap", ".deleted"))
        ]
        expected = last_values(self.committed)
        assert last_values(read_committed(log)) == expected
        for each in log.producers:
            if each.last_sequence >= 0:
                assert each.last_sequence == self.sequences[each.producer_id] - 1
        later_ms = self.now_ms + 1000
        for _ in range(2):  # twice: what came back must not outlive the tombstone that hid it
            assert (
                log.append_as_leader(
                    memoryview(encode_batch([Record(0, later_ms, b"new", b"value")])), 1, later_ms
                ).error
                == ErrorCode.NONE
            )
            log.high_watermark = log.log_end_offset
            log.roll(later_ms)
            compact(image, log, later_ms)
            later_ms += 1000
            assert last_values(read_committed(log)) == {**expected, b"new": b"value"}

    def judge_once_more(self, image: SimulatedDisk) -> None:
        hook, image.on_operation = image.on_operation, None
        self.judge(image.image(Random(self.random.randrange(10**9))), again=False)
        image.on_operation = hook


@pytest.mark.parametrize("seed", range(2))
def test_a_crash_at_every_operation_of_a_compaction(seed: int) -> None:
    workload = Compacted(seed)
    for count in (9, 5):
        workload.write(count)
        workload.compact()
        workload.now_ms += 100
    assert workload.checked > 60


@pytest.mark.parametrize("kind", ["write", "truncate", "sync", "create", "rename", "remove"])
@pytest.mark.parametrize("nth", [1, 4, 9])
def test_an_error_anywhere_in_a_compaction_loses_nothing(kind: str, nth: int) -> None:
    workload = Compacted(nth)
    workload.write(12)
    workload.log.flush()
    workload.checkpoint()
    workload.disk.fail(kind, nth=nth)
    expected = last_values(workload.committed)
    try:
        compact(workload.disk, workload.log, workload.now_ms)
    except OSError:
        left = workload.disk.image(Random(nth), Survival.SOME)
        assert last_values(read_committed(open_log(left, workload.now_ms))) == expected
    workload.disk.heal()
    if workload.log.is_offline:
        workload.log.abandon()
        workload.log = open_log(workload.disk, workload.now_ms)
    assert last_values(read_committed(workload.log)) == expected
    compact(workload.disk, workload.log, workload.now_ms)
    assert last_values(read_committed(workload.log)) == expected

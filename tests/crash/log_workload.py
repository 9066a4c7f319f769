"""A partition under work on a simulated disk, with the little that a broker keeps beside it, and its judge.

The workload appends, rolls, flushes, truncates, deletes, stops and starts, by chance from one seed. After every single
operation of the disk the judge looks at what a crash would leave: recovers it, and compares with what was promised.
"""

from random import Random

from log_fixtures import DIRECTORY, NOW_MS, batch, read_all, topic_config

from barnabas.errors import ErrorCode
from barnabas.log.log import Log
from barnabas.log.producer_state import ProducerStates
from barnabas.log.scan import headers_from
from barnabas.protocol.record_batch import read_header
from barnabas.simulation.disk import SimulatedDisk, Survival

CONFIG = topic_config(segment_bytes=700, index_interval_bytes=150, segment_index_bytes=400, file_delete_delay_ms=0)
POINTS = "/data/points"  # recovery point and log start, as a broker keeps them in its checkpoints
CLEAN = "/data/clean"
RANDOM_IMAGES = 3
AGAIN_CHANCE = 0.02


def new_disk() -> SimulatedDisk:
    disk = SimulatedDisk()
    disk.make_directories("/data")
    disk.sync_directory("")
    return disk


def open_log(disk: SimulatedDisk) -> Log:
    recovery_point = log_start_offset = 0
    if disk.exists(POINTS):
        recovery_point, log_start_offset = map(int, disk.read_bytes(POINTS).split())
    return Log.open(
        disk,
        DIRECTORY,
        CONFIG,
        NOW_MS,
        recovery_point=recovery_point,
        log_start_offset=log_start_offset,
        clean_shutdown=disk.exists(CLEAN),
    )


class Workload:
    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.disk = new_disk()
        self.histories: list[list[bytes]] = [[]]  # batches by offset, one record each; more than one while in doubt
        self.epoch = 0
        self.sequence = 0
        self.checked = 0
        self.log: Log | None = None
        self.safe_end = 0  # below this everything must survive, while there is no log to ask
        self.log_start_min = 0
        self.watching = True
        self.disk.on_operation = self.watch
        self.start()

    # Work

    def run(self, steps: int) -> None:
        actions = [self.append] * 10 + [self.flush, self.flush, self.checkpoint, self.roll, self.flush_finished]
        actions += [self.truncate, self.delete_records, self.delete_old, self.new_epoch, self.restart, self.kill]
        for _ in range(steps):
            self.random.choice(actions)()

    @property
    def history(self) -> list[bytes]:
        assert len(self.histories) == 1
        return self.histories[0]

    def open(self) -> Log:
        assert self.log is not None
        return self.log

    def start(self) -> None:
        self.log = None
        log = open_log(self.disk)
        if self.disk.exists(CLEAN):
            self.disk.remove(CLEAN)
            self.disk.sync_directory("/data")
        log.high_watermark = log.log_end_offset
        self.log = log

    def append(self) -> None:
        log = self.open()
        data = batch(
            1,
            first=self.random.randrange(10**5),
            size=self.random.randint(0, 120),
            producer_id=9,
            producer_epoch=self.epoch,
            base_sequence=self.sequence,
        )
        shown = bytes(data)[61:]
        self.histories = [self.history, [*self.history, shown]]
        info = log.append_as_leader(data, self.epoch, NOW_MS)
        assert (info.error, info.base_offset) == (ErrorCode.NONE, len(self.histories[0])), info
        self.sequence += 1
        self.histories = self.histories[1:]
        log.high_watermark = log.log_end_offset

    def flush(self) -> None:
        self.open().flush()

    def flush_finished(self) -> None:
        self.open().flush_finished()

    def roll(self) -> None:
        self.open().roll(NOW_MS)

    def checkpoint(self) -> None:
        log = self.open()
        self.disk.write_atomically(POINTS, b"%d %d" % (log.recovery_point, log.log_start_offset))

    def new_epoch(self) -> None:
        """A new leader; it is also a new epoch of the producer, whose sequences begin anew."""
        self.epoch += 1
        self.sequence = 0

    def truncate(self) -> None:
        log = self.open()
        offset = self.random.randint(log.log_start_offset, log.log_end_offset)
        self.histories = [self.history, self.history[:offset]]
        log.truncate_to(offset, NOW_MS)
        self.histories = self.histories[1:]
        self.checkpoint()
        self.new_epoch()

    def delete_records(self) -> None:
        log = self.open()
        log.delete_records_before(self.random.randint(log.log_start_offset, log.high_watermark))
        self.checkpoint()
        self.log_start_min = log.log_start_offset

    def delete_old(self) -> None:
        log = self.open()
        log.delete_old_segments(NOW_MS)
        log.delete_files_due(NOW_MS)

    def restart(self) -> None:
        log = self.open()
        log.close()
        self.checkpoint()
        self.safe_end = len(self.history)
        self.disk.write_atomically(CLEAN, b"")
        self.start()

    def kill(self) -> None:
        """The process ends, the machine does not: nothing may be lost."""
        log = self.open()
        self.safe_end = log.recovery_point
        log.abandon()
        self.start()
        assert self.open().log_end_offset == len(self.history)
        self.new_epoch()

    # Judgement

    def watch(self, kind: str) -> None:
        if self.watching:
            self.watching = False
            images = [(Survival.NONE, 0), (Survival.ALL, 0)]
            images += [(Survival.SOME, self.random.randrange(10**9)) for _ in range(RANDOM_IMAGES)]
            for survival, seed in images:
                try:
                    self.judge(self.disk.image(Random(seed), survival))
                except BaseException as problem:
                    raise AssertionError(
                        f"after operation {self.disk.operations} ({kind}), survival {survival.value}, image seed {seed}"
                    ) from problem
            self.watching = True

    def judge(self, image: SimulatedDisk, *, again: bool = True) -> None:
        """`again` crashes once more, now and then, in the middle of the recovery."""
        self.checked += 1
        if again and self.random.random() < AGAIN_CHANCE:
            image.on_operation = lambda kind: self.judge_once_more(image)
        safe_end = self.safe_end if self.log is None else min(self.log.recovery_point, len(self.histories[-1]))
        log = open_log(image)
        image.on_operation = None
        assert log.log_start_offset >= self.log_start_min or log.log_end_offset >= self.log_start_min
        assert log.log_end_offset >= safe_end, f"ends at {log.log_end_offset}, {safe_end} was synced"
        check_content(log, self.histories)
        check_bookkeeping(log)
        end_offset = log.log_end_offset
        for _ in range(3):
            info = log.append_as_leader(batch(2), 1000, NOW_MS)
            assert info.error == ErrorCode.NONE
        assert len(read_all(log)) == end_offset + 6 - log.log_start_offset
        log.close()
        again = Log.open(image, DIRECTORY, CONFIG, NOW_MS, clean_shutdown=True, log_start_offset=log.log_start_offset)
        assert again.log_end_offset == end_offset + 6
        assert again.leader_epochs.entries == log.leader_epochs.entries
        assert again.producers.encode() == log.producers.encode()

    def judge_once_more(self, image: SimulatedDisk) -> None:
        hook, image.on_operation = image.on_operation, None
        self.judge(image.image(Random(self.random.randrange(10**9))), again=False)
        image.on_operation = hook


def check_content(log: Log, histories: list[list[bytes]]) -> None:
    """Every record that is left is one that was written there, and there is no gap."""
    found = []
    for offset in range(log.log_start_offset, log.log_end_offset):
        part = log.read(offset, 1, log.log_end_offset)
        assert part is not None
        data = part.read()
        assert read_header(data).base_offset == offset
        found.append(data[61:])
    start, end = log.log_start_offset, log.log_end_offset
    assert any(history[start:end] == found for history in histories), f"{start} to {end} is not what was written"


def check_bookkeeping(log: Log) -> None:
    """Leader epochs and producers are what the batches that are left say."""
    epochs: list[tuple[int, int]] = []
    producers = ProducerStates()
    for segment in log.segments:
        for _, header in headers_from(segment.file(), 0, segment.size_bytes):
            if header.base_offset < log.log_start_offset:
                epochs = [(header.leader_epoch, log.log_start_offset)]
            elif not epochs or header.leader_epoch > epochs[-1][0]:
                if epochs and epochs[-1][1] == header.base_offset:
                    epochs.pop()
                epochs.append((header.leader_epoch, header.base_offset))
            if header.base_offset >= log.log_start_offset:
                producers.append(header)
    assert [entry for entry in log.leader_epochs.entries if entry[1] < log.log_end_offset] == [
        entry for entry in epochs if entry[1] < log.log_end_offset
    ]
    for expected in producers:
        state = log.producers.get(expected.producer_id)
        assert state is not None
        assert (state.epoch, state.last_sequence) == (expected.epoch, expected.last_sequence)

"""The log against a plain list: whatever is done to both, they agree."""

import sys
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))

from log_fixtures import DIRECTORY, NOW_MS, batch, offset_for_timestamp, read_all, topic_config

from barnabas.errors import ErrorCode
from barnabas.log.log import Log
from barnabas.protocol.compression import Codec
from barnabas.protocol.record_batch import Record, decode_records
from barnabas.runtime.memory_disk import MemoryDisk

CONFIG = topic_config(
    segment_bytes=2000, index_interval_bytes=200, segment_index_bytes=160, retention_ms=-1, file_delete_delay_ms=10
)


class LogAgainstList(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.disk = MemoryDisk(lambda: NOW_MS)
        self.log = Log.open(self.disk, DIRECTORY, CONFIG, NOW_MS)
        self.list: list[tuple[int, bytes | None]] = []  # timestamp and value by offset, from 0 on
        self.batch_starts: list[int] = []
        self.start = 0
        self.epoch = 0
        self.now_ms = NOW_MS

    @rule(
        count=st.integers(1, 5),
        size=st.integers(0, 300),
        codec=st.sampled_from([Codec.NONE, Codec.NONE, Codec.GZIP, Codec.ZSTD]),
        delta_ms=st.integers(-50, 50),
    )
    def append(self, count: int, size: int, codec: Codec, delta_ms: int) -> None:
        timestamp_ms = NOW_MS + 10 * len(self.list) + delta_ms
        data = batch(count, first=len(self.list), size=size, codec=codec, timestamp_ms=timestamp_ms)
        expected = [(record.timestamp_ms, record.value) for record in decode_records(data)]
        info = self.log.append_as_leader(data, self.epoch, timestamp_ms)
        assert (info.error, info.base_offset) == (ErrorCode.NONE, len(self.list))
        self.batch_starts.append(len(self.list))
        self.list += expected
        self.log.high_watermark = self.log.log_end_offset

    @rule(cut=st.binary(min_size=1, max_size=80))
    def append_garbage(self, cut: bytes) -> None:
        assert self.log.append_as_leader(memoryview(bytearray(cut)), self.epoch, NOW_MS).error != ErrorCode.NONE

    @rule()
    def roll(self) -> None:
        self.log.roll(NOW_MS)

    @rule()
    def new_epoch(self) -> None:
        self.epoch += 1

    @precondition(lambda self: self.list)
    @rule(data=st.data())
    def truncate(self, data: st.DataObject) -> None:
        offset = data.draw(st.integers(self.start, len(self.list)))
        self.log.truncate_to(offset, NOW_MS)
        if offset < len(self.list):
            # A batch goes as a whole: the log ends where the one begins that holds the offset.
            end = max(start for start in self.batch_starts if start <= offset)
            self.batch_starts = [start for start in self.batch_starts if start < end]
            del self.list[end:]
            self.start = min(self.start, end)
        self.epoch += 1

    @precondition(lambda self: self.list)
    @rule(data=st.data())
    def delete_records(self, data: st.DataObject) -> None:
        offset = data.draw(st.integers(0, len(self.list)))
        assert self.log.delete_records_before(offset) == ErrorCode.NONE
        self.start = max(self.start, offset)

    @rule()
    def delete_old_segments(self) -> None:
        self.log.delete_old_segments(NOW_MS)
        self.now_ms += 7
        self.log.delete_files_due(self.now_ms)

    @rule()
    def flush(self) -> None:
        self.log.flush()
        assert self.log.recovery_point == len(self.list)

    @rule(clean=st.booleans())
    def restart(self, clean: bool) -> None:
        if clean:
            self.log.close()
        else:
            self.log.abandon()
        self.log = Log.open(
            self.disk,
            DIRECTORY,
            CONFIG,
            NOW_MS,
            clean_shutdown=clean,
            recovery_point=self.log.recovery_point,
            log_start_offset=self.start,
        )
        self.log.high_watermark = self.log.log_end_offset

    @rule(data=st.data())
    def read_somewhere(self, data: st.DataObject) -> None:
        offset = data.draw(st.integers(0, len(self.list) + 1))
        end_offset = data.draw(st.integers(0, len(self.list) + 1))
        found = self.log.read(offset, data.draw(st.integers(0, 1000)), end_offset)
        if not self.start <= offset < min(end_offset, len(self.list)):
            assert found is None
        elif found is not None:
            records = decode_records(found.read())
            assert records[0].offset <= offset <= records[-1].offset < end_offset
            self._check(records)

    def _check(self, records: list[Record]) -> None:
        for record in records:
            assert (record.timestamp_ms, record.value) == self.list[record.offset]

    @rule(delta_ms=st.integers(-100, 2000))
    def look_for_a_moment(self, delta_ms: int) -> None:
        timestamp_ms = NOW_MS + delta_ms
        later = (n for n in range(self.start, len(self.list)) if self.list[n][0] >= timestamp_ms)
        expected = next(later, None)
        found = offset_for_timestamp(self.log, timestamp_ms)
        assert (None if found is None else found.offset) == expected

    @invariant()
    def offsets_agree(self) -> None:
        assert (self.log.log_start_offset, self.log.log_end_offset) == (self.start, len(self.list))
        assert self.log.log_start_offset <= self.log.last_stable_offset <= self.log.high_watermark
        assert self.log.high_watermark <= self.log.log_end_offset
        bases = [segment.base_offset for segment in self.log.segments]
        assert bases == sorted(set(bases))

    def teardown(self) -> None:
        records = read_all(self.log)
        assert [record.offset for record in records] == list(range(self.start, len(self.list)))
        self._check(records)


TestLogAgainstList = LogAgainstList.TestCase
TestLogAgainstList.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)

"""Compaction against a plain dict: whatever is written, aborted, cut and compacted, readers see the last values."""

import sys
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))

from compaction_fixtures import compact, last_values, read_committed
from log_fixtures import DIRECTORY, NOW_MS, topic_config

from barnabas.errors import ErrorCode
from barnabas.log.append import AppendOrigin
from barnabas.log.cleaning import Buffers
from barnabas.log.log import Log
from barnabas.protocol.compression import Codec
from barnabas.protocol.control_records import TransactionMarker, encode_transaction_marker
from barnabas.protocol.record_batch import Record, encode_batch
from barnabas.runtime.memory_disk import MemoryDisk

KEYS = st.sampled_from([b"a", b"b", b"c", b"d", b"e" * 40, b""])
VALUES = st.one_of(st.none(), st.binary(max_size=30))
PRODUCERS = st.integers(1, 3)


class Write:
    """One batch of the history, and whether it will ever be seen."""

    def __init__(self, offset: int, records: list[tuple[bytes, bytes | None]], producer_id: int) -> None:
        self.offset = offset
        self.records = records
        self.producer_id = producer_id  # -1 outside of transactions
        self.state = "open" if producer_id >= 0 else "committed"


class CompactionAgainstDict(RuleBasedStateMachine):
    @initialize(
        delete_retention_ms=st.sampled_from([0, 50, 10_000]),
        policy=st.sampled_from(["compact", "compact,delete"]),
        segment_bytes=st.sampled_from([300, 1000]),
    )
    def begin(self, delete_retention_ms: int, policy: str, segment_bytes: int) -> None:
        self.config = topic_config(
            segment_bytes=segment_bytes,
            index_interval_bytes=100,
            segment_index_bytes=160,
            cleanup_policy=policy,
            delete_retention_ms=delete_retention_ms,
            file_delete_delay_ms=10,
        )
        self.disk = MemoryDisk(lambda: NOW_MS)
        self.log = Log.open(self.disk, DIRECTORY, self.config, NOW_MS)
        self.history: list[Write] = []
        self.sequences: dict[int, int] = {}
        self.epoch = 0
        self.now_ms = NOW_MS
        self.stays_until = 0  # what compaction counted on is not truncated, nor is anything of a transaction

    @rule(
        records=st.lists(st.tuples(KEYS, VALUES), min_size=1, max_size=6),
        codec=st.sampled_from([Codec.NONE, Codec.NONE, Codec.GZIP, Codec.LZ4]),
    )
    def append(self, records: list[tuple[bytes, bytes | None]], codec: Codec) -> None:
        self._append(records, codec, -1)

    @rule(records=st.lists(st.tuples(KEYS, VALUES), min_size=1, max_size=4), producer_id=PRODUCERS)
    def append_in_transaction(self, records: list[tuple[bytes, bytes | None]], producer_id: int) -> None:
        self._append(records, Codec.NONE, producer_id)

    def _append(self, records: list[tuple[bytes, bytes | None]], codec: Codec, producer_id: int) -> None:
        self.now_ms += 10
        batch = encode_batch(
            [Record(n, self.now_ms + n, *record) for n, record in enumerate(records)],
            codec=codec,
            producer_id=producer_id,
            producer_epoch=0 if producer_id >= 0 else -1,
            base_sequence=self.sequences.get(producer_id, 0) if producer_id >= 0 else -1,
            transactional=producer_id >= 0,
        )
        self.sequences[producer_id] = self.sequences.get(producer_id, 0) + len(records)
        info = self.log.append_as_leader(memoryview(batch), self.epoch, self.now_ms)
        assert info.error == ErrorCode.NONE, info
        if producer_id >= 0:
            self.stays_until = info.end_offset
        self.history.append(Write(info.base_offset, records, producer_id))
        self.log.high_watermark = self.log.log_end_offset

    @rule(producer_id=PRODUCERS, committed=st.booleans())
    def end_transaction(self, producer_id: int, committed: bool) -> None:
        self.now_ms += 10
        marker = encode_transaction_marker(
            TransactionMarker(committed, 0), producer_id=producer_id, producer_epoch=0, timestamp_ms=self.now_ms
        )
        info = self.log.append_as_leader(memoryview(marker), self.epoch, self.now_ms, AppendOrigin.COORDINATOR)
        assert info.error == ErrorCode.NONE, info
        self.log.high_watermark = self.stays_until = self.log.log_end_offset
        for write in self.history:
            if write.producer_id == producer_id and write.state == "open":
                write.state = "committed" if committed else "aborted"

    @rule()
    def roll(self) -> None:
        self.log.roll(self.now_ms)

    @rule(map_keys=st.sampled_from([8, 12, 1000]))
    def compact(self, map_keys: int) -> None:
        before = {each.producer_id: each.last_sequence for each in self.log.producers}
        self.stays_until = max(self.stays_until, self.log.segments[-1].base_offset)
        compact(
            self.disk,
            self.log,
            self.now_ms,
            buffers=Buffers(map_bytes=map_keys * 24, map_load_factor=0.9, io_bytes=200),
        )
        assert {each.producer_id: each.last_sequence for each in self.log.producers} == before

    @rule(delta_ms=st.sampled_from([1, 100, 20_000]))
    def wait(self, delta_ms: int) -> None:
        self.now_ms += delta_ms
        self.log.delete_files_due(self.now_ms)

    @rule(clean=st.booleans(), keeps_snapshots=st.booleans())
    def restart(self, clean: bool, keeps_snapshots: bool) -> None:
        """Without snapshots, producers must be known from what compaction has left of their batches."""
        before = {each.producer_id: each.last_sequence for each in self.log.producers}
        cleaned_offset = self.log.swap.cleaned_offset
        if clean:
            self.log.close()
        else:
            self.log.abandon()
            for name in self.disk.list_directory(DIRECTORY):
                if name.endswith(".snapshot") and not keeps_snapshots:
                    self.disk.remove(f"{DIRECTORY}/{name}")
        self.log = Log.open(
            self.disk,
            DIRECTORY,
            self.config,
            NOW_MS,  # so that no producer is idle
            clean_shutdown=clean,
            recovery_point=self.log.recovery_point,
        )
        self.log.swap.cleaned_offset = cleaned_offset
        self.log.high_watermark = self.log.log_end_offset
        after = {each.producer_id: each.last_sequence for each in self.log.producers}
        assert {each: sequence for each, sequence in after.items() if sequence >= 0} == {
            each: sequence for each, sequence in before.items() if sequence >= 0
        }

    @precondition(lambda self: self.history and self.history[-1].offset >= self.stays_until)
    @rule(data=st.data())
    def truncate(self, data: st.DataObject) -> None:
        write = data.draw(st.sampled_from([each for each in self.history if each.offset >= self.stays_until]))
        self.log.truncate_to(write.offset, self.now_ms)
        del self.history[self.history.index(write) :]
        self.epoch += 1
        self.log.high_watermark = self.log.log_end_offset

    @invariant()
    def readers_see_the_last_values(self) -> None:
        stable = self.log.last_stable_offset
        writes = [write for write in self.history if write.offset < stable]
        assert all(write.state != "open" for write in writes)
        committed = [write for write in writes if write.state == "committed"]
        expected = last_values(
            [
                Record(write.offset + number, 0, *record)
                for write in committed
                for number, record in enumerate(write.records)
            ]
        )
        records = read_committed(self.log)
        offsets = [record.offset for record in records]
        assert offsets == sorted(set(offsets))
        written = {
            (write.offset + number, *record) for write in committed for number, record in enumerate(write.records)
        }
        assert {(record.offset, record.key, record.value) for record in records} <= written
        assert last_values(records) == expected

    @invariant()
    def below_the_cleaned_offset_no_key_occurs_twice(self) -> None:
        keys = [record.key for record in read_committed(self.log) if record.offset < self.log.swap.cleaned_offset]
        assert len(keys) == len(set(keys))


TestCompactionAgainstDict = CompactionAgainstDict.TestCase
TestCompactionAgainstDict.settings = settings(max_examples=25, stateful_step_count=35, deadline=None)

"""The same partition compacted by Apache Kafka and by Barnabas: batch for batch the same is left.

The input has every codec, tombstones, records without a key, idempotent producers, committed and aborted transactions.
Kafka gets a copy of the files in place of those of a topic, and compacts it when it starts. Then more is written to
both, the horizon of tombstones and markers passes, and both compact again.
"""

from __future__ import annotations

import random
import re
import shutil
import time
from pathlib import Path
from typing import NamedTuple

import apache_kafka
import pytest
from apache_kafka import ApacheKafka, run_tool
from broker_process import wait_until
from compaction_fixtures import compact
from log_fixtures import topic_config

from barnabas.errors import ErrorCode
from barnabas.log.append import AppendOrigin
from barnabas.log.log import Log
from barnabas.log.scan import batches_from
from barnabas.protocol.compression import Codec
from barnabas.protocol.control_records import TransactionMarker, encode_transaction_marker
from barnabas.protocol.record_batch import DELETE_HORIZON_BIT, BatchHeader, Record, decode_records, encode_batch
from barnabas.runtime.system.disk import SystemDisk

WHY_NOT = apache_kafka.why_unavailable()
pytestmark = [
    pytest.mark.java,
    pytest.mark.skipif(WHY_NOT is not None, reason=str(WHY_NOT)),
    pytest.mark.timeout(300),
]

TOPICS = "org.apache.kafka.tools.TopicCommand"
DUMP = "org.apache.kafka.tools.DumpLogSegments"
COMPLAINTS = re.compile("mismatch|invalid bytes|out of order|not found|isvalid: false|exception|corrupt", re.IGNORECASE)
SETTINGS = {
    "cleanup.policy": "compact",
    "internal.segment.bytes": "4000",
    "min.cleanable.dirty.ratio": "0.01",
    "delete.retention.ms": "1000",
    "index.interval.bytes": "500",
}
CHECKPOINT = "cleaner-offset-checkpoint"
DISK = SystemDisk()


class Batch(NamedTuple):
    header: BatchHeader
    records: list[Record]


def open_log(directory: Path) -> Log:
    # Without keys, as before a topic was compacted: the producers' checks are not what is compared here.
    settings = {name.removeprefix("internal.").replace(".", "_"): value for name, value in SETTINGS.items()}
    log = Log.open(DISK, str(directory), topic_config(**settings), now_ms(), clean_shutdown=directory.exists())
    log.high_watermark = log.log_end_offset
    return log


def now_ms() -> int:
    return time.time_ns() // 1_000_000


class Writer:
    def __init__(self, log: Log, seed: int) -> None:
        self.log = log
        self.chance = random.Random(seed)
        self.sequences: dict[int, int] = {}
        self.open: set[int] = set()

    def write(self, batches: int, producers: tuple[int, ...]) -> None:
        for _ in range(batches):
            self._append(self.chance.choice((-1, *producers)))
            if self.open and self.chance.random() < 0.2:
                self._end(self.chance.choice(sorted(self.open)))
        for producer_id in sorted(self.open):
            self._end(producer_id)
        self.log.roll(now_ms())
        self._append(-1)
        self.log.high_watermark = self.log.log_end_offset

    def _append(self, producer_id: int) -> None:
        chance = self.chance
        records = [
            Record(
                number,
                now_ms() - chance.randrange(1000),
                None if chance.random() < 0.03 else b"key-%d" % chance.randrange(25),
                None if chance.random() < 0.2 else bytes(chance.randrange(60)),
                [("header", b"value")] if chance.random() < 0.2 else (),
            )
            for number in range(chance.randrange(1, 9))
        ]
        is_transactional = producer_id >= 100
        batch = encode_batch(
            records,
            codec=chance.choice(list(Codec)),
            producer_id=producer_id,
            producer_epoch=0 if producer_id >= 0 else -1,
            base_sequence=self.sequences.get(producer_id, 0) if producer_id >= 0 else -1,
            transactional=is_transactional,
        )
        self.sequences[producer_id] = self.sequences.get(producer_id, 0) + len(records)
        info = self.log.append_as_leader(memoryview(batch), 0, now_ms(), AppendOrigin.COORDINATOR)
        assert info.error == ErrorCode.NONE, info
        if is_transactional:
            self.open.add(producer_id)

    def _end(self, producer_id: int) -> None:
        marker = encode_transaction_marker(
            TransactionMarker(self.chance.random() < 0.5, 0),
            producer_id=producer_id,
            producer_epoch=0,
            timestamp_ms=now_ms(),
        )
        info = self.log.append_as_leader(memoryview(marker), 0, now_ms(), AppendOrigin.COORDINATOR)
        assert info.error == ErrorCode.NONE, info
        self.open.discard(producer_id)


def batches(directory: Path) -> list[Batch]:
    found = []
    for path in sorted(directory.glob("*.log")):
        file = DISK.open(str(path), create=False)
        for _, header, view in batches_from(file, 0, file.size()):
            found.append(Batch(header, decode_records(view)))
    return found


def comparable(found: list[Batch]) -> list[object]:
    """Without what must differ: sizes and CRC by the compressor, the horizon by the moment of the compaction."""
    return [
        (
            header.base_offset,
            header.last_offset,
            header.attributes,
            header.max_timestamp_ms,
            0 if header.attributes & DELETE_HORIZON_BIT else header.base_timestamp_ms,
            header.producer_id,
            header.producer_epoch,
            header.base_sequence,
            header.leader_epoch,
            header.record_count,
            records,
        )
        for header, records in found
    ]


def names(directory: Path) -> list[str]:
    """Of the segments, and which have aborted transactions."""
    return sorted(path.name for path in directory.iterdir() if path.suffix in (".log", ".txnindex"))


def compacted_by_kafka(kafka: ApacheKafka, source: Path, end_offset: int) -> Path:
    """Kafka takes these files for its own, and compacts them up to the segment that it must not touch."""
    target = kafka.node_directory / "topic-0"
    for path in target.iterdir():
        if path.name != "partition.metadata":
            path.unlink()
    for path in source.iterdir():
        if path.name != "partition.metadata":
            shutil.copy(path, target / path.name)
    wanted = f"topic 0 {end_offset}"
    with kafka:
        checkpoint = kafka.node_directory / CHECKPOINT
        wait_until(lambda: checkpoint.exists() and wanted in checkpoint.read_text().splitlines(), wanted, seconds=60)
        wait_until(lambda: not list(target.glob("*.swap")), "the swaps are over", seconds=30)
    return target


def test_what_is_left(tmp_path: Path) -> None:
    apache_kafka.fetch_jars()
    kafka = ApacheKafka(tmp_path / "kafka", {"log.cleaner.backoff.ms": 200, "log.segment.delete.delay.ms": 0})
    configs = [part for name, value in SETTINGS.items() for part in ("--config", f"{name}={value}")]
    with kafka:
        create = ["--create", "--topic", "topic", "--partitions", "1", *configs]
        run_tool(TOPICS, "--bootstrap-server", kafka.address, *create)
    own = tmp_path / "topic-0"
    writer = Writer(open_log(own), 11)
    producers = (1, 2, 100, 101, 102)
    for number in range(3):
        writer.write(120, producers[number:])  # fewer each time: of some, nothing but their last batch counts
        log = writer.log
        end_offset = log.segments[-1].base_offset
        cleaned_offset = log.swap.cleaned_offset
        log.close()
        before = batches(own)
        theirs = compacted_by_kafka(kafka, own, end_offset)
        writer.log = log = open_log(own)
        log.swap.cleaned_offset = cleaned_offset
        done = compact(DISK, log, now_ms())
        assert done is not None
        assert done.end_offset == end_offset
        log.delete_files_due(now_ms() + 10**9)
        log.close()
        assert len(batches(own)) < len(before)
        assert comparable(batches(own)) == comparable(batches(theirs))
        assert names(own) == names(theirs)
        for path in own.glob("*.txnindex"):
            assert path.read_bytes() == (theirs / path.name).read_bytes()
        writer.log = log = open_log(own)
        log.swap.cleaned_offset = done.end_offset
        time.sleep(1.2)  # the horizon passes
    assert any(not records for _, records in batches(own))
    log.close()
    suffixes = (".log", ".index", ".timeindex", ".txnindex")
    files = [str(path) for path in sorted(own.iterdir()) if path.suffix in suffixes]
    printed = run_tool(DUMP, "--deep-iteration", "--print-data-log", "--files", ",".join(files))
    complaint = COMPLAINTS.search(printed)
    assert complaint is None, printed[max(0, complaint.start() - 500) : complaint.end() + 500] if complaint else ""
    assert "deleteHorizonMs: OptionalLong[" in printed

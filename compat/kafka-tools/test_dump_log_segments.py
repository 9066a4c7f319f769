"""Kafka's own DumpLogSegments reads every file of a partition that Barnabas wrote, and finds nothing to complain about.

Its complaints: offsets that do not follow one another, batches that are not valid, bytes behind the last batch, index
entries that do not point at the batch they name, timestamps that do not match or ascend.
"""

from __future__ import annotations

import re
from pathlib import Path

import apache_kafka
import pytest
from apache_kafka import run_tool
from log_fixtures import NOW_MS, append, batch, topic_config

from barnabas.errors import ErrorCode
from barnabas.log.log import AppendOrigin, Log
from barnabas.protocol.compression import Codec
from barnabas.protocol.control_records import TransactionMarker, encode_transaction_marker
from barnabas.runtime.system.disk import SystemDisk

WHY_NOT = apache_kafka.why_unavailable()
pytestmark = [
    pytest.mark.java,
    pytest.mark.skipif(WHY_NOT is not None, reason=str(WHY_NOT)),
    pytest.mark.timeout(300),
]

DUMP = "org.apache.kafka.tools.DumpLogSegments"
SETTINGS = {"segment_bytes": 20_000, "index_interval_bytes": 1000, "segment_index_bytes": 4000}
COMPLAINTS = re.compile(
    "mismatch|is followed by|invalid bytes|out of order|not found|isvalid: false|exception|corrupt|ignoring",
    re.IGNORECASE,
)
# In 4.3 the tool says this of the first record of every segment that does not begin at 0, Kafka's own included.
SAID_OF_EVERY_SEGMENT = re.compile(r"^  -1 is followed by \d+$", re.MULTILINE)


@pytest.fixture(scope="module", autouse=True)
def jars() -> None:
    apache_kafka.fetch_jars()


def write_partition(directory: Path, **settings: object) -> Log:
    """Every codec, idempotent producers, transactions of both kinds, batches of all sizes, several leader epochs."""
    log = Log.open(SystemDisk(), str(directory), topic_config(**{**SETTINGS, **settings}), NOW_MS)
    for number in range(300):
        codec = list(Codec)[number % 5]
        timestamp_ms = NOW_MS + number * 10 - (number * 7919) % 300
        append(
            log,
            1 + number % 7,
            leader_epoch=number // 100,
            timestamp_ms=timestamp_ms,
            codec=codec,
            size=(number * 37) % 400,
        )
        producer_id = 100 + number % 3
        data = batch(
            1,
            producer_id=producer_id,
            producer_epoch=0,
            base_sequence=number // 3,
            transactional=producer_id != 100,
            timestamp_ms=timestamp_ms,
        )
        assert log.append_as_leader(data, number // 100, NOW_MS).error == ErrorCode.NONE
        if number % 30 == 29:
            for ended, committed in ((101, True), (102, False)):
                marker = encode_transaction_marker(
                    TransactionMarker(committed, 0), producer_id=ended, producer_epoch=0, timestamp_ms=timestamp_ms
                )
                info = log.append_as_leader(memoryview(marker), number // 100, NOW_MS, AppendOrigin.COORDINATOR)
                assert info.error == ErrorCode.NONE
        log.high_watermark = log.log_end_offset
    return log


def dump(*arguments: str) -> str:
    """What the tool prints, without a complaint in it."""
    printed = run_tool(DUMP, *arguments)
    complaint = COMPLAINTS.search(SAID_OF_EVERY_SEGMENT.sub("", printed))
    assert complaint is None, printed[max(0, complaint.start() - 500) : complaint.end() + 500] if complaint else ""
    return printed


def files(directory: Path, *suffixes: str) -> str:
    found = sorted(str(path) for path in directory.iterdir() if path.suffix in suffixes)
    assert found
    return ",".join(found)


def check_all(directory: Path, log: Log) -> str:
    """Every way in which the tool looks at files; gives its deep dump of the logs."""
    logs = dump("--deep-iteration", "--print-data-log", "--files", files(directory, ".log"))
    offsets = [int(offset) for offset in re.findall(r"^\| offset: (\d+)", logs, re.MULTILINE)]
    assert offsets == list(range(log.segments[0].base_offset, log.log_end_offset))
    for options in (("--index-sanity-check",), ("--verify-index-only",), ()):
        indexes = dump(*options, "--files", files(directory, ".index", ".timeindex"))
        if options == ("--index-sanity-check",):
            assert "passed sanity check" in indexes
    return logs


def test_after_a_clean_stop(tmp_path: Path) -> None:
    directory = tmp_path / "topic-0"
    log = write_partition(directory)
    assert len(log.segments) > 5
    log.close()
    logs = check_all(directory, log)
    assert {f"compresscodec: {name}" for name in ("none", "gzip", "snappy", "lz4", "zstd")} <= set(
        re.findall(r"compresscodec: \w+", logs)
    )
    assert "endTxnMarker: ABORT" in logs
    transactions = dump("--files", files(directory, ".txnindex"))
    assert transactions.count("producerId: 102") == 10
    snapshots = dump("--files", files(directory, ".snapshot"))
    assert "producerId: 100 producerEpoch: 0" in snapshots


def test_log_append_time(tmp_path: Path) -> None:
    directory = tmp_path / "topic-0"
    log = write_partition(directory, message_timestamp_type="LogAppendTime")
    log.close()
    assert "LogAppendTime: " in check_all(directory, log)


def test_while_it_is_written(tmp_path: Path) -> None:
    """The indexes of the active segment are preallocated then, and end in zeros."""
    directory = tmp_path / "topic-0"
    log = write_partition(directory)
    active = log.segments[-1]
    assert Path(active.offset_index.path).stat().st_size == 4000
    dump("--deep-iteration", "--files", files(directory, ".log"))
    dump("--verify-index-only", "--files", active.offset_index.path)
    log.abandon()


def test_after_a_crash_and_recovery(tmp_path: Path) -> None:
    directory = tmp_path / "topic-0"
    log = write_partition(directory)
    log.abandon()
    active = log.segments[-1]
    with Path(active.log_path).open("r+b") as file:
        file.truncate(active.size_bytes - 5)
    log = Log.open(SystemDisk(), str(directory), log.config, NOW_MS)
    log.close()
    check_all(directory, log)
    dump("--files", files(directory, ".txnindex"))


def test_after_truncation_deletion_and_more(tmp_path: Path) -> None:
    directory = tmp_path / "topic-0"
    log = write_partition(directory)
    log.truncate_to(log.log_end_offset // 2, NOW_MS)
    log.delete_records_before(log.log_end_offset // 2)
    assert log.delete_old_segments(NOW_MS) > 0
    for number in range(200):
        append(log, 3, leader_epoch=9, timestamp_ms=NOW_MS + 10_000 + number, size=200)
    log.delete_files_due(NOW_MS + 10**9)
    log.close()
    check_all(directory, log)

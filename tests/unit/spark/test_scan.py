"""Direct scans: what of a data directory becomes rows."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from barnabas.config.broker import BrokerConfig
from barnabas.config.topic import TopicConfig
from barnabas.config.validation import ConfigError
from barnabas.log.checkpoint import encode_offsets, encode_partition_metadata
from barnabas.log.log import AppendOrigin, Log
from barnabas.protocol.control_records import TransactionMarker, encode_transaction_marker
from barnabas.protocol.record_batch import Record, encode_batch
from barnabas.runtime.system.disk import SystemDisk
from barnabas.spark.options import READ_OPTIONS, Options
from barnabas.spark.reading import scan, selection
from barnabas.spark.reading.log_files import CorruptLog, NoSuchLog
from barnabas.spark.reading.offsets import OffsetError
from barnabas.spark.reading.selection import NoSuchTopic
from barnabas.types import TopicPartition

NOW_MS = 1_700_000_000_000
ORDERS = TopicPartition("orders", 0)


class Data:
    """A data directory with one partition, written by the log itself."""

    def __init__(self, directory: Path, name: TopicPartition = ORDERS, segment_bytes: int = 4000) -> None:
        self.directory = directory
        self.name = name
        settings = {"internal.segment.bytes": str(segment_bytes), "index.interval.bytes": "300"}
        config = TopicConfig(settings, BrokerConfig({}))
        self.log = Log.open(SystemDisk(), str(directory / name.directory_name), config, NOW_MS)

    def write(self, count: int = 1, **settings: Any) -> None:
        """One batch; its records are a millisecond apart in time as they are in offsets."""
        base = self.log.log_end_offset
        rows = [Record(number, NOW_MS + base + number, None, b"value-%d" % (base + number)) for number in range(count)]
        self.log.append_as_leader(memoryview(encode_batch(rows, **settings)), 0, NOW_MS)
        self.log.high_watermark = self.log.log_end_offset

    def end_transaction(self, producer_id: int, committed: bool) -> None:
        marker = encode_transaction_marker(
            TransactionMarker(committed, 0), producer_id=producer_id, producer_epoch=0, timestamp_ms=NOW_MS
        )
        self.log.append_as_leader(memoryview(marker), 0, NOW_MS, AppendOrigin.COORDINATOR)
        self.log.high_watermark = self.log.log_end_offset

    def checkpoint(self, high_watermark: int | None = None, topic_id: bytes | None = None) -> None:
        offset = self.log.log_end_offset if high_watermark is None else high_watermark
        (self.directory / "replication-offset-checkpoint").write_bytes(encode_offsets({self.name: offset}))
        (self.directory / "log-start-offset-checkpoint").write_bytes(
            encode_offsets({self.name: self.log.log_start_offset})
        )
        if topic_id is not None:
            metadata = self.directory / self.name.directory_name / "partition.metadata"
            metadata.write_bytes(encode_partition_metadata(topic_id))


@pytest.fixture
def data(tmp_path: Path) -> Data:
    found = Data(tmp_path)
    for _ in range(40):
        found.write(10)
    found.checkpoint()
    return found


def planned(directory: Path | str, *, read_committed: bool = False, **given: str) -> list[scan.ScanSplit]:
    settings = {"logDirs": str(directory), "subscribe": "orders", **given}
    options = Options(settings, READ_OPTIONS)
    return scan.plan(
        options,
        lambda there: selection.chosen(options, there),
        read_committed=read_committed,
        tell=lambda text: None,
    )


def offsets(splits: list[scan.ScanSplit]) -> list[int]:
    found: list[int] = []
    for split in splits:
        for batch in scan.read(split, ["offset", "value"]):
            for row in batch.to_pylist():
                assert row["value"] == b"value-%d" % row["offset"]
                found.append(row["offset"])
    return found


def test_everything_below_the_high_watermark_once(data: Data) -> None:
    assert len(list(data.directory.glob("orders-0/*.log"))) > 2
    for split_bytes in ("1024", "5000", "100000000"):
        splits = planned(data.directory, splitBytes=split_bytes)
        assert offsets(splits) == list(range(400))
    assert len(planned(data.directory, splitBytes="1024")) > 6
    assert len(planned(data.directory)) == 1
    assert len(planned(data.directory, minPartitions="6")) >= 6


def test_nothing_at_or_above_the_high_watermark(data: Data) -> None:
    data.checkpoint(high_watermark=237)
    assert offsets(planned(data.directory, splitBytes="1024")) == list(range(237))
    (data.directory / "replication-offset-checkpoint").unlink()
    assert offsets(planned(data.directory)) == []


def test_offsets_prune_files(data: Data) -> None:
    splits = planned(data.directory, startingOffsets='{"orders": {"0": 205}}', endingOffsets='{"orders": {"0": 218}}')
    assert offsets(splits) == list(range(205, 218))
    assert sum(each.end - each.start for split in splits for each in split.files) < 4500


def test_times_prune_files(data: Data) -> None:
    splits = planned(data.directory, startingTimestamp=str(NOW_MS + 251), endingTimestamp=str(NOW_MS + 260))
    assert offsets(splits) == list(range(251, 260))
    assert sum(each.end - each.start for split in splits for each in split.files) < 4500
    with pytest.raises(OffsetError, match="orders-0 is as late as"):
        planned(data.directory, startingTimestamp=str(NOW_MS + 9999))


def test_indexes_are_hints(data: Data) -> None:
    for path in data.directory.glob("orders-0/*index"):
        path.write_bytes(b"\xff" * 24)
    starting = '{"orders": {"0": 205}}'
    assert offsets(planned(data.directory, splitBytes="1024", startingOffsets=starting)) == list(range(205, 400))
    for path in data.directory.glob("orders-0/*index"):
        path.unlink()
    assert offsets(planned(data.directory, splitBytes="1024")) == list(range(400))
    assert offsets(planned(data.directory, startingTimestamp=str(NOW_MS + 251)))[0] == 251


def largest_segment(data: Data) -> Path:
    return sorted(data.directory.glob("orders-0/*.log"))[1]


@pytest.mark.parametrize("inside", [0, 16, 60, 80])
def test_a_damaged_segment_is_named_with_its_position(data: Data, inside: int) -> None:
    path = largest_segment(data)
    content = bytearray(path.read_bytes())
    second = 12 + int.from_bytes(content[8:12], "big")
    content[second + inside if inside else second + 8] ^= 0xFF
    path.write_bytes(content)
    with pytest.raises(CorruptLog, match=f"{path.name} is damaged at position {second}:"):
        offsets(planned(data.directory))


def test_a_log_that_ends_too_early_is_told(data: Data) -> None:
    path = sorted(data.directory.glob("orders-0/*.log"))[-1]
    os.truncate(path, path.stat().st_size - 5)
    with pytest.raises(CorruptLog, match=r"ends at offset \d+, not at 400"):
        offsets(planned(data.directory))


def test_a_batch_larger_than_a_chunk(data: Data, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scan, "CHUNK_BYTES", 100)
    assert offsets(planned(data.directory)) == list(range(400))


def test_offsets_out_of_range(data: Data) -> None:
    with pytest.raises(OffsetError, match="offset 999 of orders-0"):
        planned(data.directory, endingOffsets='{"orders": {"0": 999}}')
    splits = planned(data.directory, endingOffsets='{"orders": {"0": 999}}', failOnDataLoss="false")
    assert offsets(splits) == list(range(400))


def test_committed_records_only(tmp_path: Path) -> None:
    data = Data(tmp_path, segment_bytes=400)
    first, second = ({"transactional": True, "producer_id": each, "producer_epoch": 0} for each in (1, 2))
    data.write(2)
    data.write(2, base_sequence=0, **first)  # 2, 3: aborted
    data.write(2, base_sequence=0, **second)  # 4, 5: committed
    data.end_transaction(1, committed=False)  # 6
    data.write(2, base_sequence=2, **first)  # 7, 8: committed
    data.end_transaction(2, committed=True)  # 9
    data.end_transaction(1, committed=True)  # 10
    data.write(2, base_sequence=2, **second)  # 11, 12: open
    data.write(1)  # 13: behind an open one
    data.checkpoint()
    assert len(list(data.directory.glob("orders-0/*.log"))) > 1
    for split_bytes in ("1024", "100000"):
        committed = planned(tmp_path, read_committed=True, splitBytes=split_bytes)
        assert offsets(committed) == [0, 1, 4, 5, 7, 8]
        assert offsets(planned(tmp_path, splitBytes=split_bytes)) == [0, 1, 2, 3, 4, 5, 7, 8, 11, 12, 13]
    late = {"startingTimestamp": str(NOW_MS + 13), "startingOffsetsByTimestampStrategy": "latest"}
    assert offsets(planned(tmp_path, **late)) == [13]
    assert offsets(planned(tmp_path, read_committed=True, **late)) == [], "it lies behind an open transaction"


def test_a_split_behind_an_aborted_transaction(tmp_path: Path) -> None:
    """What its producer committed afterwards counts, wherever the reading begins."""
    data = Data(tmp_path, segment_bytes=100_000)
    producer = {"transactional": True, "producer_id": 1, "producer_epoch": 0}
    data.write(2, base_sequence=0, **producer)  # 0, 1: aborted
    data.end_transaction(1, committed=False)  # 2
    for number in range(40):
        data.write(10)  # 3 to 402
        data.write(1, base_sequence=2 + number, **producer)
    data.end_transaction(1, committed=True)
    data.checkpoint()
    everything = list(range(3, data.log.log_end_offset - 1))
    for given in ({}, {"splitBytes": "1024"}):
        assert offsets(planned(tmp_path, read_committed=True, **given)) == everything
    starting = json.dumps({"orders": {"0": 205}})
    assert offsets(planned(tmp_path, read_committed=True, startingOffsets=starting)) == everything[202:]


def test_of_replicas_the_furthest_is_read(tmp_path: Path) -> None:
    for number, count in enumerate((20, 30)):
        replica = Data(tmp_path / str(number))
        replica.write(count)
        replica.checkpoint(topic_id=b"i" * 16)
    both = f"{tmp_path / '0'},{tmp_path / '1'}"
    assert offsets(planned(both)) == list(range(30))
    replica.checkpoint(topic_id=b"j" * 16)
    with pytest.raises(NoSuchLog, match="logDirs of one cluster"):
        planned(both)


def test_what_is_not_there_is_named(data: Data) -> None:
    with pytest.raises(NoSuchTopic, match="topic order does not exist; did you mean orders"):
        planned(data.directory, subscribe="order")
    with pytest.raises(NoSuchLog, match="nowhere is not a directory"):
        planned(data.directory / "nowhere")
    one = Options({"assign": '{"orders": [7]}'}, READ_OPTIONS)
    with pytest.raises(NoSuchTopic, match="partition 7 of topic orders does not exist; it has 1"):
        selection.chosen(one, [ORDERS])


@pytest.mark.parametrize(
    "given",
    [{}, {"subscribe": "a", "assign": '{"a": [0]}'}, {"subscribe": ""}, {"subscribePattern": "("}],
    ids=["nothing", "two ways", "no name", "no pattern"],
)
def test_what_to_read_is_said_once(given: dict[str, str]) -> None:
    with pytest.raises(ConfigError):
        selection.check(Options(given, READ_OPTIONS))


def test_patterns_match_whole_names() -> None:
    there = [TopicPartition(topic, 0) for topic in ("orders", "orders2", "__consumer_offsets")]
    for expression, topics in {"order.": ["orders"], ".*": ["orders", "orders2"]}.items():
        options = Options({"subscribePattern": expression}, READ_OPTIONS)
        assert [each.topic for each in selection.chosen(options, there)] == topics

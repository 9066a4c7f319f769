"""What `barnabas log verify` finds: each kind of damage, and nothing where there is none."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from barnabas.cli.segment_check import WARNING, WRONG, Finding, check_directory
from barnabas.cli.segment_files import Decoder, files_of, offset_entries, time_entries
from barnabas.protocol.compression import Codec
from barnabas.protocol.record_batch import Record, encode_batch

LOG = "00000000000000000010.log"


def batch(base_offset: int, count: int = 2, *, epoch: int = 1, timestamp_ms: int = 1000) -> bytearray:
    records = [Record(base_offset + each, timestamp_ms + each, b"k", b"v" * 20, ()) for each in range(count)]
    return encode_batch(records, base_offset=base_offset, leader_epoch=epoch, codec=Codec.NONE)


@pytest.fixture
def partition(tmp_path: Path) -> Path:
    """Three batches, at 10, 12 and 14, with the indexes of the second and the third."""
    directory = tmp_path / "topic-0"
    directory.mkdir()
    parts = [batch(10), batch(12, timestamp_ms=2000), batch(14, timestamp_ms=3000)]
    (directory / LOG).write_bytes(b"".join(parts))
    sizes = [len(part) for part in parts]
    index = struct.pack(">iiii", 3, sizes[0], 5, sizes[0] + sizes[1])
    (directory / LOG).with_suffix(".index").write_bytes(index + bytes(64))  # preallocated
    (directory / LOG).with_suffix(".timeindex").write_bytes(struct.pack(">qiqi", 2001, 3, 3001, 5))
    return directory


def found(directory: Path, *, deep: bool = False) -> list[Finding]:
    return check_directory(files_of(directory), deep=deep)[0]


def write(path: Path, position: int, data: bytes) -> None:
    content = bytearray(path.read_bytes())
    content[position : position + len(data)] = data
    path.write_bytes(content)


def test_a_sound_log(partition: Path) -> None:
    findings, checked = check_directory(files_of(partition), deep=True)
    assert findings == []
    assert (checked.batches, checked.records, checked.end_offset, checked.leader_epoch) == (3, 6, 16, 1)
    assert offset_entries((partition / LOG).with_suffix(".index"))[-1][0] == 15
    assert time_entries((partition / LOG).with_suffix(".timeindex"))[0] == (2001, 13)


def test_a_changed_byte(partition: Path) -> None:
    write(partition / LOG, len(batch(10)) + 80, b"x")
    (finding,) = found(partition)
    assert (finding.severity, finding.position) == (WRONG, len(batch(10)))
    assert "checksum" in finding.problem


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        (batch(15), "begins at offset 15, where 16 is due"),
        (batch(16, epoch=0), "leader epoch 0 after 1"),
        (batch(10 + (1 << 31)), "cannot be in this segment"),
    ],
)
def test_batches_out_of_order(partition: Path, bad: bytearray, words: str) -> None:
    path = partition / LOG
    path.write_bytes(path.read_bytes() + bad)
    (finding,) = found(partition)
    assert finding.severity == WRONG
    assert words in finding.problem


def test_records_that_cannot_be_read_are_found_by_looking_deep(partition: Path) -> None:
    data = batch(16)
    data[61] = 0x7F  # the length of the first record
    from barnabas.protocol.checksum import crc32c

    data[17:21] = struct.pack(">I", crc32c(memoryview(data)[21:]))
    path = partition / LOG
    path.write_bytes(path.read_bytes() + data)
    assert found(partition) == []
    (finding,) = found(partition, deep=True)
    assert "cannot be read" in finding.problem


def test_a_torn_tail_is_mended_at_the_next_start_but_only_at_the_end(partition: Path) -> None:
    path = partition / LOG
    path.write_bytes(path.read_bytes() + bytes(batch(16))[:70])
    (finding,) = found(partition)
    assert finding.severity == WARNING
    assert "of which 70 are there" in finding.problem
    (partition / "00000000000000000020.log").write_bytes(batch(20))
    assert [each.severity for each in found(partition)] == [WRONG]


def test_segments_that_overlap(partition: Path) -> None:
    (partition / "00000000000000000015.log").write_bytes(batch(15))
    (finding,) = found(partition)
    assert "begins below 16" in finding.problem


@pytest.mark.parametrize(
    ("suffix", "content", "words"),
    [
        (".index", struct.pack(">ii", 3, 1), "is not the last of a batch at position 1"),
        (".index", struct.pack(">iiii", 5, 200, 3, 100), "is not the last"),
        (".index", b"abc", "not a multiple"),
        (".timeindex", struct.pack(">qi", 9000, 3), "later than every record"),
        (".timeindex", struct.pack(">qiqi", 2001, 3, 1000, 5), "must ascend"),
        (".timeindex", struct.pack(">qi", 1, 500), "beyond the segment"),
        (".txnindex", b"abc", "not a multiple"),
        (".snapshot", b"abc", "too few"),
    ],
)
def test_what_a_broker_builds_anew_is_a_warning(partition: Path, suffix: str, content: bytes, words: str) -> None:
    (partition / LOG).with_suffix(suffix).write_bytes(content)
    (finding,) = found(partition)
    assert finding.severity == WARNING
    assert words in finding.problem


def test_records_of_other_topics_are_left_as_they_are() -> None:
    record = Record(0, 0, b"k", b"v", ())
    assert Decoder("orders")(record, False) == (b"k", b"v")
    assert "cannot be decoded" in Decoder("__cluster_metadata")(record, False).key

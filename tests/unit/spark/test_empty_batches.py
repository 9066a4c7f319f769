"""Batches without records, as compaction leaves them: of a marker, and of the last records of a producer."""

from __future__ import annotations

from pathlib import Path

import pytest

from barnabas.log.checkpoint import encode_offsets
from barnabas.protocol.control_records import TransactionMarker, encode_transaction_marker
from barnabas.protocol.messages import fetch
from barnabas.protocol.record_batch import Record, encode_batch, read_header
from barnabas.protocol.record_filter import empty_batch
from barnabas.spark.arrow.decoder import AbortedTransaction, RecordDecoder
from barnabas.spark.options import READ_OPTIONS, Options
from barnabas.spark.reading import log_files, scan, selection
from barnabas.spark.writing import progress
from barnabas.types import TopicPartition

NOW_MS = 1_700_000_000_000
PARTITION = TopicPartition("orders", 0)
END = 12


def written(first: int, count: int, producer_id: int = -1) -> bytearray:
    rows = [Record(offset, NOW_MS + offset, b"k%d" % offset, b"v") for offset in range(first, first + count)]
    if producer_id < 0:
        return encode_batch(rows, base_offset=first)
    return encode_batch(
        rows, base_offset=first, transactional=True, producer_id=producer_id, producer_epoch=0, base_sequence=first
    )


def marker(offset: int, producer_id: int, *, committed: bool) -> bytearray:
    found = bytearray(
        encode_transaction_marker(
            TransactionMarker(committed, 0), producer_id=producer_id, producer_epoch=0, timestamp_ms=NOW_MS
        )
    )
    found[:8] = offset.to_bytes(8, "big")
    return found


def emptied(batch: bytearray) -> bytearray:
    return empty_batch(read_header(batch))


def compacted() -> bytes:
    """Kept are 0, 1, 5, 6 (committed by 7), 9 and 10; 4 and 8 are empty markers, 2, 3 and 11 empty batches."""
    parts = [
        written(0, 2),
        emptied(written(2, 2, producer_id=1)),
        emptied(marker(4, 1, committed=False)),
        written(5, 2, producer_id=1),
        marker(7, 1, committed=True),
        emptied(marker(8, 2, committed=True)),
        written(9, 2),
        emptied(written(11, 1)),
    ]
    return b"".join(parts)


KEPT = [0, 1, 5, 6, 9, 10]


@pytest.mark.parametrize("chunk", [len(compacted()), 200])
def test_the_decoder_passes_over_them(chunk: int) -> None:
    data = compacted()
    decoder = RecordDecoder(topic="orders", partition=0, columns=["offset"])
    found: list[int] = []
    position = 0
    while position < len(data):
        size = chunk
        for batch in decoder.decode(data[position : position + size], first_offset=0, end_offset=END):
            found += batch.column(0).to_pylist()
        if decoder.position == 0:
            chunk *= 2
        position += decoder.position
    assert found == KEPT
    assert decoder.next_offset == END, "a range that ends in an empty batch has come to its end"


def test_an_empty_marker_ends_its_transaction() -> None:
    """Also where it is still named as aborted: what the producer committed afterwards counts."""
    decoder = RecordDecoder(topic="orders", partition=0, columns=["offset"])
    rows = decoder.decode(compacted(), first_offset=0, end_offset=END, aborted=[AbortedTransaction(1, 2)])
    assert [offset for batch in rows for offset in batch.column(0).to_pylist()] == KEPT


def test_a_sink_reads_its_decisions_behind_them() -> None:
    found = progress._Read()
    progress._take(
        found, "progress", 0, memoryview(compacted()), [fetch.AbortedTransaction(producer_id=1, first_offset=2)]
    )
    assert sorted(found.values) == sorted(b"k%d" % offset for offset in KEPT)
    assert found.position == END


@pytest.mark.parametrize("committed", [True, False])
def test_a_scan_passes_over_them(tmp_path: Path, committed: bool) -> None:
    folder = tmp_path / "orders-0"
    folder.mkdir()
    (folder / f"{0:020}.log").write_bytes(compacted())
    (tmp_path / "replication-offset-checkpoint").write_bytes(encode_offsets({PARTITION: END}))
    given = {"logDirs": str(tmp_path), "subscribe": "orders"}

    def offsets(**more: str) -> list[int]:
        options = Options({**given, **more}, READ_OPTIONS)
        splits = scan.plan(
            options,
            lambda there: selection.chosen(options, there),
            read_committed=committed,
            tell=pytest.fail,
        )
        return [
            row for split in splits for batch in scan.read(split, ["offset"]) for row in batch.column(0).to_pylist()
        ]

    assert offsets() == KEPT
    assert offsets(startingOffsets='{"orders": {"0": 3}}') == [5, 6, 9, 10]
    assert offsets(startingTimestamp=str(NOW_MS + 6)) == [6, 9, 10]
    files = log_files.find_partitions((str(tmp_path),))[PARTITION]
    assert log_files.last_stable_offset(files) == END, "an empty marker has ended its transaction"

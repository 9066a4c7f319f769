"""The transaction index, also as Kafka wrote it."""

from pathlib import Path

import pytest

from barnabas.log.transaction_index import AbortedTransaction, CorruptTransactionIndex, TransactionIndex
from barnabas.runtime.memory_disk import MemoryDisk

KAFKA = Path(__file__).parents[2] / "data" / "kafka-4.3.1"
PATH = "00000000000000000000.txnindex"
ABORTED = [
    AbortedTransaction(7, 10, 20, 5),  # the next one was still open then
    AbortedTransaction(8, 5, 30, 31),
    AbortedTransaction(9, 40, 50, 40),
]


def filled(disk: MemoryDisk) -> TransactionIndex:
    index = TransactionIndex(disk, PATH, 0)
    for aborted in ABORTED:
        index.append(aborted)
    return index


def test_no_file_without_an_abort() -> None:
    disk = MemoryDisk()
    index = TransactionIndex(disk, PATH, 0)
    assert index.entries() == []
    assert index.overlapping(0, 100) == ([], False)
    assert not disk.exists(PATH)


def test_bytes_are_those_of_kafka() -> None:
    disk = MemoryDisk()
    TransactionIndex(disk, PATH, 0).append(ABORTED[0])
    assert disk.read_bytes(PATH) == bytes.fromhex(
        "0000 0000000000000007 000000000000000a 0000000000000014 0000000000000005"
    )


def test_reads_what_kafka_wrote() -> None:
    disk = MemoryDisk()
    data = (KAFKA / "transactions-0" / "00000000000000000000.txnindex").read_bytes()
    disk.open(PATH).write(0, data)
    index = TransactionIndex(disk, PATH, 0)
    index.check()
    entries = index.entries()
    assert len(entries) == len(data) // 34 > 0
    again = MemoryDisk()
    copy = TransactionIndex(again, PATH, 0)
    for aborted in entries:
        copy.append(aborted)
    assert again.read_bytes(PATH) == data


def test_taken_up_again() -> None:
    disk = MemoryDisk()
    filled(disk)
    index = TransactionIndex(disk, PATH, 0)
    assert index.entries() == ABORTED
    index.append(AbortedTransaction(1, 60, 70, 71))
    assert len(index.entries()) == 4


@pytest.mark.parametrize(
    ("first", "end", "expected", "is_complete"),
    [
        (0, 5, [], True),
        (0, 6, [ABORTED[1]], True),
        (0, 15, ABORTED[:2], True),
        (21, 31, [ABORTED[1]], True),
        (0, 100, ABORTED, False),
        (31, 40, [], True),
        (45, 100, [ABORTED[2]], False),
        (51, 100, [], False),
    ],
)
def test_overlapping(first: int, end: int, expected: list[AbortedTransaction], is_complete: bool) -> None:
    index = filled(MemoryDisk())
    found, complete = index.overlapping(first, end)
    assert found == expected
    assert complete == is_complete


def test_truncate() -> None:
    index = filled(MemoryDisk())
    index.truncate_to(30)
    assert index.entries() == ABORTED[:1]
    index.append(ABORTED[1])
    assert index.entries() == ABORTED[:2]
    index.reset()
    assert index.entries() == []


@pytest.mark.parametrize("content", [b"short", b"\0\1" + bytes(32), bytes(34)])
def test_check_finds_what_cannot_be(content: bytes) -> None:
    disk = MemoryDisk()
    disk.open(PATH).write(0, content)
    with pytest.raises(CorruptTransactionIndex):
        TransactionIndex(disk, PATH, 5).check()

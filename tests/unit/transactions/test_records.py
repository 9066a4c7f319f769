"""Records of `__transaction_state` as Apache Kafka 4.3.1 writes them."""

from __future__ import annotations

import pytest

from barnabas.coordination.records import encode
from barnabas.protocol.message import DecodeError
from barnabas.transactions.state import TransactionState
from barnabas.transactions.transaction import Transaction, decode, from_record, tombstone
from barnabas.types import TopicPartition

# Read from a log of Kafka's: a new id, its partitions, its abort by another producer, and the end of that.
EMPTY = bytes.fromhex("0001000000000000002f00000000ea600000000001a1e1a9e032ffffffffffffffff010008000000000000002f")
ONGOING = bytes.fromhex(
    "0001000000000000002f00010000ea60010209746f703232343832020000000000000001a1e1a9e039000001a1e1a9e039010008000000000000002f"
)
FENCED = bytes.fromhex(
    "0001000000000000002f00020000ea600302135f5f636f6e73756d65725f6f666673657473020000000300000001a1e1a9e043"
    "000001a1e1a9e041020008000000000000002f02020002"
)
COMPLETE = bytes.fromhex(
    "0001000000000000002f00020000ea600501000001a1e1a9e044000001a1e1a9e041020008000000000000002f02020002"
)
KEY = b"\x00\x00\x00\x01x"


@pytest.mark.parametrize(
    ("value", "state", "epoch", "partitions", "version"),
    [
        (EMPTY, TransactionState.EMPTY, 0, [], 0),
        (ONGOING, TransactionState.ONGOING, 1, [TopicPartition("top22482", 0)], 0),
        (FENCED, TransactionState.PREPARE_ABORT, 2, [TopicPartition("__consumer_offsets", 3)], 2),
        (COMPLETE, TransactionState.COMPLETE_ABORT, 2, [], 2),
    ],
)
def test_records_of_kafka(
    value: bytes, state: TransactionState, epoch: int, partitions: list[TopicPartition], version: int
) -> None:
    record = decode(KEY, value)
    assert record is not None
    name, transaction = from_record(record)
    assert transaction is not None
    assert (name, transaction.state, transaction.producer_id, transaction.producer_epoch) == ("x", state, 47, epoch)
    assert list(transaction.partitions) == partitions
    assert transaction.client_version == version
    assert encode(transaction.record(2)) == (KEY, value)


def test_the_steps_write_what_kafka_writes() -> None:
    """The same dialogue as above, with its moments."""
    first = Transaction("x", 47, -1, 0).initialized(epoch=0, last_epoch=-1, timeout_ms=60_000, now_ms=0x1A1E1A9E032)
    assert encode(first.record(2)) == (KEY, EMPTY)
    group = TopicPartition("__consumer_offsets", 3)
    ongoing = first._replace(producer_epoch=1).added([group], client_version=0, now_ms=0x1A1E1A9E041)
    fenced = ongoing.fenced(server_version=2, now_ms=0x1A1E1A9E043)
    assert encode(fenced.record(2)) == (KEY, FENCED)
    assert encode(fenced.completed(0x1A1E1A9E044).record(2)) == (KEY, COMPLETE)


def test_old_clusters_write_old_records() -> None:
    _key, value = encode(Transaction("x", 47, 3, 60_000).record(0))
    assert value is not None
    assert value[:2] == b"\x00\x00"
    record = decode(KEY, value)
    assert record is not None
    assert from_record(record)[1] == Transaction("x", 47, 3, 60_000)


def test_a_tombstone_forgets() -> None:
    key, value = encode(tombstone("x"))
    assert (key, value) == (KEY, None)
    record = decode(key, value)
    assert record is not None
    assert from_record(record) == ("x", None)


def test_a_state_that_nobody_knows_is_refused() -> None:
    broken = bytearray(EMPTY)
    broken[16] = 9
    record = decode(KEY, bytes(broken))
    assert record is not None
    with pytest.raises(DecodeError):
        from_record(record)

"""Files damaged while no broker ran: the torn tail is cut, lost indexes are rebuilt, the rest is served."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from broker_process import BrokerFailed, BrokerProcess, wait_until
from wire import Wire, batch, create_topic, fetch, produce

from barnabas.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from barnabas.protocol.record_batch import decode_records, read_headers

BATCHES = 20
STEM = "00000000000000000000"


def filled(directory: Path, *, kill: bool) -> BrokerProcess:
    """A stopped or killed broker whose topic t holds BATCHES batches of one record each."""
    broker = BrokerProcess(data=directory, config={"log.index.interval.bytes": 100}).start()
    with Wire(broker.address) as wire:
        create_topic(wire, "t")
        wait_until(lambda: fetch(wire, "t", {0: 0})[0].error_code == 0, "the topic is led")
        for number in range(BATCHES):
            answer = produce(wire, "t", {0: batch(b"%d" % number + b"-" * 200, timestamp_ms=1_000 + number)})[0]
            assert answer.base_offset == number
    if kill:
        broker.kill()
    else:
        assert broker.stop() == 0
    return broker


def check_content(wire: Wire, count: int) -> None:
    wait_until(lambda: fetch(wire, "t", {0: 0})[0].error_code == 0, "the topic is led")
    answer = fetch(wire, "t", {0: 0})[0]
    assert answer.high_watermark == count
    records = memoryview(answer.records)
    values = [record.value for position, _ in read_headers(records) for record in decode_records(records, position)]
    assert values == [b"%d" % number + b"-" * 200 for number in range(count)]
    for offset in range(count):
        first = decode_records(memoryview(fetch(wire, "t", {0: offset}, partition_bytes_max=1)[0].records))[0]
        assert first.offset == offset
    asked = ListOffsetsPartition(partition_index=0, timestamp=1_000 + count // 2, current_leader_epoch=-1)
    request = ListOffsetsRequest(topics=[ListOffsetsTopic(name="t", partitions=[asked])])
    assert wire.call(request, 7).topics[0].partitions[0].offset == count // 2


def cut_bytes(file: Path) -> None:
    os.truncate(file, file.stat().st_size - 7)


def flip_a_byte(file: Path) -> None:
    data = bytearray(file.read_bytes())
    data[-20] ^= 0x40
    file.write_bytes(data)


def append_garbage(file: Path) -> None:
    with file.open("ab") as out:
        out.write(os.urandom(333))


def append_zeros(file: Path) -> None:
    with file.open("ab") as out:
        out.write(bytes(4096))


@pytest.mark.parametrize(
    ("damage", "left"),
    [(cut_bytes, BATCHES - 1), (flip_a_byte, BATCHES - 1), (append_garbage, BATCHES), (append_zeros, BATCHES)],
    ids=lambda each: getattr(each, "__name__", None),
)
def test_a_damaged_tail_is_cut_after_a_crash(tmp_path: Path, damage: Callable[[Path], None], left: int):
    broker = filled(tmp_path, kill=True)
    damage(broker.node_directory / "t-0" / f"{STEM}.log")
    with broker, Wire(broker.address) as wire:
        check_content(wire, left)
        assert produce(wire, "t", {0: batch(b"next")})[0].base_offset == left


def remove(file: Path) -> None:
    file.unlink(missing_ok=True)


def empty(file: Path) -> None:
    file.write_bytes(b"")


def garble(file: Path) -> None:
    """Entries of the right size that point before the segment: what Kafka's own check would find, too."""
    file.write_bytes(b"\xff" * 96)


@pytest.mark.parametrize("kill", [True, False], ids=["after a crash", "after a clean stop"])
@pytest.mark.parametrize("suffix", ["index", "timeindex"])
@pytest.mark.parametrize("damage", [remove, empty, garble])
def test_lost_or_damaged_indexes_are_rebuilt(tmp_path: Path, damage: Callable[[Path], None], suffix: str, kill: bool):
    broker = filled(tmp_path, kill=kill)
    damage(broker.node_directory / "t-0" / f"{STEM}.{suffix}")
    with broker, Wire(broker.address) as wire:
        check_content(wire, BATCHES)


@pytest.mark.parametrize(
    "name", ["leader-epoch-checkpoint", f"{BATCHES:020d}.snapshot", "recovery-point-offset-checkpoint"]
)
def test_lost_checkpoints_are_no_loss(tmp_path: Path, name: str):
    broker = filled(tmp_path, kill=False)
    for directory in (broker.node_directory, broker.node_directory / "t-0"):
        (directory / name).unlink(missing_ok=True)
    with broker, Wire(broker.address) as wire:
        check_content(wire, BATCHES)


def test_strange_files_do_not_hurt(tmp_path: Path):
    broker = filled(tmp_path, kill=False)
    (broker.node_directory / "t-0" / "notes.txt").write_text("left by somebody")
    (broker.node_directory / "lost+found").mkdir()
    with broker, Wire(broker.address) as wire:
        check_content(wire, BATCHES)


def test_a_directory_of_another_node_is_refused(tmp_path: Path):
    filled(tmp_path, kill=False)
    (tmp_path / "node-1").rename(tmp_path / "node-2")
    other = BrokerProcess(data=tmp_path, arguments=["--node-id", "2"])
    with pytest.raises(BrokerFailed, match="belongs to node 1"):
        other.start()

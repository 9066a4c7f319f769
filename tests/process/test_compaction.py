"""Compaction in a process of its own, on a real disk: it ends with its broker, and a kill at any time loses no key."""

from __future__ import annotations

from pathlib import Path

from broker_process import BrokerProcess, wait_until
from wire import Wire, create_topic, fetch, leaders, produce

from barnabas.protocol.record_batch import HEADER_BYTES, Record, decode_records, encode_batch, read_header

TOPIC = "compacted"
EAGER = {
    "cleanup_policy": "compact",
    "min_cleanable_dirty_ratio": "0.0",
    "internal_segment_bytes": "20000",
    "file_delete_delay_ms": "0",
}
KEYS = 40


def write(broker: BrokerProcess, numbers: range) -> dict[bytes, bytes | None]:
    """Gives what the last of each key says; none for a while after each tombstone."""
    last: dict[bytes, bytes | None] = {}
    with Wire(broker.address) as wire:
        for first in numbers[::20]:
            records = []
            for number in range(first, first + 20):
                key = b"key-%d" % (number * 7 % KEYS)
                value = None if number % 11 == 0 else b"%d " % number + bytes(100)
                records.append(Record(number - first, 1_700_000_000_000, key, value))
                last[key] = value
            assert produce(wire, TOPIC, {0: encode_batch(records)})[0].error_code == 0
    return last


def read(broker: BrokerProcess) -> tuple[dict[bytes, bytes | None], int]:
    """The last value of each key, and how many records there are."""
    last: dict[bytes, bytes | None] = {}
    count = offset = 0
    with Wire(broker.address) as wire:
        wait_until(lambda: leaders(wire, TOPIC), "it leads")
        while True:
            answer = fetch(wire, TOPIC, {0: offset})[0]
            assert answer.error_code == 0, answer
            if offset >= answer.high_watermark:
                return last, count
            data = memoryview(answer.records)
            position = 0
            while position + HEADER_BYTES <= len(data):
                header = read_header(data, position)
                if position + header.size_bytes > len(data):
                    break
                for record in decode_records(data, position):
                    assert record.key is not None
                    last[record.key] = record.value
                    count += 1
                offset = header.next_offset
                position += header.size_bytes


def alive(last: dict[bytes, bytes | None]) -> dict[bytes, bytes]:
    return {key: value for key, value in last.items() if value is not None}


def children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def is_running(pid: int) -> bool:
    """One that is dead may wait for somebody to take note of it."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


def remains(directory: Path) -> list[str]:
    return [path.name for path in directory.iterdir() if path.suffix in (".cleaned", ".swap")]


def test_the_last_value_of_every_key_is_left(tmp_path: Path) -> None:
    with BrokerProcess(data=tmp_path, config={"log.cleaner.backoff.ms": 100}) as broker:
        with Wire(broker.address) as wire:
            create_topic(wire, TOPIC, **EAGER)
        last = write(broker, range(2000))
        checkpoint = broker.node_directory / "cleaner-offset-checkpoint"
        wait_until(checkpoint.exists, "it is compacted")
        last.update(write(broker, range(2000, 2400)))
        wait_until(lambda: read(broker)[1] < 500, "it is compacted again")
        assert alive(read(broker)[0]) == alive(last)
        assert broker.stop() == 0
        assert remains(broker.node_directory / f"{TOPIC}-0") == []
        broker.start()
        assert alive(read(broker)[0]) == alive(last)
        assert "Traceback" not in broker.errors(), broker.errors()


def test_a_kill_while_it_works_loses_nothing_and_leaves_no_process(tmp_path: Path) -> None:
    slow = {"log.cleaner.backoff.ms": 50, "log.cleaner.io.max.bytes.per.second": 400_000}
    with BrokerProcess(data=tmp_path, config=slow) as broker:
        with Wire(broker.address) as wire:
            create_topic(wire, TOPIC, **EAGER)
        last = write(broker, range(2000))
        directory = broker.node_directory / f"{TOPIC}-0"
        for number in range(3):
            wait_until(lambda: remains(directory), "it is being compacted")
            workers = children(broker.pid)
            assert workers
            broker.kill()
            wait_until(lambda pids=workers: not any(map(is_running, pids)), "the worker ended too")
            broker.start()
            assert alive(read(broker)[0]) == alive(last)
            last.update(write(broker, range(2000 + 400 * number, 2400 + 400 * number)))
        wait_until(lambda: remains(directory), "it is being compacted")
        assert broker.stop() == 0
        assert remains(directory) == []

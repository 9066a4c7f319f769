"""A full disk: the producer is told, readers are served, nothing acknowledged is lost, and writing works again."""

from __future__ import annotations

import resource
from pathlib import Path

import small_disk as mounted
from broker_process import BrokerProcess, wait_until
from wire import Wire, batch, create_topic, fetch, produce, whole_records

from barnabas.errors import ErrorCode

VALUE_BYTES = 100_000
BATCHES_MAX = 1_000  # far more than any disk of these tests holds


small_disk = mounted.small_disk


def value_of(number: int) -> bytes:
    return b"%08d" % number + b"v" * VALUE_BYTES


def fill(wire: Wire, topic: str) -> int:
    """Writes until the broker refuses. How many batches were acknowledged."""
    for number in range(BATCHES_MAX):
        answer = produce(wire, topic, {0: batch(value_of(number))})[0]
        if answer.error_code != 0:
            assert answer.error_code == ErrorCode.KAFKA_STORAGE_ERROR
            return number
        assert answer.base_offset == number
    raise AssertionError("the disk never filled up")


def check_values(wire: Wire, topic: str, count: int) -> None:
    offset = 0
    while offset < count:
        for record in whole_records(fetch(wire, topic, {0: offset})[0].records):
            assert record.offset == offset
            assert record.value == value_of(offset)
            offset += 1


def prepare_topics(wire: Wire) -> None:
    for topic in ("full", "other"):
        create_topic(wire, topic)
        wait_until(lambda topic=topic: fetch(wire, topic, {0: 0})[0].error_code == 0, "the topic is led")
    assert produce(wire, "other", {0: batch(b"before")})[0].error_code == 0


def is_written(wire: Wire, topic: str, number: int) -> bool:
    answer = produce(wire, topic, {0: batch(value_of(number))})[0]
    if answer.error_code == 0:
        assert answer.base_offset == number
    return answer.error_code == 0


def test_a_full_disk(small_disk: Path):
    ballast = small_disk / "ballast"
    ballast.write_bytes(bytes(8 << 20))
    with BrokerProcess(data=small_disk) as broker:
        with Wire(broker.address) as wire:
            prepare_topics(wire)
            count = fill(wire, "full")
            assert count > 10
            for _ in range(20):  # stays refused, and does no harm
                assert produce(wire, "full", {0: batch(value_of(0))})[0].error_code == ErrorCode.KAFKA_STORAGE_ERROR
            assert fetch(wire, "full", {0: 0})[0].high_watermark == count
            check_values(wire, "full", count)
            assert whole_records(fetch(wire, "other", {0: 0})[0].records)[0].value == b"before"
            assert "full-0" in broker.errors()
            ballast.unlink()
            if not is_written(wire, "full", count):
                broker.kill()
                broker.start()
        with Wire(broker.address) as wire:
            wait_until(lambda: fetch(wire, "full", {0: 0})[0].error_code == 0, "the topic is led")
            end = fetch(wire, "full", {0: 0})[0].high_watermark
            assert count <= end <= count + 1
            wait_until(lambda: is_written(wire, "full", end), "writing works again")
            check_values(wire, "full", end + 1)
            assert produce(wire, "other", {0: batch(b"after")})[0].base_offset == 1
        assert broker.stop() == 0, broker.errors()
    with broker.start(), Wire(broker.address) as wire:
        wait_until(lambda: fetch(wire, "full", {0: 0})[0].error_code == 0, "the topic is led")
        check_values(wire, "full", end + 1)


def test_kill_9_on_a_full_disk(small_disk: Path):
    """The half-written batch at the end is cut; what was acknowledged stays."""
    ballast = small_disk / "ballast"
    ballast.write_bytes(bytes(8 << 20))
    with BrokerProcess(data=small_disk) as broker:
        with Wire(broker.address) as wire:
            prepare_topics(wire)
            count = fill(wire, "full")
        broker.kill()
        ballast.unlink()
        broker.start()
        with Wire(broker.address) as wire:
            wait_until(lambda: fetch(wire, "full", {0: 0})[0].error_code == 0, "the topic is led")
            assert fetch(wire, "full", {0: 0})[0].high_watermark == count
            check_values(wire, "full", count)
            assert is_written(wire, "full", count)


def test_a_file_that_may_not_grow(tmp_path: Path):
    """RLIMIT_FSIZE: one partition's file is at its limit while all others still grow."""
    limit = 12 << 20  # above the size of a fresh index

    def prepare() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    with BrokerProcess(data=tmp_path, prepare=prepare) as broker, Wire(broker.address) as wire:
        prepare_topics(wire)
        count = fill(wire, "full")
        assert count >= 100
        assert produce(wire, "other", {0: batch(b"still")})[0].error_code == 0
        check_values(wire, "full", count)
        assert produce(wire, "other", {0: batch(b"and still")})[0].error_code == 0
        assert broker.is_running()

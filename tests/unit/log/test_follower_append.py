"""What a follower is given at once lands as if it had come batch by batch, with one write for each segment."""

from random import Random

import pytest
from log_fixtures import DIRECTORY, NOW_MS, batch, simulated_disk, topic_config

from barnabas.errors import ErrorCode
from barnabas.log.log import Log
from barnabas.log.segment import Segment
from barnabas.protocol.record_batch import read_header


def given_by_leader(chance: Random, count: int) -> list[bytes]:
    """Batches with offsets, epochs, timestamps and now and then a producer."""
    leader = Log.open(simulated_disk(), DIRECTORY, topic_config(), NOW_MS)
    found = []
    epoch = sequence = 0
    for number in range(count):
        epoch += chance.random() < 0.1
        records = chance.randint(1, 5)
        idempotent = chance.random() < 0.4
        data = batch(
            records,
            timestamp_ms=NOW_MS + number * chance.randint(-10, 500),
            size=chance.randint(10, 200),
            producer_id=7 if idempotent else -1,
            producer_epoch=0 if idempotent else -1,
            base_sequence=sequence if idempotent else -1,
        )
        sequence += records if idempotent else 0
        assert leader.append_as_leader(data, epoch, NOW_MS).error == ErrorCode.NONE
        found.append(bytes(data))
    return found


def content(log: Log) -> list[tuple[int, bytes]]:
    return [(segment.base_offset, segment.file().read(0, segment.size_bytes)) for segment in log.segments]


@pytest.mark.parametrize("seed", range(25))
def test_many_at_once_are_as_one_by_one(seed: int) -> None:
    chance = Random(seed)
    config = topic_config(
        segment_bytes=chance.choice((1000, 5000, 1 << 20)),
        segment_ms=chance.choice((2000, 1 << 40)),
        index_interval_bytes=chance.choice((0, 300, 4096)),
        segment_index_bytes=chance.choice((120, 10_000)),
    )
    batches = given_by_leader(chance, 60)
    single = Log.open(simulated_disk(), DIRECTORY, config, NOW_MS)
    for data in batches:
        assert single.append_as_follower(memoryview(data), NOW_MS).error == ErrorCode.NONE
    many = Log.open(simulated_disk(), DIRECTORY, config, NOW_MS)
    position = 0
    while position < len(batches):
        count = chance.randint(1, 20)
        info = many.append_as_follower(memoryview(b"".join(batches[position : position + count])), NOW_MS)
        assert info.error == ErrorCode.NONE
        position += count
    assert content(many) == content(single)
    assert many.log_end_offset == single.log_end_offset
    assert many.leader_epochs.entries == single.leader_epochs.entries
    for offset in range(many.log_end_offset):
        one, other = (log.read(offset, 1, log.log_end_offset) for log in (many, single))
        assert one is not None
        assert other is not None
        assert (one.position, one.segment_base_offset) == (other.position, other.segment_base_offset)


def test_one_write_for_one_segment(monkeypatch: pytest.MonkeyPatch) -> None:
    writes: list[int] = []
    append = Segment.append

    def counted(self: Segment, data: memoryview, size_bytes: int) -> int:
        writes.append(size_bytes)
        return append(self, data, size_bytes)

    batches = given_by_leader(Random(1), 20)
    log = Log.open(simulated_disk(), DIRECTORY, topic_config(), NOW_MS)
    monkeypatch.setattr(Segment, "append", counted)
    log.append_as_follower(memoryview(b"".join(batches)), NOW_MS)
    assert writes == [sum(map(len, batches))]


def test_what_comes_before_a_bad_batch_stays() -> None:
    batches = given_by_leader(Random(1), 5)
    broken = bytearray(batches[3])
    broken[-1] ^= 1
    log = Log.open(simulated_disk(), DIRECTORY, topic_config(), NOW_MS)
    info = log.append_as_follower(memoryview(b"".join((*batches[:3], broken, batches[4]))), NOW_MS)
    assert info.error == ErrorCode.CORRUPT_MESSAGE
    assert log.log_end_offset == read_header(memoryview(batches[3]), 0).base_offset

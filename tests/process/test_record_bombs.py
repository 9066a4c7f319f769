"""Batches of a few kilobytes that claim, or unpack to, far more: refused with an error, while others are served."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from broker_process import BrokerProcess, peak_bytes
from wire import PRODUCE_VERSION, Wire, batch, create_topic, produce, produce_request

from barnabas.errors import ErrorCode
from barnabas.protocol.compression import Codec, compress
from barnabas.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from barnabas.protocol.messages.metadata import MetadataRequest
from barnabas.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from barnabas.protocol.record_batch import BODY, finish_batch, read_header

NOW_MS = 1_700_000_000_000
BOMB_BYTES_MAX = 20_000
MEMORY_BYTES_MAX = 400 << 20  # two batches of 128 MiB at once, and what a broker has anyway
RECORD = b"\x0e\x00\x00\x00\x02k\x01\x00"  # with a key and without a value, offset delta 0


def bomb(count: int, data: bytes, codec: Codec = Codec.ZSTD) -> bytes:
    body = BODY.pack(codec, count - 1, NOW_MS, NOW_MS, -1, -1, -1, count)
    return bytes(finish_batch(0, -1, body, compress(codec, data)))


def others_are_served_during(address: str, work: Callable[[], None]) -> None:
    """Another client goes on asking; it must get answers while the work is under way."""
    worker = threading.Thread(target=work)
    answers = 0
    with Wire(address) as other:
        worker.start()
        while worker.is_alive():
            assert other.call(MetadataRequest(topics=[]), 12).brokers
            answers += 1
    assert answers > 1


@pytest.mark.parametrize("settings", [{"cleanup.policy": "compact"}, {"compression.type": "gzip"}])
def test_bombs(tmp_path: Path, settings: dict[str, str]) -> None:
    bombs = [
        (bomb(15_000_000, RECORD * 15_000_000), ErrorCode.MESSAGE_TOO_LARGE),
        (bomb(1_000_000, RECORD * 1_000_000), ErrorCode.INVALID_RECORD),  # every offset delta is 0
        (bomb(1, bytes(200 << 20)), ErrorCode.MESSAGE_TOO_LARGE),
    ]
    with BrokerProcess(data=tmp_path) as broker, Wire(broker.address) as wire:
        create_topic(wire, "t", 1, **settings)

        def send_all() -> None:
            for data, expected in bombs:
                assert len(data) < BOMB_BYTES_MAX
                found.append((ErrorCode(produce(wire, "t", {0: data})[0].error_code), expected))

        found: list[tuple[ErrorCode, ErrorCode]] = []
        others_are_served_during(broker.address, send_all)
        assert [error for error, _ in found] == [expected for _, expected in bombs]
        assert peak_bytes(broker.pid) < MEMORY_BYTES_MAX


def offsets(wire: Wire, *topics: str, timestamp: int = NOW_MS) -> list[tuple[str, int, int]]:
    wanted = [
        ListOffsetsTopic(name=topic, partitions=[ListOffsetsPartition(partition_index=0, timestamp=timestamp)])
        for topic in topics
    ]
    answer = wire.call(ListOffsetsRequest(replica_id=-1, topics=wanted), 9)
    return [(topic.name, each.error_code, each.offset) for topic in answer.topics for each in topic.partitions]


@pytest.mark.parametrize("codec", list(Codec))
def test_a_batch_that_cannot_be_read_spoils_only_its_own_partition(
    wire: Wire, new_topic: Callable[..., str], codec: Codec
) -> None:
    broken, sound = new_topic(), new_topic()
    data = finish_batch(0, -1, BODY.pack(codec, 2, NOW_MS, NOW_MS, -1, -1, -1, 3), b"\xff" * 5 + bytes(30))
    if codec == Codec.LZ4:
        data = finish_batch(0, -1, BODY.pack(codec, 2, NOW_MS, NOW_MS, -1, -1, -1, 3), b"\xff" * 30)
    assert produce(wire, broken, {0: bytes(data)})[0].error_code == ErrorCode.NONE
    assert produce(wire, sound, {0: bytes(batch(b"v"))})[0].error_code == ErrorCode.NONE
    assert offsets(wire, sound, broken) == [(sound, ErrorCode.NONE, 0), (broken, ErrorCode.INVALID_RECORD, -1)]


@pytest.mark.parametrize("version", [3, 6, 7, PRODUCE_VERSION])
def test_zstd_is_for_clients_that_know_it(wire: Wire, new_topic: Callable[..., str], version: int) -> None:
    topic = new_topic()
    answer = wire.call(produce_request(topic, {0: bytes(batch(b"v", codec=Codec.ZSTD))}), version)
    expected = ErrorCode.NONE if version >= 7 else ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    assert answer.responses[0].partition_responses[0].error_code == expected


def test_of_a_partition_named_twice_the_last_batch_counts(wire: Wire, new_topic: Callable[..., str]) -> None:
    topic = new_topic()
    twice = [PartitionProduceData(index=0, records=bytes(batch(*values))) for values in ([b"a", b"b", b"c"], [b"d"])]
    request = ProduceRequest(
        acks=-1, timeout_ms=30_000, topic_data=[TopicProduceData(name=topic, partition_data=twice)]
    )
    answers = wire.call(request, PRODUCE_VERSION).responses[0].partition_responses
    assert [(each.index, each.error_code, each.base_offset) for each in answers] == [(0, ErrorCode.NONE, 0)]
    assert offsets(wire, topic, timestamp=-1) == [(topic, ErrorCode.NONE, 1)]


def test_offsets_of_a_partition_named_twice_are_refused_once(wire: Wire, new_topic: Callable[..., str]) -> None:
    topic, other = new_topic(), new_topic()
    expected = [(topic, ErrorCode.INVALID_REQUEST, -1), (other, ErrorCode.NONE, 0)]
    assert offsets(wire, topic, topic, other, timestamp=-1) == expected


def test_records_are_validated_where_the_topic_asks_for_it(wire: Wire, new_topic: Callable[..., str]) -> None:
    topic = new_topic(**{"record.validation": "compressed"})
    sound = bytes(batch(*[b"v" * 100] * 100, codec=Codec.ZSTD))
    body = BODY.pack(*read_header(sound)[5:])
    broken = bytes(finish_batch(0, -1, body, sound[61:-1]))
    assert produce(wire, topic, {0: broken})[0].error_code == ErrorCode.INVALID_RECORD
    assert produce(wire, topic, {0: sound})[0].error_code == ErrorCode.NONE
    assert offsets(wire, topic, timestamp=-1) == [(topic, ErrorCode.NONE, 100)]

"""Compaction by brokers: leaders and followers each compact their own log, and whoever reads sees the last values."""

from __future__ import annotations

import logging

import pytest
from cluster import PRODUCE_VERSION, REQUEST_MS_MAX, Cluster, run, until

from barnabas.errors import ErrorCode
from barnabas.log.checkpoint import CLEANER_OFFSET_FILE_NAME
from barnabas.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from barnabas.protocol.record_batch import Record, decode_records, encode_batch, read_header
from barnabas.server.replicas.partition import Partition

EAGER = {"cleanup_policy": "compact", "min_cleanable_dirty_ratio": "0.0", "delete_retention_ms": "0"}


async def produce(cluster: Cluster, topic: str, *pairs: tuple[bytes, bytes | None]) -> None:
    """One batch each, so that segments of a few bytes hold one each."""
    for key, value in pairs:
        data = PartitionProduceData(index=0, records=bytes(encode_batch([Record(0, 1, key, value)])))
        topics = [TopicProduceData(name=topic, partition_data=[data])]
        request = ProduceRequest(acks=-1, timeout_ms=REQUEST_MS_MAX, topic_data=topics)
        answer = await cluster.leader(topic).ask(request, PRODUCE_VERSION)
        assert answer.responses[0].partition_responses[0].error_code == ErrorCode.NONE


def kept(partition: Partition) -> list[tuple[int, bytes | None]]:
    found: list[tuple[int, bytes | None]] = []
    log = partition.log
    for segment in log.segments:
        data = segment.file().read(0, segment.size_bytes)
        position = 0
        while position < len(data):
            found += [(record.offset, record.value) for record in decode_records(data, position)]
            position += read_header(data, position).size_bytes
    return found


def test_leaders_and_followers_compact_what_they_have() -> None:
    async def scenario() -> None:
        async with Cluster(3, log_cleaner_backoff_ms="20") as cluster:
            await cluster.create_topic("t", internal_segment_bytes="100", **EAGER)
            await cluster.in_sync("t", 1, 2, 3)
            await produce(cluster, "t", *((b"key-%d" % (n % 3), b"%d" % n) for n in range(20)))
            expected = [(n, b"%d" % n) for n in (16, 17, 18, 19)]  # the active segment's does not count yet
            for partition in cluster.replicas("t"):
                await until(lambda each=partition: kept(each) == expected, "every replica is compacted")
            node = cluster.leader("t")
            path = f"/memory/{CLEANER_OFFSET_FILE_NAME}"
            written = b"0\n1\nt 0 19\n"
            await until(lambda: node.disk.exists(path) and node.disk.read_bytes(path) == written, "it is written down")
            data = await cluster.fetch("t")
            assert decode_records(data.records)[0].value == b"16"

    run(scenario)


def test_a_restart_goes_on_where_it_was() -> None:
    async def scenario() -> None:
        async with Cluster(1, log_cleaner_backoff_ms="20") as cluster:
            await cluster.create_topic("t", replicas=1, internal_segment_bytes="100", **EAGER)
            await produce(cluster, "t", *((b"a", b"%d" % n) for n in range(5)))
            await until(lambda: cluster.replica(1, "t").log.swap.cleaned_offset == 4, "it is compacted")
            await cluster.nodes[1].stop()
            await cluster.nodes[1].start()
            await until(lambda: cluster.running and cluster.nodes[1].running.partitions.get("t", 0), "it is back")
            assert cluster.replica(1, "t").log.swap.cleaned_offset == 4
            assert kept(cluster.replica(1, "t")) == [(3, b"3"), (4, b"4")]

    run(scenario)


def test_what_cannot_be_compacted_is_set_aside_and_told(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        async with Cluster(1, log_cleaner_backoff_ms="20") as cluster:
            for topic in ("broken", "sound"):
                await cluster.create_topic(topic, replicas=1, internal_segment_bytes="100", **EAGER)
            broker = cluster.nodes[1].running
            segment = cluster.replica(1, "broken").log.segments[0]
            await produce(cluster, "broken", (b"a", b"1"))
            segment.file().write(65, b"\xff")
            await produce(cluster, "broken", (b"a", b"2"), (b"a", b"3"))
            await produce(cluster, "sound", *((b"a", b"%d" % n) for n in range(4)))
            await until(lambda: kept(cluster.replica(1, "sound")) == [(2, b"2"), (3, b"3")], "the other is compacted")
            await until(lambda: broker.log_cleaner.uncleanable_names, "the broken one is known")
            assert [name.topic for name in broker.log_cleaner.uncleanable_names] == ["broken"]
            await produce(cluster, "broken", (b"a", b"4"))  # it is served all the same
            assert not [name for name in cluster.nodes[1].disk.list_directory("/memory/broken-0") if "cleaned" in name]

    with caplog.at_level(logging.ERROR):
        run(scenario)
    assert "broken-0: cannot be compacted" in caplog.text
    caplog.clear()


def test_no_threads_no_compaction_until_there_is_one() -> None:
    async def scenario() -> None:
        async with Cluster(1, log_cleaner_backoff_ms="20", log_cleaner_threads="0") as cluster:
            await cluster.create_topic("t", replicas=1, internal_segment_bytes="100", **EAGER)
            await produce(cluster, "t", *((b"a", b"%d" % n) for n in range(5)))
            await cluster.nodes[1].running.log_cleaner.round()
            assert len(kept(cluster.replica(1, "t"))) == 5

    run(scenario)


def test_a_topic_deleted_while_it_is_compacted_is_gone() -> None:
    async def scenario() -> None:
        settings = {"log_cleaner_backoff_ms": "20", "log_cleaner_io_max_bytes_per_second": "2000"}
        async with Cluster(1, **settings) as cluster:
            await cluster.create_topic("t", replicas=1, internal_segment_bytes="2000", **EAGER)
            await produce(cluster, "t", *((b"a", b"%d" % n * 10) for n in range(100)))
            cleaner = cluster.nodes[1].running.log_cleaner
            await until(lambda: cleaner.in_progress, "it is being compacted")
            await cluster.delete_topic("t")
            await until(lambda: not cleaner.in_progress, "nothing is compacted any more")
            assert not cleaner.uncleanable

    run(scenario)

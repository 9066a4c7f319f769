"""How fast a log is compacted, what it costs in memory, and what producers feel of it meanwhile.

    python benchmarks/compaction.py [records]

First one log in this process: records a second of the map and of the copy, bytes of memory a key. Then a broker as a
process of its own with a compacted topic of that many records: the p99 of single produce requests (acks=1, one in
flight) while nothing else happens, while a compaction runs, and as a control while nothing happens again.
"""

from __future__ import annotations

import asyncio
import resource
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "support"))

from broker_process import BrokerProcess, resident_bytes, wait_until
from log_fixtures import NOW_MS, topic_config

from barnabas.client.connection import ClientConnection
from barnabas.log.cleaner import Cleaned, CleanedGroup, clean
from barnabas.log.cleaning import Buffers, Cleaning
from barnabas.log.log import Log
from barnabas.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from barnabas.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from barnabas.protocol.record_batch import Record, encode_batch
from barnabas.runtime.frame_reader import FrameBuffers
from barnabas.runtime.system import system_runtime
from barnabas.runtime.system.disk import SystemDisk
from barnabas.server.replicas.log_cleaner import cleanable_part

BATCH_RECORDS = 500
VALUE = b"v" * 80
SETTINGS = {"cleanup.policy": "compact", "segment.bytes": "8388608", "min.cleanable.dirty.ratio": "0.0"}
PRODUCE_VERSION = 12
REQUEST_MS_MAX = 30_000
BACKOFF_SECONDS = 20
QUIET_SECONDS = 5.0


def batch(first: int, keys: int) -> bytearray:
    return encode_batch(
        [Record(n, NOW_MS + n, b"user-%08d" % ((first + n) * 7919 % keys), VALUE) for n in range(BATCH_RECORDS)]
    )


def one_log(record_count: int) -> None:
    disk = SystemDisk()
    with tempfile.TemporaryDirectory() as directory:
        log = Log.open(
            disk, f"{directory}/topic-0", topic_config(segment_bytes=8 << 20, cleanup_policy="compact"), NOW_MS
        )
        for first in range(0, record_count, BATCH_RECORDS):
            log.append_as_leader(memoryview(batch(first, record_count // 4)), 0, NOW_MS)
        log.high_watermark = log.log_end_offset
        log.roll(NOW_MS)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        cleaning = Cleaning(
            log,
            cleanable_part(log, NOW_MS),
            Buffers(map_bytes=128 << 20, map_load_factor=0.9, io_bytes=256 << 10),
            NOW_MS,
        )
        began, processor = time.perf_counter(), time.process_time()
        for step in clean(disk, cleaning.request):
            if isinstance(step, CleanedGroup):
                cleaning.swap_in(step, NOW_MS)
            elif isinstance(step, Cleaned):
                seconds, busy = time.perf_counter() - began, time.process_time() - processor
                grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
                print(
                    f"one log: {step.records_read / seconds:,.0f} records/s ({step.records_read / busy:,.0f} a second "
                    f"of processor), {step.bytes_read / seconds / 1e6:.1f} MB/s, {step.keys:,} keys, "
                    f"map {step.map_bytes / 1e6:.1f} MB, peak memory +{grown / 1e3:.1f} MB"
                )


async def connected(broker: BrokerProcess) -> ClientConnection:
    runtime = system_runtime(asyncio.get_running_loop())
    return ClientConnection(
        socket=await runtime.network.connect("127.0.0.1", broker.port),
        clock=runtime.clock,
        client_id="bench",
        buffers=FrameBuffers(),
    )


async def create(connection: ClientConnection, topic: str, settings: dict[str, str]) -> None:
    configs = [CreatableTopicConfig(name=name, value=value) for name, value in settings.items()]
    wanted = CreatableTopic(name=topic, num_partitions=1, replication_factor=1, configs=configs)
    await connection.request(CreateTopicsRequest(topics=[wanted], timeout_ms=30_000), 7, REQUEST_MS_MAX)


async def produce(connection: ClientConnection, topic: str, records: bytearray) -> None:
    data = PartitionProduceData(index=0, records=bytes(records))
    topics = [TopicProduceData(name=topic, partition_data=[data])]
    answer = await connection.request(
        ProduceRequest(acks=1, timeout_ms=30_000, topic_data=topics), PRODUCE_VERSION, REQUEST_MS_MAX
    )
    error_code = answer.responses[0].partition_responses[0].error_code
    assert error_code == 0, error_code


async def latencies_ms(connection: ClientConnection, goes_on: Callable[[], bool]) -> list[float]:
    found = []
    records = encode_batch([Record(0, NOW_MS, b"key", VALUE)])
    while goes_on() or len(found) < 200:
        began = time.perf_counter()
        await produce(connection, "plain", records)
        found.append((time.perf_counter() - began) * 1000)
        await asyncio.sleep(0.002)
    return sorted(found)


def told(name: str, found: list[float]) -> None:
    middle, late = found[len(found) // 2], found[len(found) * 99 // 100]
    print(f"{name}: {len(found)} requests, p50 {middle:.2f} ms, p99 {late:.2f} ms, worst {found[-1]:.2f} ms")


async def under_load(record_count: int) -> None:
    """The first seconds pass before compaction looks around, the next while it works."""
    with tempfile.TemporaryDirectory() as directory:
        config = {"log.cleaner.backoff.ms": BACKOFF_SECONDS * 1000}
        with BrokerProcess(data=Path(directory), config=config) as broker:
            connection = await connected(broker)
            await create(connection, "plain", {})
            await create(connection, "compacted", SETTINGS)
            for first in range(0, record_count, BATCH_RECORDS):
                await produce(connection, "compacted", batch(first, record_count // 4))
            checkpoint = broker.node_directory / "cleaner-offset-checkpoint"
            until = time.monotonic() + QUIET_SECONDS
            told("idle", await latencies_ms(connection, lambda: time.monotonic() < until))
            resident = resident_bytes(broker.pid)
            await asyncio.to_thread(wait_until, lambda: is_cleaning(broker.node_directory), "it compacts", 60.0)
            began = time.monotonic()
            told("compacting", await latencies_ms(connection, lambda: not checkpoint.exists()))
            seconds = time.monotonic() - began
            print(f"compaction took {seconds:.1f} s: {record_count / seconds:,.0f} records/s")
            grown = resident_bytes(broker.pid) - resident
            until = time.monotonic() + QUIET_SECONDS
            told("idle again", await latencies_ms(connection, lambda: time.monotonic() < until))
            print(f"the broker's memory: {resident / 1e6:.1f} MB, +{grown / 1e6:.1f} MB after its first compaction")
            connection.close()


def is_cleaning(directory: Path) -> bool:
    return any(directory.glob("compacted-0/*.cleaned")) or (directory / "cleaner-offset-checkpoint").exists()


if __name__ == "__main__":
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 400_000
    one_log(count)
    asyncio.run(under_load(count))

"""`barnabas bench`: how fast records are written and read, with the clients of this package."""

import os
import time
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from barnabas.cli import output
from barnabas.cli.app import single, verb
from barnabas.cli.options import USUAL_CONNECTION, Acks, CompressionCodec, Connection, Json, ProducerProperties
from barnabas.cli.session import START_TIMEOUT_MS_MAX, client_settings, properties, run_fast, stated
from barnabas.cli.text import CommandFailed, Exit
from barnabas.client.admin import Admin
from barnabas.client.admin.topics import NewTopic
from barnabas.client.consuming.consumer import Consumer
from barnabas.client.producing.producer import Producer
from barnabas.client.settings import AdminConfig, ConsumerConfig, ProducerConfig

app = single()

CHUNK_RECORDS = 10_000
POLL_MS = 1_000
POLL_RECORDS = 50_000
SILENCE_MS_MAX = 30_000  # a reader that gets nothing for so long gives up
LATENCY_SAMPLES = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    topic: str
    is_temporary: bool
    records: int
    record_bytes: int
    partitions: int
    replication_factor: int
    admin_settings: dict[str, Any]
    producer_settings: dict[str, Any]
    consumer_settings: dict[str, Any]


TopicOption = Annotated[
    str | None, typer.Option("--topic", metavar="TOPIC", help="Write there; else to a new one, deleted afterwards.")
]
RecordsOption = Annotated[int, typer.Option("--records", min=1, metavar="N", help="How many.")]
RecordSizeOption = Annotated[int, typer.Option("--record-size", min=1, metavar="BYTES", help="Of each value.")]
PartitionsOption = Annotated[int, typer.Option("--partitions", min=1, metavar="N", help="Of the new topic.")]
ReplicationFactorOption = Annotated[
    int | None, typer.Option("--replication-factor", min=1, metavar="N", help="Of the new topic.")
]


@verb(
    app,
    "barnabas bench",
    "barnabas bench --records 200000 --record-size 1000 --compression-codec zstd",
    "barnabas bench --partitions 6 --replication-factor 3 --acks all --json",
)
def bench(
    topic: TopicOption = None,
    records: RecordsOption = 500_000,
    record_size: RecordSizeOption = 100,
    partitions: PartitionsOption = 1,
    replication_factor: ReplicationFactorOption = None,
    acks: Acks = None,
    compression_codec: CompressionCodec = None,
    producer_property: ProducerProperties = None,
    connection: Connection = USUAL_CONNECTION,
    json: Json = False,
) -> int:
    """Measures writing, reading, and the time to an acknowledgement.

    All on this machine and with this client: what it says of a broker elsewhere is a lower bound.
    """
    kinds = (AdminConfig, ProducerConfig, ConsumerConfig)
    timeout_ms = connection.timeout_ms
    plan = Plan(
        topic=topic or f"barnabas-bench-{os.getpid()}-{time.time_ns() % 1_000_000}",
        is_temporary=topic is None,
        records=records,
        record_bytes=record_size,
        partitions=partitions,
        replication_factor=replication_factor or -1,
        admin_settings=client_settings(
            connection, *kinds, request_timeout_ms=timeout_ms, default_api_timeout_ms=timeout_ms
        ),
        producer_settings={
            **client_settings(
                connection,
                ProducerConfig,
                *kinds,
                request_timeout_ms=timeout_ms,
                max_block_ms=max(timeout_ms, START_TIMEOUT_MS_MAX),
            ),
            **stated(acks=acks, compression_type=compression_codec),
            **properties(producer_property),
        },
        consumer_settings=client_settings(connection, ConsumerConfig, *kinds, request_timeout_ms=timeout_ms),
    )
    results = run_fast(_bench(plan))
    if json:
        output.document({"topic": plan.topic, "records": records, "record_bytes": record_size, **results})
        return Exit.DONE
    rows = [
        (what, f"{each['records_per_second']:,.0f}", f"{each['mb_per_second']:,.1f}", f"{each['seconds']:.2f}")
        for what, each in results.items()
        if "seconds" in each
    ]
    output.table(("what", "records/s", "MB/s", "seconds"), rows)
    latency = results["latency"]
    print(f"to an acknowledgement: p50 {latency['p50_ms']:.2f} ms, p99 {latency['p99_ms']:.2f} ms")
    return Exit.DONE


async def _bench(plan: Plan) -> dict[str, dict[str, float]]:
    async with Admin(**plan.admin_settings) as admin:
        if plan.is_temporary:
            await _create(admin, plan)
        try:
            produced = await _produce(plan)
            consumed = await _consume(plan)
            return {"produce": produced, "consume": consumed, "latency": await _latency(plan)}
        finally:
            if plan.is_temporary:
                (await admin.delete_topics([plan.topic])).unwrap()


async def _create(admin: Admin, plan: Plan) -> None:
    topic = NewTopic(name=plan.topic, partitions=plan.partitions, replication_factor=plan.replication_factor)
    (await admin.create_topics([topic])).unwrap()


async def _produce(plan: Plan) -> dict[str, float]:
    value = os.urandom(plan.record_bytes)
    async with Producer(**plan.producer_settings) as producer:
        await producer.partitions_for(plan.topic)
        futures = []
        began = time.perf_counter()
        with output.progress("writing", plan.records) as bar:
            left = plan.records
            while left:
                count = min(left, CHUNK_RECORDS)
                futures.append(await producer.send_many(plan.topic, [value] * count))
                left -= count
                bar.advance(count)
            await producer.flush()
        seconds = time.perf_counter() - began
        for future in futures:
            await future
    return _rates(plan, plan.records, seconds)


async def _consume(plan: Plan) -> dict[str, float]:
    async with Consumer(**plan.consumer_settings) as consumer:
        partitions = await consumer.partitions_for(plan.topic)
        ends = await consumer.end_offsets(partitions)
        starts = await consumer.beginning_offsets(partitions)
        consumer.assign(partitions)
        consumer.seek_to_beginning()  # at once, before a fetch waits at the end for records that do not come
        wanted = sum(ends[key] - starts[key] for key in partitions)
        began = last = time.perf_counter()
        read = 0
        with output.progress("reading", wanted) as bar:
            while read < wanted:
                found = await consumer.poll_batches(POLL_MS, POLL_RECORDS)
                count = sum(len(batch.offsets) for batch in found)
                now = time.perf_counter()
                last = now if count else last
                if now - last > SILENCE_MS_MAX / 1000:
                    raise CommandFailed(f"{read} of {wanted} records came, and then none for {SILENCE_MS_MAX} ms")
                read += count
                bar.advance(count)
        return _rates(plan, read, time.perf_counter() - began)


async def _latency(plan: Plan) -> dict[str, float]:
    """One record at a time."""
    value = os.urandom(plan.record_bytes)
    settings = {**plan.producer_settings, "linger_ms": 0}
    samples = []
    async with Producer(**settings) as producer:
        for _ in range(LATENCY_SAMPLES):
            began = time.perf_counter()
            await producer.send_and_wait(plan.topic, value)
            samples.append((time.perf_counter() - began) * 1000)
    samples.sort()
    return {"p50_ms": samples[len(samples) // 2], "p99_ms": samples[len(samples) * 99 // 100]}


def _rates(plan: Plan, records: int, seconds: float) -> dict[str, float]:
    return {
        "seconds": seconds,
        "records_per_second": records / seconds,
        "mb_per_second": records * plan.record_bytes / seconds / 1e6,
    }

"""What sinks have decided, in a compacted topic: for each the last batch and the transactions that make it up.

    key «decision:SINK»  {"queryId": "…", "batchId": 7, "transactions": [["transactional id", producer id, epoch], …]}
    key «done:SINK»      {"queryId": "…", "batchId": 7}: all of these are committed, nothing is left to finish

A decision is written in a transaction of the sink's decider, so that a driver that was replaced cannot decide any more.
Always holds: `read` sees every decision that was committed before it was called. A process goes on reading where it
stopped, so that a sink that was read once costs one request. Does not know: when to decide, how transactions end.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field

from barnabas.client.cluster import Cluster
from barnabas.client.consuming.fetched_records import FetchedRecords
from barnabas.client.errors import KafkaError, KafkaTimeoutError, OffsetOutOfRangeError, TopicExistsError, error_of
from barnabas.client.producing.transaction import OpenTransaction
from barnabas.client.settings import ProducerConfig
from barnabas.errors import ErrorCode
from barnabas.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from barnabas.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from barnabas.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from barnabas.protocol.special_numbers import LATEST_TIMESTAMP, READ_COMMITTED
from barnabas.spark.writing.partitioning import POSITIVE, murmur2_of
from barnabas.types import TopicPartition

VERSION_WITH_NAMES = 12  # the last fetch that names topics
FETCH_BYTES_MAX = 8 << 20
FETCH_WAIT_MS = 200
RECORDS_MAX = 1 << 30
BROKER_DEFAULT = -1  # of replicas


@dataclass(frozen=True, slots=True)
class Batch:
    """One batch of one query; ids of batches rise within a query."""

    query_id: str
    batch_id: int

    def is_done_by(self, other: Batch | None) -> bool:
        return other is not None and other.query_id == self.query_id and self.batch_id <= other.batch_id


@dataclass(frozen=True, slots=True)
class Decision:
    batch: Batch
    transactions: tuple[OpenTransaction, ...]


@dataclass(frozen=True, slots=True)
class Progress:
    decision: Decision | None = None
    done: Batch | None = None

    @property
    def is_finished(self) -> bool:
        return self.decision is None or self.done == self.decision.batch


def decision_record(sink: str, decision: Decision) -> tuple[bytes, bytes]:
    value = {
        "queryId": decision.batch.query_id,
        "batchId": decision.batch.batch_id,
        "transactions": [
            [each.transactional_id, each.producer_id, each.producer_epoch] for each in decision.transactions
        ],
    }
    return f"decision:{sink}".encode(), json.dumps(value).encode()


def done_record(sink: str, batch: Batch) -> tuple[bytes, bytes]:
    return f"done:{sink}".encode(), json.dumps({"queryId": batch.query_id, "batchId": batch.batch_id}).encode()


def progress_of(sink: str, values: dict[bytes, bytes]) -> Progress:
    decision, done = values.get(f"decision:{sink}".encode()), values.get(f"done:{sink}".encode())
    return Progress(
        decision=None if decision is None else _decision(json.loads(decision)),
        done=None if done is None else _batch(json.loads(done)),
    )


def _batch(found: dict[str, object]) -> Batch:
    batch_id = found["batchId"]
    assert isinstance(batch_id, int)
    return Batch(str(found["queryId"]), batch_id)


def _decision(found: dict[str, object]) -> Decision:
    transactions = found["transactions"]
    assert isinstance(transactions, list)
    return Decision(_batch(found), tuple(OpenTransaction(*each) for each in transactions))


@dataclass(slots=True)
class _Read:
    """What this process has read of one partition."""

    position: int = 0
    values: dict[bytes, bytes] = field(default_factory=dict)


_read_here: dict[tuple[object, ...], _Read] = {}


async def partition_of(cluster: Cluster, config: ProducerConfig, topic: str, sink: str) -> int:
    """Where a sink's records are. Makes the topic where there is none."""
    if cluster.topic(topic) is None:
        await _create(cluster, config, topic)
    found = await cluster.topics([topic], timeout_ms=config.delivery_timeout_ms)
    return (murmur2_of(sink.encode()) & POSITIVE) % found[topic].partition_count


async def _create(cluster: Cluster, config: ProducerConfig, topic: str) -> None:
    request = CreateTopicsRequest(
        topics=[
            CreatableTopic(
                name=topic,
                num_partitions=1,
                replication_factor=BROKER_DEFAULT,
                assignments=[],
                configs=[CreatableTopicConfig(name="cleanup.policy", value="compact")],
            )
        ],
        timeout_ms=config.request_timeout_ms,
    )

    async def ask() -> None:
        response = await cluster.request(await cluster.controller(), request)
        (answer,) = response.topics
        if answer.error_code != ErrorCode.NONE:
            raise error_of(answer.error_code, answer.error_message, about=f"topic {topic}")

    await cluster.refresh([topic])
    if cluster.topic(topic) is None:
        try:
            await cluster.retry(ask, what=f"creating topic {topic}", timeout_ms=config.delivery_timeout_ms)
        except TopicExistsError:
            return  # another sink was faster


async def read(cluster: Cluster, config: ProducerConfig, topic: str, sink: str) -> Progress:
    """To the end as it is now. Open transactions of other sinks are short; they are waited for."""
    return progress_of(sink, await read_records(cluster, config, topic, sink))


async def read_records(cluster: Cluster, config: ProducerConfig, topic: str, sink: str) -> dict[bytes, bytes]:
    """Of each key the last value, in the partition that this sink writes to."""
    partition = await partition_of(cluster, config, topic, sink)
    known = cluster.topic(topic)
    assert known is not None
    found = _read_here.setdefault((cluster.metadata.cluster_id, topic, known.topic_id, partition), _Read())

    async def ask() -> None:
        end_offset = await _end_offset(cluster, topic, partition)
        if found.position > end_offset:
            found.position, found.values = 0, {}
        try:
            await _read_to(cluster, config, found, topic, partition, end_offset)
        except OffsetOutOfRangeError:
            found.position, found.values = 0, {}
            raise KafkaError(ErrorCode.OFFSET_NOT_AVAILABLE, f"topic {topic} began anew; reading it again") from None

    await cluster.retry(ask, what=f"reading topic {topic}", timeout_ms=config.delivery_timeout_ms, topics=[topic])
    return found.values


async def _end_offset(cluster: Cluster, topic: str, partition: int) -> int:
    asked = ListOffsetsPartition(partition_index=partition, timestamp=LATEST_TIMESTAMP)
    request = ListOffsetsRequest(
        replica_id=-1, isolation_level=0, topics=[ListOffsetsTopic(name=topic, partitions=[asked])]
    )
    response = await cluster.request(_leader(cluster, topic, partition), request, version_min=2)
    (found,) = response.topics[0].partitions
    if found.error_code != ErrorCode.NONE:
        raise error_of(found.error_code, about=f"partition {partition} of topic {topic}")
    return int(found.offset)


def _leader(cluster: Cluster, topic: str, partition: int) -> int:
    leader = cluster.leader(topic, partition)
    if leader is None:
        raise error_of(ErrorCode.LEADER_NOT_AVAILABLE, about=f"partition {partition} of topic {topic}")
    return leader.node_id


async def _read_to(
    cluster: Cluster, config: ProducerConfig, found: _Read, topic: str, partition: int, end_offset: int
) -> None:
    clock = cluster.runtime.clock
    deadline_ms = clock.monotonic_ms() + config.delivery_timeout_ms
    while found.position < end_offset:
        if clock.monotonic_ms() > deadline_ms:
            raise KafkaTimeoutError(
                f"topic {topic}: an open transaction holds back offset {found.position} of partition {partition}"
            )
        asked = FetchPartition(partition=partition, fetch_offset=found.position, partition_max_bytes=FETCH_BYTES_MAX)
        request = FetchRequest(
            max_wait_ms=FETCH_WAIT_MS,
            min_bytes=1,
            max_bytes=FETCH_BYTES_MAX,
            isolation_level=READ_COMMITTED,
            topics=[FetchTopic(topic=topic, partitions=[asked])],
            forgotten_topics_data=[],
        )
        node_id = _leader(cluster, topic, partition)
        response = await cluster.request(node_id, request, version_min=4, version_max=VERSION_WITH_NAMES)
        (answer,) = response.responses[0].partitions
        if answer.error_code != ErrorCode.NONE:
            raise error_of(answer.error_code, about=f"partition {partition} of topic {topic}")
        _take(found, topic, partition, answer.records, answer.aborted_transactions or ())
        if not answer.records and answer.last_stable_offset >= end_offset:
            found.position = end_offset  # compaction took what was there


def _take(found: _Read, topic: str, partition: int, records: memoryview | None, aborted: object) -> None:
    if not records:
        return
    fetched = FetchedRecords(
        TopicPartition(topic, partition),
        memoryview(records),
        offset=found.position,
        aborted=aborted,  # type: ignore[arg-type]
    )
    for record in fetched.take(RECORDS_MAX):
        if record.key is not None and record.value is not None:
            found.values[bytes(record.key)] = bytes(record.value)
        elif record.key is not None:
            found.values.pop(bytes(record.key), None)
    found.position = fetched.next_offset

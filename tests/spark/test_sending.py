"""Batches reach their partitions once and in order, whatever brokers answer; and what cannot work is told."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import ArrayType, BinaryType, IntegerType, StringType, StructType, TimestampType

from barnabas.client.errors import KafkaError, UnknownTopicError
from barnabas.spark.arrow.encoder import UnfitRows
from barnabas.spark.writing.writer import BatchWriter, TaskDone
from barnabas.testing import Kafka

ROWS = 3000
PIECES = 6  # Arrow batches, each of which becomes requests of its own


@pytest.fixture(scope="module")
def kafka() -> Iterator[Kafka]:
    with Kafka(brokers=3) as found:
        yield found


@pytest.fixture(autouse=True)
def _healed(kafka: Kafka) -> Iterator[None]:
    yield
    kafka.heal()


def write(kafka: Kafka, batches: list[pa.RecordBatch], **options: str) -> TaskDone:
    """As one task of Spark does."""
    types: dict[str, Any] = {
        "value": StringType(),
        "key": StringType(),
        "partition": IntegerType(),
        "topic": StringType(),
    }
    types |= {"timestamp": TimestampType()}
    types |= {"headers": ArrayType(StructType().add("key", StringType()).add("value", BinaryType()))}
    schema = StructType()
    for name in batches[0].schema.names:
        schema = schema.add(name, types[name])
    given = {
        "kafka.bootstrap.servers": kafka.bootstrap_servers,
        "kafka.batch.size": "2000",
        "kafka.request.timeout.ms": "5000",
        "kafka.delivery.timeout.ms": "20000",
        **{name.replace("_", "."): text for name, text in options.items()},
    }
    writer: BatchWriter = pickle.loads(pickle.dumps(BatchWriter(given, schema, False).planned()))
    done = writer.write(iter(batches))
    assert isinstance(done, TaskDone)
    return done


def rows(partitions: int = 2) -> list[pa.RecordBatch]:
    numbers = [str(number) for number in range(ROWS)]
    everything = pa.record_batch(
        {
            "value": pa.array(numbers),
            "partition": pa.array([number % partitions for number in range(ROWS)], pa.int32()),
        }
    )
    step = ROWS // PIECES
    return [everything.slice(start, step) for start in range(0, ROWS, step)]


def read(kafka: Kafka, topic: str) -> dict[int, list[int]]:
    consumer = kafka.consumer(topic)
    found: dict[int, list[int]] = {}
    count = 0
    while count < ROWS:
        records = consumer.poll(10_000)
        assert records, f"{count} of {ROWS} came"
        for record in records:
            found.setdefault(record.partition, []).append(int(record.value))
        count += len(records)
    assert consumer.poll(200) == []
    return found


def is_whole(found: dict[int, list[int]], partitions: int = 2) -> bool:
    return found == {each: list(range(each, ROWS, partitions)) for each in range(partitions)}


def test_everything_once_and_in_order(kafka: Kafka) -> None:
    topic = kafka.topic(partitions=2)
    assert write(kafka, rows(), topic=topic).row_count == ROWS
    assert is_whole(read(kafka, topic))


@pytest.mark.parametrize(
    "error",
    ["NOT_LEADER_OR_FOLLOWER", "NOT_ENOUGH_REPLICAS_AFTER_APPEND", "KAFKA_STORAGE_ERROR", "UNKNOWN_PRODUCER_ID"],
)
def test_errors_that_pass(kafka: Kafka, error: str) -> None:
    topic = kafka.topic(partitions=2)
    fault = kafka.fail_next("Produce", error, times=3, topic=topic)
    write(kafka, rows(), topic=topic)
    assert fault.hits == 3
    assert is_whole(read(kafka, topic))


def test_answers_that_are_lost(kafka: Kafka) -> None:
    topic = kafka.topic(partitions=2)
    fault = kafka.drop_connection("Produce", times=2, topic=topic)
    write(kafka, rows(), topic=topic)
    assert fault.hits == 2
    assert is_whole(read(kafka, topic))


def test_a_leader_that_dies(kafka: Kafka) -> None:
    topic = kafka.topic(partitions=2)
    victim = kafka.leader(topic, 0)
    pieces = iter(rows())

    def dying() -> Iterator[pa.RecordBatch]:
        yield next(pieces)
        kafka.kill_broker(victim)
        yield from pieces

    schema = StructType().add("value", StringType()).add("partition", IntegerType())
    given = {"kafka.bootstrap.servers": kafka.bootstrap_servers, "kafka.batch.size": "2000", "topic": topic}
    writer = pickle.loads(pickle.dumps(BatchWriter(given, schema, False).planned()))
    writer.write(dying())
    assert is_whole(read(kafka, topic))
    kafka.start_broker(victim)


@pytest.mark.parametrize("error", ["TOPIC_AUTHORIZATION_FAILED", "INVALID_RECORD"])
def test_errors_that_do_not_pass_are_told_at_once(kafka: Kafka, error: str) -> None:
    topic = kafka.topic(partitions=2)
    kafka.fail_next("Produce", error, topic=topic)
    with pytest.raises(KafkaError, match=f"{topic}-[01]: .*{error}"):
        write(kafka, rows(), topic=topic)


def test_time_that_is_up_names_the_partition(kafka: Kafka) -> None:
    topic = kafka.topic()
    kafka.fail_next("Produce", "NOT_ENOUGH_REPLICAS", times=1000, topic=topic)
    with pytest.raises(KafkaError, match=f"{topic}-0.*(min.insync|delivery_timeout_ms)"):
        write(kafka, rows(1), topic=topic, **{"kafka.delivery.timeout.ms": "600", "kafka.request.timeout.ms": "300"})


def test_keys_headers_timestamps_and_topics_by_column(kafka: Kafka) -> None:
    one, two = kafka.topic(partitions=3), kafka.topic()
    headers = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    batch = pa.record_batch(
        {
            "topic": pa.array([one, two]),
            "key": pa.array(["foobar", None]),
            "value": pa.array(["1", "2"]),
            "headers": pa.array([[{"key": "h", "value": b"x"}, {"key": "h", "value": None}], None], headers),
            "timestamp": pa.array([1_700_000_000_123_456, None], pa.timestamp("us", "UTC")),
        }
    )
    write(kafka, [batch], **{"kafka.compression.type": "zstd"})
    (record,) = kafka.consumer(one).poll(10_000)
    assert (record.partition, record.key, record.value) == ((-790332482 & 0x7FFFFFFF) % 3, b"foobar", b"1")
    assert (record.timestamp_ms, list(record.headers)) == (1_700_000_000_123, [("h", b"x"), ("h", None)])
    (other,) = kafka.consumer(two).poll(10_000)
    assert (other.key, other.value, list(other.headers)) == (None, b"2", [])


def test_a_topic_that_is_not_there_fails_the_plan(kafka: Kafka) -> None:
    with pytest.raises(UnknownTopicError, match="there is no topic 'unheard-of'"):
        write(kafka, rows(), topic="unheard-of")
    assert "unheard-of" not in kafka.topics()


def test_a_partition_that_was_added_is_found(kafka: Kafka) -> None:
    topic = kafka.topic()
    write(kafka, [pa.record_batch({"value": pa.array(["first"])})], topic=topic)
    kafka.admin().create_partitions({topic: 2})
    batch = pa.record_batch({"value": pa.array(["second"]), "partition": pa.array([1], pa.int32())})
    assert write(kafka, [batch], topic=topic).row_count == 1


def test_a_partition_that_is_not_there_is_named(kafka: Kafka) -> None:
    topic = kafka.topic(partitions=2)
    with pytest.raises(UnfitRows, match=f"2 is no partition of topic '{topic}'"):
        write(kafka, rows(3), topic=topic)

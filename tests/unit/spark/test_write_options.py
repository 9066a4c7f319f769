"""What a write refuses before anything is written, and the words for it."""

from __future__ import annotations

import pickle

import pytest
from pyspark.sql.types import ArrayType, BinaryType, IntegerType, LongType, StringType, StructType, TimestampType

from barnabas.config.validation import ConfigError
from barnabas.protocol.compression import Codec
from barnabas.spark.writing.write_options import BATCH_BYTES, WriteOptions, check_schema
from barnabas.spark.writing.writer import BatchWriter, StreamWriter

SERVERS = {"kafka.bootstrap.servers": "localhost:9092"}
VALUE = StructType().add("value", StringType())


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"topik": "t"}, "topik is not an option .* did you mean topic"),
        ({"kafka.linger.ms": "5"}, "kafka.linger.ms has no meaning for a write: rows are sent as they come"),
        ({"kafka.transactional.id": "x"}, "exactlyOnce makes transactions"),
        ({"kafka.batch.sise": "5"}, "kafka.batch.sise is not a setting .* did you mean batch.size"),
        ({"kafka.acks": "0"}, "kafka.acks: 0 is not allowed"),
        ({"kafka.acks": "1", "exactlyonce": "true", "sinkid": "s"}, "exactlyOnce needs kafka.acks=all"),
        ({"exactlyonce": "true"}, "exactlyOnce needs sinkId"),
        ({"exactlyonce": "true", "sinkid": "s" * 201}, "sinkId: at most 200"),
        ({"batchid": "7"}, "batchId has a meaning with exactlyOnce only"),
        ({"exactlyonce": "true", "sinkid": "s", "queryid": "q"}, "queryId has a meaning with batchId only"),
        ({"synctopic": "t"}, "syncTopic has a meaning with exactlyOnce only"),
        ({"exactlyonce": "perhaps"}, "exactlyOnce: 'perhaps' is not allowed"),
    ],
)
def test_options_that_cannot_work(given: dict[str, str], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        WriteOptions({**SERVERS, **given})


def test_servers_are_needed() -> None:
    with pytest.raises(ConfigError, match=r"kafka\.bootstrap\.servers is missing"):
        WriteOptions({"topic": "t"})


def test_what_spark_adds_is_no_mistake_and_options_survive_pickling() -> None:
    given = {**SERVERS, "checkpointlocation": "/c", "queryname": "q", "exactlyonce": "true"}
    found: WriteOptions = pickle.loads(pickle.dumps(WriteOptions({**given, "kafka.compression.type": "zstd"})))
    assert (found.sink, found.codec, found.level, found.config.batch_size) == ("/c", Codec.ZSTD, 3, BATCH_BYTES)


HEADERS = ArrayType(StructType().add("key", StringType()).add("value", BinaryType()))


@pytest.mark.parametrize(
    ("schema", "topic", "words"),
    [
        (StructType().add("key", StringType()), "t", "column value is missing; there are key"),
        (VALUE, None, "neither an option topic nor a column topic"),
        (StructType().add("value", LongType()), "t", "column value is bigint; it must be string or binary"),
        (
            StructType().add("value", StringType()).add("partition", LongType()),
            "t",
            "partition is bigint; it must be int",
        ),
        (
            StructType().add("value", StringType()).add("price", LongType()),
            "t",
            "column price is none that a record has",
        ),
        (StructType().add("value", StringType()).add("headers", StringType()), "t", "column headers is string"),
    ],
)
def test_columns_that_cannot_work(schema: StructType, topic: str | None, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        check_schema(schema, topic)


def test_all_columns_that_a_record_has() -> None:
    schema = StructType().add("key", BinaryType()).add("value", BinaryType()).add("headers", HEADERS)
    schema = schema.add("topic", StringType()).add("partition", IntegerType()).add("timestamp", TimestampType())
    check_schema(schema.add("offset", LongType()), None)
    with pytest.raises(ConfigError, match="syncTopic needs the column offset"):
        check_schema(VALUE, "t", needs_offsets=True)


def test_a_log_is_not_overwritten_and_streams_number_their_batches() -> None:
    with pytest.raises(ConfigError, match="cannot be overwritten"):
        BatchWriter({**SERVERS, "topic": "t"}, VALUE, True)
    with pytest.raises(ConfigError, match="numbers its batches itself"):
        StreamWriter({**SERVERS, "topic": "t", "exactlyonce": "true", "sinkid": "s", "batchid": "1"}, VALUE, False)

"""Readers of the data source against a broker, without Spark around them: offsets, splits, what is lost and told."""

from __future__ import annotations

import asyncio
import json
import logging
import pickle
import socket
import time
from collections.abc import Callable, Collection
from dataclasses import replace
from typing import Any

import pytest
from client_libraries import confluent_kafka as ck
from confluent_kafka.admin import AdminClient
from pyspark.sql.streaming.datasource import ReadAllAvailable

from barnabas.client.cluster import Cluster
from barnabas.client.errors import BrokersUnreachableError, KafkaTimeoutError
from barnabas.config.validation import ConfigError
from barnabas.errors import ErrorCode
from barnabas.protocol.messages.fetch import FetchRequest, FetchResponse
from barnabas.spark.connections import connections
from barnabas.spark.options import READ_OPTIONS, Options
from barnabas.spark.reading import read_checks, stream_view
from barnabas.spark.reading.batch_reader import BatchReader
from barnabas.spark.reading.brokers import Brokers
from barnabas.spark.reading.fetching import DataLoss, Fetcher, FetchTask
from barnabas.spark.reading.offsets import OffsetError
from barnabas.spark.reading.read_settings import read_config
from barnabas.spark.reading.selection import NoSuchTopic
from barnabas.spark.reading.stream_reader import StreamReader
from barnabas.spark.schema import arrow_schema, columns
from barnabas.types import TopicPartition

NOW_MS = time.time_ns() // 1_000_000 - 600_000  # recent, or retention takes the records away
SECONDS_MAX = 120

Row = dict[str, Any]


def produce(served: str, topic: str, count: int, partition: int = 0, first: int = 0, **settings: Any) -> None:
    """Records that say their number, a millisecond apart."""
    producer = ck.Producer({"bootstrap.servers": served, "linger.ms": 20, **settings})
    for number in range(first, first + count):
        producer.produce(topic, b"value-%d" % number, partition=partition, timestamp=NOW_MS + number)
        producer.poll(0)
    assert producer.flush(SECONDS_MAX) == 0


def options(served: str, **given: object) -> Options:
    settings = {"kafka.bootstrap.servers": served, **{name: str(value) for name, value in given.items()}}
    return Options({name.replace("__", "."): value for name, value in settings.items()}, READ_OPTIONS)


def batch(served: str, **given: object) -> tuple[list[Any], list[Row]]:
    found = options(served, **given)
    read_checks.check_batch(found)
    reader = BatchReader(found, arrow_schema(columns(found)))
    tasks = list(reader.partitions())
    there = pickle.loads(pickle.dumps((reader, tasks)))  # as Spark hands them over
    return tasks, [row for task in there[1] for each in there[0].read(task) for row in each.to_pylist()]


def begin_transaction(served: str, topic: str) -> ck.Producer:
    """Offset 0 is free for all to read, 1 to 3 are in a transaction that stays open."""
    produce(served, topic, 1)
    producer = ck.Producer({"bootstrap.servers": served, "transactional.id": topic})
    producer.init_transactions(SECONDS_MAX)
    producer.begin_transaction()
    for number in range(1, 4):
        producer.produce(topic, b"value-%d" % number)
    assert producer.flush(SECONDS_MAX) == 0
    return producer


def commit_group(served: str, topic: str, offset: int) -> None:
    """As the group of the topic's name."""
    consumer = ck.Consumer({"bootstrap.servers": served, "group.id": topic})
    consumer.commit(offsets=[ck.TopicPartition(topic, 0, offset)], asynchronous=False)
    consumer.close()


def numbers(rows: list[Row]) -> list[int]:
    return [int(row["value"].decode().removeprefix("value-")) for row in rows]


def offsets_of(topic: str, *offsets: int) -> str:
    return json.dumps({topic: {str(number): offset for number, offset in enumerate(offsets)}})


def test_one_cluster_for_all_who_ask_at_once(served: str) -> None:
    config = read_config({"bootstrap.servers": served, "client.id": "at-once"})
    here = connections()

    async def ask() -> list[Cluster]:
        return await asyncio.gather(*(here.cluster(config) for _ in range(3)))

    kept = here.run(here.cluster(config)) if len({id(each) for each in here.run(ask())}) == 1 else None
    assert kept is not None, "each has a cluster of its own, and all but one of them are never closed"


class TestBatch:
    def test_every_record_once_with_its_facts(self, served: str, new_topic: Callable[..., str]) -> None:
        topic = new_topic(2)
        produce(served, topic, 300, partition=0)
        produce(served, topic, 200, partition=1, first=1000)
        tasks, rows = batch(served, subscribe=topic)
        assert len(tasks) == 1, "what is so small is read by one task"
        assert numbers(rows) == [*range(300), *range(1000, 1200)]
        assert [row["offset"] for row in rows] == [*range(300), *range(200)]
        row = rows[0]
        assert (row["topic"], row["partition"], row["key"], row["timestampType"]) == (topic, 0, None, 0)
        assert int(row["timestamp"].timestamp() * 1000) == NOW_MS

    @pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
    def test_every_codec(self, served: str, new_topic: Callable[..., str], codec: str) -> None:
        topic = new_topic()
        produce(served, topic, 500, **{"compression.type": codec})
        assert numbers(batch(served, subscribe=topic)[1]) == list(range(500))

    def test_a_large_partition_is_read_by_several_tasks(self, served: str, new_topic: Callable[..., str]) -> None:
        topic = new_topic(2)
        produce(served, topic, 2000, partition=0)
        produce(served, topic, 20, partition=1)
        tasks, rows = batch(served, subscribe=topic, splitBytes=8192)
        assert len(tasks) > 3
        assert [split.partition for task in tasks for split in task.splits].count(1) == 1
        assert numbers(rows) == [*range(2000), *range(20)]
        assert len(batch(served, subscribe=topic, minPartitions=9)[0]) >= 9
        tasks, rows = batch(served, subscribe=topic, maxRecordsPerPartition=600)
        assert max(sum(each.end_offset - each.first_offset for each in task.splits) for task in tasks) <= 600
        assert len(rows) == 2020

    def test_small_fetches(self, served: str, new_topic: Callable[..., str]) -> None:
        topic = new_topic()
        produce(served, topic, 3000, **{"batch.num.messages": 50})
        assert numbers(batch(served, subscribe=topic, kafka__fetch__max__bytes=5000)[1]) == list(range(3000))

    def test_offsets_and_times_bound_it(self, served: str, new_topic: Callable[..., str]) -> None:
        topic = new_topic(2)
        for partition in range(2):
            produce(served, topic, 100, partition=partition)
        _, rows = batch(
            served, subscribe=topic, startingOffsets=offsets_of(topic, 90, -2), endingOffsets=offsets_of(topic, -1, 5)
        )
        assert numbers(rows) == [*range(90, 100), *range(5)]
        _, rows = batch(served, subscribe=topic, startingTimestamp=NOW_MS + 97, endingTimestamp=NOW_MS + 99)
        assert numbers(rows) == [97, 98] * 2
        by_time = {topic: {"0": NOW_MS + 99, "1": NOW_MS + 98}}
        _, rows = batch(served, subscribe=topic, startingOffsetsByTimestamp=json.dumps(by_time))
        assert numbers(rows) == [99, 98, 99]

    def test_what_cannot_be_read_is_told(self, served: str, new_topic: Callable[..., str]) -> None:
        topic = new_topic()
        produce(served, topic, 10)
        with pytest.raises(OffsetError, match=f"offset 99 of {topic}-0"):
            batch(served, subscribe=topic, endingOffsets=offsets_of(topic, 99))
        with pytest.raises(NoSuchTopic, match="does not exist; did you mean"):
            batch(served, subscribe=topic[:-1])
        with pytest.raises(ConfigError, match="says nothing of"):
            batch(served, subscribe=topic, startingOffsets='{"other": {"0": 1}}')
        with pytest.raises(OffsetError, match="is as late as the starting timestamp"):
            batch(served, subscribe=topic, startingTimestamp=NOW_MS + 9999)
        assert batch(
            served, subscribe=topic, startingTimestamp=NOW_MS + 9999, startingOffsetsByTimestampStrategy="latest"
        ) == ([], [])

    @pytest.mark.parametrize("name", ["default.api.timeout.ms", "request.timeout.ms"])
    def test_a_server_that_is_none_fails_in_the_time_that_was_given(self, name: str) -> None:
        """One port refuses, the other takes connections and never answers."""
        with socket.create_server(("127.0.0.1", 0)) as silent, socket.create_server(("127.0.0.1", 0)) as closed:
            ports = closed.getsockname()[1], silent.getsockname()[1]
            closed.close()
            for port in ports:
                began = time.monotonic()
                with pytest.raises(BrokersUnreachableError, match=f"answered at 127.0.0.1:{port} within 1500 ms"):
                    batch(f"127.0.0.1:{port}", subscribe="t", **{f"kafka.{name}": 1500})
                assert time.monotonic() - began < 10, "the default would take 30 seconds"

    def test_patterns_and_assignments(self, served: str, new_topic: Callable[..., str]) -> None:
        first, second = new_topic(2), new_topic()
        produce(served, first, 5, partition=1)
        produce(served, second, 5, first=100)
        stem = first.rpartition(".")[0].replace(".", "\\.")
        assert numbers(batch(served, subscribePattern=f"{stem}\\..*")[1]) == [*range(5), *range(100, 105)]
        assert numbers(batch(served, assign=json.dumps({first: [1]}))[1]) == list(range(5))

    def test_transactions(self, served: str, new_topic: Callable[..., str]) -> None:
        topic = new_topic()
        producer = ck.Producer({"bootstrap.servers": served, "transactional.id": topic})
        producer.init_transactions(SECONDS_MAX)
        for end in ("commit", "abort", "commit"):
            producer.begin_transaction()
            for number in range(3):
                producer.produce(topic, b"value-%d" % number, key=end)
            assert producer.flush(SECONDS_MAX) == 0  # or an abort takes back what was not sent yet
            getattr(producer, f"{end}_transaction")(SECONDS_MAX)
        _, rows = batch(served, subscribe=topic)
        assert [row["key"] for row in rows] == [b"commit"] * 6, "what was aborted is not read unless that is asked for"
        _, rows = batch(served, subscribe=topic, kafka__isolation__level="read_uncommitted")
        assert [row["key"] for row in rows].count(b"abort") == 3

    def test_a_group_that_read_beyond_an_open_transaction(self, served: str, new_topic: Callable[..., str]) -> None:
        topic = new_topic()
        begin_transaction(served, topic)
        commit_group(served, topic, 2)
        assert batch(served, subscribe=topic, groupId=topic, startingOffsets="committed") == ([], [])

    def test_headers(self, served: str, new_topic: Callable[..., str]) -> None:
        topic = new_topic()
        producer = ck.Producer({"bootstrap.servers": served})
        producer.produce(topic, b"value-0", headers=[("a", b"1"), ("a", None)])
        producer.produce(topic, b"value-1")
        assert producer.flush(SECONDS_MAX) == 0
        _, rows = batch(served, subscribe=topic, includeHeaders="true")
        assert [row["headers"] for row in rows] == [[{"key": "a", "value": b"1"}, {"key": "a", "value": None}], None]

    def test_records_deleted_after_planning(
        self, served: str, new_topic: Callable[..., str], caplog: pytest.LogCaptureFixture
    ) -> None:
        topic = new_topic()
        produce(served, topic, 100)
        for fail in ("true", "false"):
            given = options(served, subscribe=topic, failOnDataLoss=fail, startingOffsets=offsets_of(topic, -2))
            reader = BatchReader(given, arrow_schema(columns(given)))
            (task,) = reader.partitions()
            delete_before(served, topic, 60 if fail == "true" else 80)
            if fail == "true":
                with pytest.raises(DataLoss, match=f"offsets 0 to 59 of {topic}-0 were deleted"):
                    list(reader.read(task))
            else:
                with caplog.at_level(logging.WARNING):
                    rows = [row for each in reader.read(task) for row in each.to_pylist()]
                assert numbers(rows) == list(range(80, 100))
                assert f"offsets 60 to 79 of {topic}-0 were deleted" in caplog.text

    def test_a_group_says_where_to_begin(self, served: str, new_topic: Callable[..., str]) -> None:
        topic = new_topic(2)
        for partition in range(2):
            produce(served, topic, 10, partition=partition)
        consumer = ck.Consumer({"bootstrap.servers": served, "group.id": topic})
        consumer.commit(offsets=[ck.TopicPartition(topic, 0, 7)], asynchronous=False)
        consumer.close()
        _, rows = batch(served, subscribe=topic, groupId=topic, startingOffsets="committed")
        assert numbers(rows) == [7, 8, 9, *range(10)]


def delete_before(served: str, topic: str, offset: int) -> None:
    admin = AdminClient({"bootstrap.servers": served})
    for future in admin.delete_records([ck.TopicPartition(topic, 0, offset)]).values():
        future.result(SECONDS_MAX)


class Stream:
    """As Spark drives a reader: each end is the next start."""

    def __init__(self, served: str, **given: object) -> None:
        found = options(served, **given)
        read_checks.check_stream(found)
        self.reader = StreamReader(found, arrow_schema(columns(found)))
        self.place: dict[str, Any] | None = None
        self.before: dict[str, Any] = {}

    def batch(self) -> list[Row]:
        """The rows of the next batch; none where there is nothing new."""
        start = self.reader.initialOffset() if self.place is None else self.place
        end = json.loads(json.dumps(self.reader.latestOffset(start, self.reader.getDefaultReadLimit())))
        self.before = start
        if end == start:
            return []
        self.place = end
        return self.rows(start, end)

    def rows(self, start: dict[str, Any], end: dict[str, Any]) -> list[Row]:
        tasks = self.reader.partitions(start, end)
        return [row for task in tasks for each in self.reader.read(task) for row in each.to_pylist()]


@pytest.fixture(autouse=True)
def always_fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AGE_MAX_S", "IDLE_AGE_MAX_S", "PARTITIONS_AGE_MAX_S"):
        monkeypatch.setattr(stream_view, name, 0.0)


class TestStream:
    def test_batches_follow_each_other(self, served: str, new_topic: Callable[..., str]) -> None:
        topic = new_topic()
        produce(served, topic, 5)
        stream = Stream(served, subscribe=topic, startingOffsets="earliest")
        assert numbers(stream.batch()) == list(range(5))
        assert stream.batch() == []
        produce(served, topic, 3, first=5)
        assert numbers(stream.batch()) == [5, 6, 7]
        assert stream.place is not None
        assert stream.place[topic] == {"0": 8}
        assert stream.reader.reportLatestOffset() == {topic: {"0": 8}}

    def test_bytes_are_limited_where_brokers_do_not_tell_sizes(
        self, served: str, new_topic: Callable[..., str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Records are then taken for some size, not for nothing; and brokers are not asked at each trigger again."""
        asked: list[int] = []

        async def sizes(_brokers: Brokers, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
            asked.append(len(partitions))
            return {}

        monkeypatch.setattr(Brokers, "sizes", sizes)
        topic = new_topic(2)  # one of them stays empty
        produce(served, topic, 100)
        stream = Stream(served, subscribe=topic, startingOffsets="earliest", maxBytesPerTrigger=10 * 1024)
        assert numbers(stream.batch()) == list(range(10))
        assert numbers(stream.batch()) == list(range(10, 20))
        assert len(asked) == 1

    def test_a_failed_first_batch_begins_where_it_began(self, served: str, new_topic: Callable[..., str]) -> None:
        topic = new_topic()
        produce(served, topic, 5)
        stream = Stream(served, subscribe=topic)  # from latest
        assert stream.batch() == []  # nothing to read, yet now it is written down where the stream begins
        first_end = stream.place
        produce(served, topic, 3, first=5)
        produced_end = Stream(served, subscribe=topic).reader.initialOffset()
        assert produced_end[topic] == {"0": 8}
        # Another process, which knows only what Spark has kept: the end of the first batch.
        again = Stream(served, subscribe=topic)
        assert first_end is not None
        assert again.rows(again.reader.initialOffset(), first_end) == []
        again.place = first_end
        assert numbers(again.batch()) == [5, 6, 7]

    def test_the_first_end_carries_its_beginning(self, served: str, new_topic: Callable[..., str]) -> None:
        topic = new_topic()
        produce(served, topic, 5)
        stream = Stream(served, subscribe=topic)
        start = stream.reader.initialOffset()
        produce(served, topic, 3, first=5)
        end = stream.reader.latestOffset(start, ReadAllAvailable())
        again = Stream(served, subscribe=topic)
        assert numbers(again.rows(again.reader.initialOffset(), end)) == [5, 6, 7]

    def test_limits(self, served: str, new_topic: Callable[..., str]) -> None:
        topic = new_topic(2)
        produce(served, topic, 90, partition=0)
        produce(served, topic, 10, partition=1)
        stream = Stream(served, subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger=20)
        rows = stream.batch()
        assert len(rows) == 20
        assert len([row for row in rows if row["partition"] == 1]) == 2
        while more := stream.batch():
            assert len(more) <= 20
            rows += more
        assert sorted((row["partition"], row["offset"]) for row in rows) == [
            *((0, number) for number in range(90)),
            *((1, number) for number in range(10)),
        ]

    def test_bytes(self, served: str, new_topic: Callable[..., str]) -> None:
        topic = new_topic()
        produce(served, topic, 1000)
        stream = Stream(served, subscribe=topic, startingOffsets="earliest", maxBytesPerTrigger=2000)
        first = stream.batch()
        assert 10 < len(first) < 400
        one = Stream(served, subscribe=topic, startingOffsets="earliest", maxBytesPerTrigger=1)
        assert len(one.batch()) == 1

    def test_it_waits_for_enough(self, served: str, new_topic: Callable[..., str]) -> None:
        topic = new_topic()
        given = {"startingOffsets": "earliest", "minOffsetsPerTrigger": 10}
        stream = Stream(served, subscribe=topic, **given, maxTriggerDelay="1h")
        stream.batch()
        produce(served, topic, 4)
        assert stream.batch() == []
        produce(served, topic, 6, first=4)
        assert numbers(stream.batch()) == list(range(10))
        impatient = Stream(served, subscribe=topic, **given, maxTriggerDelay="0ms")
        assert len(impatient.batch()) == 10
        produce(served, topic, 1)
        assert len(impatient.batch()) == 1

    def test_available_now_ends(self, served: str, new_topic: Callable[..., str]) -> None:
        topic = new_topic()
        produce(served, topic, 25)
        stream = Stream(served, subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger=10)
        stream.reader.prepareForTriggerAvailableNow()
        assert len(stream.batch()) == 10
        produce(served, topic, 25)
        assert [len(stream.batch()) for _ in range(3)] == [10, 5, 0]

    def test_new_partitions_are_read_from_their_beginning(self, served: str, new_topic: Callable[..., str]) -> None:
        topic = new_topic()
        stream = Stream(served, subscribe=topic)
        stream.batch()
        admin = AdminClient({"bootstrap.servers": served})
        for future in admin.create_partitions([ck.admin.NewPartitions(topic, 2)]).values():
            future.result(SECONDS_MAX)
        produce(served, topic, 3, partition=1)
        assert numbers(stream.batch()) == [0, 1, 2]

    def test_progress_as_a_group(self, served: str, new_topic: Callable[..., str]) -> None:
        topic = new_topic()
        produce(served, topic, 5)
        stream = Stream(served, subscribe=topic, startingOffsets="earliest", groupId=topic)
        stream.batch()
        assert stream.place is not None
        stream.reader.commit(stream.place)
        consumer = ck.Consumer({"bootstrap.servers": served, "group.id": topic})
        assert [each.offset for each in consumer.committed([ck.TopicPartition(topic, 0)], SECONDS_MAX)] == [5]
        consumer.close()
        produce(served, topic, 2, first=5)
        later = Stream(served, subscribe=topic, startingOffsets="committed", groupId=topic)
        assert numbers(later.batch()) == [5, 6]


class TestLoss:
    """Each way in which a log may not be what it was has its own words, with the offsets."""

    def started(self, served: str, topic: str, fail: str = "true") -> Stream:
        produce(served, topic, 10)
        stream = Stream(served, subscribe=topic, startingOffsets="earliest", failOnDataLoss=fail)
        assert len(stream.batch()) == 10
        produce(served, topic, 10, first=10)
        return stream

    def test_retention(self, served: str, new_topic: Callable[..., str], caplog: pytest.LogCaptureFixture) -> None:
        topic = new_topic()
        stream = self.started(served, topic)
        delete_before(served, topic, 15)
        with pytest.raises(DataLoss, match=f"offsets 10 to 14 of {topic}-0 were deleted before they were read"):
            stream.batch()
        lenient = Stream(served, subscribe=topic, failOnDataLoss="false")
        lenient.place = stream.before
        assert numbers(lenient.batch()) == list(range(15, 20))
        assert f"offsets 10 to 14 of {topic}-0 were deleted" in caplog.text

    def test_deletion_and_anew(self, served: str, new_topic: Callable[..., str]) -> None:
        topic = new_topic()
        stream = self.started(served, topic)
        admin = AdminClient({"bootstrap.servers": served})
        for future in admin.delete_topics([topic]).values():
            future.result(SECONDS_MAX)
        with pytest.raises(DataLoss, match=f"{topic}-0 was deleted; it was read up to offset 10"):
            stream.batch()
        for future in admin.create_topics([ck.admin.NewTopic(topic, 1, 1)]).values():
            future.result(SECONDS_MAX)
        produce(served, topic, 30, first=100)
        with pytest.raises(DataLoss, match=f"topic {topic} was deleted and made anew"):
            stream.batch()
        lenient = Stream(served, subscribe=topic, failOnDataLoss="false")
        lenient.place = stream.place
        assert numbers(lenient.batch()) == list(range(100, 130))

    def test_truncation(self, served: str, new_topic: Callable[..., str]) -> None:
        topic = new_topic()
        stream = self.started(served, topic)
        assert stream.place is not None
        stream.place[topic]["0"] = 50
        with pytest.raises(DataLoss, match=f"offsets 20 to 49 of {topic}-0, which were read, have been cut off"):
            stream.batch()
        lenient = Stream(served, subscribe=topic, failOnDataLoss="false")
        lenient.place = stream.place
        lenient.batch()
        produce(served, topic, 3, first=20)
        assert numbers(lenient.batch()) == [20, 21, 22]

    def test_a_leader_that_lags_is_asked_again(
        self, served: str, new_topic: Callable[..., str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """One that was just replaced may not know an offset that its successor has: nothing is lost by that."""
        topic = new_topic()
        produce(served, topic, 10)
        ask = Fetcher._ask
        refused: list[int] = []

        async def lagging(fetcher: Fetcher, node_id: int, request: FetchRequest) -> tuple[FetchResponse, bytes]:
            response, records = await ask(fetcher, node_id, request)
            if not refused:
                refused.append(node_id)
                response.responses[0].partitions[0].error_code = ErrorCode.OFFSET_OUT_OF_RANGE
                return response, b""
            return response, records

        monkeypatch.setattr(Fetcher, "_ask", lagging)
        assert numbers(batch(served, subscribe=topic, failOnDataLoss="false")[1]) == list(range(10))
        assert refused

    def test_gaps_are_no_loss(self, served: str, new_topic: Callable[..., str]) -> None:
        topic = new_topic()
        producer = ck.Producer({"bootstrap.servers": served, "transactional.id": topic})
        producer.init_transactions(SECONDS_MAX)
        for end in ("abort", "commit", "abort"):
            producer.begin_transaction()
            producer.produce(topic, b"value-0", key=end)
            assert producer.flush(SECONDS_MAX) == 0
            getattr(producer, f"{end}_transaction")(SECONDS_MAX)
        stream = Stream(served, subscribe=topic, startingOffsets="earliest")
        assert [row["key"] for row in stream.batch()] == [b"commit"]
        assert stream.batch() == []

    def test_a_place_beyond_an_open_transaction_is_no_loss(self, served: str, new_topic: Callable[..., str]) -> None:
        """As after a restart of a stream that read uncommitted records before."""
        topic = new_topic()
        producer = begin_transaction(served, topic)
        before = Stream(served, subscribe=topic, startingOffsets="earliest", kafka__isolation__level="read_uncommitted")
        assert numbers(before.batch()) == [0, 1, 2, 3]
        commit_group(served, topic, 2)
        after = Stream(served, subscribe=topic)
        after.place = before.place
        beginning = Stream(served, subscribe=topic, groupId=topic, startingOffsets="committed")
        assert after.batch() == beginning.batch() == []
        producer.commit_transaction(SECONDS_MAX)
        produce(served, topic, 1, first=4)
        assert numbers(after.batch()) == [4]
        assert numbers(beginning.batch()) == [2, 3, 4]

    def test_a_log_that_ends_before_the_split(self, served: str, new_topic: Callable[..., str]) -> None:
        """As after an unclean election: what was planned is no longer there, and the exact offsets are told."""
        topic = new_topic()
        produce(served, topic, 10)
        for fail in ("true", "false"):
            given = options(served, subscribe=topic, failOnDataLoss=fail)
            reader = BatchReader(given, arrow_schema(columns(given)))
            (task,) = reader.partitions()
            assert isinstance(task, FetchTask)
            longer = FetchTask(splits=(replace(task.splits[0], first_offset=5, end_offset=25),))
            beyond = FetchTask(splits=(replace(task.splits[0], first_offset=20, end_offset=25),))
            if fail == "true":
                with pytest.raises(
                    DataLoss, match=f"offsets 20 to 24 of {topic}-0 were cut off: the log now ends at 10"
                ):
                    list(reader.read(beyond))
            else:
                assert list(reader.read(beyond)) == []
            impatient = options(served, subscribe=topic, kafka__default__api__timeout__ms=3000)
            with pytest.raises(KafkaTimeoutError, match="nothing to read at offset 10; it ends at 10"):
                list(BatchReader(impatient, arrow_schema(columns(impatient))).read(longer))

"""Ready pipelines, all of them in one: what comes out of each, also when it runs again, and where bad records go.

A run of Spark takes seconds whatever it does, so the flows run side by side, twice; each test looks at one of them.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest
from broker_process import BrokerProcess
from brokers import KEEP_RECORDS
from client_libraries import confluent_kafka as ck
from committed import committed, create_topic, values, wait_for_committed
from confluent_io import deliver

from barnabas.client.errors import KafkaError
from barnabas.spark.pipelines import EachBatch, Pipeline, Polling, Run, TopicSink
from barnabas.spark.pipelines.load import from_spec, load, new
from barnabas.spark.pipelines.mirror import mirror
from barnabas.spark.pipelines.runner import FlowFailed, FlowProgress, run

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

MINUTE_MS = 60_000
NOON_MS = 1_700_006_400_000 // MINUTE_MS * MINUTE_MS
SECONDS_MAX = 900  # on a machine with nothing else to do, a twentieth of that


def send(address: str, topic: str, *records: dict[str, Any]) -> None:
    producer = ck.Producer({"bootstrap.servers": address, "log_level": 0})
    for record in records:
        if isinstance(record.get("value"), dict):
            record["value"] = json.dumps(record["value"])
    deliver(producer, topic, list(records))


def mirrored(number: int) -> dict[str, Any]:
    return {
        "key": f"k{number}",
        "value": f"v{number}",
        "partition": number % 3,
        "timestamp": NOON_MS + number,
        "headers": {"n": str(number).encode()},
    }


def order(minute: int, restaurant: str, cents: int) -> dict[str, Any]:
    at_ms = NOON_MS + minute * MINUTE_MS + 1000
    return {"value": {"restaurant": restaurant, "cents": cents}, "timestamp": at_ms, "partition": 0}


class Everything:
    """Two clusters, all flows, and two runs with records before each."""

    def __init__(self, address: str, other: str, spark: SparkSession, folder: Path) -> None:
        self.address, self.other, self.spark, self.folder = address, other, spark, folder
        self.prefix = f"pipelines.{os.getpid()}"
        self.rows: list[dict[str, int]] = []
        (folder / "in").mkdir()
        for name in (
            "orders",
            "counts",
            "items",
            "joined",
            "dead",
            "repeated",
            "unique",
            "lines",
            "shout-in",
            "shout-out",
        ):
            create_topic(address, self.topic(name), 1)
        create_topic(address, self.topic("menu"), 1, cleanup_policy="compact")
        create_topic(other, self.topic("far"), 3, max_message_bytes="70000")

    def topic(self, name: str) -> str:
        return f"{self.prefix}.{name}"

    def send(self, topic: str, *records: dict[str, Any]) -> None:
        send(self.address, self.topic(topic), *records)

    def before_the_first_run(self) -> None:
        self.send("orders", order(0, "a", 5), order(0, "a", 6), order(0, "b", 1), order(1, "a", 7))
        self.send("menu", {"key": "1", "value": {"dish": "soup"}}, {"key": "1", "value": {"dish": "goulash"}})
        self.send("items", {"value": {"item": "1"}}, {"value": "no JSON", "key": "k"})
        self.send("repeated", *({"value": {"id": str(number % 3)}} for number in range(6)))
        self.send("shout-in", {"key": "k", "value": "quiet"})
        (self.folder / "in" / "one.json").write_text('{"id": 1, "name": "a"}\n{"id": 2, "name": "b"}\n')
        send(self.other, self.topic("far"), *(mirrored(number) for number in range(20)))
        commit_group(self.other, "readers", self.topic("far"), {0: 5, 1: 0})

    def before_the_second_run(self) -> None:
        self.send("orders", order(10, "c", 0))
        self.send("menu", {"key": "2", "value": {"dish": "dumplings"}}, {"key": "1", "value": None})
        self.send("items", {"value": {"item": "2"}}, {"value": {"item": "1"}})
        self.send("repeated", {"value": {"id": "0"}}, {"value": {"id": "9"}})
        (self.folder / "in" / "two.json").write_text('{"id": 3, "name": "c"}\n')
        send(self.other, self.topic("far"), *(mirrored(number) for number in range(20, 30)))
        commit_group(self.other, "readers", self.topic("far"), {0: 8, 1: 10, 2: 10})

    def run(self) -> None:
        spec = {"servers": self.address, "checkpoints": str(self.folder / "checkpoints"), "flows": self.flows()}
        pipeline = from_spec(spec, default_name=self.prefix)
        path = self.folder / "shout.py"
        if not path.exists():
            new("shout", self.folder, self.address)
            path.write_text(path.read_text().replace('"shout-', f'"{self.prefix}.shout-'))
        pipeline.add(*load(path).flows.values())
        self.rows.append(run(pipeline, once=True, spark=self.spark))

    def flows(self) -> dict[str, dict[str, Any]]:
        topic, fields = self.topic, "id INT, name STRING"
        far = {"source_servers": self.other, "prefix": "copy."}
        return {
            "counts": {
                "kind": "windowed_counts", "source": topic("orders"), "sink": topic("counts"),
                "schema": "restaurant STRING, cents LONG", "by": "restaurant", "sum": "cents",
            },
            "joined": {
                "kind": "joined", "source": topic("items"), "table": topic("menu"), "sink": topic("joined"),
                "schema": "item STRING", "table_schema": "dish STRING", "on": "item", "dead_letter": topic("dead"),
            },
            "unique": {"kind": "deduplicated", "source": topic("repeated"), "sink": topic("unique"), "by": "id"},
            "in": {
                "kind": "files_in", "path": str(self.folder / "in"), "format": "json", "schema": fields, "key": "id",
                "sink": topic("lines"),
            },
            "lake": {
                "kind": "lake", "source": topic("lines"), "path": str(self.folder / "lake"), "schema": fields,
            },
            "mirror": {"kind": "mirror", "pattern": r".*\.far", **far},
            "groups": {"kind": "mirror_groups", "flow": "mirror", **far},
        }  # fmt: skip

    def read(self, name: str, count: int) -> list[Any]:
        """Exactly so many records, as JSON, sorted."""
        found = wait_for_committed(self.address, self.topic(name), count)
        return [json.loads(value) for value in sorted(each.value() for each in found)]


@pytest.mark.timeout(SECONDS_MAX)
def test_ready_pipelines(served: str, spark: SparkSession, tmp_path: Path) -> None:
    """One test, since every worker of a parallel run would else do all of it again."""
    with BrokerProcess(config=KEEP_RECORDS) as other:
        done = Everything(served, other.address, spark, tmp_path)
        done.before_the_first_run()
        done.run()
        done.before_the_second_run()
        done.run()
        check_that_a_run_goes_on_where_the_last_one_stopped(done)
        check_counts_by_window(done)
        check_a_stream_joined_with_a_table_that_changes(done)
        check_that_bad_records_go_to_the_dead_letter_topic(done)
        check_that_duplicates_are_dropped_also_after_a_restart(done)
        check_files_in_and_a_lake_by_date(done)
        check_that_a_mirror_keeps_everything(done)
        check_that_a_mirror_translates_what_groups_committed(done)
        check_a_pipeline_in_python(done)
        check_that_a_bad_record_without_a_dead_letter_topic_fails_the_flow(done)


def check_that_a_run_goes_on_where_the_last_one_stopped(done: Everything) -> None:
    first, second = done.rows
    assert {name: (first[name], second[name]) for name in ("counts", "unique", "in", "mirror", "copy")} == {
        "counts": (4, 1),
        "unique": (6, 2),
        "in": (2, 1),
        "mirror": (20, 10),
        "copy": (1, 0),
    }


def check_counts_by_window(done: Everything) -> None:
    """The last window is still open."""
    found = done.read("counts", 3)
    assert sorted((each["restaurant"], each["from"][14:16], each["count"], each["cents"]) for each in found) == [
        ("a", "00", 2, 11),
        ("a", "01", 1, 7),
        ("b", "00", 1, 1),
    ]


def check_a_stream_joined_with_a_table_that_changes(done: Everything) -> None:
    assert done.read("joined", 3) == [
        {"item": "1", "dish": "goulash"},
        {"item": "1"},
        {"item": "2", "dish": "dumplings"},
    ]


def check_that_bad_records_go_to_the_dead_letter_topic(done: Everything) -> None:
    (letter,) = wait_for_committed(done.address, done.topic("dead"), 1)
    headers = dict(letter.headers())
    assert (letter.key(), letter.value(), headers["barnabas.flow"]) == (b"k", b"no JSON", b"joined")
    assert b"not JSON" in headers["barnabas.error"]
    assert (headers["barnabas.partition"], headers["barnabas.offset"]) == (b"0", b"1")


def check_that_duplicates_are_dropped_also_after_a_restart(done: Everything) -> None:
    assert [each["id"] for each in done.read("unique", 4)] == ["0", "1", "2", "9"]


def check_files_in_and_a_lake_by_date(done: Everything) -> None:
    """What the files brought while it ran may be left for the next run, but nothing is there twice."""
    assert [each["id"] for each in done.read("lines", 3)] == [1, 2, 3]
    lake = done.folder / "lake"
    found = [(row.id, row.name, bytes(row.key)) for row in done.spark.read.parquet(str(lake)).collect()]
    assert {(1, "a", b"1"), (2, "b", b"2")} <= set(found)
    assert len(found) == len(set(found))
    assert {each.name[:5] for each in lake.iterdir() if not each.name.startswith("_")} == {"date="}


def check_that_a_mirror_keeps_everything(done: Everything) -> None:
    topic = done.topic("far")
    copy = f"copy.{topic}"
    assert facts(wait_for_committed(done.address, copy, 30)) == facts(committed(done.other, topic))
    admin = ck.admin.AdminClient({"bootstrap.servers": done.address})
    resource = ck.admin.ConfigResource(ck.admin.RESOURCE_TOPIC, copy)
    assert admin.describe_configs([resource])[resource].result(20)["max.message.bytes"].value == "70000"


def check_that_a_mirror_translates_what_groups_committed(done: Everything) -> None:
    copy = f"copy.{done.topic('far')}"
    assert [each.value() for each in unread(done.address, "readers", copy, 0)] == [b"v24", b"v27"]
    assert [unread(done.address, "readers", copy, partition) for partition in (1, 2)] == [[], []]


def facts(messages: list[ck.Message]) -> list[tuple[Any, ...]]:
    found: dict[int, list[Any]] = {}
    for each in messages:
        fact = (each.key(), each.value(), each.headers(), each.timestamp())
        found.setdefault(each.partition(), []).append(fact)
    return sorted(found.items())  # in the order of each partition


def commit_group(address: str, group: str, topic: str, offsets: dict[int, int]) -> None:
    consumer = ck.Consumer({"bootstrap.servers": address, "group.id": group, "enable.auto.commit": False})
    wanted = [ck.TopicPartition(topic, partition, offset) for partition, offset in offsets.items()]
    consumer.commit(offsets=wanted, asynchronous=False)
    consumer.close()


def unread(address: str, group: str, topic: str, partition: int) -> list[ck.Message]:
    """What a member of the group would get."""
    consumer = ck.Consumer({"bootstrap.servers": address, "group.id": group, "enable.auto.commit": False})
    (place,) = consumer.committed([ck.TopicPartition(topic, partition)], 20)
    consumer.close()
    return [
        each for each in committed(address, topic) if each.partition() == partition and each.offset() >= place.offset
    ]


def check_a_pipeline_in_python(done: Everything) -> None:
    assert [each.value() for each in wait_for_committed(done.address, done.topic("shout-out"), 1)] == [b"QUIET"]


def check_that_a_bad_record_without_a_dead_letter_topic_fails_the_flow(done: Everything) -> None:
    topic = done.topic("items")
    flow = {
        "kind": "sql",
        "sources": [topic],
        "sink": done.topic("unheard"),
        "schemas": {topic: "item STRING"},
        "query": f"SELECT item FROM {''.join(each if each.isalnum() else '_' for each in topic)}",
    }
    create_topic(done.address, done.topic("unheard"), 1)
    spec = {"servers": done.address, "checkpoints": str(done.folder / "bad"), "flows": {"bad": flow}}
    with pytest.raises(FlowFailed, match="flow bad"):
        run(from_spec(spec, default_name="bad"), once=True, spark=done.spark)
    assert committed(done.address, done.topic("unheard")) == []


@pytest.mark.timeout(SECONDS_MAX)
def test_a_table_has_the_last_committed_record_of_each_key(
    served: str, spark: SparkSession, new_topic: Callable[..., str]
) -> None:
    """The last by its offset, whatever its timestamp says; where a key is in two partitions, the newer of these two."""
    topic = new_topic(2)

    def record(key: str, value: str | None, at_ms: int, partition: int = 0) -> dict[str, Any]:
        return {"key": key, "value": value, "timestamp": NOON_MS + at_ms, "partition": partition}

    send(served, topic, record("late", "old", 9), record("late", "new", 1), record("gone", "old", 9))
    send(served, topic, record("gone", None, 1), record("moved", "old", 1), record("moved", "newer", 2, partition=1))
    producer = ck.Producer({"bootstrap.servers": served, "transactional.id": topic})
    producer.init_transactions(SECONDS_MAX)
    producer.begin_transaction()
    producer.produce(topic, "aborted", key="late", partition=0)
    assert producer.flush(SECONDS_MAX) == 0
    producer.abort_transaction(SECONDS_MAX)
    found = Run(Pipeline("tables", servers=served), spark).table(topic).collect()
    assert {bytes(row.key): bytes(row.value) for row in found} == {b"late": b"new", b"moved": b"newer"}


@pytest.mark.timeout(SECONDS_MAX)
def test_what_is_updated_and_what_is_polled(
    served: str, spark: SparkSession, new_topic: Callable[..., str], unique: str, tmp_path: Path
) -> None:
    """Both reach their topics by single batches, each of which is there once."""
    seen, totals, polled = new_topic(), new_topic(), new_topic()
    pipeline = Pipeline(unique, servers=served, checkpoints=str(tmp_path))

    @pipeline.flow(TopicSink(totals), output_mode="update")
    def count(run: Run) -> DataFrame:
        return (
            run.stream(seen, maxOffsetsPerTrigger=3)
            .groupBy("key")
            .count()
            .selectExpr("key", "CAST(count AS STRING) AS value")
        )

    moved = [2, 0]

    def poll(run: Run) -> int:
        rows = run.spark.range(2).selectExpr("CAST(id AS STRING) AS value")
        run.write(rows, TopicSink(polled), "poll", batch_id=7)
        return moved.pop(0)

    pipeline.add(Polling(name="poll", poll=poll))
    send(served, seen, *({"key": key, "value": "1"} for key in ("a", "b", "a", "a")))
    assert run(pipeline, once=True, spark=spark) == {"count": 4, "poll": 2}
    found = [(each.key(), each.value()) for each in wait_for_committed(served, totals, 3)]
    assert sorted(found[:2]) == [(b"a", b"2"), (b"b", b"1")]
    assert found[2:] == [(b"a", b"3")], "only what changed"
    assert sorted(values(served, polled)) == ["0", "1"], "the same batch, written twice"


def test_flows_end_together_when_one_fails(served: str, spark: SparkSession) -> None:
    """Also where another one has a task that takes long."""
    at_work = threading.Event()

    def sleep(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        time.sleep(SECONDS_MAX)
        yield from batches

    def work(run: Run) -> int:
        at_work.set()
        return run.spark.range(1).mapInArrow(sleep, "id bigint").count()

    def fail(_run: Run) -> int:
        assert at_work.wait(SECONDS_MAX)
        raise RuntimeError("no way")

    pipeline = Pipeline("broken", servers=served)
    pipeline.add(Polling(name="work", poll=work))
    pipeline.add(Polling(name="poll", poll=fail))
    with pytest.raises(FlowFailed, match="flow poll: no way"):
        run(pipeline, spark=spark)


@pytest.mark.parametrize("fails", [False, True])
def test_a_stop_lets_the_batch_that_is_under_way_end(
    served: str, spark: SparkSession, new_topic: Callable[..., str], unique: str, tmp_path: Path, fails: bool
) -> None:
    topic = new_topic()
    stop, begun, may_end = threading.Event(), threading.Event(), threading.Event()
    pipeline = Pipeline(unique, servers=served, checkpoints=str(tmp_path))

    def hold(_run: Run, batch: DataFrame, _batch_id: int) -> None:
        assert batch.count() == 1
        begun.set()
        assert may_end.wait(SECONDS_MAX)
        if fails:
            raise RuntimeError("at the last moment")

    @pipeline.flow(EachBatch(hold))
    def held(run: Run) -> DataFrame:
        return run.stream(topic)

    def show(_flows: list[FlowProgress]) -> None:
        if stop.is_set():
            may_end.set()

    send(served, topic, {"value": "1"})
    with ThreadPoolExecutor(1) as threads:
        rows = threads.submit(run, pipeline, spark=spark, stopped=stop, show=show)
        assert begun.wait(SECONDS_MAX)
        stop.set()
        if fails:
            with pytest.raises(FlowFailed, match=r"flow held: .*at the last moment"):
                rows.result(SECONDS_MAX)
        else:
            assert rows.result(SECONDS_MAX) == {"held": 1}


def test_a_mirror_reaches_the_original_by_settings_of_its_own(served: str) -> None:
    """Here they ask for TLS, which the original does not speak; those of the pipeline do not."""
    secured = {"security.protocol": "SSL", "request.timeout.ms": "2000"}
    flow = mirror("far", source_servers=served, source_settings=secured, topics=["t"])
    with pytest.raises(KafkaError, match="TLS"):
        flow.build(Run(Pipeline("copies", servers=served), cast("SparkSession", None)))

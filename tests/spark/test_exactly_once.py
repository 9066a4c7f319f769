"""The protocol without Spark: a driver that dies anywhere, tasks that run twice, and every row once."""

from __future__ import annotations

import asyncio
import pickle
from collections.abc import Callable, Iterator

import pyarrow as pa
import pytest
from broker_process import wait_until
from committed import values
from pyspark.sql.types import StringType, StructType

from barnabas.client.admin.cluster import UpgradeType
from barnabas.client.errors import ProducerFencedError
from barnabas.spark.connections import connections
from barnabas.spark.writing import progress, transactional_requests, writer
from barnabas.spark.writing.exactly_once import AbortedTransactions, ExactlyOnce, LostTransactions
from barnabas.spark.writing.progress import Batch, Decision, Progress
from barnabas.spark.writing.writer import TaskDone, Writing
from barnabas.testing import Kafka

SCHEMA = StructType().add("value", StringType())
QUERY = "a query"


class Driver:
    """One life of a driver, as Spark leads it: plan, tasks, commit or abort."""

    def __init__(self, address: str, topic: str, sink: str, **options: str) -> None:
        progress._read_here.clear()
        self.given = {
            "kafka.bootstrap.servers": address,
            "topic": topic,
            "exactlyonce": "true",
            "sinkid": sink,
            "kafka.delivery.timeout.ms": "120000",
            "kafka.request.timeout.ms": "60000",
            **options,
        }
        self.run = f"run{id(self):x}"

    def plan(self) -> Writing:
        return pickle.loads(pickle.dumps(Writing(self.given, SCHEMA).planned()))

    def task(self, planned: Writing, batch_id: int, rows: list[str], query: str = QUERY, run: str = "") -> TaskDone:
        batches = iter([pa.record_batch({"value": pa.array(rows, pa.string())})] if rows else [])
        return planned.write_task(batches, Batch(query, batch_id), run or self.run)

    def protocol(self) -> ExactlyOnce:
        writing = Writing(self.given, SCHEMA)
        return writing.protocol(connections().run(connections().cluster(writing.options.config)))

    def commit(self, *messages: TaskDone | None) -> None:
        Writing(self.given, SCHEMA).commit_all(messages)

    def abort(self, *messages: TaskDone | None) -> None:
        Writing(self.given, SCHEMA).abort_all(messages)

    def decide(self, *messages: TaskDone) -> Decision:
        """The first half of a commit."""
        found = [each.transaction for each in messages if each.transaction is not None]
        decision = Decision(messages[0].batch or Batch("", 0), tuple(found))
        assert messages[0].decider is not None
        connections().run(self.protocol().decide(messages[0].decider, decision))
        return decision


@pytest.fixture
def driver(served: str, new_topic: Callable[..., str], unique: str) -> Callable[..., Driver]:
    topic = new_topic(2)
    return lambda **options: Driver(served, topic, unique, **options)


def seen(driver: Driver) -> list[str]:
    return values(driver.given["kafka.bootstrap.servers"], driver.given["topic"])


def sees(driver: Driver, *expected: str) -> None:
    """A commit is answered before its markers are written: readers see it a moment later."""
    wait_until(lambda: seen(driver) == sorted(expected) or None, f"exactly {expected} are seen")


def two_tasks(driver: Driver, batch_id: int, run: str = "") -> tuple[TaskDone, TaskDone]:
    """Tasks have ids by Spark's context, which is missing here: so each is a run of its own."""
    planned = driver.plan()
    return (
        driver.task(planned, batch_id, [f"{batch_id}a", f"{batch_id}b"], run=f"{driver.run}{run}-0"),
        driver.task(planned, batch_id, [f"{batch_id}c"], run=f"{driver.run}{run}-1"),
    )


def test_batches_one_after_the_other(driver: Callable[..., Driver]) -> None:
    one = driver()
    for batch_id in range(3):
        messages = two_tasks(one, batch_id)
        sees(one, *(f"{done}{row}" for done in range(batch_id) for row in "abc"))
        one.commit(*messages)
    sees(one, *(f"{done}{row}" for done in range(3) for row in "abc"))


def test_a_driver_that_dies_before_the_decision(driver: Callable[..., Driver]) -> None:
    two_tasks(driver(), 0)
    again = driver()
    messages = two_tasks(again, 0)
    assert all(message.row_count for message in messages), "nothing of it was done"
    again.commit(*messages)
    sees(again, "0a", "0b", "0c")


@pytest.mark.parametrize("ended", [0, 1, 2])
def test_a_driver_that_dies_after_the_decision(driver: Callable[..., Driver], ended: int) -> None:
    one = driver()
    decision = one.decide(*two_tasks(one, 0))
    protocol = one.protocol()
    for transaction in decision.transactions[:ended]:
        connections().run(transactional_requests.end(protocol.cluster, protocol.config, transaction, commit=True))
    again = driver()
    messages = two_tasks(again, 0)
    assert [message.row_count for message in messages] == [0, 0], "the batch is done: its tasks skip"
    again.commit(*messages)
    sees(again, "0a", "0b", "0c")
    again.commit(*two_tasks(again, 1))
    sees(again, "0a", "0b", "0c", "1a", "1b", "1c")


def test_a_task_that_runs_again_and_one_that_runs_twice(driver: Callable[..., Driver]) -> None:
    one = driver()
    planned = one.plan()
    one.task(planned, 0, ["died after it wrote"], run="first")
    winner = one.task(planned, 0, ["once"], run="second")
    one.task(planned, 0, ["once"], run="slower")
    one.commit(winner)
    sees(one, "once")


def test_a_task_that_fails_takes_back_what_it_wrote(driver: Callable[..., Driver]) -> None:
    one = driver()
    planned = one.plan()

    def rows() -> Iterator[pa.RecordBatch]:
        yield pa.record_batch({"value": pa.array(["gone"] * 50_000, pa.string())})
        raise RuntimeError("half-way")

    with pytest.raises(RuntimeError, match="half-way"):
        planned.write_task(rows(), Batch(QUERY, 0), "first")
    one.commit(one.task(planned, 0, ["there"], run="second"))
    sees(one, "there")


def test_abort_leaves_nothing(driver: Callable[..., Driver]) -> None:
    one = driver()
    message, _other = two_tasks(one, 0)
    one.abort(message, None)
    assert seen(one) == []


def test_abort_after_a_commit_that_had_decided_changes_nothing(driver: Callable[..., Driver]) -> None:
    one = driver()
    messages = two_tasks(one, 0)
    one.decide(*messages)
    one.abort(*messages)
    sees(one, "0a", "0b", "0c")


def test_a_driver_that_was_replaced_decides_nothing(driver: Callable[..., Driver]) -> None:
    old = driver()
    messages = two_tasks(old, 0)
    new = driver()
    ours = two_tasks(new, 0)
    with pytest.raises(AbortedTransactions, match=r"2 of 2 .* another driver has taken over the sink"):
        old.commit(*messages)
    with pytest.raises(ProducerFencedError):
        old.decide(*messages)
    old.abort(*messages)
    new.commit(*ours)
    sees(new, "0a", "0b", "0c")


def test_a_deleted_checkpoint_is_not_taken_for_done_work(driver: Callable[..., Driver]) -> None:
    one = driver()
    one.commit(*two_tasks(one, 0))
    one.commit(*two_tasks(one, 1))
    again = driver()
    message = again.task(again.plan(), 0, ["fresh"], query="another query")
    assert message.row_count == 1
    again.commit(message)
    sees(again, "0a", "0b", "0c", "1a", "1b", "1c", "fresh")


def test_batches_without_rows_decide_nothing(driver: Callable[..., Driver]) -> None:
    one = driver()
    one.commit(one.task(one.plan(), 0, []))
    assert connections().run(_progress(one)) == Progress()


async def _progress(driver: Driver) -> Progress:
    return await asyncio.wait_for(_read(driver), 120)


async def _read(driver: Driver) -> Progress:
    writing = Writing(driver.given, SCHEMA)
    cluster = await connections().cluster(writing.options.config)
    return await progress.read(cluster, writing.options.config, writing.options.progress_topic, writing.options.sink)


def test_what_brokers_aborted_after_the_decision_is_lost_aloud(driver: Callable[..., Driver]) -> None:
    one = driver()
    messages = two_tasks(one, 0)
    decision = one.decide(*messages)
    protocol = one.protocol()
    gone = decision.transactions[0].transactional_id
    connections().run(transactional_requests.init(protocol.cluster, protocol.config, gone, 10_000))
    with pytest.raises(LostTransactions, match=r"batch 0 .* 1 of 2 transactions .* failOnDataLoss=false"):
        driver().plan()
    forgiving = driver(failondataloss="false")
    messages = two_tasks(forgiving, 1)
    forgiving.commit(*messages)
    sees(forgiving, "0c", "1a", "1b", "1c")


def test_what_brokers_aborted_before_the_decision_is_not_decided(driver: Callable[..., Driver]) -> None:
    """As they do where a batch takes longer than they let a transaction be open: then it can be written again."""
    one = driver()
    messages = two_tasks(one, 0)
    protocol = one.protocol()
    assert messages[0].transaction is not None
    gone = messages[0].transaction.transactional_id
    connections().run(transactional_requests.init(protocol.cluster, protocol.config, gone, 10_000))
    with pytest.raises(AbortedTransactions, match=r"batch 0 .* 1 of 2 transactions .* transaction.max.timeout.ms"):
        one.commit(*messages)
    one.abort(*messages)
    again = driver()
    again.commit(*two_tasks(again, 0))
    sees(again, "0a", "0b", "0c")


def test_a_decision_upon_many_tasks_fits_into_a_record(driver: Callable[..., Driver]) -> None:
    one = driver()
    message = one.task(one.plan(), 0, ["one of many"])
    assert message.transaction is not None
    many = tuple(message.transaction._replace(producer_id=number) for number in range(30_000))
    assert message.decider is not None
    connections().run(one.protocol().decide(message.decider, Decision(Batch(QUERY, 0), many)))
    found = connections().run(_progress(driver()))
    assert found.decision is not None
    assert found.decision.transactions == many


class TaskOfStream:
    """What a task of a batch is told that a streaming query writes by foreachBatch."""

    def __init__(self, run: str) -> None:
        self.properties = {writer.QUERY_ID: QUERY, writer.RUN_ID: run}

    def getLocalProperty(self, name: str) -> str | None:
        return self.properties.get(name)

    def partitionId(self) -> int:
        return 0

    def attemptNumber(self) -> int:
        return 0


def test_batches_of_a_query_have_few_transactional_ids(
    driver: Callable[..., Driver], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Brokers keep each for a week; a mirror must not make new ones with every batch."""

    def written(batch_id: int, run: str) -> str:
        monkeypatch.setattr(writer.TaskContext, "get", lambda: TaskOfStream(run))
        options = driver(batchid=str(batch_id)).given
        planned = pickle.loads(pickle.dumps(writer.BatchWriter(options, SCHEMA, False).planned()))
        done = planned.write(iter([pa.record_batch({"value": pa.array([str(batch_id)])})]))
        assert isinstance(done, TaskDone)
        assert done.transaction is not None
        planned.commit([done])
        return done.transaction.transactional_id

    assert len({written(batch_id, "one run") for batch_id in range(4)}) == 2
    assert written(4, "another") != written(6, "third")
    sees(driver(), "0", "1", "2", "3", "4", "6")


def test_sinks_do_not_mind_each_other(driver: Callable[..., Driver]) -> None:
    one = driver()
    other = driver(sinkid=one.given["sinkid"] + ":t:")  # as the ids of its tasks begin
    mine, others = two_tasks(one, 0), two_tasks(other, 5)
    other.commit(*others)
    one.commit(*mine)
    sees(one, "0a", "0b", "0c", "5a", "5b", "5c")


def test_what_was_decided_and_done_survives_a_restart_of_everything(driver: Callable[..., Driver]) -> None:
    one = driver()
    messages = two_tasks(one, 3)
    one.commit(*messages)
    found = connections().run(_progress(driver()))
    assert found.is_finished
    assert found.decision is not None
    assert found.decision.batch == Batch(QUERY, 3)
    assert sorted(found.decision.transactions) == sorted(each.transaction for each in messages if each.transaction)


def test_a_cluster_of_an_older_transaction_version(unique: str) -> None:
    """There partitions are added to a transaction by hand, and epochs stay as they are."""
    with Kafka() as kafka:
        kafka.admin().update_features({"transaction.version": 1}, upgrade_type=UpgradeType.SAFE_DOWNGRADE)
        topic = kafka.topic(partitions=2)

        def driver() -> Driver:
            return Driver(kafka.bootstrap_servers, topic, unique)

        one = driver()
        one.commit(*two_tasks(one, 0))
        assert one.protocol().cluster.features["transaction.version"] == 1
        one.decide(*two_tasks(one, 1))
        again = driver()
        assert [message.row_count for message in two_tasks(again, 1)] == [0, 0]
        two_tasks(again, 2)
        again.commit(*two_tasks(again, 2, run="once more"))
        sees(again, *(f"{done}{row}" for done in range(3) for row in "abc"))

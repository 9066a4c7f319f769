"""Each background task of a broker fails once, on some node of a cluster at work: the log says so, and the cluster goes
on, or the broker stops where what the task did must not stay undone."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest
from cluster import Cluster, die, until
from transactional_producer import SETTINGS, TransactionalProducer, ask_until, run

import barnabas.server
from barnabas.controller import registration
from barnabas.controller.decision import Refusal
from barnabas.errors import ErrorCode
from barnabas.protocol.messages.unregister_broker import UnregisterBrokerRequest
from barnabas.server.supervisor import OnFailure, Supervisor

# The beginning of each task's name, and what follows its failure.
TASKS = {
    "broker heartbeats": OnFailure.RETRY,
    "changing in-sync replicas": OnFailure.RETRY,
    "controller registration": OnFailure.RETRY,
    "dialling broker": OnFailure.ABANDON,
    "end of fetching from broker": OnFailure.ABANDON,
    "fencing": OnFailure.RETRY,
    "fetching from broker": OnFailure.RETRY,
    "flushing": OnFailure.RETRY,
    "loading __consumer_offsets": OnFailure.RETRY,
    "loading __transaction_state": OnFailure.RETRY,
    "metadata fetch": OnFailure.RETRY,
    "metadata snapshot": OnFailure.RETRY,
    "metadata sync": OnFailure.STOP_BROKER,
    "opening logs": OnFailure.ABANDON,
    "preferred leaders": OnFailure.RETRY,
    "quorum request to node": OnFailure.ABANDON,
    "retention": OnFailure.RETRY,
    "syncing deletions": OnFailure.RETRY,
    "syncing t-": OnFailure.RETRY,
    "syncing what broker": OnFailure.RETRY,
    "transaction markers to broker": OnFailure.RETRY,
    "unclean elections after a changed setting": OnFailure.RETRY,
}
PARTITIONS = 6  # so that others lead some of them than the coordinator of the transaction
STARTS = 21  # calls of `Supervisor.start` in the source; each is one of the tasks above, or `reading ahead`


class Sabotage:
    """The first task of that name fails before it has done anything; from then on it works."""

    def __init__(self, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
        self.failed: tuple[Supervisor, str, OnFailure] | None = None
        start = Supervisor.start

        def sabotaged(supervisor: Supervisor, task: str, work: Any, on_failure: OnFailure) -> asyncio.Task[None]:
            def once() -> Coroutine[Any, Any, None]:
                if self.failed is None and task.startswith(name):
                    self.failed = (supervisor, task, on_failure)
                    return self._fail()
                return work()  # type: ignore[no-any-return]

            return start(supervisor, task, once, on_failure)

        monkeypatch.setattr(Supervisor, "start", sabotaged)

    async def _fail(self) -> None:
        raise RuntimeError("planted")


async def at_work(cluster: Cluster) -> None:
    """Something for each task to do."""
    await cluster.create_topic("t", PARTITIONS, flush_messages="1")
    await cluster.create_topic("flushed", flush_ms="1")
    await cluster.produce("flushed", b"1")
    await cluster.create_topic("deleted")
    await cluster.delete_topic("deleted")
    producer = TransactionalProducer(cluster)
    await producer.init()
    for partition in range(PARTITIONS):
        await producer.produce(partition, b"1")
    await producer.commit_offsets("g", 1)
    await producer.end(commit=True)
    await cluster.set_topic_config("t", unclean_leader_election_enable="true")
    controller = cluster.controller.running.node_id
    dead = next(id for id in cluster.nodes if id != controller)
    await die(cluster, dead)
    await until(lambda: cluster.controller.running.controller.image.brokers[dead].fenced, "the dead one is fenced")
    await cluster.nodes[dead].start()
    await until(
        lambda: all(set(cluster.state(topic).isr) == {1, 2, 3} for topic in ("t", "flushed")), "all are in sync again"
    )


async def works(cluster: Cluster) -> None:
    """Leaders may be on their way back to the preferred replicas."""
    for topic in ("t", "flushed"):
        answer = await ask_until(lambda topic=topic: cluster.produce(topic, b"2"), lambda told: int(told.error_code))
        assert answer.error_code == ErrorCode.NONE, answer


@pytest.mark.parametrize("name", TASKS)
def test_a_task_that_fails_is_logged_and_its_broker_goes_on_or_stops(
    name: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    sabotage = Sabotage(name, monkeypatch)

    async def scenario() -> None:
        settings = SETTINGS | {
            "metadata_log_max_record_bytes_between_snapshots": "100",
            "log_retention_check_interval_ms": "50",
            "leader_imbalance_check_interval_seconds": "1",
        }
        cluster = Cluster(3, **settings)
        working = asyncio.ensure_future(enter_and_work(cluster))
        await until(lambda: sabotage.failed is not None or working.done(), f"{name} begins")
        if sabotage.failed is None:
            await working
            raise AssertionError(f"{name} never begins")
        supervisor, task, on_failure = sabotage.failed
        assert on_failure is TASKS[name]
        await until(lambda: f"{task} failed, {on_failure.value}" in caplog.text, "the failure is logged")
        if on_failure is OnFailure.STOP_BROKER:
            brokers = [node.broker for node in cluster.nodes.values() if node.broker is not None]
            (failing,) = [each for each in brokers if each.supervisor is supervisor]
            await until(failing.failed.done, "the broker stops")
            working.cancel()
            await asyncio.gather(working, return_exceptions=True)
            await asyncio.gather(*(each.stop(hand_over=False) for each in brokers), return_exceptions=True)
            return
        try:
            await working
            await works(cluster)
        finally:
            await cluster.__aexit__()

    with caplog.at_level(logging.ERROR):
        run(scenario)


async def enter_and_work(cluster: Cluster) -> None:
    await cluster.__aenter__()
    await at_work(cluster)


def test_no_task_is_left_out() -> None:
    (directory,) = barnabas.server.__path__
    sources = [path.read_text() for path in Path(directory).rglob("*.py") if path.name != "supervisor.py"]
    starts = [found for source in sources for found in re.findall(r"\bOnFailure\.[A-Z_]+\s*\)", source)]
    assert len(starts) == STARTS, "a task was added or removed: change the table above"


def test_heartbeats_survive_a_registration_that_is_refused(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Its operator may mend what the controller does not like, and must not have to restart the broker for it."""

    async def scenario() -> None:
        async with Cluster() as cluster:
            controller = cluster.controller.running
            refused = next(node.running for node in cluster.running if node.running is not controller)
            refuse = registration._refusal
            monkeypatch.setattr(registration, "_refusal", lambda *_arguments: Refusal(ErrorCode.INVALID_REGISTRATION))
            answer = await cluster.ask_controller(UnregisterBrokerRequest(broker_id=refused.node_id), 0)
            assert answer.error_code == ErrorCode.NONE
            await until(lambda: "broker heartbeats failed, it is retried" in caplog.text, "the refusal is logged")
            assert f"node {refused.node_id} cannot register: INVALID_REGISTRATION" in caplog.text
            assert not refused.lifecycle.holds_lease
            assert not refused.failed.done()
            monkeypatch.setattr(registration, "_refusal", refuse)
            await until(lambda: refused.lifecycle.is_unfenced and refused.lifecycle.holds_lease, "it is back")

    with caplog.at_level(logging.ERROR):
        run(scenario)

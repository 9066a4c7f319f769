"""What a late word of the coordinator, or a late request, must not do (KIP-890)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from cluster import Cluster, until
from transactional_producer import GROUP, SETTINGS, TransactionalProducer, coordinator, run

from barnabas.errors import ErrorCode
from barnabas.metadata.topic_names import OFFSETS_TOPIC
from barnabas.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from barnabas.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from barnabas.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from barnabas.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from barnabas.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from barnabas.protocol.record_batch import Record, encode_batch
from barnabas.server.coordinators import transaction_membership
from barnabas.server.coordinators.transaction_membership import Membership

ALONE = {
    **SETTINGS,
    "transaction_state_log_replication_factor": "1",
    "offsets_topic_replication_factor": "1",
    "offsets_topic_num_partitions": "1",
}


def batch_of(producer: TransactionalProducer, sequence: int, *partitions: int) -> ProduceRequest:
    """One record, to the first partition unless others are named."""
    records = encode_batch(
        [Record(0, 1, None, b"%d" % sequence, [])],
        producer_id=producer.id,
        producer_epoch=producer.epoch,
        base_sequence=sequence,
        transactional=True,
    )
    data = [PartitionProduceData(index=each, records=bytes(records)) for each in partitions or (0,)]
    return ProduceRequest(
        transactional_id=producer.transactional_id,
        acks=-1,
        timeout_ms=60_000,
        topic_data=[TopicProduceData(name="t", partition_data=data)],
    )


class SlowCoordinator:
    """Answers when it is told to, and with what it is told."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.asked: list[asyncio.Future[Any]] = []
        self._about: list[Membership] = []
        monkeypatch.setattr(transaction_membership, "ask", self._ask)

    def _ask(self, _broker: Any, membership: Membership) -> Any:
        self._about.append(membership)
        self.asked.append(asyncio.get_running_loop().create_future())
        return self.asked[-1]

    def say(self, error: ErrorCode) -> None:
        self.asked.pop(0).set_result(dict.fromkeys(self._about.pop(0).partitions, error))


@asynccontextmanager
async def alone(partitions: int = 1) -> AsyncIterator[tuple[Cluster, TransactionalProducer]]:
    """One broker with a topic, and a producer that has begun."""
    async with Cluster(1, **ALONE) as cluster:
        await cluster.create_topic("t", partitions=partitions, replicas=1)
        producer = TransactionalProducer(cluster)
        await producer.init()
        yield cluster, producer


def errors_of(answer: Any) -> list[int]:
    return [each.error_code for each in answer.responses[0].partition_responses]


def error_of(answer: Any) -> int:
    (error,) = errors_of(answer)
    return error


async def write_marker(cluster: Cluster, producer: TransactionalProducer, epoch: int, topic: str = "t") -> None:
    marker = WritableTxnMarker(
        producer_id=producer.id,
        producer_epoch=epoch,
        topics=[WritableTxnMarkerTopic(name=topic, partition_indexes=[0])],
    )
    await on_another_connection(cluster, WriteTxnMarkersRequest(markers=[marker]), 1)


async def on_another_connection(cluster: Cluster, request: Any, version: int) -> Any:
    """That of a request which waits is held up."""
    busy, cluster.nodes[1]._connection = cluster.nodes[1]._connection, None
    answer = await cluster.nodes[1].ask(request, version)
    second, cluster.nodes[1]._connection = cluster.nodes[1]._connection, busy
    assert second is not None
    second.close()
    return answer


@pytest.mark.parametrize(
    ("version", "epochs_later", "error"),
    [
        (11, 0, ErrorCode.INVALID_TXN_STATE),
        (12, 1, ErrorCode.INVALID_PRODUCER_EPOCH),  # each end raises the epoch
    ],
)
def test_a_marker_between_the_word_and_the_write_makes_it_worthless(
    monkeypatch: pytest.MonkeyPatch, version: int, epochs_later: int, error: ErrorCode
) -> None:
    async def scenario() -> None:
        async with alone() as (cluster, producer):
            coordinator = SlowCoordinator(monkeypatch)
            writing = asyncio.ensure_future(cluster.nodes[1].ask(batch_of(producer, 0), version))
            await until(lambda: coordinator.asked, "the coordinator is asked")
            await write_marker(cluster, producer, producer.epoch + epochs_later)
            coordinator.say(ErrorCode.NONE)
            assert error_of(await writing) == error
            log = cluster.replica(1, "t").log
            assert (log.log_end_offset, log.last_stable_offset) == (1, 1)

    run(scenario)


def test_the_marker_of_the_transaction_before_does_not_hinder_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    """It carries the epoch of the next one, which may be waiting for its word already."""

    async def scenario() -> None:
        async with alone() as (cluster, producer):
            coordinator = SlowCoordinator(monkeypatch)
            writing = asyncio.ensure_future(cluster.nodes[1].ask(batch_of(producer, 0), 12))
            await until(lambda: coordinator.asked, "the coordinator is asked")
            await write_marker(cluster, producer, producer.epoch)
            coordinator.say(ErrorCode.NONE)
            assert error_of(await writing) == ErrorCode.NONE
            committing = asyncio.ensure_future(producer.commit_offsets("g", 1))
            await until(lambda: coordinator.asked, "the coordinator is asked")
            await write_marker(cluster, producer, producer.epoch, OFFSETS_TOPIC)
            coordinator.say(ErrorCode.NONE)
            await committing

    run(scenario)


def test_who_ceases_to_lead_meanwhile_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """INVALID_TXN_STATE would end the transaction, where it is enough to ask the next leader."""

    async def scenario() -> None:
        async with alone() as (cluster, producer):
            slow = SlowCoordinator(monkeypatch)
            writing = asyncio.ensure_future(cluster.nodes[1].ask(batch_of(producer, 0), 12))
            await until(lambda: slow.asked, "the coordinator is asked")
            cluster.replica(1, "t")._cease_to_lead()
            slow.say(ErrorCode.NONE)
            assert error_of(await writing) == ErrorCode.NOT_LEADER_OR_FOLLOWER

    run(scenario)


def test_a_partition_that_nobody_was_asked_about_is_not_written_to(monkeypatch: pytest.MonkeyPatch) -> None:
    """It appears here while the coordinator is asked about another one: it would have a transaction without an end."""

    async def scenario() -> None:
        async with alone() as (cluster, producer):
            slow = SlowCoordinator(monkeypatch)
            writing = asyncio.ensure_future(cluster.nodes[1].ask(batch_of(producer, 0, 0, 1), 12))
            await until(lambda: slow.asked, "the coordinator is asked")
            made = await on_another_connection(
                cluster,
                CreatePartitionsRequest(
                    topics=[CreatePartitionsTopic(name="t", count=2, assignments=None)], timeout_ms=60_000
                ),
                3,
            )
            assert made.results[0].error_code == ErrorCode.NONE, made
            await until(lambda: cluster.nodes[1].running.partitions.get("t", 1), "the new partition is there")
            slow.say(ErrorCode.NONE)
            assert errors_of(await writing) == [ErrorCode.NONE, ErrorCode.NOT_LEADER_OR_FOLLOWER]
            assert cluster.replica(1, "t", 1).log.log_end_offset == 0

    run(scenario)


def test_a_transaction_that_ends_while_another_partition_joins_it_is_not_begun_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The producer is told to look again; what it is told then is the coordinator's word."""

    async def scenario() -> None:
        async with alone(partitions=2) as (cluster, producer):
            await producer.produce(0, b"before")
            slow = SlowCoordinator(monkeypatch)
            writing = asyncio.ensure_future(cluster.nodes[1].ask(batch_of(producer, 1, 0, 1), 11))
            await until(lambda: slow.asked, "the coordinator is asked")
            await write_marker(cluster, producer, producer.epoch)
            slow.say(ErrorCode.TRANSACTION_ABORTABLE)
            assert errors_of(await writing) == [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.TRANSACTION_ABORTABLE]
            log = cluster.replica(1, "t").log
            assert log.last_stable_offset == log.log_end_offset

    run(scenario)


def test_groups_of_one_partition_may_join_a_transaction_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """One word is enough for both: the write of the first has begun the transaction for the second."""

    async def scenario() -> None:
        async with alone() as (cluster, producer):
            await coordinator(cluster, "g", GROUP)
            slow = SlowCoordinator(monkeypatch)
            first = asyncio.ensure_future(producer.commit_offsets("g", 1))
            await until(lambda: slow.asked, "the coordinator is asked")
            cluster.nodes[1]._connection = None  # that of the first one is held up
            second = asyncio.ensure_future(producer.commit_offsets("h", 2))
            await until(lambda: len(slow.asked) == 2, "the coordinator is asked twice")
            for _ in range(2):
                slow.say(ErrorCode.NONE)
            await asyncio.gather(first, second)

    run(scenario)


def test_batches_stay_in_order_while_the_coordinator_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        async with alone() as (cluster, producer):
            coordinator = SlowCoordinator(monkeypatch)
            writing = [asyncio.ensure_future(cluster.nodes[1].ask(batch_of(producer, each), 12)) for each in range(3)]
            await until(lambda: coordinator.asked, "the coordinator is asked")
            coordinator.say(ErrorCode.NONE)
            assert [error_of(await each) for each in writing] == [ErrorCode.NONE] * 3
            assert coordinator.asked == []  # once is enough
            assert cluster.replica(1, "t").log.log_end_offset == 3

    run(scenario)


def test_a_batch_that_must_be_sent_again_keeps_those_behind_it_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        async with alone() as (cluster, producer):
            coordinator = SlowCoordinator(monkeypatch)
            first, second = (
                asyncio.ensure_future(cluster.nodes[1].ask(batch_of(producer, each), 11)) for each in range(2)
            )
            for error in (ErrorCode.NOT_COORDINATOR, ErrorCode.NONE):
                await until(lambda: coordinator.asked, "the coordinator is asked")
                coordinator.say(error)
            assert error_of(await first) == ErrorCode.NOT_ENOUGH_REPLICAS
            assert error_of(await second) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
            assert cluster.replica(1, "t").log.log_end_offset == 0

    run(scenario)


def test_who_reads_committed_records_is_not_woken_by_an_open_transaction() -> None:
    async def scenario() -> None:
        async with alone() as (cluster, producer):
            wanted = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
            request = FetchRequest(
                max_wait_ms=20_000,
                min_bytes=1,
                max_bytes=1 << 24,
                isolation_level=1,
                topics=[FetchTopic(topic="t", partitions=[wanted])],
            )
            reading = asyncio.ensure_future(cluster.nodes[1].ask(request, 12))
            partition = cluster.replica(1, "t")
            await until(lambda: partition.fetch_waits, "the reader waits")
            connection = cluster.nodes[1]._connection
            cluster.nodes[1]._connection = None
            await producer.produce(0, b"a")
            await producer.produce(0, b"b")
            assert not reading.done()
            await producer.end(commit=True)
            (data,) = (await reading).responses[0].partitions
            assert (data.last_stable_offset, data.aborted_transactions) == (3, [])
            assert data.records
            assert connection is not None
            connection.close()

    run(scenario)


def test_a_topic_that_is_deleted_while_its_leader_is_away_holds_up_nothing() -> None:
    async def scenario() -> None:
        async with Cluster(3, **SETTINGS) as cluster:
            await cluster.create_topic("t", partitions=3, replicas=1)
            producer = TransactionalProducer(cluster)
            await producer.init()
            for partition in range(3):
                await producer.produce(partition, b"a")
            image = cluster.running[0].running.controller.image
            coordinating = image.partition(
                "__transaction_state", cluster.running[0].running.transactions.partition_for("transactional")
            )
            assert coordinating is not None
            away = next(
                cluster.leader_id("t", each) for each in range(3) if cluster.leader_id("t", each) != coordinating.leader
            )
            await cluster.nodes[away].stop()
            await producer.end(commit=False)
            assert await producer.state() == "PrepareAbort"
            request = DeleteTopicsRequest(topics=[DeleteTopicState(name="t")], timeout_ms=60_000)
            await cluster.running[0].ask(request, 6)
            await producer.settled("CompleteAbort")

    run(scenario)

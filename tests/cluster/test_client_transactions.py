"""Transactions by the producer, at both versions that clusters have, and what becomes of them when things go wrong."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from cluster import Cluster, run, until
from own_client import ALONE, servers

from barnabas.client.cluster import Cluster as ClientCluster
from barnabas.client.errors import (
    IllegalStateError,
    InvalidTransactionStateError,
    KafkaError,
    KafkaTimeoutError,
    ProducerFencedError,
    TransactionAbortableError,
)
from barnabas.client.offsets import ConsumerGroupMetadata, OffsetAndMetadata
from barnabas.client.producing.accumulator import NEVER, Identity
from barnabas.client.producing.producer import Producer
from barnabas.client.producing.transaction import OpenTransaction, end_transaction
from barnabas.client.settings import AdminConfig
from barnabas.errors import ErrorCode
from barnabas.protocol.control_records import ControlRecordKind, decode_control_key
from barnabas.protocol.messages.end_txn import EndTxnRequest
from barnabas.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from barnabas.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from barnabas.protocol.record_batch import decode_records, read_headers
from barnabas.types import TopicPartition

SETTINGS = {**ALONE, "transaction_abort_timed_out_transaction_cleanup_interval_ms": "50"}
both_versions = pytest.mark.parametrize("version", [1, 2])


def producer(cluster: Cluster, transactional_id: str = "id", **settings: Any) -> Producer:
    given = {"linger_ms": 0, "reconnect_backoff_ms": 5, "retry_backoff_ms": 5, **settings}
    return Producer(bootstrap_servers=servers(cluster), transactional_id=transactional_id, **given)


async def prepare(cluster: Cluster, version: int, partitions: int = 1) -> None:
    await cluster.create_topic("t", partitions=partitions, replicas=1)
    if version != 2:
        update = FeatureUpdateKey(feature="transaction.version", max_version_level=version, upgrade_type=2)
        answer = await cluster.ask_controller(UpdateFeaturesRequest(feature_updates=[update]), 1)
        assert answer.error_code == ErrorCode.NONE


async def committed(cluster: Cluster, partition: int = 0) -> list[bytes | None]:
    """What a reader of committed records sees."""
    data = (await cluster.fetch("t", partition=partition)).records or b""
    found: list[bytes | None] = []
    pending: dict[int, list[bytes | None]] = {}
    for position, header in read_headers(data):
        records = decode_records(data, position)
        if header.is_control:
            values = pending.pop(header.producer_id, [])
            if decode_control_key(records[0].key or b"") == ControlRecordKind.COMMIT:
                found += values
        else:
            pending.setdefault(header.producer_id, []).extend(record.value for record in records)
    return found


async def closed(cluster: Cluster, partition: int = 0) -> None:
    log = cluster.replica(1, "t", partition).log
    await until(lambda: log.last_stable_offset == log.log_end_offset, "no transaction is open")


async def offset_of(cluster: Cluster, group: str) -> int:
    wanted = OffsetFetchRequestTopics(name="t", partition_indexes=[0])
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group, topics=[wanted])], require_stable=True)
    while True:
        answer = await cluster.nodes[1].ask(request, 9)
        told = answer.groups[0].topics[0].partitions[0]
        if told.error_code == ErrorCode.NONE:
            return int(told.committed_offset)
        assert told.error_code == ErrorCode.UNSTABLE_OFFSET_COMMIT
        await asyncio.sleep(0.01)


@both_versions
def test_committed_and_aborted(version: int) -> None:
    async def scenario() -> None:
        async with Cluster(1, **SETTINGS) as cluster:
            await prepare(cluster, version, partitions=2)
            async with producer(cluster) as writer:
                await writer.init_transactions()
                epochs = []
                for turn, commit in enumerate((True, False, True, True, False)):
                    await writer.begin_transaction()
                    epochs.append(writer.open_transaction.producer_epoch)
                    for partition in (0, 1):
                        await writer.send_many("t", [b"%d" % turn] * 3, partition=partition)
                    if commit:
                        await writer.commit_transaction()
                    else:
                        await writer.flush()  # without it nothing might have been sent, and nothing be to end
                        await writer.abort_transaction()
                await closed(cluster)
                await closed(cluster, 1)
                for partition in (0, 1):
                    assert await committed(cluster, partition) == [b"0"] * 3 + [b"2"] * 3 + [b"3"] * 3
                if version == 2:
                    assert epochs == [0, 1, 2, 3, 4]
                else:
                    assert epochs[0] == epochs[1] == 0
                    assert epochs[3] == epochs[4]

    run(scenario)


async def failing(writer: Producer) -> None:
    async with writer.transaction():
        await writer.send("t", b"b")
        raise ZeroDivisionError


@both_versions
def test_as_a_block(version: int) -> None:
    async def scenario() -> None:
        async with Cluster(1, **SETTINGS) as cluster:
            await prepare(cluster, version)
            async with producer(cluster) as writer:
                async with writer.transaction() as same:
                    assert same is writer
                    await writer.send("t", b"a")
                with pytest.raises(ZeroDivisionError):
                    await failing(writer)
                async with writer.transaction():
                    pass  # nothing in it
                async with writer.transaction():
                    await writer.send("t", b"c")
                await closed(cluster)
                assert await committed(cluster) == [b"a", b"c"]

    run(scenario)


@both_versions
def test_offsets_go_with_the_records(version: int) -> None:
    async def scenario() -> None:
        async with Cluster(1, **SETTINGS) as cluster:
            await prepare(cluster, version)
            async with producer(cluster) as writer:
                for offset, commit in ((5, True), (6, False), (7, True)):
                    try:
                        async with writer.transaction():
                            await writer.send("t", b"%d" % offset)
                            offsets = {TopicPartition("t", 0): OffsetAndMetadata(offset, "note")}
                            await writer.send_offsets_to_transaction(offsets, "g")
                            await writer.send_offsets_to_transaction({}, "g")
                            assert commit or 1 / 0
                    except ZeroDivisionError:
                        pass
                    assert await offset_of(cluster, "g") == (5 if offset < 7 else 7)
                async with writer.transaction():
                    await writer.send_offsets_to_transaction({TopicPartition("t", 0): 9}, "g")
                assert await offset_of(cluster, "g") == 9
                with pytest.raises(KafkaError) as caught:
                    await offsets_of_nobody(writer)
                assert caught.value.code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION)
                assert await offset_of(cluster, "g") == 9

    run(scenario)


async def offsets_of_nobody(writer: Producer) -> None:
    async with writer.transaction():
        member = ConsumerGroupMetadata("g", 5, "nobody")
        await writer.send_offsets_to_transaction({TopicPartition("t", 0): 10}, member)


@both_versions
def test_the_newer_producer_wins(version: int) -> None:
    async def scenario() -> None:
        async with Cluster(1, **SETTINGS) as cluster:
            await prepare(cluster, version)
            async with producer(cluster) as old, producer(cluster) as new:
                await old.init_transactions()
                await old.begin_transaction()
                await old.send_and_wait("t", b"old")
                await new.init_transactions()
                async with new.transaction():
                    await new.send("t", b"new")
                with pytest.raises(ProducerFencedError):
                    await old.commit_transaction()
                with pytest.raises(ProducerFencedError):
                    await old.send("t", b"too late")
                with pytest.raises(ProducerFencedError):
                    await old.begin_transaction()
                await closed(cluster)
                assert await committed(cluster) == [b"new"]

    run(scenario)


@both_versions
def test_a_record_that_fails_spoils_its_transaction_and_no_other(version: int) -> None:
    async def scenario() -> None:
        async with Cluster(1, **SETTINGS) as cluster:
            await prepare(cluster, version)
            await cluster.set_topic_config("t", max_message_bytes="500")
            async with producer(cluster) as writer:
                await writer.init_transactions()
                await writer.begin_transaction()
                await writer.send("t", b"a")
                await writer.send("t", bytes(2000))
                with pytest.raises(TransactionAbortableError, match="abort"):
                    await writer.commit_transaction()
                with pytest.raises(TransactionAbortableError):
                    await writer.send("t", b"b")
                await writer.abort_transaction()
                async with writer.transaction():
                    await writer.send("t", b"c")
                await closed(cluster)
                assert await committed(cluster) == [b"c"]

    run(scenario)


@both_versions
def test_a_transaction_that_took_too_long(version: int) -> None:
    async def scenario() -> None:
        async with Cluster(1, **SETTINGS) as cluster:
            await prepare(cluster, version)
            async with producer(cluster, transaction_timeout_ms=1500) as writer:
                await writer.init_transactions()
                await writer.begin_transaction()
                await writer.send_and_wait("t", b"a")
                await closed(cluster)
                with pytest.raises((ProducerFencedError, InvalidTransactionStateError, TransactionAbortableError)):
                    await writer.commit_transaction()
                assert await committed(cluster) == []

    run(scenario)


def test_another_process_ends_it() -> None:
    async def scenario() -> None:
        async with Cluster(1, **SETTINGS) as cluster:
            await prepare(cluster, 2)
            handed_on: list[OpenTransaction] = []
            for number in range(2):
                writer = producer(cluster, f"task-{number}")
                async with writer:
                    await writer.init_transactions()
                    await writer.begin_transaction()
                    await writer.send("t", b"%d" % number)
                    handed_on.append(await writer.detach_transaction())
                    assert handed_on[-1] == writer.open_transaction
                    with pytest.raises(IllegalStateError, match="handed on"):
                        await writer.send("t", b"x")
            async with ClientCluster(AdminConfig(bootstrap_servers=servers(cluster))) as driver:
                for _ in range(2):  # again is harmless
                    first = await end_transaction(driver, handed_on[0], committed=True)
                    assert first == Identity(handed_on[0].producer_id, handed_on[0].producer_epoch + 1)
                await end_transaction(driver, handed_on[1], committed=False)
                with pytest.raises(InvalidTransactionStateError):
                    await end_transaction(driver, handed_on[1], committed=True)
            await closed(cluster)
            assert await committed(cluster) == [b"0"]

    run(scenario)


def test_closing_aborts() -> None:
    async def scenario() -> None:
        async with Cluster(1, **SETTINGS) as cluster:
            await prepare(cluster, 2)
            async with producer(cluster) as writer:
                await writer.init_transactions()
                await writer.begin_transaction()
                await writer.send_and_wait("t", b"a")
            await closed(cluster)
            assert await committed(cluster) == []

    run(scenario)


def test_wrong_use_is_told() -> None:
    async def scenario() -> None:
        async with Cluster(1, **SETTINGS) as cluster:
            await prepare(cluster, 2)
            async with Producer(bootstrap_servers=servers(cluster)) as plain:
                with pytest.raises(IllegalStateError, match="transactional_id"):
                    await plain.init_transactions()
            async with producer(cluster, transaction_timeout_ms=10_000_000) as greedy:
                with pytest.raises(KafkaError, match=r"transaction\.max\.timeout\.ms"):
                    await greedy.init_transactions()
            async with producer(cluster) as writer:
                with pytest.raises(IllegalStateError, match="init_transactions"):
                    await writer.begin_transaction()
                await writer.init_transactions()
                with pytest.raises(IllegalStateError):
                    await writer.init_transactions()
                for use in (
                    writer.send("t", b""),
                    writer.send_many("t", [b""]),
                    writer.commit_transaction(),
                    writer.abort_transaction(),
                    writer.send_offsets_to_transaction({TopicPartition("t", 0): 1}, "g"),
                    writer.detach_transaction(),
                ):
                    with pytest.raises(IllegalStateError, match="no transaction is open"):
                        await use
                await writer.begin_transaction()
                with pytest.raises(IllegalStateError):
                    await writer.begin_transaction()

    run(scenario)


@both_versions
def test_the_broker_goes_and_comes_back(version: int) -> None:
    async def scenario() -> None:
        async with Cluster(1, **SETTINGS) as cluster:
            await prepare(cluster, version)
            async with producer(cluster) as writer:
                await writer.init_transactions()
                for number in range(4):
                    await writer.begin_transaction()
                    await writer.send_and_wait("t", b"%d" % number)
                    if number == 1:
                        await cluster.nodes[1].stop()
                        await cluster.nodes[1].start()
                    await writer.send("t", b"%d" % number)
                    if number == 2:
                        stopping = asyncio.ensure_future(cluster.nodes[1].stop())
                        committing = asyncio.ensure_future(writer.commit_transaction())
                        await stopping
                        await cluster.nodes[1].start()
                        await committing
                    else:
                        await writer.commit_transaction()
                await closed(cluster)
                assert await committed(cluster) == [b"0", b"0", b"1", b"1", b"2", b"2", b"3", b"3"]

    run(scenario)


@pytest.mark.parametrize("ending", ["commit", "abort", "close"])
def test_a_record_that_waits_for_room_is_not_written_in_another_transaction(ending: str) -> None:
    async def scenario() -> None:
        async with Cluster(1, **SETTINGS) as cluster:
            await prepare(cluster, 2)
            async with producer(cluster, buffer_memory=20_000) as writer:
                await writer.init_transactions()
                await writer.begin_transaction()
                ready_ms = writer._accumulator.ready_ms
                writer._accumulator.ready_ms = lambda _lane, _now_ms: NEVER  # type: ignore[method-assign]
                await writer.send("t", bytes(15_000))
                sends = [writer.send("t", bytes(10_000)), writer.send_many("t", [bytes(10_000)])]
                blocked = [asyncio.get_running_loop().create_task(each) for each in sends]
                await until(lambda: writer._room.is_waited_for, "the record waits for room")
                writer._accumulator.ready_ms = ready_ms  # type: ignore[method-assign]
                if ending == "close":
                    await writer.close()
                elif ending == "commit":
                    await writer.commit_transaction()
                else:
                    await writer.abort_transaction()
                if ending != "close":
                    await writer.begin_transaction()
                    await writer.send("t", b"next")
                    await writer.commit_transaction()
                for each in blocked:
                    with pytest.raises(IllegalStateError):
                        await each
            await closed(cluster)
            values = {"commit": [bytes(15_000), b"next"], "abort": [b"next"], "close": []}
            assert await committed(cluster) == values[ending]
            assert writer._room.used_bytes == 0

    run(scenario)


def test_the_next_block_ends_what_the_last_one_could_not() -> None:
    """As the example of a service does it: a block that failed is followed by another one."""

    async def scenario() -> None:
        async with Cluster(1, **SETTINGS) as cluster:
            await prepare(cluster, 2)
            async with producer(cluster, max_block_ms=300) as writer:
                async with writer.transaction():
                    await writer.send("t", b"a")
                request = writer._cluster.request

                async def without_an_end(node_id: int, message: Any, **bounds: Any) -> Any:
                    if isinstance(message, EndTxnRequest):
                        await asyncio.Event().wait()
                    return await request(node_id, message, **bounds)

                writer._cluster.request = without_an_end  # type: ignore[method-assign]
                with pytest.raises(KafkaTimeoutError):
                    async with writer.transaction():
                        await writer.send("t", b"b")
                with pytest.raises(KafkaTimeoutError):
                    async with writer.transaction():
                        raise AssertionError("there is none while the last one is open")
                writer._cluster.request = request  # type: ignore[method-assign]
                async with writer.transaction():
                    await writer.send("t", b"c")
                await closed(cluster)
                assert await committed(cluster) == [b"a", b"b", b"c"]
                writer._cluster.request = without_an_end  # type: ignore[method-assign]
                with pytest.raises(ZeroDivisionError):  # rather than that it could not be aborted
                    await failing(writer)
                writer._cluster.request = request  # type: ignore[method-assign]
                async with writer.transaction():
                    await writer.send("t", b"d")
                await closed(cluster)
                assert await committed(cluster) == [b"a", b"b", b"c", b"d"]

    run(scenario)


def test_closing_does_not_take_longer_than_it_may() -> None:
    async def scenario() -> None:
        async with Cluster(1, **SETTINGS) as cluster:
            await prepare(cluster, 2)
            writer = producer(cluster)
            await writer.start()
            await writer.init_transactions()
            await writer.begin_transaction()
            await writer.send_and_wait("t", b"a")
            await cluster.nodes[1].stop()
            started = asyncio.get_running_loop().time()
            await writer.close(timeout_ms=200)
            assert asyncio.get_running_loop().time() - started < 10, "not max_block_ms"

    run(scenario)

"""The producer against brokers in memory: what it writes, what it refuses, and how it outlives brokers."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from cluster import REQUEST_MS_MAX, WAIT_SECONDS_MAX, Cluster, free_ports, run, until
from own_client import ALONE, servers

from barnabas.client.cluster import Cluster as ClientCluster
from barnabas.client.errors import (
    AuthenticationError,
    BrokersUnreachableError,
    BufferExhaustedError,
    ClientClosedError,
    InvalidTopicError,
    KafkaError,
    KafkaTimeoutError,
    RecordTooLargeError,
    UnknownTopicError,
)
from barnabas.client.producing.accumulator import Identity
from barnabas.client.producing.outcomes import RecordMetadata
from barnabas.client.producing.producer import Producer
from barnabas.config.validation import ConfigError
from barnabas.errors import ErrorCode
from barnabas.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from barnabas.protocol.record_batch import Record, decode_records, read_header


def producer(cluster: Cluster, **settings: Any) -> Producer:
    given = {"linger_ms": 0, "reconnect_backoff_ms": 5, "retry_backoff_ms": 10, **settings}
    return Producer(bootstrap_servers=servers(cluster), **given)


async def records(cluster: Cluster, topic: str, partition: int = 0) -> list[Record]:
    data = (await cluster.fetch(topic, partition=partition)).records or b""
    found: list[Record] = []
    position = 0
    while position < len(data):
        found += decode_records(data, position)
        position += read_header(data, position).size_bytes
    return found


def test_a_record_arrives_as_it_was_sent() -> None:
    async def scenario() -> None:
        async with Cluster(1, **ALONE) as cluster, producer(cluster) as writer:
            await cluster.create_topic("t", replicas=1)
            headers = [("a", b"1"), ("a", None), ("ü", b"")]
            first = await writer.send_and_wait("t", b"value", key=b"key", headers=headers, timestamp_ms=1234)
            assert first == RecordMetadata("t", 0, 0, 1234)
            second = await writer.send_and_wait("t", headers={"b": b"2"}, timestamp_ms=1235)
            assert second.offset == 1
            assert await records(cluster, "t") == [
                Record(0, 1234, b"key", b"value", headers),
                Record(1, 1235, None, None, [("b", b"2")]),
            ]

    run(scenario)


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_compression(codec: str) -> None:
    async def scenario() -> None:
        async with Cluster(1, **ALONE) as cluster, producer(cluster, compression_type=codec) as writer:
            await cluster.create_topic("t", replicas=1)
            values = [b"%d" % number * 10 for number in range(200)]
            await (await writer.send_many("t", values))
            assert [record.value for record in await records(cluster, "t")] == values
            data = (await cluster.fetch("t")).records
            assert {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}[codec] == read_header(data).codec

    run(scenario)


def test_many_records_keep_their_order_and_know_their_offsets() -> None:
    async def scenario() -> None:
        async with Cluster(1, **ALONE) as cluster, producer(cluster, batch_size=500) as writer:
            await cluster.create_topic("t", partitions=3, replicas=1)
            values = [b"%d" % number for number in range(3000)]
            futures = await writer.send_many("t", values)
            written = await futures
            assert len(futures) == len(written) == 3000
            assert written[-1] == await futures[-1]
            assert {each.partition for each in written} == {0, 1, 2}
            for partition in range(3):
                found = {record.offset: record.value for record in await records(cluster, "t", partition)}
                here = [
                    (each.offset, value)
                    for each, value in zip(written, values, strict=True)
                    if each.partition == partition
                ]
                assert sorted(here) == here
                assert {offset: found[offset] for offset, _value in here} == dict(here)

    run(scenario)


def test_records_go_where_their_keys_say() -> None:
    async def scenario() -> None:
        async with Cluster(1, **ALONE) as cluster, producer(cluster) as writer:
            await cluster.create_topic("t", partitions=4, replicas=1)
            keys = [b"%d" % (number % 7) for number in range(100)]
            values = [b"%d" % number for number in range(100)]
            futures = await writer.send_many("t", values, keys=keys)
            written = await futures
            assert [await each for each in futures[:5]] == written[:5]
            single = await writer.send_and_wait("t", b"x", key=b"3")
            places = {key: each.partition for key, each in zip(keys, written, strict=True)}
            assert places[b"3"] == single.partition
            assert len(set(places.values())) > 1
            for partition in range(4):
                found = await records(cluster, "t", partition)
                numbers = [int(record.value or b"") for record in found if record.value != b"x"]
                assert numbers == sorted(numbers)
                assert all(places[record.key or b""] == partition for record in found)
                told = {written[number].offset: b"%d" % number for number in numbers}
                assert told == {record.offset: record.value for record in found if record.value != b"x"}
            assert (await writer.send_and_wait("t", b"", partition=2)).partition == 2
            assert [each.partition for each in await writer.partitions_for("t")] == [0, 1, 2, 3]

    run(scenario)


def test_sent_is_not_yet_written_until_flush() -> None:
    async def scenario() -> None:
        async with (
            Cluster(1, **ALONE) as cluster,
            producer(cluster, linger_ms=60_000, request_timeout_ms=30_000) as writer,
        ):
            await cluster.create_topic("t", replicas=1)
            future = await writer.send("t", b"a")
            assert not future.done()
            with pytest.raises(asyncio.InvalidStateError):
                future.result()
            told: list[Any] = []
            future.add_done_callback(told.append)
            await writer.flush()
            assert future.done()
            assert future.result().offset == 0
            assert future.exception() is None
            assert told == [future]
            last = await writer.send("t", b"b")
        assert (await last).offset == 1  # closing writes as well

    run(scenario)


def test_serializers_and_partitioner() -> None:
    async def scenario() -> None:
        async with (
            Cluster(1, **ALONE) as cluster,
            producer(
                cluster,
                key_serializer=str.encode,
                value_serializer=str.encode,
                partitioner=lambda _key, count: count - 1,
            ) as writer,
        ):
            await cluster.create_topic("t", partitions=2, replicas=1)
            assert (await writer.send_and_wait("t", "value", key="key")).partition == 1
            assert [(record.key, record.value) for record in await records(cluster, "t", 1)] == [(b"key", b"value")]

    run(scenario)


@pytest.mark.parametrize("acks", [0, 1, "all"])
def test_acks(acks: Any) -> None:
    async def scenario() -> None:
        async with Cluster(1, **ALONE) as cluster, producer(cluster, acks=acks) as writer:
            await cluster.create_topic("t", replicas=1)
            written = await writer.send_and_wait("t", b"a")
            assert written.offset == (-1 if acks == 0 else 0)
            replica = cluster.replica(1, "t")
            await until(lambda: replica.log.log_end_offset == 1, "the record is there")

    run(scenario)


def test_wrong_use_is_told() -> None:
    async def scenario() -> None:
        async with Cluster(1, auto_create_topics_enable="false", **ALONE) as cluster:
            writer = producer(cluster, max_block_ms=5000)
            with pytest.raises(ClientClosedError, match="not started"):
                await writer.send("t", b"")
            async with writer:
                await cluster.create_topic("t", replicas=1)
                with pytest.raises(TypeError, match=r"value must be bytes or None, not str; write value.encode\(\)"):
                    await writer.send("t", "text")
                with pytest.raises(TypeError, match="key must be bytes"):
                    await writer.send("t", b"", key=5)
                with pytest.raises(TypeError, match="value must be bytes"):
                    await writer.send_many("t", [b"", 5])
                with pytest.raises(TypeError, match="header"):
                    await writer.send("t", b"", headers={"a": "b"})  # type: ignore[dict-item]
                with pytest.raises(ValueError, match="1 keys for 2 values"):
                    await writer.send_many("t", [b"", b""], keys=[b""])
                with pytest.raises(UnknownTopicError, match="partition 9 is none of the 1"):
                    await writer.send("t", b"", partition=9)
                with pytest.raises(RecordTooLargeError, match="max_request_size"):
                    await writer.send("t", bytes(2_000_000))
                with pytest.raises(RecordTooLargeError, match="max_request_size"):
                    await writer.send_many("t", [bytes(2_000_000)])
                with pytest.raises(UnknownTopicError, match="nowhere"):
                    await writer.send("nowhere", b"")
                for topic in (None, b"t"):
                    with pytest.raises(TypeError, match="the topic must be text, not"):
                        await writer.send(topic, b"")  # type: ignore[arg-type]
                with pytest.raises(InvalidTopicError, match="1 to 249"):
                    await writer.send("", b"")
                with pytest.raises(TypeError, match="partition must be a whole number, not str"):
                    await writer.send("t", b"", partition="0")  # type: ignore[arg-type]
                for timestamp_ms in (1.5, "1"):
                    with pytest.raises(TypeError, match="timestamp_ms must be a whole number"):
                        await writer.send("t", b"", timestamp_ms=timestamp_ms)  # type: ignore[arg-type]
                for timestamp_ms in (-1, 1 << 63):
                    with pytest.raises(ValueError, match="milliseconds since 1970"):
                        await writer.send_many("t", [b""], timestamp_ms=timestamp_ms)
                assert (await writer.send_and_wait("t", b"")).offset == 0  # nothing of that is left
            for use in (writer.send("t", b""), writer.send_many("t", [b""]), writer.flush(), writer.start()):
                with pytest.raises(ClientClosedError, match="closed"):
                    await use
        with pytest.raises(ConfigError, match="did you mean linger_ms"):
            Producer(bootstrap_servers="a:1", linger=5)
        with pytest.raises(TypeError, match="value_serializer must be a function, not 'json'"):
            Producer(bootstrap_servers="a:1", value_serializer="json")  # type: ignore[arg-type]
        lonely = Producer(bootstrap_servers=f"127.0.0.1:{free_ports(1)[0]}", max_block_ms=100)
        with pytest.raises(BrokersUnreachableError, match=r"127\.0\.0\.1"):
            await lonely.start()
        await lonely.close()

    run(scenario)


def test_a_full_buffer_makes_the_caller_wait_and_then_fail() -> None:
    async def scenario() -> None:
        async with Cluster(1, **ALONE) as cluster:
            writer = producer(
                cluster, buffer_memory=3000, batch_size=1000, max_block_ms=2000, delivery_timeout_ms=60_000
            )
            async with writer:
                await cluster.create_topic("t", replicas=1)
                await (await writer.send_many("t", [bytes(500)] * 40))  # more than there is room for, bit by bit
                await cluster.nodes[1].stop()
                await writer.send_many("t", [bytes(500)] * 5)
                started = asyncio.get_running_loop().time()
                with pytest.raises(BufferExhaustedError, match="buffer_memory"):
                    await writer.send("t", bytes(500))
                assert asyncio.get_running_loop().time() - started > 1.9
                await cluster.nodes[1].start()
                await writer.flush()
                assert (await writer.send_and_wait("t", bytes(500))).offset == 45

    run(scenario)


def test_records_that_find_no_partition_take_no_room() -> None:
    def partitioner(key: bytes | None, count: int) -> int:
        if key == b"bad":
            raise ZeroDivisionError
        return 0

    async def scenario() -> None:
        async with Cluster(1, **ALONE) as cluster:
            await cluster.create_topic("t", replicas=1)
            async with producer(cluster, buffer_memory=3000, partitioner=partitioner, max_block_ms=5000) as writer:
                for _ in range(9):
                    with pytest.raises(ZeroDivisionError):
                        await writer.send("t", bytes(500), key=b"bad")
                    with pytest.raises(UnknownTopicError):
                        await writer.send("t", bytes(500), partition=-1)
                    with pytest.raises(UnknownTopicError):
                        await writer.send_many("t", [bytes(500)], partition=-1)
                assert (await writer.send_and_wait("t", bytes(500))).offset == 0

    run(scenario)


def test_a_producer_that_is_not_let_in_any_more_says_so_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """As when its password is changed while it runs, and a connection must be made anew."""

    async def refused(self: ClientCluster, node_id: int, purpose: str) -> Any:
        raise AuthenticationError(ErrorCode.SASL_AUTHENTICATION_FAILED, "the broker refuses user K.")

    async def scenario() -> None:
        async with Cluster(1, **ALONE) as cluster, producer(cluster, delivery_timeout_ms=600_000) as writer:
            await cluster.create_topic("t", replicas=1)
            await writer.partitions_for("t")
            monkeypatch.setattr(ClientCluster, "connected", refused)
            with pytest.raises(AuthenticationError, match="refuses user"):
                await writer.send_and_wait("t", b"a")

    run(scenario)


def test_time_is_up_for_what_cannot_be_written() -> None:
    async def scenario() -> None:
        async with Cluster(1, **ALONE) as cluster:
            writer = producer(cluster, delivery_timeout_ms=8000, request_timeout_ms=5000)
            await writer.start()
            await cluster.create_topic("t", replicas=1)
            await writer.send_and_wait("t", b"a")
            await cluster.nodes[1].stop()
            with pytest.raises(KafkaError, match=r"delivery_timeout_ms|NETWORK|connection"):
                await writer.send_and_wait("t", b"b")
            await writer.send("t", b"c")
            with pytest.raises(KafkaTimeoutError, match="flush"):
                await writer.flush(timeout_ms=20)
            await writer.close(timeout_ms=20)

    run(scenario)


def test_a_batch_that_the_topic_finds_too_large_is_split() -> None:
    async def scenario() -> None:
        async with Cluster(1, **ALONE) as cluster, producer(cluster) as writer:
            await cluster.create_topic("t", replicas=1, max_message_bytes="1000")
            values = [b"%03d" % number * 50 for number in range(30)]
            written = await (await writer.send_many("t", values))
            assert [each.offset for each in written] == list(range(30))
            assert [record.value for record in await records(cluster, "t")] == values
            with pytest.raises(RecordTooLargeError, match=r"t-0"):
                await writer.send_and_wait("t", bytes(5000))
            assert (await writer.send_and_wait("t", b"after")).offset == 30

    run(scenario)


def test_a_topic_made_anew_goes_on() -> None:
    async def scenario() -> None:
        async with Cluster(1, **ALONE) as cluster, producer(cluster) as writer:
            await cluster.create_topic("t", replicas=1)
            for number in range(3):
                await writer.send_and_wait("t", b"%d" % number)
            await cluster.delete_topic("t")
            await cluster.create_topic("t", replicas=1)
            assert (await writer.send_and_wait("t", b"again")).offset == 0

    run(scenario)


def test_sending_makes_a_topic_that_there_is_not() -> None:
    async def scenario() -> None:
        async with Cluster(1, default_replication_factor="1", **ALONE) as cluster, producer(cluster) as writer:
            assert (await writer.send_and_wait("made-by-sending", b"a")).offset == 0

    run(scenario)


def test_partitions_that_are_added_are_used() -> None:
    async def scenario() -> None:
        async with Cluster(1, **ALONE) as cluster, producer(cluster, metadata_max_age_ms=1) as writer:
            await cluster.create_topic("t", replicas=1)
            assert len(await writer.partitions_for("t")) == 1
            more = CreatePartitionsRequest(
                topics=[CreatePartitionsTopic(name="t", count=3, assignments=None)], timeout_ms=REQUEST_MS_MAX
            )
            answer = await cluster.ask_controller(more, 3)
            assert answer.results[0].error_code == ErrorCode.NONE
            partitions: set[int] = set()
            deadline = asyncio.get_running_loop().time() + WAIT_SECONDS_MAX
            while partitions != {0, 1, 2}:
                assert asyncio.get_running_loop().time() < deadline
                partitions.add((await writer.send_and_wait("t", bytes(20_000))).partition)

    run(scenario)


def test_the_next_epoch_where_the_broker_forgot_the_producer() -> None:
    async def scenario() -> None:
        async with Cluster(1, **ALONE) as cluster, producer(cluster) as writer:
            await cluster.create_topic("t", replicas=1)
            await writer.send_and_wait("t", b"a")
            lane = writer._accumulator.lane("t", 0)
            lane.next_sequence += 5  # as if records had been lost
            assert (await writer.send_and_wait("t", b"b")).offset == 1
            assert writer._accumulator.identity == Identity(writer._accumulator.identity.producer_id, 1)
            assert (await writer.send_and_wait("t", b"c")).offset == 2

    run(scenario)


def test_brokers_go_one_after_the_other_and_every_record_is_written_once() -> None:
    async def scenario() -> None:
        async with Cluster(3, **ALONE) as cluster:
            await cluster.create_topic("t", partitions=2, replicas=3)
            async with producer(cluster, linger_ms=1, batch_size=200) as writer:
                futures = []
                stopping = False

                async def write() -> None:
                    while not stopping:
                        number = len(futures)
                        futures.append(await writer.send("t", b"%d" % number, partition=number % 2))
                        await asyncio.sleep(0.001)

                writing = asyncio.ensure_future(write())
                for node in (1, 2, 3):
                    count = len(futures)
                    await cluster.nodes[node].stop()
                    await until(lambda count=count: len(futures) > count + 30, "it goes on")
                    await cluster.nodes[node].start()
                    await cluster.in_sync("t", 1, 2, 3)
                    await cluster.in_sync("t", 1, 2, 3, partition=1)
                stopping = True
                await writing
                written = [await future for future in futures]
            for partition in (0, 1):
                found = [record.value for record in await records(cluster, "t", partition)]
                assert found == [b"%d" % number for number in range(partition, len(futures), 2)]
                offsets = [each.offset for each in written if each.partition == partition]
                assert offsets == list(range(len(found)))

    run(scenario)


def test_rejected_records_say_why() -> None:
    async def scenario() -> None:
        async with Cluster(1, **ALONE) as cluster, producer(cluster) as writer:
            await cluster.create_topic("t", replicas=1, cleanup_policy="compact")
            with pytest.raises(KafkaError) as caught:
                await writer.send_and_wait("t", b"no key")
            assert caught.value.code == ErrorCode.INVALID_RECORD
            assert not caught.value.retriable
            assert (await writer.send_and_wait("t", b"x", key=b"k")).offset == 0

    run(scenario)

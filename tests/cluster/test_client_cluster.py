"""What clients know of a cluster, and how they reach it: brokers that come, go and are not there."""

from __future__ import annotations

import asyncio
import re
import socket

import pytest
from cluster import Cluster, free_ports, run
from own_client import ALONE, servers

from barnabas.client.cluster import ANY, GROUP, TRANSACTION, Versions
from barnabas.client.cluster import Cluster as ClientCluster
from barnabas.client.connection import ConnectionLost
from barnabas.client.errors import (
    BrokersUnreachableError,
    ClientClosedError,
    KafkaTimeoutError,
    UnknownTopicError,
    UnsupportedVersionError,
    error_of,
)
from barnabas.client.settings import AdminConfig
from barnabas.errors import ErrorCode
from barnabas.protocol.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from barnabas.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from barnabas.protocol.messages.init_producer_id import InitProducerIdRequest
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataResponse, MetadataResponseBroker


def client(*bootstrap: str, **settings: object) -> ClientCluster:
    return ClientCluster(AdminConfig(bootstrap_servers=list(bootstrap), reconnect_backoff_ms=5, **settings))


def test_it_finds_brokers_topics_and_coordinators() -> None:
    async def scenario() -> None:
        async with Cluster(1, **ALONE) as cluster, client(*servers(cluster)) as found:
            assert list(found.brokers) == [1]
            await cluster.create_topic("orders", partitions=2, replicas=1)
            topics = await found.topics(["orders"])
            assert topics["orders"].partition_count == 2
            assert len(topics["orders"].topic_id) == 16
            leader = found.leader("orders", 1)
            assert leader is not None
            assert leader.node_id == 1
            assert list(await found.topics(pattern=re.compile("ord.*"))) == ["orders"]
            assert list(await found.topics(pattern=re.compile("rders"))) == []
            assert await found.coordinator(GROUP, "g") == 1
            assert await found.coordinator(TRANSACTION, "t") == 1
            assert await found.controller() == 1
            assert found.features["transaction.version"] == 2

    run(scenario)


def test_a_topic_that_does_not_come_to_exist() -> None:
    async def scenario() -> None:
        async with Cluster(1, **ALONE) as cluster, client(*servers(cluster)) as found:
            with pytest.raises(UnknownTopicError, match="topic nowhere"):
                await found.topics(["nowhere"], timeout_ms=5000)

    run(scenario)


def test_nobody_at_the_bootstrap_servers() -> None:
    async def scenario() -> None:
        [one, other] = free_ports(2)
        unreachable = client(f"127.0.0.1:{one}", f"127.0.0.1:{other}")
        started = asyncio.get_running_loop().time()
        with pytest.raises(BrokersUnreachableError) as caught:
            await unreachable.start(timeout_ms=200)
        assert asyncio.get_running_loop().time() - started < 10
        assert f"127.0.0.1:{one}, 127.0.0.1:{other}" in str(caught.value)
        assert "cannot connect" in str(caught.value)
        await unreachable.close()

    run(scenario)


def test_a_server_that_never_answers() -> None:
    async def scenario() -> None:
        with socket.create_server(("127.0.0.1", 0)) as silent:
            port = silent.getsockname()[1]
            unreachable = client(f"127.0.0.1:{port}")
            with pytest.raises(BrokersUnreachableError, match=str(port)):
                await unreachable.start(timeout_ms=200)
            await unreachable.close()

    run(scenario)


def test_a_name_that_nobody_knows() -> None:
    async def scenario() -> None:
        unreachable = client("no-such-host.invalid:9092")
        with pytest.raises(BrokersUnreachableError, match="no-such-host"):
            await unreachable.start(timeout_ms=300)
        await unreachable.close()

    run(scenario)


def test_one_server_that_answers_is_enough() -> None:
    async def scenario() -> None:
        async with Cluster(1, **ALONE) as cluster:
            [dead] = free_ports(1)
            [port] = [each.rpartition(":")[2] for each in servers(cluster)]
            async with client(f"127.0.0.1:{dead}", f"localhost:{port}") as found:
                assert list(found.brokers) == [1]

    run(scenario)


def test_a_broker_that_hangs_is_not_asked_while_there_are_others() -> None:
    async def scenario() -> None:
        async with Cluster(2, **ALONE) as cluster, client(*servers(cluster)) as found:
            await cluster.create_topic("t", replicas=1)
            leader_id = cluster.leader_id("t")
            hanging, _ = await found.connected(leader_id)
            asked, _ = await found.connected(3 - leader_id)
            partition = FetchPartition(partition=0, partition_max_bytes=1)
            topics = [FetchTopic(topic="t", partitions=[partition])]
            poll = FetchRequest(max_wait_ms=10_000, min_bytes=1, max_bytes=1, topics=topics)
            waiting = hanging.request(poll, 12, 10_000)
            sent = asked._correlation_id
            for _ in range(5):
                await found.refresh(())
            assert asked._correlation_id == sent + 5
            waiting.cancel()

    run(scenario)


def test_it_goes_on_when_brokers_leave_and_asks_the_bootstrap_servers_when_all_have() -> None:
    async def scenario() -> None:
        async with Cluster(1, **ALONE) as cluster, client(*servers(cluster)) as found:
            await found.coordinator(GROUP, "g")
            await cluster.nodes[1].stop()
            with pytest.raises(ConnectionLost):
                await found.refresh(())
            assert found.brokers == {}
            await cluster.nodes[1].start()
            await found.retry(lambda: found.refresh(()), what="asking", timeout_ms=60_000)
            assert list(found.brokers) == [1]
            assert await found.coordinator(GROUP, "g", timeout_ms=60_000) == 1

    run(scenario)


def test_purposes_have_connections_of_their_own() -> None:
    async def scenario() -> None:
        async with Cluster(1, **ALONE) as cluster, client(*servers(cluster)) as found:
            short, _ = await found.connected(1)
            long, _ = await found.connected(1, "fetch")
            again, _ = await found.connected(1, "fetch")
            assert short is not long
            assert long is again

    run(scenario)


def test_a_closed_client_says_so() -> None:
    async def scenario() -> None:
        async with Cluster(1, **ALONE) as cluster:
            found = client(*servers(cluster))
            await found.start()
            await found.close()
            for attempt in (found.start(), found.request(ANY, MetadataRequest()), found.topics(["t"])):
                with pytest.raises(ClientClosedError, match="closed"):
                    await attempt

    run(scenario)


def test_whoever_connects_while_the_client_is_closed_is_told() -> None:
    async def scenario() -> None:
        with socket.create_server(("127.0.0.1", 0)) as silent:
            found = client(f"127.0.0.1:{silent.getsockname()[1]}")
            asking = asyncio.ensure_future(found.request(ANY, MetadataRequest()))
            await asyncio.sleep(0.02)
            await found.close()
            with pytest.raises(ConnectionLost, match="stopping"):
                await asking

    run(scenario)


async def old_broker(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, asked: list[tuple[int, int]], port: int
) -> None:
    """Knows version 0 of ApiVersions and Metadata up to 5; to anything newer it says no in its oldest words."""
    ranges = [
        ApiVersion(api_key=MetadataRequest.API_KEY, min_version=0, max_version=5),
        ApiVersion(api_key=ApiVersionsRequest.API_KEY, min_version=0, max_version=0),
    ]
    while size := await reader.read(4):
        frame = await reader.readexactly(int.from_bytes(size, "big"))
        api_key, version = int.from_bytes(frame[:2], "big"), int.from_bytes(frame[2:4], "big")
        asked.append((api_key, version))
        body = bytearray(frame[4:8])
        if api_key == MetadataRequest.API_KEY:
            here = MetadataResponseBroker(node_id=7, host="127.0.0.1", port=port)
            MetadataResponse(brokers=[here], topics=[]).encode(body, version)
        else:
            code = ErrorCode.UNSUPPORTED_VERSION if version else ErrorCode.NONE
            ApiVersionsResponse(error_code=code, api_keys=ranges).encode(body, 0)
        writer.write(len(body).to_bytes(4, "big") + body)
    writer.close()


def test_an_old_broker_is_asked_in_words_that_it_knows() -> None:
    async def scenario() -> None:
        asked: list[tuple[int, int]] = []
        [port] = free_ports(1)
        server = await asyncio.start_server(
            lambda reader, writer: old_broker(reader, writer, asked, port), "127.0.0.1", port
        )
        async with server, client(f"127.0.0.1:{port}") as found:
            assert list(found.brokers) == [7]
            with pytest.raises(UnsupportedVersionError, match="find_coordinator"):
                await found.coordinator(GROUP, "g")
        newest = ApiVersionsRequest.MAX_VERSION
        assert asked[:3] == [(18, newest), (18, 0), (3, 5)]

    run(scenario)


def test_versions() -> None:
    versions = Versions({InitProducerIdRequest.API_KEY: (0, 6), MetadataRequest.API_KEY: (4, 7)})
    assert versions.best(MetadataRequest.API_KEY) == 7
    assert versions.best(MetadataRequest.API_KEY, most=5) == 5
    assert versions.best(InitProducerIdRequest.API_KEY) == 5
    assert versions.best(InitProducerIdRequest.API_KEY, least=6) == 6
    for api_key, least, most in ((MetadataRequest.API_KEY, 8, None), (MetadataRequest.API_KEY, 0, 3), (0, 0, None)):
        with pytest.raises(UnsupportedVersionError, match="too old"):
            versions.best(api_key, least, most)


def test_retrying_ends() -> None:
    async def scenario() -> None:
        async with Cluster(1, **ALONE) as cluster, client(*servers(cluster), retry_backoff_ms=1) as found:
            attempts = 0

            async def fail(code: ErrorCode) -> None:
                nonlocal attempts
                attempts += 1
                raise error_of(code)

            with pytest.raises(KafkaTimeoutError, match="the thing: not within 1000 ms") as caught:
                await found.retry(lambda: fail(ErrorCode.NOT_ENOUGH_REPLICAS), what="the thing", timeout_ms=1000)
            assert caught.value.__cause__ is not None
            assert attempts > 2
            attempts = 0
            with pytest.raises(UnsupportedVersionError):
                await found.retry(lambda: fail(ErrorCode.UNSUPPORTED_VERSION), what="the thing", timeout_ms=1000)
            assert attempts == 1

    run(scenario)

"""The consumer against several brokers in memory: how it outlives leaders and coordinators, and whom it reads from."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from cluster import Cluster, run, until
from own_client import ALONE, servers

from barnabas.client.consuming.consumer import Consumer
from barnabas.client.consuming.rebalance import ConsumerRebalanceListener
from barnabas.client.errors import ClientClosedError, OffsetOutOfRangeError
from barnabas.client.offsets import OffsetAndMetadata
from barnabas.types import TopicPartition

ZERO = TopicPartition("t", 0)
GROUPS = {
    "offsets_topic_replication_factor": "3",
    "offsets_topic_num_partitions": "1",
    "group_initial_rebalance_delay_ms": "0",
    "group_min_session_timeout_ms": "1000",
}

AT_ONCE = {
    "group_initial_rebalance_delay_ms": "0",
    "group_consumer_min_heartbeat_interval_ms": "50",
    "group_consumer_heartbeat_interval_ms": "50",
}


def consumer(cluster: Cluster, *topics: str, **settings: Any) -> Consumer:
    given = {
        "auto_offset_reset": "earliest",
        "fetch_max_wait_ms": 50,
        "reconnect_backoff_ms": 5,
        "retry_backoff_ms": 10,
        "retry_backoff_max_ms": 50,
        **settings,
    }
    return Consumer(*topics, bootstrap_servers=servers(cluster), **given)


async def read(reader: Consumer, count: int) -> list[bytes | None]:
    found: list[bytes | None] = []
    while len(found) < count:
        found += [record.value for record in await reader.poll(1000)]
    return found


def test_a_leader_that_stops_is_followed_by_the_next() -> None:
    async def scenario() -> None:
        async with Cluster() as cluster, consumer(cluster) as reader:
            await cluster.create_topic("t")
            await cluster.produce("t", b"0", b"1")
            reader.assign([ZERO])
            assert await read(reader, 2) == [b"0", b"1"]
            epoch = cluster.state("t").leader_epoch
            gone = cluster.leader_id("t")
            await cluster.nodes[gone].stop()
            await until(lambda: cluster.leader_id("t") not in (gone, -1), "another leads")
            await cluster.produce("t", b"2")
            assert await read(reader, 1) == [b"2"]
            position = reader._subscription.state(ZERO).position
            assert position is not None
            assert position.leader_epoch > epoch, "the new leader was asked whether it has what was read"
            assert position.offset_epoch > epoch

    run(scenario)


def test_what_a_broker_lost_is_noticed() -> None:
    """Read up to 5 in an epoch that ended at 3: somebody took two records back."""

    async def scenario() -> None:
        async with Cluster() as cluster:
            await cluster.create_topic("t")
            await cluster.produce("t", b"0", b"1", b"2")
            epoch = cluster.state("t").leader_epoch
            gone = cluster.leader_id("t")
            await cluster.nodes[gone].stop()
            await until(lambda: cluster.leader_id("t") not in (gone, -1), "another leads")
            await cluster.produce("t", b"3", b"4", b"5", b"6")
            claimed = OffsetAndMetadata(5, leader_epoch=epoch)
            async with consumer(cluster) as reader:
                reader.assign([ZERO])
                reader.seek(ZERO, claimed)
                assert await read(reader, 4) == [b"3", b"4", b"5", b"6"]
                reader.seek(ZERO, OffsetAndMetadata(3, leader_epoch=epoch))
                assert await read(reader, 4) == [b"3", b"4", b"5", b"6"], "all of that is there"
            async with consumer(cluster, auto_offset_reset="none") as strict:
                strict.assign([ZERO])
                strict.seek(ZERO, claimed)
                with pytest.raises(OffsetOutOfRangeError, match="a broker lost it; seek to 3"):
                    await strict.poll(5000)
                strict.seek(ZERO, 6)
                assert await read(strict, 1) == [b"6"]

    run(scenario)


def test_the_nearest_replica_is_read_and_else_the_leader() -> None:
    async def scenario() -> None:
        selector = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
        async with Cluster(racks=True, replica_selector_class=selector) as cluster:
            await cluster.create_topic("t")
            near = cluster.followers("t")[0]
            await cluster.produce("t", b"0")
            async with consumer(cluster, client_rack=f"rack-{near}") as reader:
                reader.assign([ZERO])
                assert await read(reader, 1) == [b"0"]
                assert reader._subscription.state(ZERO).read_replica == near
                await cluster.produce("t", b"1")
                assert await read(reader, 1) == [b"1"]
                await cluster.nodes[near].stop()
                await cluster.produce("t", b"2")
                assert await read(reader, 1) == [b"2"]
                assert reader._subscription.state(ZERO).read_replica is None

    run(scenario)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_group_outlives_its_coordinator(protocol: str) -> None:
    async def scenario() -> None:
        async with Cluster(**GROUPS) as cluster:
            await cluster.create_topic("t")
            await cluster.produce("t", b"0")
            async with consumer(cluster, "t", group_id="g", group_protocol=protocol) as reader:
                assert await read(reader, 1) == [b"0"]
                await reader.commit()
                gone = await reader.cluster.coordinator(0, "g")
                await cluster.nodes[gone].stop()
                await until(lambda: cluster.leader_id("t") not in (gone, -1), "somebody leads")
                await cluster.produce("t", b"1")
                assert await read(reader, 1) == [b"1"]
                await reader.commit()
                assert (await reader.committed([ZERO]))[ZERO] == OffsetAndMetadata(
                    2, "", cluster.state("t").leader_epoch
                )

    run(scenario)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_what_is_committed_on_the_way_out_counts(protocol: str) -> None:
    """By the listener that hears good-bye, and by a commit that nobody waited for."""

    class Last(ConsumerRebalanceListener):
        async def on_partitions_revoked(self, partitions: tuple[TopicPartition, ...]) -> None:
            await reader.commit({ZERO: 1})
            reader.commit_async({ZERO: 2})

    reader: Consumer

    async def scenario() -> None:
        nonlocal reader
        async with Cluster(1, **ALONE, **AT_ONCE) as cluster:
            await cluster.create_topic("t", replicas=1)
            await cluster.produce("t", b"0", b"1", b"2")
            settings = {"group_id": "g", "group_protocol": protocol, "enable_auto_commit": False}
            for ending in ("close", "unsubscribe"):
                async with consumer(cluster, "t", listener=Last(), **settings) as reader:
                    assert await read(reader, 1)
                    await reader.commit({ZERO: 0})
                    if ending == "unsubscribe":
                        await reader.unsubscribe()
                async with consumer(cluster, **settings) as witness:
                    found = (await witness.committed([ZERO]))[ZERO]
                    assert found is not None
                    assert found.offset == 2, ending

    run(scenario)


def test_who_waits_for_a_position_hears_of_the_end() -> None:
    async def scenario() -> None:
        async with Cluster(1, **ALONE) as cluster, consumer(cluster) as reader:
            reader.assign([TopicPartition("nowhere", 0)])
            waiting = asyncio.get_running_loop().create_task(reader.position(("nowhere", 0), timeout_ms=3_600_000))
            await asyncio.sleep(0)
            await reader.close()
            with pytest.raises(ClientClosedError):
                await waiting

    run(scenario)

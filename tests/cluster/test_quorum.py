"""The metadata quorum of real brokers in one process: snapshots, and who is too far behind for the log."""

import asyncio
import logging
from typing import Any

import pytest
from cluster import Cluster, Node, run, until

from barnabas.consensus.messages import LogEnd, SnapshotPosition, SnapshotVerdict
from barnabas.errors import ErrorCode
from barnabas.log.checkpoint import META_PROPERTIES_FILE_NAME
from barnabas.server.context import CloseConnection

SNAPSHOTS = {
    "metadata_log_max_record_bytes_between_snapshots": "1500",
    "metadata_max_retention_bytes": "0",
    "controller_quorum_fetch_snapshot_max_bytes": "1000",
}
LOG = "/memory/__cluster_metadata-0"


def log_of(node: Node) -> Any:
    return node.running.controller.log


async def fall_behind(cluster: Cluster) -> Node:
    """A node that is down, and whose log ends before that of any other begins."""
    away = next(node for node in cluster.running if node is not cluster.controller)
    known = log_of(away).end_offset
    await away.stop()
    for number in range(25):
        await cluster.create_topic(f"t{number}", replicas=2)
    for node in cluster.running:
        await until(lambda node=node: log_of(node).start_offset > known, "all but the newest is cut off")
        # From here on no other takes its place, whatever else is written.
        node.running.controller.snapshots.applied = lambda image, size_bytes: None  # type: ignore[method-assign]
    return away


def test_who_is_too_far_behind_copies_a_snapshot() -> None:
    async def scenario() -> None:
        async with Cluster(**SNAPSHOTS) as cluster:
            away = await fall_behind(cluster)
            known = log_of(cluster.controller).start_offset
            size_bytes = log_of(cluster.controller).snapshot_size_bytes(log_of(cluster.controller).snapshot)
            assert size_bytes > 3000, "it comes in parts"
            await away.start()
            controller = cluster.controller.running.controller
            await until(
                lambda: away.running.controller.image.offset == controller.image.offset, "it has what the leader has"
            )
            assert log_of(away).start_offset >= known
            assert away.running.controller.image.topics_by_name == controller.image.topics_by_name
            await cluster.create_topic("later", min_insync_replicas="3")
            assert (await cluster.produce("later", b"a")).error_code == ErrorCode.NONE
            await away.stop()
            await away.start()
            assert "t0" in away.running.controller.image.topics_by_name, "and starts from it"

    run(scenario)


def test_a_copy_that_broke_off_goes_on_where_it_was() -> None:
    async def scenario() -> None:
        async with Cluster(**SNAPSHOTS) as cluster:
            away = await fall_behind(cluster)
            quorum = cluster.controller.running.controller.quorum
            receive, positions = quorum.receive_fetch_snapshot, []

            def receive_or_hang_up(asked: SnapshotPosition) -> SnapshotVerdict:
                positions.append(asked.position)
                if len(positions) == 3:
                    raise CloseConnection("for a test")
                return receive(asked)

            quorum.receive_fetch_snapshot = receive_or_hang_up  # type: ignore[method-assign]
            await away.start()
            assert positions[2] == positions[3] == 2000, "the part that was lost, and no other, is asked for again"
            assert positions == sorted(positions)
            assert "t24" in away.running.controller.image.topics_by_name

    run(scenario)


def test_a_copy_that_is_not_what_it_should_be_is_made_again() -> None:
    async def scenario() -> None:
        async with Cluster(**SNAPSHOTS) as cluster:
            away = await fall_behind(cluster)
            log = log_of(cluster.controller)
            read, damaged = log.read_snapshot_part, []

            def read_or_damage(snapshot: LogEnd, position: int, size_bytes_max: int) -> Any:
                part = read(snapshot, position, size_bytes_max)
                if position > 0 and not damaged:
                    damaged.append(position)
                    data = bytearray(part.read())
                    data[len(data) // 2] ^= 1
                    return bytes(data)
                return part

            log.read_snapshot_part = read_or_damage
            await away.start()
            assert damaged
            assert "t24" in away.running.controller.image.topics_by_name
            leads = cluster.controller.running.controller
            await until(lambda: away.running.controller.image.offset == leads.image.offset, "it has all")
            assert away.running.controller.image.topics_by_name == leads.image.topics_by_name

    run(scenario)


def test_a_broker_that_runs_takes_a_snapshot_for_what_it_missed() -> None:
    """It was only cut off from the quorum: topics that are gone meanwhile go, new ones come."""

    async def scenario() -> None:
        async with Cluster(**SNAPSHOTS) as cluster:
            await cluster.create_topic("old")
            await cluster.produce("old", b"a")
            away = next(node for node in cluster.running if node is not cluster.controller)
            quorum = away.running.controller.quorum
            assert quorum._fetch_task is not None
            quorum._fetch_task.cancel()
            known = log_of(away).end_offset
            others = [node for node in cluster.running if node is not away]
            for number in range(25):
                await cluster.create_topic(f"t{number}", replicas=2, nodes=others)
            await cluster.delete_topic("old")
            for node in others:
                await until(lambda node=node: log_of(node).start_offset > known, "all but the newest is cut off")
            quorum._fetch_task = asyncio.ensure_future(quorum._follow())
            await until(lambda: "t24" in away.running.controller.image.topics_by_name, "it knows the newest")
            assert log_of(away).start_offset > known
            assert not away.running.partitions.topic("old")
            await until(lambda: "t24" in away.running.controller.image.topics_by_name, "it knows the newest")
            await cluster.create_topic("later", min_insync_replicas="3")
            assert (await cluster.produce("later", b"a")).error_code == ErrorCode.NONE

    run(scenario)


def test_a_node_of_another_cluster_is_told_so_and_stays_out(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)

    async def scenario() -> None:
        async with Cluster() as cluster:
            leader_id = cluster.controller.running.node_id
            assert f"node {leader_id} leads the metadata quorum" in caplog.text
            stranger = next(node for node in cluster.running if node is not cluster.controller)
            own_id = stranger.running.cluster_id
            await stranger.stop()
            path = f"/memory/{META_PROPERTIES_FILE_NAME}"
            stranger.disk.write_atomically(path, stranger.disk.read_bytes(path).replace(own_id.encode(), b"A" * 22))
            starting = asyncio.ensure_future(stranger.start())
            await until(lambda: f"does not belong to cluster {'A' * 22}" in caplog.text, "it is told")
            assert not starting.done()
            starting.cancel()
            await asyncio.gather(starting, return_exceptions=True)
            stranger.broker = None

    run(scenario)

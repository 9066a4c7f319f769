"""Nodes of other kinds than both in one: brokers that join and leave, controllers that serve no clients."""

import asyncio

import pytest
from cluster import Cluster, Node, free_ports, run, until

from barnabas.errors import ErrorCode
from barnabas.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from barnabas.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from barnabas.protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    RequestPartitionData,
    RequestTopicData,
)
from barnabas.protocol.messages.metadata import MetadataRequest
from barnabas.protocol.messages.unregister_broker import UnregisterBrokerRequest

DESCRIBE_QUORUM = DescribeQuorumRequest(
    topics=[RequestTopicData(topic_name="__cluster_metadata", partitions=[RequestPartitionData(partition_index=0)])]
)


async def reassign(node: Node, topic: str, *replicas: int) -> None:
    partition = ReassignablePartition(partition_index=0, replicas=list(replicas))
    request = AlterPartitionReassignmentsRequest(
        timeout_ms=60_000, topics=[ReassignableTopic(name=topic, partitions=[partition])]
    )
    answer = await node.ask(request, 0)
    assert answer.error_code == ErrorCode.NONE
    assert answer.responses[0].partitions[0].error_code == ErrorCode.NONE


@pytest.mark.parametrize("how", ["voters", "bootstrap servers"])
def test_a_fourth_broker_joins_serves_and_leaves(how: str) -> None:
    async def scenario() -> None:
        async with Cluster() as cluster:
            await cluster.create_topic("t")
            await cluster.produce("t", b"a")
            fourth = cluster.further_broker(4)
            if how == "bootstrap servers":
                del fourth.settings["controller.quorum.voters"]
                # One that is not there, too.
                servers = ",".join(["127.0.0.1:1", *(each.partition("@")[2] for each in cluster.voters.split(","))])
                fourth.settings["controller.quorum.bootstrap.servers"] = servers
            await fourth.start()
            assert fourth.running.cluster_id == cluster.controller.running.cluster_id
            assert not fourth.running.controller.quorum.raft.is_voter

            await reassign(fourth, "t", 4, 2)
            await until(lambda: cluster.state("t").replicas == (4, 2), "it has a replica")
            await until(lambda: cluster.leader_id("t") in (4, 2), "somebody leads")
            await cluster.in_sync("t", 4, 2)
            answer = await cluster.produce("t", b"b")
            assert (answer.error_code, answer.base_offset) == (ErrorCode.NONE, 1)
            assert cluster.replica(4, "t").log.log_end_offset == 2
            described = await fourth.ask(DESCRIBE_QUORUM, 2)
            quorum = described.topics[0].partitions[0]
            assert [each.replica_id for each in quorum.current_voters] == [1, 2, 3]
            assert [each.replica_id for each in quorum.observers] == [4]
            assert all(each.last_caught_up_timestamp > 0 for each in quorum.current_voters)
            assert [each.node_id for each in described.nodes] == [1, 2, 3]
            known = await fourth.ask(MetadataRequest(topics=None), 12)
            assert [each.node_id for each in known.brokers] == [1, 2, 3, 4]

            await reassign(fourth, "t", 1, 2)
            await until(lambda: cluster.state("t").replicas == (1, 2), "its replica is elsewhere")
            await fourth.stop()
            answer = await cluster.nodes[1].ask(UnregisterBrokerRequest(broker_id=4), 0)
            assert answer.error_code == ErrorCode.NONE
            for node in cluster.running:
                await until(lambda node=node: 4 not in node.running.controller.image.brokers, "it is gone")
            assert (await cluster.produce("t", b"c")).error_code == ErrorCode.NONE

    run(scenario)


def test_a_broker_finds_the_next_leader_of_the_quorum() -> None:
    async def scenario() -> None:
        async with Cluster() as cluster:
            fourth = cluster.further_broker(4)
            await fourth.start()
            await cluster.controller.stop()
            await until(
                lambda: any(node.running.controller.quorum.is_leader for node in cluster.running), "another leads"
            )
            await cluster.create_topic("t", replicas=2)
            assert "t" in fourth.running.controller.image.topics_by_name

    run(scenario)


def test_controllers_and_brokers_apart() -> None:
    async def scenario() -> None:
        ports = free_ports(5)
        voters = ",".join(f"{number}@localhost:{ports[number - 1]}" for number in (1, 2, 3))
        common = {"controller.listener.names": "CONTROLLER", "controller.quorum.voters": voters, "log.dirs": "/memory"}
        nodes = [
            Node(
                {
                    "node.id": str(number),
                    "process.roles": "controller",
                    "listeners": f"CONTROLLER://127.0.0.1:{ports[number - 1]}",
                    **common,
                }
            )
            for number in (1, 2, 3)
        ]
        brokers = [
            Node(
                {
                    "node.id": str(number),
                    "process.roles": "broker",
                    "listeners": f"PLAINTEXT://127.0.0.1:{ports[number - 1]}",
                    **common,
                }
            )
            for number in (4, 5)
        ]
        await asyncio.gather(*(node.start() for node in (*nodes, *brokers)))
        try:
            request = CreateTopicsRequest(
                topics=[CreatableTopic(name="t", num_partitions=2, replication_factor=2)], timeout_ms=60_000
            )
            answer = await brokers[0].ask(request, 7)
            assert answer.topics[0].error_code == ErrorCode.NONE, answer
            for node in (*nodes, *brokers):
                image = node.running.controller
                await until(lambda image=image: "t" in image.image.topics_by_name, "all know of the topic")
                await until(lambda image=image: len(image.image.controllers) == 3, "and of every controller")
            leader = next(node for node in nodes if node.running.controller.quorum.is_leader)
            image = leader.running.controller.image
            assert sorted(image.brokers) == [4, 5]
            assert all(each.endpoints[0].listener == "CONTROLLER" for each in image.controllers.values())
            assert not list(leader.running.partitions)
            known = await brokers[1].ask(MetadataRequest(topics=None), 12)
            assert [each.node_id for each in known.brokers] == [4, 5]
        finally:
            await asyncio.gather(*(node.stop() for node in brokers))
            await asyncio.gather(*(node.stop() for node in nodes))

    run(scenario)

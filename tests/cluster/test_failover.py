"""What a client is told in the moments after a broker died."""

import asyncio
from typing import Any

import pytest
from cluster import REQUEST_MS_MAX, WAIT_SECONDS_MAX, Cluster, die, run, until

from barnabas.client.connection import ClientConnection
from barnabas.errors import ErrorCode
from barnabas.metadata.image import ResourceType
from barnabas.protocol.message import Message
from barnabas.protocol.messages.alter_partition_reassignments import AlterPartitionReassignmentsResponse
from barnabas.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest
from barnabas.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from barnabas.protocol.messages.delete_topics import DeletableTopicResult, DeleteTopicsResponse
from barnabas.protocol.messages.elect_leaders import ElectLeadersResponse, PartitionResult, ReplicaElectionResult
from barnabas.protocol.messages.incremental_alter_configs import (
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from barnabas.runtime.frame_reader import FrameBuffers
from barnabas.runtime.interfaces import Address
from barnabas.server import peers
from barnabas.server.broker import Broker

METADATA_VERSION = 12
HEARTBEAT_VERSION = 1


def leader_told(answer: Any) -> int:
    leader: int = answer.topics[0].partitions[0].leader_id
    return leader


def test_who_asks_right_after_a_crash_is_told_the_next_leader(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that is told the dead leader's name again does not ask for long."""
    monkeypatch.setattr(peers, "DOUBT_MS", 1000 * WAIT_SECONDS_MAX)  # however slow the machine

    async def scenario() -> None:
        async with Cluster() as cluster:
            await cluster.create_topic("t")
            await cluster.produce("t", b"a")
            dead = cluster.leader_id("t")
            asked = cluster.nodes[next(id for id in cluster.followers("t"))]
            dying = asyncio.ensure_future(die(cluster, dead))
            await until(lambda: dead in asked.running.peers.in_doubt(), "the connection to the leader breaks")
            request = MetadataRequest(topics=[MetadataRequestTopic(name="t")])
            leader = leader_told(await asked.ask(request, METADATA_VERSION))
            assert leader not in (dead, -1)
            await dying

    run(scenario)


def test_a_broker_that_listens_nowhere_is_fenced_before_its_session_ends() -> None:
    async def scenario() -> None:
        async with Cluster() as cluster:
            controller = cluster.controller.running
            dead = next(id for id, node in cluster.nodes.items() if node.running is not controller)
            sessions = controller.controller.sessions
            lost = []
            gone = sessions.gone
            sessions.gone = lambda id, now_ms: (lost.append(id), gone(id, now_ms))[1]  # type: ignore[method-assign]
            await die(cluster, dead)
            await until(lambda: controller.controller.image.brokers[dead].fenced, "it is fenced")
            assert lost == [dead]

    run(scenario)


def test_a_broker_that_only_lost_a_connection_is_not_gone() -> None:
    async def scenario() -> None:
        async with Cluster() as cluster:
            controller = cluster.controller.running
            id = next(id for id, node in cluster.nodes.items() if node.running is not controller)
            assert not await controller.controller._is_gone(id)
            assert not controller.controller.image.brokers[id].fenced

    run(scenario)


async def heartbeat_of_a_stranger(controller: Broker, broker_id: int, broker_epoch: int) -> int:
    """On a connection of its own to the controller's port, which is closed afterwards; the error in its answer."""
    closed: list[Address] = []
    watch = controller.controller.sessions_watch
    connection_closed = watch.connection_closed
    watch.connection_closed = (  # type: ignore[method-assign]
        lambda address: (closed.append(address), connection_closed(address))[1]
    )
    listener = controller._controllers_bound[0]
    socket = await controller.runtime.network.connect(listener.host, listener.port)
    connection = ClientConnection(
        socket=socket, clock=controller.runtime.clock, client_id="stranger", buffers=FrameBuffers()
    )
    request = BrokerHeartbeatRequest(broker_id=broker_id, broker_epoch=broker_epoch, current_metadata_offset=1 << 40)
    error_code: int = (await connection.request(request, HEARTBEAT_VERSION, REQUEST_MS_MAX)).error_code
    connection.close()
    await until(lambda: socket.local_address in closed, "the controller has seen the end of the connection")
    return error_code


def test_a_heartbeat_in_another_brokers_name_does_not_end_its_session() -> None:
    """Anybody who reaches the port can send one and hang up."""

    async def scenario() -> None:
        async with Cluster() as cluster:
            controller = cluster.controller.running
            id = next(id for id, node in cluster.nodes.items() if node.running is not controller)
            doubts: list[int] = []
            controller.controller.sessions.connection_lost = (  # type: ignore[method-assign]
                doubts.append
            )
            epoch = cluster.nodes[id].running.lifecycle.epoch
            error_code = await heartbeat_of_a_stranger(controller, id, epoch + 1)
            assert error_code == ErrorCode.STALE_BROKER_EPOCH
            error_code = await heartbeat_of_a_stranger(controller, 77, epoch)
            assert error_code == ErrorCode.STALE_BROKER_EPOCH
            assert doubts == []

    run(scenario)


@pytest.mark.parametrize("kind", ["topics", "configs"])
def test_what_a_client_asks_for_waits_until_there_is_a_controller(kind: str) -> None:
    topic = CreatableTopic(name="t", num_partitions=1, replication_factor=1)
    resource = AlterConfigsResource(resource_type=ResourceType.TOPIC, resource_name="before", configs=[])
    request = {
        "topics": CreateTopicsRequest(topics=[topic], timeout_ms=REQUEST_MS_MAX),
        "configs": IncrementalAlterConfigsRequest(resources=[resource]),
    }[kind]

    async def scenario() -> None:
        async with Cluster() as cluster:
            await cluster.create_topic("before")
            alone, *others = cluster.running
            await asyncio.gather(*(node.stop() for node in others))
            # It may go on believing in a leader that is gone: nobody is there to elect another one with.
            await until(lambda: not alone.running.controller.quorum.is_leader, "there is no controller")
            asking = asyncio.ensure_future(alone.ask(request, 7 if kind == "topics" else 1))
            await until(lambda: any(each.waiting for each in alone.running.acceptor._connections), "it waits")
            await asyncio.gather(*(node.start() for node in others))
            answer = await asking
            assert (answer.topics if kind == "topics" else answer.responses)[0].error_code == ErrorCode.NONE

    run(scenario)


REFUSALS = {
    "of everything": DeleteTopicsResponse(responses=[DeletableTopicResult(error_code=ErrorCode.NOT_CONTROLLER)]),
    "at the top": AlterPartitionReassignmentsResponse(error_code=ErrorCode.NOT_CONTROLLER),
    "further down": ElectLeadersResponse(
        replica_election_results=[
            ReplicaElectionResult(
                topic="t", partition_result=[PartitionResult(partition_id=0, error_code=ErrorCode.NOT_CONTROLLER)]
            )
        ]
    ),
}


@pytest.mark.parametrize("refusal", REFUSALS.values(), ids=REFUSALS)
def test_a_node_that_is_no_controller_any_more_is_not_the_last_one_asked(
    refusal: Message, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answer of the first goes by, whatever its form; the next one's is the client's."""

    async def scenario() -> None:
        async with Cluster() as cluster:
            node = next(node for node in cluster.running if node is not cluster.controller)
            channel = node.running.controller_channel
            ask, refusals = channel.request, [refusal]

            async def first_refused(*given: Any, **named: Any) -> Any:
                return refusals.pop() if refusals else await ask(*given, **named)

            monkeypatch.setattr(channel, "request", first_refused)
            topic = CreatableTopic(name="t", num_partitions=1, replication_factor=1)
            answer = await node.ask(CreateTopicsRequest(topics=[topic], timeout_ms=REQUEST_MS_MAX), 7)
            assert not refusals
            assert answer.topics[0].error_code == ErrorCode.NONE

    run(scenario)


@pytest.mark.parametrize("is_controlled", [True, False])
def test_controlled_shutdown_can_be_turned_off(is_controlled: bool) -> None:
    async def scenario() -> None:
        async with Cluster(controlled_shutdown_enable=str(is_controlled).lower()) as cluster:
            await cluster.create_topic("t")
            await cluster.produce("t", b"a")
            stopping = cluster.leader_id("t")
            witness = cluster.followers("t")[0]
            image = cluster.nodes[witness].running.controller
            seen: list[bool] = []
            cluster.on_change(witness, lambda: seen.append(image.image.brokers[stopping].in_controlled_shutdown))
            await cluster.nodes[stopping].stop()
            await until(lambda: cluster.leader_id("t") not in (stopping, -1), "another broker leads")
            assert (True in seen) == is_controlled

    run(scenario)

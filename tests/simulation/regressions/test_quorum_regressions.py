"""What the simulation once found in how three nodes keep one metadata log, each as the shortest story that shows it."""

import asyncio

import pytest
from scenario import Scenario

from barnabas.client.connection import ConnectionLost
from barnabas.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from barnabas.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from barnabas.server.peers import CONNECT_TIMEOUT_MS
from barnabas.server.replicas.partition import Partition
from barnabas.simulation.cluster import SimulatedNode
from barnabas.simulation.disk import Survival


def leader_of(scenario: Scenario) -> SimulatedNode:
    """Of the metadata quorum."""
    (leader,) = [
        node for node in scenario.cluster.nodes.values() if node.broker and node.broker.controller.quorum.is_leader
    ]
    return leader


def test_a_voter_that_was_cut_off_from_its_leader_hears_of_new_metadata() -> None:
    """Its pre-vote was refused, it followed the same leader as before, and nobody told its fetches to go on."""

    async def story(scenario: Scenario) -> None:
        leader = leader_of(scenario)
        follower = next(node for node in scenario.cluster.nodes.values() if node is not leader)
        scenario.network.block(leader.host, follower.host)
        await scenario.clock.sleep(4000)
        scenario.network.unblock(leader.host, follower.host)
        await scenario.clock.sleep(5000)
        assert leader_of(scenario) is leader
        await scenario.create_topic("t")
        broker = follower.broker
        assert broker is not None
        await scenario.until(lambda: "t" in broker.controller.image.topics_by_name)

    Scenario(nodes=3).run(story)


def test_a_node_may_give_up_to_connect_to_another() -> None:
    """As it does when it stops. Nobody waited any more, so nobody looked at why the connection could not be made."""

    async def story(scenario: Scenario) -> None:
        one, other, _third = scenario.cluster.nodes.values()
        assert one.broker is not None
        peer = one.broker.peers.get(other.id, "test")
        scenario.cluster.cut_power(other, Survival.ALL)
        waiting = asyncio.ensure_future(peer.connected())
        await scenario.clock.sleep(100)
        waiting.cancel()
        await scenario.clock.sleep(CONNECT_TIMEOUT_MS)

    Scenario(nodes=3).run(story)


def test_who_is_cancelled_while_its_connection_is_given_up_ends() -> None:
    """A node did not stop: a fetcher took its own end for that of its connection, and went on for ever."""

    async def story(scenario: Scenario) -> None:
        one, other, _third = scenario.cluster.nodes.values()
        assert one.broker is not None
        peer = one.broker.peers.get(other.id, "test")
        scenario.cluster.cut_power(other, Survival.ALL)
        with pytest.raises(ConnectionLost):
            await peer.connected()  # and there is a pause before the next attempt
        waiting = asyncio.ensure_future(peer.connected())
        await scenario.clock.sleep(1)
        peer.close()
        await scenario.clock.sleep(0)
        waiting.cancel()
        await asyncio.wait([waiting])
        assert waiting.cancelled()

    Scenario(nodes=3).run(story)


def test_a_topic_may_be_deleted_while_a_node_stops_to_follow() -> None:
    """Its fetchers had forgotten the partitions already, but not whom each of them followed."""

    async def story(scenario: Scenario) -> None:
        for name in ("a", "b", "c", "d", "e", "f"):
            await scenario.create_topic(name)
        node = next(node for node in scenario.cluster.nodes.values() if node is not leader_of(scenario))
        broker = node.broker
        assert broker is not None
        await scenario.until(lambda: len(list(broker.partitions)) == 6)
        stopping = asyncio.ensure_future(broker.fetchers.stop())
        await scenario.clock.sleep(0)
        await scenario.clock.sleep(0)  # each of them has begun
        for partition in broker.partitions:
            broker.fetchers.unfollow(partition)
        await stopping

    Scenario(nodes=3).run(story)


def test_a_node_whose_metadata_log_fails_while_it_starts_ends() -> None:
    """It waited for ever to be let in by the controller, though it could not take its part any more."""

    async def story(scenario: Scenario) -> None:
        leader = leader_of(scenario)
        follower, other = (node for node in scenario.cluster.nodes.values() if node is not leader)
        scenario.cluster.kill(follower)
        for node in (leader, other):
            scenario.network.block(node.host, follower.host)
        scenario.cluster.start(follower)
        await scenario.clock.sleep(1000)
        follower.disk.fail("sync")
        for node in (leader, other):
            scenario.network.unblock(node.host, follower.host)
        await scenario.until(lambda: scenario.cluster.is_up)
        assert follower.incarnation == 3

    Scenario(nodes=3).run(story)


def test_a_controller_that_cannot_carry_out_what_is_committed_ends() -> None:
    """The failure went to the voter whose fetch had committed it, and the node went on with partitions of the past."""

    async def story(scenario: Scenario) -> None:
        leader = leader_of(scenario)
        topic = await scenario.create_topic("t")
        leader.disk.fail("rename")
        connection = await scenario.client.connection(leader.address)
        connection.ask(DeleteTopicsRequest(topics=[DeleteTopicState(topic_id=topic.id)], timeout_ms=5000), 6)
        await scenario.until(lambda: leader.incarnation == 2 and scenario.cluster.is_up)
        again = await scenario.create_topic("t")
        await scenario.write(again, b"a")
        assert await scenario.read(again) == [b"a"]

    Scenario(nodes=3).run(story)


def test_a_node_may_stop_while_it_passes_a_request_on() -> None:
    """The wish to close the client's connection, which was closed already, was logged as an error of the broker."""

    async def story(scenario: Scenario) -> None:
        leader = leader_of(scenario)
        follower = next(node for node in scenario.cluster.nodes.values() if node is not leader)
        connection = await scenario.client.connection(follower.address)
        scenario.cluster.pause(leader)
        topic = CreatableTopic(name="t", num_partitions=1, replication_factor=1)
        scenario.cluster.stop(follower)
        await scenario.clock.sleep(1000)  # it waits for the controller
        connection.ask(CreateTopicsRequest(topics=[topic], timeout_ms=5000), 7)
        await scenario.until(lambda: follower.process is None)

    Scenario(nodes=3).run(story)


def test_a_node_leads_nothing_before_it_is_registered_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """It led what its earlier process had led, in the same epoch, without the records that it had lost with the power.

    What it wrote there, a coordinator's records for instance, could not be told from what had been there before.
    """
    began: list[int] = []
    begin_to_lead = Partition._begin_to_lead

    def watched(self: Partition) -> None:
        began.append(self._cluster.node_id)
        begin_to_lead(self)

    monkeypatch.setattr(Partition, "_begin_to_lead", watched)

    async def story(scenario: Scenario) -> None:
        topic = await scenario.create_topic("t")
        await scenario.write(topic, b"a")
        leader = scenario.cluster.nodes[scenario.client.view.leaders[topic.id, 0].node_id]
        began.clear()
        scenario.cluster.cut_power(leader, Survival.NONE)
        scenario.cluster.start(leader)
        await scenario.until(lambda: scenario.cluster.is_up)
        assert leader.id not in began
        assert await scenario.read(topic) == [b"a"]

    Scenario(nodes=3, settings={"min.insync.replicas": "2"}).run(story)

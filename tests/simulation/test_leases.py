"""A broker that was replaced while it was cut off answers nobody as leader or coordinator any more.

Clients reach both sides of the partition. A checker watches what they are told, and finds a lease that is missing.
"""

from collections.abc import Mapping

import pytest
from scenario import Scenario

from barnabas.consensus.messages import FetchPosition
from barnabas.controller.broker_lease import BrokerLease
from barnabas.controller.broker_sessions import BrokerSessions
from barnabas.errors import ErrorCode
from barnabas.metadata.topic_names import OFFSETS_TOPIC
from barnabas.protocol.messages.find_coordinator import FindCoordinatorRequest
from barnabas.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from barnabas.simulation.checker import Promises, Violation
from barnabas.simulation.checkers import CommittedOffsetsStay
from barnabas.simulation.client import Unavailable
from barnabas.simulation.cluster import SimulatedNode
from barnabas.simulation.committed_offsets import OffsetsQuestion, fetch_committed
from barnabas.simulation.history import CommitAcknowledged, CommitAsked, PartitionId
from barnabas.simulation.participants import Topic
from barnabas.types import Offset

GROUP = "g"
COMMIT_VERSION = 8
SETTINGS = {"min.insync.replicas": "2", "offsets.topic.num.partitions": "1"}
LOOKS = 400  # each some ten milliseconds: longer than a session and an election
DIRECTIONS = ["neither", "speaks", "hears"]


def others(scenario: Scenario, node: SimulatedNode) -> list[SimulatedNode]:
    return [each for each in scenario.cluster.nodes.values() if each is not node]


def leader_seen_by(node: SimulatedNode) -> int:
    assert node.broker is not None
    topic = node.broker.controller.image.topics_by_name.get(OFFSETS_TOPIC)
    return -1 if topic is None else topic.partitions[0].leader


def cut_off(scenario: Scenario, node: SimulatedNode, direction: str) -> None:
    """From the other brokers; clients reach it. It neither hears them nor speaks to them, or one of both."""
    for other in others(scenario, node):
        if direction != "hears":
            scenario.network.block(other.host, node.host)
        if direction != "speaks":
            scenario.network.block(node.host, other.host)


async def commit(scenario: Scenario, node: SimulatedNode, topic: Topic, offset: Offset) -> bool:
    partition_id = PartitionId(topic.id, 0)
    scenario.history.tell(CommitAsked(group=GROUP, partition_id=partition_id, offset=offset))
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
    request = OffsetCommitRequest(
        group_id=GROUP, topics=[OffsetCommitRequestTopic(name=topic.name, partitions=[partition])]
    )
    response = await scenario.client.call(await scenario.client.connection(node.address), request, COMMIT_VERSION)
    if response.topics[0].partitions[0].error_code != ErrorCode.NONE:
        return False
    scenario.history.tell(CommitAcknowledged(group=GROUP, partition_id=partition_id, offset=offset))
    return True


async def committed(scenario: Scenario, node: SimulatedNode, topic: Topic) -> Offset | None:
    """None where the node does not say."""
    partition_id = PartitionId(topic.id, 0)
    question = OffsetsQuestion(group=GROUP, member="reader", partition_ids=[partition_id])
    try:
        connection = await scenario.client.connection(node.address)
        found = await fetch_committed(scenario.client, connection, scenario.history, topic, question)
    except Unavailable:
        return None
    return found[partition_id]


async def coordinator(scenario: Scenario, topic: Topic) -> SimulatedNode:
    """Of the group, which has committed 1."""
    found: list[SimulatedNode] = []

    async def settled() -> bool:
        answer = await scenario.client.call_any(FindCoordinatorRequest(key_type=0, coordinator_keys=[GROUP]), 4)
        (one,) = answer.coordinators
        if one.error_code != ErrorCode.NONE:
            return False
        node = scenario.cluster.nodes[one.node_id]
        found[:] = [node]
        return await commit(scenario, node, topic, 1)

    await scenario.patiently(settled)
    return found[0]


def watched(*, nodes: int = 3, seed: int = 0, settings: Mapping[str, str] = SETTINGS) -> Scenario:
    scenario = Scenario(nodes=nodes, settings=settings, seed=seed)
    checker = CommittedOffsetsStay(Promises(acks_kept=(-1,), one_node=nodes == 1, syncs_each_batch=False))
    scenario.history.observers = [checker.observe]
    return scenario


async def replaced_while_cut_off(scenario: Scenario, direction: str) -> None:
    topic = await scenario.create_topic("t")
    former = await coordinator(scenario, topic)
    witness = others(scenario, former)[0]
    cut_off(scenario, former, direction)
    await scenario.until(lambda: leader_seen_by(witness) not in (former.id, -1))
    successor = scenario.cluster.nodes[leader_seen_by(witness)]
    await scenario.patiently(lambda: commit(scenario, successor, topic, 2))
    for _ in range(LOOKS):
        assert await committed(scenario, former, topic) is None
        await scenario.clock.sleep(10)


@pytest.mark.parametrize("seed", range(3))  # the coordinator is the controller in some, and in others not
@pytest.mark.parametrize("direction", DIRECTIONS)
def test_a_coordinator_that_was_replaced_while_it_was_cut_off_shows_nothing_old(direction: str, seed: int) -> None:
    watched(seed=seed).run(lambda scenario: replaced_while_cut_off(scenario, direction))


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_a_lease_that_never_ends_is_found(direction: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(BrokerLease, "holds", lambda _self, _now_ms, _majority_heard_ms: True)
    with pytest.raises(Violation, match="g had committed 2"):
        watched().run(lambda scenario: replaced_while_cut_off(scenario, direction))


def test_a_lease_that_begins_before_its_broker_knows_what_it_lost_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(BrokerSessions, "has_caught_up", lambda _self, _broker_id: True)
    with pytest.raises(Violation, match="g had committed 2"):
        watched().run(heard_again)


async def heard_again(scenario: Scenario) -> None:
    """Its heartbeats are answered while its fetches of the metadata are not."""
    topic = await scenario.create_topic("t")
    former = await coordinator(scenario, topic)
    witness = others(scenario, former)[0]
    cut_off(scenario, former, "neither")
    await scenario.until(lambda: leader_seen_by(witness) not in (former.id, -1))
    await scenario.patiently(lambda: commit(scenario, scenario.cluster.nodes[leader_seen_by(witness)], topic, 2))
    assert former.broker is not None
    fetch = former.broker.controller.quorum._fetch
    held = True

    async def fetch_late(target: int, position: FetchPosition) -> None:
        while held:
            await scenario.clock.sleep(10)
        await fetch(target, position)

    former.broker.controller.quorum._fetch = fetch_late  # type: ignore[method-assign]
    for other in others(scenario, former):
        scenario.network.unblock(other.host, former.host)
        scenario.network.unblock(former.host, other.host)
    for _ in range(LOOKS):
        assert await committed(scenario, former, topic) is None
        await scenario.clock.sleep(10)
    held = False
    await scenario.until(lambda: former.broker is not None and former.broker.lifecycle.holds_lease)


def test_a_coordinator_that_hears_of_its_successor_late_shows_nothing_old() -> None:
    watched().run(heard_again)


def test_a_single_node_keeps_its_lease() -> None:
    async def story(scenario: Scenario) -> None:
        topic = await scenario.create_topic("t")
        node = await coordinator(scenario, topic)
        for _ in range(LOOKS):
            assert await committed(scenario, node, topic) == 1
            await scenario.clock.sleep(50)

    settings = {"offsets.topic.num.partitions": "1", "offsets.topic.replication.factor": "1"}
    watched(nodes=1, settings=settings).run(story)


def test_a_short_fault_costs_nobody_the_lease() -> None:
    """Half a second without the others, for each of the nodes, so also for the controller."""

    async def story(scenario: Scenario) -> None:
        topic = await scenario.create_topic("t")
        node = await coordinator(scenario, topic)
        for cut in scenario.cluster.nodes.values():
            for other in others(scenario, cut):
                scenario.network.block(other.host, cut.host)
            for _ in range(25):
                assert node.broker is not None
                assert node.broker.lifecycle.holds_lease
                await scenario.clock.sleep(20)
            for other in others(scenario, cut):
                scenario.network.unblock(other.host, cut.host)
            await scenario.clock.sleep(500)
        assert await committed(scenario, node, topic) == 1

    watched().run(story)

"""How soon others take over from a controller that fell silent; one that was only slow keeps what it leads."""

import pytest
from scenario import Scenario

from barnabas.simulation.cluster import SimulatedNode
from barnabas.simulation.participants import Topic

# The time of a fetch, after which voters miss their leader, half of it again, in which a former controller may still
# hold its lease, and what a failover takes.
TAKEN_OVER_MS = 2000 + 1000 + 500
SETTINGS = {"min.insync.replicas": "2"}


def controller_of(scenario: Scenario) -> SimulatedNode:
    """The one of the latest epoch."""
    leading = [node for node in nodes(scenario) if node.broker and node.broker.controller.quorum.is_leader]
    return max(leading, key=lambda node: node.broker.controller.quorum.epoch if node.broker else -1)


def nodes(scenario: Scenario) -> list[SimulatedNode]:
    return list(scenario.cluster.nodes.values())


def leader_id(scenario: Scenario, topic: Topic, witness: SimulatedNode) -> int:
    assert witness.broker is not None
    return witness.broker.controller.image.topics_by_id[topic.id].partitions[0].leader


async def topic_led_by(scenario: Scenario, node: SimulatedNode) -> Topic:
    for number in range(10):
        topic = await scenario.create_topic(f"t{number}")
        await scenario.write(topic, b"a")
        if leader_id(scenario, topic, node) == node.id:
            return topic
    raise AssertionError("none of ten topics is led by this node")


@pytest.mark.parametrize("fault", ["pause", "cut", "farewell"])
def test_others_lead_soon_what_a_lost_controller_led(fault: str) -> None:
    """It was given a whole session of nine seconds anew: nobody had heard a heartbeat of it, and nobody could have."""

    async def story(scenario: Scenario) -> None:
        former = controller_of(scenario)
        witness = next(node for node in nodes(scenario) if node is not former)
        topic = await topic_led_by(scenario, former)
        since_ms = scenario.clock.monotonic_ms()
        if fault == "pause":
            scenario.cluster.pause(former)
        elif fault == "cut":
            cut_off(scenario, former)
        else:
            await say_farewell(scenario, former)
            scenario.cluster.kill(former)
        await scenario.until(lambda: leader_id(scenario, topic, witness) != former.id)
        assert scenario.clock.monotonic_ms() - since_ms < TAKEN_OVER_MS

    def cut_off(scenario: Scenario, former: SimulatedNode) -> None:
        for other in nodes(scenario):
            if other is not former:
                scenario.network.block(other.host, former.host)
                scenario.network.block(former.host, other.host)

    async def say_farewell(scenario: Scenario, former: SimulatedNode) -> None:
        """As a process does whose disk is full: its broker is silent already when it says good-bye to the quorum."""
        assert former.broker is not None
        await former.broker.lifecycle.stop(hand_over=False)
        quorum = former.broker.controller.quorum
        quorum._perform(quorum.raft.resign(scenario.clock.monotonic_ms()))
        await scenario.until(lambda: any(n.broker and n.broker.controller.quorum.is_leader for n in nodes(scenario)))

    Scenario(nodes=3, settings=SETTINGS).run(story)


def test_a_controller_that_was_slow_loses_nothing_but_that() -> None:
    """It hears of its successor, and sends it a heartbeat, long before its time is over."""

    async def story(scenario: Scenario) -> None:
        former = controller_of(scenario)
        witness = next(node for node in nodes(scenario) if node is not former)
        topic = await topic_led_by(scenario, former)
        scenario.cluster.pause(former)
        await scenario.until(lambda: controller_of(scenario) is not former)
        assert leader_id(scenario, topic, witness) == former.id
        scenario.cluster.resume(former)
        await scenario.clock.sleep(TAKEN_OVER_MS)
        assert leader_id(scenario, topic, witness) == former.id
        assert witness.broker is not None
        assert not witness.broker.controller.image.brokers[former.id].fenced

    Scenario(nodes=3, settings=SETTINGS).run(story)

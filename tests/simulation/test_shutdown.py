"""How long it takes to stop: in a cluster that goes on, and as the last one."""

import pytest
from scenario import Scenario

from barnabas.simulation.cluster import SimulatedNode
from barnabas.simulation.participants import Topic

STOPPED_MS = 500  # far less than the two seconds between heartbeats, and than the three after which a leader resigns


def leader_of(scenario: Scenario, topic: Topic) -> SimulatedNode:
    return scenario.cluster.nodes[scenario.client.view.leaders[topic.id, 0].node_id]


def controller_of(scenario: Scenario) -> SimulatedNode:
    (found,) = [
        node for node in scenario.cluster.nodes.values() if node.broker and node.broker.controller.quorum.is_leader
    ]
    return found


@pytest.mark.parametrize("seed", range(3))
def test_a_broker_that_leads_something_stops_as_soon_as_all_know_who_leads_in_its_place(seed: int) -> None:
    """It waited for the next heartbeat of every other broker, which is how the controller hears what they know."""

    async def story(scenario: Scenario) -> None:
        topic = await scenario.create_topic("t")
        await scenario.write(topic, b"a")
        node = leader_of(scenario, topic)
        await scenario.clock.sleep(1000 + 300 * seed)  # wherever the others are between two heartbeats
        since_ms = scenario.clock.monotonic_ms()
        scenario.cluster.stop(node)
        await scenario.until(lambda: node.process is None)
        assert scenario.clock.monotonic_ms() - since_ms < STOPPED_MS

    Scenario(nodes=3, seed=seed).run(story)


def test_the_last_one_does_not_wait_for_those_that_are_gone() -> None:
    """The controller asked itself for leave, and waited for a majority that was gone until it gave up to lead."""

    async def story(scenario: Scenario) -> None:
        topic = await scenario.create_topic("t")
        await scenario.write(topic, b"a")
        last = controller_of(scenario)
        others = [node for node in scenario.cluster.nodes.values() if node is not last]
        for node in others:
            scenario.cluster.stop(node)
        await scenario.until(lambda: all(node.process is None for node in others))
        since_ms = scenario.clock.monotonic_ms()
        scenario.cluster.stop(last)
        await scenario.until(lambda: last.process is None)
        assert scenario.clock.monotonic_ms() - since_ms < STOPPED_MS

    Scenario(nodes=3).run(story)


def test_a_leader_of_the_quorum_outlives_one_of_two_others() -> None:
    async def story(scenario: Scenario) -> None:
        controller = controller_of(scenario)
        assert controller.broker is not None
        epoch = controller.broker.controller.quorum.epoch
        other = next(node for node in scenario.cluster.nodes.values() if node is not controller)
        scenario.cluster.kill(other)
        await scenario.clock.sleep(STOPPED_MS)
        scenario.cluster.start(other)
        await scenario.until(lambda: scenario.cluster.is_up)
        assert controller_of(scenario) is controller
        assert controller.broker.controller.quorum.epoch == epoch

    Scenario(nodes=3).run(story)

"""What the simulation once found in how three nodes keep one metadata log, each as the shortest story that shows it."""

from scenario import Scenario

from barnabas.simulation.cluster import SimulatedNode


def leader_of(scenario: Scenario) -> SimulatedNode:
    """Of the metadata quorum."""
    (leader,) = [
        node for node in scenario.cluster.nodes.values() if node.broker and node.broker.controller.quorum.is_leader
    ]
    return leader


def test_a_voter_that_slept_hears_of_new_metadata() -> None:
    """Its pre-vote was refused, it followed the same leader as before, and nobody told its fetches to go on."""

    async def story(scenario: Scenario) -> None:
        leader = leader_of(scenario)
        follower = next(node for node in scenario.cluster.nodes.values() if node is not leader)
        scenario.cluster.pause(follower)
        await scenario.clock.sleep(2500)
        scenario.cluster.resume(follower)
        await scenario.clock.sleep(5000)
        await scenario.create_topic("t")
        broker = follower.broker
        assert broker is not None
        await scenario.until(lambda: "t" in broker.controller.image.topics_by_name)

    Scenario(nodes=3).run(story)

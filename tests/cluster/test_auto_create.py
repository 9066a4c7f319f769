"""Topics that are made by being asked for, whichever broker is asked."""

from cluster import Cluster, run

from barnabas.errors import ErrorCode
from barnabas.protocol.messages.find_coordinator import FindCoordinatorRequest
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from barnabas.server.handlers.find_coordinator import UNAVAILABLE_MS_MAX


def test_every_broker_lets_topics_be_made() -> None:
    async def scenario() -> None:
        async with Cluster(offsets_topic_replication_factor="3", offsets_topic_num_partitions="3") as cluster:
            for id, node in cluster.nodes.items():
                request = MetadataRequest(topics=[MetadataRequestTopic(name=f"t{id}")], allow_auto_topic_creation=True)
                (topic,) = (await node.ask(request, 12)).topics
                assert (topic.error_code, topic.name) == (ErrorCode.NONE, f"t{id}")

    run(scenario)


def test_every_broker_finds_a_groups_first_coordinator() -> None:
    async def scenario() -> None:
        async with Cluster(offsets_topic_replication_factor="3", offsets_topic_num_partitions="3") as cluster:
            other = next(node for node in cluster.running if node is not cluster.controller)
            answer = await other.ask(FindCoordinatorRequest(key="g", key_type=0), 3)
            assert answer.error_code == ErrorCode.NONE
            assert answer.node_id in cluster.nodes

    run(scenario)


def test_a_broker_that_has_shut_down_counts_for_the_replicas_of_a_new_topic() -> None:
    """As in Kafka: the topic gets a replica there, which joins the in-sync replicas when the broker is back."""

    async def scenario() -> None:
        async with Cluster(offsets_topic_replication_factor="3", offsets_topic_num_partitions="3") as cluster:
            stopped = next(node for node in cluster.nodes.values() if node is not cluster.controller)
            stopped_id = stopped.running.node_id
            await stopped.stop()
            answer = await cluster.controller.ask(FindCoordinatorRequest(key="g", key_type=0), 3)
            assert answer.error_code == ErrorCode.NONE
            topic = cluster.controller.running.controller.image.topics_by_name["__consumer_offsets"]
            assert all(stopped_id in partition.replicas for partition in topic.partitions.values())

    run(scenario)


def test_a_client_that_asks_again_at_once_is_slowed_down() -> None:
    """Kafka's Admin client asks thousands of times a second while there is no coordinator."""

    async def scenario() -> None:
        async with Cluster(1, offsets_topic_replication_factor="3") as cluster:
            (node,) = cluster.nodes.values()
            clock = node.running.runtime.clock
            began_ms = clock.monotonic_ms()
            for _ in range(3):
                answer = await node.ask(FindCoordinatorRequest(key="g", key_type=0), 3)
                assert answer.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
            assert clock.monotonic_ms() - began_ms >= 3 * UNAVAILABLE_MS_MAX

    run(scenario)

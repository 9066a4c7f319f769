"""Topics that are made by being asked for, whichever broker is asked."""

from cluster import Cluster, run

from barnabas.errors import ErrorCode
from barnabas.protocol.messages.find_coordinator import FindCoordinatorRequest
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic


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

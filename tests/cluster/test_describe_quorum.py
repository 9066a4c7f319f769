"""DescribeQuorum of several voters, in every version."""

from cluster import Cluster, run

from barnabas.errors import ErrorCode
from barnabas.protocol.messages.describe_quorum import DescribeQuorumRequest, RequestPartitionData, RequestTopicData
from barnabas.types import ZERO_UUID


def test_every_version_tells_who_leads() -> None:
    async def scenario() -> None:
        async with Cluster() as cluster:
            topic = RequestTopicData(topic_name="__cluster_metadata", partitions=[RequestPartitionData()])
            for version in (0, 1, 2):
                answer = await cluster.controller.ask(DescribeQuorumRequest(topics=[topic]), version)
                (state,) = answer.topics[0].partitions
                assert (state.error_code, state.leader_id) == (ErrorCode.NONE, cluster.controller.running.node_id)
                assert sorted(each.replica_id for each in state.current_voters) == list(cluster.nodes)
                assert {each.replica_directory_id for each in state.current_voters} == {ZERO_UUID}, "kraft.version is 0"

    run(scenario)

"""The consumer group protocol can be switched off for a cluster; clients then fall back to the classic one."""

from cluster import Cluster, run

from barnabas.errors import ErrorCode
from barnabas.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from barnabas.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from barnabas.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest

SAFE_DOWNGRADE = 2


def test_at_group_version_0_the_protocol_is_unsupported() -> None:
    async def scenario() -> None:
        async with Cluster(1) as cluster:
            (node,) = cluster.nodes.values()
            switch_off = FeatureUpdateKey(feature="group.version", max_version_level=0, upgrade_type=SAFE_DOWNGRADE)
            answer = await node.ask(UpdateFeaturesRequest(feature_updates=[switch_off]), 1)
            assert answer.error_code == ErrorCode.NONE
            beat = ConsumerGroupHeartbeatRequest(group_id="g", member_id="m", subscribed_topic_names=["t"])
            assert (await node.ask(beat, 1)).error_code == ErrorCode.UNSUPPORTED_VERSION
            described = await node.ask(ConsumerGroupDescribeRequest(group_ids=["g"]), 1)
            assert [group.error_code for group in described.groups] == [ErrorCode.UNSUPPORTED_VERSION]

    run(scenario)

"""Settings of one broker are changed by asking that broker, whoever the controller is."""

from cluster import Cluster, run, until

from barnabas.errors import ErrorCode
from barnabas.metadata.image import ResourceType
from barnabas.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)


async def alter(cluster: Cluster, node: int, kind: ResourceType, resource: str, name: str, value: str) -> ErrorCode:
    config = AlterableConfig(name=name, config_operation=0, value=value)
    wanted = AlterConfigsResource(resource_type=kind, resource_name=resource, configs=[config])
    answer = await cluster.nodes[node].ask(IncrementalAlterConfigsRequest(resources=[wanted]), 1)
    return ErrorCode(answer.responses[0].error_code)


def test_every_broker_answers_for_itself_and_the_controller_for_all() -> None:
    async def scenario() -> None:
        async with Cluster() as cluster:
            await cluster.create_topic("t")
            for node in cluster.nodes:
                other = str(node % 3 + 1)
                maximum = "message.max.bytes"
                assert (
                    await alter(cluster, node, ResourceType.BROKER, str(node), maximum, f"{node}000") == ErrorCode.NONE
                )
                assert await alter(cluster, node, ResourceType.BROKER, other, maximum, "1") == ErrorCode.INVALID_REQUEST
                assert await alter(cluster, node, ResourceType.TOPIC, "t", "segment.ms", "7") == ErrorCode.NONE
                assert await alter(cluster, node, ResourceType.TOPIC, "no", "segment.ms", "7") != ErrorCode.NONE
            for number, node in cluster.nodes.items():
                await until(
                    lambda number=number, node=node: node.running.config.message_max_bytes == number * 1000, "it counts"
                )

    run(scenario)

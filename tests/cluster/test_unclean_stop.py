"""A broker that did not end in good order may lack what it had acknowledged, and is treated accordingly (KIP-966)."""

from cluster import Cluster, run, until

from barnabas.errors import ErrorCode
from barnabas.protocol.messages.create_topics import CreatableReplicaAssignment, CreatableTopic, CreateTopicsRequest

RECOVERED, RECOVERING = 0, 1


def test_the_only_replica_leads_again_and_it_is_known_whether_it_may_lack_something() -> None:
    async def scenario() -> None:
        async with Cluster(1) as cluster:
            await cluster.create_topic("t", replicas=1)
            await cluster.produce("t", b"a")
            [node] = cluster.running
            await node.stop()
            await node.start()
            await until(lambda: cluster.replica(1, "t").is_leader, "it leads again")
            assert cluster.state("t").leader_recovery_state == RECOVERED
            await node.stop()
            node.forget_clean_end()
            await node.start()
            await until(lambda: cluster.replica(1, "t").is_leader, "it leads again")
            assert cluster.state("t").leader_recovery_state == RECOVERING
            assert await cluster.values("t") == [b"a"]

    run(scenario)


async def with_replicas_on(cluster: Cluster, *replicas: int, min_insync_replicas: str) -> None:
    topic = CreatableTopic(
        name="t",
        num_partitions=-1,
        replication_factor=-1,
        assignments=[CreatableReplicaAssignment(partition_index=0, broker_ids=list(replicas))],
    )
    answer = await cluster.controller.ask(CreateTopicsRequest(topics=[topic], timeout_ms=60_000), 7)
    assert answer.topics[0].error_code == ErrorCode.NONE
    await cluster.set_topic_config("t", min_insync_replicas=min_insync_replicas)
    await cluster.in_sync("t", *replicas)


def test_who_stopped_cleanly_stays_eligible_and_who_did_not_does_not() -> None:
    async def scenario() -> None:
        async with Cluster() as cluster:
            await with_replicas_on(cluster, 1, 2, min_insync_replicas="2")
            await cluster.produce("t", b"a")
            first = cluster.nodes[1].running.controller
            for is_clean in (True, False):
                await cluster.nodes[2].stop()
                await until(lambda: cluster.state("t").eligible_leader_replicas == (2,), "it may lead next")
                if not is_clean:
                    cluster.nodes[2].forget_clean_end()
                told: list[tuple[int, ...]] = []
                before = first.image.brokers[2].epoch

                def registered_anew(told: list[tuple[int, ...]] = told, before: int = before) -> None:
                    if first.image.brokers[2].epoch != before:
                        told.append(first.image.partition("t", 0).eligible_leader_replicas)

                cluster.on_change(1, registered_anew)
                await cluster.nodes[2].start()
                await cluster.in_sync("t", 1, 2)
                registered = told.index((2,)) if (2,) in told else -1
                assert (registered >= 0) == is_clean, told
                await until(lambda: cluster.state("t").eligible_leader_replicas == (), "there are enough again")

    run(scenario)

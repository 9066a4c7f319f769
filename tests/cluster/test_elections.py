"""Elections that nobody asks for: back to the preferred leader, and to whoever is left where that is allowed."""

from cluster import Cluster, run, until

from barnabas.errors import ErrorCode

RECOVERED, RECOVERING = 0, 1


def test_the_preferred_leader_leads_again_by_itself() -> None:
    async def scenario() -> None:
        async with Cluster(leader_imbalance_check_interval_seconds="1") as cluster:
            await cluster.create_topic("t", partitions=3)
            preferred = [cluster.state("t", number).replicas[0] for number in range(3)]
            assert [cluster.leader_id("t", number) for number in range(3)] == preferred
            gone = preferred[0]
            await cluster.nodes[gone].stop()
            await until(lambda: cluster.leader_id("t") not in (gone, -1), "another leads")
            await cluster.nodes[gone].start()
            await until(lambda: cluster.leader_id("t") == gone, "the preferred leader leads again")
            await until(lambda: cluster.replica(gone, "t").is_leader, "and knows it")
            assert (await cluster.produce("t", b"a")).error_code == ErrorCode.NONE

    run(scenario)


def test_a_replica_that_lags_leads_only_once_that_is_allowed() -> None:
    async def scenario() -> None:
        async with Cluster(replica_lag_time_max_ms="800") as cluster:
            await cluster.create_topic("t", replicas=2)
            await cluster.produce("t", b"a")
            leader = cluster.leader_id("t")
            [slow] = cluster.followers("t")
            await cluster.pause_following(slow)
            await cluster.produce("t", b"only here", acks=1)
            await cluster.in_sync("t", leader)
            await cluster.nodes[leader].stop()
            await until(lambda: cluster.leader_id("t") == -1, "nobody may lead")
            await cluster.set_topic_config("t", unclean_leader_election_enable="true")
            await until(lambda: cluster.leader_id("t") == slow, "now it may")
            assert cluster.state("t").leader_recovery_state == RECOVERING
            await until(lambda: cluster.replica(slow, "t").is_leader, "it knows")
            await cluster.produce("t", b"b")
            await cluster.nodes[leader].start()
            await cluster.in_sync("t", leader, slow)
            assert cluster.state("t").leader_recovery_state == RECOVERED
            await cluster.agree("t")
            assert await cluster.values("t") == [b"a", b"b"]

    run(scenario)

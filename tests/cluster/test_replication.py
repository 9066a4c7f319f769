"""Three brokers in one process: what one is given, all have, whoever comes and goes."""

import asyncio

from cluster import Cluster, run, until

from barnabas.errors import ErrorCode
from barnabas.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from barnabas.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from barnabas.protocol.record_batch import Record, decode_records, encode_batch


def test_what_is_acknowledged_is_on_every_broker() -> None:
    async def scenario() -> None:
        async with Cluster() as cluster:
            await cluster.create_topic("t")
            answer = await cluster.produce("t", b"a", b"b")
            assert (answer.error_code, answer.base_offset) == (ErrorCode.NONE, 0)
            for replica in cluster.replicas("t"):
                assert replica.log.log_end_offset == 2
                await until(lambda replica=replica: replica.log.high_watermark == 2, "all learn the watermark")
            assert await cluster.values("t") == [b"a", b"b"]
            for follower in cluster.followers("t"):
                assert await cluster.values("t", node=follower) == [b"a", b"b"]
            await cluster.agree("t")

    run(scenario)


def test_many_partitions_at_once() -> None:
    async def scenario() -> None:
        async with Cluster() as cluster:
            await cluster.create_topic("t", partitions=24)
            for turn in range(3):
                answers = await asyncio.gather(
                    *(cluster.produce("t", b"%d" % turn * 1000, partition=number) for number in range(24))
                )
                assert {answer.error_code for answer in answers} == {ErrorCode.NONE}
            for number in range(24):
                await cluster.agree("t", number)
                assert len(await cluster.values("t", number)) == 3

    run(scenario)


def test_who_does_not_lead_says_who_does() -> None:
    async def scenario() -> None:
        async with Cluster() as cluster:
            await cluster.create_topic("t", replicas=2)
            leader_id = cluster.leader_id("t")
            leader_port = cluster.leader("t").running.addresses[0][1]
            stranger = next(node for node in cluster.nodes if node not in cluster.state("t").replicas)
            for wrong in (*cluster.followers("t"), stranger):
                answer = await cluster.produce("t", b"a", node=wrong)
                assert answer.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
                assert answer.current_leader.leader_id == leader_id
                assert answer.current_leader.leader_epoch == cluster.state("t").leader_epoch
            topic_id = cluster.controller.running.controller.image.topics_by_name["t"].id
            wanted = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1000)
            request = FetchRequest(
                max_wait_ms=0, min_bytes=1, topics=[FetchTopic(topic_id=topic_id, partitions=[wanted])]
            )
            answer = await cluster.nodes[stranger].ask(request, 17)
            [data] = answer.responses[0].partitions
            assert data.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
            assert data.current_leader.leader_id == leader_id
            assert [(each.node_id, each.port) for each in answer.node_endpoints] == [(leader_id, leader_port)]

    run(scenario)


def test_a_leader_that_leaves_is_followed_by_another_and_comes_back() -> None:
    async def scenario() -> None:
        async with Cluster() as cluster:
            await cluster.create_topic("t", min_insync_replicas="2")
            await cluster.produce("t", b"a")
            first = cluster.leader_id("t")
            await cluster.nodes[first].stop()
            await until(lambda: cluster.leader_id("t") not in (first, -1), "another leads")
            await until(lambda: cluster.replica(cluster.leader_id("t"), "t").is_leader, "and knows it")
            answer = await cluster.produce("t", b"b")
            assert (answer.error_code, answer.base_offset) == (ErrorCode.NONE, 1)
            await cluster.nodes[first].start()
            await cluster.in_sync("t", 1, 2, 3)
            await cluster.produce("t", b"c")
            await cluster.agree("t")
            assert await cluster.values("t") == [b"a", b"b", b"c"]

    run(scenario)


def test_records_that_nobody_else_had_are_cut_when_their_leader_comes_back() -> None:
    async def scenario() -> None:
        async with Cluster() as cluster:
            await cluster.create_topic("t")
            await cluster.produce("t", b"a")
            first = cluster.leader_id("t")
            followers = cluster.followers("t")
            for follower in followers:
                await cluster.pause_following(follower)
            answer = await cluster.produce("t", b"lost", b"too", acks=1)
            assert (answer.error_code, answer.base_offset) == (ErrorCode.NONE, 1)
            assert (await cluster.fetch("t")).high_watermark == 1, "consumers do not see what is not committed"
            await cluster.nodes[first].stop()
            await until(lambda: cluster.leader_id("t") in followers, "another leads")
            await until(lambda: cluster.replica(cluster.leader_id("t"), "t").is_leader, "and knows it")
            for follower in followers:
                cluster.resume_following(follower)
            await cluster.produce("t", b"b")
            await cluster.nodes[first].start()
            await cluster.in_sync("t", 1, 2, 3)
            await cluster.agree("t")
            assert await cluster.values("t", node=first) == [b"a", b"b"]

    run(scenario)


def test_a_follower_that_stands_still_falls_out_of_sync_and_gets_in_again() -> None:
    async def scenario() -> None:
        async with Cluster(replica_lag_time_max_ms="3000") as cluster:
            await cluster.create_topic("t")
            await cluster.produce("t", b"a")
            leader_id = cluster.leader_id("t")
            slow, fast = cluster.followers("t")
            await cluster.pause_following(slow)
            answer = await cluster.produce("t", b"b")
            assert answer.error_code == ErrorCode.NONE, "it waits until the slow one does not count any more"
            await cluster.in_sync("t", leader_id, fast)
            assert (await cluster.produce("t", b"c")).error_code == ErrorCode.NONE
            cluster.resume_following(slow)
            await cluster.in_sync("t", 1, 2, 3)
            await cluster.agree("t")

    run(scenario)


def test_too_few_in_sync_take_no_writes_that_want_all() -> None:
    async def scenario() -> None:
        async with Cluster(replica_lag_time_max_ms="3000") as cluster:
            await cluster.create_topic("t", min_insync_replicas="3")
            await cluster.produce("t", b"a")
            slow, fast = cluster.followers("t")
            await cluster.pause_following(slow)
            assert (await cluster.produce("t", b"b", timeout_ms=50)).error_code == ErrorCode.REQUEST_TIMED_OUT
            waiting = cluster.replica(cluster.leader_id("t"), "t").committed(2)
            await cluster.in_sync("t", cluster.leader_id("t"), fast)
            assert waiting is not None
            assert not waiting.done(), "it may be committed yet, when the slow one is back"
            assert (await cluster.produce("t", b"c")).error_code == ErrorCode.NOT_ENOUGH_REPLICAS
            assert (await cluster.produce("t", b"d", acks=1)).error_code == ErrorCode.NONE
            assert (await cluster.fetch("t")).high_watermark == 1, "what may be lost is not shown"
            cluster.resume_following(slow)
            await cluster.in_sync("t", 1, 2, 3)
            assert await waiting == ErrorCode.NONE
            assert (await cluster.produce("t", b"e")).error_code == ErrorCode.NONE
            assert await cluster.values("t") == [b"a", b"b", b"d", b"e"]

    run(scenario)


def test_a_consumer_that_waits_gets_records_once_they_are_committed() -> None:
    async def scenario() -> None:
        async with Cluster() as cluster:
            await cluster.create_topic("t")
            slow, _fast = cluster.followers("t")
            await cluster.pause_following(slow)
            waiting = asyncio.ensure_future(cluster.fetch("t", max_wait_ms=5_000))
            partition = cluster.replica(cluster.leader_id("t"), "t")
            await until(lambda: partition.fetch_waits, "the consumer waits")
            batch = encode_batch([Record(0, 1, None, b"a", [])])
            assert partition.append(memoryview(batch), 1).error == ErrorCode.NONE
            assert partition.fetch_waits, "it still waits"
            cluster.resume_following(slow)
            data = await waiting
            assert data.high_watermark == 1

    run(scenario)


def test_a_consumer_is_sent_to_the_replica_in_its_rack() -> None:
    async def scenario() -> None:
        selector = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
        async with Cluster(racks=True, replica_selector_class=selector) as cluster:
            await cluster.create_topic("t")
            await cluster.produce("t", b"a")
            near, other = cluster.followers("t")
            data = await cluster.fetch("t", rack=f"rack-{near}", max_wait_ms=5000)
            assert (data.preferred_read_replica, bytes(data.records)) == (near, b"")
            await cluster.agree("t")
            waiting = asyncio.ensure_future(cluster.fetch("t", 1, rack=f"rack-{near}", node=near, max_wait_ms=5000))
            await until(lambda: cluster.replica(near, "t").fetch_waits, "it waits at the follower")
            await cluster.produce("t", b"b")
            data = await waiting
            assert data.preferred_read_replica == -1
            assert [record.value for record in decode_records(data.records)] == [b"b"]
            for rack in ("", "elsewhere", f"rack-{cluster.leader_id('t')}"):
                data = await cluster.fetch("t", rack=rack)
                assert data.preferred_read_replica == -1
                assert data.records
            assert (await cluster.fetch("t", rack=f"rack-{other}")).preferred_read_replica == other

    run(scenario)


def test_a_topic_that_is_deleted_is_gone_everywhere() -> None:
    async def scenario() -> None:
        async with Cluster() as cluster:
            await cluster.create_topic("t", partitions=3)
            await cluster.produce("t", b"a")
            request = DeleteTopicsRequest(topics=[DeleteTopicState(name="t")], timeout_ms=60_000)
            await cluster.controller.ask(request, 6)
            for node in cluster.running:
                await until(lambda broker=node.running: not broker.partitions.topic("t"), "it is gone")
                assert [name for name in node.disk.list_directory("/memory") if name.startswith("t-")]
                assert all(
                    name.endswith("-delete") for name in node.disk.list_directory("/memory") if name.startswith("t-")
                )
            await cluster.create_topic("t")
            await cluster.produce("t", b"b")
            await cluster.agree("t")
            assert await cluster.values("t") == [b"b"]

    run(scenario)

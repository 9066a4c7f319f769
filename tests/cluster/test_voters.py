"""Voters that stand in the metadata log: a quorum of one grows, its leader is voted out, a voter moves."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from cluster import Cluster, Node, free_ports, run, until

from barnabas.client.connection import ClientConnection
from barnabas.consensus.voter_history import VoterHistory
from barnabas.errors import ErrorCode
from barnabas.protocol.messages.add_raft_voter import AddRaftVoterRequest, Listener
from barnabas.protocol.messages.api_versions import ApiVersionsRequest
from barnabas.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from barnabas.protocol.messages.describe_cluster import DescribeClusterRequest
from barnabas.protocol.messages.describe_quorum import DescribeQuorumRequest, RequestPartitionData, RequestTopicData
from barnabas.protocol.messages.remove_raft_voter import RemoveRaftVoterRequest
from barnabas.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from barnabas.protocol.messages.update_raft_voter import KRaftVersionFeature, UpdateRaftVoterRequest
from barnabas.protocol.messages.update_raft_voter import Listener as UpdatedListener
from barnabas.runtime.frame_reader import FrameBuffers
from barnabas.runtime.memory_disk import MemoryDisk

DESCRIBE_QUORUM = DescribeQuorumRequest(
    topics=[RequestTopicData(topic_name="__cluster_metadata", partitions=[RequestPartitionData(partition_index=0)])]
)
NOBODY = bytes(range(16))


class Quorum:
    """Nodes 1 to `count`, both broker and controller; only the first is a voter."""

    def __init__(self, count: int, **settings: str) -> None:
        ports = free_ports(2 * count)
        self.ports = {number: ports[count + number - 1] for number in range(1, count + 1)}
        self.nodes = {
            number: Node(
                {
                    "node.id": str(number),
                    "listeners": f"PLAINTEXT://127.0.0.1:{ports[number - 1]},CONTROLLER://127.0.0.1:{port}",
                    "controller.listener.names": "CONTROLLER",
                    "inter.broker.listener.name": "PLAINTEXT",
                    "controller.quorum.bootstrap.servers": f"localhost:{self.ports[1]}",
                    "log.dirs": "/memory",
                    "offsets.topic.replication.factor": "1",
                    **{name.replace("_", "."): value for name, value in settings.items()},
                }
            )
            for number, port in self.ports.items()
        }

    def key(self, number: int) -> Any:
        return self.nodes[number].running.controller.quorum.raft.replica

    @property
    def leader(self) -> Node:
        return next(node for node in self.running if node.running.controller.quorum.is_leader)

    @property
    def running(self) -> list[Node]:
        return [node for node in self.nodes.values() if node.broker is not None]

    async def add(self, number: int, by: int = 1) -> ErrorCode:
        listeners = [Listener(name="CONTROLLER", host="127.0.0.1", port=self.ports[number])]
        request = AddRaftVoterRequest(
            cluster_id=None,
            timeout_ms=60_000,
            voter_id=number,
            voter_directory_id=self.key(number).directory_id,
            listeners=listeners,
        )
        return ErrorCode((await self.nodes[by].ask(request, 1)).error_code)

    async def remove(self, number: int, by: int = 1) -> ErrorCode:
        request = RemoveRaftVoterRequest(
            cluster_id=None, voter_id=number, voter_directory_id=self.key(number).directory_id
        )
        return ErrorCode((await self.nodes[by].ask(request, 0)).error_code)

    async def voters(self, by: int = 1) -> list[tuple[int, bytes]]:
        answer = await self.nodes[by].ask(DESCRIBE_QUORUM, 2)
        quorum = answer.topics[0].partitions[0]
        return [(each.replica_id, each.replica_directory_id) for each in quorum.current_voters]

    async def create_topic(self, name: str, by: int = 1) -> None:
        request = CreateTopicsRequest(
            topics=[CreatableTopic(name=name, num_partitions=1, replication_factor=1)], timeout_ms=60_000
        )
        answer = await self.nodes[by].ask(request, 7)
        assert answer.topics[0].error_code == ErrorCode.NONE, answer


@asynccontextmanager
async def quorum_of(count: int, **settings: str) -> AsyncIterator[Quorum]:
    quorum = Quorum(count, **settings)
    try:
        for node in quorum.nodes.values():
            await node.start()
        yield quorum
    finally:
        await asyncio.gather(*(node.stop() for node in quorum.running))


async def grown(quorum: Quorum) -> None:
    for number in (2, 3):
        assert await quorum.add(number) == ErrorCode.NONE
    assert await quorum.voters() == [quorum.key(number) for number in (1, 2, 3)]


def test_a_quorum_of_one_grows_to_three_and_survives_its_first() -> None:
    async def scenario() -> None:
        async with quorum_of(3) as quorum:
            assert await quorum.voters() == [quorum.key(1)]
            assert not quorum.nodes[2].running.controller.quorum.raft.is_voter
            await grown(quorum)
            for node in quorum.running:
                assert node.running.controller.quorum.raft.voters.ids == (1, 2, 3)
            await quorum.create_topic("before")
            await quorum.nodes[1].stop()
            await until(lambda: any(node.running.controller.quorum.is_leader for node in quorum.running), "another")
            await quorum.create_topic("after", by=2)
            # It has the addresses from the log now: the one server that it was told of is gone.
            await quorum.nodes[3].stop()
            await quorum.nodes[3].start()
            await quorum.nodes[1].start()
            assert "after" in quorum.nodes[1].running.controller.image.topics_by_name
            assert {node.running.cluster_id for node in quorum.running} == {quorum.nodes[2].running.cluster_id}

    run(scenario)


def test_a_leader_that_is_removed_hands_over() -> None:
    async def scenario() -> None:
        async with quorum_of(3) as quorum:
            await grown(quorum)
            assert await quorum.remove(1, by=2) == ErrorCode.NONE
            await until(lambda: any(node.running.controller.quorum.is_leader for node in quorum.running[1:]), "another")
            assert await quorum.voters(by=2) == [quorum.key(2), quorum.key(3)]
            raft = quorum.nodes[1].running.controller.quorum.raft
            assert not raft.is_voter
            await quorum.create_topic("t", by=3)
            await until(
                lambda: "t" in quorum.nodes[1].running.controller.image.topics_by_name, "it goes on as an observer"
            )
            assert await quorum.add(1, by=2) == ErrorCode.NONE
            assert len(await quorum.voters(by=3)) == 3

    run(scenario)


def test_voters_survive_in_a_snapshot() -> None:
    async def scenario() -> None:
        settings = {"metadata_log_max_record_bytes_between_snapshots": "1000", "metadata_max_retention_bytes": "0"}
        async with quorum_of(3, **settings) as quorum:
            await grown(quorum)
            for number in range(12):
                await quorum.create_topic(f"t{number}")
            log = quorum.nodes[2].running.controller.log
            await until(lambda: log.start_offset > 30, "the log is cut")
            await quorum.nodes[2].stop()
            await quorum.nodes[2].start()
            assert quorum.nodes[2].running.controller.quorum.raft.voters.ids == (1, 2, 3)

    run(scenario)


def test_what_is_refused() -> None:
    """The codes are those of Apache Kafka 4.3.1, asked the same."""

    async def scenario() -> None:
        async with quorum_of(2) as quorum:
            one, two = quorum.key(1), quorum.key(2)
            node = quorum.nodes[1]
            listeners = [Listener(name="CONTROLLER", host="127.0.0.1", port=free_ports(1)[0])]

            async def add(**fields: Any) -> ErrorCode:
                given = {
                    "cluster_id": None,
                    "voter_id": 3,
                    "voter_directory_id": NOBODY,
                    "listeners": listeners,
                    **fields,
                }
                return ErrorCode((await node.ask(AddRaftVoterRequest(timeout_ms=60_000, **given), 0)).error_code)

            async def remove(**fields: Any) -> ErrorCode:
                given = {"cluster_id": None, "voter_id": 1, "voter_directory_id": one.directory_id, **fields}
                return ErrorCode((await node.ask(RemoveRaftVoterRequest(**given), 0)).error_code)

            assert await add(cluster_id="other") == ErrorCode.INCONSISTENT_CLUSTER_ID
            assert await add(voter_directory_id=bytes(16)) == ErrorCode.INVALID_REQUEST
            assert await add(listeners=[]) == ErrorCode.INVALID_REQUEST
            assert await add(voter_id=1) == ErrorCode.DUPLICATE_VOTER
            assert await add() == ErrorCode.REQUEST_TIMED_OUT, "nobody answers there"
            lives = [Listener(name="CONTROLLER", host="127.0.0.1", port=quorum.ports[2])]
            assert await add(listeners=lives) == ErrorCode.REQUEST_TIMED_OUT, "it has never fetched"
            assert await add(voter_id=2) == ErrorCode.REQUEST_TIMED_OUT, "nobody is there, though the node lives"
            assert await quorum.add(2) == ErrorCode.NONE, "what was said of its address is forgotten"
            assert await quorum.remove(2) == ErrorCode.NONE
            assert await remove(cluster_id="other") == ErrorCode.INCONSISTENT_CLUSTER_ID
            assert await remove(voter_directory_id=bytes(16)) == ErrorCode.INVALID_REQUEST
            assert await remove(voter_id=2, voter_directory_id=two.directory_id) == ErrorCode.VOTER_NOT_FOUND
            assert await remove(voter_directory_id=NOBODY) == ErrorCode.VOTER_NOT_FOUND
            assert await remove() == ErrorCode.VOTER_NOT_FOUND, "the last one stays"
            assert await quorum.voters() == [one]

    run(scenario)


def test_a_voter_moves() -> None:
    async def scenario() -> None:
        async with quorum_of(2) as quorum:
            runtime = quorum.nodes[1].running.runtime
            connection = ClientConnection(
                socket=await runtime.network.connect("127.0.0.1", quorum.ports[1]),
                clock=runtime.clock,
                client_id="test",
                buffers=FrameBuffers(),
            )
            key = quorum.key(1)
            epoch = quorum.nodes[1].running.controller.quorum.epoch

            async def update(**fields: Any) -> Any:
                given = {
                    "cluster_id": None,
                    "current_leader_epoch": epoch,
                    "voter_id": 1,
                    "voter_directory_id": key.directory_id,
                    "listeners": [UpdatedListener(name="CONTROLLER", host="localhost", port=quorum.ports[1])],
                    "kraft_version_feature": KRaftVersionFeature(min_supported_version=0, max_supported_version=1),
                    **fields,
                }
                answer = await connection.request(UpdateRaftVoterRequest(**given), 0, 5000)
                leader = answer.current_leader
                assert (leader.leader_id, leader.leader_epoch) == (1, epoch)
                assert (leader.host, leader.port) == ("127.0.0.1", quorum.ports[1])
                return ErrorCode(answer.error_code)

            none = KRaftVersionFeature(min_supported_version=0, max_supported_version=0)
            assert await update(cluster_id="other") == ErrorCode.INCONSISTENT_CLUSTER_ID
            assert await update(current_leader_epoch=epoch - 1) == ErrorCode.FENCED_LEADER_EPOCH
            assert await update(current_leader_epoch=epoch + 1) == ErrorCode.UNKNOWN_LEADER_EPOCH
            assert await update(voter_directory_id=NOBODY) == ErrorCode.VOTER_NOT_FOUND
            assert await update(voter_directory_id=bytes(16)) == ErrorCode.INVALID_REQUEST
            assert await update(voter_id=7) == ErrorCode.VOTER_NOT_FOUND
            assert await update(listeners=[]) == ErrorCode.INVALID_REQUEST
            assert await update(kraft_version_feature=none) == ErrorCode.INVALID_REQUEST
            assert await update() == ErrorCode.NONE
            answer = await quorum.nodes[2].ask(DESCRIBE_QUORUM, 2)
            assert [(each.node_id, each.listeners[0].host) for each in answer.nodes] == [(1, "localhost")]
            cluster = await connection.request(DescribeClusterRequest(endpoint_type=2), 2, 5000)
            assert (cluster.controller_id, cluster.endpoint_type) == (1, 2)
            assert [each.broker_id for each in cluster.brokers] == [1, 2]
            wrong = await connection.request(DescribeClusterRequest(endpoint_type=1), 2, 5000)
            assert wrong.error_code == ErrorCode.MISMATCHED_ENDPOINT_TYPE
            connection.close()

    run(scenario)


def test_a_voter_that_comes_back_elsewhere_says_so() -> None:
    async def scenario() -> None:
        async with quorum_of(3) as quorum:
            await grown(quorum)
            node = quorum.nodes[3]
            await node.stop()
            [port] = free_ports(1)
            node.settings["listeners"] = node.settings["listeners"].replace(f":{quorum.ports[3]}", f":{port}")
            await node.start()

            def known(other: Node) -> int:
                voter = other.running.controller.quorum.raft.voters.get(3)
                assert voter is not None
                return voter.endpoints[0].port

            for other in quorum.running:
                await until(lambda other=other: known(other) == port, "all know where it is")
            await quorum.nodes[1].stop()
            await until(lambda: any(node.running.controller.quorum.is_leader for node in quorum.running), "a leader")
            await quorum.create_topic("t", by=2)

    run(scenario)


def test_controllers_join_by_themselves_if_told_to() -> None:
    async def scenario() -> None:
        async with quorum_of(3, controller_quorum_auto_join_enable="true") as quorum:
            for node in quorum.running:
                raft = node.running.controller.quorum.raft
                await until(lambda raft=raft: raft.voters.ids == (1, 2, 3), "all vote")
            # A lost disk: the node comes back as another replica, and takes the place of the lost one.
            lost = quorum.key(3)
            await quorum.nodes[3].stop()
            quorum.nodes[3].disk = MemoryDisk()
            await quorum.nodes[3].start()
            key = quorum.key(3)
            assert key != lost
            for node in quorum.running:
                raft = node.running.controller.quorum.raft
                await until(lambda raft=raft: raft.voters.is_voter(key), "the new one votes")
            answer = await quorum.nodes[1].ask(ApiVersionsRequest(), 0)
            assert answer.error_code == ErrorCode.NONE
            request = ApiVersionsRequest(client_software_name="a", client_software_version="1")
            answer = await quorum.nodes[1].ask(request, 4)
            levels = {each.name: each.max_version_level for each in answer.finalized_features}
            assert levels["kraft.version"] == 1

    run(scenario)


def test_the_quorum_is_described_in_every_version() -> None:
    async def scenario() -> None:
        async with quorum_of(2) as quorum:
            for version in (0, 1, 2):
                answer = await quorum.nodes[2].ask(DESCRIBE_QUORUM, version)
                [voter] = answer.topics[0].partitions[0].current_voters
                [observer] = answer.topics[0].partitions[0].observers
                assert (voter.replica_id, observer.replica_id) == (1, 2)
                assert (voter.replica_directory_id == quorum.key(1).directory_id) == (version == 2)
                assert (voter.last_fetch_timestamp > 0) == (version > 0)
                assert bool(answer.nodes) == (version == 2)

    run(scenario)


def test_static_voters_cannot_be_changed() -> None:
    async def scenario() -> None:
        node = Node({"node.id": "1", "listeners": "PLAINTEXT://127.0.0.1:0", "log.dirs": "/memory"})
        await node.start()
        listeners = [Listener(name="", host="127.0.0.1", port=1)]
        request = AddRaftVoterRequest(
            cluster_id=None, timeout_ms=60_000, voter_id=2, voter_directory_id=NOBODY, listeners=listeners
        )
        assert (await node.ask(request, 0)).error_code == ErrorCode.UNSUPPORTED_VERSION
        await node.stop()

    run(scenario)


def upgrade(validate_only: bool = False) -> UpdateFeaturesRequest:
    key = FeatureUpdateKey(feature="kraft.version", max_version_level=1, upgrade_type=1)
    return UpdateFeaturesRequest(feature_updates=[key], validate_only=validate_only)


def test_voters_go_from_the_configuration_into_the_log() -> None:
    """All of them with their directories; then one can be taken out, and a restart with the old settings heeds that."""

    async def scenario() -> None:
        async with Cluster(3) as cluster:

            def histories() -> list[VoterHistory]:
                return [node.running.controller.quorum.voter_history for node in cluster.running]

            for validate_only, level in ((True, 0), (False, 1), (False, 1)):
                answer = await cluster.ask_controller(upgrade(validate_only), 2)
                assert answer.error_code == ErrorCode.NONE, answer
                await until(
                    lambda level=level: [each.kraft_version for each in histories()] == [level] * 3, "all are there"
                )
            keys = [node.running.controller.quorum.raft.replica for node in cluster.running]
            assert all([voter.key for voter in each.voters.voters] == keys for each in histories())
            gone = next(key for key in keys if not cluster.nodes[key.id].running.controller.quorum.is_leader)
            removal = RemoveRaftVoterRequest(cluster_id=None, voter_id=gone.id, voter_directory_id=gone.directory_id)
            assert (await cluster.ask_controller(removal, 0)).error_code == ErrorCode.NONE
            await asyncio.gather(*(node.stop() for node in cluster.running))
            await asyncio.gather(*(node.start() for node in cluster.nodes.values()))
            await until(lambda: all(gone.id not in each.voters.ids for each in histories()), "it stays out")
            await cluster.create_topic("t")

    run(scenario)

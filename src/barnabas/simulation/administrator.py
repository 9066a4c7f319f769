"""Who administers the cluster while others use it: topics, partitions, leaders, voters.

Always holds: a topic that others use is never deleted, and never has fewer than two replicas.
Does not know: what becomes of a request that was not answered; it looks at the metadata instead.
"""

from __future__ import annotations

from barnabas.client.cluster import TRANSACTION_VERSION
from barnabas.controller.feature_updates import SAFE_DOWNGRADE, UPGRADE
from barnabas.controller.features import KRAFT_VERSION
from barnabas.errors import ErrorCode
from barnabas.metadata.topic_names import METADATA_TOPIC
from barnabas.protocol.messages.add_raft_voter import AddRaftVoterRequest, Listener
from barnabas.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from barnabas.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from barnabas.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from barnabas.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from barnabas.protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    ReplicaState,
    RequestPartitionData,
    RequestTopicData,
)
from barnabas.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from barnabas.protocol.messages.remove_raft_voter import RemoveRaftVoterRequest
from barnabas.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from barnabas.simulation.client import Unavailable
from barnabas.simulation.cluster import CONTROLLER_PORT
from barnabas.simulation.history import TopicCreated, TopicDeleted, TopicDeletionAsked
from barnabas.simulation.participants import RequestingParticipant, Topic
from barnabas.types import Uuid

ADD_RAFT_VOTER_VERSION = 1
ALTER_PARTITION_REASSIGNMENTS_VERSION = 1
CREATE_PARTITIONS_VERSION = 3
CREATE_TOPICS_VERSION = 7
DELETE_TOPICS_VERSION = 6
DESCRIBE_QUORUM_VERSION = 2
ELECT_LEADERS_VERSION = 2
REMOVE_RAFT_VOTER_VERSION = 0
UPDATE_FEATURES_VERSION = 2
PREFERRED = 0
MIN_REPLICAS = 2  # with fewer nothing that is acknowledged would survive its node


class Administrator(RequestingParticipant):
    """Creates topics, deletes those that nobody minds losing, and moves the partitions of the others."""

    _voters_in_log = False  # as far as it knows

    async def step(self) -> None:
        random, habits = self.client.random, self.board.habits
        if habits.changes_voters and not self.board.is_calm and random.random() < 0.2:
            await self._change_voters()
            self.progress += 1
            return
        if habits.moves_partitions and not self.board.is_calm and random.random() < 0.5:
            await random.choice((self._add_partition, self._reassign, self._elect_preferred))()
            self.progress += 1
            return
        name = random.choice(habits.churn_names)
        await self.client.refresh([name])
        topic_id = self.client.view.names.get(name)
        if topic_id is None:
            await self.create(name, random.randint(1, habits.partition_count_max), {})
        elif random.random() < 0.3:
            await self._delete(topic_id)
        self.progress += 1

    async def create(self, name: str, partition_count: int, settings: dict[str, str]) -> bool:
        habits = self.board.habits
        configs = {**habits.topic_settings, **settings}
        topic = CreatableTopic(
            name=name,
            num_partitions=partition_count,
            replication_factor=habits.replication_factor,
            configs=[CreatableTopicConfig(name=key, value=value) for key, value in configs.items()],
        )
        request = CreateTopicsRequest(topics=[topic], timeout_ms=int(self.client.timeout_ms))
        response = await self.client.call_any(request, CREATE_TOPICS_VERSION)
        (created,) = response.topics
        if created.error_code != ErrorCode.NONE:
            return False
        self._there_is(name, created.topic_id, partition_count)
        return True

    async def ensure(self, name: str, partition_count: int, settings: dict[str, str]) -> None:
        """Creates it until it is there: an answer may get lost."""
        known = (self.board.topics, self.board.tables)
        while not any(topic.name == name for topics in known for topic in topics.values()):
            try:
                if not await self.create(name, partition_count, settings):
                    await self.client.refresh([name])
                    topic_id = self.client.view.names.get(name)
                    if topic_id is not None:
                        self._there_is(name, topic_id, partition_count)
            except Unavailable:
                pass
            await self.back_off()

    def _there_is(self, name: str, topic_id: Uuid, partition_count: int) -> None:
        self.board.history.tell(TopicCreated(name=name, topic_id=topic_id, partition_count=partition_count))
        topics = self.board.tables if name in self.board.habits.table_names else self.board.topics
        topics[topic_id] = Topic(name=name, id=topic_id, partition_count=partition_count)

    async def _delete(self, topic_id: Uuid) -> None:
        self.board.history.tell(TopicDeletionAsked(topic_id=topic_id))
        self.board.topics.pop(topic_id, None)
        request = DeleteTopicsRequest(
            topics=[DeleteTopicState(topic_id=topic_id)], timeout_ms=int(self.client.timeout_ms)
        )
        response = await self.client.call_any(request, DELETE_TOPICS_VERSION)
        if response.responses[0].error_code == ErrorCode.NONE:
            self.board.history.tell(TopicDeleted(topic_id=topic_id))

    async def ensure_transaction_version(self, level: int) -> None:
        """Before there are any transactions: applications follow what the cluster has."""
        update = FeatureUpdateKey(feature=TRANSACTION_VERSION, max_version_level=level, upgrade_type=SAFE_DOWNGRADE)
        request = UpdateFeaturesRequest(feature_updates=[update])
        while True:
            try:
                response = await self.client.call_any(request, UPDATE_FEATURES_VERSION)
                if response.error_code == ErrorCode.NONE:
                    return
            except Unavailable:
                pass
            await self.back_off()

    # Voters of the metadata quorum

    async def ensure_voters(self, count: int) -> None:
        """Adds those that follow until there are as many."""
        while True:
            try:
                voters, observers = await self._describe_quorum()
                if len(voters) >= count:
                    return
                if observers:
                    await self._add_voter(observers[0])
            except Unavailable:
                pass
            await self.back_off()

    async def _change_voters(self) -> None:
        random = self.client.random
        voters, observers = await self._describe_quorum()
        if not self._voters_in_log:
            await self._upgrade_quorum()
        elif observers and random.random() < 0.6:
            await self._add_voter(random.choice(observers))
        elif len(voters) > 1:
            voter = random.choice(voters)
            request = RemoveRaftVoterRequest(
                cluster_id=None, voter_id=voter.replica_id, voter_directory_id=voter.replica_directory_id
            )
            await self.client.call_any(request, REMOVE_RAFT_VOTER_VERSION)

    async def _upgrade_quorum(self) -> None:
        """Where the log has the voters already, nothing happens."""
        update = FeatureUpdateKey(feature=KRAFT_VERSION, max_version_level=1, upgrade_type=UPGRADE)
        response = await self.client.call_any(UpdateFeaturesRequest(feature_updates=[update]), UPDATE_FEATURES_VERSION)
        self._voters_in_log = response.error_code == ErrorCode.NONE

    async def _describe_quorum(self) -> tuple[list[ReplicaState], list[ReplicaState]]:
        topic = RequestTopicData(topic_name=METADATA_TOPIC, partitions=[RequestPartitionData(partition_index=0)])
        response = await self.client.call_any(DescribeQuorumRequest(topics=[topic]), DESCRIBE_QUORUM_VERSION)
        if response.error_code != ErrorCode.NONE or response.topics[0].partitions[0].error_code != ErrorCode.NONE:
            raise Unavailable("nobody knows the quorum")
        quorum = response.topics[0].partitions[0]
        return quorum.current_voters, quorum.observers

    async def _add_voter(self, replica: ReplicaState) -> None:
        request = AddRaftVoterRequest(
            cluster_id=None,
            timeout_ms=int(self.client.timeout_ms),
            voter_id=replica.replica_id,
            voter_directory_id=replica.replica_directory_id,
            listeners=[Listener(name="CONTROLLER", host=f"node-{replica.replica_id}", port=CONTROLLER_PORT)],
        )
        await self.client.call_any(request, ADD_RAFT_VOTER_VERSION)

    # What an operator does with topics that stay

    def _some_topic(self) -> Topic:
        return self.client.random.choice([*self.board.topics.values(), *self.board.tables.values()])

    async def _add_partition(self) -> None:
        topic = self._some_topic()
        if topic.partition_count >= self.board.habits.partition_count_max * 2:
            return
        wanted = CreatePartitionsTopic(name=topic.name, count=topic.partition_count + 1, assignments=None)
        request = CreatePartitionsRequest(topics=[wanted], timeout_ms=int(self.client.timeout_ms))
        await self.client.call_any(request, CREATE_PARTITIONS_VERSION)
        await self.client.refresh([topic.name])  # whatever was answered, perhaps to an earlier request
        if self.client.view.names.get(topic.name) == topic.id:
            topic.partition_count = max(topic.partition_count, self.client.view.partition_counts[topic.id])

    async def _reassign(self) -> None:
        """To two or three nodes, in some order; or what is under way is called off."""
        random = self.client.random
        topic = self._some_topic()
        nodes = sorted(self.client.view.brokers)
        if len(nodes) < MIN_REPLICAS:
            await self.client.refresh([topic.name])
            return
        replicas = random.sample(nodes, random.randint(MIN_REPLICAS, min(len(nodes), 3)))
        partition = ReassignablePartition(
            partition_index=random.randrange(topic.partition_count),
            replicas=None if random.random() < 0.2 else replicas,
        )
        request = AlterPartitionReassignmentsRequest(
            timeout_ms=int(self.client.timeout_ms),
            topics=[ReassignableTopic(name=topic.name, partitions=[partition])],
        )
        await self.client.call_any(request, ALTER_PARTITION_REASSIGNMENTS_VERSION)

    async def _elect_preferred(self) -> None:
        topic = self._some_topic()
        wanted = TopicPartitions(topic=topic.name, partitions=list(range(topic.partition_count)))
        request = ElectLeadersRequest(
            election_type=PREFERRED, topic_partitions=[wanted], timeout_ms=int(self.client.timeout_ms)
        )
        await self.client.call_any(request, ELECT_LEADERS_VERSION)

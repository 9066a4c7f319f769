"""Where replicas are and who of them leads: reassignments and elections."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum

from barnabas.client.admin.base import AdminBase, by_topic
from barnabas.client.admin.results import Results
from barnabas.client.errors import error_of
from barnabas.errors import ErrorCode
from barnabas.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from barnabas.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from barnabas.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from barnabas.types import BrokerId, TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class Reassignment:
    """Under way: some replicas come, others go when these are in sync."""

    replicas: tuple[BrokerId, ...]
    adding: tuple[BrokerId, ...]
    removing: tuple[BrokerId, ...]


class ElectionType(IntEnum):
    """Kafka's numbers. An unclean election may lose records that were acknowledged."""

    PREFERRED = 0
    UNCLEAN = 1


class Placement(AdminBase):
    async def list_partition_reassignments(
        self, partitions: Iterable[TopicPartition] | None = None, *, timeout_ms: float | None = None
    ) -> dict[TopicPartition, Reassignment]:
        """All that are under way, or those of these partitions."""
        topics = None
        if partitions is not None:
            topics = [
                ListPartitionReassignmentsTopics(name=name, partition_indexes=numbers)
                for name, numbers in by_topic(partitions).items()
            ]
        request = ListPartitionReassignmentsRequest(timeout_ms=int(self.within_ms(timeout_ms)), topics=topics)
        response = await self.ask_controller(request, what="listing reassignments", timeout_ms=timeout_ms)
        return {
            TopicPartition(topic.name, each.partition_index): Reassignment(
                replicas=tuple(each.replicas),
                adding=tuple(each.adding_replicas),
                removing=tuple(each.removing_replicas),
            )
            for topic in response.topics
            for each in topic.partitions
        }

    async def alter_partition_reassignments(
        self,
        replicas: Mapping[TopicPartition, Sequence[BrokerId] | None],
        *,
        timeout_ms: float | None = None,
    ) -> Results[TopicPartition, None]:
        """Which replicas each is to have, the preferred leader first; None cancels what is under way."""
        within_ms = int(self.within_ms(timeout_ms))

        async def ask(node_id: BrokerId, keys: list[TopicPartition]) -> Results[TopicPartition, None]:
            request = AlterPartitionReassignmentsRequest(
                timeout_ms=within_ms,
                topics=[
                    ReassignableTopic(
                        name=name,
                        partitions=[
                            ReassignablePartition(
                                partition_index=number, replicas=_list(replicas[TopicPartition(name, number)])
                            )
                            for number in numbers
                        ],
                    )
                    for name, numbers in by_topic(keys).items()
                ],
            )
            response = await self.cluster.request(node_id, request)
            if response.error_code != ErrorCode.NONE:
                raise error_of(response.error_code, response.error_message)
            found: Results[TopicPartition, None] = Results()
            for topic in response.responses:
                for each in topic.partitions:
                    key = TopicPartition(topic.name, each.partition_index)
                    found.add(key, each.error_code, None, each.error_message, about=f"partition {key}")
            return found

        return await self.carry_out(
            replicas, self.to_controller, ask, what="altering reassignments", timeout_ms=timeout_ms
        )

    async def elect_leaders(
        self,
        election_type: ElectionType = ElectionType.PREFERRED,
        partitions: Iterable[TopicPartition] | None = None,
        *,
        timeout_ms: float | None = None,
    ) -> Results[TopicPartition, None]:
        """For these partitions, or for all that need it. ELECTION_NOT_NEEDED where the right one leads already."""
        topics = None
        if partitions is not None:
            topics = [TopicPartitions(topic=name, partitions=numbers) for name, numbers in by_topic(partitions).items()]
        request = ElectLeadersRequest(
            election_type=election_type, topic_partitions=topics, timeout_ms=int(self.within_ms(timeout_ms))
        )
        version_min = 0 if election_type is ElectionType.PREFERRED else 1
        response = await self.ask_controller(
            request, what="electing leaders", timeout_ms=timeout_ms, version_min=version_min
        )
        found: Results[TopicPartition, None] = Results()
        for topic in response.replica_election_results:
            for each in topic.partition_result:
                key = TopicPartition(topic.topic, each.partition_id)
                found.add(key, each.error_code, None, each.error_message, about=f"partition {key}")
        return found


def _list(replicas: Sequence[BrokerId] | None) -> list[BrokerId] | None:
    return None if replicas is None else list(replicas)

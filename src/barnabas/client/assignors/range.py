"""The range assignor: of each topic, every subscriber gets one run of consecutive partitions.

Always holds: within a topic, shares differ by one at most, and the larger ones come first. Topics with equal numbers of
partitions and the same subscribers are cut at the same places, so that partitions of one number meet at one member.
Where members say in which rack they are, and the replicas of some partitions are in a part of the racks only, members
first get what has a replica near them, as many as is their share; what is left is cut as ever, so that shares stay even
while runs may have gaps (KIP-881). Topics that are cut alike stay so: then all of them must have a replica nearby.
Does not know: who had what.
"""

from collections.abc import Callable
from itertools import islice

from barnabas.client.assignors.specification import (
    NO_RACKS,
    Assignments,
    Assignor,
    Members,
    PartitionCounts,
    ReplicaRacks,
    no_user_data,
    nothing_previously,
    partitions_of,
    subscribers,
)
from barnabas.types import TopicPartition


class Topic:
    """What of a topic is left to give out, and how much of it each of its subscribers may still be given."""

    def __init__(self, partitions: list[TopicPartition], wanting: list[str]) -> None:
        self.partitions = partitions
        self.left = dict.fromkeys(partitions)
        self._share, self._larger_shares = divmod(len(partitions), len(wanting))
        self.given: dict[str, list[TopicPartition]] = {member_id: [] for member_id in wanting}

    def room(self, member_id: str) -> int:
        return max(0, self._share + (self._larger_shares > 0) - len(self.given[member_id]))

    def give(self, member_id: str, partition: TopicPartition) -> None:
        del self.left[partition]
        self.given[member_id].append(partition)
        if len(self.given[member_id]) > self._share:
            self._larger_shares -= 1


Near = Callable[[str, TopicPartition], bool]


def assign(partition_counts: PartitionCounts, members: Members, racks: ReplicaRacks = NO_RACKS) -> Assignments:
    topics = {
        topic: Topic(partitions_of(topic, partition_counts), wanting)
        for topic, wanting in subscribers(partition_counts, members).items()
    }

    def is_near(member_id: str, partition: TopicPartition) -> bool:
        rack = members[member_id].rack
        return rack is None or rack in racks.get(partition, ())

    if any(_needs_racks(topic, members, racks) for topic in topics.values()):
        alike: dict[tuple[int, tuple[str, ...]], list[Topic]] = {}
        for topic in topics.values():
            alike.setdefault((len(topic.partitions), tuple(topic.given)), []).append(topic)
        for group in alike.values():
            if len(group) > 1:
                _give_alike(group, is_near)
            elif _needs_racks(group[0], members, racks):
                _give_ranges(group[0], is_near)
    assignments: Assignments = {member_id: [] for member_id in members}
    for topic in topics.values():
        _give_ranges(topic, lambda _member_id, _partition: True)
        for member_id, partitions in topic.given.items():
            assignments[member_id] += sorted(partitions)
    return assignments


def _needs_racks(topic: Topic, members: Members, racks: ReplicaRacks) -> bool:
    """Whether some are nearer to some partitions than to others."""
    member_racks = {members[member_id].rack for member_id in topic.given} - {None}
    replica_racks = [racks.get(partition, frozenset()) for partition in topic.partitions]
    everywhere = frozenset[str]().union(*replica_racks)
    return not everywhere.isdisjoint(member_racks) and any(each != everywhere for each in replica_racks)


def _give_ranges(topic: Topic, may_have: Near) -> None:
    for member_id in topic.given:
        fitting = (each for each in topic.left if may_have(member_id, each))
        for partition in list(islice(fitting, topic.room(member_id))):
            topic.give(member_id, partition)


def _give_alike(topics: list[Topic], is_near: Near) -> None:
    """Partitions of one number, of all these topics, to one member that is near all of them."""
    for partitions in zip(*(topic.partitions for topic in topics), strict=True):
        for member_id in topics[0].given:
            if topics[0].room(member_id) and all(is_near(member_id, each) for each in partitions):
                for topic, partition in zip(topics, partitions, strict=True):
                    topic.give(member_id, partition)
                break


RANGE = Assignor(
    name="range", is_cooperative=False, assign=assign, user_data=no_user_data, previously=nothing_previously
)

"""What every assignor of the classic protocol is given, and gives.

Always holds: members stand in Java's order, static ones first, so that leaders written in different languages cut a
group in the same way. Only topics that exist are given to anybody.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from barnabas.types import TopicPartition

NO_GENERATION = -1


class Member(NamedTuple):
    """One member, as its subscription describes it."""

    topics: tuple[str, ...]
    owned: tuple[TopicPartition, ...] = ()  # what it has, or had, as of `generation`
    generation: int = NO_GENERATION
    instance_id: str | None = None
    rack: str | None = None


PartitionCounts = Mapping[str, int]  # of every topic that exists
Members = Mapping[str, Member]  # by member id
Assignments = dict[str, list[TopicPartition]]  # by member id, with an entry for everybody
ReplicaRacks = Mapping[TopicPartition, frozenset[str]]  # where replicas are; empty where brokers do not say
NO_RACKS: ReplicaRacks = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignor:
    name: str
    is_cooperative: bool  # members keep what they have while the group rebalances
    assign: Callable[[PartitionCounts, Members, ReplicaRacks], Assignments]
    # What a member tells the assignor of others beyond its subscription, and what was told so: owned, generation.
    user_data: Callable[[Sequence[TopicPartition], int], bytes | None]
    previously: Callable[[bytes], tuple[Sequence[TopicPartition] | None, int]]


def no_user_data(_owned: Sequence[TopicPartition], _generation: int) -> bytes | None:
    return None


def nothing_previously(_data: bytes) -> tuple[None, int]:
    return None, NO_GENERATION


def in_order(members: Members) -> list[str]:
    return sorted(members, key=lambda member_id: _rank(member_id, members[member_id]))


def _rank(member_id: str, member: Member) -> tuple[bool, str]:
    return (member.instance_id is None, member_id if member.instance_id is None else member.instance_id)


def subscribers(partition_counts: PartitionCounts, members: Members) -> dict[str, list[str]]:
    """Of each topic that exists and somebody wants: who wants it, in order. Topics are in alphabetical order."""
    found: dict[str, list[str]] = {}
    for member_id in in_order(members):
        for topic in dict.fromkeys(members[member_id].topics):
            if partition_counts.get(topic, 0) > 0:
                found.setdefault(topic, []).append(member_id)
    return {topic: found[topic] for topic in sorted(found)}


def partitions_of(topic: str, partition_counts: PartitionCounts) -> list[TopicPartition]:
    return [TopicPartition(topic, number) for number in range(partition_counts[topic])]

"""What an assignor is told, and what it answers."""

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from barnabas.types import Uuid

Assignment = Mapping[Uuid, tuple[int, ...]]  # partitions by topic, ascending; no topic without partitions
Assignments = dict[str, Assignment]  # by member

Partition = tuple[Uuid, int]

NOTHING: Assignment = {}


class MemberSpecification(NamedTuple):
    instance_id: str | None  # of a static member
    topics: tuple[Uuid, ...]  # that exist and that it is subscribed to, in ascending order
    assignment: Assignment  # what it was to own so far


class GroupSpecification(NamedTuple):
    members: Mapping[str, MemberSpecification]
    partition_counts: Mapping[Uuid, int]  # of every topic that somebody is subscribed to

    @property
    def is_homogeneous(self) -> bool:
        """Whether all members are subscribed to the same topics, as they mostly are."""
        topics = [member.topics for member in self.members.values()]
        return all(each is topics[0] or each == topics[0] for each in topics)


Assignor = Callable[[GroupSpecification], Assignments]


def in_order(members: Mapping[str, MemberSpecification]) -> list[str]:
    """Static members first, by instance id: they keep their places when they come back under another member id."""
    return sorted(members, key=lambda each: (members[each].instance_id is None, members[each].instance_id or "", each))


def kept_partitions(group: GroupSpecification, member_ids: Iterable[str]) -> dict[str, list[Partition]]:
    """What each member has now and may keep: topics it is subscribed to, partitions that exist, one owner for each."""
    kept: dict[str, list[Partition]] = {}
    seen: set[Partition] = set()
    for member_id in member_ids:
        member = group.members[member_id]
        subscribed = frozenset(member.topics)
        mine = kept[member_id] = []
        for topic in sorted(member.assignment):
            if topic not in subscribed:
                continue
            count = group.partition_counts[topic]
            for partition in member.assignment[topic]:
                if partition < count and (topic, partition) not in seen:
                    seen.add((topic, partition))
                    mine.append((topic, partition))
    return kept


def by_topic(partitions: Iterable[Partition]) -> dict[Uuid, tuple[int, ...]]:
    grouped: dict[Uuid, list[int]] = {}
    for topic, partition in partitions:
        grouped.setdefault(topic, []).append(partition)
    return {topic: tuple(sorted(grouped[topic])) for topic in sorted(grouped)}

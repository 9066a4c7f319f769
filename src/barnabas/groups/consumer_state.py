"""What the log says of one consumer group (KIP-848), and what follows from it.

    group epoch       rises when the target assignment must be made anew
    assignment epoch  the group epoch for which the target assignment was made
    member epoch      the assignment epoch that a member has been told of

Always holds: a partition has at most one owner, which is the member that has it assigned or still has to give it up.
The counts are those of the members and of the resolved expressions at every moment.
Does not know: requests, time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from barnabas.groups.assignors.specification import NOTHING, Assignment
from barnabas.groups.consumer_member import ConsumerMember, Partitions
from barnabas.types import Uuid

INITIAL_EPOCH = 1  # of a new group, and of its assignment of nothing to nobody
NO_EPOCH = -1  # of an assignment that was taken out of the log


class ResolvedExpression(NamedTuple):
    topics: frozenset[str]
    version: int  # of the metadata that was searched
    timestamp_ms: int  # wall clock


class ConsumerState:
    __slots__ = (
        "assignment_epoch",
        "assignment_timestamp_ms",
        "assignor_votes",
        "classic_member_count",
        "classic_protocols",
        "expressions",
        "group_epoch",
        "has_partition_metadata",
        "members",
        "metadata_hash",
        "owners",
        "resolved",
        "static_ids",
        "targets",
        "topic_counts",
    )

    def __init__(self) -> None:
        self.group_epoch = INITIAL_EPOCH
        self.metadata_hash = 0  # of the subscribed topics, as of the group epoch
        self.assignment_epoch = INITIAL_EPOCH
        self.assignment_timestamp_ms = 0  # wall clock; 0: not known
        self.members: dict[str, ConsumerMember] = {}
        self.static_ids: dict[str, str] = {}  # member ids by instance id
        self.targets: dict[str, Assignment] = {}  # by member
        self.owners: dict[Uuid, dict[int, str]] = {}  # member ids by topic and partition
        self.resolved: dict[str, ResolvedExpression] = {}  # by expression
        self.expressions: dict[str, int] = {}  # members by expression; never 0
        self.topic_counts: dict[str, int] = {}  # members and resolved expressions by topic name; never 0
        self.assignor_votes: dict[str, int] = {}  # members by the assignor that they ask for; never 0
        self.classic_member_count = 0  # members that speak the classic protocol
        self.classic_protocols: dict[str, int] = {}  # such members by the protocol that they can follow; never 0
        self.has_partition_metadata = False  # a record of brokers before 4.1, to be taken out of the log

    # Looking

    def static_member(self, instance_id: str | None) -> ConsumerMember | None:
        member_id = None if instance_id is None else self.static_ids.get(instance_id)
        return None if member_id is None else self.members.get(member_id)

    def target(self, member_id: str) -> Assignment:
        return self.targets.get(member_id, NOTHING)

    def is_owned(self, topic: Uuid, partition: int) -> bool:
        return partition in self.owners.get(topic, ())

    def topics_of(self, member: ConsumerMember) -> frozenset[str]:
        """The names that the member is subscribed to, of topics that need not exist."""
        resolved = self.resolved.get(member.expression) if member.expression else None
        names = frozenset(member.topics)
        return names if resolved is None else names | resolved.topics

    def topic_names_after(self, before: Iterable[ConsumerMember], after: ConsumerMember | None) -> dict[str, int]:
        """The subscribed topics, counted, once the members `before` have gone and `after` has come."""
        counts = dict(self.topic_counts)
        leaving: dict[str, int] = {}
        for member in before:
            count(counts, member.topics, -1)
            if member.expression:
                leaving[member.expression] = leaving.get(member.expression, 0) + 1
        if after is not None:
            count(counts, after.topics, 1)
        for expression, members in leaving.items():
            stays = after is not None and after.expression == expression
            resolved = self.resolved.get(expression)
            if resolved is not None and not stays and self.expressions.get(expression, 0) == members:
                count(counts, resolved.topics, -1)
        return counts

    @property
    def assignor(self) -> str | None:
        """The one that most members ask for."""
        return preferred(self.assignor_votes)

    def assignor_after(self, before: ConsumerMember | None, after: ConsumerMember) -> str | None:
        votes = dict(self.assignor_votes)
        if before is not None and before.assignor is not None:
            count(votes, (before.assignor,), -1)
        if after.assignor is not None:
            count(votes, (after.assignor,), 1)
        return preferred(votes)

    # Changing: for `apply` alone

    def put_member(self, member: ConsumerMember) -> None:
        former = self.members.get(member.member_id)
        if former is not None:
            self._count_member(former, -1)
            self._release(former)
        self.members[member.member_id] = member
        self._count_member(member, 1)
        self._own(member.member_id, member.assigned)
        self._own(member.member_id, member.revoking)
        if member.instance_id is not None:
            self.static_ids[member.instance_id] = member.member_id

    def remove_member(self, member_id: str) -> None:
        member = self.members.pop(member_id, None)
        if member is None:
            return
        self._count_member(member, -1)
        self._release(member)
        if member.instance_id is not None and self.static_ids.get(member.instance_id) == member_id:
            del self.static_ids[member.instance_id]

    def resolve(self, expression: str, resolved: ResolvedExpression | None) -> None:
        former = self.resolved.pop(expression, None)
        if former is not None:
            count(self.topic_counts, former.topics, -1)
        if resolved is not None:
            self.resolved[expression] = resolved
            count(self.topic_counts, resolved.topics, 1)

    def _count_member(self, member: ConsumerMember, step: int) -> None:
        count(self.topic_counts, member.topics, step)
        if member.expression:
            count(self.expressions, (member.expression,), step)
        if member.assignor is not None:
            count(self.assignor_votes, (member.assignor,), step)
        if member.classic is not None:
            self.classic_member_count += step
            count(self.classic_protocols, (name for name, _metadata in member.classic.protocols), step)

    def _own(self, member_id: str, partitions: Partitions) -> None:
        for topic, epochs in partitions.items():
            self.owners.setdefault(topic, {}).update(dict.fromkeys(epochs, member_id))

    def _release(self, member: ConsumerMember) -> None:
        """Only what is still its own: a record of another member may have come first."""
        for partitions in (member.assigned, member.revoking):
            for topic, epochs in partitions.items():
                owners = self.owners.get(topic, {})
                for partition in epochs:
                    if owners.get(partition) == member.member_id:
                        del owners[partition]
                if not owners:
                    self.owners.pop(topic, None)


def count(counts: dict[str, int], names: Iterable[str], step: int) -> None:
    for name in names:
        number = counts.get(name, 0) + step
        if number:
            counts[name] = number
        else:
            counts.pop(name, None)


def preferred(votes: Mapping[str, int]) -> str | None:
    """The one with the most votes, the first in the alphabet where there are several; None without votes."""
    return min(votes, key=lambda each: (-votes[each], each), default=None)

"""From what a member has to what it shall have, in steps that never give a partition to two members.

    Stable ──newer target──▶ UnrevokedPartitions ──member says it gave them up──▶ Stable or UnreleasedPartitions
    UnreleasedPartitions ──others gave theirs up──▶ Stable

Always holds: a partition is given to a member only when nobody has it, neither assigned nor to be revoked. A member
keeps its epoch until it has given up what it must; only then it moves to the epoch of the target.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from barnabas.groups.assignors.specification import Assignment
from barnabas.groups.consumer_member import NO_PARTITIONS, ConsumerMember, MemberState, Partitions
from barnabas.types import Uuid

Owned = Mapping[Uuid, Iterable[int]]


class Goal(NamedTuple):
    """Where a member shall go."""

    epoch: int
    assignment: Assignment
    topics: frozenset[Uuid]  # that it is subscribed to now: of others it gets nothing, whatever the assignment says
    subscription_changed: bool  # with this very request: then it must not wait for the next assignment
    owned: Owned | None  # what the member says that it owns; None: it does not say
    is_owned: Callable[[Uuid, int], bool]  # whether anybody has the partition


def reconcile(member: ConsumerMember, goal: Goal) -> ConsumerMember | None:
    """The member after the next step, perhaps as it was. None: its state is not known, it must begin again."""
    match member.state:
        case MemberState.STABLE:
            if member.member_epoch != goal.epoch:
                return _next(member, member.member_epoch, goal)
            return _without_unsubscribed(member, goal) if goal.subscription_changed else member
        case MemberState.UNREVOKED_PARTITIONS:
            if not _still_owns(member.revoking, goal.owned):
                return _next(member, member.member_epoch, goal)
            return _without_unsubscribed(member, goal) if goal.subscription_changed else member
        case MemberState.UNRELEASED_PARTITIONS:
            return _next(member, member.member_epoch, goal)
        case MemberState.UNKNOWN:
            if goal.owned is None or any(goal.owned.values()):
                return None
            return _next(member, goal.epoch, goal)


def _still_owns(partitions: Partitions, owned: Owned | None) -> bool:
    """A member that does not say what it owns may own anything."""
    if owned is None:
        return True
    return any(each in partitions.get(topic, ()) for topic, numbers in owned.items() for each in numbers)


def _next(member: ConsumerMember, epoch: int, goal: Goal) -> ConsumerMember:
    assigned: dict[Uuid, dict[int, int]] = {}
    revoking: dict[Uuid, dict[int, int]] = {}
    added: dict[Uuid, list[int]] = {}
    unreleased = False
    for topic in sorted(goal.assignment.keys() | member.assigned.keys()):
        target = frozenset(goal.assignment.get(topic, ())) if topic in goal.topics else frozenset()
        have = member.assigned.get(topic, {})
        kept = {each: since for each, since in have.items() if each in target}
        lost = {each: since for each, since in have.items() if each not in target}
        if kept:
            assigned[topic] = kept
        if lost:
            revoking[topic] = lost
        for each in sorted(target - kept.keys()):
            # What it gives up itself is free for it: nobody else can have it.
            if goal.is_owned(topic, each) and each not in member.revoking.get(topic, ()):
                unreleased = True
            else:
                added.setdefault(topic, []).append(each)
    if revoking and _still_owns(revoking, goal.owned):
        return member.moved_to(epoch, MemberState.UNREVOKED_PARTITIONS, assigned, revoking)
    for topic, partitions in added.items():
        assigned.setdefault(topic, {}).update(dict.fromkeys(partitions, goal.epoch))
    state = MemberState.UNRELEASED_PARTITIONS if unreleased else MemberState.STABLE
    return member.moved_to(goal.epoch, state, assigned, NO_PARTITIONS)


def _without_unsubscribed(member: ConsumerMember, goal: Goal) -> ConsumerMember:
    """Of topics that it has just left, a member keeps nothing, though no newer assignment is known yet."""
    left = {topic: epochs for topic, epochs in member.assigned.items() if topic not in goal.topics}
    if not left:
        return member
    assigned = {topic: epochs for topic, epochs in member.assigned.items() if topic not in left}
    revoking = dict(member.revoking)
    for topic, epochs in left.items():
        revoking[topic] = {**revoking.get(topic, {}), **epochs}
    if _still_owns(revoking, goal.owned):
        return member.moved_to(member.member_epoch, MemberState.UNREVOKED_PARTITIONS, assigned, revoking)
    return member.moved_to(member.member_epoch, member.state, assigned, member.revoking)

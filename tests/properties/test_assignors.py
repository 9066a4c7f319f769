"""Assignors against what they promise: everything assigned once, balanced, and no move that need not be."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.groups.assignors import ASSIGNORS
from barnabas.groups.assignors.specification import Assignment, GroupSpecification, MemberSpecification


def topic_id(number: int) -> bytes:
    return number.to_bytes(16, "big")


@st.composite
def groups(draw: st.DrawFn, homogeneous: bool = False) -> GroupSpecification:
    """Members with subscriptions and with whatever they were to own before: even partitions that are gone since."""
    counts = {topic_id(number): draw(st.integers(1, 12)) for number in range(1, 1 + draw(st.integers(1, 5)))}
    member_ids = [f"member-{number}" for number in range(draw(st.integers(1, 7)))]
    topics = st.sets(st.sampled_from(sorted(counts))).map(lambda each: tuple(sorted(each)))
    shared = draw(topics)
    owners = [None, *member_ids]
    before: dict[str, dict[bytes, list[int]]] = {member_id: {} for member_id in member_ids}
    for topic, count in counts.items():
        for partition in range(count + 2):
            owner = draw(st.sampled_from(owners))
            if owner is not None:
                before[owner].setdefault(topic, []).append(partition)
    members = {
        member_id: MemberSpecification(
            instance_id=draw(st.none() | st.just(f"instance-{member_id}")),
            topics=shared if homogeneous else draw(topics),
            assignment={topic: tuple(partitions) for topic, partitions in before[member_id].items()},
        )
        for member_id in member_ids
    }
    subscribed = {topic for member in members.values() for topic in member.topics}
    return GroupSpecification(members, {topic: count for topic, count in counts.items() if topic in subscribed})


def pairs(assignment: Assignment) -> set[tuple[bytes, int]]:
    return {(topic, partition) for topic, partitions in assignment.items() for partition in partitions}


def valid_before(group: GroupSpecification, member_id: str) -> set[tuple[bytes, int]]:
    member = group.members[member_id]
    return {
        (topic, partition)
        for topic, partition in pairs(member.assignment)
        if topic in member.topics and partition < group.partition_counts[topic]
    }


def after(group: GroupSpecification, assignments: dict[str, Assignment]) -> GroupSpecification:
    members = {
        member_id: member._replace(assignment=assignments[member_id]) for member_id, member in group.members.items()
    }
    return group._replace(members=members)


@pytest.mark.parametrize("name", ASSIGNORS)
@given(group=groups())
def test_every_partition_has_one_owner_that_wants_it(name: str, group: GroupSpecification) -> None:
    assignments = ASSIGNORS[name](group)
    assert set(assignments) == set(group.members)
    given_out = [pair for assignment in assignments.values() for pair in pairs(assignment)]
    assert len(given_out) == len(set(given_out))
    wanted = {(topic, each) for topic, count in group.partition_counts.items() for each in range(count)}
    assert set(given_out) == wanted
    for member_id, assignment in assignments.items():
        assert set(assignment) <= set(group.members[member_id].topics)
        assert all(partitions == tuple(sorted(partitions)) and partitions for partitions in assignment.values())


@pytest.mark.parametrize("name", ASSIGNORS)
@given(group=groups(), seed=st.integers(0, 2**32))
def test_the_order_of_members_means_nothing(name: str, group: GroupSpecification, seed: int) -> None:
    shuffled = list(group.members.items())
    random.Random(seed).shuffle(shuffled)
    assert ASSIGNORS[name](group) == ASSIGNORS[name](group._replace(members=dict(shuffled)))


@pytest.mark.parametrize("name", ASSIGNORS)
@given(group=groups())
def test_nothing_moves_where_nothing_changed(name: str, group: GroupSpecification) -> None:
    assignments = ASSIGNORS[name](group)
    assert ASSIGNORS[name](after(group, assignments)) == assignments


@given(group=groups(homogeneous=True))
def test_uniform_is_balanced_and_moves_least(group: GroupSpecification) -> None:
    assignments = ASSIGNORS["uniform"](group)
    sizes = {member_id: len(pairs(assignment)) for member_id, assignment in assignments.items()}
    assert max(sizes.values()) - min(sizes.values()) <= 1

    # The most that any balanced assignment could keep: least, and one more for as many as have it.
    least, larger = divmod(sum(sizes.values()), len(sizes))
    before = {member_id: len(valid_before(group, member_id)) for member_id in sizes}
    keepable = sum(min(count, least) for count in before.values())
    keepable += min(larger, sum(count > least for count in before.values()))
    kept = sum(len(valid_before(group, member_id) & pairs(assignments[member_id])) for member_id in sizes)
    assert kept == keepable


@given(group=groups())
def test_uniform_leaves_no_move_that_would_even_things_out(group: GroupSpecification) -> None:
    assignments = ASSIGNORS["uniform"](group)
    sizes = {member_id: len(pairs(assignment)) for member_id, assignment in assignments.items()}
    for owner, assignment in assignments.items():
        for topic in assignment:
            for other, member in group.members.items():
                if topic in member.topics:
                    assert sizes[owner] - sizes[other] <= 1, (owner, other, topic)


@given(group=groups())
def test_uniform_leaves_what_is_whole_and_balanced(group: GroupSpecification) -> None:
    assignments = ASSIGNORS["uniform"](group)
    sizes = {member_id: len(pairs(assignment)) for member_id, assignment in assignments.items()}
    if (
        max(len(valid_before(group, each)) for each in sizes) - min(len(valid_before(group, each)) for each in sizes)
        > 1
    ):
        return  # something had to move
    assigned = {pair for member_id in sizes for pair in valid_before(group, member_id)}
    if len(assigned) < sum(group.partition_counts.values()):
        return  # something was free
    for member_id in sizes:
        assert valid_before(group, member_id) == pairs(assignments[member_id])


@given(group=groups())
def test_range_gives_consecutive_partitions_in_equal_shares(group: GroupSpecification) -> None:
    assignments = ASSIGNORS["range"](group)
    for topic in group.partition_counts:
        shares = [
            assignments[member_id].get(topic, ())
            for member_id, member in group.members.items()
            if topic in member.topics
        ]
        for share in shares:
            assert share == tuple(range(share[0], share[0] + len(share))) if share else True
        assert max(map(len, shares)) - min(map(len, shares)) <= 1

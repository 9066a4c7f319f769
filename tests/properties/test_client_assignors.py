"""The assignors of our consumer: everything has one owner, shares are even, little moves; and as kafka-python's do."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.client.assignors.cooperative_sticky import COOPERATIVE_STICKY
from barnabas.client.assignors.exchange import (
    ASSIGNORS,
    assigned_partitions,
    assignment_bytes,
    member_of,
    subscription_bytes,
)
from barnabas.client.assignors.range import RANGE
from barnabas.client.assignors.round_robin import ROUND_ROBIN
from barnabas.client.assignors.specification import Assignments, Assignor, Member, Members, PartitionCounts
from barnabas.client.assignors.sticky import STICKY, decode_owned, encode_owned
from barnabas.protocol.messages.join_group import JoinGroupResponseMember
from barnabas.types import TopicPartition

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # it reads its schemas by a call that newer Pythons deprecate
    from kafka.coordinator.assignors.abstract import ConsumerProtocolSubscription
    from kafka.coordinator.assignors.range import RangePartitionAssignor
    from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor

TOPICS = ("a", "b", "c", "d")
EXAMPLES = settings(max_examples=60, deadline=None)

counts = st.dictionaries(st.sampled_from(TOPICS), st.integers(1, 7), min_size=1)
subscriptions = st.lists(st.sampled_from(TOPICS), unique=True, max_size=4).map(tuple)


@st.composite
def groups(draw: st.DrawFn, same_topics: bool = False) -> tuple[dict[str, int], dict[str, Member]]:
    partition_counts = draw(counts)
    names = draw(st.lists(st.integers(0, 20), unique=True, min_size=1, max_size=6))
    shared = draw(subscriptions)
    members = {}
    for name in names:
        topics = shared if same_topics else draw(subscriptions)
        instance = draw(st.sampled_from([None, f"i{name}"]))
        members[f"m{name:02}"] = Member(topics, instance_id=instance)
    return partition_counts, members


def owners_of(assignments: Assignments) -> dict[TopicPartition, str]:
    owners: dict[TopicPartition, str] = {}
    for member_id, partitions in assignments.items():
        for partition in partitions:
            assert partition not in owners, f"{partition} has two owners"
            owners[partition] = member_id
    return owners


def wanted(partition_counts: PartitionCounts, members: Members) -> set[TopicPartition]:
    topics = {topic for member in members.values() for topic in member.topics if topic in partition_counts}
    return {TopicPartition(topic, number) for topic in topics for number in range(partition_counts[topic])}


@pytest.mark.parametrize("assignor", ASSIGNORS.values(), ids=lambda each: each.name)
@given(group=groups())
@EXAMPLES
def test_everything_that_is_wanted_has_one_owner_who_wants_it(
    assignor: Assignor, group: tuple[dict[str, int], dict[str, Member]]
) -> None:
    partition_counts, members = group
    assignments = assignor.assign(partition_counts, members)
    assert set(assignments) == set(members)
    owners = owners_of(assignments)
    assert set(owners) == wanted(partition_counts, members)
    assert all(partition.topic in members[member_id].topics for partition, member_id in owners.items())


@given(group=groups())
@EXAMPLES
def test_ranges_are_even_within_each_topic(group: tuple[dict[str, int], dict[str, Member]]) -> None:
    partition_counts, members = group
    assignments = RANGE.assign(partition_counts, members)
    for topic in partition_counts:
        shares = [
            sorted(number for name, number in assignments[member_id] if name == topic)
            for member_id, member in members.items()
            if topic in member.topics
        ]
        assert all(share == list(range(share[0], share[-1] + 1)) for share in shares if share)
        assert not shares or max(map(len, shares)) - min(map(len, shares)) <= 1


@pytest.mark.parametrize("assignor", [ROUND_ROBIN, STICKY], ids=lambda each: each.name)
@given(group=groups(same_topics=True))
@EXAMPLES
def test_shares_are_even_where_all_want_the_same(
    assignor: Assignor, group: tuple[dict[str, int], dict[str, Member]]
) -> None:
    partition_counts, members = group
    sizes = [len(each) for each in assignor.assign(partition_counts, members).values()]
    assert max(sizes) - min(sizes) <= 1


def assert_no_move_makes_it_evener(assignments: Assignments, members: Members) -> None:
    for partition, owner in owners_of(assignments).items():
        for member_id, member in members.items():
            if partition.topic in member.topics:
                assert len(assignments[owner]) <= len(assignments[member_id]) + 1


@given(group=groups(), changes=st.randoms(use_true_random=False))
@EXAMPLES
def test_sticky_shares_are_as_even_as_single_moves_make_them(
    group: tuple[dict[str, int], dict[str, Member]], changes: Any
) -> None:
    partition_counts, members = group
    first = STICKY.assign(partition_counts, members)
    assert_no_move_makes_it_evener(first, members)
    after = {
        member_id: member._replace(owned=tuple(first[member_id]), generation=1)
        for member_id, member in members.items()
        if len(members) == 1 or changes.random() < 0.7
    }
    after["new"] = Member(TOPICS)
    assert_no_move_makes_it_evener(STICKY.assign(partition_counts, after), after)


def moves(before: dict[TopicPartition, str], after: dict[TopicPartition, str], members: Members) -> int:
    return sum(1 for each, owner in after.items() if before.get(each, owner) != owner and before[each] in members)


@given(group=groups(same_topics=True), leaving=st.integers(0, 5), joining=st.integers(0, 3))
@EXAMPLES
def test_sticky_moves_the_least(group: tuple[dict[str, int], dict[str, Member]], leaving: int, joining: int) -> None:
    """Whoever has more than its share gives the excess, and nothing else moves."""
    partition_counts, members = group
    first = STICKY.assign(partition_counts, members)
    topics = next(iter(members.values())).topics
    stay = list(members)[leaving:] or list(members)[-1:]
    after = {each: members[each]._replace(owned=tuple(first[each]), generation=1) for each in stay}
    after |= {f"n{number}": Member(topics) for number in range(joining)}
    second = STICKY.assign(partition_counts, after)
    total = len(wanted(partition_counts, after))
    share, larger_shares = divmod(total, len(after))
    # The larger shares go to those who have that much already: only what exceeds them must move.
    had = sorted((len(first[each]) for each in stay), reverse=True)
    least = sum(max(0, size - share - (place < larger_shares)) for place, size in enumerate(had))
    assert moves(owners_of(first), owners_of(second), after) == least
    assert STICKY.assign(
        partition_counts,
        {each: member._replace(owned=tuple(second[each]), generation=2) for each, member in after.items()},
    ) == {each: second[each] for each in after}, "a group in which nothing changed changes nothing"


@given(group=groups(), joining=subscriptions)
@EXAMPLES
def test_cooperative_moves_take_two_steps(
    group: tuple[dict[str, int], dict[str, Member]], joining: tuple[str, ...]
) -> None:
    partition_counts, members = group
    owned = {each: tuple(found) for each, found in COOPERATIVE_STICKY.assign(partition_counts, members).items()}
    members = {**members, "new": Member(joining)}
    for generation in range(1, 8):
        asking = {
            each: member._replace(owned=owned.get(each, ()), generation=generation) for each, member in members.items()
        }
        given_out = COOPERATIVE_STICKY.assign(partition_counts, asking)
        for member_id, partitions in given_out.items():
            others = {each for other, found in owned.items() if other != member_id for each in found}
            assert not others & set(partitions), "given to one while another has it"
        revoked = any(set(owned.get(each, ())) - set(given_out[each]) for each in members)
        owned = {each: tuple(found) for each, found in given_out.items()}
        if not revoked:
            break
    else:
        raise AssertionError("the group does not come to rest")
    assert set(owners_of({each: list(found) for each, found in owned.items()})) == wanted(partition_counts, members)
    assert generation <= 3


def test_of_two_that_claim_a_partition_the_newer_one_keeps_it() -> None:
    claimed = (TopicPartition("a", 0),)
    old = Member(("a",), claimed, 3)
    new = Member(("a",), claimed, 4)
    assert STICKY.assign({"a": 1}, {"m1": old, "m2": new}) == {"m1": [], "m2": list(claimed)}
    assert STICKY.assign({"a": 1}, {"m1": new, "m2": old}) == {"m1": list(claimed), "m2": []}


def test_of_two_that_claim_a_partition_at_once_neither_keeps_it() -> None:
    zero, one = TopicPartition("a", 0), TopicPartition("a", 1)
    members = {"m1": Member(("a",), (zero, one), 3), "m2": Member(("a",), (one,), 3)}
    assert STICKY.assign({"a": 2}, members) == {"m1": [zero], "m2": [one]}


def test_who_has_much_of_something_else_does_not_keep_others_from_sharing() -> None:
    owned = tuple(TopicPartition("a", number) for number in range(4))
    members = {
        "m1": Member(("a", "b"), tuple(TopicPartition("b", number) for number in range(7)), 1),
        "m2": Member(("a",), owned, 1),
        "m3": Member(("a",)),
    }
    sizes = {member_id: len(each) for member_id, each in STICKY.assign({"a": 4, "b": 7}, members).items()}
    assert sizes == {"m1": 7, "m2": 2, "m3": 2}


# The bytes, and other people's assignors


@given(group=groups(), generation=st.integers(-1, 5))
@EXAMPLES
def test_subscriptions_come_back_as_they_went(group: tuple[dict[str, int], dict[str, Member]], generation: int) -> None:
    partition_counts, members = group
    owned = sorted(wanted(partition_counts, members))
    assert decode_owned(encode_owned(owned, generation)) == (owned, generation)
    for assignor in ASSIGNORS.values():
        for member_id, member in members.items():
            data = subscription_bytes(assignor, member.topics, owned, owned, generation, None)
            told = JoinGroupResponseMember(member_id=member_id, group_instance_id=member.instance_id, metadata=data)
            assert member_of(assignor, told) == Member(
                tuple(sorted(member.topics)), tuple(owned), generation, member.instance_id
            )


class FakeCluster:
    """As much of kafka-python's cluster as its assignors look at."""

    def __init__(self, partition_counts: PartitionCounts) -> None:
        self._counts = partition_counts

    def partitions_for_topic(self, topic: str) -> set[int] | None:
        return set(range(self._counts[topic])) if topic in self._counts else None


class FakeMember:
    def __init__(self, told: JoinGroupResponseMember) -> None:
        self.member_id = told.member_id
        self.group_instance_id = told.group_instance_id
        self.metadata = ConsumerProtocolSubscription.decode(told.metadata)


@pytest.mark.parametrize("name", ["range", "roundrobin"])
@given(group=groups())
@EXAMPLES
def test_groups_are_cut_as_kafka_python_cuts_them(name: str, group: tuple[dict[str, int], dict[str, Member]]) -> None:
    partition_counts, members = group
    if name == "roundrobin":  # theirs fails where it must pass over a member
        topics = next(iter(members.values())).topics
        members = {each: member._replace(topics=topics) for each, member in members.items()}
    # Theirs loses sight of some members where static and dynamic ones alternate: it groups before it sorts.
    members = dict(sorted(members.items(), key=lambda each: each[1].instance_id is None))
    told = [
        JoinGroupResponseMember(
            member_id=each,
            group_instance_id=member.instance_id,
            metadata=subscription_bytes(ASSIGNORS[name], member.topics, (), (), -1, None),
        )
        for each, member in members.items()
    ]
    theirs = {"range": RangePartitionAssignor, "roundrobin": RoundRobinPartitionAssignor}[name]
    expected = theirs.assign(FakeCluster(partition_counts), [FakeMember(each) for each in told])
    ours = assignment_bytes(ASSIGNORS[name], told, partition_counts)
    for each in told:
        of_theirs = assigned_partitions(expected[each.member_id].encode()) if each.member_id in expected else []
        assert sorted(assigned_partitions(ours[each.member_id])) == sorted(of_theirs)

"""Every API of classic groups, request by request, with the answers that Apache Kafka 4.3.1 gives.

BARNABAS_TEST_BOOTSTRAP names another broker to ask, which is how these answers were checked.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator

import group_wire as groups
import pytest
from broker_process import wait_until
from group_wire import subscription
from wire import Wire, batch, create_topic, leaders, produce

from barnabas.errors import ErrorCode
from barnabas.protocol.messages.offset_fetch import OffsetFetchRequest
from barnabas.types import ZERO_UUID

_numbers = itertools.count(1)
OPERATIONS_NOT_ASKED = -(2**31)


@pytest.fixture
def wire(served: str) -> Iterator[Wire]:
    with Wire(served) as wire:
        yield wire


@pytest.fixture
def group(wire: Wire) -> str:
    name = f"group.{os.getpid()}.{next(_numbers)}"
    groups.await_coordinator(wire, name)
    return name


@pytest.fixture
def topic(wire: Wire, topic_name: Callable[[], str]) -> str:
    name = topic_name()
    create_topic(wire, name, partitions=3)
    wait_until(lambda: leaders(wire, name), f"{name} is known to the broker that made it")
    return name


def stable(wire: Wire, group: str, **settings: object) -> tuple[str, int]:
    """A group of one member, which has its assignment."""
    joined = groups.join(wire, group, **settings)
    assert joined.error_code == 0
    assert joined.leader == joined.member_id
    synced = groups.sync(
        wire,
        group,
        joined.member_id,
        joined.generation_id,
        {joined.member_id: b"all of it"},
        protocol_type=joined.protocol_type or "consumer",
        protocol=joined.protocol_name,
    )
    assert (synced.error_code, synced.assignment) == (0, b"all of it")
    return joined.member_id, joined.generation_id


# FindCoordinator


@pytest.mark.parametrize("version", range(7))
def test_find_coordinator(wire: Wire, group: str, version: int) -> None:
    found = groups.find_coordinator(wire, group, version)
    host, port = wire.socket.getpeername()
    assert (found.error_code, found.host, found.port) == (0, host, port)
    assert found.node_id >= 0
    assert found.error_message == ("" if version in (0, 4, 5, 6) else "NONE")


def test_nothing_else_than_groups_and_transactions_has_a_coordinator(wire: Wire) -> None:
    found = groups.find_coordinator(wire, "any", version=5, key_type=2)
    assert (found.error_code, found.node_id, found.host, found.port) == (ErrorCode.INVALID_REQUEST, -1, "", -1)


# One member's life, at every version


@pytest.mark.parametrize("version", range(10))
def test_a_member_at_every_version(wire: Wire, group: str, topic: str, version: int) -> None:
    joined = groups.join(wire, group, version=version, protocols=(("range", subscription(topic)),))
    member = joined.member_id
    assert (joined.error_code, joined.generation_id, joined.protocol_name) == (0, 1, "range")
    assert joined.protocol_type == ("consumer" if version >= 7 else None)
    assert joined.leader == member
    assert [(each.member_id, each.metadata) for each in joined.members] == [(member, subscription(topic))]
    sync_version = min(version, 5)
    synced = groups.sync(wire, group, member, 1, {member: b"part"}, version=sync_version)
    assert (synced.error_code, synced.assignment) == (0, b"part")
    assert synced.protocol_name == ("range" if sync_version >= 5 else None)
    assert groups.heartbeat(wire, group, member, 1, version=min(version, 4)) == 0
    described = groups.describe(wire, group, min(version, 6))
    assert (described.error_code, described.group_state, described.protocol_data) == (0, "Stable", "range")
    assert [(each.member_id, each.client_id, each.member_assignment) for each in described.members] == [
        (member, "wire", b"part")
    ]
    assert described.members[0].client_host == "/127.0.0.1"
    assert groups.listed(wire, group, min(version, 5)).protocol_type == "consumer"
    left = groups.leave(wire, group, (member, None), version=min(version, 5))
    assert left.error_code == 0
    assert [each.error_code for each in left.members] == ([0] if version >= 3 else [])
    assert groups.heartbeat(wire, group, member, 1) == ErrorCode.UNKNOWN_MEMBER_ID
    assert groups.describe(wire, group).group_state == "Empty"
    assert groups.delete_group(wire, group, min(version, 2)) == 0
    assert groups.listed(wire, group) is None


@pytest.mark.parametrize("version", range(4, 10))
def test_an_id_is_given_before_a_member_may_join(wire: Wire, group: str, version: int) -> None:
    first = wire.call(groups.join_request(group), version)
    assert first.error_code == ErrorCode.MEMBER_ID_REQUIRED
    assert first.member_id.startswith("wire-")
    wait_until(lambda: groups.describe(wire, group).group_state == "Empty", "the group exists, without members")
    second = wire.call(groups.join_request(group, first.member_id), version)
    assert (second.error_code, second.member_id) == (0, first.member_id)


def test_before_version_4_a_member_joins_at_once(wire: Wire, group: str) -> None:
    joined = wire.call(groups.join_request(group), 3)
    assert (joined.error_code, joined.generation_id) == (0, 1)
    assert joined.member_id.startswith("wire-")


def test_groups_of_any_protocol_type(wire: Wire, group: str) -> None:
    """Connect's workers are such."""
    protocols = (("sessioned", b"\x00\x01"), ("compatible", b"\x00\x02"))
    member, generation = stable(wire, group, protocol_type="connect", protocols=protocols)
    described = groups.describe(wire, group)
    assert (described.protocol_type, described.protocol_data) == ("connect", "sessioned")
    assert described.members[0].member_metadata == b"\x00\x01"
    assert groups.heartbeat(wire, group, member, generation) == 0


# Bad input to JoinGroup


def test_join_refuses(wire: Wire, group: str) -> None:
    def error(name: str = group, member: str = "", **settings: object) -> int:
        code: int = wire.call(groups.join_request(name, member, **settings), groups.JOIN_VERSION).error_code
        return code

    assert error("") == ErrorCode.INVALID_GROUP_ID
    assert error(session_ms=5_999) == ErrorCode.INVALID_SESSION_TIMEOUT
    assert error(session_ms=1_800_001) == ErrorCode.INVALID_SESSION_TIMEOUT
    assert error(member="nobody") == ErrorCode.UNKNOWN_MEMBER_ID
    assert error(protocols=()) == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert error(protocol_type="") == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    stable(wire, group)
    assert error(member="nobody") == ErrorCode.UNKNOWN_MEMBER_ID
    assert error(protocols=(("roundrobin", b""),)) == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert error(protocol_type="connect") == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert error(member="nobody", instance="unknown") == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_refused_join_names_no_protocol(wire: Wire, group: str) -> None:
    for version, nothing in ((6, ""), (7, None), (9, None)):
        refused = wire.call(groups.join_request(group, session_ms=1), version)
        assert (refused.error_code, refused.protocol_name) == (ErrorCode.INVALID_SESSION_TIMEOUT, nothing)
        assert (refused.generation_id, refused.leader, refused.members) == (-1, "", [])


# SyncGroup and Heartbeat


def test_sync_refuses(wire: Wire, group: str) -> None:
    assert groups.sync(wire, "", "m", 1).error_code == ErrorCode.INVALID_GROUP_ID
    assert groups.sync(wire, group, "m", 1).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    member, generation = stable(wire, group)
    assert groups.sync(wire, group, "nobody", generation).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert groups.sync(wire, group, member, generation + 1).error_code == ErrorCode.ILLEGAL_GENERATION
    assert groups.sync(wire, group, member, generation - 1).error_code == ErrorCode.ILLEGAL_GENERATION
    inconsistent = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert groups.sync(wire, group, member, generation, protocol="roundrobin").error_code == inconsistent
    assert groups.sync(wire, group, member, generation, protocol_type="connect").error_code == inconsistent
    assert groups.sync(wire, group, member, generation, protocol=None).error_code == inconsistent
    assert groups.sync(wire, group, member, generation, instance="i").error_code == ErrorCode.UNKNOWN_MEMBER_ID
    again = groups.sync(wire, group, member, generation)
    assert (again.error_code, again.assignment) == (0, b"all of it")


def test_heartbeat_refuses(wire: Wire, group: str) -> None:
    assert groups.heartbeat(wire, "", "m", 1) == ErrorCode.INVALID_GROUP_ID
    assert groups.heartbeat(wire, group, "m", 1) == ErrorCode.UNKNOWN_MEMBER_ID
    member, generation = stable(wire, group)
    assert groups.heartbeat(wire, group, "nobody", generation) == ErrorCode.UNKNOWN_MEMBER_ID
    assert groups.heartbeat(wire, group, member, generation + 1) == ErrorCode.ILLEGAL_GENERATION
    assert groups.heartbeat(wire, group, member, generation, "i") == ErrorCode.UNKNOWN_MEMBER_ID


# Two members


def test_a_second_member_makes_the_first_rejoin(served: str, wire: Wire, group: str) -> None:
    first, generation = stable(wire, group)
    with Wire(served) as other:
        second = other.call(groups.join_request(group), groups.JOIN_VERSION).member_id
        assert groups.heartbeat(wire, group, first, generation) == 0, "an id alone disturbs nobody"
        other.send(groups.join_request(group, second), groups.JOIN_VERSION)
        while groups.heartbeat(wire, group, first, generation) == 0:
            pass
        assert groups.heartbeat(wire, group, first, generation) == ErrorCode.REBALANCE_IN_PROGRESS
        assert groups.sync(wire, group, first, generation).error_code == ErrorCode.REBALANCE_IN_PROGRESS
        assert groups.describe(wire, group).group_state == "PreparingRebalance"
        rejoined = groups.join(wire, group, first)
        _, joined = other.receive(rejoined.API_KEY, groups.JOIN_VERSION)
        assert (rejoined.generation_id, joined.generation_id) == (generation + 1, generation + 1)
        assert rejoined.leader == joined.leader == first
        assert {each.member_id for each in rejoined.members} == {first, second}
        assert joined.members == []
        assert groups.describe(wire, group).group_state == "CompletingRebalance"
        other.send(groups.sync_request(group, second, generation + 1), groups.SYNC_VERSION)
        synced = groups.sync(wire, group, first, generation + 1, {second: b"hers", first: b"his"})
        _, other_synced = other.receive(synced.API_KEY, groups.SYNC_VERSION)
        assert (synced.assignment, other_synced.assignment) == (b"his", b"hers")


def test_leaving_in_a_batch(served: str, wire: Wire, group: str) -> None:
    member, _generation = stable(wire, group)
    pending = wire.call(groups.join_request(group), groups.JOIN_VERSION).member_id
    left = groups.leave(wire, group, ("nobody", None), ("", "no instance"), ("", None), (pending, None), (member, None))
    unknown = ErrorCode.UNKNOWN_MEMBER_ID
    assert [each.error_code for each in left.members] == [unknown, unknown, unknown, 0, 0]
    assert groups.leave(wire, group, (member, None), version=2).error_code == unknown
    missing = groups.leave(wire, f"{group}-missing", (member, None))
    assert (missing.error_code, [each.error_code for each in missing.members]) == (0, [unknown])
    assert groups.leave(wire, "", (member, None)).error_code == ErrorCode.INVALID_GROUP_ID


# Static members


def test_a_static_member_comes_back_without_a_rebalance(served: str, wire: Wire, group: str) -> None:
    former, generation = stable(wire, group, instance="one")
    assert former.startswith("one-")
    with Wire(served) as restarted:
        back = restarted.call(groups.join_request(group, instance="one"), groups.JOIN_VERSION)
        assert (back.error_code, back.generation_id, back.leader) == (0, generation, back.member_id)
        assert back.skip_assignment
        assert [each.group_instance_id for each in back.members] == ["one"]
        assert back.member_id != former
        synced = groups.sync(restarted, group, back.member_id, generation, instance="one")
        assert (synced.error_code, synced.assignment) == (0, b"all of it")
        fenced = ErrorCode.FENCED_INSTANCE_ID
        assert groups.heartbeat(wire, group, former, generation, "one") == fenced
        assert groups.sync(wire, group, former, generation, instance="one").error_code == fenced
        assert groups.join(wire, group, former, instance="one").error_code == fenced
        left = groups.leave(wire, group, (former, "one"))
        assert [each.error_code for each in left.members] == [fenced]
        assert groups.heartbeat(wire, group, former, generation) == ErrorCode.UNKNOWN_MEMBER_ID
        assert groups.heartbeat(restarted, group, back.member_id, generation, "one") == 0


@pytest.mark.parametrize("version", [5, 8])
def test_before_version_9_a_static_leader_comes_back_as_a_follower(wire: Wire, group: str, version: int) -> None:
    former, generation = stable(wire, group, instance="one", version=version)
    back = wire.call(groups.join_request(group, instance="one"), version)
    assert (back.error_code, back.generation_id, back.leader, back.members) == (0, generation, former, [])
    assert groups.sync(wire, group, back.member_id, generation, instance="one").assignment == b"all of it"


def test_a_static_member_with_other_protocols_makes_the_others_rejoin(wire: Wire, group: str) -> None:
    both = (("range", b""), ("sticky", b""))
    _former, generation = stable(wire, group, instance="one", protocols=both)
    back = wire.call(groups.join_request(group, instance="one", protocols=both[::-1]), groups.JOIN_VERSION)
    assert (back.error_code, back.generation_id, back.protocol_name) == (0, generation + 1, "sticky")


def test_an_administrator_removes_a_static_member(wire: Wire, group: str) -> None:
    member, generation = stable(wire, group, instance="one")
    left = groups.leave(wire, group, ("", "one"))
    assert [(each.member_id, each.group_instance_id, each.error_code) for each in left.members] == [("", "one", 0)]
    assert groups.heartbeat(wire, group, member, generation, "one") == ErrorCode.UNKNOWN_MEMBER_ID


# Committed offsets


@pytest.mark.parametrize("version", range(2, 11))
def test_commit_and_fetch_at_every_version(wire: Wire, group: str, topic: str, version: int) -> None:
    name: str | bytes = groups.topic_id(wire, topic) if version >= 10 else topic
    committed = groups.commit(
        wire, group, {(name, 0): 42, (name, 2): 7}, metadata="note", leader_epoch=0, version=version
    )
    assert committed == {(name, 0): 0, (name, 2): 0}
    for fetch_version in range(1, 11):
        epoch = 0 if min(version, 6) == 6 and fetch_version >= 5 else -1
        fetched_name: str | bytes = groups.topic_id(wire, topic) if fetch_version >= 10 else topic
        answer = groups.fetch(wire, group, {fetched_name: [0, 1, 2]}, version=fetch_version)
        assert answer == (
            0,
            {
                (fetched_name, 0): (42, epoch, "note", 0),
                (fetched_name, 1): (-1, -1, "", 0),
                (fetched_name, 2): (7, epoch, "note", 0),
            },
        )
        if fetch_version >= 2:
            _error, everything = groups.fetch(wire, group, None, version=fetch_version)
            assert {place: each[0] for place, each in everything.items()} == {
                (fetched_name, 0): 42,
                (fetched_name, 2): 7,
            }


def test_a_group_that_only_keeps_offsets(wire: Wire, group: str, topic: str) -> None:
    assert groups.commit(wire, group, {(topic, 0): 5}) == {(topic, 0): 0}
    described = groups.describe(wire, group)
    assert (described.error_code, described.group_state, described.protocol_type) == (0, "Empty", "")
    listed = groups.listed(wire, group)
    assert (listed.protocol_type, listed.group_state, listed.group_type) == ("", "Empty", "classic")
    assert groups.delete_offsets(wire, group, {topic: [0, 1]}) == (0, {(topic, 0): 0, (topic, 1): 0})
    assert groups.fetch(wire, group, {topic: [0]}) == (0, {(topic, 0): (-1, -1, "", 0)})
    assert groups.delete_group(wire, group) == 0


def test_odd_offsets(wire: Wire, group: str, topic: str) -> None:
    """Kafka keeps whatever number it is given."""
    assert groups.commit(wire, group, {(topic, 0): -5, (topic, 1): -1, (topic, 2): 2**62}) == {
        (topic, 0): 0,
        (topic, 1): 0,
        (topic, 2): 0,
    }
    _error, fetched = groups.fetch(wire, group, {topic: [0, 1, 2]})
    assert [fetched[topic, index][0] for index in range(3)] == [-5, -1, 2**62]


def test_metadata_has_a_limit(wire: Wire, group: str, topic: str) -> None:
    assert groups.commit(wire, group, {(topic, 0): 1}, metadata="x" * 4096) == {(topic, 0): 0}
    too_large = ErrorCode.OFFSET_METADATA_TOO_LARGE
    assert groups.commit(wire, group, {(topic, 0): 2}, metadata="x" * 4097) == {(topic, 0): too_large}
    assert groups.commit(wire, group, {(topic, 0): 3}, metadata="é" * 4096) == {(topic, 0): 0}
    assert groups.commit(wire, group, {(topic, 0): 4}, metadata="😀" * 2049) == {(topic, 0): too_large}
    assert groups.fetch(wire, group, {topic: [0]})[1][topic, 0][0] == 3


def test_commit_refuses_what_does_not_exist(wire: Wire, group: str, topic: str) -> None:
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert groups.commit(wire, group, {(topic, 0): 1, (topic, 3): 1, ("missing", 0): 1}) == {
        (topic, 0): 0,
        (topic, 3): unknown,
        ("missing", 0): unknown,
    }
    number, strange = groups.topic_id(wire, topic), bytes(range(16))
    assert groups.commit(wire, group, {(number, 1): 1, (number, 3): 1, (strange, 0): 1}, version=10) == {
        (number, 1): 0,
        (number, 3): unknown,
        (strange, 0): ErrorCode.UNKNOWN_TOPIC_ID,
    }


def test_commit_refuses_members_of_another_time(wire: Wire, group: str, topic: str) -> None:
    def error(**settings: object) -> int:
        ((_place, code),) = groups.commit(wire, group, {(topic, 0): 1}, **settings).items()
        return code

    assert error(generation=1, member="m") == ErrorCode.GROUP_ID_NOT_FOUND
    assert error(generation=1, member="m", version=8) == ErrorCode.ILLEGAL_GENERATION
    member, generation = stable(wire, group, instance="one")
    assert error() == ErrorCode.UNKNOWN_MEMBER_ID
    assert error(generation=generation, member="nobody") == ErrorCode.UNKNOWN_MEMBER_ID
    assert error(generation=generation + 1, member=member) == ErrorCode.ILLEGAL_GENERATION
    assert error(generation=generation, member="former", instance="one") == ErrorCode.FENCED_INSTANCE_ID
    assert error(generation=generation, member=member, instance="two") == ErrorCode.UNKNOWN_MEMBER_ID
    assert error(generation=generation, member=member, instance="one") == 0
    assert error(generation=generation, member=member) == 0


def test_commit_during_a_rebalance(wire: Wire, group: str, topic: str) -> None:
    joined = groups.join(wire, group)
    answer = groups.commit(wire, group, {(topic, 0): 1}, member=joined.member_id, generation=joined.generation_id)
    assert answer == {(topic, 0): ErrorCode.REBALANCE_IN_PROGRESS}


def test_fetch_of_what_is_not_there(wire: Wire, group: str, topic: str) -> None:
    nothing = (-1, -1, "", 0)
    assert groups.fetch(wire, group, {topic: [0], "missing": [7]}) == (
        0,
        {(topic, 0): nothing, ("missing", 7): nothing},
    )
    assert groups.fetch(wire, group, None) == (0, {})
    strange = bytes(range(16))
    assert groups.fetch(wire, group, {strange: [0]}, version=10) == (
        0,
        {(strange, 0): (-1, -1, "", ErrorCode.UNKNOWN_TOPIC_ID)},
    )
    assert groups.fetch(wire, group, {topic: [0]}, require_stable=True) == (0, {(topic, 0): nothing})


def test_fetch_of_many_groups(wire: Wire, group: str, topic: str) -> None:
    groups.commit(wire, group, {(topic, 0): 5})
    request = OffsetFetchRequest(
        groups=[groups.fetch_group(group, {topic: [0]}), groups.fetch_group(f"{group}-missing", None)]
    )
    first, second = wire.call(request, 8).groups
    assert (first.group_id, first.topics[0].partitions[0].committed_offset) == (group, 5)
    assert (second.group_id, second.topics, second.error_code) == (f"{group}-missing", [], 0)


def test_old_clients_may_set_a_retention(wire: Wire, group: str, topic: str) -> None:
    assert groups.commit(wire, group, {(topic, 0): 9}, retention_ms=3_600_000, version=4) == {(topic, 0): 0}
    assert groups.fetch(wire, group, {topic: [0]})[1][topic, 0][0] == 9
    for_ever = 2**63 - 1
    assert groups.commit(wire, group, {(topic, 0): 10}, retention_ms=for_ever, version=2) == {(topic, 0): 0}


def test_offsets_of_a_topic_that_is_subscribed_to_stay(wire: Wire, group: str, topic: str) -> None:
    missing = f"{group}-missing"
    assert groups.delete_offsets(wire, missing, {topic: [0]}) == (ErrorCode.GROUP_ID_NOT_FOUND, {})
    assert groups.delete_offsets(wire, "", {topic: [0]}) == (ErrorCode.INVALID_GROUP_ID, {})
    member, generation = stable(wire, group, protocols=(("range", subscription(topic)),))
    groups.commit(wire, group, {(topic, 0): 1}, member=member, generation=generation)
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert groups.delete_offsets(wire, group, {topic: [0, 9], "missing": [0]}) == (
        0,
        {
            (topic, 0): ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC,
            (topic, 9): unknown,
            ("missing", 0): unknown,
        },
    )
    groups.leave(wire, group, (member, None))
    assert groups.delete_offsets(wire, group, {topic: [0]}) == (0, {(topic, 0): 0})
    assert groups.fetch(wire, group, None) == (0, {})


def test_offsets_of_workers_stay_while_they_work(wire: Wire, group: str, topic: str) -> None:
    stable(wire, group, protocol_type="connect")
    assert groups.delete_offsets(wire, group, {topic: [0]}) == (ErrorCode.NON_EMPTY_GROUP, {})


# Administration


def test_describe_what_is_not_there(wire: Wire, group: str) -> None:
    older = groups.describe(wire, group, 5)
    assert (older.error_code, older.group_state, older.members) == (0, "Dead", [])
    newer = groups.describe(wire, group, 6)
    assert (newer.error_code, newer.group_state) == (ErrorCode.GROUP_ID_NOT_FOUND, "Dead")
    assert newer.error_message == f"Group {group} not found."


def test_describe_with_operations(wire: Wire, group: str) -> None:
    stable(wire, group)
    assert groups.describe(wire, group, 6).authorized_operations == OPERATIONS_NOT_ASKED
    operations = groups.describe(wire, group, 6, operations=True).authorized_operations
    assert operations == sum(1 << bit for bit in (3, 6, 8, 10, 11))


def test_list_by_state_and_type(wire: Wire, group: str) -> None:
    member, _generation = stable(wire, group)
    assert groups.listed(wire, group, states=("Stable",)).group_state == "Stable"
    assert groups.listed(wire, group, states=("stable", "Empty")) is not None
    assert groups.listed(wire, group, states=("Empty",)) is None
    assert groups.listed(wire, group, states=("nonsense",)) is None
    assert groups.listed(wire, group, types=("classic",)).group_type == "classic"
    assert groups.listed(wire, group, types=("Consumer",)) is None
    assert groups.listed(wire, group, types=("nonsense",)) is None
    groups.leave(wire, group, (member, None))
    assert groups.listed(wire, group, states=("Empty",), types=("Classic",)) is not None


def test_delete_groups(wire: Wire, group: str, topic: str) -> None:
    assert groups.delete_group(wire, group) == ErrorCode.GROUP_ID_NOT_FOUND
    member, generation = stable(wire, group)
    groups.commit(wire, group, {(topic, 0): 1}, member=member, generation=generation)
    assert groups.delete_group(wire, group) == ErrorCode.NON_EMPTY_GROUP
    groups.leave(wire, group, (member, None))
    assert groups.delete_group(wire, group) == 0
    assert groups.fetch(wire, group, {topic: [0]}) == (0, {(topic, 0): (-1, -1, "", 0)})
    assert groups.describe(wire, group, 5).group_state == "Dead"


def test_ids_are_not_confused_with_names(wire: Wire, group: str, topic: str) -> None:
    """An answer by id names no topic, and one by name has no id."""
    number = groups.topic_id(wire, topic)
    assert number != ZERO_UUID
    groups.commit(wire, group, {(number, 0): 3}, version=10)
    assert groups.fetch(wire, group, {topic: [0]}, version=9)[1][topic, 0][0] == 3
    assert groups.fetch(wire, group, {number: [0]}, version=10)[1][number, 0][0] == 3


def test_clients_cannot_write_to_the_topic_of_offsets(wire: Wire, group: str) -> None:
    answer = produce(wire, "__consumer_offsets", {0: batch(b"nonsense")})
    assert answer[0].error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
